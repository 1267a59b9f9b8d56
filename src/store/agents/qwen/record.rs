//! A record of the client's writer lock, and whether its owner may still write.
//!
//! The rules are the client's own, and it fails closed: a lock is never stale by age, and stale only if this
//! machine, in this boot and this pid namespace, can see that its process is gone.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::store::process::{self, Machine};

/// What we write; the order of fields is the client's.
#[derive(Debug, Serialize)]
pub(super) struct NewRecord<'a> {
    pub schema_version: u8,
    pub state: &'a str,
    pub session_id: &'a str,
    pub owner_id: &'a str,
    pub pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_start_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_namespace_id: Option<u64>,
    pub hostname: String,
    pub process_kind: &'a str,
    pub acquired_at: String,
    pub qwen_version: Option<&'a str>,
}

/// A well-formed record of schema 1 or 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockRecord {
    pub session_id: String,
    pub owner_id: String,
    pub pid: u32,
    pub start: Option<String>,
    pub pid_namespace: Option<u64>,
    pub hostname: String,
    pub kind: String,
    pub acquired_at: String,
    pub sealed: bool,
}

/// What a lock says of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// Its process may still write, as far as can be told.
    Live,
    /// Its process is gone.
    Stale,
}

impl LockRecord {
    /// Reads what the client would accept; anything else, a managed lock (schema 3) included, is none.
    pub fn parse(bytes: &[u8]) -> Option<LockRecord> {
        let value: Value = serde_json::from_str(&String::from_utf8_lossy(bytes)).ok()?;
        let record = value.as_object()?;
        let time = |key: &str| text(record, key).filter(|t| t.parse::<Timestamp>().is_ok());
        let sealed = match (record.get("schema_version")?.as_u64()?, record.get("state")) {
            (1, None) => false,
            (2, Some(Value::String(state))) if state == "active" => false,
            (2, Some(Value::String(state))) if state == "sealed" => {
                time("sealed_at")?;
                record.get("transcript")?.as_object()?;
                true
            }
            _ => return None,
        };
        if !matches!(record.get("qwen_version")?, Value::Null | Value::String(_)) {
            return None;
        }
        let kind = text(record, "process_kind")
            .filter(|k| ["interactive", "acp", "daemon", "unknown"].contains(&k.as_str()))?;
        Some(LockRecord {
            session_id: text(record, "session_id")?,
            owner_id: text(record, "owner_id")?,
            pid: u32::try_from(record.get("pid")?.as_u64()?).ok().filter(|pid| *pid > 0)?,
            start: match record.get("process_start_identity") {
                None => None,
                Some(_) => Some(text(record, "process_start_identity")?),
            },
            pid_namespace: match record.get("pid_namespace_id") {
                None => None,
                Some(ns) => Some(ns.as_u64().filter(|n| (1..1 << 53).contains(n))?),
            },
            hostname: text(record, "hostname")?,
            kind,
            acquired_at: time("acquired_at")?,
            sealed,
        })
    }

    /// The client's own judgement of an active record.
    pub fn state(&self, here: &Machine) -> LockState {
        if self.hostname != here.host {
            return LockState::Live;
        }
        if cfg!(target_os = "linux") {
            let boot = self.start.as_deref().and_then(boot_of);
            let same_boot = boot.is_some() && boot == here.boot_id;
            let same_namespace = self.pid_namespace.is_some() && self.pid_namespace == here.pid_namespace;
            if !(same_boot && same_namespace) {
                return LockState::Live;
            }
        }
        if !process::exists(self.pid) {
            return LockState::Stale;
        }
        match (&self.start, process::start_identity(self.pid)) {
            (Some(then), Some(now)) if *then != now => LockState::Stale,
            _ => LockState::Live,
        }
    }
}

/// A non-empty string.
fn text(record: &Map<String, Value>, key: &str) -> Option<String> {
    record.get(key)?.as_str().filter(|s| !s.is_empty()).map(str::to_owned)
}

