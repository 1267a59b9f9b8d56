//! From what was asked for to the place to cut at, on the source as it is now.

use serde_json::json;

use crate::{
    dialect,
    record::{Agent, RecordId, can_mean},
    refusal::{Code, Error, Refusal, Result},
    resume::{
        annotate::session_key,
        fork::{ForkAt, ForkRequest},
        targets::targets,
    },
    store::{ledger::entry::CutRecord, snapshot::Snapshot},
    topology::resolve_record,
    turns::{Anchor, Cut, Target, Targets},
};

/// Where a fork cuts.
pub(super) struct Found {
    /// The source's session id, which its ledger goes by.
    pub session_id: String,
    /// What the ledger keeps of it.
    pub cut: CutRecord,
    /// Bytes of the source that the child is made from.
    pub prefix: u64,
    /// `blake3:<hex>` of those bytes, where it is known already.
    pub digest: Option<String>,
}

impl Found {
    /// The id of the operation that a call without one means: the `nth` child of this place.
    pub fn derived_id(&self, request: &ForkRequest, nth: u64) -> String {
        let mut hasher = blake3::Hasher::new();
        let path = request.target.path.display().to_string();
        let (kind, name) = self.name();
        let (boundary, nth) = (self.cut.boundary.to_string(), nth.to_string());
        for part in [request.target.agent.name(), &path, kind, name, &boundary, &nth] {
            hasher.update(part.as_bytes());
            hasher.update(b"\0");
        }
        format!("fork-{}", &hasher.finalize().to_hex()[..32])
    }

    fn name(&self) -> (&'static str, &str) {
        match &self.cut.turn_id {
            Some(turn) => ("turn", turn),
            None => ("record", self.cut.asked.as_ref().unwrap_or(&self.cut.record).as_str()),
        }
    }
}

/// Looks for the place in the source, which somebody may be writing.
pub(super) fn find(request: &ForkRequest) -> Result<Found> {
    let path = &request.target.path;
    let dialect = dialect::of(request.target.agent);
    let snapshot = match &request.seen {
        // What was written behind it was not seen, and must not move the place.
        Some(seen) if request.target.agent != Agent::Reasonix => {
            Snapshot::take_up_to(path, dialect, seen.bytes)?
        }
        _ => Snapshot::take_alone(path, dialect, false)?,
    };
    let t = &snapshot.transcript;
    let session_id = session_key(t, path);
    // A turn is looked for among all of them; an anchor is held against them too.
    let all = match (&request.at, &request.expect) {
        (ForkAt::Record(_), None) => None,
        _ => Some(targets(dialect, &snapshot)?),
    };
    if let (Some(all), Some(anchor)) = (&all, &request.expect) {
        if let ForkAt::Turn(name) = &request.at
            && !anchor.turn_id.starts_with(name.as_str())
        {
            return Err(of_another_turn(anchor, name));
        }
        anchor.check(all)?;
    }
    match (&request.at, all) {
        (ForkAt::Turn(name), Some(all)) => {
            let target = meant(&all, name, request.expect.as_ref())?;
            let cut = target.cut()?;
            let digest = target.anchor.as_ref().map(|a| format!("blake3:{}", a.digest));
            Ok(Found {
                session_id,
                prefix: cut.prefix,
                digest,
                cut: CutRecord {
                    turn_id: Some(target.turn.id.clone()),
                    turn_number: Some(target.number),
                    asked: None,
                    record: cut.record.clone(),
                    boundary: target.turn.boundary,
                },
            })
        }
        (ForkAt::Record(name), _) => {
            let id = resolve_record(t, name)?;
            let cut = dialect.cut_at(t, &snapshot, id).map_err(Error::io("read", path))?;
            let Cut { record, prefix } = cut?;
            Ok(Found {
                session_id,
                prefix,
                digest: None,
                cut: CutRecord {
                    turn_id: None,
                    turn_number: None,
                    asked: Some(t.id(id)),
                    record,
                    boundary: prefix,
                },
            })
        }
        (ForkAt::Turn(_), None) => unreachable!("BUG: a turn is looked for among the targets"),
    }
}

/// The target that is asked for. An anchor tells apart what an id cannot: a log may have one id twice, and the name of one
/// turn may be the beginning of another's.
fn meant<'a>(all: &'a Targets, name: &str, anchor: Option<&Anchor>) -> Result<&'a Target> {
    let named = all.find(name)?;
    let Some(anchor) = anchor else { return Ok(named) };
    if named.turn.id != anchor.turn_id {
        return Err(of_another_turn(anchor, name));
    }
    let bound = all.targets.iter().find(|target| target.anchor.as_ref() == Some(anchor));
    Ok(bound.expect("BUG: an anchor that was checked is one of a target"))
}

fn of_another_turn(anchor: &Anchor, name: &str) -> Error {
    Refusal::new(Code::StaleSource, format!("the anchor is of turn `{}`, not of `{name}`", anchor.turn_id))
        .hint("`offshoot targets` gives the anchor of each turn")
        .detail(json!({"turnId": name, "anchorTurnId": anchor.turn_id}))
        .into()
}

/// The turn or record of a request in full, as the operation recorded it before; none if it means something else.
pub(super) fn recorded_name<'a>(request: &ForkRequest, cut: &'a CutRecord) -> Option<&'a str> {
    match &request.at {
        ForkAt::Turn(name) => cut.turn_id.as_deref().filter(|id| can_mean(name, id)),
        ForkAt::Record(name) => cut.asked.as_ref().map(RecordId::as_str).filter(|id| can_mean(name, id)),
    }
}
