//! An object that the client reads: each member by the rule of its name.

use super::{
    Redactor, keys,
    keys::{Rule, Rules},
    words,
    words::Fill,
};
use crate::dialect::jsonl::{
    json::{Cursor, Field},
    lines,
    scan::any_string_end,
};

/// What is open around a token.
struct Frame {
    object: bool,
    /// Whether its members are looked up in the list; else all of it is filled.
    known: bool,
    /// The rule of the member that comes next, or of the elements.
    rule: Rule,
    /// Whether a key comes next.
    key: bool,
}

struct Lexer<'a, 'r> {
    redactor: &'r mut Redactor,
    rules: Rules,
    bytes: &'a [u8],
    at: usize,
    /// Not the call stack: nesting may be of any depth.
    stack: Vec<Frame>,
    /// Whether a word of the format's own is one, whatever it is.
    sure: bool,
}

/// Appends the redacted form of an object, which must be valid JSON.
pub(super) fn object(redactor: &mut Redactor, rules: Rules, bytes: &[u8], sure: bool, out: &mut Vec<u8>) {
    let mut lexer = Lexer { redactor, rules, bytes, at: 0, stack: Vec::new(), sure };
    while lexer.at < bytes.len() {
        lexer.token(out);
    }
}

impl Lexer<'_, '_> {
    fn token(&mut self, out: &mut Vec<u8>) {
        let byte = self.bytes[self.at];
        match byte {
            b'"' => return self.string(out),
            b'{' | b'[' => self.open(byte == b'{'),
            b'}' | b']' => drop(self.stack.pop()),
            b',' => {
                if let Some(frame) = self.stack.last_mut() {
                    frame.key = frame.object;
                }
            }
            b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => return self.word(out),
        }
        out.push(byte);
        self.at += 1;
    }

    /// The rule of a value that stands here; none in what is filled as a whole.
    fn rule_here(&self) -> Option<Rule> {
        self.stack.last().filter(|frame| frame.known).map(|frame| frame.rule)
    }

    fn open(&mut self, object: bool) {
        let rule = self.rule_here();
        let known = match rule {
            _ if self.stack.is_empty() => true,
            Some(Rule::Enter) => true,
            // A list of ids, of names or of digests.
            Some(Rule::Id | Rule::Call | Rule::Name | Rule::Digest) => !object,
            _ => false,
        };
        self.stack.push(Frame { object, known, rule: rule.unwrap_or(Rule::Text), key: object });
    }

    fn string(&mut self, out: &mut Vec<u8>) {
        let end = any_string_end(self.bytes, self.at + 1).expect("BUG: a string of valid JSON ends");
        let quoted = &self.bytes[self.at..end];
        let Ok(Field::Str(text)) = Cursor::new(quoted).field() else {
            panic!("BUG: a string of valid JSON is one");
        };
        let (raw, text) = (text.raw(), text.text());
        self.at = end;
        out.push(b'"');
        if self.stack.last().is_some_and(|frame| frame.key) {
            self.key(raw, &text, out);
        } else {
            let rule = self.rule_here().unwrap_or(Rule::Text);
            let rule = if rule == Rule::Token && !self.sure && !keys::is_own_word(&text) {
                Rule::Text
            } else {
                rule
            };
            self.redactor.string(raw, &text, rule, out);
        }
        out.push(b'"');
    }

    fn key(&mut self, raw: &[u8], text: &str, out: &mut Vec<u8>) {
        let outermost = self.stack.len() == 1;
        let Some(frame) = self.stack.last_mut() else { return };
        frame.key = false;
        let found = (self.rules)(text).filter(|&rule| frame.known && (rule != Rule::Strict || outermost));
        frame.rule = found.filter(|&rule| rule != Rule::Strict).unwrap_or(Rule::Text);
        match found {
            Some(_) => out.extend_from_slice(raw),
            None if !lines::holds_separator(raw) => self.redactor.names.stand_in(text, raw.len(), out),
            None => Fill::default().string(raw, out),
        }
    }

    /// A number or a literal.
    fn word(&mut self, out: &mut Vec<u8>) {
        let word = words::word(&self.bytes[self.at..]);
        match self.rule_here() {
            Some(Rule::Id | Rule::Call | Rule::Token | Rule::State | Rule::Number) => {
                out.extend_from_slice(word)
            }
            _ => words::mask(word, out),
        }
        self.at += word.len();
    }
}
