//! A transcript without a word of its conversation: line by line, in the same number of bytes, so that everything that
//! depends on structure, size or position stays as it is.
//!
//! Nothing is kept but what is on a list ([`keys`]): a value that nobody named is filled, with everything below it. A
//! line is not parsed for that but cut into tokens, which works for lines that are malformed, torn or glued as well; a
//! quote, a brace or a byte that makes the line malformed keeps its place.

use base64::{Engine, engine::general_purpose::STANDARD};
use hashbrown::HashMap;

use self::{
    keys::{Rule, Rules},
    words::Fill,
};
use super::{
    json::{Cursor, Field},
    lines,
    scan::any_string_end,
};

mod keys;
mod words;

/// Redacts one transcript. What must be told apart stays apart: equal names get equal stand-ins.
#[derive(Debug)]
pub struct Redactor {
    /// Which members are kept.
    rules: Rules,
    /// Which are in what stands in base64.
    nested: Rules,
    /// Whether a carriage return ends a line for the client.
    ends_at_cr: bool,
    /// How texts begin that mean something to the rules, and are kept so far.
    openings: &'static [&'static str],
    /// Texts of the client's own that are kept.
    own: &'static [&'static str],
    /// What stands for digests of what is redacted itself.
    digests: Vec<(String, String)>,
    names: Names,
}

impl Redactor {
    /// For a client that ends a line at each carriage return, or not.
    pub(in crate::dialect) fn new(ends_at_cr: bool) -> Self {
        Redactor {
            rules: keys::rule,
            nested: keys::rule,
            ends_at_cr,
            openings: &[],
            own: &[],
            digests: Vec::new(),
            names: Names::default(),
        }
    }

    /// For the records of Reasonix, whose payloads are JSON in base64.
    pub(in crate::dialect) fn of_reasonix() -> Self {
        Redactor {
            rules: keys::reasonix_record,
            nested: keys::reasonix_payload,
            // By this word the client says that it went back.
            own: &["rewind"],
            ..Redactor::new(false)
        }
    }

