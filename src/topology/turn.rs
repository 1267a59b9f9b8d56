//! The state of the last turn of every leaf: is a tool call open since the last prompt?
//!
//! Calls are met in chain order. A call opens its id, a response closes its id and every call without an id. The set
//! of open ids at a branch point is shared by all leaves below it, so the tree of leaves is walked once, depth first,
//! and what a segment changed is taken back when it is left. Segments above the last prompt of every leaf are not
//! decoded at all, and neither are responses while nothing is open, nor leaves that end with a call.

use std::{io, rc::Rc};

use hashbrown::{HashMap, HashSet};

use super::{
    leaves::Leaves,
    nodes::{NONE, Node, Nodes},
    segments::{SegIx, Segment, Segments},
    summary::Bodies,
};
use crate::transcript::Flags;

type Ids = HashSet<Rc<str>>;

/// Whether each leaf has an open tool call, in the order of leaves.
pub(super) fn open_calls(
    nodes: &Nodes<'_>,
    segments: &Segments,
    leaves: &Leaves,
    bodies: &mut Bodies<'_>,
) -> io::Result<Vec<bool>> {
    let mut walk = Walk {
        nodes,
        segments,
        bodies,
        open: Ids::default(),
        undo: Vec::new(),
        children: Children::new(segments),
        result: vec![false; leaves.leaves.len()],
    };
    for ix in 0..segments.all.len() as u32 {
        if walk.children.starts_here(ix) {
            if segments.get(ix).cycle.is_some() {
                walk.cycle(ix)?;
            } else {
                walk.descend(ix)?;
            }
        }
    }
    Ok(walk.result)
}

/// The forest in which open ids are handed down: a segment with a prompt inherits nothing.
struct Children {
    /// Whether the open ids at the bottom are asked for by a leaf.
    needed: Vec<bool>,
    inherits: Vec<bool>,
    first: Vec<SegIx>,
    next: Vec<SegIx>,
}

impl Children {
    fn new(segments: &Segments) -> Self {
        let len = segments.all.len();
        let mut c = Children {
            needed: vec![false; len],
            inherits: vec![false; len],
            first: vec![NONE; len],
            next: vec![NONE; len],
        };
        let mut inner = vec![false; len];
        for seg in segments.all.iter().filter(|s| s.parent != NONE) {
            inner[seg.parent as usize] = true;
        }
        // Children have larger numbers than their parents.
        for ix in (0..len).rev() {
            let seg = &segments.all[ix];
            c.needed[ix] |= !inner[ix];
            if c.needed[ix] && !seg.prompt && seg.parent != NONE {
                let parent = seg.parent as usize;
                c.needed[parent] = true;
                c.inherits[ix] = true;
                c.next[ix] = c.first[parent];
                c.first[parent] = ix as u32;
            }
        }
        c
    }

    fn starts_here(&self, ix: SegIx) -> bool {
        self.needed[ix as usize] && !self.inherits[ix as usize]
    }

    fn of(&self, ix: SegIx) -> impl Iterator<Item = SegIx> + '_ {
        let some = |ix: SegIx| Some(ix).filter(|&ix| ix != NONE);
        std::iter::successors(some(self.first[ix as usize]), move |&ix| some(self.next[ix as usize]))
    }
}

struct Walk<'a, 'b> {
    nodes: &'a Nodes<'a>,
    segments: &'a Segments,
    bodies: &'a mut Bodies<'b>,
    open: Ids,
    /// Changes of `open`: (whether the id was put in, the id).
    undo: Vec<(bool, Rc<str>)>,
    children: Children,
    result: Vec<bool>,
}

