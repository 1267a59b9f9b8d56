//! Values of a TOML table, taken one by one, each mistake noted with its span.
//!
//! Nothing here stops at the first mistake: a getter that finds one notes it and gives `None`, so that a
//! policy's author sees all of them at once.

use std::{ops::Range, time::Duration};

use jiff::Timestamp;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    duration,
    glob::Glob,
    render::{PolicyErrors, Problem, quote},
};

/// How many mistakes are told; a file with more is counted only, so that none costs more than it is worth.
const MOST: usize = 100;

/// The text and what is wrong with it so far.
pub(super) struct Reader<'t> {
    text: &'t str,
    problems: Vec<Problem>,
    more: usize,
}

/// A table whose keys are being read.
pub(super) struct Table<'t> {
    /// How it is called in messages, as in `[seed]`.
    pub(super) name: &'static str,
    /// Its header, or its braces.
    pub(super) span: Range<usize>,
    entries: &'t DeTable<'t>,
}

/// A value, where it stands and under which key.
#[derive(Clone)]
pub(super) struct Field<'t> {
    pub(super) key: &'static str,
    pub(super) key_span: Range<usize>,
    pub(super) span: Range<usize>,
    pub(super) value: &'t DeValue<'t>,
}

impl<'t> Table<'t> {
    /// A table whose keys nobody has checked.
    pub(super) fn unchecked(name: &'static str, span: Range<usize>, entries: &'t DeTable<'t>) -> Self {
        Table { name, span, entries }
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &'static str) -> Option<Field<'t>> {
        self.entries.iter().find(|(k, _)| k.get_ref() == key).map(|(k, v)| Field {
            key,
            key_span: k.span(),
            span: v.span(),
            value: v.get_ref(),
        })
    }

    /// All keys and values, for a table whose keys are data.
    pub(super) fn entries(&self) -> impl Iterator<Item = (String, Range<usize>, &'t Spanned<DeValue<'t>>)> {
        self.entries.iter().map(|(k, v)| (k.get_ref().to_string(), k.span(), v))
    }
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Reader { text, problems: Vec::new(), more: 0 }
    }

    /// Whether nothing is wrong so far.
    pub(super) fn is_fine(&self) -> bool {
        self.problems.is_empty()
    }

    /// Everything that is wrong.
    pub(super) fn into_errors(self, path: &str) -> PolicyErrors {
        PolicyErrors::new(path, self.problems, self.more)
    }

