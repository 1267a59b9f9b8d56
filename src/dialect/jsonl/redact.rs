//! A transcript without a word of its conversation: line by line, in the same number of bytes, so that everything that
//! depends on structure, size or position stays as it is.
//!
//! Nothing is kept but what is on a list ([`keys`]), and only where it is sure to stand in its place: in an object that
//! the client reads ([`known`]). The dialect says which those are. All else (what is malformed, torn, or a fragment that
//! is no record) is cut into tokens and filled ([`unknown`]); a quote, a brace or a byte that makes a line malformed
//! keeps its place there.

use std::ops::Range;

use base64::{Engine, engine::general_purpose::STANDARD};

use self::{
    keys::{Rule, Rules},
    names::Names,
    words::{Fill, blanks_end},
};
use super::{
    json::{self, unescape},
    lines,
};

mod keys;
mod known;
mod names;
mod unknown;
mod words;

/// An object of a line that the client takes for what it says that it is.
pub(in crate::dialect) struct Known {
    /// Its bytes in the line, which are valid JSON.
    pub range: Range<usize>,
    /// Whether nothing else stands in the line. Where something does, an object may be what was left of two.
    pub alone: bool,
}

/// Redacts one transcript. What must be told apart stays apart: equal names get equal stand-ins.
#[derive(Debug)]
pub struct Redactor {
    /// Which members are kept.
    rules: Rules,
    /// Which are in what stands in base64.
    nested: Rules,
    /// Whether a carriage return ends a line for the client.
    ends_at_cr: bool,
    /// What the client gets out of a line, in order; for the first line of a file `true`.
    objects: fn(&[u8], bool) -> Vec<Known>,
    /// How texts begin that mean something to the rules, and are kept so far.
    openings: &'static [&'static str],
    /// Texts of the client's own that are kept.
    own: &'static [&'static str],
    /// What stands for digests of what is redacted itself.
    digests: Vec<(String, String)>,
    names: Names,
    /// Whether a line was given already.
    begun: bool,
}

impl Redactor {
    /// For a client that ends a line at each carriage return, or not, and takes these objects from a line.
    pub(in crate::dialect) fn new(ends_at_cr: bool, objects: fn(&[u8], bool) -> Vec<Known>) -> Self {
        Redactor {
            rules: keys::rule,
            nested: keys::rule,
            ends_at_cr,
            objects,
            openings: &[],
            own: &[],
            digests: Vec::new(),
            names: Names::default(),
            begun: false,
        }
    }

