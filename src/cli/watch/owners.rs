//! What `watch` remembers of the processes that have a session open, and what it says of further ones. Pure.

use hashbrown::HashSet;
use serde_json::json;

use super::branches::Event;
use crate::store::owner::OwnerDesc;

/// A process, and what tells it from another one of its number.
pub(super) type Process = (OwnerDesc, Option<String>);

/// The processes at the last look.
#[derive(Default)]
pub(super) struct Owners {
    /// In the order in which they were first seen.
    seen: Vec<Process>,
    /// What was told: number, host and start of each.
    told: HashSet<(Option<u32>, Option<String>, Option<String>)>,
}

impl Owners {
    /// What is new since the last look. Of several processes the one that was there first is no second writer; each
    /// other one is told once.
    pub fn since(&mut self, now: Vec<Process>) -> Vec<Event> {
        let same = |(one, start): &Process, (other, its): &Process| one.is_process_of(other) && start == its;
        self.seen.retain(|known| now.iter().any(|owner| same(known, owner)));
        for owner in now {
            if !self.seen.iter().any(|known| same(known, &owner)) {
                self.seen.push(owner);
            }
        }
        let [(first, _), others @ ..] = self.seen.as_slice() else { return Vec::new() };
        let mut events = Vec::new();
        for (owner, start) in others {
            if self.told.insert((owner.pid, owner.host.clone(), start.clone())) {
                let owners = [first.to_json(), owner.to_json()];
                let rest = json!({"owners": owners, "evidence": "open in two processes"});
                events.push(Event { name: "second-writer", rest });
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, start: &str) -> Process {
        let owner = OwnerDesc {
            what: "an agent".to_owned(),
            pid: Some(pid),
            host: Some("h".to_owned()),
            since: None,
            path: "/mark".into(),
        };
        (owner, Some(start.to_owned()))
    }

    /// The numbers of the second processes that are told.
    fn told(owners: &mut Owners, now: &[(u32, &str)]) -> String {
        let events = owners.since(now.iter().map(|&(pid, start)| process(pid, start)).collect());
        let pids: Vec<String> =
            events.iter().map(|event| event.rest["owners"][1]["pid"].to_string()).collect();
        pids.join(" ")
    }

    #[test]
    fn each_further_process_is_told_once() {
        let mut owners = Owners::default();
        assert_eq!(told(&mut owners, &[(7, "a")]), "");
        // The order of the marks says nothing.
        assert_eq!(told(&mut owners, &[(3, "b"), (7, "a")]), "3");
        assert_eq!(told(&mut owners, &[(3, "b"), (7, "a"), (9, "c")]), "9");
        assert_eq!(told(&mut owners, &[(9, "c"), (3, "b"), (7, "a")]), "");
        // A mark that cannot be read for a moment is no news when it is there again.
        assert_eq!(told(&mut owners, &[(7, "a"), (9, "c")]), "");
        assert_eq!(told(&mut owners, &[(7, "a"), (9, "c"), (3, "b")]), "");
        // Another process of the same number is another one.
        assert_eq!(told(&mut owners, &[(7, "a"), (3, "d")]), "3");
        // When the first one leaves, the next one is the first.
        assert_eq!(told(&mut owners, &[(3, "d")]), "");
        assert_eq!(told(&mut owners, &[(3, "d"), (7, "e")]), "7");
        assert_eq!(told(&mut owners, &[]), "");
    }
}
