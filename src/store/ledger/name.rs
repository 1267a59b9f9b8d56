//! File names for session ids, which may be anything.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Longer encodings are cut and told apart by a hash: with suffixes such as `.jsonl.torn-1` a name must stay
/// under 255 bytes.
const LONGEST: usize = 200;
const KEPT: usize = 120;

/// Upper-case letters are encoded as well, so that names stay distinct where case does not count. (The hex
/// digits of an escape are always upper case; a literal letter never follows a `%` directly.)
const ENCODED: &AsciiSet = &{
    let mut set = NON_ALPHANUMERIC.remove(b'-').remove(b'_');
    let mut letter = b'A';
    while letter <= b'Z' {
        set = set.add(letter);
        letter += 1;
    }
    set
};

/// The file name (without extension) of a session id: injective, without separators or dots, never empty, at
/// most 200 bytes.
pub fn session_file_name(session_id: &str) -> String {
    if session_id.is_empty() {
        return "~".to_owned();
    }
    let encoded = utf8_percent_encode(session_id, ENCODED).to_string();
    if encoded.len() <= LONGEST {
        return encoded;
    }
    // A tilde is always encoded, so no short name looks like a cut one.
    format!("{}~{}", &encoded[..KEPT], blake3::hash(session_id.as_bytes()).to_hex())
}

/// The session id of a file name, where the name alone says it.
pub fn session_of_file_name(name: &str) -> Option<String> {
    if name == "~" {
        return Some(String::new());
    }
    if name.contains('~') {
        return None;
    }
    let session = percent_decode_str(name).decode_utf8().ok()?.into_owned();
    // Only what we would have written ourselves.
    (session_file_name(&session) == name).then_some(session)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_ids_make_harmless_names() {
        for id in ["", ".", "..", "../x", "a/b", "a\\b", "\0", "a\0b", "~", "CON", "Ä", "a\u{202e}b", "%41"]
        {
            let name = session_file_name(id);
            assert!(!name.is_empty() && name.is_ascii(), "{id:?} -> {name}");
            assert!(!name.contains(['/', '\\', '.', '\0', ':']), "{id:?} -> {name}");
            assert_eq!(session_of_file_name(&name).as_deref(), Some(id));
        }
        let uuid = "6f1c1f2e-0000-4000-8000-000000000001";
        assert_eq!(session_file_name(uuid), uuid);
        let long = "x/".repeat(5000);
        assert!(session_file_name(&long).len() <= LONGEST);
        assert_ne!(session_file_name(&long), session_file_name(&"x/".repeat(5001)));
        assert_eq!(session_of_file_name(&session_file_name(&long)), None);
        assert_eq!(session_of_file_name("%2e"), None, "an escape that we would not write");
    }

    proptest! {
        #[test]
        fn names_are_distinct_even_where_case_does_not_count(a in ".{0,80}", b in ".{0,80}") {
            let (x, y) = (session_file_name(&a), session_file_name(&b));
            prop_assert_eq!(a == b, x.to_lowercase() == y.to_lowercase());
            prop_assert!(x.len() <= LONGEST);
        }
    }
}
