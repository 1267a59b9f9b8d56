//! One line of the branch prompt.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::cli::text::{clean, fit, pad, width as columns_of};
use crate::{
    record::{Classification, RecordId},
    topology::{Branch, Inspection},
};

/// A branch as it is offered.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The leaf.
    pub leaf: RecordId,
    /// The shortest prefix of the leaf's id that no other leaf shares, of at least 8 characters.
    pub short_id: String,
    /// How long ago its last message was.
    pub age: String,
    /// Messages since the branch point: user, assistant and tool results.
    pub counts: String,
    /// What it is marked with, the most telling first: the client's own pick, the recorded branch, its label, a
    /// child it went on in, its relation to rewinds.
    pub tags: Vec<String>,
    /// The first prompt after the branch point.
    pub prompt: Option<String>,
    /// The last reply.
    pub reply: Option<String>,
}

/// All leaves, newest message first; of equal times the one later in the file first; those without a time last.
pub fn choices(inspection: &Inspection, now: Timestamp) -> Vec<Choice> {
    let ids = short_ids(&inspection.branches);
    let mut found: Vec<_> = inspection
        .branches
        .iter()
        .zip(ids)
        .map(|(b, id)| {
            let at = b.last_message_at.as_deref().and_then(|t| t.parse::<Timestamp>().ok());
            (Reverse((at, b.position)), Choice::new(b, id, age(at, now)))
        })
        .collect();
    found.sort_by_key(|(key, _)| *key);
    found.into_iter().map(|(_, choice)| choice).collect()
}

impl Choice {
    fn new(b: &Branch, short_id: String, age: String) -> Self {
        let c = b.distinct_counts;
        let mut tags = Vec::new();
        tags.extend(b.client_pick.then(|| "client's pick".to_owned()));
        tags.extend(b.recorded.then(|| "recorded".to_owned()));
        tags.extend(b.label.as_ref().map(|l| format!("\"{l}\"")));
        tags.extend(
            b.continued_in
                .as_ref()
                .map(|child| format!("went on in {} (+{})", fit_id(&child.session_id), child.turns)),
        );
        tags.extend(
            match b.classification {
                Classification::Ordinary => None,
                Classification::RewindDescendant => Some("after a rewind"),
                Classification::RewindSibling => Some("beside a rewind"),
                Classification::MixedRewind => Some("after and beside rewinds"),
            }
            .map(str::to_owned),
        );
        Choice {
            leaf: b.leaf_uuid.clone(),
            short_id,
            age,
            counts: format!("+{}u {}a {}t", c.user, c.assistant, c.tool_result),
            tags,
            prompt: b.first_user_text_after_branch_point.clone(),
            reply: b.last_assistant_text.clone(),
        }
    }

    /// Leaves out every text of the conversation, and the label.
    pub(super) fn redact(&mut self) {
        self.tags.retain(|tag| !tag.starts_with('"'));
        for text in [&mut self.prompt, &mut self.reply] {
            *text = text.take().map(|_| "(left out)".to_owned());
        }
    }

    /// The line in at most `width` columns. The narrower, the less is said, the id last of all.
    pub(super) fn line(&self, columns: &Columns, width: usize) -> String {
        let mut line = pad(&shown_id(&self.short_id), columns.id);
        if width >= 32 {
            line += &format!("  {}", pad(&self.age, columns.age));
        }
        if width >= 56 {
            line += &format!("  {}", pad(&self.counts, columns.counts));
        }
        let room = width.saturating_sub(columns_of(&line) + 2);
        // Marks may take what the texts leave, and half of the room in any case.
        let mut rest = marks(&self.tags, room.saturating_sub(20).max(room / 2));
        let room = room.saturating_sub(columns_of(&rest));
        rest += &texts(self.prompt.as_deref(), self.reply.as_deref(), room);
        fit(&format!("{line}  {rest}"), width).trim_end().to_owned()
    }

    /// What the line has no room for, each in at most `width` columns.
    pub(super) fn details(&self, width: usize) -> [String; super::DETAILS] {
        // Marks say more than the rest of an id, and the line has none where it is narrow.
        let about = |leaf: &str| [&[format!("leaf {leaf}")], self.tags.as_slice()].concat().join(", ");
        let whole = about(self.leaf.as_str());
        let fits = columns_of(&clean(&whole)) <= width;
        [
            format!("first: {}", self.prompt.as_deref().unwrap_or("no prompt after the branch point")),
            format!("reply: {}", self.reply.as_deref().unwrap_or("none")),
            if fits { whole } else { about(&shown_id(&self.short_id)) },
        ]
        .map(|text| fit(&text, width))
    }
}

