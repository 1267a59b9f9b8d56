//! The kept policy asked again, with the recorded inputs.

use std::path::Path;

use crate::{
    audit::source::Then,
    policy::{self, Inputs, Outcome},
    refusal::{Error, FaultCode, Result},
    selection::{DecidedKind, PolicyRef},
    store::ledger::{
        Ledger, Read,
        entry::{Entry, VerdictRecord},
        kept_policy,
    },
    topology::{Inspection, Tree, grown_from},
};

/// What is wrong with a verdict: codes and words.
pub(super) type Wrong = Vec<(&'static str, String)>;

/// Whether the policy's text is kept, or why not.
pub(super) fn kept(root: &Path, reference: &PolicyRef) -> Result<Result<String, (&'static str, String)>> {
    match kept_policy(root, &reference.digest) {
        Ok(Some(text)) => Ok(Ok(text)),
        Ok(None) => {
            Ok(Err(("policy-gone", format!("the text of policy `{}` is not kept", reference.digest))))
        }
        Err(Error::Fault(f)) if f.code == FaultCode::Damaged => Ok(Err(("policy-altered", f.message))),
        Err(e) => Err(e),
    }
}

/// Checks who decided, and how, on the bytes that `entry` was decided from.
pub(super) fn check(
    root: &Path,
    ledger: &Ledger,
    read: &Read,
    entry: &Entry,
    then: &Then,
    inspection: &Inspection,
) -> Result<Wrong> {
    let Some(verdict) = &entry.body.verdict else {
        return Ok(vec![("verdict-differs", "the entry names no verdict".to_owned())]);
    };
    let mut wrong = Wrong::new();
    let Some(reference) = &verdict.decided_by.policy else {
        match verdict.decided_by.kind {
            DecidedKind::Policy => {
                wrong.push(("verdict-differs", "a policy decided, but the entry names none".to_owned()));
            }
            DecidedKind::OnlyLeaf if inspection.branches.len() != 1 => {
                let message = format!("it was not the only leaf: there were {}", inspection.branches.len());
                wrong.push(("verdict-differs", message));
            }
            _ => {}
        }
        return Ok(wrong);
    };
    let text = match kept(root, reference)? {
        Ok(text) => text,
        Err(why) => return Ok(vec![why]),
    };
    let Ok(policy) = policy::parse(&text, &reference.path) else {
        return Ok(vec![("policy-unreadable", "the kept text is not a policy to this version".to_owned())]);
    };
    let Ok(inputs) = serde_json::from_value::<Inputs>(verdict.inputs.clone()) else {
        return Ok(vec![("inputs-unreadable", "the recorded inputs are not what a policy reads".to_owned())]);
    };
    check_inputs(ledger, read, entry, then, inspection, &inputs, &mut wrong);
    let again = policy::evaluate(&policy, inspection, &inputs);
    if let Some(why) = contradiction(verdict, reference, &again.outcome) {
        wrong.push(("verdict-differs", why));
    } else if serde_json::to_value(&again).ok().as_ref() != Some(&verdict.trace) {
        wrong
            .push(("trace-differs", "the policy comes to that leaf in another way than recorded".to_owned()));
    }
    Ok(wrong)
}

fn contradiction(verdict: &VerdictRecord, reference: &PolicyRef, again: &Outcome) -> Option<String> {
    let says = |what: &str| Some(format!("the kept policy, given the recorded inputs, {what}"));
    match (verdict.decided_by.kind, again) {
        (DecidedKind::Policy, Outcome::Leaf { leaf_uuid, rule, reason }) => {
            if *leaf_uuid != verdict.leaf_uuid {
                says("chooses another leaf")
            } else if reference.rule.as_ref() != Some(rule) {
                says("chooses it by another rule")
            } else if reference.reason.as_ref() != Some(reason) {
                says("gives another reason")
            } else {
                None
            }
        }
        (DecidedKind::Prompt, Outcome::Prompt { rule, leaves }) => {
            if reference.rule != *rule {
                says("hands over to a person by another rule")
            } else if !leaves.contains(&verdict.leaf_uuid) {
                says("does not offer that leaf to a person")
            } else {
                None
            }
        }
        (DecidedKind::Policy | DecidedKind::Prompt, _) => says("chooses no leaf, or not in that way"),
        _ => Some("a policy is named, but it is said that somebody else decided".to_owned()),
    }
}

/// The inputs that something else knows as well.
fn check_inputs(
    ledger: &Ledger,
    read: &Read,
    entry: &Entry,
    then: &Then,
    inspection: &Inspection,
    inputs: &Inputs,
    wrong: &mut Wrong,
) {
    let mut differ =
        |what: &str| wrong.push(("inputs-differ", format!("the recorded {what} is not what it was")));
    if inputs.agent != ledger.agent() {
        differ("agent");
    }
    if inputs.session_id != inspection.session_id {
        differ("session");
    }
    if entry.at.parse().is_ok_and(|at: jiff::Timestamp| inputs.now > at + jiff::SignedDuration::from_secs(1))
    {
        differ("time of the decision");
    }
    let before = read
        .selections(&entry.body.transcript)
        .into_iter()
        .filter(|s| s.is_completed() && s.closing.is_some_and(|c| c.seq < entry.seq))
        .max_by_key(|s| s.closing.map(|c| c.seq));
    let chosen = before.and_then(|s| s.pending.body.verdict.as_ref().map(|v| v.leaf_uuid.clone()));
    let recorded = chosen.and_then(|leaf| grown_from(&then.t, &Tree::new(&then.t), &leaf));
    // What was pruned cannot be asked any more.
    let pruned = read.entries.first().is_some_and(|e| e.seq > 0);
    if recorded != inputs.recorded && !(pruned && recorded.is_none()) {
        differ("leaf that had been chosen before");
    }
}
