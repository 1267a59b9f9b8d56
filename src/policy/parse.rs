//! The grammar of a policy file, version 1.

use std::{collections::BTreeMap, ops::Range};

use hashbrown::HashSet;
use toml::de::DeTable;

use super::{
    reader::{Field, Reader, Table},
    render::{PolicyErrors, quote},
    rule::{
        BranchPattern, Continued, Example, Expected, Fallback, Filter, Margin, Order, Policy, Rule,
        SeedPolicy, Tie, Transcript, When,
    },
};
use crate::{
    record::{Classification, RecordId, Turn},
    selection::SeedMode,
};

/// The version that this program reads.
const VERSION: u64 = 1;

const POLICY: &[&str] = &["version", "name", "reason", "rule", "seed", "fallback", "example"];
const RULE: &[&str] = &["name", "reason", "when", "keep", "order", "margin", "tie"];
const WHEN: &[&str] = &["agent", "min_leaves", "max_leaves", "session", "cwd"];
const KEEP: &[&str] = &[
    "recorded",
    "client_pick",
    "classification",
    "turn",
    "max_age",
    "min_age",
    "min_user",
    "min_messages",
    "distinct_messages",
    "interleaved",
    "diagnostics",
    "git_branch",
    "label",
    "contains",
    "leaf",
];
const SEED: &[&str] = &["mode", "continued"];
const FALLBACK: &[&str] = &["do"];
const EXAMPLE: &[&str] =
    &["transcript", "inline", "now", "recorded", "cwd", "git_branch", "labels", "leaf", "refusal"];

const AGENTS: [(&str, &str); 3] = [("qwen", "qwen"), ("claude", "claude"), ("reasonix", "reasonix")];
const CLASSIFICATIONS: [(&str, Classification); 4] = [
    ("ordinary", Classification::Ordinary),
    ("rewind-descendant", Classification::RewindDescendant),
    ("rewind-sibling", Classification::RewindSibling),
    ("mixed-rewind", Classification::MixedRewind),
];
const TURNS: [(&str, Turn); 4] = [
    ("complete", Turn::Complete),
    ("open-tool-call", Turn::OpenToolCall),
    ("awaiting-reply", Turn::AwaitingReply),
    ("none", Turn::None),
];
/// The diagnostics that can stand on a chain. Those of single lines stand on none.
const DIAGNOSTICS: [(&str, &str); 3] = [
    ("missing-parent", "missing-parent"),
    ("conflicting-parent", "conflicting-parent"),
    ("parent-cycle", "parent-cycle"),
];
const TIES: [(&str, Tie); 3] = [("refuse", Tie::Refuse), ("next", Tie::Next), ("prompt", Tie::Prompt)];
const MODES: [(&str, SeedMode); 3] =
    [("fork", SeedMode::Fork), ("in-place", SeedMode::InPlace), ("none", SeedMode::None)];
const CONTINUED: [(&str, Continued); 3] =
    [("follow", Continued::Follow), ("refuse", Continued::Refuse), ("fork-again", Continued::ForkAgain)];
const FALLBACKS: [(&str, Fallback); 2] = [("refuse", Fallback::Refuse), ("prompt", Fallback::Prompt)];
/// What can come out of an example beside a leaf. An example has no terminal.
const REFUSALS: [(&str, &str); 4] = [
    ("policy-no-match", "policy-no-match"),
    ("policy-ambiguous", "policy-ambiguous"),
    ("not-a-terminal", "not-a-terminal"),
    ("no-leaf", "no-leaf"),
];

/// Reads a policy. `path` is used in messages only, and for the name of a policy that gives none.
///
/// # Errors
/// Every mistake that was found: all of the syntax, or, where that is right, all of the grammar.
pub fn parse(text: &str, path: &str) -> Result<Policy, PolicyErrors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (document, syntax) = DeTable::parse_recoverable(text);
    let mut r = Reader::new(text);
    for error in &syntax {
        r.wrong(error.span().unwrap_or(text.len()..text.len()), error.message());
    }
    if !r.is_fine() {
        return Err(r.into_errors(path));
    }
    match policy(&mut r, document.get_ref(), path) {
        Some(policy) if r.is_fine() => Ok(policy),
        _ => Err(r.into_errors(path)),
    }
}

