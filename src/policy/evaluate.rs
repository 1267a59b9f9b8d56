//! A policy applied to an inspection. Deterministic, and linear in leaves times rules.

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use hashbrown::HashSet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    duration,
    rule::{BranchPattern, Fallback, Filter, Margin, Order, Policy, Rule, Tie, When},
    trace::{FilterTrace, Listed, Ranked, RuleResult, RuleTrace},
    verdict::{Outcome, Verdict},
};
use crate::{
    record::{Agent, RecordId},
    topology::{Branch, Counts, Inspection},
};

/// How many leaves a list of the trace names at most.
const LISTED: usize = 50;
/// How many leaves a ranking names at most.
const RANKED: usize = 10;

/// Everything that evaluation reads beside the inspection. It is recorded with the verdict, so that the same
/// policy on the same bytes gives the same verdict whenever it is asked again.
///
/// `recorded` and `labels` are read from here and never from the branches, which the caller fills in for
/// show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inputs {
    /// When.
    pub now: Timestamp,
    /// Whose transcript.
    pub agent: Agent,
    /// Its session.
    pub session_id: String,
    /// The project's folder.
    pub cwd: Option<String>,
    /// The project's current git branch.
    pub git_branch: Option<String>,
    /// The leaf that the last completed selection leads to.
    pub recorded: Option<RecordId>,
    /// The person's names for branches, by leaf.
    pub labels: BTreeMap<RecordId, String>,
    /// Which client was simulated for the client's own pick.
    pub client_version: Option<String>,
}

/// Judges all leaves of an inspection. Lists in the trace name at most 50 leaves.
pub fn evaluate(policy: &Policy, inspection: &Inspection, inputs: &Inputs) -> Verdict {
    evaluate_listing(policy, inspection, inputs, LISTED)
}

/// As [`evaluate`], with lists of at most `listed` leaves in the trace; the outcome is the same.
pub fn evaluate_listing(policy: &Policy, inspection: &Inspection, inputs: &Inputs, listed: usize) -> Verdict {
    let judge = Judge {
        branches: &inspection.branches,
        times: inspection.branches.iter().map(last_message).collect(),
        inputs,
        listed,
    };
    let mut trace = Vec::with_capacity(policy.rules.len());
    let mut outcome = None;
    let mut last_tie = None;
    for rule in &policy.rules {
        if outcome.is_some() {
            trace.push(RuleTrace::new(&rule.name, &rule.reason, RuleResult::NotReached));
            continue;
        }
        let (rule_trace, end) = judge.apply(rule);
        trace.push(rule_trace);
        match end {
            End::Nothing => {}
            End::Chosen(at) => {
                outcome = Some(Outcome::Leaf {
                    leaf_uuid: judge.id(at),
                    rule: rule.name.clone(),
                    reason: rule.reason.clone(),
                });
            }
            End::Tie { tied, kept } => match rule.tie {
                Tie::Refuse => {
                    outcome = Some(Outcome::Ambiguous {
                        rule: rule.name.clone(),
                        leaves: judge.list(&tied, LISTED),
                    });
                }
                Tie::Prompt => {
                    outcome =
                        Some(Outcome::Prompt { rule: Some(rule.name.clone()), leaves: judge.ids(&kept) });
                }
                Tie::Next => last_tie = Some((rule.name.clone(), judge.list(&tied, LISTED))),
            },
        }
    }
    let outcome = outcome.unwrap_or_else(|| match (policy.fallback, last_tie) {
        (Fallback::Prompt, _) => {
            Outcome::Prompt { rule: None, leaves: judge.ids(&(0..judge.branches.len()).collect::<Vec<_>>()) }
        }
        (Fallback::Refuse, None) => Outcome::NoMatch,
        (Fallback::Refuse, Some((rule, leaves))) => Outcome::Ambiguous { rule, leaves },
    });
    Verdict { outcome, trace }
}

/// The time of a branch's last message; none where it has none or where it cannot be read.
fn last_message(branch: &Branch) -> Option<Timestamp> {
    branch.last_message_at.as_deref()?.parse().ok()
}

/// How a rule ended. Leaves are positions in the inspection.
enum End {
    Nothing,
    Chosen(usize),
    Tie { tied: Vec<usize>, kept: Vec<usize> },
}

struct Judge<'a> {
    branches: &'a [Branch],
    times: Vec<Option<Timestamp>>,
    inputs: &'a Inputs,
    listed: usize,
}