    /// The line of a byte, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
    }

    /// Notes a mistake.
    pub(super) fn wrong(&mut self, span: Range<usize>, message: impl AsRef<str>) {
        self.wrong_name(span, message, Vec::new());
    }

    fn wrong_name(&mut self, span: Range<usize>, message: impl AsRef<str>, allowed: Vec<String>) {
        if self.problems.len() < MOST {
            self.problems.push(Problem::new(self.text, span, message.as_ref(), allowed));
        } else {
            self.more += 1;
        }
    }

    /// Notes a name that is none of `allowed`, with the nearest of them.
    fn unknown(&mut self, span: Range<usize>, what: &str, found: &str, allowed: &[&str]) {
        if self.problems.len() >= MOST {
            self.more += 1;
            return;
        }
        let nearest = nearest(found, allowed).map_or(String::new(), |n| format!(", did you mean `{n}`?"));
        let allowed = allowed.iter().map(|&a| a.to_owned()).collect();
        self.wrong_name(span, format!("{what} {}{nearest}", quote(found)), allowed);
    }

    /// A table all of whose keys must be in `allowed`.
    pub(super) fn table(
        &mut self,
        name: &'static str,
        span: Range<usize>,
        entries: &'t DeTable<'t>,
        allowed: &[&str],
    ) -> Table<'t> {
        for key in entries.keys() {
            if !allowed.contains(&key.get_ref().as_ref()) {
                self.unknown(key.span(), &format!("unknown key in {name}:"), key.get_ref(), allowed);
            }
        }
        Table::unchecked(name, span, entries)
    }

    /// A field that is a table.
    pub(super) fn sub_table(
        &mut self,
        name: &'static str,
        field: &Field<'t>,
        allowed: &[&str],
    ) -> Option<Table<'t>> {
        match field.value {
            DeValue::Table(entries) => Some(self.table(name, field.span.clone(), entries, allowed)),
            _ => self.mistyped(field, "a table"),
        }
    }

    /// A table whose keys are data.
    pub(super) fn open_table(&mut self, name: &'static str, field: &Field<'t>) -> Option<Table<'t>> {
        match field.value {
            DeValue::Table(entries) => Some(Table::unchecked(name, field.span.clone(), entries)),
            _ => self.mistyped(field, "a table"),
        }
    }

    /// The tables of `[[name]]`.
    pub(super) fn tables(
        &mut self,
        name: &'static str,
        field: &Field<'t>,
        allowed: &[&str],
    ) -> Vec<Table<'t>> {
        let DeValue::Array(items) = field.value else {
            self.mistyped::<()>(field, &format!("written as {name}"));
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(items.len());
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(entries) => tables.push(self.table(name, item.span(), entries, allowed)),
                _ => self.wrong(item.span(), format!("`{}` must be written as {name}", field.key)),
            }
        }
        tables
    }

    /// A field that must be there.
    pub(super) fn required(&mut self, table: &Table<'t>, key: &'static str) -> Option<Field<'t>> {
        let field = table.get(key);
        if field.is_none() {
            self.wrong(table.span.clone(), format!("{} needs `{key}`", table.name));
        }
        field
    }

    fn mistyped<T>(&mut self, field: &Field<'t>, expected: &str) -> Option<T> {
        self.wrong(
            field.span.clone(),
            format!("`{}` must be {expected}, and this is {}", field.key, type_name(field.value)),
        );
        None
    }

    pub(super) fn boolean(&mut self, field: &Field<'t>) -> Option<bool> {
        match field.value {
            DeValue::Boolean(b) => Some(*b),
            _ => self.mistyped(field, "`true` or `false`"),
        }
    }

    pub(super) fn whole(&mut self, field: &Field<'t>) -> Option<u64> {
        let DeValue::Integer(i) = field.value else { return self.mistyped(field, "a whole number") };
        let number = u64::from_str_radix(i.as_str(), i.radix()).ok();
        if number.is_none() {
            let message = if i.as_str().starts_with('-') { "must not be negative" } else { "is too large" };
            self.wrong(field.span.clone(), format!("`{}` {message}", field.key));
        }
        number
    }

    pub(super) fn string(&mut self, field: &Field<'t>) -> Option<String> {
        let DeValue::String(s) = field.value else { return self.mistyped(field, "a string") };
        self.not_blank(field.key, field.span.clone(), s)
    }

    fn not_blank(&mut self, key: &str, span: Range<usize>, text: &str) -> Option<String> {
        if text.trim().is_empty() {
            self.wrong(span, format!("`{key}` must not be blank"));
            return None;
        }
        Some(text.to_owned())
    }

    /// A string on one line, for names that are printed as they are.
    pub(super) fn name(&mut self, field: &Field<'t>) -> Option<String> {
        let name = self.string(field)?;
        if super::render::clean(&name) != name {
            self.wrong(field.span.clone(), format!("`{}` must not hold control characters", field.key));
            return None;
        }
        if name.chars().nth(200).is_some() {
            self.wrong(field.span.clone(), format!("`{}` must not be longer than 200 characters", field.key));
            return None;
        }
        Some(name)
    }

    /// One string, or a list of them that is not empty; each with its span.
    pub(super) fn strings(&mut self, field: &Field<'t>) -> Option<Vec<(String, Range<usize>)>> {
        match field.value {
            DeValue::String(s) => {
                Some(vec![(self.not_blank(field.key, field.span.clone(), s)?, field.span.clone())])
            }
            DeValue::Array(items) if items.is_empty() => {
                self.wrong(field.span.clone(), format!("`{}` must not be an empty list", field.key));
                None
            }
            DeValue::Array(items) => {
                let mut strings = Vec::with_capacity(items.len());
                let mut all = true;
                for item in items.iter() {
                    let item = Field { span: item.span(), value: item.get_ref(), ..field.clone() };
                    match item.value {
                        DeValue::String(s) => match self.not_blank(item.key, item.span.clone(), s) {
                            Some(s) => strings.push((s, item.span)),
                            None => all = false,
                        },
                        _ => {
                            self.mistyped::<()>(&item, "a list of strings");
                            all = false;
                        }
                    }
                }
                all.then_some(strings)
            }
            _ => self.mistyped(field, "a string or a list of strings"),
        }
    }

    pub(super) fn duration(&mut self, field: &Field<'t>) -> Option<Duration> {
        let DeValue::String(s) = field.value else {
            return self.mistyped(field, "a duration such as \"10m\"");
        };
        duration::parse(s)
            .map_err(|why| self.wrong(field.span.clone(), format!("`{}`: {why}", field.key)))
            .ok()
    }

    /// A time as a string, or as TOML's own with an offset.
    pub(super) fn time(&mut self, field: &Field<'t>) -> Option<Timestamp> {
        let text = match field.value {
            DeValue::String(s) => s.to_string(),
            DeValue::Datetime(d) => d.to_string(),
            _ => return self.mistyped(field, "a time such as \"2026-03-01T12:00:00Z\""),
        };
        let time = text.parse().ok();
        if time.is_none() {
            let message =
                format!("`{}` must be a time with an offset, such as `2026-03-01T12:00:00Z`", field.key);
            self.wrong(field.span.clone(), message);
        }
        time
    }

    pub(super) fn glob(&mut self, key: &str, text: &str, span: Range<usize>) -> Option<Glob> {
        Glob::new(text).map_err(|why| self.wrong(span, format!("`{key}`: no usable glob: {why}"))).ok()
    }

    /// One of several names.
    pub(super) fn choice<T: Copy>(&mut self, field: &Field<'t>, names: &[(&str, T)]) -> Option<T> {
        let DeValue::String(s) = field.value else { return self.mistyped(field, "a string") };
        self.named(field.key, field.span.clone(), s, names)
    }

    /// One or several of several names.
    pub(super) fn choices<T: Copy>(&mut self, field: &Field<'t>, names: &[(&str, T)]) -> Option<Vec<T>> {
        let found = self.strings(field)?;
        let known: Vec<Option<T>> =
            found.into_iter().map(|(s, span)| self.named(field.key, span, &s, names)).collect();
        known.into_iter().collect()
    }

    fn named<T: Copy>(
        &mut self,
        key: &str,
        span: Range<usize>,
        found: &str,
        names: &[(&str, T)],
    ) -> Option<T> {
        let value = names.iter().find(|(name, _)| *name == found).map(|(_, value)| *value);
        if value.is_none() {
            let allowed: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            self.unknown(span, &format!("`{key}` cannot be"), found, &allowed);
        }
        value
    }
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The allowed name that resembles `found` most, if any does.
fn nearest<'a>(found: &str, allowed: &[&'a str]) -> Option<&'a str> {
    // A key that is only spelled with the other separator, or in capitals, is the same word.
    let folded = |s: &str| s.to_lowercase().replace('-', "_");
    let found: String = found.chars().take(100).collect();
    allowed
        .iter()
        .map(|name| (strsim::jaro(&folded(&found), &folded(name)), *name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
