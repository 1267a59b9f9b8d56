//! The parts of a record that a person is shown.

use super::head::{anchor, each_part};
use crate::dialect::{
    Part, View,
    jsonl::json::{Cursor, Field, Result, member_of},
    view::ANCHOR,
};

/// Decodes one record. Bytes that are no JSON object give nothing.
pub(super) fn view(bytes: &[u8]) -> View {
    let (mut view, mut title, mut kind, mut ours) = (View::default(), None, None, false);
    let read = Cursor::new(bytes).members(|key, value| {
        let text = |value: &mut Cursor<'_>| Ok(value.field()?.text().map(|t| t.into_owned()));
        match key.text().as_ref() {
            "timestamp" => view.timestamp = text(value)?,
            "type" => kind = text(value)?,
            "subtype" => view.note = text(value)?,
            "systemPayload" => {
                let payload = value.skip()?;
                title = member_of(&mut Cursor::new(payload), "customTitle")?.text().map(|t| t.into_owned());
                ours = anchor(&mut Cursor::new(payload))?;
            }
            "message" => each_part(value, &mut |given| {
                match given {
                    Some(value) => part(value, &mut view.parts)?,
                    None => view.parts.clear(),
                }
                Ok(())
            })?,
            _ => drop(value.skip()?),
        }
        Ok(())
    });
    if read.is_err() {
        return View::default();
    }
    if kind.as_deref() == Some("system") {
        if let (Some("custom_title"), Some(title)) = (view.note.as_deref(), title) {
            view.note = Some(format!("title: {title}"));
        }
        if view.note.is_none() && ours {
            view.note = Some(ANCHOR.to_owned());
        }
    } else {
        view.note = None;
    }
    view
}

/// Adds what one element of `message.parts` holds.
fn part(cursor: &mut Cursor<'_>, parts: &mut Vec<Part>) -> Result {
    let (mut text, mut thought, mut found) = (Field::Absent, false, None);
    cursor.members(|key, value| {
        match key.text().as_ref() {
            "text" => text = value.field()?,
            "thought" => thought = value.field()? == Field::Other(b"true"),
            "functionCall" => found = Some(call(value)?),
            "functionResponse" => found = Some(response(value)?),
            "inlineData" | "fileData" => {
                let mime = member_of(value, "mimeType")?;
                let image = mime.text().is_some_and(|mime| mime.starts_with("image/"));
                found = Some(if image { Part::Image } else { Part::Binary });
            }
            _ => drop(value.skip()?),
        }
        Ok(())
    })?;
    let text = text.text().map(|t| t.into_owned());
    parts.extend(text.map(|text| if thought { Part::Thought(text) } else { Part::Text(text) }));
    parts.extend(found);
    Ok(())
}

fn call(value: &mut Cursor<'_>) -> Result<Part> {
    let (mut name, mut input) = (String::new(), String::new());
    if value.peek() != Some(b'{') {
        value.skip()?;
        return Ok(Part::Call { name, input });
    }
    value.members(|key, value| {
        match key.text().as_ref() {
            "name" => name = value.field()?.text().unwrap_or_default().into_owned(),
            "args" => input = String::from_utf8_lossy(value.skip()?).into_owned(),
            _ => drop(value.skip()?),
        }
        Ok(())
    })?;
    Ok(Part::Call { name, input })
}

/// The `output` or `error` of a response, else all of it.
fn response(value: &mut Cursor<'_>) -> Result<Part> {
    let (mut whole, mut name): (&[u8], _) = (b"", String::new());
    if value.peek() != Some(b'{') {
        value.skip()?;
        return Ok(Part::Result { name, text: String::new() });
    }
    value.members(|key, value| {
        match key.text().as_ref() {
            "name" => name = value.field()?.text().unwrap_or_default().into_owned(),
            "response" => whole = value.skip()?,
            _ => drop(value.skip()?),
        }
        Ok(())
    })?;
    for member in ["output", "error"] {
        if let Some(text) = member_of(&mut Cursor::new(whole), member).ok().and_then(Field::text) {
            return Ok(Part::Result { name, text: text.into_owned() });
        }
    }
    Ok(Part::Result { name, text: String::from_utf8_lossy(whole).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_order() {
        let bytes = br#"{"type":"assistant","subtype":"x","timestamp":"T","message":{"parts":[{"text":"hm","thought":true},
            {"text":"look"},{"functionCall":{"id":"c","name":"shell","args":{"command":"ls"}}},
            {"functionResponse":{"id":"c","name":"shell","response":{"output":"a\nb"}}},{"functionResponse":{"response":{"x":1}}},
            {"inlineData":{"mimeType":"image/png","data":"AA=="}},{"fileData":{"mimeType":"audio/wav"}},{"functionCall":3}]}}"#;
        let view = view(bytes);
        let expected = vec![
            Part::Thought("hm".into()),
            Part::Text("look".into()),
            Part::Call { name: "shell".into(), input: r#"{"command":"ls"}"#.into() },
            Part::Result { name: "shell".into(), text: "a\nb".into() },
            Part::Result { name: String::new(), text: r#"{"x":1}"#.into() },
            Part::Image,
            Part::Binary,
            Part::Call { name: String::new(), input: String::new() },
        ];
        assert_eq!((view.timestamp.as_deref(), view.note, view.parts), (Some("T"), None, expected));
    }

    #[test]
    fn bookkeeping_has_a_name() {
        let note = |text: &str| view(text.as_bytes()).note;
        assert_eq!(note(r#"{"type":"system","subtype":"rewind"}"#).as_deref(), Some("rewind"));
        let title = r#"{"type":"system","subtype":"custom_title","systemPayload":{"customTitle":"t"}}"#;
        assert_eq!(note(title).as_deref(), Some("title: t"));
        let anchor = r#"{"type":"system","systemPayload":{"offshoot":1,"customTitle":"t"}}"#;
        assert_eq!(note(anchor).as_deref(), Some("offshoot's anchor"));
        for other in [r#""systemPayload":{"offshoot":"1"}"#, r#""systemPayload":[1]"#, r#""x":1"#] {
            assert_eq!(note(&format!(r#"{{"type":"system",{other}}}"#)), None, "{other}");
        }
        assert_eq!(view(b"[1"), View::default());
    }
}
