//! Texts and times of a chain. A body is decoded only where a summary needs it, and what many leaves share is
//! looked for once.

use std::io;

use hashbrown::HashMap;

use super::{
    fold::Fold,
    nodes::{Bits, NONE, Node, Nodes},
    segments::{SegIx, Segments},
};
use crate::{
    dialect::{Decoded, Dialect},
    record::RecordKind,
    transcript::{Flags, RecordIx, Source, Window},
};

/// Decodes records, and remembers the last ones.
pub(super) struct Bodies<'a> {
    nodes: &'a Nodes<'a>,
    window: Window<'a>,
    dialect: &'a dyn Dialect,
    /// With whether their texts are whole.
    recent: Vec<(RecordIx, Decoded, bool)>,
    /// Round robin over `recent`.
    next: usize,
}

/// How much of a text is decoded at first, in bytes: what is shown of it is far less, unless it is nearly all white space.
const BEGINNING: usize = 768;

/// A leaf, its terminal, its last message and its first prompt are often the same few records.
const RECENT: usize = 4;

impl<'a> Bodies<'a> {
    pub fn new(nodes: &'a Nodes<'a>, source: &'a dyn Source, dialect: &'a dyn Dialect) -> Self {
        Bodies { nodes, window: Window::new(source), dialect, recent: Vec::with_capacity(RECENT), next: 0 }
    }

    /// The decoded record, with no more than the beginnings of texts.
    pub fn get(&mut self, ix: RecordIx) -> io::Result<&Decoded> {
        Ok(&self.entry(ix)?.1)
    }

    fn entry(&mut self, ix: RecordIx) -> io::Result<&(RecordIx, Decoded, bool)> {
        let slot = match self.recent.iter().position(|&(r, ..)| r == ix) {
            Some(slot) => slot,
            None => {
                let bytes = self.window.bytes(self.nodes.t.record(ix).span)?;
                let (decoded, whole) = self.dialect.decode_beginning(bytes, BEGINNING);
                let entry = (ix, decoded, whole);
                self.next = (self.next + 1) % RECENT;
                if self.recent.len() < RECENT {
                    self.recent.push(entry);
                    self.recent.len() - 1
                } else {
                    self.recent[self.next] = entry;
                    self.next
                }
            }
        };
        Ok(&self.recent[slot])
    }

    /// The visible text of a uuid, folded and cut; none if it is blank.
    fn text(&mut self, n: Node) -> io::Result<Option<String>> {
        let nodes = self.nodes;
        let mut fold = Fold::default();
        for ix in nodes.voices(n) {
            if fold.full() {
                break;
            }
            let (_, decoded, whole) = self.entry(ix)?;
            let mut with = fold.clone();
            decoded.texts.iter().for_each(|piece| with.push(piece));
            if !with.full() && !whole {
                with = fold;
                let bytes = self.window.bytes(nodes.t.record(ix).span)?;
                self.dialect.decode(bytes).texts.iter().for_each(|piece| with.push(piece));
            }
            fold = with;
        }
        Ok(fold.finish())
    }
}

/// Whose text is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Voice {
    Person,
    Model,
}

/// Finds the texts and times of leaves.
pub(super) struct Summaries<'a> {
    nodes: &'a Nodes<'a>,
    segments: &'a Segments,
    pub bodies: Bodies<'a>,
    /// Texts of nodes that several leaves share; kept, because each of those leaves may ask.
    texts: HashMap<Node, String>,
    /// Texts of nodes of the leaf that is being looked at.
    own_texts: Vec<(Node, String)>,
    blank: Bits,
    times: HashMap<Node, Option<String>>,
    prompts: Nearest,
    replies: Nearest,
    messages: Nearest,
}

impl<'a> Summaries<'a> {
    pub fn new(nodes: &'a Nodes<'a>, segments: &'a Segments, bodies: Bodies<'a>) -> Self {
        let len = segments.all.len();
        Summaries {
            nodes,
            segments,
            bodies,
            texts: HashMap::new(),
            own_texts: Vec::new(),
            blank: Bits::new(nodes.len()),
            times: HashMap::new(),
            prompts: Nearest::new(len),
            replies: Nearest::new(len),
            messages: Nearest::new(len),
        }
    }

