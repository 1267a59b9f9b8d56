//! Two branches: from where they part, what each has that the other lacks.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
};

use hashbrown::HashSet;
use serde::Serialize;

use crate::{
    reading::{Item, Turn},
    transcript::IdIx,
};

/// Where two ways to a leaf part: how many records from the root on they share. Linear.
pub fn shared(one: &[IdIx], other: &[IdIx]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// What one branch has behind the point where they part.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// Records.
    pub records: u64,
    /// Its turns.
    pub turns: Vec<Turn>,
    /// Which tools were run, and how often each.
    pub tools: BTreeMap<String, u64>,
    /// Of which tools there are results whose calls are not on this side, and how many of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub results_without_call: BTreeMap<String, u64>,
    /// Files that they name.
    pub files: Vec<Touched>,
    /// Texts, by their place among the texts of all turns, that the other branch has to the letter too, blanks aside.
    pub shared_texts: Vec<usize>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Touched {
    /// As the tool was given it.
    pub path: String,
    /// By which tools.
    pub tools: BTreeSet<String>,
    /// Whether tools of the other branch name it too.
    pub on_both: bool,
}

/// Compares the turns of two branches behind the point where they part. Linear in their texts.
pub fn compare(one: Vec<Turn>, other: Vec<Turn>) -> [Side; 2] {
    let hasher = RandomState::new();
    let texts = [texts_of(&one, &hasher), texts_of(&other, &hasher)];
    let [mut one, mut other] = [side(one), side(other)];
    let paths = |side: &Side| side.files.iter().map(|f| f.path.clone()).collect::<HashSet<String>>();
    let both: HashSet<String> = paths(&one).intersection(&paths(&other)).cloned().collect();
    for side in [&mut one, &mut other] {
        side.files.iter_mut().for_each(|f| f.on_both = both.contains(&f.path));
    }
    one.shared_texts = in_both(&texts[0], &texts[1]);
    other.shared_texts = in_both(&texts[1], &texts[0]);
    [one, other]
}

fn side(turns: Vec<Turn>) -> Side {
    let mut side = Side { records: turns.iter().map(|t| t.records).sum(), ..Side::default() };
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for tool in turns.iter().flat_map(Turn::tools) {
        let count = if tool.called { &mut side.tools } else { &mut side.results_without_call };
        *count.entry(tool.name.clone()).or_default() += 1;
        for path in &tool.files {
            files.entry(path.clone()).or_default().insert(tool.name.clone());
        }
    }
    side.files = files.into_iter().map(|(path, tools)| Touched { path, tools, on_both: false }).collect();
    side.turns = turns;
    side
}

/// The texts of turns in order: what was said, by either.
pub fn texts(turns: &[Turn]) -> impl Iterator<Item = &str> {
    turns.iter().flat_map(|turn| turn.prompt.iter().chain(&turn.items)).filter_map(|item| match item {
        Item::Text { text } => Some(text.as_str()),
        _ => None,
    })
}

/// The hash of each text, without its blanks.
fn texts_of(turns: &[Turn], hasher: &RandomState) -> Vec<u64> {
    texts(turns).map(|text| hasher.hash_one(text.split_whitespace().collect::<Vec<_>>())).collect()
}

fn in_both(texts: &[u64], other: &[u64]) -> Vec<usize> {
    let other: HashSet<u64> = other.iter().copied().collect();
    (0..texts.len()).filter(|&at| other.contains(&texts[at])).collect()
}