/// The boot id of `linux:<boot id>:<ticks>`, in lower case.
fn boot_of(identity: &str) -> Option<String> {
    let (boot, ticks) = identity
        .get(..6)
        .filter(|p| p.eq_ignore_ascii_case("linux:"))
        .and_then(|_| identity[6..].split_once(':'))?;
    let ok = !boot.is_empty()
        && boot.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        && !ticks.is_empty()
        && ticks.bytes().all(|b| b.is_ascii_digit());
    ok.then(|| boot.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record() -> Value {
        json!({"schema_version": 2, "state": "active", "session_id": "s", "owner_id": "o", "pid": 7,
            "process_start_identity": "linux:ab:1", "pid_namespace_id": 4026531836u64, "hostname": "h",
            "process_kind": "acp", "acquired_at": "2026-01-01T00:00:00.000Z", "qwen_version": null})
    }

    fn parse(change: impl FnOnce(&mut Map<String, Value>)) -> Option<LockRecord> {
        let mut value = record();
        change(value.as_object_mut().unwrap());
        LockRecord::parse(value.to_string().as_bytes())
    }

    #[test]
    fn what_the_client_accepts_is_accepted_and_nothing_else() {
        assert!(
            parse(|_| {}).is_some_and(|r| !r.sealed && r.pid == 7 && r.pid_namespace == Some(4026531836))
        );
        let old = parse(|r| {
            r.insert("schema_version".into(), json!(1));
            r.remove("state");
            r.remove("process_start_identity");
            r.remove("pid_namespace_id");
        });
        assert!(old.is_some_and(|r| r.start.is_none() && r.pid_namespace.is_none()));
        for (key, bad) in [
            ("schema_version", json!(3)),
            ("schema_version", json!(1)),
            ("schema_version", json!("2")),
            ("state", json!("other")),
            ("session_id", json!("")),
            ("owner_id", json!(1)),
            ("pid", json!(0)),
            ("pid", json!(-1)),
            ("pid", json!("7")),
            ("process_start_identity", json!("")),
            ("process_start_identity", json!(null)),
            ("pid_namespace_id", json!(0)),
            ("pid_namespace_id", json!(1u64 << 53)),
            ("hostname", json!("")),
            ("process_kind", json!("tui")),
            ("acquired_at", json!("yesterday")),
            ("qwen_version", json!(1)),
        ] {
            let text = format!("{key}: {bad}");
            assert_eq!(parse(|r| drop(r.insert(key.into(), bad))), None, "{text}");
        }
        for key in ["state", "session_id", "pid", "hostname", "acquired_at", "qwen_version"] {
            assert_eq!(parse(|r| drop(r.remove(key))), None, "without {key}");
        }
        for raw in ["", "[]", "null", "{", "{}"] {
            assert_eq!(LockRecord::parse(raw.as_bytes()), None, "{raw}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_lock_is_stale_only_if_its_process_is_seen_to_be_gone() {
        let here = Machine::this();
        let boot = here.boot_id.clone().unwrap();
        let me = std::process::id();
        // Larger than any pid that Linux hands out.
        let gone = 1 << 30;
        let rec = |pid: u32, start: Option<String>, ns: Option<u64>| LockRecord {
            session_id: "s".into(),
            owner_id: "o".into(),
            pid,
            start,
            pid_namespace: ns,
            hostname: here.host.clone(),
            kind: "acp".into(),
            acquired_at: "2026-01-01T00:00:00Z".into(),
            sealed: false,
        };
        let ns = here.pid_namespace;
        let then = |ticks: u64| Some(format!("linux:{boot}:{ticks}"));
        let live = [
            ("it runs", rec(me, process::start_identity(me), ns)),
            ("no identity: who knows", rec(gone, None, ns)),
            ("no namespace", rec(gone, then(1), None)),
            ("another namespace", rec(gone, then(1), Some(1))),
            ("another boot", rec(gone, Some("linux:0:1".into()), ns)),
            ("another host", LockRecord { hostname: "elsewhere".into(), ..rec(gone, then(1), ns) }),
        ];
        for (why, record) in live {
            assert_eq!(record.state(&here), LockState::Live, "{why}");
        }
        assert_eq!(rec(gone, then(1), ns).state(&here), LockState::Stale);
        assert_eq!(rec(me, then(1), ns).state(&here), LockState::Stale, "the pid was used again");
        assert_eq!(
            rec(gone, then(1).map(|s| s.to_uppercase()), ns).state(&here),
            LockState::Stale,
            "case of the boot id"
        );
    }
}
