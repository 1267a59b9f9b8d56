//! What a person is shown of one record: its parts in order, with the names of tools. A summary needs less, see
//! [`Decoded`].

use super::Decoded;

/// What an anchor of ours is called.
pub const ANCHOR: &str = "offshoot's anchor";

/// One record, to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// `timestamp`, as it stands there.
    pub timestamp: Option<String>,
    /// What it holds, in order.
    pub parts: Vec<Part>,
    /// What kind of bookkeeping it is, by the client's own name.
    pub note: Option<String>,
}

/// A part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that the client shows.
    Text(String),
    /// What the model thought before it answered.
    Thought(String),
    /// A tool is called.
    Call {
        /// The tool; empty where the format does not name it here.
        name: String,
        /// Its arguments as JSON, as they stand there; empty if there are none.
        input: String,
    },
    /// A tool gave something back.
    Result {
        /// The tool; empty where the format does not name it here.
        name: String,
        /// What it gave back, as text where it is text, else as JSON.
        text: String,
    },
    /// A picture.
    Image,
    /// Anything else that is not text: a document, sound, bytes.
    Binary,
}

impl From<Decoded> for View {
    /// As much as a summary knows: tools have no names, results no text.
    fn from(decoded: Decoded) -> View {
        let mut parts: Vec<Part> = decoded.texts.into_iter().map(Part::Text).collect();
        parts.extend(decoded.calls.iter().map(|_| Part::Call { name: String::new(), input: String::new() }));
        parts.extend(
            decoded.responses.iter().map(|_| Part::Result { name: String::new(), text: String::new() }),
        );
        let note = decoded.title.map(|title| format!("title: {title}"));
        View { timestamp: decoded.timestamp, parts, note }
    }
}
