//! From a transcript to its [`Inspection`].

use std::io;

use super::{
    Branch, ClientPick, Inspection, ListMode, Lists, RewindRef, SnapshotInfo, diagnostic, interleave,
    leaves::Leaves,
    nodes::{MISSING, NONE, Node, Nodes},
    rewind::{ChainRewinds, Rewinds, classify},
    segments::{SegIx, Segments},
    steps,
    summary::{Bodies, Summaries},
    tree::Tree,
    turn,
};
use crate::{
    dialect::{Client, Dialect, Simulated},
    parallel::{self, Stage},
    record::{RecordId, RecordKind, Turn},
    transcript::{Source, Transcript},
};

/// The most ids of one kind that an inspection lists; with more, only their numbers are given.
pub const MAX_LISTED: u64 = 100_000;

/// With fewer records it takes longer to start a thread than it saves.
const MANY_RECORDS: usize = 20_000;

/// How many leaves a thread describes at a time.
const LEAVES_A_STEP: usize = 128;

/// Each thread asks for itself what leaves share, so that many of them would do more in all than they save.
const MOST_WORKERS: usize = 4;

/// Finds all branches of a transcript, how they relate, and which one the client itself would take.
///
/// Pure (I1) and linear in the records and in what is returned. The callers fill in what depends on who asks:
/// `transcript`, `snapshot.digest`, and of the branches `recorded`, `label` and `continued_in`.
///
/// # Errors
/// Only what `source` reports.
pub fn inspect(
    t: &Transcript,
    source: &dyn Source,
    dialect: &dyn Dialect,
    client: &Client,
) -> io::Result<Inspection> {
    // Where the client groups records, what it does takes as long as the tree.
    let (simulated, tree) = if t.units.is_some() && t.records.len() >= MANY_RECORDS {
        parallel::join(|| dialect.simulate(t, source, client), || Tree::new(t))
    } else {
        (dialect.simulate(t, source, client), Tree::new(t))
    };
    let Tree { nodes, leaves, segments, .. } = &tree;
    let client_pick = client_pick(&tree, simulated?);
    let open = match &t.units {
        Some(_) => Vec::new(),
        None => turn::open_calls(nodes, segments, leaves, &mut Bodies::new(nodes, source, dialect))?,
    };
    let relations = Relations::new(nodes, leaves, segments);

    let number_of_leaves = leaves.leaves.len();
    let mut branches: Vec<Branch> = Vec::with_capacity(number_of_leaves);
    parallel::run(
        number_of_leaves.div_ceil(LEAVES_A_STEP) as u64,
        parallel::workers().min(MOST_WORKERS),
        &mut branches,
        &|| Summaries::new(nodes, segments, Bodies::new(nodes, source, dialect)),
        &|stage: Stage<'_, Vec<Branch>>, summaries| {
            let from = stage.step() as usize * LEAVES_A_STEP;
            let to = (from + LEAVES_A_STEP).min(number_of_leaves);
            let described: io::Result<Vec<Branch>> =
                (from..to).map(|number| describe(&relations, &open, number, summaries)).collect();
            stage.turn(|branches| described.map(|described| branches.extend(described)))
        },
    )?;
    for branch in &mut branches {
        branch.client_pick =
            client_pick.as_ref().is_some_and(|p| p.leaf_uuid.as_ref() == Some(&branch.leaf_uuid));
    }
    Ok(Inspection {
        schema: "offshoot.inspection/1",
        agent: dialect.agent(),
        session_id: t.session_ids.first().cloned().unwrap_or_default(),
        transcript: String::new(),
        snapshot: SnapshotInfo {
            bytes: t.bytes,
            lines: t.lines,
            records: t.records.len() as u64,
            digest: None,
            torn_tail: t.torn_bytes > 0,
        },
        client_pick,
        branches,
        diagnostics: diagnostic::all(nodes),
        lists: relations.lists,
        rewinds: relations.rewind_refs(),
    })
}

