//! One frame of the navigator: header, tree, text of the marked row, footer; and what stands over them.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line as TextLine, Span},
    widgets::{Block, BorderType, Clear},
};

use super::{
    Action,
    app::{App, Mode},
    details::{self, Line},
    keys,
    page::Row,
    words::{self, Role},
};
use crate::{
    cli::{
        prompt,
        text::{clean, counted, fit, session_name, width},
    },
    store::snapshot::Change,
};

/// With fewer rows the tree has all of them.
const TEXT_FROM: u16 = 14;
/// From so many columns on the text stands beside the tree.
const BESIDE_FROM: u16 = 150;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    if area.width < 8 || area.height == 0 {
        return;
    }
    let look = Look { color: app.options.color };
    // The fewer rows, the less stands around the tree; what is to be said is said last of all.
    let (above, below) = match area.height {
        0..3 => (0, 0),
        3..6 => (1, 1),
        _ => (1, 2),
    };
    let (head, foot) = (rows(area, 0, above), rows(area, area.height - below, below));
    let body = rows(area, above, area.height - above - below);
    header(frame, app, look, head);
    match app.mode.clone() {
        Mode::Read => {
            text(frame, app, look, body);
        }
        Mode::Help => {
            let lines = help(usize::from(body.width));
            reader(frame, app, look, body, &lines);
        }
        Mode::Compare(lines) => {
            let lines = details::wrap(&lines, usize::from(body.width));
            reader(frame, app, look, body, &lines);
        }
        _ if body.width >= BESIDE_FROM => {
            let left = body.width - body.width * 2 / 5;
            tree(frame, app, look, Rect { width: left, ..body });
            let rule = Rect { x: body.x + left, width: 1, ..body };
            for y in rule.top()..rule.bottom() {
                frame.buffer_mut().set_string(rule.x, y, "│", look.faint());
            }
            let beside = Rect { x: rule.x + 2, width: body.width - left - 2, ..body };
            text(frame, app, look, beside);
        }
        _ if area.height >= TEXT_FROM => {
            let below = (body.height / 3).max(4);
            let upper = body.height - below - 1;
            tree(frame, app, look, rows(body, 0, upper));
            rule(frame, look, rows(body, upper, 1));
            text(frame, app, look, rows(body, upper + 1, below));
        }
        _ => tree(frame, app, look, body),
    }
    match app.mode {
        Mode::Menu(at) => menu(frame, app, look, body, at),
        Mode::Confirm(records, branches) => confirm(frame, app, look, body, (records, branches)),
        Mode::Search(_) => {}
        _ => whole_message(frame, app, look, body),
    }
    footer(frame, app, look, foot, area.height >= TEXT_FROM || area.width >= BESIDE_FROM);
}

/// Some rows of an area.
fn rows(area: Rect, from: u16, count: u16) -> Rect {
    Rect { y: area.y + from, height: count, ..area }
}

/// How things look, with colours or without.
#[derive(Clone, Copy)]
struct Look {
    color: bool,
}

impl Look {
    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    fn badge(self, role: Role) -> Style {
        match role {
            Role::User => self.colored(Color::Cyan).add_modifier(Modifier::BOLD),
            Role::Assistant => self.colored(Color::Green),
            Role::Sidechain => self.colored(Color::Yellow),
            Role::Tool | Role::System => self.faint(),
        }
    }

