//! Whether the client that is installed still behaves as this version believes.
//!
//! A tiny branched session is made in a temporary home, and the client resumes it against a model server of our own
//! on loopback: what it sends there is compared with what the simulation says, and with the chains of our seeds. The client
//! gets nothing of the caller's environment but `PATH`, dummy keys, and a proxy where nobody answers.

mod client;
mod history;
mod model;
mod place;
mod session;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::Serialize;

use crate::{
    dialect::{self, Client, Dialect},
    record::Agent,
    refusal::{Error, Result},
    selection::SeedMode,
};
use client::Ran;
use history::Wanted;
use model::Model;
use place::{Place, Seeded};
use session::{NEXT, ONE, TWO, Variant};

/// What is probed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose client.
    pub agent: Agent,
    /// The program; else the one of the usual name on `path`.
    pub client: Option<PathBuf>,
    /// `PATH`, which the client is given too: its interpreter may have to be found.
    pub path: Option<OsString>,
    /// How long each start of the client may take.
    pub limit: Duration,
}

/// What came of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It behaves as believed.
    Holds,
    /// It does not.
    DoesNotHold,
    /// It could not be found out.
    Unchecked,
}

/// One behaviour, and what was seen of it. `seen` may hold text that the client printed: it is to be cleaned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A name for scripts.
    pub behaviour: &'static str,
    /// What is believed, in words.
    pub believed: String,
    /// Whether that is so.
    pub outcome: Outcome,
    /// What was seen.
    pub seen: String,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `offshoot.probe/1`.
    pub schema: &'static str,
    /// Whose client.
    pub agent: Agent,
    /// The program.
    pub client: String,
    /// The version that it says it has; none if it does not say.
    pub client_version: Option<String>,
    /// The newest version whose rules are known.
    pub known_version: &'static str,
    /// In the order in which they were looked at.
    pub behaviours: Vec<Finding>,
}

impl Report {
    /// Whether every behaviour was checked and holds.
    pub fn all_hold(&self) -> bool {
        self.behaviours.iter().all(|b| b.outcome == Outcome::Holds)
    }
}

/// Probes a client.
///
/// # Errors
/// The fault `command-failed-to-start` if there is no such client or it cannot be started; `io`.
pub fn probe(options: &Options) -> Result<Report> {
    let program = client::find(options)?;
    let place = Place::new(options.agent)?;
    let mut probe = Probe {
        dialect: dialect::of(options.agent),
        options,
        program,
        place,
        version: None,
        findings: Vec::new(),
        hung: None,
        foreign: Vec::new(),
        compared: false,
    };
    probe.version()?;
    for variant in Variant::of(options.agent) {
        probe.pick(*variant)?;
    }
    probe.seed(SeedMode::Fork)?;
    probe.seed(SeedMode::InPlace)?;
    probe.foreign();
    Ok(Report {
        schema: "offshoot.probe/1",
        agent: options.agent,
        client: probe.program.display().to_string(),
        client_version: probe.version,
        known_version: probe.dialect.known_version(),
        behaviours: probe.findings,
    })
}

struct Probe<'a> {
    dialect: &'static dyn Dialect,
    options: &'a Options,
    program: PathBuf,
    place: Place,
    version: Option<String>,
    findings: Vec<Finding>,
    /// Why the client is not started again.
    hung: Option<String>,
    /// What was found in requests to seeds that must not be there.
    foreign: Vec<String>,
    /// Whether there was any such request.
    compared: bool,
}

/// The outcome of a check and what was seen.
type Seen = (Outcome, String);

