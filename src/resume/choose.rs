//! Who chooses, and the choice with everything that it was made from.

use serde_json::{Value, json};

use crate::{
    policy::{self, Outcome},
    record::RecordId,
    refusal::{Code, Refusal, Result},
    resume::{Host, PolicyFile, Request, Selector, annotate::Context, undo},
    selection::{DecidedBy, DecidedKind, PolicyRef},
    topology::{Branch, Inspection, Tree, resolve_leaf},
    transcript::Transcript,
};

/// A refusal lists at most so many leaves.
const LISTED: usize = 50;

/// One leaf, who chose it, and from what.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub leaf: RecordId,
    pub decided_by: DecidedBy,
    /// What the policy did, rule by rule.
    pub trace: Value,
    /// What the policy read beside the transcript.
    pub inputs: Value,
}

impl Choice {
    fn without_policy(leaf: RecordId, kind: DecidedKind) -> Choice {
        let decided_by = DecidedBy { kind, policy: None };
        Choice { leaf, decided_by, trace: Value::Null, inputs: Value::Null }
    }
}

/// Chooses one leaf or refuses. Nothing is ever guessed.
pub(super) fn choose(
    request: &Request,
    host: &mut Host<'_>,
    t: &Transcript,
    inspection: &Inspection,
    context: &Context,
) -> Result<Choice> {
    if inspection.branches.is_empty() {
        return Err(Refusal::new(Code::NoLeaf, format!("`{}` has no leaf to resume", inspection.transcript))
            .detail(json!({"records": inspection.snapshot.records}))
            .into());
    }
    match &request.selector {
        Selector::Leaf(text) => {
            let leaf = resolve_leaf(t, &Tree::new(t), Some(text))?;
            Ok(Choice::without_policy(t.id(leaf), DecidedKind::Leaf))
        }
        Selector::Policy(file) => by_policy(file, host, t, inspection, context, request),
        Selector::Undo => {
            let leaf = undo::leaf_before(t, context, &inspection.transcript)?;
            Ok(Choice::without_policy(leaf, DecidedKind::Undo))
        }
        Selector::Pick => by_person(host, inspection),
        Selector::Auto => match inspection.branches.as_slice() {
            [only] => Ok(Choice::without_policy(only.leaf_uuid.clone(), DecidedKind::OnlyLeaf)),
            several if host.person.require_terminal().is_err() => Err(several_leaves(inspection, several)),
            _ => by_person(host, inspection),
        },
    }
}

fn by_person(host: &mut Host<'_>, inspection: &Inspection) -> Result<Choice> {
    if let [only] = inspection.branches.as_slice() {
        host.note(format!("there is only one leaf, `{}`; nothing to choose", only.leaf_uuid));
        return Ok(Choice::without_policy(only.leaf_uuid.clone(), DecidedKind::OnlyLeaf));
    }
    let leaf = host.person.pick(inspection, None)?;
    Ok(Choice::without_policy(leaf, DecidedKind::Prompt))
}

fn by_policy(
    file: &PolicyFile,
    host: &mut Host<'_>,
    t: &Transcript,
    inspection: &Inspection,
    context: &Context,
    request: &Request,
) -> Result<Choice> {
    let path = file.path.display().to_string();
    let policy = policy::parse(&file.text, &path).map_err(Refusal::from)?;
    let inputs = host.policy_inputs(t, inspection, context, &request.client);
    let verdict = policy::evaluate(&policy, inspection, &inputs);
    let reference = |rule: Option<&String>, reason: Option<&String>| {
        Some(PolicyRef {
            path: path.clone(),
            digest: file.digest.clone(),
            rule: rule.cloned(),
            reason: reason.cloned(),
        })
    };
    let (leaf, decided_by) = match &verdict.outcome {
        Outcome::Leaf { leaf_uuid, rule, reason } => {
            let policy = reference(Some(rule), Some(reason));
            (leaf_uuid.clone(), DecidedBy { kind: DecidedKind::Policy, policy })
        }
        Outcome::Prompt { rule, leaves } if host.person.require_terminal().is_ok() => {
            let leaf = host.person.pick(inspection, Some(leaves))?;
            (leaf, DecidedBy { kind: DecidedKind::Prompt, policy: reference(rule.as_ref(), None) })
        }
        _ => {
            let refusal = policy::verdict_refusal(&policy, &verdict);
            return Err(refusal.expect("BUG: a verdict without a leaf is refused").into());
        }
    };
    let encode = |what: serde_json::Result<Value>| what.expect("BUG: verdicts and inputs are always JSON");
    Ok(Choice {
        leaf,
        decided_by,
        trace: encode(serde_json::to_value(&verdict)),
        inputs: encode(serde_json::to_value(&inputs)),
    })
}

fn several_leaves(inspection: &Inspection, branches: &[Branch]) -> crate::refusal::Error {
    let leaves: Vec<Value> = branches.iter().take(LISTED).map(listed).collect();
    let more = branches.len() - leaves.len();
    let mut names: Vec<String> = branches.iter().take(4).map(|b| format!("`{}`", b.leaf_uuid)).collect();
    if branches.len() > names.len() {
        names.push(format!("{} more", branches.len() - names.len()));
    }
    Refusal::new(
        Code::SeveralLeaves,
        format!(
            "the session has {} leaves ({}), and neither a policy nor a person to choose one",
            branches.len(),
            names.join(", ")
        ),
    )
    .hint("choose with `--pick`, `--leaf ID` or `--policy FILE`; `offshoot inspect` shows the leaves")
    .detail(json!({"leaves": leaves, "more": more, "sessionId": inspection.session_id}))
    .into()
}

fn listed(b: &Branch) -> Value {
    json!({"leafUuid": b.leaf_uuid, "branchPointUuid": b.branch_point_uuid, "classification": b.classification,
           "turn": b.turn, "lastMessageAt": b.last_message_at, "clientPick": b.client_pick,
           "recorded": b.recorded})
}