/// The document. Whatever is `None` has left a problem behind.
fn policy<'t>(r: &mut Reader<'t>, document: &'t DeTable<'t>, path: &str) -> Option<Policy> {
    // The version comes first: of a newer file nothing else is understood.
    let top = Table::unchecked("the policy", 0..0, document);
    let version = r.required(&top, "version").and_then(|f| r.whole(&f).map(|v| (v, f.span)));
    if let Some((version, span)) = version.as_ref().filter(|(v, _)| *v != VERSION) {
        r.wrong(
            span.clone(),
            format!("unsupported version {version}: this offshoot reads version {VERSION}"),
        );
        return None;
    }
    let top = r.table("the policy", 0..0, document, POLICY);
    let name = match top.get("name") {
        Some(field) => r.name(&field),
        None => Some(stem(path)),
    };
    let reason = r.required(&top, "reason").and_then(|f| r.string(&f));
    let fallback = top.get("fallback").map_or(Some(Fallback::default()), |f| {
        let table = r.sub_table("`[fallback]`", &f, FALLBACK)?;
        table.get("do").map_or(Some(Fallback::default()), |f| r.choice(&f, &FALLBACKS))
    });
    let rules = rules(r, &top, fallback);
    let seed = top.get("seed").map_or(Some(SeedPolicy::default()), |f| seed(r, &f));
    let uses_age = rules
        .iter()
        .flatten()
        .any(|rule| rule.keep.iter().any(|filter| matches!(filter, Filter::MaxAge(_) | Filter::MinAge(_))));
    let examples: Vec<Option<Example>> = match top.get("example") {
        Some(f) => {
            let tables = r.tables("`[[example]]`", &f, EXAMPLE);
            tables.iter().map(|t| example(r, t, uses_age)).collect()
        }
        None => Vec::new(),
    };
    Some(Policy {
        version: u32::try_from(version?.0).ok()?,
        name: name?,
        reason: reason?,
        rules: rules.into_iter().collect::<Option<_>>()?,
        seed: seed?,
        fallback: fallback?,
        examples: examples.into_iter().collect::<Option<_>>()?,
    })
}

/// The file name without its extension.
fn stem(path: &str) -> String {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    super::render::clean(if stem.is_empty() { "policy" } else { stem })
}

fn rules<'t>(r: &mut Reader<'t>, top: &Table<'t>, fallback: Option<Fallback>) -> Vec<Option<Rule>> {
    let Some(field) = top.get("rule") else {
        // Without rules a policy can still say: always ask.
        if fallback == Some(Fallback::Refuse) {
            r.wrong(top.span.clone(), "the policy needs a `[[rule]]`, or a fallback that prompts");
        }
        return Vec::new();
    };
    let tables = r.tables("`[[rule]]`", &field, RULE);
    if tables.is_empty() && r.is_fine() && fallback == Some(Fallback::Refuse) {
        r.wrong(field.span, "the policy needs a `[[rule]]`, or a fallback that prompts");
    }
    let mut names = HashSet::new();
    let mut rules = Vec::with_capacity(tables.len());
    for table in &tables {
        rules.push(rule(r, table));
        if let Some(field) = table.get("name")
            && let Some(name) = field.value.as_str()
            && !names.insert(name)
        {
            r.wrong(field.span, format!("two rules have the name {}", quote(name)));
        }
    }
    rules
}

fn rule<'t>(r: &mut Reader<'t>, table: &Table<'t>) -> Option<Rule> {
    let name = r.required(table, "name").and_then(|f| r.name(&f));
    let reason = r.required(table, "reason").and_then(|f| r.string(&f));
    let when = table.get("when").map_or(Some(When::default()), |f| when(r, &f));
    let keep = table.get("keep").map_or(Some(Vec::new()), |f| keep(r, &f));
    let order = table.get("order").map_or(Some(Order::default()), |f| r.choice(&f, &Order::NAMES));
    let margin = table.get("margin").map_or(Some(None), |f| margin(r, &f, order?).map(Some));
    let tie = table.get("tie").map_or(Some(Tie::default()), |f| r.choice(&f, &TIES));
    Some(Rule {
        name: name?,
        reason: reason?,
        when: when?,
        keep: keep?,
        order: order?,
        margin: margin?,
        tie: tie?,
    })
}

