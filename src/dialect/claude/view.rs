//! The parts of a record that a person is shown.

use crate::dialect::{
    Part, View,
    jsonl::json::{Cursor, Field, Result, member_of},
    view::ANCHOR,
};

/// Decodes one record. Bytes that begin with no JSON object give nothing.
pub(super) fn view(bytes: &[u8]) -> View {
    let mut view = View::default();
    let (mut kind, mut subtype, mut attachment, mut content, mut level) = (None, None, None, None, None);
    let read = Cursor::new(bytes).members(|key, value| {
        let text = |value: &mut Cursor<'_>| Ok(value.field()?.text().map(|t| t.into_owned()));
        match key.text().as_ref() {
            "timestamp" => view.timestamp = text(value)?,
            "type" => kind = text(value)?,
            "subtype" => subtype = text(value)?,
            "content" => content = text(value)?,
            "level" => level = text(value)?,
            "attachment" => attachment = member_of(value, "type")?.text().map(|t| t.into_owned()),
            "message" => message(value, &mut view.parts)?,
            _ => drop(value.skip()?),
        }
        Ok(())
    });
    if read.is_err() {
        return View::default();
    }
    view.note = match kind.as_deref() {
        // The client itself writes no system record that says nothing.
        Some("system") if subtype.is_none() && content.is_none() && level.is_none() => {
            Some(ANCHOR.to_owned())
        }
        Some("system") => subtype.or(Some("system".to_owned())),
        Some("attachment") => Some(attachment.unwrap_or_else(|| "attachment".to_owned())),
        Some("progress") => kind,
        _ => None,
    };
    if view.note.is_some() {
        view.parts.extend(content.map(Part::Text));
    }
    view
}

/// The subagent whose conversation a record says it is the result of.
pub fn agent_of_result(bytes: &[u8]) -> Option<String> {
    let mut agent = None;
    let read = Cursor::new(bytes).members(|key, value| {
        if key.is("toolUseResult") {
            agent = member_of(value, "agentId")?.text().map(|id| id.into_owned());
            return Ok(());
        }
        value.skip().map(drop)
    });
    agent.filter(|_| read.is_ok())
}

fn message(value: &mut Cursor<'_>, parts: &mut Vec<Part>) -> Result {
    if value.peek() != Some(b'{') {
        return value.skip().map(drop);
    }
    value.members(|key, value| {
        if !key.is("content") {
            return value.skip().map(drop);
        }
        // Where it is given again, the last one wins.
        parts.clear();
        content(value, parts)
    })
}

/// One text, or blocks.
fn content(value: &mut Cursor<'_>, parts: &mut Vec<Part>) -> Result {
    match value.peek() {
        Some(b'[') => value.elements(|value| block(value, parts)),
        _ => {
            parts.extend(value.field()?.text().map(|t| Part::Text(t.into_owned())));
            Ok(())
        }
    }
}

fn block(value: &mut Cursor<'_>, parts: &mut Vec<Part>) -> Result {
    if value.peek() != Some(b'{') {
        return value.skip().map(drop);
    }
    let (mut kind, mut text, mut thinking, mut name) =
        (Field::Absent, Field::Absent, Field::Absent, Field::Absent);
    let (mut input, mut inner): (&[u8], &[u8]) = (b"", b"null");
    value.members(|key, value| {
        let field = match key.text().as_ref() {
            "type" => &mut kind,
            "text" => &mut text,
            "thinking" => &mut thinking,
            "name" => &mut name,
            "input" => {
                input = value.skip()?;
                return Ok(());
            }
            "content" => {
                inner = value.skip()?;
                return Ok(());
            }
            _ => return value.skip().map(drop),
        };
        *field = value.field()?;
        Ok(())
    })?;
    let owned = |field: Field<'_>| field.text().unwrap_or_default().into_owned();
    match kind.text().as_deref() {
        Some("text") => parts.push(Part::Text(owned(text))),
        Some("thinking" | "redacted_thinking") => parts.push(Part::Thought(owned(thinking))),
        Some("tool_use") => {
            parts.push(Part::Call { name: owned(name), input: String::from_utf8_lossy(input).into_owned() });
        }
        Some("tool_result") => result(inner, parts)?,
        Some("image") => parts.push(Part::Image),
        Some("document") => parts.push(Part::Binary),
        _ => {}
    }
    Ok(())
}

/// What a tool gave back: its texts as one part, its pictures behind them. Results do not hold results, so that this
/// goes one level deep and no further.
fn result(inner: &[u8], parts: &mut Vec<Part>) -> Result {
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    let mut cursor = Cursor::new(inner);
    match cursor.peek() {
        Some(b'[') => cursor.elements(|value| {
            let raw = value.skip()?;
            let kind = member_of(&mut Cursor::new(raw), "type")?;
            match kind.text().as_deref() {
                Some("text") => {
                    let text = member_of(&mut Cursor::new(raw), "text")?.text().unwrap_or_default();
                    texts.push(text.into_owned());
                }
                Some("image") => others.push(Part::Image),
                Some("document") => others.push(Part::Binary),
                _ => {}
            }
            Ok(())
        })?,
        _ => texts.extend(cursor.field()?.text().map(|t| t.into_owned())),
    }
    parts.push(Part::Result { name: String::new(), text: texts.join("\n") });
    parts.append(&mut others);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_in_order() {
        let bytes = br#"{"type":"user","timestamp":"T","message":{"content":[{"type":"text","text":"look"},
            {"type":"thinking","thinking":"hm"},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}},
            {"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image","source":{}},
            {"type":"text","text":"b"}]},{"type":"tool_result","content":"c"},{"type":"image"},{"type":"document"},7]}}"#;
        let expected = vec![
            Part::Text("look".into()),
            Part::Thought("hm".into()),
            Part::Call { name: "Bash".into(), input: r#"{"command":"ls"}"#.into() },
            Part::Result { name: String::new(), text: "a\nb".into() },
            Part::Image,
            Part::Result { name: String::new(), text: "c".into() },
            Part::Image,
            Part::Binary,
        ];
        let view = view(bytes);
        assert_eq!((view.timestamp.as_deref(), view.note, view.parts), (Some("T"), None, expected));
    }

    #[test]
    fn a_result_names_its_subagent() {
        let of = |text: &str| agent_of_result(text.as_bytes());
        assert_eq!(of(r#"{"toolUseResult":{"status":"completed","agentId":"a1"}}"#).as_deref(), Some("a1"));
        for other in
            [r#"{"toolUseResult":"text"}"#, r#"{"toolUseResult":{"agentId":7}}"#, r#"{"agentId":"a1"}"#, "[1"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn bookkeeping_has_a_name() {
        let note = |text: &str| view(text.as_bytes()).note;
        assert_eq!(
            note(r#"{"type":"system","subtype":"compact_boundary"}"#).as_deref(),
            Some("compact_boundary")
        );
        let attached = r#"{"type":"attachment","attachment":{"type":"skill_listing"}}"#;
        assert_eq!(note(attached).as_deref(), Some("skill_listing"));
        let anchor = r#"{"type":"system","isMeta":false,"uuid":"u","parentUuid":"p"}"#;
        assert_eq!(note(anchor).as_deref(), Some("offshoot's anchor"));
        assert_eq!(note(r#"{"type":"system","content":"Login"}"#).as_deref(), Some("system"));
        assert_eq!(note(r#"{"type":"user","subtype":"x","message":{"content":"p"}}"#), None);
        assert_eq!(view(b"[1"), View::default());
    }
}
