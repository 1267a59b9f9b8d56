//! Why a log cannot be used: damage, a version we do not know, or a source that cannot be read.

use std::{fmt, io, path::Path};

use serde_json::json;

use crate::refusal::{Code, Error, Fault, FaultCode, Refusal};

/// What stands in the way of reading a log, and where.
#[derive(Debug)]
pub enum Trouble {
    /// The source could not be read.
    Io(io::Error),
    /// The bytes are not what a writer of this format leaves, whatever stopped it. The whole session is unusable.
    Damaged {
        /// Of the frame, from the start of the log, in bytes.
        offset: u64,
        /// What is wrong, in words, without text of the conversation.
        reason: String,
    },
    /// A storage format or a required event that this version does not know.
    Unsupported {
        /// Of the frame, from the start of the log, in bytes.
        offset: u64,
        /// What it is, in words.
        what: String,
    },
}

impl Trouble {
    pub(super) fn damaged(offset: u64, reason: impl Into<String>) -> Trouble {
        Trouble::Damaged { offset, reason: reason.into() }
    }

    /// The error that names the file: the fault `damaged` with file, offset and reason, the refusal
    /// `unsupported-version`, or the fault `io`.
    pub fn into_error(self, path: &Path) -> Error {
        let file = path.display().to_string();
        match self {
            Trouble::Io(e) => Fault::io("read", path, e).into(),
            Trouble::Damaged { offset, reason } => {
                Fault::new(FaultCode::Damaged, format!("`{file}` is damaged at byte {offset}: {reason}"))
                    .detail(json!({"path": file, "offset": offset, "reason": reason}))
                    .into()
            }
            Trouble::Unsupported { offset, what } => {
                Refusal::new(Code::UnsupportedVersion, format!("`{file}` holds {what}, which is not known"))
                    .hint("a newer client wrote it; nothing of this session can be told apart safely")
                    .detail(json!({"path": file, "offset": offset, "what": what}))
                    .into()
            }
        }
    }

    /// For interfaces that only carry I/O errors; [`Trouble::from_io`] gets it back.
    pub fn into_io(self) -> io::Error {
        match self {
            Trouble::Io(e) => e,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        }
    }

    /// The trouble that an I/O error stands for.
    pub fn from_io(e: io::Error) -> Trouble {
        match e.downcast::<Trouble>() {
            Ok(trouble) => trouble,
            Err(e) => Trouble::Io(e),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Trouble {
        Trouble::from_io(e)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Io(e) => e.fmt(f),
            Trouble::Damaged { offset, reason } => write!(f, "damaged at byte {offset}: {reason}"),
            Trouble::Unsupported { offset, what } => write!(f, "{what} at byte {offset} is not known"),
        }
    }
}

impl std::error::Error for Trouble {}
