//! `truncate`: what descends from a record goes; the record, its ancestors and every other branch stay, and the client
//! goes on at the record.

use std::{path::Path, time::Duration};

use serde_json::json;

use crate::{
    dialect::{self, AnchorSpec, Client, Dialect, derived_uuid},
    record::{RecordId, Turn},
    refusal::{Code, Error, Refusal, Result},
    resume::{
        Host, Target,
        chain::{self, Seedable},
        pending,
    },
    store::{
        file::FileSource,
        ledger::entry::{Removed, ReplaceKind},
        snapshot::Seen,
    },
    topology::{self, Tree, resolve_record, strictly_below},
    transcript::{IdIx, Pieces, Source, Transcript},
};

use super::{
    answer::Replaced,
    begin::Call,
    perform::{Agree, Planning, run},
    plan::{Ours, Plan, plan, whole},
};

/// One call of `truncate`.
#[derive(Clone, Debug)]
pub struct TruncateRequest {
    /// The transcript.
    pub target: Target,
    /// The record that is to be the last, by its id or a prefix of it.
    pub after: String,
    /// The caller's retry key.
    pub operation_id: Option<String>,
    /// How long to wait for locks.
    pub wait: Duration,
    /// Decide and show, write nothing.
    pub dry_run: bool,
    /// Which client is simulated.
    pub client: Client,
    /// What the record was chosen on by looking, if it was.
    pub seen: Option<Seen>,
}

/// Keeps a backup, then drops what descends from a record. `agree` is asked once everything is known and nothing is
/// written; whatever it refuses with ends the call.
///
/// # Errors
/// `lease-held` and the like; `leaf-unknown`, `id-ambiguous`, `sidechain-leaf`, `inside-tool-round`, `chain-broken`,
/// `chain-conflict`, `nothing-to-remove`, `seed-unreachable`, `seed-unsupported`, `stale-source`, `snapshot-changed`.
/// Faults.
pub fn truncate(request: &TruncateRequest, host: &mut Host<'_>, agree: Agree<'_>) -> Result<Replaced> {
    let call = Call {
        kind: ReplaceKind::Truncate,
        target: &request.target,
        record: Some(&request.after),
        operation_id: request.operation_id.as_deref(),
        wait: request.wait,
        dry_run: request.dry_run,
        seen: request.seen.as_ref(),
    };
    run(&call, host, agree, &|planning| plan_cut(request, &call, planning))
}

fn plan_cut(request: &TruncateRequest, call: &Call<'_>, p: &Planning<'_, '_>) -> Result<Plan> {
    let (t, path) = (&p.snapshot.transcript, &p.snapshot.path);
    let read = |e| Error::io("read", path)(e);
    let dialect = dialect::of(request.target.agent);
    let top = resolve_record(t, &request.after)?;
    let id = t.id(top);
    t.require_conversation(top)?;
    let removed = strictly_below(t, top);
    if !t.records.iter().any(|r| removed[r.id.ix()]) {
        return Err(Refusal::new(Code::NothingToRemove, format!("nothing descends from `{id}`"))
            .hint("`offshoot resume --leaf ID --seed in-place` puts the client there")
            .detail(json!({"uuid": id}))
            .into());
    }
    divided(t, top, &removed).map_or(Ok(()), Err)?;
    let Some(cut) = dialect.without(t, &whole(p.snapshot)?, &removed).map_err(read)? else {
        return Err(unsupported(request.target.agent.name()));
    };
    let spec = AnchorSpec {
        uuid: derived_uuid("anchor", request.target.agent, p.session_id, p.operation_id),
        operation_id: p.operation_id.to_owned(),
        now: p.host.now(),
        version: request.client.version.clone(),
    };
    let pieces = Pieces::new(whole(p.snapshot)?, cut.kept, Vec::new());
    let remains: Vec<IdIx> = t.records.iter().map(|r| r.id).filter(|id| !removed[id.ix()]).collect();
    let client = Client {
        version: request.client.version.clone().or_else(|| t.client_version.clone()),
        ..request.client.clone()
    };
    let new = landing(dialect, path, &id, pieces, &client, &spec, &|new| {
        let same = new.records.len() == remains.len()
            && new.records.iter().zip(&remains).all(|(r, &id)| new.ids.text(r.id) == t.ids.text(id));
        if same { None } else { Some("what would remain is not what does not descend from it".to_owned()) }
    })?;
    let records = remains.len() as u64 + u64::from(new.anchor.is_some());
    let ours = Ours {
        record_uuid: Some(id),
        undoes: None,
        restored_from: None,
        removed: Some(Removed { records: cut.records, lines: cut.lines }),
        records,
        parent_uuid: Some(new.tail),
        anchor: new.anchor,
        warnings: new.warnings,
    };
    plan(call, p.host, (p.operation_id, p.session_id), p.snapshot, Box::new(new.content), ours)
}

