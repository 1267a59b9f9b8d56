//! The navigator's state, and what each key does to it. Knows nothing of a terminal.

use std::{rc::Rc, time::Instant};

use hashbrown::HashMap;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    Action, compare,
    details::{self, Line},
    doc::Doc,
    keys::{self, Ask},
    outline::{ItemIx, Kind},
    page::{Page, Row, siblings, up},
    search::Search,
    words::{self, Role, Words},
};
use crate::{
    cli::text::argument, record::RecordId, refusal::Code, store::snapshot::Change, transcript::RecordIx,
};

/// So many rows' words are kept.
const KEPT: usize = 4096;

/// What the navigator is asked to end with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was chosen.
    Leave,
    /// Ctrl-C.
    Interrupted,
    /// Something is to be done with a record; with the turn that ends there, where a session is forked at turns.
    Act(Action, RecordId, Option<String>),
    /// The file is to be read again; the navigator goes on.
    Reload,
}

/// What can be done in this session.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether colours are used.
    pub color: bool,
    /// Whether the choice is only said: any record can be chosen then.
    pub emit: bool,
    /// The live agent that has the session open: only forks are possible then.
    pub live: Option<String>,
}

/// Who has the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The tree.
    Walk,
    /// The search line; the row to go back to.
    Search(Row),
    /// The menu, at one of its entries.
    Menu(usize),
    /// The question whether to overwrite: the records that go, and the branches that end among them.
    Confirm(usize, usize),
    /// The text alone.
    Read,
    /// The keys.
    Help,
    /// What two rows differ in: its lines.
    Compare(Rc<[Line]>),
}

/// The navigator.
pub struct App {
    /// The session.
    pub doc: Doc,
    /// What is on the page.
    pub page: Page,
    /// The place of the marked row.
    pub at: usize,
    /// The first row on the screen.
    pub top: usize,
    /// Rows of the tree on the screen, as it was drawn last.
    pub height: usize,
    /// Who has the keys.
    pub mode: Mode,
    /// The first line of text on the screen.
    pub scroll: usize,
    /// Lines of text on the screen, as it was drawn last.
    pub text_height: usize,
    /// The row to compare with.
    pub marked: Option<Row>,
    /// The search.
    pub search: Search,
    /// What is said at the bottom until the next key.
    pub message: Option<String>,
    /// A message with a command for later, which is said again when the screen has been left.
    pub afterwards: Option<String>,
    /// How far it is, while the file is being read again.
    pub reading: Option<String>,
    /// What has become of the file since it was read.
    pub change: Option<Change>,
    /// What can be done.
    pub options: Options,
    words: HashMap<Row, Words>,
    text: Option<(Row, usize, Rc<[Line]>)>,
}

impl App {
    /// Shows the whole tree, with the row marked that the client would continue at, else the last one.
    pub fn new(doc: Doc, options: Options) -> Self {
        let page = Page::new(&doc.outline);
        let mut app = App {
            page,
            at: 0,
            top: 0,
            height: 1,
            mode: Mode::Walk,
            scroll: 0,
            text_height: 1,
            marked: None,
            search: Search::default(),
            message: None,
            afterwards: None,
            reading: None,
            change: None,
            options,
            words: HashMap::new(),
            text: None,
            doc,
        };
        let last = app.doc.outline.items().len().saturating_sub(1) as ItemIx;
        app.go(app.doc.pick().unwrap_or(last));
        app
    }

    /// Shows the session as it is now, at the same record if it is still there.
    pub fn reload(&mut self, doc: Doc) {
        let record = self.record().map(|record| self.doc.id(record));
        let options = self.options.clone();
        let before = std::mem::replace(self, App::new(doc, options));
        let t = self.doc.transcript();
        let found = record.and_then(|id| t.ids.find(id.as_str())).and_then(|id| t.first(id));
        if let Some(item) = found.and_then(|record| self.doc.outline.item_of(record)) {
            self.go(item);
        }
        self.height = before.height;
        self.afterwards = before.afterwards;
        self.message = Some("read again".to_owned());
    }

    /// The marked row.
    pub fn row(&self) -> Row {
        self.page.rows().get(self.at).copied().unwrap_or(Row::of(0))
    }

    /// The record that an action is about: of a group the last one.
    pub fn record(&self) -> Option<RecordIx> {
        self.doc.record_of(self.row())
    }

    /// What a row says.
    pub fn words(&mut self, row: Row) -> &Words {
        if self.words.len() > KEPT && !self.words.contains_key(&row) {
            self.words.clear();
        }
        let doc = &self.doc;
        self.words.entry(row).or_insert_with(|| {
            words::words(doc, row).unwrap_or_else(|e| Words {
                role: Role::System,
                preview: format!("(cannot be read: {})", words::preview(&e.to_string())),
            })
        })
    }