fn margin<'t>(r: &mut Reader<'t>, field: &Field<'t>, order: Order) -> Option<Margin> {
    match order {
        Order::Newest | Order::Oldest => r.duration(field).map(Margin::Time),
        Order::MostMessages | Order::Deepest => r.whole(field).map(Margin::Count),
        Order::Only | Order::FileLast | Order::ClientPick => {
            let message = format!(
                "`margin` needs an order by time (`newest`, `oldest`) or by count (`most-messages`, `deepest`), \
                 and this one is `{}`",
                order.name()
            );
            r.wrong(field.key_span.clone(), message);
            None
        }
    }
}

fn when<'t>(r: &mut Reader<'t>, field: &Field<'t>) -> Option<When> {
    let table = r.sub_table("`when`", field, WHEN)?;
    let agent = table.get("agent").map_or(Some(Vec::new()), |f| {
        r.choices(&f, &AGENTS).map(|names| names.into_iter().map(str::to_owned).collect())
    });
    let min_leaves = table.get("min_leaves").map_or(Some(None), |f| r.whole(&f).map(Some));
    let max_leaves = table.get("max_leaves").map_or(Some(None), |f| r.whole(&f).map(Some));
    if let (Some(Some(min)), Some(Some(max))) = (min_leaves, max_leaves)
        && max < min
    {
        r.wrong(span_of(&table, "max_leaves"), format!("`max_leaves` is less than `min_leaves` = {min}"));
    }
    let mut globs = |key| {
        table.get(key).map_or(Some(Vec::new()), |f| {
            let texts = r.strings(&f)?;
            texts.into_iter().map(|(text, span)| r.glob(key, &text, span)).collect()
        })
    };
    let (session, cwd) = (globs("session"), globs("cwd"));
    Some(When {
        agent: agent?,
        min_leaves: min_leaves?,
        max_leaves: max_leaves?,
        session: session?,
        cwd: cwd?,
    })
}

fn span_of(table: &Table<'_>, key: &'static str) -> Range<usize> {
    table.get(key).map_or(table.span.clone(), |f| f.span)
}

/// The filters, in the order of [`Filter`]'s variants (and of `KEEP`), wherever they stand in the file.
fn keep<'t>(r: &mut Reader<'t>, field: &Field<'t>) -> Option<Vec<Filter>> {
    let table = r.sub_table("`keep`", field, KEEP)?;
    let mut filters = Vec::new();
    let mut all = true;
    for &key in KEEP {
        if let Some(field) = table.get(key) {
            match filter(r, &field) {
                Some(filter) => filters.push(filter),
                None => all = false,
            }
        }
    }
    let age = |wanted: &str| {
        filters.iter().find_map(|f| match f {
            Filter::MaxAge(d) | Filter::MinAge(d) if f.name() == wanted => Some(*d),
            _ => None,
        })
    };
    if let (Some(max), Some(min)) = (age("max_age"), age("min_age"))
        && max < min
    {
        r.wrong(span_of(&table, "max_age"), "`max_age` is less than `min_age`: no leaf can be kept");
    }
    all.then_some(filters)
}

fn filter<'t>(r: &mut Reader<'t>, field: &Field<'t>) -> Option<Filter> {
    let texts = |strings: Vec<(String, Range<usize>)>| strings.into_iter().map(|(s, _)| s);
    Some(match field.key {
        "recorded" => Filter::Recorded(r.boolean(field)?),
        "client_pick" => Filter::ClientPick(r.boolean(field)?),
        "classification" => Filter::Classification(r.choices(field, &CLASSIFICATIONS)?),
        "turn" => Filter::Turn(r.choices(field, &TURNS)?),
        "max_age" => Filter::MaxAge(r.duration(field)?),
        "min_age" => Filter::MinAge(r.duration(field)?),
        "min_user" => Filter::MinUser(r.whole(field)?),
        "min_messages" => Filter::MinMessages(r.whole(field)?),
        "distinct_messages" => Filter::DistinctMessages(r.whole(field)?),
        "interleaved" => Filter::Interleaved(r.boolean(field)?),
        "diagnostics" => Filter::Diagnostics(diagnostics(r, field)?),
        "git_branch" => {
            let names = r.strings(field)?;
            let patterns: Vec<Option<BranchPattern>> = names
                .into_iter()
                .map(|(name, span)| match name.as_str() {
                    "current" => Some(BranchPattern::Current),
                    _ => r.glob(field.key, &name, span).map(BranchPattern::Glob),
                })
                .collect();
            Filter::GitBranch(patterns.into_iter().collect::<Option<_>>()?)
        }
        "label" => Filter::Label(texts(r.strings(field)?).collect()),
        "contains" => Filter::Contains(texts(r.strings(field)?).map(|s| s.to_lowercase()).collect()),
        "leaf" => Filter::Leaf(texts(r.strings(field)?).map(RecordId::new).collect()),
        other => unreachable!("BUG: `{other}` is in KEEP and has no filter"),
    })
}