/// As many marks as fit, in brackets; nothing where not even the first does.
fn marks(tags: &[String], room: usize) -> String {
    let mut kept = String::new();
    for tag in tags {
        let longer = if kept.is_empty() { tag.clone() } else { format!("{kept}, {tag}") };
        if columns_of(&clean(&longer)) + 3 > room {
            break;
        }
        kept = longer;
    }
    if kept.is_empty() { kept } else { format!("[{kept}] ") }
}

/// First prompt and last reply, side by side where both have room to say something.
fn texts(prompt: Option<&str>, reply: Option<&str>, room: usize) -> String {
    const BETWEEN: &str = " => ";
    let prompt = clean(prompt.unwrap_or("(no prompt)"));
    let Some(reply) = reply.map(clean).filter(|_| room >= 36) else { return fit(&prompt, room) };
    let half = (room - BETWEEN.len()) / 2;
    let left = room - BETWEEN.len() - columns_of(&reply).min(half);
    let prompt = fit(&prompt, left.max(half));
    let right = room - BETWEEN.len() - columns_of(&prompt);
    prompt + BETWEEN + &fit(&reply, right)
}

/// Widths that all lines of one prompt share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Columns {
    id: usize,
    age: usize,
    counts: usize,
}

impl Columns {
    /// The widest of each column.
    pub(super) fn of(choices: &[Choice]) -> Self {
        choices.iter().fold(Columns::default(), |c, choice| Columns {
            id: c.id.max(columns_of(&shown_id(&choice.short_id))),
            age: c.age.max(columns_of(&choice.age)),
            counts: c.counts.max(columns_of(&choice.counts)),
        })
    }
}

/// How long `at` lies before `now`: the largest unit alone.
pub(in crate::cli) fn age(at: Option<Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else { return "no time".to_owned() };
    let seconds = now.as_second().saturating_sub(at.as_second());
    const UNITS: [(i64, &str); 5] =
        [(365 * 86_400, "y"), (7 * 86_400, "w"), (86_400, "d"), (3_600, "h"), (60, "m")];
    if seconds < -60 {
        return "future".to_owned();
    }
    UNITS
        .iter()
        .find(|(unit, _)| seconds >= *unit)
        .map_or_else(|| "now".to_owned(), |(unit, name)| format!("{}{name} ago", seconds / unit))
}

/// Sorted ids share the longest prefix with a neighbour, so two comparisons an id are enough.
pub(in crate::cli) fn short_ids(branches: &[Branch]) -> Vec<String> {
    const LEAST: usize = 8;
    let mut order: Vec<usize> = (0..branches.len()).collect();
    let id = |i: usize| branches[i].leaf_uuid.as_str();
    order.sort_by_key(|i| id(*i));
    let mut short = vec![String::new(); branches.len()];
    for (at, &i) in order.iter().enumerate() {
        let shared = |other: Option<&usize>| {
            other.map_or(0, |&o| id(i).chars().zip(id(o).chars()).take_while(|(a, b)| a == b).count())
        };
        let before = shared(at.checked_sub(1).and_then(|p| order.get(p)));
        let after = shared(order.get(at + 1));
        short[i] = id(i).chars().take((before.max(after) + 1).max(LEAST)).collect();
    }
    short
}

/// Ids that differ late are shown by their beginning and their end.
fn shown_id(short_id: &str) -> String {
    const MOST: usize = 16;
    let id: Vec<char> = clean(short_id).chars().collect();
    if id.len() <= MOST {
        return id.into_iter().collect();
    }
    let (head, tail) = (&id[..4], &id[id.len() - 8..]);
    head.iter().chain(&['.'; 3]).chain(tail).collect()
}

