//! The parts of a record that a summary needs, decoded from its own bytes.

use super::content::Message;
use crate::dialect::{Decoded, jsonl::json::Cursor};

/// Decodes one record. Bytes that begin with no JSON object give nothing.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let (mut decoded, mut message) = (Decoded::default(), Message::default());
    let read = Cursor::new(bytes).members(&mut |key, value| {
        let text = |value: &mut Cursor<'_>| Ok(value.field()?.text().map(|t| t.into_owned()));
        match key.text().as_ref() {
            "timestamp" => decoded.timestamp = text(value)?,
            "gitBranch" => decoded.git_branch = text(value)?,
            "cwd" => decoded.cwd = text(value)?,
            "message" => message = Message::read(value)?,
            _ => drop(value.skip()?),
        }
        Ok(())
    });
    if read.is_err() {
        return Decoded::default();
    }
    let content = message.content;
    decoded.texts = content.texts.iter().map(|t| t.text().into_owned()).collect();
    decoded.calls = content.calls.into_iter().map(|c| c.into_owned()).collect();
    decoded.responses = content.answers.into_iter().map(|c| c.into_owned()).collect();
    decoded
}