    /// `timestamp` of a node's first record.
    pub fn time(&mut self, n: Node) -> io::Result<Option<String>> {
        if let Some(known) = self.times.get(&n) {
            return Ok(known.clone());
        }
        let time = self.bodies.get(self.nodes.first(n))?.timestamp.clone();
        if self.shared(n) {
            self.times.insert(n, time.clone());
        }
        Ok(time)
    }

    /// Forgets what only the last leaf could ask for.
    pub fn next_leaf(&mut self) {
        self.own_texts.clear();
    }

    fn shared(&self, n: Node) -> bool {
        self.segments.of(n).is_some_and(|s| self.segments.get(s).leaves > 1)
    }

    fn known_text(&self, n: Node) -> Option<&String> {
        self.texts.get(&n).or_else(|| self.own_texts.iter().find(|(own, _)| *own == n).map(|(_, text)| text))
    }

    /// The first text of a person in the distinct part of a leaf.
    pub fn first_prompt(&mut self, leaf: SegIx) -> io::Result<Option<String>> {
        let mut candidates: Vec<Node> = Vec::new();
        let segments = self.segments;
        for ix in segments.distinct(leaf) {
            let root = segments.get(leaf).root;
            let seg = segments.get(ix);
            match seg.cycle {
                None => candidates.extend(seg.upward(self.nodes).filter(|&n| self.nodes.is_prompt(n))),
                Some(c) => {
                    let (before, after) =
                        self.nodes.cycles[c as usize].members.split_at(self.nodes.cycle_index(root));
                    candidates.extend(after.iter().chain(before).filter(|&&n| self.nodes.is_prompt(n)));
                }
            }
        }
        for n in candidates.into_iter().rev() {
            if self.speaks(n, Voice::Person)? {
                return Ok(self.known_text(n).cloned());
            }
        }
        Ok(None)
    }

    /// The latest text of a person on the chain.
    pub fn last_prompt(&mut self, leaf: SegIx) -> io::Result<Option<String>> {
        let mut memo = std::mem::take(&mut self.prompts);
        let found = self.nearest(&mut memo, leaf, &mut |s, n| s.speaks(n, Voice::Person));
        self.prompts = memo;
        Ok(found?.and_then(|n| self.known_text(n).cloned()))
    }

    /// The latest text of the model on the chain that is no thought.
    pub fn last_reply(&mut self, leaf: SegIx) -> io::Result<Option<String>> {
        let mut memo = std::mem::take(&mut self.replies);
        let found = self.nearest(&mut memo, leaf, &mut |s, n| s.speaks(n, Voice::Model));
        self.replies = memo;
        Ok(found?.and_then(|n| self.known_text(n).cloned()))
    }

    /// The last user, assistant or tool-result record of the chain.
    pub fn last_message(&mut self, leaf: SegIx) -> io::Result<Option<Node>> {
        let mut memo = std::mem::take(&mut self.messages);
        let found = self.nearest(&mut memo, leaf, &mut |s, n| Ok(s.nodes.is_message(n)));
        self.messages = memo;
        found
    }

    /// Whether a node has such a text; the text is kept.
    fn speaks(&mut self, n: Node, voice: Voice) -> io::Result<bool> {
        let of_voice = match voice {
            Voice::Person => self.nodes.is_prompt(n),
            Voice::Model => self.nodes.kind(n) == RecordKind::Assistant && !self.nodes.has(n, Flags::NEUTRAL),
        };
        if !of_voice || self.blank.get(n) {
            return Ok(false);
        }
        if self.known_text(n).is_some() {
            return Ok(true);
        }
        match self.bodies.text(n)? {
            Some(text) => {
                if self.shared(n) {
                    self.texts.insert(n, text);
                } else {
                    self.own_texts.push((n, text));
                }
                Ok(true)
            }
            None => {
                self.blank.set(n);
                Ok(false)
            }
        }
    }