impl Judge<'_> {
    fn apply(&self, rule: &Rule) -> (RuleTrace, End) {
        let mut trace = RuleTrace::new(&rule.name, &rule.reason, RuleResult::NotApplied);
        if let Some(why) = self.why_not(&rule.when) {
            trace.not_applied = Some(why);
            return (trace, End::Nothing);
        }
        let mut kept: Vec<usize> = (0..self.branches.len()).collect();
        for filter in &rule.keep {
            let test = self.test(filter);
            let (holds, removed): (Vec<_>, Vec<_>) = kept.into_iter().partition(|&at| test(at));
            trace.filters.push(FilterTrace {
                filter: filter.name().to_owned(),
                removed: self.list(&removed, self.listed),
            });
            kept = holds;
        }
        trace.kept = Some(self.list(&kept, self.listed));
        let end = match kept[..] {
            [] => {
                trace.result = RuleResult::NoneKept;
                End::Nothing
            }
            [one] => End::Chosen(one),
            _ => self.decide(rule, kept, &mut trace),
        };
        match &end {
            End::Nothing => {}
            End::Chosen(_) => trace.result = RuleResult::Chosen,
            End::Tie { tied, .. } => {
                trace.result = RuleResult::Tie;
                trace.tied = Some(self.list(tied, self.listed));
                trace.tie = Some(rule.tie);
            }
        }
        (trace, end)
    }

    /// Which condition does not hold, in words.
    fn why_not(&self, when: &When) -> Option<String> {
        let leaves = self.branches.len() as u64;
        let count = if leaves == 1 { "1 leaf is".to_owned() } else { format!("{leaves} leaves are") };
        let inputs = self.inputs;
        if !when.agent.is_empty() && !when.agent.iter().any(|a| a == inputs.agent.name()) {
            return Some(format!("the agent is {}", inputs.agent));
        }
        if let Some(min) = when.min_leaves.filter(|min| leaves < *min) {
            return Some(format!("{count} fewer than `min_leaves` = {min}"));
        }
        if let Some(max) = when.max_leaves.filter(|max| leaves > *max) {
            return Some(format!("{count} more than `max_leaves` = {max}"));
        }
        if !when.session.is_empty() && !when.session.iter().any(|g| g.matches(&inputs.session_id)) {
            return Some("the session matches no glob of `session`".to_owned());
        }
        if !when.cwd.is_empty() {
            let Some(cwd) = &inputs.cwd else { return Some("the project's folder is not known".to_owned()) };
            if !when.cwd.iter().any(|g| g.matches(cwd)) {
                return Some("the project's folder matches no glob of `cwd`".to_owned());
            }
        }
        None
    }

    /// A filter as a test of one leaf.
    fn test<'s>(&'s self, filter: &'s Filter) -> Box<dyn Fn(usize) -> bool + 's> {
        let branch = |at: usize| &self.branches[at];
        match filter {
            Filter::Recorded(want) => {
                Box::new(move |at| (self.inputs.recorded.as_ref() == Some(&branch(at).leaf_uuid)) == *want)
            }
            Filter::ClientPick(want) => Box::new(move |at| branch(at).client_pick == *want),
            Filter::Classification(any) => Box::new(move |at| any.contains(&branch(at).classification)),
            Filter::Turn(any) => Box::new(move |at| any.contains(&branch(at).turn)),
            Filter::MaxAge(max) => Box::new(move |at| self.age(at).is_some_and(|age| age <= *max)),
            Filter::MinAge(min) => Box::new(move |at| self.age(at).is_some_and(|age| age >= *min)),
            Filter::MinUser(min) => Box::new(move |at| branch(at).record_counts.user >= *min),
            Filter::MinMessages(min) => Box::new(move |at| messages(&branch(at).record_counts) >= *min),
            Filter::DistinctMessages(min) => {
                Box::new(move |at| messages(&branch(at).distinct_counts) >= *min)
            }
            Filter::Interleaved(want) => Box::new(move |at| (branch(at).interleaved_count > 0) == *want),
            Filter::Diagnostics(kinds) => Box::new(move |at| {
                !branch(at).chain_diagnostics.iter().any(|found| kinds.iter().any(|k| k == found))
            }),
            Filter::GitBranch(any) => Box::new(move |at| {
                branch(at).git_branch.as_deref().is_some_and(|name| {
                    any.iter().any(|pattern| match pattern {
                        BranchPattern::Current => self.inputs.git_branch.as_deref() == Some(name),
                        BranchPattern::Glob(glob) => glob.matches(name),
                    })
                })
            }),
            Filter::Label(any) => Box::new(move |at| {
                self.inputs.labels.get(&branch(at).leaf_uuid).is_some_and(|l| any.contains(l))
            }),
            Filter::Contains(any) => Box::new(move |at| {
                let b = branch(at);
                [&b.first_user_text_after_branch_point, &b.last_user_text, &b.last_assistant_text]
                    .into_iter()
                    .flatten()
                    .map(|text| text.to_lowercase())
                    .any(|text| any.iter().any(|wanted| text.contains(wanted.as_str())))
            }),
            Filter::Leaf(any) => {
                let any: HashSet<&RecordId> = any.iter().collect();
                Box::new(move |at| any.contains(&branch(at).leaf_uuid))
            }
        }
    }

    /// How old the last message is; a time that lies ahead counts as now.
    fn age(&self, at: usize) -> Option<Duration> {
        let elapsed = self.inputs.now.duration_since(self.times[at]?);
        Some(Duration::try_from(elapsed).unwrap_or(Duration::ZERO))
    }

    /// Several leaves were kept: what the order says.
    fn decide(&self, rule: &Rule, kept: Vec<usize>, trace: &mut RuleTrace) -> End {
        trace.order = Some(rule.order);
        trace.margin = rule.margin.map(|margin| match margin {
            Margin::Time(d) => duration::format(d),
            Margin::Count(n) => n.to_string(),
        });
        match rule.order {
            Order::Only => return End::Tie { tied: kept.clone(), kept },
            Order::ClientPick => {
                return match kept.iter().find(|&&at| self.branches[at].client_pick) {
                    Some(&at) => End::Chosen(at),
                    None => End::Tie { tied: kept.clone(), kept },
                };
            }
            _ => {}
        }
        let mut ranked: Vec<(Option<i128>, usize)> =
            kept.iter().map(|&at| (self.score(rule.order, at), at)).collect();
        let best_first = |a: &(Option<i128>, usize), b: &(Option<i128>, usize)| match b.0.cmp(&a.0) {
            Ordering::Equal => a.1.cmp(&b.1),
            other => other,
        };
        if ranked.len() > RANKED {
            ranked.select_nth_unstable_by(RANKED - 1, best_first);
        }
        let top = ranked.len().min(RANKED);
        ranked[..top].sort_unstable_by(best_first);
        trace.ranking = ranked[..top]
            .iter()
            .map(|&(score, at)| Ranked { leaf_uuid: self.id(at), value: self.value(rule.order, at, score) })
            .collect();
        let (first, winner) = ranked[0];
        let margin = match rule.margin {
            None => 0,
            Some(Margin::Time(d)) => i128::try_from(d.as_nanos()).unwrap_or(i128::MAX),
            Some(Margin::Count(n)) => i128::from(n),
        };
        if let (Some(first), Some(second)) = (first, ranked[1].0) {
            trace.lead = Some(lead(rule.order, first - second));
        }
        // A leaf without a value trails one that has one by any margin; two without are equal.
        let level = |score: Option<i128>| match (first, score) {
            (Some(first), Some(score)) => first == score || first - score < margin,
            (first, score) => first == score,
        };
        let tied: Vec<usize> = kept.iter().copied().filter(|&at| level(self.score(rule.order, at))).collect();
        if tied.len() == 1 { End::Chosen(winner) } else { End::Tie { tied, kept } }
    }

    /// What an order compares; greater is better, none is worst.
    fn score(&self, order: Order, at: usize) -> Option<i128> {
        let branch = &self.branches[at];
        match order {
            Order::Newest => self.times[at].map(|t| t.as_nanosecond()),
            Order::Oldest => self.times[at].map(|t| -t.as_nanosecond()),
            Order::MostMessages => Some(messages(&branch.record_counts).into()),
            Order::Deepest => Some(branch.chain_len.into()),
            Order::FileLast => Some(branch.position.into()),
            Order::Only | Order::ClientPick => None,
        }
    }

    fn value(&self, order: Order, at: usize, score: Option<i128>) -> Option<String> {
        match order {
            Order::Newest | Order::Oldest => self.times[at].map(|t| t.to_string()),
            _ => score.map(|n| n.to_string()),
        }
    }

    fn id(&self, at: usize) -> RecordId {
        self.branches[at].leaf_uuid.clone()
    }

    fn ids(&self, leaves: &[usize]) -> Vec<RecordId> {
        leaves.iter().map(|&at| self.id(at)).collect()
    }

    fn list(&self, leaves: &[usize], most: usize) -> Listed {
        Listed { count: leaves.len() as u64, leaves: self.ids(&leaves[..leaves.len().min(most)]) }
    }
}

fn messages(counts: &Counts) -> u64 {
    counts.user.saturating_add(counts.assistant)
}

fn lead(order: Order, difference: i128) -> String {
    match order {
        Order::Newest | Order::Oldest => {
            let nanos = u64::try_from(difference).unwrap_or(u64::MAX);
            duration::format(Duration::from_nanos(nanos))
        }
        _ => difference.to_string(),
    }
}
