//! `sessions`: the sessions of this project, newest first, with what the agent itself would do with each.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    args::{Global, SessionsArgs},
    inspect::worries,
    output::{self, Paint},
    prompt::{self, PromptOptions, SessionChoice, age},
    session::{self, Surroundings},
    text::{fit, fit_title, pad, width, wrap},
};
use crate::{
    record::{Agent, RecordId},
    refusal::Result,
    store::{
        agents::reasonix,
        sessions::{self, SessionInfo, SessionText},
    },
    topology::Inspection,
};

mod many;

const COLUMNS: usize = 80;

const AGENT: &str = "AGENT";
const WRITTEN: &str = "WRITTEN";
const SIZE: &str = "SIZE";
const BRANCHES: &str = "BRANCHES";

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    sessions: Vec<Row>,
}

/// One session, as `--json` gives it. The texts are absent with `--redact`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    agent: Agent,
    session_id: String,
    transcript: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_prompt: Option<String>,
    modified_at: String,
    bytes: u64,
    archived: bool,
    /// Null where the transcript could not be read.
    leaves: Option<u64>,
    client_pick: Option<Pick>,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    #[serde(skip)]
    modified: Timestamp,
    /// That a client wrote it whose rules are not known.
    #[serde(skip)]
    newer: Option<String>,
}

/// What the client would resume, and whether that is the newest work, whole.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pick {
    leaf_uuid: Option<RecordId>,
    stale: bool,
}

