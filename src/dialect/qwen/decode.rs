//! The parts of a record that a summary needs. (First form: through `serde_json::Value`.)

use serde_json::Value;

use crate::dialect::Decoded;

pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let Ok(v) = serde_json::from_slice::<Value>(bytes) else { return Decoded::default() };
    let s = |k: &str| v.get(k).and_then(Value::as_str).map(str::to_owned);
    let mut d = Decoded {
        timestamp: s("timestamp"),
        git_branch: s("gitBranch"),
        cwd: s("cwd"),
        ..Decoded::default()
    };
    for part in v["message"]["parts"].as_array().into_iter().flatten() {
        if part["thought"] != Value::Bool(true)
            && let Some(text) = part["text"].as_str()
        {
            d.texts.push(text.to_owned());
        }
    }
    d
}