    /// For the records of Reasonix, which are given one by one, with payloads that are JSON in base64.
    pub(in crate::dialect) fn of_reasonix() -> Self {
        Redactor {
            rules: keys::reasonix_record,
            nested: keys::reasonix_payload,
            // By this word the client says that it went back.
            own: &["rewind"],
            ..Redactor::new(false, |_, _| Vec::new())
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

    /// Appends the redacted form of a line (with its line feed or without) to `out`. Lines come in the order of the file.
    pub fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        if !self.ends_at_cr {
            return self.piece(line, out);
        }
        line.split_inclusive(|&b| b == b'\r').for_each(|piece| self.piece(piece, out));
    }

    /// The redacted form of a record, with other digests for those that are named in it.
    pub(in crate::dialect) fn record(&mut self, json: &[u8], digests: &[(&str, &str)]) -> Vec<u8> {
        self.digests = digests.iter().map(|&(old, new)| (old.to_owned(), new.to_owned())).collect();
        let redacted = self.document(json, self.rules);
        self.digests.clear();
        redacted
    }

    /// The redacted form of a payload that does not stand in a record.
    pub(in crate::dialect) fn payload(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.document(bytes, self.nested)
    }

    /// The redacted form of the index of such a payload, with other digests for those that are named in it.
    pub(in crate::dialect) fn index(&mut self, bytes: &[u8], digests: Vec<(String, String)>) -> Vec<u8> {
        self.digests = digests;
        let redacted = self.document(bytes, keys::reasonix_index);
        self.digests.clear();
        redacted
    }

    /// What stands for a digest, the same each time.
    pub(in crate::dialect) fn digest(&mut self, digest: &str) -> String {
        let mut out = Vec::new();
        self.names.digest(digest, digest.len(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
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

    /// Bytes that are one object, or of which nobody knows what they are.
    fn document(&mut self, bytes: &[u8], rules: Rules) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        if bytes.trim_ascii_start().starts_with(b"{") && json::check(bytes).is_ok() {
            known::object(self, rules, bytes, true, &mut out);
        } else {
            unknown::fill(bytes, rules, &mut out);
        }
        out
    }

    fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let first = !std::mem::replace(&mut self.begun, true);
        let mut at = 0;
        for Known { range, alone } in (self.objects)(piece, first) {
            unknown::fill(&piece[at..range.start], self.rules, out);
            at = range.end;
            known::object(self, self.rules, &piece[range], alone, out);
        }
        unknown::fill(&piece[at..], self.rules, out);
    }

    /// What stands for the content of a string.
    fn string(&mut self, raw: &[u8], text: &str, rule: Rule, out: &mut Vec<u8>) {
        // A separator that may end a line stays where it is, so that such a name has no stand-in.
        let rule = if lines::holds_separator(raw) && rule != Rule::Id { Rule::Text } else { rule };
        let blank = |c: char| lines::is_js_space(c) || c.is_whitespace();
        if text.chars().all(blank) {
            return out.extend_from_slice(raw);
        }
        match rule {
            Rule::Id => out.extend_from_slice(raw),
            Rule::Token | Rule::Call if keys::is_token(text) => out.extend_from_slice(raw),
            Rule::State if keys::is_token(text) && keys::is_own_word(text) => out.extend_from_slice(raw),
            Rule::Token | Rule::State if keys::is_path(text) => self.names.stand_in(text, raw.len(), out),
            Rule::Tool if keys::is_known_tool(text) => out.extend_from_slice(raw),
            Rule::Digest => match self.digests.iter().find(|(old, _)| old == text) {
                Some((_, new)) => out.extend_from_slice(new.as_bytes()),
                None => self.names.digest(text, raw.len(), out),
            },
            Rule::Base64 => self.base64(raw, text, out),
            Rule::Call | Rule::Tool | Rule::Name => {
                self.names.stand_in(text, raw.len(), out);
            }
            _ if self.own.contains(&text) => out.extend_from_slice(raw),
            Rule::Token | Rule::State | Rule::Number | Rule::Enter | Rule::Text | Rule::Strict => {
                let kept = opening_end(raw, self.openings).unwrap_or_default();
                out.extend_from_slice(&raw[..kept]);
                Fill::default().string(&raw[kept..], out);
            }
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
}

/// The offset behind one of `openings`, if a valid string begins with it, white space aside, however it is spelled.
fn opening_end(raw: &[u8], openings: &[&str]) -> Option<usize> {
    let text = raw.utf8_chunks().next()?.valid();
    let mut at = blanks_end(text);
    let longest = openings.iter().map(|opening| opening.len()).max()?;
    let mut begin = String::new();
    while begin.len() < longest && at < text.len() {
        let (c, used) = match text.as_bytes()[at] {
            b'\\' => unescape(&text.as_bytes()[at..]),
            _ => text[at..].chars().next().map(|c| (c, c.len_utf8()))?,
        };
        begin.push(c);
        at += used;
        if openings.contains(&begin.as_str()) {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::jsonl::json;

    /// A client that takes a line for one object, or for nothing.
    fn alone(line: &[u8], _: bool) -> Vec<Known> {
        let (blank, text) = lines::trim(line);
        let is_object = text.starts_with(b"{") && json::check(text).is_ok();
        is_object.then_some(Known { range: blank..blank + text.len(), alone: true }).into_iter().collect()
    }

    fn redactor() -> Redactor {
        Redactor::new(true, alone).keeping(&["<command-name>"], &["Mine."])
    }

    fn redacted(line: &str) -> String {
        let mut out = Vec::new();
        redactor().line(line.as_bytes(), &mut out);
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
    fn a_place_is_no_word_and_no_state() {
        assert_eq!(
            redacted(
                r#"{"model":"/home/ada/weights.gguf","type":"C:\\secret","subtype":"a/b","version":"~/x","mode":"a/b/c"}"#
            ),
            r#"{"model":"/xxxxxxxxxxxxxxxxxxxx1","type":"xxxxxxxxx1","subtype":"a/b","version":"xx1","mode":"xxxx1"}"#
        );
        assert_eq!(
            redacted(
                r#"{"status":"Fix-the-Acme-bug","mode":"plan","state":"/etc/x","model":"qwen3-coder-plus"}"#
            ),
            r#"{"status":"xxxxx xxxxx xxxx","mode":"plan","state":"/xxxx1","model":"qwen3-coder-plus"}"#
        );
    }

    #[test]
    fn members_that_nobody_knows_have_stand_ins_wherever_they_stand() {
        assert_eq!(
            redacted(r#"{"secret":"two words","isMeta":true,"":47,"message":{"secret":{"role":"x y"}}}"#),
            r#"{"xxxxx1":"xxxxx xxx","isMeta":true,"":11,"message":{"xxxxx1":{"xxx1":"xxx"}}}"#
        );
    }

    #[test]
    fn equal_names_have_equal_stand_ins() {
        let lines = "{\"cwd\":\"/a/b\",\"gitBranch\":\"main\"}\r{\"cwd\":\"/a/c\",\"gitBranch\":\"main\"}\r{\"cwd\":\"/a/b\"}";
        assert_eq!(
            redacted(lines),
            "{\"cwd\":\"/xx1\",\"gitBranch\":\"xxx2\"}\r{\"cwd\":\"/xx3\",\"gitBranch\":\"xxx2\"}\r{\"cwd\":\"/xx1\"}"
        );
    }

    #[test]
    fn of_a_malformed_line_what_makes_it_so_is_kept_and_no_more() {
        for (line, expected) in [
            ("not json at all", "nxx xxxx xx xxx"),
            ("nul 012 -5e9 trueish", "nul 011 -1e1 truexxx"),
            // As docs/redact.md has it.
            ("p@ssw0rd-2000!? falcon", "x@xxx0xx-1000!? falxxx"),
            (r#"words", "uuid":"a"}"#, r#"xxxxx"x "xxxx"x"x"x"#),
            (r#"{"uuid":"a","type":"us"#, r#"{"uuid":"x","type":"xx"#),
            (
                r#"{"uuid":"a","type":"user",x"content":"word"}"#,
                r#"{"uuid":"x","type":"user",x"content":"xxxx"}"#,
            ),
            (r#"{"uuid" "secret"}"#, r#"{"xxxx" "xxxxxx"}"#),
            (r#"{"type":"user" "user""#, r#"{"type":"user" "xxxx""#),
            (
                r#"{"message":{"parts":[{"text":"a\qb\u12g4c"]}"#,
                r#"{"message":{"parts":[{"text":"x\xx\u00xxx"]}"#,
            ),
            // What a client trims from the end is as long as it was.
            (r#""}}}]}}"#, r#""xxxxxx"#),
            ("\"seven l\u{3000}", "\"xxxxx x\u{3000}"),
            ("\"seven  \u{3000} ", "\"xxxxx  \u{3000} "),
            (r#"{"":1"#, r#"{"":1"#),
            // The string that the second piece opens has no end.
            ("{\"message\":\"a\rsecret\"}", "{\"message\":\"x\rxxxxxx\"x"),
            (r#"[{"uuid":"secret"}, "secret"]"#, r#"[{"uuid":"xxxxxx"}, "xxxxxx"]"#),
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
        assert_eq!(
            text(r"\u003ccommand-name>secret <command-name>x"),
            r"\u003ccommand-name>xxxxx xxxxx xxxxx xxxx"
        );
        assert_eq!(text(r" \t\u3000 "), r" \t\u3000 ");
        assert_eq!(text(r"é字😀\ud83d\u0041\u202e"), r"é字😀\ud83d\u0078\u202e");
    }

    #[test]
    fn members_of_a_strict_object_keep_their_names_where_they_are_its_own() {
        let payload = |json: &str| {
            String::from_utf8(Redactor::of_reasonix().payload(json.as_bytes())).expect("BUG: text stays text")
        };
        assert_eq!(
            payload(
                r#"{"action":"begin","attempt":2,"max":4,"newer":["my word"],"two words":{"role":"user"},"message":{"newer":1}}"#
            ),
            r#"{"action":"begin","attempt":2,"max":4,"newer":["xxxxx x"],"xxxxxxxx1":{"xxx1":"xxxx"},"message":{"xxxx1":1}}"#
        );
        assert_eq!(
            payload(r#"{"todos":[{"content":"my word"}],"state":}"#),
            r#"{"xxxxx":[{"content":"xxxxx x"}],"state":}"#
        );
    }

    #[test]
    fn the_same_number_of_bytes() {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for line in bytes.split(|&b| b == b'\n') {
            let mut out = Vec::new();
            redactor().line(line, &mut out);
            assert_eq!(out.len(), line.len(), "of {line:?}");
        }
    }

    #[test]
    fn the_work_does_not_grow_with_the_depth() {
        // With a look at all that is open for each bracket these would take hours.
        let deep = "[".repeat(4 << 20);
        assert_eq!(redacted(&deep), deep);
        let half = 1 << 20;
        let closed = format!(r#"{{"message":{}"secret"{}}}"#, "[".repeat(half), "]".repeat(half));
        let out = redacted(&closed);
        assert_eq!(out.len(), closed.len());
        assert!(!out.contains("secret"));
    }
}
