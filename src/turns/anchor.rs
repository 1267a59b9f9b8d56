//! What binds a target to its source: children inherit turn ids, and logs get replaced.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::json;

use crate::{
    refusal::{Code, Refusal, Result},
    turns::Targets,
};

/// The form that this version writes. Its fields follow, each behind a colon.
const PREFIX: &str = "ot1";

/// Ids may hold anything, colons too.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// A turn of one source, and the bytes before its boundary. As text: `ot1:<boundary>:<digest>:<session>:<turn>`, the
/// ids percent-encoded. Callers pass it on as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The source.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// The last position of the commit that closed it.
    pub boundary: u64,
    /// BLAKE3 (bare hex) of the source's bytes up to the end of that commit.
    pub digest: String,
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |id| utf8_percent_encode(id, ENCODED);
        let Anchor { boundary, digest, .. } = self;
        write!(f, "{PREFIX}:{boundary}:{digest}:{}:{}", encode(&self.session_id), encode(&self.turn_id))
    }
}

impl Anchor {
    /// Reads what its [`Display`](fmt::Display) wrote.
    ///
    /// # Errors
    /// `usage`.
    pub fn parse(text: &str) -> Result<Anchor> {
        Anchor::read(text).ok_or_else(|| {
            Refusal::new(Code::Usage, "`--expect` wants an `anchor` as `offshoot targets --json` gives it")
                .detail(json!({"expect": text}))
                .into()
        })
    }

    fn read(text: &str) -> Option<Anchor> {
        let fields: Vec<&str> = text.split(':').collect();
        let &[PREFIX, boundary, digest, session, turn] = fields.as_slice() else { return None };
        let decode = |id| percent_decode_str(id).decode_utf8().ok().map(|id| id.into_owned());
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let anchor = Anchor {
            session_id: decode(session)?,
            turn_id: decode(turn)?,
            boundary: boundary.parse().ok()?,
            digest: (digest.len() == 64 && digest.bytes().all(is_hex)).then(|| digest.to_owned())?,
        };
        // One spelling alone, so that two anchors are the same if their texts are.
        (anchor.to_string() == text).then_some(anchor)
    }

    /// Whether the source is still what it was when the anchor was made, as far as its turn goes.
    ///
    /// # Errors
    /// `stale-source`, with what differs.
    pub fn check(&self, targets: &Targets) -> Result<()> {
        let same_session = self.session_id == targets.session_id;
        let of_turn: Vec<&Anchor> = targets
            .targets
            .iter()
            .filter(|t| t.turn.id == self.turn_id)
            .filter_map(|t| t.anchor.as_ref())
            .collect();
        let why = if !same_session {
            format!("it is of session `{}`, not of `{}`", self.session_id, targets.session_id)
        } else if of_turn.contains(&self) {
            return Ok(());
        } else if of_turn.is_empty() {
            format!("turn `{}` is no target of the session", self.turn_id)
        } else if of_turn.iter().all(|a| a.boundary != self.boundary) {
            format!("turn `{}` does not end at {} any more", self.turn_id, self.boundary)
        } else {
            format!("what stands before the end of turn `{}` is not what it was", self.turn_id)
        };
        Err(Refusal::new(
            Code::StaleSource,
            format!("the anchor does not describe the source any more: {why}"),
        )
        .hint("`offshoot targets` lists the targets as they are now")
        .detail(json!({"sessionId": targets.session_id, "turnId": self.turn_id, "boundary": self.boundary}))
        .into())
    }
}