    fn words(self, role: Role) -> Style {
        match role {
            Role::User => Style::new().add_modifier(Modifier::BOLD),
            Role::Assistant | Role::Sidechain => Style::new(),
            Role::Tool | Role::System => self.faint(),
        }
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn mark(self) -> Style {
        self.colored(Color::Magenta)
    }

    fn key(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn warning(self) -> Style {
        self.colored(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Of one colour, whatever stands in it.
    fn bar(self) -> Style {
        Style::new()
            .fg(Color::Reset)
            .add_modifier(Modifier::REVERSED)
            .remove_modifier(Modifier::DIM | Modifier::UNDERLINED)
    }
}

fn line(frame: &mut Frame<'_>, area: Rect, y: u16, line: &TextLine<'_>) {
    if y < area.height {
        frame.buffer_mut().set_line(area.x, area.y + y, line, area.width);
    }
}

/// The session on the left, the place on the right.
fn header(frame: &mut Frame<'_>, app: &App, look: Look, area: Rect) {
    let columns = usize::from(area.width);
    let place = format!("{}/{}", app.at + 1, app.page.rows().len());
    let branches = counted(app.doc.inspection.branches.len() as u64, "branch", "branches");
    let session = session_name(&app.doc.inspection.session_id);
    let records = counted(app.doc.transcript().records.len() as u64, "record", "records");
    let agent = app.doc.inspection.agent;
    let room = columns.saturating_sub(width(&place) + 1);
    let long = format!("{session}  {agent}, {branches}, {records}");
    let short = format!("{}  {agent}, {branches}", prompt::fit_id(session));
    let left = if width(&long) <= room { long } else { fit(&short, room) };
    let gap = " ".repeat(columns.saturating_sub(width(&left) + width(&place)));
    let title = TextLine::from(vec![
        Span::styled(clean(&left), look.key()),
        Span::raw(gap),
        Span::styled(place, look.faint()),
    ]);
    line(frame, area, 0, &title);
}

fn rule(frame: &mut Frame<'_>, look: Look, area: Rect) {
    frame.buffer_mut().set_string(area.x, area.y, "─".repeat(area.width.into()), look.faint());
}

fn tree(frame: &mut Frame<'_>, app: &mut App, look: Look, area: Rect) {
    app.height = area.height.into();
    let last_top = app.page.rows().len().saturating_sub(app.height);
    // A row of what stands above and below stays in sight where there is room for it.
    let margin = usize::from(app.height > 4);
    app.top =
        app.top.min(app.at.saturating_sub(margin)).max((app.at + 1 + margin).saturating_sub(app.height));
    app.top = app.top.min(last_top);
    let columns = usize::from(area.width);
    let shown: Vec<Row> = app.page.rows().iter().skip(app.top).take(app.height).copied().collect();
    // Where branch points nest deeper than the screen is wide, the outer ones are left out for all rows alike.
    let levels = (columns / 9).max(1) as u32;
    let deepest = shown.iter().map(|row| app.doc.outline.run_of(row.item).depth).max().unwrap_or(0);
    let from = deepest.saturating_sub(levels);
    for (y, row) in (0..).zip(shown) {
        let here = app.top + usize::from(y) == app.at;
        let content = tree_row(app, look, row, columns, from);
        line(frame, area, y, &content);
        if here {
            let bar = Rect { y: area.y + y, height: 1, ..area };
            frame.buffer_mut().set_style(bar, look.bar());
        }
    }
}

fn tree_row(app: &mut App, look: Look, row: Row, columns: usize, from: u32) -> TextLine<'static> {
    let mut guides = words::guides(&app.doc, row, from);
    let item = row.item;
    // The sign stands where the guides end in a blank, so that it moves nothing.
    guides.truncate(guides.strip_suffix(' ').unwrap_or(&guides).len());
    let sign = match () {
        () if row.member == 0 && app.page.is_folded(item) => "▸",
        () if row.member == 0 && app.doc.opens(item) && app.page.is_open(item) => "▾",
        () if row.member == 0 && app.doc.opens(item) => "▸",
        () => " ",
    };
    let flag = if app.marked == Some(row) { "=" } else { " " };
    let said = app.words(row).clone();
    let room = columns.saturating_sub(1 + width(&guides) + 1 + 4);
    let mut marks = match row.member {
        0 => words::marks(&app.doc, item, width(&said.preview), room),
        _ => String::new(),
    };
    if app.page.is_folded(item) {
        let hidden = app.doc.outline.below(item).len();
        marks = format!("{} {hidden} rows hidden", marks.trim_end()).trim_start().to_owned();
    }
    let taken = if marks.is_empty() { 0 } else { width(&marks) + 1 };
    let preview = words::cut(&said.preview, room.saturating_sub(taken));
    let mut style = look.words(said.role);
    if app.search.is_hit(item) && row.member == 0 {
        style = style.add_modifier(Modifier::UNDERLINED);
    }
    let mut spans = vec![
        Span::styled(flag, look.warning()),
        Span::styled(guides, look.faint()),
        Span::styled(sign, look.faint()),
        Span::styled(said.role.badge(), look.badge(said.role)),
        Span::raw(" "),
        Span::styled(preview, style),
    ];
    if !marks.is_empty() {
        spans.push(Span::styled(format!(" {marks}"), look.mark()));
    }
    TextLine::from(spans)
}

/// The text of the marked row.
fn text(frame: &mut Frame<'_>, app: &mut App, look: Look, area: Rect) {
    let lines = app.text(area.width.into());
    reader(frame, app, look, area, &lines);
}

/// Lines that are scrolled through.
fn reader(frame: &mut Frame<'_>, app: &mut App, look: Look, area: Rect, lines: &[Line]) {
    app.text_height = area.height.into();
    app.scroll = app.scroll.min(lines.len().saturating_sub(app.text_height));
    let shown = lines.iter().skip(app.scroll).take(app.text_height);
    for (y, content) in (0..).zip(shown) {
        let (text, style) = match content {
            Line::Head(text) => (text, look.colored(Color::Blue)),
            Line::Text(text) => (text, Style::new()),
            Line::Aside(text) => (text, look.faint()),
        };
        line(frame, area, y, &TextLine::styled(text.as_str(), style));
    }
    let below = lines.len().saturating_sub(app.scroll + app.text_height);
    if below > 0 && area.width > 24 {
        let more = format!(" {below} more lines ");
        let x = area.right() - more.len() as u16;
        frame.buffer_mut().set_string(x, area.bottom() - 1, more, look.warning());
    }
}

fn help(columns: usize) -> Vec<Line> {
    let widest = keys::SHOWN.iter().map(|(keys, _)| width(keys)).max().unwrap_or(0);
    let mut out = vec![Line::Head("Keys".to_owned()), Line::Text(String::new())];
    for (keys, what) in keys::SHOWN {
        if columns >= 80 {
            out.push(Line::Text(format!("{keys:widest$}  {what}")));
        } else {
            out.push(Line::Text((*keys).to_owned()));
            out.push(Line::Aside(format!("    {what}")));
        }
    }
    let legend = "[U] a person, [A] the model, [S] a subagent, [T] tools, [i] the client's own bookkeeping.";
    out.push(Line::Text(String::new()));
    out.push(Line::Aside(legend.to_owned()));
    details::wrap(&out, columns)
}

/// A frame over the middle of an area, as large as its lines.
fn pop_up<'a>(frame: &mut Frame<'_>, area: Rect, title: &'a str, lines: &[TextLine<'a>]) {
    let widest = lines.iter().map(TextLine::width).chain([title.len()]).max().unwrap_or(0) as u16;
    let (columns, height) = ((widest + 4).min(area.width), (lines.len() as u16 + 2).min(area.height));
    let over = Rect {
        x: area.x + (area.width - columns) / 2,
        y: area.y + (area.height - height) / 2,
        width: columns,
        height,
    };
    frame.render_widget(Clear, over);
    let block = Block::bordered().border_type(BorderType::Rounded).title(title);
    frame.render_widget(block, over);
    let inner = Rect {
        x: over.x + 2,
        y: over.y + 1,
        width: columns.saturating_sub(4),
        height: height.saturating_sub(2),
    };
    for (y, content) in (0..).zip(lines) {
        line(frame, inner, y, content);
    }
}

fn menu(frame: &mut Frame<'_>, app: &mut App, look: Look, area: Rect, at: usize) {
    let room = usize::from(area.width).saturating_sub(4);
    let row = app.row();
    let said = app.words(row).clone();
    let about = words::cut(&format!("{} {}", said.role.badge(), said.preview), room.min(66));
    let mut lines = vec![TextLine::styled(about, look.words(said.role)), TextLine::from("")];
    for (number, action) in Action::ALL.into_iter().enumerate() {
        let style = match (number == at, app.why_not(action).is_some()) {
            (true, _) => look.bar(),
            (false, true) => look.faint(),
            (false, false) => Style::new(),
        };
        let sign = if number == at { ">" } else { " " };
        lines.push(TextLine::styled(words::cut(&format!("{sign} {}", action.title()), room), style));
    }
    let why = match (&app.options.live, app.why_not(Action::ALL[at])) {
        (Some(_), Some(why)) if !Action::ALL[at].writes_here() => Some(why),
        (Some(agent), _) => Some(format!("open in {agent}: only a fork is possible now")),
        (None, why) => why,
    };
    if let Some(why) = why {
        lines.push(TextLine::from(""));
        lines.extend(paragraph(&why, room.min(66)).into_iter().map(|line| line.style(look.warning())));
    }
    pop_up(frame, area, " Enter does it, Esc does not ", &lines);
}

/// A message that the footer has no room for, whole: what is cut off of a command or a path is what one needs.
fn whole_message(frame: &mut Frame<'_>, app: &App, look: Look, area: Rect) {
    let Some(message) = app.message.as_deref().filter(|m| width(m) > usize::from(area.width)) else { return };
    let room = usize::from(area.width).saturating_sub(4);
    let lines: Vec<_> = paragraph(message, room).into_iter().map(|line| line.style(look.warning())).collect();
    // At the bottom, so that the marked row stays in sight where it can.
    let height = (lines.len() as u16 + 2).min(area.height);
    pop_up(frame, rows(area, area.height - height, height), "", &lines);
}

fn confirm(
    frame: &mut Frame<'_>,
    app: &mut App,
    look: Look,
    area: Rect,
    (records, branches): (usize, usize),
) {
    let room = usize::from(area.width).saturating_sub(4).min(66);
    let row = app.row();
    let said = app.words(row).clone();
    let about = words::cut(&format!("{} {}", said.role.badge(), said.preview), room);
    let mut lines = paragraph("Everything that comes after this record leaves the session:", room);
    lines.push(TextLine::styled(about, look.key()));
    let verb = if records == 1 && branches < 2 { "goes" } else { "go" };
    let ends = if branches < 2 { String::new() } else { format!(" and {branches} branches") };
    let records = counted(records as u64, "record", "records");
    let kept = "A backup of the whole file is kept; `offshoot restore` undoes it.";
    lines.extend(paragraph(&format!("{records}{ends} {verb}. {kept}"), room));
    lines.push(TextLine::from(""));
    lines.push(TextLine::styled("y overwrites, Esc does not", look.warning()));
    pop_up(frame, area, " Overwrite? ", &lines);
}

fn paragraph(text: &str, columns: usize) -> Vec<TextLine<'static>> {
    let text_of = |line| match line {
        Line::Head(text) | Line::Text(text) | Line::Aside(text) => TextLine::from(text),
    };
    details::wrap(&[Line::Text(text.to_owned())], columns).into_iter().map(text_of).collect()
}