/// A branch with what its bodies say. `open`: of each leaf, whether it ends with an open call, where no units tell.
fn describe(
    relations: &Relations<'_>,
    open: &[bool],
    number: usize,
    summaries: &mut Summaries<'_>,
) -> io::Result<Branch> {
    let Relations { nodes, leaves, segments, .. } = relations;
    let t = nodes.t;
    let (leaf, terminal) = (leaves.leaves[number], leaves.terminals[number]);
    let ix = segments.of(leaf).expect("BUG: a leaf has a segment");
    let mut branch = relations.branch(number, leaf, ix);
    summaries.next_leaf();
    branch.started_at = summaries.time(chain_start(nodes, segments, ix))?.unwrap_or_default();
    branch.updated_at = summaries.time(terminal)?.unwrap_or_default();
    let message = summaries.last_message(ix)?;
    if let Some(n) = message {
        branch.last_message_at = summaries.time(n)?;
    }
    let unit = t.units.as_ref().and_then(|u| Some(u.turn[u.of[nodes.record(leaf).id.ix()]?.ix()]));
    branch.turn = match message {
        _ if unit.is_some() => unit.unwrap_or(Turn::None),
        None => Turn::None,
        Some(_) if open[number] => Turn::OpenToolCall,
        Some(n) if nodes.kind(n) == RecordKind::Assistant => Turn::Complete,
        Some(_) => Turn::AwaitingReply,
    };
    branch.first_user_text_after_branch_point = summaries.first_prompt(ix)?;
    branch.last_user_text = summaries.last_prompt(ix)?;
    branch.last_assistant_text = summaries.last_reply(ix)?;
    let body = summaries.bodies.get(nodes.first(leaf))?;
    branch.git_branch.clone_from(&body.git_branch);
    branch.cwd.clone_from(&body.cwd);
    Ok(branch)
}

/// The first record of a chain: its root, or the member of a cycle whose parent is where the walk entered.
fn chain_start(nodes: &Nodes<'_>, segments: &Segments, ix: SegIx) -> Node {
    let root = segments.get(ix).root;
    match nodes.components[nodes.component(root) as usize].cycle {
        Some(c) => {
            let members = &nodes.cycles[c as usize].members;
            members[(nodes.cycle_index(root) + members.len() - 1) % members.len()]
        }
        None => root,
    }
}

/// How the leaves relate to each other and to rewinds, without any body.
struct Relations<'a> {
    nodes: &'a Nodes<'a>,
    leaves: &'a Leaves,
    segments: &'a Segments,
    rewinds: Rewinds,
    chain_rewinds: Option<ChainRewinds<'a>>,
    interleaved: Vec<u32>,
    interleaved_with: Option<Vec<Vec<u32>>>,
    lists: Lists,
    /// Of each leaf, where they are found over units.
    branch_points: Option<Vec<Node>>,
}

impl<'a> Relations<'a> {
    fn new(nodes: &'a Nodes<'a>, leaves: &'a Leaves, segments: &'a Segments) -> Self {
        let rewinds = Rewinds::new(nodes);
        let listed = leaves.leaves.iter().map(|&l| rewinds.of(nodes.component(l)).len() as u64).sum();
        let ranges: Vec<(u32, u32)> = leaves.leaves.iter().map(|&l| distinct_range(segments, l)).collect();
        let interleaved = interleave::counts(&ranges);
        let lists = Lists {
            rewinds: mode(listed),
            interleaved: mode(interleaved.iter().map(|&n| u64::from(n)).sum()),
        };
        Relations {
            nodes,
            leaves,
            segments,
            rewinds,
            chain_rewinds: (lists.rewinds == ListMode::Full).then(|| ChainRewinds::new(nodes, segments)),
            interleaved,
            interleaved_with: (lists.interleaved == ListMode::Full).then(|| interleave::lists(&ranges)),
            lists,
            branch_points: nodes.t.units.as_ref().map(|u| steps::branch_points(nodes, u, leaves)),
        }
    }

