//! What the keys do: one table for the program, its help and its footer.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for while the tree has the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// Open, or go in.
    In,
    /// Close, or go out.
    Out,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// The first row.
    Home,
    /// The last row.
    End,
    /// Open a group, or the menu.
    Enter,
    /// Do it with the marked row.
    Do(super::Action),
    /// Search.
    Search,
    /// The next match.
    Next,
    /// The match before.
    Previous,
    /// The next leaf.
    NextLeaf,
    /// The leaf before.
    PreviousLeaf,
    /// The branch before, at the branch point above.
    SiblingBefore,
    /// The branch after it.
    SiblingAfter,
    /// Mark, or compare with what was marked.
    Mark,
    /// Read the whole text.
    Read,
    /// Scroll the text down.
    ScrollDown,
    /// Scroll it up.
    ScrollUp,
    /// Read the file again.
    Reload,
    /// The keys.
    Help,
    /// Leave.
    Leave,
    /// Leave at once.
    Interrupt,
}

/// The keys as they are shown: a group, what stands for the keys, what they do.
pub const SHOWN: &[(&str, &str)] = &[
    ("up k, down j", "one row"),
    ("right l", "open a group or a branch, or go to the first row below it"),
    ("left h", "close it, or go to where the branch begins, then to the branch point"),
    ("PageUp, PageDown, Home, End", "pages, the first row, the last"),
    ("Enter", "open or close a group; on a message: what can be done there"),
    ("f", "fork here, at once: a new session that ends with this record"),
    ("r", "resume here, at once, in this session; `offshoot undo` takes it back"),
    ("o", "overwrite: drop what comes after; asks first, a backup is kept"),
    ("/", "search the beginnings of rows (`offshoot find`: all); n and N go on"),
    ("Tab, Shift-Tab", "the next leaf, the one before"),
    ("[ ]", "the branch before or after this one"),
    ("=", "mark this row, or compare it with the marked one"),
    ("v", "read the whole text"),
    ("J K", "scroll the text below the tree"),
    ("R", "read the file again"),
    ("?", "these keys"),
    ("Esc, q, Ctrl-C", "leave"),
];

/// What a key asks for.
pub fn ask(key: KeyEvent) -> Option<Ask> {
    use super::Action;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => Ask::Interrupt,
        KeyCode::Char('d') if control => Ask::ScrollDown,
        KeyCode::Char('u') if control => Ask::ScrollUp,
        KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Up | KeyCode::Char('k') => Ask::Up,
        KeyCode::Down | KeyCode::Char('j') => Ask::Down,
        KeyCode::Right | KeyCode::Char('l') => Ask::In,
        KeyCode::Left | KeyCode::Char('h') => Ask::Out,
        KeyCode::PageUp => Ask::PageUp,
        KeyCode::PageDown | KeyCode::Char(' ') => Ask::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Ask::Home,
        KeyCode::End | KeyCode::Char('G') => Ask::End,
        KeyCode::Enter => Ask::Enter,
        KeyCode::Char('f') => Ask::Do(Action::Fork),
        KeyCode::Char('r') => Ask::Do(Action::Resume),
        KeyCode::Char('o') => Ask::Do(Action::Overwrite),
        KeyCode::Char('/') => Ask::Search,
        KeyCode::Char('n') => Ask::Next,
        KeyCode::Char('N') => Ask::Previous,
        KeyCode::Tab => Ask::NextLeaf,
        KeyCode::BackTab => Ask::PreviousLeaf,
        KeyCode::Char('[') => Ask::SiblingBefore,
        KeyCode::Char(']') => Ask::SiblingAfter,
        KeyCode::Char('=') => Ask::Mark,
        KeyCode::Char('v') => Ask::Read,
        KeyCode::Char('J') => Ask::ScrollDown,
        KeyCode::Char('K') => Ask::ScrollUp,
        KeyCode::Char('R') => Ask::Reload,
        KeyCode::Char('?') => Ask::Help,
        KeyCode::Esc | KeyCode::Char('q') => Ask::Leave,
        _ => return None,
    })
}