/// What is to be said, and the keys.
fn footer(frame: &mut Frame<'_>, app: &App, look: Look, area: Rect, text_stands: bool) {
    let columns = usize::from(area.width);
    let status = match (&app.mode, &app.message) {
        (Mode::Search(_), _) => {
            let state = match (app.search.query().is_empty(), app.is_busy()) {
                (true, _) => "type to search, Enter goes there, Esc goes back".to_owned(),
                (false, true) => format!("looked at {}%", app.search.percent(&app.doc)),
                (false, false) => match app.search.hits().count() {
                    0 => "0 matches in the beginnings of rows".to_owned(),
                    1 => "1 match".to_owned(),
                    n => format!("{n} matches"),
                },
            };
            let query = words::cut(&clean(app.search.query()), columns.saturating_sub(width(&state) + 5));
            TextLine::from(vec![
                Span::styled("/", look.key()),
                Span::raw(query),
                Span::styled("_", look.faint()),
                Span::styled(format!("  {state}"), look.faint()),
            ])
        }
        // Where it does not fit it stands above, whole, unless there is no room for that either.
        (_, Some(message)) if width(message) <= columns || area.height < 2 => {
            TextLine::styled(fit(message, columns), look.warning())
        }
        _ if app.reading.is_some() => {
            TextLine::styled(fit(app.reading.as_deref().unwrap_or_default(), columns), look.warning())
        }
        _ => match app.change {
            Some(change) => TextLine::styled(fit(&change_line(change), columns), look.warning()),
            // The id stands with the text, where there is room for it.
            None if text_stands => {
                let path = app.doc.opened.path.display().to_string();
                TextLine::styled(fit(&path, columns), look.faint())
            }
            None => id_line(app, look, columns),
        },
    };
    line(frame, area, 0, &status);
    line(frame, area, 1, &key_line(&app.mode, look, columns));
}