/// Prints the list.
pub fn run(global: &Global, args: &SessionsArgs) -> Result<ExitCode> {
    let around = Surroundings::new(global)?;
    let found = sessions::list(&around.sessions(), args.all)?;
    let mut rows = many::each(global, &found, |info| row(global, info));
    // Of a newer client that wrote many sessions it is said once.
    let newer: BTreeSet<String> = rows.iter_mut().filter_map(|row| row.newer.take()).collect();
    newer.iter().for_each(|warning| output::warn(global, warning));
    if global.json {
        output::json(&Document { schema: "offshoot.sessions/1", sessions: rows })?;
    } else if rows.is_empty() {
        let none = match args.all {
            true => "no sessions in any project",
            false => "no sessions here; `--all` looks in every project",
        };
        output::note(global, none);
    } else {
        output::text(&table(&rows, Timestamp::now(), output::columns(COLUMNS), Paint::stdout(global)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// More sessions than this are asked about without counting their branches first.
const COUNTED: usize = 50;

/// The session of this project that the person means: asked for where there are several. Archived ones are not
/// offered, since the agent does not resume them.
///
/// # Errors
/// `session-unknown`, `not-a-terminal`, `prompt-cancelled`, `io`.
pub fn ask(global: &Global) -> Result<PathBuf> {
    let around = Surroundings::new(global)?;
    let mut found = sessions::list(&around.sessions(), false)?;
    found.retain(|info| !info.archived);
    if found.len() < 2 {
        return Ok(around.resolve(None)?.path);
    }
    let now = Timestamp::now();
    let counted = found.len() <= COUNTED;
    let mixed = found.iter().any(|info| info.agent != found[0].agent);
    let choice = |info: &SessionInfo| {
        let text = sessions::text_of(&info.path, info.agent);
        let leaves = if counted { look(global, &info.path).ok() } else { None };
        let text = text.title.or(text.first_prompt).unwrap_or_default();
        SessionChoice {
            session_id: info.session_id.clone(),
            age: age(Some(info.modified), now),
            leaves: leaves.map(|looked| looked.leaves),
            text: if mixed { format!("{}: {text}", info.agent.name()) } else { text },
        }
    };
    let choices = many::each(global, &found, choice);
    let at = prompt::pick_session(&choices, &PromptOptions::new(global))?;
    Ok(found.swap_remove(at).path)
}

/// What a session is by itself, and how many leaves it has with all that are related to it. Those are only counted: to
/// read each of them for each of them would take the square of their number.
fn look(global: &Global, path: &Path) -> Result<Looked> {
    let quiet = Global { quiet: true, ..global.clone() };
    let opened = session::open_alone_at(&quiet, path.to_owned())?;
    let inspection = opened.inspect()?;
    let related = match inspection.agent {
        Agent::Reasonix => reasonix::relatives(path)?,
        Agent::Claude | Agent::Qwen => 0,
    };
    let leaves = inspection.branches.len() as u64 + related;
    Ok(Looked { inspection, leaves, newer: session::newer_client_of(&opened) })
}

/// What was seen of a session.
struct Looked {
    inspection: Inspection,
    leaves: u64,
    /// That a client wrote it whose rules are not known, in words.
    newer: Option<String>,
}

fn row(global: &Global, info: &SessionInfo) -> Row {
    let text = if global.redact { SessionText::default() } else { sessions::text_of(&info.path, info.agent) };
    let mut row = Row {
        agent: info.agent,
        session_id: info.session_id.clone(),
        transcript: info.path.display().to_string(),
        cwd: text.cwd,
        title: text.title,
        first_prompt: text.first_prompt,
        modified_at: info.modified.to_string(),
        bytes: info.bytes,
        archived: info.archived,
        leaves: None,
        client_pick: None,
        error: None,
        modified: info.modified,
        newer: None,
    };
    // One file that cannot be read is no reason to hide the others.
    match look(global, &info.path) {
        Ok(Looked { inspection, leaves, newer }) => {
            row.agent = inspection.agent;
            row.leaves = Some(leaves);
            row.newer = newer;
            let stale = !worries(&inspection).is_empty();
            row.client_pick = inspection.client_pick.map(|pick| Pick { leaf_uuid: pick.leaf_uuid, stale });
        }
        Err(e) => row.error = Some(json!({"code": e.code(), "message": e.to_string()})),
    }
    row
}

/// Columns between the id and what a session is about.
const CELL: usize = 8;
/// Fewer columns than this say nothing of what a session is about.
const LEAST_ABOUT: usize = 8;

fn table(rows: &[Row], now: Timestamp, columns: usize, paint: Paint) -> String {
    let id_width = id_width(rows);
    let mixed = rows.iter().any(|row| row.agent != rows[0].agent);
    let widest = rows.iter().map(|row| width(row.agent.name())).max().unwrap_or(0).max(width(AGENT));
    // What there is no room for is left out whole, the least telling first; an id is cut by nothing.
    let mut shown = vec![(WRITTEN, CELL), (SIZE, CELL), (BRANCHES, CELL)];
    if mixed {
        shown.insert(0, (AGENT, widest));
    }
    let taken = |shown: &[(&str, usize)]| id_width + shown.iter().map(|(_, wide)| wide + 2).sum::<usize>();
    // What a session is about tells more than all but the id and the branches, even in the least of columns.
    for (least, about) in
        [(SIZE, LEAST_ABOUT + 2), (WRITTEN, LEAST_ABOUT + 2), (AGENT, LEAST_ABOUT + 2), (BRANCHES, 0)]
    {
        if taken(&shown) + about > columns {
            shown.retain(|(name, _)| *name != least);
        }
    }
    let about_from = taken(&shown) + 2;
    let room = columns.checked_sub(about_from).filter(|room| *room >= LEAST_ABOUT);
    let line = |id: &str, cell: &dyn Fn(&str) -> String, about: &dyn Fn(usize) -> String| {
        let mut line = pad(id, id_width);
        for (name, wide) in &shown {
            let _ = write!(line, "  {}", pad(&cell(name), *wide));
        }
        if let Some(room) = room {
            let _ = write!(line, "  {}", about(room));
        }
        line.trim_end().to_owned()
    };
    let mut out = paint.bold(&line("ID", &str::to_owned, &|_| "ABOUT".to_owned()));
    out.push('\n');
    let (mut stale, mut unread) = (false, false);
    for row in rows {
        let id: String = row.session_id.chars().take(id_width).collect();
        let mark = match &row.client_pick {
            _ if row.error.is_some() => "?",
            // Nothing can be lost of it.
            _ if row.leaves == Some(0) => " ",
            Some(pick) if !pick.stale => " ",
            _ => "!",
        };
        stale |= mark == "!";
        unread |= mark == "?";
        let cell = |name: &str| match name {
            AGENT => row.agent.name().to_owned(),
            WRITTEN => age(Some(row.modified), now),
            SIZE => size(row.bytes),
            _ => {
                let branches = row.leaves.map_or_else(String::new, |n| n.to_string());
                format!("{branches:>6} {mark}")
            }
        };
        let about = |room: usize| {
            let archived = if row.archived { "(archived) " } else { "" };
            let about = row.title.as_deref().or(row.first_prompt.as_deref()).unwrap_or_default();
            let about = fit_title(about, room.saturating_sub(width(archived)));
            fit(&format!("{archived}{about}"), room)
        };
        let _ = writeln!(out, "{}", line(&id, &cell, &about));
    }
    let legend = |text: &str| format!("\n{}\n", wrap(text, columns, "  "));
    if stale {
        out += &legend("! the agent would not resume the newest work, or lose some: see `inspect ID`");
    }
    if unread {
        out += &legend("? cannot be read: see `inspect ID`");
    }
    out
}

/// The least number of characters, from 8 on, that tells all ids apart.
fn id_width(rows: &[Row]) -> usize {
    let unique = |n: &usize| {
        let mut ids: Vec<&str> =
            rows.iter().map(|r| r.session_id.get(..*n).unwrap_or(&r.session_id)).collect();
        ids.sort_unstable();
        ids.windows(2).all(|pair| pair[0] != pair[1])
    };
    (8..36).find(unique).unwrap_or(36)
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    // Before it would be rounded to 1024 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(agent: Agent, id: &str, title: &str) -> Row {
        Row {
            agent,
            session_id: id.to_owned(),
            transcript: String::new(),
            cwd: None,
            title: Some(title.to_owned()),
            first_prompt: None,
            modified_at: String::new(),
            bytes: 2048,
            archived: false,
            leaves: Some(12),
            client_pick: Some(Pick { leaf_uuid: None, stale: true }),
            error: None,
            newer: None,
            modified: "2026-03-01T12:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_narrow_table_leaves_whole_columns_out_and_cuts_no_id() {
        let alike = |n: u8| format!("aaaaaaaa-0000-4000-8000-00000000000{n}");
        let now = "2026-03-01T14:00:00Z".parse().unwrap();
        for (agents, ids) in [
            ([Agent::Qwen, Agent::Qwen], ["3f2a91bc".to_owned(), "4f2a91bc".to_owned()]),
            ([Agent::Qwen, Agent::Reasonix], ["3f2a91bc".to_owned(), "4f2a91bc".to_owned()]),
            ([Agent::Qwen, Agent::Claude], [alike(1), alike(2)]),
        ] {
            let rows: Vec<Row> =
                agents.iter().zip(&ids).map(|(a, id)| of(*a, id, "Add retries to the uploader")).collect();
            for columns in 10..120 {
                let table = table(&rows, now, columns, Paint::plain());
                let mut lines = table.lines();
                let head = lines.next().unwrap();
                for word in head.split_whitespace() {
                    let known = ["ID", AGENT, WRITTEN, SIZE, BRANCHES, "ABOUT"];
                    assert!(known.contains(&word), "{columns}: {head}");
                }
                for (line, id) in lines.zip(&ids) {
                    assert!(line.starts_with(id.as_str()), "{columns}: {line}");
                    assert!(width(line) <= columns.max(width(id)), "{columns}: {line}");
                    assert_eq!(head.contains(BRANCHES), line.contains("12 !"), "{columns}: {line}");
                }
            }
        }
        let mut rows = [of(Agent::Qwen, "3f2a91bc", "Add retries"), of(Agent::Qwen, "4f2a91bc", "x")];
        let wide = table(&rows, now, 80, Paint::plain());
        assert!(wide.contains("3f2a91bc  2h ago    2.0 KiB       12 !  Add retries\n"), "{wide}");
        // Size, time and agent go before what a session is about; id and branches stay to the last.
        rows[1].agent = Agent::Claude;
        rows[1].error = Some(json!({}));
        for (columns, head) in [
            (56, "ID AGENT WRITTEN SIZE BRANCHES ABOUT"),
            (55, "ID AGENT WRITTEN BRANCHES ABOUT"),
            (46, "ID AGENT WRITTEN BRANCHES ABOUT"),
            (45, "ID AGENT BRANCHES ABOUT"),
            (36, "ID AGENT BRANCHES ABOUT"),
            (35, "ID BRANCHES ABOUT"),
            (28, "ID BRANCHES ABOUT"),
            (27, "ID BRANCHES"),
            (18, "ID BRANCHES"),
            (17, "ID"),
        ] {
            let table = table(&rows, now, columns, Paint::plain());
            let shown: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
            assert_eq!(shown.join(" "), head, "{columns}");
            // The legend, too.
            assert!(table.lines().all(|line| width(line) <= columns), "{columns}: {table}");
            let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("? cannot be read: see `inspect ID`"), "{columns}: {table}");
        }
    }

    #[test]
    fn sizes_fit_their_column() {
        let shown = [0, 1023, 1024, 10 * 1024, 1024 * 1024 - 1, 5 << 20, 3 << 40];
        let expected = ["0 B", "1023 B", "1.0 KiB", "10 KiB", "1.0 MiB", "5.0 MiB", "3.0 TiB"];
        assert_eq!(shown.map(size), expected.map(str::to_owned));
    }
}
