//! Durations as they are typed: a whole number and one of `ms`, `s`, `m`, `h`, `d`, `w`.

use std::time::Duration;

/// The units and their length in milliseconds, shortest first.
const UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Reads `500ms`, `10s`, `2m`, `1h`, `14d` or `2w`; a bare `0` needs no unit. A day has 24 hours.
///
/// # Errors
/// What is wrong with it, in words that fit behind `the duration ...:`.
pub fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let Some(&(_, length)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(
            "a duration is a whole number and one of `ms`, `s`, `m`, `h`, `d`, `w`, as in `10m`".into()
        );
    };
    if number.is_empty() {
        return Err(format!("a number is missing before `{unit}`"));
    }
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(length))
        .map(Duration::from_millis)
        .ok_or_else(|| "longer than this program can count".into())
}

/// The shortest way to type a duration; parts below a millisecond are dropped.
pub fn format(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (unit, length) = UNITS
        .iter()
        .rev()
        .find(|(_, length)| millis != 0 && millis.is_multiple_of(u128::from(*length)))
        .unwrap_or(&("s", 1_000));
    format!("{}{unit}", millis / u128::from(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_unit() {
        for (text, millis) in [
            ("0", 0),
            ("0w", 0),
            ("500ms", 500),
            ("10s", 10_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("14d", 14 * 86_400_000),
            ("2w", 14 * 86_400_000),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in [
            "",
            " ",
            "10",
            "s",
            "-1s",
            "+1s",
            "1.5h",
            "1h30m",
            "10 m",
            " 10m",
            "10m ",
            "10M",
            "10min",
            "1e3s",
            "٣s",
            "18446744073709551616ms",
            "18446744073709551615w",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("18446744073709551615ms"), Ok(Duration::from_millis(u64::MAX)));
    }

    #[test]
    fn formats_what_it_reads() {
        for text in ["0s", "500ms", "1500ms", "90s", "2m", "5h", "1d", "2w"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