fn change_line(change: Change) -> String {
    match change {
        Change::Gone => "the file is gone: this is what was read of it".to_owned(),
        _ => format!("the file {} since it was read: R reads it again", change.what()),
    }
}

/// The id of the marked record, for who wants to type it.
fn id_line(app: &App, look: Look, columns: usize) -> TextLine<'static> {
    let id = app.doc.id_of(app.row()).map_or_else(String::new, |id| id.to_string());
    TextLine::styled(fit(&id, columns), look.faint())
}

fn key_line(mode: &Mode, look: Look, columns: usize) -> TextLine<'static> {
    let keys: &[(&str, &str)] = match mode {
        Mode::Walk => &[
            ("?", "keys"),
            ("q", "leave"),
            ("Enter", "act"),
            ("/", "search"),
            ("Tab", "next leaf"),
            ("[ ]", "branches"),
            ("f", "fork"),
            ("r", "resume"),
            ("o", "overwrite"),
            ("v", "read"),
            ("=", "compare"),
        ],
        Mode::Search(_) => &[("Enter", "take"), ("Esc", "back")],
        Mode::Menu(_) => &[("Enter", "do it"), ("up down", "choose"), ("Esc", "back")],
        Mode::Confirm(..) => &[("y", "overwrite"), ("Esc", "back")],
        Mode::Read | Mode::Help | Mode::Compare(_) => &[("up down", "scroll"), ("Esc", "back")],
    };
    let mut spans = Vec::new();
    let mut used = 0;
    for (key, what) in keys {
        let gap = if spans.is_empty() { "" } else { "  " };
        used += gap.len() + key.len() + 1 + what.len();
        if used > columns {
            break;
        }
        spans.push(Span::raw(gap));
        spans.push(Span::styled(*key, look.key()));
        spans.push(Span::styled(format!(" {what}"), look.faint()));
    }
    TextLine::from(spans)
}
