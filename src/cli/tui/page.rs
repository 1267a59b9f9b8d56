//! Which items are on the page: what is opened, what is folded, and where a key leads. Pure.

use hashbrown::HashSet;

use super::outline::{ItemIx, Outline, RunIx};

/// One row of the page: an item, or one record of an opened item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row {
    /// The item.
    pub item: ItemIx,
    /// 0 is the item itself, n its n-th record.
    pub member: u32,
}

impl Row {
    /// The row of an item.
    pub fn of(item: ItemIx) -> Row {
        Row { item, member: 0 }
    }
}

/// What is shown of an outline.
#[derive(Clone, Debug, Default)]
pub struct Page {
    opened: HashSet<ItemIx>,
    folded: HashSet<ItemIx>,
    rows: Vec<Row>,
}

/// How many records an item shows when it is opened.
pub type Members<'a> = &'a dyn Fn(ItemIx) -> u32;

impl Page {
    /// Everything, with all groups closed.
    pub fn new(outline: &Outline) -> Self {
        let mut page = Page::default();
        page.lay(outline, &|_| 0);
        page
    }

    /// The rows, from the top of the page to its end.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether an item shows its records.
    pub fn is_open(&self, item: ItemIx) -> bool {
        self.opened.contains(&item)
    }

    /// Whether what follows an item is hidden.
    pub fn is_folded(&self, item: ItemIx) -> bool {
        self.folded.contains(&item)
    }

    /// The place of a row on the page, or of the nearest row above it.
    pub fn place_of(&self, row: Row) -> usize {
        self.rows.partition_point(|r| *r <= row).saturating_sub(1)
    }

    /// Opens or closes a group.
    pub fn set_open(&mut self, outline: &Outline, members: Members<'_>, item: ItemIx, open: bool) {
        let changed = if open { self.opened.insert(item) } else { self.opened.remove(&item) };
        if changed {
            self.lay(outline, members);
        }
    }

    /// Hides what follows an item, or shows it.
    pub fn set_folded(&mut self, outline: &Outline, members: Members<'_>, item: ItemIx, folded: bool) {
        let changed = if folded { self.folded.insert(item) } else { self.folded.remove(&item) };
        if changed {
            self.lay(outline, members);
        }
    }

    /// Shows an item, whatever is folded above it, and returns its row's place.
    pub fn reveal(&mut self, outline: &Outline, members: Members<'_>, row: Row) -> usize {
        let before = self.folded.len();
        self.folded.retain(|&folded| !outline.below(folded).contains(&row.item));
        let opened = row.member > 0 && self.opened.insert(row.item);
        if opened || self.folded.len() != before {
            self.lay(outline, members);
        }
        self.place_of(row)
    }

    fn lay(&mut self, outline: &Outline, members: Members<'_>) {
        self.rows.clear();
        let mut item = 0;
        while (item as usize) < outline.items().len() {
            self.rows.push(Row::of(item));
            if self.opened.contains(&item) {
                self.rows.extend((1..=members(item)).map(|member| Row { item, member }));
            }
            item = if self.folded.contains(&item) { outline.below(item).end } else { item + 1 };
        }
    }
}

/// The item that one comes to on the way up: of a row within a run the run's first, of that the branch point above.
pub fn up(outline: &Outline, item: ItemIx) -> Option<ItemIx> {
    let run = outline.run_of(item);
    if item != run.from {
        return Some(run.from);
    }
    run.parent.map(|parent| outline.runs()[parent as usize].point)
}

/// The first items of the branches beside the run of an item: the one before and the one after.
pub fn siblings(outline: &Outline, item: ItemIx) -> (Option<ItemIx>, Option<ItemIx>) {
    let here = outline.item(item).run as usize;
    let runs = outline.runs();
    let run = runs[here];
    // All that branches off a sibling lies between it and the next.
    let mut before = None;
    let mut at = run.parent.map_or(0, |p| p as usize + 1);
    while at < here {
        before = Some(runs[at].from);
        at = after(outline, at as RunIx) as usize;
    }
    let next =
        runs.get(after(outline, here as RunIx) as usize).filter(|r| r.parent == run.parent).map(|r| r.from);
    (before, next)
}

/// The first run behind all that branches off one.
fn after(outline: &Outline, run: RunIx) -> RunIx {
    let end = outline.runs()[run as usize].end;
    outline.runs().partition_point(|r| r.from < end) as RunIx
}