    /// The text of the marked row in lines of a width.
    pub fn text(&mut self, columns: usize) -> Rc<[Line]> {
        let row = self.row();
        if let Some((_, _, lines)) = self.text.as_ref().filter(|(of, at, _)| (*of, *at) == (row, columns)) {
            return Rc::clone(lines);
        }
        let lines = details::details(&self.doc, row)
            .unwrap_or_else(|e| vec![Line::Head(format!("cannot be read: {e}"))]);
        let lines: Rc<[Line]> = details::wrap(&lines, columns).into();
        self.text = Some((row, columns, Rc::clone(&lines)));
        lines
    }

    /// Whether there is work left that no key waits for.
    pub fn is_busy(&self) -> bool {
        self.search.is_busy(&self.doc)
    }

    /// Does some of it.
    pub fn work(&mut self, until: Instant) {
        self.search.work(&self.doc, until);
        if let Mode::Search(from) = self.mode
            && let Some(best) = self.search.best(from.item)
        {
            self.go(best);
        }
    }

    /// Does what a key asks for.
    pub fn key(&mut self, key: KeyEvent) -> Option<Outcome> {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Outcome::Interrupted);
        }
        match self.mode.clone() {
            Mode::Walk => self.walk(keys::ask(key)?),
            Mode::Search(from) => self.type_search(key, from),
            Mode::Menu(at) => self.menu(key, at),
            Mode::Confirm(..) => self.confirm(key),
            Mode::Read | Mode::Help | Mode::Compare(_) => self.reader(key),
        }
    }

    fn walk(&mut self, ask: Ask) -> Option<Outcome> {
        let last = self.page.rows().len().saturating_sub(1);
        let page = self.height.saturating_sub(1).max(1);
        let item = self.row().item;
        match ask {
            Ask::Up => self.place(self.at.saturating_sub(1)),
            Ask::Down => self.place((self.at + 1).min(last)),
            Ask::PageUp => self.place(self.at.saturating_sub(page)),
            Ask::PageDown => self.place((self.at + page).min(last)),
            Ask::Home => self.place(0),
            Ask::End => self.place(last),
            Ask::In => self.go_in(),
            Ask::Out => self.go_out(),
            Ask::Enter if self.row().member == 0 && self.doc.opens(item) => self.toggle(item),
            Ask::Enter if self.page.is_folded(item) => self.fold(item, false),
            Ask::Enter => self.open_menu(Action::Fork),
            Ask::Do(action) => return self.begin(action),
            Ask::Search => {
                self.search.set_query(String::new());
                self.mode = Mode::Search(self.row());
            }
            Ask::Next | Ask::Previous => match self.search.next(item, ask == Ask::Next) {
                Some(item) => self.go(item),
                None if self.search.query().is_empty() => self.say("nothing was searched for: / does"),
                None => self.say("no match"),
            },
            Ask::NextLeaf | Ask::PreviousLeaf => self.leaf(ask == Ask::NextLeaf),
            Ask::SiblingBefore | Ask::SiblingAfter => {
                let (before, after) = siblings(&self.doc.outline, item);
                match if ask == Ask::SiblingBefore { before } else { after } {
                    Some(item) => self.go(item),
                    None => self.say("no further branch leaves that branch point"),
                }
            }
            Ask::Mark => self.mark(),
            Ask::Read => {
                self.mode = Mode::Read;
                self.scroll = 0;
            }
            Ask::ScrollDown => self.scroll_by(self.text_height.div_ceil(2) as isize),
            Ask::ScrollUp => self.scroll_by(-(self.text_height.div_ceil(2) as isize)),
            Ask::Reload => return Some(Outcome::Reload),
            Ask::Help => {
                self.mode = Mode::Help;
                self.scroll = 0;
            }
            Ask::Leave => return Some(Outcome::Leave),
            Ask::Interrupt => return Some(Outcome::Interrupted),
        }
        None
    }

    fn say(&mut self, message: impl Into<String>) {
        self.message = Some(message.into());
    }

    fn place(&mut self, at: usize) {
        if at != self.at {
            self.at = at;
            self.scroll = 0;
        }
    }

    /// Marks an item, which is shown if it was hidden.
    fn go(&mut self, item: ItemIx) {
        let doc = &self.doc;
        let at = self.page.reveal(&doc.outline, &|item| doc.members(item), Row::of(item));
        self.place(at);
    }

    fn toggle(&mut self, item: ItemIx) {
        let open = !self.page.is_open(item);
        if let Some(aside) = self.doc.aside(item).filter(|_| open)
            && let Err(why) = aside.read()
        {
            let why = why.to_owned();
            return self.say(why);
        }
        let doc = &self.doc;
        self.page.set_open(&doc.outline, &|item| doc.members(item), item, open);
        self.go(item);
    }

    fn fold(&mut self, item: ItemIx, folded: bool) {
        let doc = &self.doc;
        self.page.set_folded(&doc.outline, &|item| doc.members(item), item, folded);
        self.go(item);
    }

    fn go_in(&mut self) {
        let Row { item, member } = self.row();
        if member > 0 {
            return;
        }
        if self.page.is_folded(item) {
            return self.fold(item, false);
        }
        if self.doc.opens(item) && !self.page.is_open(item) {
            return self.toggle(item);
        }
        self.place((self.at + 1).min(self.page.rows().len().saturating_sub(1)));
    }

    fn go_out(&mut self) {
        let Row { item, member } = self.row();
        if member > 0 {
            return self.go(item);
        }
        if self.page.is_open(item) {
            return self.toggle(item);
        }
        if self.doc.outline.folds(item) && !self.page.is_folded(item) {
            return self.fold(item, true);
        }
        if let Some(above) = up(&self.doc.outline, item) {
            self.go(above);
        }
    }

    fn leaf(&mut self, down: bool) {
        let here = self.row().item;
        let leaves = self.doc.leaves();
        let found = if down {
            leaves.iter().find(|(item, _)| *item > here).or(leaves.first())
        } else {
            leaves.iter().rev().find(|(item, _)| *item < here).or(leaves.last())
        };
        match found.map(|(item, _)| *item) {
            Some(item) => self.go(item),
            None => self.say("there is no leaf"),
        }
    }

    fn mark(&mut self) {
        let row = self.row();
        match self.marked.take() {
            None => {
                self.marked = Some(row);
                self.say("marked: = on another row compares, = here takes the mark back");
            }
            Some(marked) if marked == row => self.say("the mark is taken back"),
            Some(marked) => {
                self.mode = Mode::Compare(compare::compare(&self.doc, marked.item, row.item).into());
                self.scroll = 0;
            }
        }
    }

    fn type_search(&mut self, key: KeyEvent, from: Row) -> Option<Outcome> {
        let mut query = self.search.query().to_owned();
        match key.code {
            KeyCode::Enter => {
                self.mode = Mode::Walk;
                return None;
            }
            KeyCode::Esc => {
                self.search.set_query(String::new());
                self.mode = Mode::Walk;
                self.go(from.item);
                return None;
            }
            KeyCode::Backspace => {
                query.pop();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => query.clear(),
            KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => query.push(c),
            _ => return None,
        }
        if query.is_empty() {
            self.go(from.item);
        }
        self.search.set_query(query);
        None
    }

    fn open_menu(&mut self, action: Action) {
        if matches!(self.doc.outline.item(self.row().item).kind, Kind::Sidechain | Kind::Agent(_)) {
            let what = "a subagent's conversation; the client resumes no record of it";
            return self.say(format!("{}: {what}", Code::SidechainLeaf.as_str()));
        }
        if self.record().is_none() {
            return self.say("this row is no record of this session");
        }
        let at = Action::ALL.iter().position(|&a| a == action).unwrap_or(0);
        self.mode = Mode::Menu(at);
    }

    /// Does it where it can be done; else the menu stands at it and says why not.
    fn begin(&mut self, action: Action) -> Option<Outcome> {
        self.open_menu(action);
        match self.mode {
            Mode::Menu(_) if self.why_not(action).is_none() => self.choose(action),
            _ => None,
        }
    }

    /// What would remove something is asked about once more.
    fn choose(&mut self, action: Action) -> Option<Outcome> {
        if action == Action::Overwrite {
            let (records, branches) = self.record().map_or((0, 0), |record| self.doc.below(record));
            self.mode = Mode::Confirm(records, branches);
            return None;
        }
        self.mode = Mode::Walk;
        self.act(action)
    }

    fn menu(&mut self, key: KeyEvent, at: usize) -> Option<Outcome> {
        let last = Action::ALL.len() - 1;
        let chosen = match key.code {
            KeyCode::Up | KeyCode::Char('k') => {
                self.mode = Mode::Menu(at.checked_sub(1).unwrap_or(last));
                return None;
            }
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => {
                self.mode = Mode::Menu(if at == last { 0 } else { at + 1 });
                return None;
            }
            KeyCode::Enter => Action::ALL[at],
            KeyCode::Char('f') => Action::Fork,
            KeyCode::Char('r') => Action::Resume,
            KeyCode::Char('o') => Action::Overwrite,
            KeyCode::Esc | KeyCode::Char('q') => {
                self.mode = Mode::Walk;
                return None;
            }
            _ => return None,
        };
        if let Some(why) = self.why_not(chosen) {
            self.mode = Mode::Walk;
            if why.contains("offshoot ") {
                self.afterwards = Some(why.clone());
            }
            self.say(why);
            return None;
        }
        self.choose(chosen)
    }

    fn confirm(&mut self, key: KeyEvent) -> Option<Outcome> {
        match key.code {
            KeyCode::Char('y') => self.act(Action::Overwrite),
            KeyCode::Esc | KeyCode::Char('n' | 'q') | KeyCode::Enter => {
                self.mode = Mode::Walk;
                self.say("nothing was changed");
                None
            }
            _ => None,
        }
    }

    fn act(&mut self, action: Action) -> Option<Outcome> {
        let record = self.record()?;
        let turn = self.doc.turn_at(record).map(|ends| ends.turn.clone());
        Some(Outcome::Act(action, self.doc.id(record), turn))
    }

    /// Why something cannot be done at the marked row.
    pub fn why_not(&self, action: Action) -> Option<String> {
        let record = self.record()?;
        let id = self.doc.id(record);
        if let (Some(agent), true) = (&self.options.live, action.writes_here()) {
            let command = action.command(argument(&self.doc.opened.path.display().to_string()), &id);
            return Some(format!("the session is open in {agent}: after it has ended, {command}"));
        }
        // Whoever only wants to be told may know better.
        if !self.options.emit
            && let Some(change) = self.change.filter(|change| action.is_stopped_by(*change))
        {
            let code = Code::SnapshotChanged.as_str();
            return Some(format!("{code}: the file {} since it was read; R reads it again", change.what()));
        }
        if self.doc.is_of_turns() {
            return self.why_not_of_turns(action, record);
        }
        if self.options.emit {
            return None;
        }
        let why = match action {
            Action::Fork if self.doc.inside_round(record) => {
                let code = Code::InsideToolRound.as_str();
                let hint = "fork at the reply behind the round, or at the prompt before it";
                format!("{code}: this is inside a round of tool calls; {hint}")
            }
            Action::Resume if !self.doc.ends_branch(self.row().item, record) => {
                "a session is resumed where a branch ends; from here it can be forked".to_owned()
            }
            Action::Overwrite if !self.doc.has_descendants(record) => {
                let why = if self.doc.is_beside(record) {
                    "this record stands beside the conversation"
                } else if self.doc.goes_on(self.row().item) {
                    // A compaction begins anew, and a message of several records goes on below any of them.
                    "what follows here does not descend from this record"
                } else {
                    "nothing comes after this record"
                };
                format!("{}: {why}", Code::NothingToRemove.as_str())
            }
            _ => return None,
        };
        Some(why)
    }

    /// The same for a session that is forked at ends of turns and at nothing else.
    fn why_not_of_turns(&self, action: Action, record: RecordIx) -> Option<String> {
        let unsupported = Code::SeedUnsupported.as_str();
        if action.writes_here() {
            let why = "nothing but the client writes to a session of Reasonix; fork where a turn ends";
            return Some(format!("{unsupported}: {why}"));
        }
        match self.doc.turn_at(record) {
            Some(ends) => {
                let code = ends.refused?.as_str();
                Some(format!("{code}: a turn ends here, but it cannot be forked at"))
            }
            None => {
                let path = argument(&self.doc.opened.path.display().to_string());
                let why = format!(
                    "no turn of this session ends here; `offshoot targets {path}` lists those that do"
                );
                Some(format!("{unsupported}: {why}"))
            }
        }
    }

    fn reader(&mut self, key: KeyEvent) -> Option<Outcome> {
        let page = self.text_height.saturating_sub(1).max(1) as isize;
        match key.code {
            KeyCode::Up | KeyCode::Char('k' | 'K') => self.scroll_by(-1),
            KeyCode::Down | KeyCode::Char('j' | 'J') => self.scroll_by(1),
            KeyCode::PageUp => self.scroll_by(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_by(page),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll_by(isize::MAX),
            KeyCode::Esc | KeyCode::Char('q' | 'v' | '?' | '=') | KeyCode::Enter => {
                self.mode = Mode::Walk;
                self.scroll = 0;
            }
            _ => {}
        }
        None
    }

    /// The end is found when it is drawn.
    fn scroll_by(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines).min(usize::MAX / 2);
    }
}