    /// A branch without what stands in bodies.
    fn branch(&self, number: usize, leaf: Node, ix: SegIx) -> Branch {
        let Relations { nodes, segments, .. } = self;
        let seg = segments.get(ix);
        let component = nodes.component(leaf);
        let distinct =
            segments.distinct(ix).fold(super::segments::Sums::default(), |sum, s| sum.plus(&segments.own(s)));
        // The walk up meets a node that another leaf shares where the distinct part ends; a cycle that nobody else
        // hangs off is part of it.
        let shared = seg.parent != NONE && segments.get(seg.parent).leaves > 1;
        let contains = seg.total.rewinds;
        let siblings = self.rewinds.of(component).len() as u32 - contains;
        let (contains_list, sibling_list) = self.rewind_lists(component, ix).unzip();
        let mut chain_diagnostics = Vec::new();
        if nodes.raw_parent(seg.root) == MISSING {
            chain_diagnostics.push("missing-parent");
        }
        if seg.conflict {
            chain_diagnostics.push("conflicting-parent");
        }
        if nodes.on_cycle(seg.root) {
            chain_diagnostics.push("parent-cycle");
        }
        Branch {
            leaf_uuid: nodes.id(leaf),
            branch_point_uuid: match &self.branch_points {
                Some(points) => Some(points[number]).filter(|&n| n != NONE),
                None => shared.then_some(seg.attach),
            }
            .map(|n| nodes.id(n)),
            classification: classify(contains, siblings),
            contains_rewind_uuids: contains_list,
            sibling_rewind_uuids: sibling_list,
            first_user_text_after_branch_point: None,
            last_user_text: None,
            last_assistant_text: None,
            record_counts: seg.total.counts(),
            started_at: String::new(),
            updated_at: String::new(),
            last_message_at: None,
            distinct_counts: distinct.counts(),
            turn: Turn::None,
            component_uuid: nodes.id(nodes.components[component as usize].first),
            contains_rewind_count: u64::from(contains),
            sibling_rewind_count: u64::from(siblings),
            interleaved_count: u64::from(self.interleaved[number]),
            interleaved_with: self.interleaved_with.as_ref().map(|lists| {
                lists[number].iter().map(|&l| nodes.id(self.leaves.leaves[l as usize])).collect()
            }),
            client_pick: false,
            recorded: false,
            label: None,
            continued_in: None,
            git_branch: None,
            cwd: None,
            chain_diagnostics,
            chain_len: u64::from(seg.total.records),
            position: u64::from(nodes.first(leaf)),
        }
    }

    /// Rewinds on the chain, root first, and the others of the component.
    fn rewind_lists(&self, component: u32, ix: SegIx) -> Option<(Vec<RecordId>, Vec<RecordId>)> {
        let on_chain = self.chain_rewinds.as_ref()?.of(ix);
        let mut sorted = on_chain.clone();
        sorted.sort_unstable();
        let mut sorted = sorted.into_iter().peekable();
        let siblings =
            self.rewinds.of(component).filter(|&n| sorted.next_if_eq(&n).is_none()).map(|n| self.nodes.id(n));
        let siblings = siblings.collect();
        Some((on_chain.into_iter().map(|n| self.nodes.id(n)).collect(), siblings))
    }

    /// All rewinds with their components, where the branches have counts only.
    fn rewind_refs(&self) -> Option<Vec<RewindRef>> {
        (self.lists.rewinds == ListMode::Counts).then(|| {
            let reference = |(component, n): (u32, Node)| RewindRef {
                uuid: self.nodes.id(n),
                component_uuid: self.nodes.id(self.nodes.components[component as usize].first),
            };
            self.rewinds.all().map(reference).collect()
        })
    }
}

fn mode(ids: u64) -> ListMode {
    if ids <= MAX_LISTED { ListMode::Full } else { ListMode::Counts }
}

fn distinct_range(segments: &Segments, leaf: Node) -> (u32, u32) {
    let ix = segments.of(leaf).expect("BUG: a leaf has a segment");
    segments.distinct(ix).fold((u32::MAX, 0), |(from, to), s| {
        let range = segments.get(s).range;
        (from.min(range.0), to.max(range.1))
    })
}

fn client_pick(tree: &Tree<'_>, simulated: Simulated) -> Option<ClientPick> {
    let Simulated::Resumes(r) = simulated else { return None };
    let t = tree.nodes.t;
    // A gap at a parent that is in the file hides a part of the leaf's chain from the client.
    let hidden = r.gap.is_some_and(|g| t.first(g.missing).is_some());
    // Below the summary of a compaction that keeps messages, the client goes on at the last of these, which is no leaf.
    let told = || {
        r.history
            .iter()
            .rev()
            .find_map(|&id| tree.leaf_of(id))
            .filter(|_| t.rounds.as_ref().is_some_and(|rounds| !rounds.kept.is_empty()))
    };
    let leaf = tree.leaf_of(r.tail).or_else(told);
    Some(ClientPick {
        tail_uuid: t.id(r.tail),
        leaf_uuid: leaf.filter(|_| !hidden).map(|id| t.id(id)),
        rule: r.rule,
        client_version: r.version,
        records: r.history.len() as u64,
        gap: r.gap.map(|gap| gap.ids(t)),
        pinned: r.pinned,
        sdk_leaf_uuid: r
            .unpinned
            .and_then(|id| tree.leaf_of(id))
            .filter(|&id| Some(id) != leaf)
            .map(|id| t.id(id)),
    })
}
