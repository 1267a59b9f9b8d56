//! What a transcript is made of: ids, kinds and flags of records. Pure data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A coding agent whose transcripts `offshoot` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Agent {
    /// Claude Code (rules measured with 2.1.197 and 2.1.332).
    Claude,
    /// Qwen Code (rules measured with 0.24.4).
    Qwen,
    /// Reasonix (rules measured with 1.38.11).
    Reasonix,
}

impl Agent {
    /// The name used on the command line, in JSON and in state paths.
    pub fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Qwen => "qwen",
            Agent::Reasonix => "reasonix",
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The uuid of a record: any non-empty string, compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecordId(String);

impl RecordId {
    /// Wraps an id as it stands in the transcript.
    pub fn new(id: impl Into<String>) -> Self {
        RecordId(id.into())
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for RecordId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for RecordId {
    fn from(id: &str) -> Self {
        RecordId(id.to_owned())
    }
}

/// Who a record speaks for. The four counts of a branch are taken over these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Text that went to the model as the user's.
    User,
    /// The model's answer.
    Assistant,
    /// What a tool gave back.
    ToolResult,
    /// Bookkeeping of the client.
    System,
    /// A type we do not know: on a chain, but in none of the counts.
    Other,
}

/// State of the last turn of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turn {
    /// The model has answered and waits for nothing.
    Complete,
    /// A tool was called and its result is not on the chain.
    OpenToolCall,
    /// A prompt or a tool result without an answer.
    AwaitingReply,
    /// No message on the chain at all.
    None,
}

/// How a branch relates to the rewinds of its component: structure, not a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Classification {
    /// No rewind in its component.
    Ordinary,
    /// Its chain holds a rewind.
    RewindDescendant,
    /// Its chain diverges from the chain to a rewind.
    RewindSibling,
    /// Both.
    MixedRewind,
}

/// Whether a character could steer a terminal, reorder or hide text: controls (C0, DEL, C1), bidirectional controls,
/// line and paragraph separators, and characters without any glyph (zero-width space, joiners of words, soft hyphen,
/// byte order mark, interlinear annotation, tags). The joiners of emoji and of scripts (ZWJ, ZWNJ) and variation
/// selectors belong to ordinary writing.
pub fn is_hazard(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The last boundary of a character at or before `at`, which may lie behind the text.
pub fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// Whether what was typed is long enough to stand for the one id that begins with it: 4 characters.
pub fn may_abbreviate(name: &str) -> bool {
    name.chars().nth(3).is_some()
}

/// Whether what was typed can mean this id: the id itself, or a beginning of it that may stand for it.
pub fn can_mean(name: &str, id: &str) -> bool {
    name == id || may_abbreviate(name) && id.starts_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_abbreviated_to_four_characters() {
        for (name, id, can) in [
            ("abcd", "abcde", true),
            ("abc", "abcde", false),
            ("abc", "abc", true),
            ("äöü", "äöüß", false),
            ("äöüß", "äöüßx", true),
            ("bcde", "abcde", false),
            ("abcdef", "abcde", false),
            ("", "", true),
            ("", "abcd", false),
        ] {
            assert_eq!(can_mean(name, id), can, "{name} {id}");
        }
    }

    #[test]
    fn a_boundary_is_never_within_a_character() {
        let found: Vec<usize> = (0..7).map(|at| boundary("aäx", at)).collect();
        assert_eq!(found, [0, 1, 1, 3, 4, 4, 4]);
    }
}