/// Enough of an id to know it by.
pub(in crate::cli) fn fit_id(id: &str) -> String {
    clean(id).chars().take(8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Turn, topology::Counts};

    fn branch(id: &str, position: u64, at: Option<&str>) -> Branch {
        Branch {
            leaf_uuid: RecordId::new(id),
            branch_point_uuid: None,
            classification: Classification::Ordinary,
            contains_rewind_uuids: None,
            sibling_rewind_uuids: None,
            first_user_text_after_branch_point: Some("add retries to the uploader".into()),
            last_user_text: None,
            last_assistant_text: Some("Done, all 14 tests pass.".into()),
            record_counts: Counts::default(),
            started_at: String::new(),
            updated_at: String::new(),
            last_message_at: at.map(str::to_owned),
            distinct_counts: Counts { user: 5, assistant: 7, tool_result: 9, system: 1 },
            turn: Turn::Complete,
            component_uuid: RecordId::new("root"),
            contains_rewind_count: 0,
            sibling_rewind_count: 0,
            interleaved_count: 0,
            interleaved_with: None,
            client_pick: false,
            recorded: false,
            label: None,
            continued_in: None,
            git_branch: None,
            cwd: None,
            chain_diagnostics: Vec::new(),
            chain_len: 0,
            position,
        }
    }

    fn offered(branches: Vec<Branch>) -> Vec<Choice> {
        use crate::{
            record::Agent,
            topology::{ListMode, Lists, SnapshotInfo},
        };
        let inspection = Inspection {
            schema: "offshoot.inspection/1",
            agent: Agent::Qwen,
            session_id: String::new(),
            transcript: String::new(),
            snapshot: SnapshotInfo::default(),
            client_pick: None,
            branches,
            diagnostics: Vec::new(),
            lists: Lists { rewinds: ListMode::Full, interleaved: ListMode::Full },
            rewinds: None,
        };
        choices(&inspection, "2026-03-01T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn newest_first_ties_by_position_without_a_time_last() {
        let order: Vec<String> = offered(vec![
            branch("none", 9, None),
            branch("broken", 8, Some("yesterday")),
            branch("old", 7, Some("2026-02-01T12:00:00Z")),
            branch("tie-early", 1, Some("2026-03-01T11:00:00Z")),
            branch("tie-late", 2, Some("2026-03-01T12:00:00+01:00")),
            branch("new", 0, Some("2026-03-01T11:59:30.250Z")),
        ])
        .into_iter()
        .map(|c| format!("{} {}", c.leaf, c.age))
        .collect();
        let expected = [
            "new now",
            "tie-late 1h ago",
            "tie-early 1h ago",
            "old 4w ago",
            "none no time",
            "broken no time",
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn ids_are_as_short_as_is_unambiguous() {
        let ids = ["0123456789ab", "0123456789cd", "0123ffffffff", "x", "x1", "éééééééééa", "ééééééééééb"];
        let short: Vec<String> = offered(ids.iter().map(|id| branch(id, 0, None)).collect())
            .into_iter()
            .map(|c| c.short_id)
            .collect();
        let expected = ["0123456789a", "0123456789c", "0123ffff", "x", "x1", "éééééééééa", "éééééééééé"];
        assert_eq!(short, expected);
        assert_eq!(shown_id("00000000-0000-4000-8000-00000000000a"), "0000...0000000a");
    }

    #[test]
    fn a_line_says_less_the_narrower_it_is() {
        let mut marked = branch("3f2a91bc-0000", 0, Some("2026-03-01T10:00:00Z"));
        marked.client_pick = true;
        marked.recorded = true;
        marked.label = Some("retry".into());
        marked.classification = Classification::RewindSibling;
        marked.continued_in =
            Some(crate::topology::ContinuedIn { session_id: "1a2b3c4d-9999".into(), turns: 3 });
        let choice = offered(vec![marked]).remove(0);
        let columns = Columns::of(std::slice::from_ref(&choice));
        let line = |width| choice.line(&columns, width);
        assert_eq!(
            line(160),
            "3f2a91bc  2h ago  +5u 7a 9t  [client's pick, recorded, \"retry\", went on in 1a2b3c4d (+3), \
             beside a rewind] add retries to the upl... => Done, all 14 tests pass."
        );
        assert_eq!(line(77), "3f2a91bc  2h ago  +5u 7a 9t  [client's pick, recorded] add retries to the...");
        assert_eq!(line(37), "3f2a91bc  2h ago  add retries to t...");
        assert_eq!(line(17), "3f2a91bc  add...");
        let marks = |width| choice.details(width)[2].clone();
        assert_eq!(
            marks(98),
            "leaf 3f2a91bc-0000, client's pick, recorded, \"retry\", went on in 1a2b3c4d (+3), beside a rewind"
        );
        assert_eq!(marks(37), "leaf 3f2a91bc, client's pick, reco...");
    }
}