    /// Texts of the client's own: how some begin, and whole ones.
    pub(in crate::dialect) fn keeping(
        self,
        openings: &'static [&'static str],
        own: &'static [&'static str],
    ) -> Self {
        Redactor { openings, own, ..self }
    }

    /// Appends the redacted form of a line (with its line feed or without) to `out`.
    pub fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if !self.ends_at_cr {
            return self.piece(line, out);
        }
        line.split_inclusive(|&b| b == b'\r').for_each(|piece| self.piece(piece, out));
    }

    /// The redacted form of a record, with other digests for those that are named in it.
    pub(in crate::dialect) fn record(&mut self, json: &[u8], digests: &[(&str, &str)]) -> Vec<u8> {
        self.digests = digests.iter().map(|&(old, new)| (old.to_owned(), new.to_owned())).collect();
        let mut out = Vec::with_capacity(json.len());
        self.piece(json, &mut out);
        self.digests.clear();
        out
    }

    /// What stands for a name.
    pub(in crate::dialect) fn name(&mut self, name: &str) -> String {
        let mut out = Vec::new();
        self.names.stand_in(name, name.len(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// A word of the format's own as it is, else a stand-in.
    pub(in crate::dialect) fn token(&mut self, text: &str) -> String {
        if text.is_empty() || keys::is_token(text) { text.to_owned() } else { self.name(text) }
    }

    /// The redacted form of a payload that does not stand in a record.
    pub(in crate::dialect) fn payload(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        self.lex(bytes, self.nested, &mut out);
        out
    }

    /// The redacted form of the index of such a payload.
    pub(in crate::dialect) fn index(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        self.lex(bytes, keys::reasonix_index, &mut out);
        out
    }

    fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.lex(piece, self.rules, out);
    }

    fn lex(&mut self, bytes: &[u8], rules: Rules, out: &mut Vec<u8>) {
        let mut lexer = Lexer { redactor: self, rules, bytes, at: 0, stack: Vec::new() };
        while lexer.at < bytes.len() {
            lexer.token(out);
        }
    }

    /// What stands for the content of a string.
    fn string(&mut self, raw: &[u8], text: Option<&str>, rule: Rule, out: &mut Vec<u8>) {
        let Some(text) = text else { return Fill::default().string(raw, out) };
        // A separator that may end a line stays where it is, so that such a name has no stand-in.
        let rule = if lines::holds_separator(raw) && rule != Rule::Id { Rule::Text } else { rule };
        let blank = |c: char| lines::is_js_space(c) || c.is_whitespace();
        if text.chars().all(blank) {
            return out.extend_from_slice(raw);
        }
        match rule {
            Rule::Id => out.extend_from_slice(raw),
            Rule::Token | Rule::Call if keys::is_token(text) => out.extend_from_slice(raw),
            Rule::Tool if keys::is_known_tool(text) => out.extend_from_slice(raw),
            Rule::Digest if keys::is_token(text) => {
                let given = self.digests.iter().find(|(old, _)| old == text);
                out.extend_from_slice(given.map_or(raw, |(_, new)| new.as_bytes()));
            }
            Rule::Base64 => self.base64(raw, text, out),
            Rule::Call | Rule::Tool | Rule::Name | Rule::Digest => {
                self.names.stand_in(text, raw.len(), out);
            }
            Rule::Token | Rule::Enter | Rule::Text => self.text(raw, text, out),
        }
    }

    /// Bytes stay as many bytes; what is no base64 does not become any.
    fn base64(&mut self, raw: &[u8], text: &str, out: &mut Vec<u8>) {
        if let Ok(bytes) = STANDARD.decode(text) {
            let redacted = self.payload(&bytes);
            return out.extend_from_slice(STANDARD.encode(redacted).as_bytes());
        }
        let start = out.len();
        Fill::default().string(raw, out);
        if STANDARD.decode(&out[start..]).is_ok() {
            out[start] = b'!';
        }
    }

    fn text(&self, raw: &[u8], text: &str, out: &mut Vec<u8>) {
        if self.own.contains(&text) {
            return out.extend_from_slice(raw);
        }
        let trimmed = text.trim_start_matches(lines::is_js_space);
        let opening = self.openings.iter().find(|opening| trimmed.starts_with(**opening));
        // One that is spelled with escapes is decoded: the opening must be there, the length may differ then.
        let kept = opening.and_then(|opening| {
            let at = memchr::memmem::find(raw, opening.as_bytes())?;
            Some(at + opening.len())
        });
        match (opening, kept) {
            (Some(_), Some(kept)) => {
                out.extend_from_slice(&raw[..kept]);
                Fill::default().string(&raw[kept..], out);
            }
            (Some(opening), None) => out.extend_from_slice(opening.as_bytes()),
            _ => Fill::default().string(raw, out),
        }
    }
}

/// What stands for names: as long as the name, and another one for each.
#[derive(Debug, Default)]
struct Names {
    given: HashMap<String, String>,
    /// How many there are of each length.
    count: HashMap<usize, usize>,
}

impl Names {
    fn stand_in(&mut self, text: &str, len: usize, out: &mut Vec<u8>) {
        if !self.given.contains_key(text) {
            let count = self.count.entry(len).or_default();
            *count += 1;
            let number = count.to_string();
            let root = if text.starts_with('/') && len > number.len() { "/" } else { "" };
            let fill = "x".repeat(len.saturating_sub(root.len() + number.len()));
            self.given.insert(text.to_owned(), format!("{root}{fill}{number}"));
        }
        out.extend_from_slice(self.given[text].as_bytes());
    }
}

/// What is open around a token.
struct Frame {
    object: bool,
    /// Whether its members are looked up in the list; else all of it is filled.
    known: bool,
    /// Whether it is the record itself.
    top: bool,
    /// The rule of the member that comes next, or of the elements.
    rule: Rule,
    next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Key,
    Colon,
    Value,
    Comma,
}

struct Lexer<'a, 'r> {
    redactor: &'r mut Redactor,
    rules: Rules,
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Frame>,
}

impl Lexer<'_, '_> {
    fn token(&mut self, out: &mut Vec<u8>) {
        let byte = self.bytes[self.at];
        match byte {
            b'"' => return self.string(out),
            b'{' | b'[' => self.open(byte == b'{'),
            // Braces are counted by the client's salvage as well, brackets are not.
            b'}' => {
                if let Some(at) = self.stack.iter().rposition(|frame| frame.object) {
                    self.stack.truncate(at);
                    self.value_ends();
                }
            }
            b']' => {
                if self.stack.last().is_some_and(|frame| !frame.object) {
                    self.stack.pop();
                    self.value_ends();
                }
            }
            b',' => self.expect(Next::Key),
            b':' => self.expect(Next::Value),
            _ => return self.word(out),
        }
        out.push(byte);
        self.at += 1;
    }

    fn expect(&mut self, next: Next) {
        if let Some(frame) = self.stack.last_mut().filter(|frame| frame.object) {
            frame.next = next;
        }
    }

    fn value_ends(&mut self) {
        self.expect(Next::Comma);
    }

    /// The rule of a value that stands here; none where none is expected, or in what is filled as a whole.
    fn rule_here(&self) -> Option<Rule> {
        let frame = self.stack.last().filter(|frame| frame.known)?;
        (!frame.object || frame.next == Next::Value).then_some(frame.rule)
    }

    fn open(&mut self, object: bool) {
        // The salvage of a malformed line takes an object within brackets for a record.
        let top = !self.stack.iter().any(|frame| frame.object);
        let rule = self.rule_here();
        let known = match rule {
            _ if top => object,
            Some(Rule::Enter) => true,
            // A list of ids or of names.
            Some(Rule::Id | Rule::Call | Rule::Name) => !object,
            _ => false,
        };
        let rule = rule.unwrap_or(Rule::Text);
        let next = if object { Next::Key } else { Next::Value };
        self.stack.push(Frame { object, known, top, rule, next });
    }

    fn string(&mut self, out: &mut Vec<u8>) {
        let start = self.at + 1;
        let Some(end) = any_string_end(self.bytes, start).map(|behind| behind - 1) else {
            out.push(b'"');
            Fill::default().string(&self.bytes[start..], out);
            self.at = self.bytes.len();
            return;
        };
        let raw = &self.bytes[start..end];
        let text = match Cursor::new(&self.bytes[self.at..=end]).field() {
            Ok(Field::Str(s)) => Some(s.text()),
            _ => None,
        };
        out.push(b'"');
        self.at = end + 1;
        let key = self.stack.last().is_some_and(|frame| frame.object && frame.next == Next::Key);
        if key && self.bytes[self.at..].trim_ascii_start().first() == Some(&b':') {
            self.key(raw, text.as_deref(), out);
        } else {
            let rule = self.rule_here().unwrap_or(Rule::Text);
            self.redactor.string(raw, text.as_deref(), rule, out);
            self.value_ends();
        }
        out.push(b'"');
    }

    fn key(&mut self, raw: &[u8], text: Option<&str>, out: &mut Vec<u8>) {
        let Some(frame) = self.stack.last_mut() else { return };
        frame.next = Next::Colon;
        let found = text.filter(|_| frame.known).and_then(self.rules);
        frame.rule = found.unwrap_or(Rule::Text);
        let kept = found.is_some() || (frame.top && text.is_some_and(keys::is_identifier));
        match text {
            _ if kept => out.extend_from_slice(raw),
            Some(text) if !lines::holds_separator(raw) => self.redactor.names.stand_in(text, raw.len(), out),
            _ => Fill::default().string(raw, out),
        }
    }

    /// Anything else up to what has a meaning of its own.
    fn word(&mut self, out: &mut Vec<u8>) {
        let rest = &self.bytes[self.at..];
        if rest[0].is_ascii_whitespace() || rest[0] == 0x0b {
            out.push(rest[0]);
            self.at += 1;
            return;
        }
        let ends = |b: &u8| b.is_ascii_whitespace() || b"\"{}[],:\x0b".contains(b);
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let word = &rest[..end];
        if self.rule_here().is_some() && words::is_number(word) {
            out.extend_from_slice(word);
        } else {
            words::mask(word, out);
        }
        self.at += end;
        self.value_ends();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(line: &str) -> String {
        let mut out = Vec::new();
        Redactor::new(true).keeping(&["<command-name>"], &["Mine."]).line(line.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn structure_stays_and_words_go() {
        let line = r#"{"uuid":"u 1","parentUuid":null,"type":"user","cwd":"/home/ann","message":{"role":"user","parts":[{"text":"my secret"},{"functionCall":{"id":"c1","name":"read_file","args":{"path":"/etc","n":-10.5e3,"ok":true}}}]}}"#;
        assert_eq!(
            redacted(line),
            r#"{"uuid":"u 1","parentUuid":null,"type":"user","cwd":"/xxxxxxx1","message":{"role":"user","parts":[{"text":"xxxxx xxx"},{"functionCall":{"id":"c1","name":"read_file","args":{"xxx1":"xxxx","1":-10.1e1,"x1":true}}}]}}"#
        );
    }

    #[test]
    fn equal_names_have_equal_stand_ins() {
        let line = r#"{"cwd":"/a/b","gitBranch":"main"}{"cwd":"/a/c","gitBranch":"main"}{"cwd":"/a/b"}"#;
        assert_eq!(
            redacted(line),
            r#"{"cwd":"/xx1","gitBranch":"xxx2"}{"cwd":"/xx3","gitBranch":"xxx2"}{"cwd":"/xx1"}"#
        );
    }

    #[test]
    fn malformed_lines_keep_what_makes_them_malformed() {
        for (line, expected) in [
            ("not json at all", "nxx xxxx xx xxx"),
            ("nul 012 -5e9 trueish", "nul 011 -1e1 truexxx"),
            (r#"words", "uuid":"a"}"#, r#"xxxxx"x "xxxx"x"x"x"#),
            (r#"{"uuid":"a","type":"us"#, r#"{"uuid":"a","type":"xx"#),
            (r#"{"uuid" "secret"}"#, r#"{"xxxx" "xxxxx "}"#),
            (
                r#"{"message":{"parts":[{"text":"a\qb\u12g4c"]}"#,
                r#"{"message":{"parts":[{"text":"x\xx\u00xxx"]}"#,
            ),
            // The string that the second piece opens has no end.
            ("{\"message\":\"a\rsecret\"}", "{\"message\":\"x\rxxxxxx\"x"),
            (r#"[{"uuid":"secret"}, "secret"]"#, r#"[{"uuid":"secret"}, "xxxxx "]"#),
        ] {
            assert_eq!(redacted(line), expected, "of {line}");
        }
    }

    #[test]
    fn texts_that_the_rules_know() {
        let text = |text: &str| {
            let line = format!(r#"{{"message":{{"content":"{text}"}}}}"#);
            redacted(&line)[r#"{"message":{"content":""#.len()..].trim_end_matches("\"}}").to_owned()
        };
        assert_eq!(text("Mine."), "Mine.");
        assert_eq!(text("Mine"), "xxxx");
        assert_eq!(text(r"\n <command-name>x y"), r"\n <command-name>xxx");
        assert_eq!(text(r" \t\u3000 "), r" \t\u3000 ");
        assert_eq!(text(r"é字😀\ud83d\u0041\u202e"), r"é字😀\ud83d\u0078\u202e");
    }

    #[test]
    fn the_same_number_of_bytes() {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for line in bytes.split(|&b| b == b'\n') {
            let mut out = Vec::new();
            Redactor::new(false).line(line, &mut out);
            assert_eq!(out.len(), line.len(), "of {line:?}");
        }
    }
}
