//! The parts of a record that a summary needs, decoded from its own bytes.

use super::{content::Message, head::TITLES};
use crate::dialect::{Decoded, jsonl::json::Cursor};

/// Decodes one record. Bytes that begin with no JSON object give nothing.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    beginning(bytes, usize::MAX).0
}

/// The same with at most `most` bytes of a text as it is spelled and none behind one that is longer, and whether that was
/// all.
pub(super) fn beginning(bytes: &[u8], most: usize) -> (Decoded, bool) {
    let (mut decoded, mut message) = (Decoded::default(), Message::default());
    let (mut kind, mut titles) = (None, [const { None }; TITLES.len()]);
    let read = Cursor::new(bytes).members(|key, value| {
        let text = |value: &mut Cursor<'_>| Ok(value.field()?.text().map(|t| t.into_owned()));
        match key.text().as_ref() {
            "timestamp" => decoded.timestamp = text(value)?,
            "gitBranch" => decoded.git_branch = text(value)?,
            "cwd" => decoded.cwd = text(value)?,
            "message" => message = Message::read(value)?,
            "type" => kind = text(value)?,
            key => match TITLES.iter().position(|(_, member)| *member == key) {
                Some(rank) => titles[rank] = text(value)?,
                None => drop(value.skip()?),
            },
        }
        Ok(())
    });
    if read.is_err() {
        return (Decoded::default(), true);
    }
    let rank = TITLES.iter().position(|(of, _)| Some(*of) == kind.as_deref());
    decoded.title = rank.and_then(|rank| titles[rank].take());
    let content = message.content;
    let mut whole = true;
    for text in content.texts {
        let begin = text.beginning(most);
        decoded.texts.push(begin.text().into_owned());
        whole = begin == text;
        if !whole {
            break;
        }
    }
    decoded.calls = content.calls.into_iter().map(|c| c.text().into_owned()).collect();
    decoded.responses = content.answers.into_iter().map(|c| c.text().into_owned()).collect();
    (decoded, whole)
}