impl Walk<'_, '_> {
    /// Walks the forest below and including `root`, and leaves `open` as it was.
    fn descend(&mut self, root: SegIx) -> io::Result<()> {
        enum Step {
            Enter(SegIx),
            Leave(usize),
        }
        let mut stack = vec![Step::Enter(root)];
        while let Some(step) = stack.pop() {
            match step {
                Step::Enter(ix) => {
                    stack.push(Step::Leave(self.undo.len()));
                    self.enter(ix)?;
                    stack.extend(self.children.of(ix).map(Step::Enter));
                }
                Step::Leave(keep) => {
                    for (inserted, id) in self.undo.drain(keep..).rev() {
                        if inserted {
                            self.open.remove(&id);
                        } else {
                            self.open.insert(id);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds what a segment opens and takes away what it closes; the net effect is kept for the way back.
    fn enter(&mut self, ix: SegIx) -> io::Result<()> {
        let seg = self.segments.get(ix);
        let nodes = self.nodes;
        let leaf = (seg.leaves == 1 && seg.cycle.is_none())
            .then(|| self.segments.by_place[seg.leaf_from as usize] as usize);
        if let Some(leaf) = leaf
            && self.ends_with_call(seg)
        {
            self.result[leaf] = true;
            return Ok(());
        }
        // From the last prompt on, root first.
        let mut path: Vec<Node> = Vec::new();
        for n in seg.upward(nodes) {
            path.push(n);
            if nodes.is_prompt(n) {
                break;
            }
        }
        let mut opened = Ids::default();
        for n in path.into_iter().rev() {
            let idle = self.open.is_empty() && opened.is_empty();
            self.calls(n, idle, |walk, call| match call {
                Call::Open(id) => {
                    opened.insert(id.into());
                }
                Call::Close(id) => {
                    opened.remove(id);
                    if let Some(id) = walk.open.take(id) {
                        walk.undo.push((false, id));
                    }
                }
            })?;
        }
        for id in opened {
            if self.open.insert(Rc::clone(&id)) {
                self.undo.push((true, id));
            }
        }
        if let Some(leaf) = leaf {
            self.result[leaf] = !self.open.is_empty();
        }
        Ok(())
    }

    /// Whether a call stands below the last response, so that it is open whatever its id is.
    fn ends_with_call(&self, seg: &Segment) -> bool {
        let nodes = self.nodes;
        for n in seg.upward(nodes) {
            let any = |flag| nodes.voices(n).any(|ix| nodes.t.record(ix).flags.has(flag));
            if any(Flags::RESPONSE) {
                return false;
            }
            if any(Flags::CALL) {
                return true;
            }
            if nodes.is_prompt(n) {
                return false;
            }
        }
        false
    }

    /// A cycle stands on the chain as a whole, and which member comes first depends on where the leaf enters. Running
    /// around twice gives the open ids at every member: only the last event of an id counts, and repeating the first
    /// member's events behind all others makes them the last ones.
    fn cycle(&mut self, ix: SegIx) -> io::Result<()> {
        let nodes = self.nodes;
        let c = self.segments.get(ix).cycle.expect("BUG: a cycle's segment");
        let members = &nodes.cycles[c as usize].members;
        let mut below: HashMap<Node, Vec<SegIx>> = HashMap::new();
        for child in self.children.of(ix) {
            below.entry(self.segments.get(child).attach).or_default().push(child);
        }
        for round in 0..2 {
            for &n in members.iter().rev() {
                if nodes.is_prompt(n) {
                    // Not `clear`, which steps on the whole capacity each time.
                    self.open = Ids::default();
                }
                let idle = self.open.is_empty();
                self.calls(n, idle, |walk, call| match call {
                    Call::Open(id) => {
                        walk.open.insert(id.into());
                    }
                    Call::Close(id) => {
                        walk.open.remove(id);
                    }
                })?;
                if round == 1 {
                    for child in below.remove(&n).into_iter().flatten() {
                        self.descend(child)?;
                    }
                }
            }
        }
        self.open = Ids::default();
        Ok(())
    }

    /// Tells the calls of a node, then its responses. `idle`: nothing is open, so that a response alone changes nothing.
    fn calls(&mut self, n: Node, idle: bool, mut tell: impl FnMut(&mut Self, Call<'_>)) -> io::Result<()> {
        let nodes = self.nodes;
        let matters = |flags: Flags| flags.has(Flags::CALL) || (!idle && flags.has(Flags::RESPONSE));
        if !nodes.voices(n).any(|ix| matters(nodes.t.record(ix).flags)) {
            return Ok(());
        }
        let mut responses = Vec::new();
        for ix in nodes.voices(n) {
            let flags = nodes.t.record(ix).flags;
            if !flags.has(Flags::CALL) && !flags.has(Flags::RESPONSE) {
                continue;
            }
            let body = self.bodies.get(ix)?;
            let calls = body.calls.clone();
            responses.extend(body.responses.iter().cloned());
            calls.iter().for_each(|id| tell(self, Call::Open(id)));
        }
        for id in responses {
            tell(self, Call::Close(&id));
            tell(self, Call::Close(""));
        }
        Ok(())
    }
}

enum Call<'a> {
    Open(&'a str),
    Close(&'a str),
}