impl Probe<'_> {
    fn found(&mut self, behaviour: &'static str, believed: impl Into<String>, (outcome, seen): Seen) {
        self.findings.push(Finding { behaviour, believed: believed.into(), outcome, seen });
    }

    fn client(&self) -> Client {
        Client { version: self.version.clone(), ..Client::default() }
    }

    fn version(&mut self) -> Result<()> {
        let ran = client::start(self.options, &self.program, &self.place, None, &["--version".to_owned()])?;
        let seen = match ran.trouble() {
            Some(why) => (Outcome::Unchecked, why),
            None => match client::version_in(&ran.stdout) {
                None => (Outcome::Unchecked, format!("`--version` printed no version: {}", ran.printed())),
                Some(version) => {
                    let newer = self.dialect.is_newer_than_known(&version);
                    let seen = if newer {
                        (Outcome::DoesNotHold, format!("{version} is newer than any that is known"))
                    } else {
                        (Outcome::Holds, version.clone())
                    };
                    self.version = Some(version);
                    seen
                }
            },
        };
        self.note_hung(&ran);
        let believed =
            format!("its version is one whose rules are known, {} or before", self.dialect.known_version());
        self.found("version", believed, seen);
        Ok(())
    }

    fn note_hung(&mut self, ran: &Ran) {
        if ran.cut_short {
            self.hung = ran.trouble().map(|why| format!("not started again: {why}"));
        }
    }

    /// Gives the client one prompt in a session, and compares what it did.
    fn turn(&mut self, session: &str, wanted: &Wanted) -> Result<(Seen, Vec<model::Request>)> {
        if let Some(why) = &self.hung {
            return Ok(((Outcome::Unchecked, why.clone()), Vec::new()));
        }
        let before = self.place.records(self.dialect, session)?;
        let model = Model::start(self.options.agent).map_err(Error::io("listen on", "127.0.0.1".as_ref()))?;
        let args = client::resume_arguments(self.options.agent, session, NEXT);
        let ran = client::start(self.options, &self.program, &self.place, Some(model.port()), &args)?;
        let requests = model.stop();
        self.note_hung(&ran);
        let sent = history::of_prompt(&requests, NEXT);
        let seen = match (sent, ran.trouble()) {
            (None, Some(why)) => (Outcome::Unchecked, why),
            (None, None) => (
                Outcome::Unchecked,
                format!(
                    "it ended without a request that has the prompt ({} others): {}",
                    requests.len(),
                    ran.printed()
                ),
            ),
            (Some(sent), trouble) => {
                let below = self.place.first_parent(self.dialect, session, before)?;
                wanted.compare(&sent, below.as_deref(), trouble)
            }
        };
        Ok((seen, requests))
    }

    fn pick(&mut self, variant: Variant) -> Result<()> {
        let (session, _) = self.place.write(variant, self.version.as_deref())?;
        let seen = match self.place.simulated(self.dialect, &session, &self.client())? {
            Ok(wanted) => self.turn(&session, &wanted)?.0,
            Err(why) => (Outcome::Unchecked, why),
        };
        self.found(variant.behaviour(), variant.believed(), seen);
        Ok(())
    }

    /// Seeds the branch that the client would not take by itself, and lets it go on there.
    fn seed(&mut self, mode: SeedMode) -> Result<()> {
        let (behaviour, believed) = match mode {
            SeedMode::Fork => ("fork-followed", "it goes on where a fork ends, with exactly that branch"),
            _ => ("in-place-followed", "it goes on below an anchor, with exactly the branch of the anchor"),
        };
        let (session, leaves) = self.place.write(Variant::Plain, self.version.as_deref())?;
        let picked = self.place.simulated(self.dialect, &session, &self.client())?;
        let one_is_picked = picked.is_ok_and(|w| w.marks.iter().any(|m| m.ends_with(ONE[0])));
        let (leaf, words, sibling) =
            if one_is_picked { (&leaves[1], TWO, ONE) } else { (&leaves[0], ONE, TWO) };
        let seen = match self.place.seed(&session, leaf, mode, self.version.as_deref()) {
            Ok(Seeded { session, parent, hidden }) => {
                let wanted = Wanted::branch(words, &parent);
                let (seen, requests) = self.turn(&session, &wanted)?;
                self.compared |= history::of_prompt(&requests, NEXT).is_some();
                let words = hidden.iter().map(String::as_str).chain(sibling);
                let found = words.filter(|w| requests.iter().any(|r| r.holds(w)));
                self.foreign.extend(found.map(|w| format!("`{w}` in a request after {}", mode_name(mode))));
                seen
            }
            Err(error) => (Outcome::Unchecked, format!("there is no seed: {error}")),
        };
        self.found(behaviour, believed, seen);
        Ok(())
    }

    fn foreign(&mut self) {
        let seen = match (self.compared, self.foreign.is_empty()) {
            (false, _) => (Outcome::Unchecked, "there was no request to look into".to_owned()),
            (true, true) => (Outcome::Holds, "no word of either in the requests".to_owned()),
            (true, false) => (Outcome::DoesNotHold, self.foreign.join(", ")),
        };
        self.found("nothing-foreign", "nothing of ours, nor of the other branch, reaches the model", seen);
    }
}

fn mode_name(mode: SeedMode) -> &'static str {
    if mode == SeedMode::Fork { "a fork" } else { "an anchor" }
}
