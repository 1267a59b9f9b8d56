//! Names that are paths, and ids that depend on nothing but their seed.

use sha2::{Digest, Sha256};

/// The most bytes that a session id may have.
const MOST: usize = 255;

/// Whether `id` may name a session folder, on any system: one plain path segment (the client's rule).
pub fn is_session_id(id: &str) -> bool {
    let plain = |c: char| !c.is_control() && !"/\\<>:\"|?*".contains(c);
    !id.is_empty()
        && id.len() <= MOST
        && !id.starts_with('.')
        && !id.ends_with(['.', ' '])
        && id.trim() == id
        && id.chars().all(plain)
        && !is_device(id)
}

/// Names that mean a device on Windows, with any extension.
fn is_device(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or(id).trim_end().to_ascii_uppercase();
    match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
        name => ["COM", "LPT"].iter().any(|port| {
            let rest = name.strip_prefix(port);
            rest.is_some_and(|n| {
                matches!(n, "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
            })
        }),
    }
}

/// The first 16 bytes of SHA-256 over the parts with a NUL between them, in hex.
pub fn derived(parts: &[&str]) -> String {
    hex(&Sha256::digest(parts.join("\0").as_bytes())[..16])
}

/// The id of the commit of a child that repeats a commit of its parent.
pub fn inherited_commit(child: &str, commit: &str) -> String {
    derived(&["fork", child, commit])
}

/// The operation id of such a commit.
pub fn inherited_operation(parent: &str, commit: &str) -> String {
    format!("inherit:{parent}:{commit}")
}

/// The parent's session id and commit id that an operation id of an inherited commit names.
///
/// A session id holds no colon, so the first one ends it.
pub fn inherited_from(operation: &str) -> Option<(&str, &str)> {
    let (session, commit) = operation.strip_prefix("inherit:")?.split_once(':')?;
    (is_session_id(session) && !commit.is_empty()).then_some((session, commit))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The 32 bytes that 64 lower-case hex digits stand for.
pub(in crate::dialect) fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let bytes = text.as_bytes();
    if bytes.len() != 64 {
        return None;
    }
    let mut out = [0; 32];
    for (i, pair) in bytes.chunks_exact(2).enumerate() {
        out[i] = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_are_plain_path_segments() {
        for good in
            ["a", "desktop-1", "0123456789abcdef0123456789abcdef", "my session", "ü", "COM10", "console"]
        {
            assert!(is_session_id(good), "{good}");
        }
        let long = "x".repeat(256);
        for bad in [
            "", ".", "..", ".a", "a.", "a/b", "a\\b", "a:b", "a*", "a?", "a\"", "a<", "a>", "a|", "a\n",
            "a\u{7f}", "con", "NUL.txt", "Com1", "lpt9.x", "a ", &long,
        ] {
            assert!(!is_session_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn derived_ids_are_the_clients() {
        // `mini-child` is what the client made of `mini-parent`.
        assert_eq!(
            inherited_commit("mini-child", "428fb798d175c72b6f8fccc1e14b0ec3"),
            "947214e3c7fb5389a484a1543804405c"
        );
        assert_eq!(inherited_from("inherit:a b:c:d"), Some(("a b", "c:d")));
        for other in ["", "inherit:", "inherit:a", "inherit:a:", "inherit:../x:c", "op1"] {
            assert_eq!(inherited_from(other), None, "{other}");
        }
    }

    #[test]
    fn hex_there_and_back() {
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(unhex(&"g".repeat(64)), None);
        assert_eq!(unhex("00"), None);
    }
}