    /// The nearest node, from the bottom of a segment up, for which `holds`. Each node is asked once for all leaves.
    fn nearest(
        &mut self,
        memo: &mut Nearest,
        from: SegIx,
        holds: &mut dyn FnMut(&mut Self, Node) -> io::Result<bool>,
    ) -> io::Result<Option<Node>> {
        let segments = self.segments;
        let mut walked = Vec::new();
        let mut found = NONE;
        for ix in segments.up(from) {
            let seg = segments.get(ix);
            if seg.cycle.is_some() {
                found = self.nearest_on_cycle(memo, segments.get(from).root, holds)?;
                break;
            }
            if memo.by_segment[ix as usize] != Nearest::UNASKED {
                found = memo.by_segment[ix as usize];
                break;
            }
            walked.push(ix);
            for n in seg.upward(self.nodes) {
                if holds(self, n)? {
                    found = n;
                    break;
                }
            }
            if found != NONE {
                break;
            }
        }
        for ix in walked {
            memo.by_segment[ix as usize] = found;
        }
        Ok(Some(found).filter(|&n| n != NONE))
    }

    fn nearest_on_cycle(
        &mut self,
        memo: &mut Nearest,
        entry: Node,
        holds: &mut dyn FnMut(&mut Self, Node) -> io::Result<bool>,
    ) -> io::Result<Node> {
        if let Some(&known) = memo.on_cycle.get(&entry) {
            return Ok(known);
        }
        let c = self.nodes.components[self.nodes.component(entry) as usize].cycle;
        let members = &self.nodes.cycles[c.expect("BUG: the entry lies on a cycle") as usize].members;
        let (before, after) = members.split_at(self.nodes.cycle_index(entry));
        let (mut walked, mut found) = (Vec::new(), NONE);
        for &n in after.iter().chain(before) {
            if let Some(&known) = memo.on_cycle.get(&n) {
                found = known;
                break;
            }
            walked.push(n);
            if holds(self, n)? {
                found = n;
                break;
            }
        }
        memo.on_cycle.extend(walked.into_iter().map(|n| (n, found)));
        Ok(found)
    }
}

/// Answers to "which is the nearest at or above?".
#[derive(Default)]
struct Nearest {
    /// By segment, from its bottom: a node, `NONE`, or `UNASKED`.
    by_segment: Vec<Node>,
    /// By member of a cycle.
    on_cycle: HashMap<Node, Node>,
}

impl Nearest {
    const UNASKED: u32 = u32::MAX - 1;

    fn new(segments: usize) -> Self {
        Nearest { by_segment: vec![Self::UNASKED; segments], on_cycle: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        dialect::{Client, claude::Claude, qwen::Qwen},
        topology::inspect,
    };

    /// What is shown of a prompt of these parts, as `spelled` in its record.
    fn shown(dialect: &dyn Dialect, claude: bool, spelled: &[String]) -> Option<String> {
        let part = |text: &String| match claude {
            true => format!(r#"{{"type":"text","text":"{text}"}}"#),
            false => format!(r#"{{"text":"{text}"}}"#),
        };
        let parts = spelled.iter().map(part).collect::<Vec<_>>().join(",");
        let member = if claude { "content" } else { "parts" };
        let line = format!(
            r#"{{"uuid":"a","parentUuid":null,"sessionId":"s","type":"user","cwd":"/","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","{member}":[{parts}]}}}}{}"#,
            "\n"
        );
        let bytes = line.into_bytes();
        let t = dialect.read(&bytes).unwrap();
        let inspection = inspect(&t, &bytes, dialect, &Client::default()).unwrap();
        inspection.branches[0].first_user_text_after_branch_point.clone()
    }

    proptest! {
        #[test]
        fn however_long_a_text_is_spelled_what_follows_it_stands_behind_all_of_it(
            parts in prop::collection::vec(
                prop::collection::vec((prop::sample::select(vec!["\u{e9}", "x", " ", "B", "\u{5b57}"]), 1usize..900), 1..3),
                1..4,
            ),
            ascii in any::<bool>(),
        ) {
            let texts: Vec<String> =
                parts.iter().map(|runs| runs.iter().map(|&(c, n)| c.repeat(n)).collect()).collect();
            let spelled: Vec<String> = texts
                .iter()
                .map(|text| {
                    let escape = |c: char| if c.is_ascii() || !ascii { c.to_string() } else { format!("\\u{:04x}", c as u32) };
                    text.chars().map(escape).collect()
                })
                .collect();
            let mut fold = Fold::default();
            texts.iter().for_each(|text| fold.push(text));
            let whole = fold.finish();
            prop_assert_eq!(shown(&Qwen, false, &spelled), whole.clone(), "{}", json!(spelled));
            prop_assert_eq!(shown(&Claude, true, &spelled), whole);
        }
    }
}
