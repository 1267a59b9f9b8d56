//! What `watch` remembers of a transcript, and what it says of two looks at it. Pure.
//!
//! A branch is known by the leaf that it had when it was first seen, its *origin*: a leaf below an old one continues
//! that branch and is nothing new. A *second writer* is recognised from the records alone: two branches were written in
//! turns, so that what each has for itself overlaps in the file, and at least one of them has grown since the last look.
//! One writer who goes back and forth between two branches leaves the same trace.

use hashbrown::{HashMap, HashSet};
use serde_json::{Value, json};

use crate::{
    record::{Agent, RecordId},
    topology::{Inspection, Tree},
    transcript::Transcript,
};

/// A leaf, and the leaf by which its branch is known.
struct Leaf {
    uuid: RecordId,
    origin: RecordId,
    point: Option<RecordId>,
    /// Leaves that it was written in turns with.
    turns: Vec<RecordId>,
    last: Option<String>,
}

/// What the client would resume.
#[derive(Clone)]
struct Pick {
    tail: RecordId,
    leaf: Option<RecordId>,
}

/// The branches at one look.
pub(super) struct Branches {
    agent: Agent,
    session: String,
    bytes: u64,
    leaves: Vec<Leaf>,
    pick: Option<Pick>,
}

/// One line to say.
pub(super) struct Event {
    pub name: &'static str,
    pub rest: Value,
}

impl Branches {
    pub fn new(inspection: &Inspection) -> Branches {
        let leaf = |b: &crate::topology::Branch| Leaf {
            uuid: b.leaf_uuid.clone(),
            origin: b.leaf_uuid.clone(),
            point: b.branch_point_uuid.clone(),
            turns: b.interleaved_with.clone().unwrap_or_default(),
            last: b.last_message_at.clone(),
        };
        Branches {
            agent: inspection.agent,
            session: inspection.session_id.clone(),
            bytes: inspection.snapshot.bytes,
            leaves: inspection.branches.iter().map(leaf).collect(),
            pick: inspection
                .client_pick
                .as_ref()
                .map(|pick| Pick { tail: pick.tail_uuid.clone(), leaf: pick.leaf_uuid.clone() }),
        }
    }

    /// The whole state; `why` it is told again.
    pub fn state(&self, why: Option<&str>) -> Event {
        let leaves: Vec<&RecordId> = self.leaves.iter().map(|leaf| &leaf.uuid).collect();
        let mut rest = json!({
            "agent": self.agent, "sessionId": self.session, "bytes": self.bytes, "leaves": leaves,
            "clientPick": picked(self.pick.as_ref()),
        });
        if let Some(why) = why {
            rest["why"] = json!(why);
        }
        Event { name: "state", rest }
    }

    /// What is new in this look, which is of `t`, since another look at the same file; branches that were there
    /// keep their origin.
    pub fn since(&mut self, before: &Branches, t: &Transcript, tree: &Tree<'_>) -> Vec<Event> {
        self.inherit(before, t, tree);
        let known: HashSet<&RecordId> = before.leaves.iter().map(|leaf| &leaf.origin).collect();
        let mut events = Vec::new();
        for leaf in self.leaves.iter().filter(|leaf| !known.contains(&leaf.origin)) {
            let rest =
                json!({"leafUuid": leaf.uuid, "branchPointUuid": leaf.point, "lastMessageAt": leaf.last});
            events.push(Event { name: "new-leaf", rest });
        }
        self.second_writers(before, &mut events);
        let (was, is) = (before.place(), self.place());
        if was != is {
            let rest = json!({"from": picked(before.pick.as_ref()), "to": picked(self.pick.as_ref())});
            events.push(Event { name: "client-pick", rest });
        }
        events
    }

    /// A leaf below an old one continues its branch; of several below one, the first in the file.
    fn inherit(&mut self, before: &Branches, t: &Transcript, tree: &Tree<'_>) {
        let mut at: HashMap<RecordId, usize> =
            self.leaves.iter().enumerate().map(|(ix, leaf)| (leaf.uuid.clone(), ix)).collect();
        for old in &before.leaves {
            let below = || t.ids.find(old.uuid.as_str()).map(|id| tree.leaves_with(id)).unwrap_or_default();
            let same = at.contains_key(&old.uuid).then(|| old.uuid.clone());
            let heir = same.or_else(|| below().into_iter().map(|id| t.id(id)).find(|id| at.contains_key(id)));
            if let Some(ix) = heir.and_then(|heir| at.remove(&heir)) {
                self.leaves[ix].origin = old.origin.clone();
            }
        }
    }

    fn second_writers(&self, before: &Branches, events: &mut Vec<Event>) {
        let grew: HashSet<&RecordId> = {
            let old: HashSet<&RecordId> = before.leaves.iter().map(|leaf| &leaf.uuid).collect();
            self.leaves.iter().map(|leaf| &leaf.uuid).filter(|uuid| !old.contains(uuid)).collect()
        };
        let known = before.pairs();
        let leaves = self.by_uuid();
        for (ix, leaf) in self.leaves.iter().enumerate() {
            for other in &leaf.turns {
                let Some(&(place, its)) = leaves.get(other) else { continue };
                let pair = ordered(&leaf.origin, &its.origin);
                // Each pair once: by the leaf that comes first.
                if ix < place && !known.contains(&pair) && (grew.contains(&leaf.uuid) || grew.contains(other))
                {
                    events.push(Event {
                        name: "second-writer",
                        rest: json!({"leafUuids": [leaf.uuid, other], "evidence": "written in turns"}),
                    });
                }
            }
        }
    }

    fn by_uuid(&self) -> HashMap<&RecordId, (usize, &Leaf)> {
        self.leaves.iter().enumerate().map(|(ix, leaf)| (&leaf.uuid, (ix, leaf))).collect()
    }

    /// The branches that were written in turns, by their origins.
    fn pairs(&self) -> HashSet<(&RecordId, &RecordId)> {
        let leaves = self.by_uuid();
        let pairs = self.leaves.iter().flat_map(|leaf| leaf.turns.iter().map(move |other| (leaf, other)));
        pairs.filter_map(|(leaf, other)| Some(ordered(&leaf.origin, &leaves.get(other)?.1.origin))).collect()
    }

    /// The branch that the client would go on in, or the record where that is the end of none.
    fn place(&self) -> Option<RecordId> {
        let pick = self.pick.as_ref()?;
        let leaf = pick.leaf.as_ref().and_then(|uuid| self.leaves.iter().find(|leaf| &leaf.uuid == uuid));
        Some(leaf.map_or_else(|| pick.tail.clone(), |leaf| leaf.origin.clone()))
    }
}

fn ordered<'a>(one: &'a RecordId, other: &'a RecordId) -> (&'a RecordId, &'a RecordId) {
    if one <= other { (one, other) } else { (other, one) }
}

fn picked(pick: Option<&Pick>) -> Value {
    pick.map_or(Value::Null, |pick| json!({"tailUuid": pick.tail, "leafUuid": pick.leaf}))
}