/// `"none"`, or the kinds that must be absent.
fn diagnostics<'t>(r: &mut Reader<'t>, field: &Field<'t>) -> Option<Vec<String>> {
    if field.value.as_str() == Some("none") {
        return Some(DIAGNOSTICS.iter().map(|(name, _)| (*name).to_owned()).collect());
    }
    if field.value.is_str() {
        let with_none: Vec<(&str, &str)> = [("none", "none")].into_iter().chain(DIAGNOSTICS).collect();
        return r.choice(field, &with_none).map(|name| vec![name.to_owned()]);
    }
    Some(r.choices(field, &DIAGNOSTICS)?.into_iter().map(str::to_owned).collect())
}

fn seed<'t>(r: &mut Reader<'t>, field: &Field<'t>) -> Option<SeedPolicy> {
    let table = r.sub_table("`[seed]`", field, SEED)?;
    let mode = table.get("mode").map_or(Some(None), |f| r.choice(&f, &MODES).map(Some));
    let continued = table.get("continued").map_or(Some(Continued::default()), |f| r.choice(&f, &CONTINUED));
    Some(SeedPolicy { mode: mode?, continued: continued? })
}

fn example<'t>(r: &mut Reader<'t>, table: &Table<'t>, uses_age: bool) -> Option<Example> {
    let transcript = one_of(r, table, ["transcript", "inline"]).and_then(|f| {
        let text = r.string(&f)?;
        Some(if f.key == "inline" { Transcript::Inline(text) } else { Transcript::File(text) })
    });
    let expected = one_of(r, table, ["leaf", "refusal"]).and_then(|f| match f.key {
        "leaf" => r.string(&f).map(|id| Expected::Leaf(RecordId::new(id))),
        _ => r.choice(&f, &REFUSALS).map(|code| Expected::Refusal(code.to_owned())),
    });
    let now = match table.get("now") {
        Some(f) => r.time(&f).map(Some),
        None if uses_age => {
            r.wrong(table.span.clone(), "`[[example]]` needs `now`, because a rule keeps leaves by age");
            None
        }
        None => Some(None),
    };
    let mut text = |key| table.get(key).map_or(Some(None), |f| r.string(&f).map(Some));
    let (recorded, cwd, git_branch) = (text("recorded"), text("cwd"), text("git_branch"));
    let labels = table.get("labels").map_or(Some(BTreeMap::new()), |f| {
        let names = r.open_table("`labels`", &f)?;
        let mut labels = BTreeMap::new();
        for (id, key_span, value) in names.entries() {
            let label = Field { key: "labels", key_span, span: value.span(), value: value.get_ref() };
            labels.insert(RecordId::new(id), r.string(&label)?);
        }
        Some(labels)
    });
    Some(Example {
        line: r.line(table.span.start),
        transcript: transcript?,
        now: now?,
        recorded: recorded?.map(RecordId::new),
        cwd: cwd?,
        git_branch: git_branch?,
        labels: labels?,
        expected: expected?,
    })
}

/// Exactly one of two keys.
fn one_of<'t>(r: &mut Reader<'t>, table: &Table<'t>, keys: [&'static str; 2]) -> Option<Field<'t>> {
    let [a, b] = keys;
    match (table.get(a), table.get(b)) {
        (Some(_), Some(second)) => {
            r.wrong(second.key_span, format!("{} has both `{a}` and `{b}`", table.name));
            None
        }
        (None, None) => {
            r.wrong(table.span.clone(), format!("{} needs `{a}` or `{b}`", table.name));
            None
        }
        (one, other) => one.or(other),
    }
}