/// Whether parts of one message, or calls and their results, would be on both sides.
fn divided(t: &Transcript, top: IdIx, removed: &[bool]) -> Option<Error> {
    let units = t.units.as_ref()?;
    let unit = units.of[top.ix()]?;
    let last = t.records.iter().rfind(|r| units.of[r.id.ix()] == Some(unit))?;
    let parted = t.ids.iter().any(|id| removed[id.ix()] && units.of[id.ix()] == Some(unit));
    parted.then(|| {
        let (id, last) = (t.id(top), t.id(last.id));
        Refusal::new(
            Code::InsideToolRound,
            format!("`{id}` is a part of a message, or of a round of tool calls, that goes on below it"),
        )
        .hint(format!("its last part is `{last}`"))
        .detail(json!({"uuid": id, "lastUuid": last}))
        .into()
    })
}

fn unsupported(agent: &str) -> Error {
    Refusal::new(Code::SeedUnsupported, format!("sessions of `{agent}` cannot be truncated"))
        .hint("`offshoot fork` makes a session that ends at a turn")
        .into()
}

/// The new bytes, on which the client goes on at the record.
struct New {
    content: Pieces<FileSource>,
    tail: RecordId,
    anchor: Option<String>,
    warnings: Vec<String>,
}

fn landing(
    dialect: &'static dyn Dialect,
    path: &Path,
    id: &RecordId,
    mut pieces: Pieces<FileSource>,
    client: &Client,
    spec: &AnchorSpec,
    wrong: &dyn Fn(&Transcript) -> Option<String>,
) -> Result<New> {
    let read = |e| Error::io("read", path)(e);
    // A last line without its end would be glued to whatever comes next.
    let mut last = [b'\n'];
    if let Some(at) = Source::len(&pieces).checked_sub(1) {
        pieces.read_exact_at(at, &mut last).map_err(read)?;
    }
    let end = if last == *b"\n" { Vec::new() } else { vec![b'\n'] };
    pieces = pieces.with_tail(end.clone());
    let t = dialect.read(&pieces).map_err(read)?;
    if let Some(why) = wrong(&t) {
        return Err(chain::unreachable(id, &why).into());
    }
    let seedable: Seedable = chain::seedable(dialect, &t, &pieces, id, false, true).map_err(read)??;
    let mut warnings = seedable.warnings.clone();
    warnings.extend(open_turn(dialect, path, &t, &pieces, client, seedable.leaf)?);
    let expected = dialect.expected(&t, &seedable.chain, client);
    // Where a message is several records, the client may go on below another one than it picked.
    let at_its_end =
        |tail: &RecordId| tail == id || (t.units.is_some() && expected.tail.as_ref() == Some(tail));
    let expected = &expected.history;
    if expected.is_empty() {
        return Err(chain::unreachable(id, "the client can see no record of the chain").into());
    }
    let by_itself = chain::land_on(dialect, &t, &pieces, client, expected, false).map_err(read)?;
    if let Some(landing) = by_itself.ok().filter(|landing| at_its_end(&landing.tail)) {
        return Ok(New { content: pieces, tail: landing.tail, anchor: None, warnings });
    }
    let anchor = dialect.anchor(&t, &pieces, seedable.leaf, spec).map_err(read)?;
    let content = pieces.with_tail([end, anchor.bytes].concat());
    let landed = chain::land(dialect, &content, client, expected, false).map_err(read)?;
    let landing = landed.map_err(|why| chain::unreachable(id, &why))?;
    Ok(New { content, tail: landing.tail, anchor: Some(anchor.uuid), warnings })
}

/// Refuses a record inside a tool round; else what a person should know of its turn.
fn open_turn(
    dialect: &'static dyn Dialect,
    path: &Path,
    t: &Transcript,
    source: &dyn Source,
    client: &Client,
    leaf: IdIx,
) -> Result<Option<String>> {
    let Some(leaf) = Tree::new(t).leaf_of(leaf).map(|id| t.id(id)) else { return Ok(None) };
    let inspection = topology::inspect(t, source, dialect, client).map_err(Error::io("read", path))?;
    if inspection.branch(&leaf).is_some_and(|b| b.turn == Turn::OpenToolCall) {
        return Err(Refusal::new(
            Code::InsideToolRound,
            format!("`{leaf}` stands inside a round of tool calls; a call would lose its result"),
        )
        .hint("name a record before the call, or the last one of the round")
        .detail(json!({"uuid": leaf}))
        .into());
    }
    Ok(pending::turn_warning(&inspection, &leaf))
}
