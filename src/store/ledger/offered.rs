//! The leaves that were offered, kept once a ledger.

use crate::store::ledger::{
    Read,
    entry::{Offered, OfferedLeaf},
    hash,
};

/// BLAKE3 (bare hex) of the JSON array of leaves, as we write it.
pub(super) fn digest(leaves: &[OfferedLeaf]) -> String {
    hash::hex(&serde_json::to_vec(leaves).expect("BUG: leaves are always JSON"))
}

/// What a new entry says of the leaves: all of them, or their digest alone if the ledger has them already.
pub fn offered_for(read: &Read, leaves: Vec<OfferedLeaf>) -> Offered {
    let digest = digest(&leaves);
    let known = full(read, &digest).is_some();
    Offered { digest, leaves: (!known).then_some(leaves) }
}

/// The leaves that an entry was made from. `None` if the ledger does not have them, or has others under that
/// digest.
pub fn resolve_offered(read: &Read, offered: &Offered) -> Option<Vec<OfferedLeaf>> {
    let leaves = offered.leaves.as_deref().or_else(|| full(read, &offered.digest))?;
    (digest(leaves) == offered.digest).then(|| leaves.to_vec())
}

fn full<'a>(read: &'a Read, digest: &str) -> Option<&'a [OfferedLeaf]> {
    let all = read.entries.iter().filter_map(|e| e.body.offered.as_ref());
    all.filter(|o| o.digest == digest).find_map(|o| o.leaves.as_deref())
}
