//! Fuzzy search over what the items say. The work is done in slices, so that no key waits for it.

use std::time::Instant;

use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    pattern::{CaseMatching, Normalization, Pattern},
};

use super::{doc::Doc, outline::ItemIx, page::Row, words};
use crate::cli::text::beginning;

/// So many bytes of what items say are kept to be searched, all in all.
const KEPT: usize = 32 * 1024 * 1024;
/// Of an item so many at least, and at most.
const SEARCHED: [usize; 2] = [512, 4096];

/// How many bytes of what each of so many items says can be found.
fn searched(items: usize) -> usize {
    (KEPT / items.max(1)).clamp(SEARCHED[0], SEARCHED[1])
}

/// A search, finished or not.
pub struct Search {
    query: String,
    pattern: Pattern,
    matcher: Matcher,
    /// By item what it says, as far as it was read.
    index: Vec<Box<str>>,
    scanned: usize,
    /// Every item that matches at all, in the order of the page, and how well.
    hits: Vec<(ItemIx, u32)>,
    best: u32,
}

impl Default for Search {
    fn default() -> Self {
        Search {
            query: String::new(),
            pattern: Pattern::default(),
            matcher: Matcher::new(Config::DEFAULT),
            index: Vec::new(),
            scanned: 0,
            hits: Vec::new(),
            best: 0,
        }
    }
}

impl Search {
    /// What is looked for.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Looks for something else.
    pub fn set_query(&mut self, query: String) {
        self.pattern = Pattern::parse(&query, CaseMatching::Smart, Normalization::Smart);
        self.query = query;
        self.scanned = 0;
        self.hits.clear();
        self.best = 0;
    }

    /// Whether something is looked for and not all has been looked at.
    pub fn is_busy(&self, doc: &Doc) -> bool {
        !self.query.is_empty() && self.scanned < doc.outline.items().len()
    }

    /// How much has been looked at, in percent.
    pub fn percent(&self, doc: &Doc) -> usize {
        self.scanned * 100 / doc.outline.items().len().max(1)
    }

    /// Looks on, until all has been looked at or the time has come.
    pub fn work(&mut self, doc: &Doc, until: Instant) {
        let mut chars = Vec::new();
        let searched = searched(doc.outline.items().len());
        while self.is_busy(doc) {
            let item = self.scanned as ItemIx;
            if self.index.len() == self.scanned {
                let text = words::text(doc, Row::of(item)).map(|(_, text)| text).unwrap_or_default();
                self.index.push(beginning(&text, searched).into());
            }
            let text = Utf32Str::new(&self.index[self.scanned], &mut chars);
            if let Some(score) = self.pattern.score(text, &mut self.matcher) {
                self.hits.push((item, score));
                self.best = self.best.max(score);
            }
            self.scanned += 1;
            if Instant::now() >= until {
                break;
            }
        }
    }

    /// The items that match about as well as the best one, in the order of the page: letters that happen to stand
    /// somewhere in a long text are no match where others have the word.
    pub fn hits(&self) -> impl Iterator<Item = ItemIx> + '_ {
        self.hits.iter().filter(|&&(_, score)| self.counts(score)).map(|&(item, _)| item)
    }

    /// Whether an item is one of [`Search::hits`].
    pub fn is_hit(&self, item: ItemIx) -> bool {
        let found = self.hits.binary_search_by_key(&item, |&(at, _)| at);
        found.is_ok_and(|at| self.counts(self.hits[at].1))
    }

    fn counts(&self, score: u32) -> bool {
        score * 4 >= self.best * 3
    }

    /// The best match; of equal ones the first that does not stand above `from`.
    pub fn best(&self, from: ItemIx) -> Option<ItemIx> {
        let mut best = self.hits.iter().filter(|&&(_, score)| score == self.best).map(|&(item, _)| item);
        let first = best.next()?;
        Some(if first >= from { first } else { best.find(|&item| item >= from).unwrap_or(first) })
    }

    /// The next match below or above an item, round the end.
    pub fn next(&self, from: ItemIx, down: bool) -> Option<ItemIx> {
        if down {
            self.hits().find(|&item| item > from).or_else(|| self.hits().next())
        } else {
            self.hits().filter(|&item| item < from).last().or_else(|| self.hits().last())
        }
    }
}
