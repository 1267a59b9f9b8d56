//! `audit show`: one operation, with everything that is recorded of it.

use std::{fmt::Write as _, path::Path, process::ExitCode};

use serde::Serialize;
use serde_json::{Value, json};

use super::{scope, state_name, warnings};
use crate::{
    cli::{
        args::Global,
        output::{self, Paint},
        text::{clean, counted},
    },
    record::{Agent, can_mean},
    refusal::{Code, Refusal, Result},
    store::ledger::{
        Ledger, Read, Selection,
        entry::{Entry, OfferedLeaf},
        first_attempt, ledgers, resolve_offered,
    },
};

/// `offshoot.audit-show/1`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    schema: &'static str,
    operation_id: &'a str,
    agent: Agent,
    session_id: &'a str,
    ledger: String,
    /// Of the last attempt, with `superseded` derived.
    state: &'static str,
    /// In order; only an abandoned one is followed by another.
    attempts: Vec<Attempt<'a>>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Attempt<'a> {
    /// The leaves that were offered, in full; null where the ledger has lost them.
    offered: Option<Vec<OfferedLeaf>>,
    /// Its entries as they stand in the ledger, the pending one first.
    entries: Vec<&'a Entry>,
}

/// Prints the operation.
pub fn run(global: &Global, root: &Path, name: &str) -> Result<ExitCode> {
    let scope = scope(global, root, None)?;
    let mut all = Vec::new();
    for ledger in ledgers(root)? {
        let read = ledger.scan()?;
        if scope.has(&ledger, &read) {
            all.push((ledger, read));
        }
    }
    let id = resolve(&all, name)?;
    // A freed id may have been used again, for another session: what was completed counts, else the last.
    let with_id = all.iter().filter(|(_, read)| read.operation(&id).is_some());
    let (ledger, read) = with_id
        .max_by_key(|(_, read)| {
            let last = read.operation(&id).expect("BUG: the ledger was just found to have it");
            (last.is_completed(), last.last().at.clone())
        })
        .expect("BUG: the id was just found in a ledger");
    let attempts: Vec<Selection<'_>> =
        read.all_selections().into_iter().filter(|s| s.operation_id() == id).collect();
    let last = attempts.last().expect("BUG: the operation was just found");
    let document = Document {
        schema: "offshoot.audit-show/1",
        operation_id: &id,
        agent: ledger.agent(),
        session_id: ledger.session_id(),
        ledger: ledger.path().display().to_string(),
        state: state_name(read, last),
        attempts: attempts.iter().map(|s| attempt(read, s)).collect(),
        notes: warnings(ledger, read),
    };
    if global.json {
        output::json(&document)?;
    } else {
        document.notes.iter().for_each(|note| output::warn(global, note));
        output::text(&page(&document, Paint::stdout(global)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The id itself, else the one id that begins so (4 characters or more).
fn resolve(all: &[(Ledger, Read)], name: &str) -> Result<String> {
    let mut ids: Vec<&str> = all
        .iter()
        .flat_map(|(_, read)| read.all_selections())
        .map(|s| s.pending.body.operation_id.as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.contains(&name) {
        return Ok(name.to_owned());
    }
    let fits: Vec<&str> = ids.into_iter().filter(|id| can_mean(name, id)).collect();
    match fits[..] {
        [one] => Ok(one.to_owned()),
        [] => Err(Refusal::new(Code::OperationUnknown, format!("no operation `{name}` is recorded"))
            .hint("`offshoot audit list` shows what is recorded")
            .detail(json!({"operationId": name}))
            .into()),
        _ => Err(Refusal::new(Code::IdAmbiguous, format!("{} operations begin with `{name}`", fits.len()))
            .hint("give more characters of the id")
            .detail(json!({"ids": fits.iter().take(50).collect::<Vec<_>>()}))
            .into()),
    }
}

fn attempt<'a>(read: &Read, selection: &Selection<'a>) -> Attempt<'a> {
    let offered = selection.pending.body.offered.as_ref().and_then(|o| resolve_offered(read, o));
    // Leaves and verdict of a retry stand in the attempt that was abandoned, if its own ones cannot be resolved.
    let offered = offered.or_else(|| {
        let first = first_attempt(read, selection.pending);
        first.body.offered.as_ref().and_then(|o| resolve_offered(read, o))
    });
    let mut entries = vec![selection.pending];
    entries.extend(selection.closing);
    entries.extend(&selection.later);
    Attempt { offered, entries }
}

fn page(d: &Document<'_>, paint: Paint) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{} ({})", paint.bold(&format!("operation {}", clean(d.operation_id))), d.state);
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "  {name:<14}{}", clean(value));
    };
    line("agent", d.agent.name());
    line("session", d.session_id);
    line("ledger", &d.ledger);
    for attempt in &d.attempts {
        lines_of(attempt, &mut line);
    }
    out
}

fn lines_of(attempt: &Attempt<'_>, line: &mut impl FnMut(&str, &str)) {
    for (ix, entry) in attempt.entries.iter().enumerate() {
        let body = &entry.body;
        line(body.state.name(), &format!("{}, entry {}", entry.at, entry.seq));
        if ix == 0 {
            pending(entry, attempt.offered.as_deref(), line);
        }
        if let Some(reason) = &body.reason {
            line("  reason", &format!("{}: {}", reason.code, reason.message));
        }
        if body.recovered == Some(true) {
            line("  by", "recovery, after a crash");
        }
        if let Some(observed) = &body.observed {
            line("  observed", &format!("{}, exit status {}", observed.outcome, observed.exit_code));
        }
        if let Some(command) = body.result.as_ref().and_then(|r| r["command"].as_array()) {
            let words: Vec<&str> = command.iter().filter_map(Value::as_str).collect();
            line("  resume by", &words.join(" "));
        }
    }
}

fn pending(entry: &Entry, offered: Option<&[OfferedLeaf]>, line: &mut impl FnMut(&str, &str)) {
    let body = &entry.body;
    line("  transcript", &body.transcript);
    if let Some(who) = &body.who {
        line("  who", &format!("{} at {}, pid {}, offshoot {}", who.user, who.host, who.pid, who.version));
    }
    if let Some(s) = &body.snapshot {
        line("  snapshot", &format!("{}, {}, {}", bytes(s.bytes), records(s.records), s.digest));
    }
    let chosen = body.verdict.as_ref().map(|v| &v.leaf_uuid);
    let picked = body.client_pick.as_ref().and_then(|p| p.leaf_uuid.as_ref());
    match offered {
        None if body.replace.is_some() => {}
        // A fork at a turn or a record chooses among no leaves.
        None if body.cut.is_some() => {}
        None => line("  offered", "not recorded"),
        Some(leaves) => {
            for (ix, leaf) in leaves.iter().enumerate() {
                let mut marks = String::new();
                if chosen == Some(&leaf.leaf_uuid) {
                    marks += ", chosen";
                }
                if picked == Some(&leaf.leaf_uuid) {
                    marks += ", the client's own pick";
                }
                let name = |v: Value| v.as_str().unwrap_or_default().to_owned();
                let text = format!(
                    "{} ({}, {}, last message {}{marks})",
                    leaf.leaf_uuid,
                    name(json!(leaf.classification)),
                    name(json!(leaf.turn)),
                    leaf.last_message_at.as_deref().unwrap_or("never"),
                );
                line(if ix == 0 { "  offered" } else { "" }, &text);
            }
        }
    }
    if let Some(verdict) = &body.verdict {
        line("  leaf", verdict.leaf_uuid.as_str());
        line("  decided by", verdict.decided_by.kind.name());
        if let Some(policy) = &verdict.decided_by.policy {
            line("  policy", &format!("{}, {}", policy.path, policy.digest));
            line("  rule", policy.rule.as_deref().unwrap_or("the fallback"));
            if let Some(reason) = &policy.reason {
                line("  reason", reason);
            }
            for rule in verdict.trace["trace"].as_array().into_iter().flatten() {
                line("  trace", &format!("{}: {}", text(&rule["name"]), text(&rule["result"])));
            }
            if !verdict.inputs.is_null() {
                line("  inputs", &verdict.inputs.to_string());
            }
        }
    }
    if let Some(replace) = &body.replace {
        line("  does", replace.kind.name());
        if let Some(record) = &replace.record_uuid {
            line("  after", record.as_str());
        }
        if let Some(undoes) = &replace.undoes {
            line("  undoes", undoes);
        }
        line("  backup", &replace.backup);
        line("  before", &format!("{}, {}", bytes(replace.old.bytes), replace.old.digest));
        line("  then", &format!("{}, {}", bytes(replace.new.bytes), replace.new.digest));
    }
    if let Some(cut) = &body.cut {
        match (&cut.turn_id, &cut.asked) {
            (Some(turn), _) => {
                let number = cut.turn_number.map(|n| format!(", number {n}")).unwrap_or_default();
                line("  turn", &format!("{turn}{number}, boundary {}", cut.boundary));
            }
            (None, asked) => line("  record", asked.as_ref().unwrap_or(&cut.record).as_str()),
        }
        line("  cut at", cut.record.as_str());
    }
    if let Some(seed) = &body.seed {
        line("  seed", &format!("{} of {}", seed.mode.name(), records(seed.chain)));
        line("  to resume", &seed.session_id);
        line("  in", &seed.transcript);
        line("  below", seed.parent_uuid.as_str());
        line("  chain", &seed.chain_digest);
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn bytes(n: u64) -> String {
    counted(n, "byte", "bytes")
}

fn records(n: u64) -> String {
    counted(n, "record", "records")
}
