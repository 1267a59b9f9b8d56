//! The log of a child of a Reasonix session: held to children that the client made.

use std::fs;

use offshoot::dialect::reasonix::{
    Trouble,
    child::{self, ChildSpec},
    content::NoContents,
};
use sha2::{Digest, Sha256};

use crate::{
    reasonix_made::{commits, hex, records, turns},
    support::fixture,
};

fn case(session: &str) -> Vec<u8> {
    fs::read(fixture(&format!("cases/reasonix/sessions-v4/{session}/events.frames"))).unwrap()
}

fn child_of(bytes: &[u8], spec: &ChildSpec<'_>) -> Result<Vec<u8>, Trouble> {
    let mut out = Vec::new();
    let log = child::write(&bytes, &NoContents, spec, &mut out)?;
    assert_eq!(log.bytes, out.len() as u64);
    assert_eq!(log.sha256, hex(&Sha256::digest(&out)));
    Ok(out)
}

#[test]
fn the_records_of_a_child_are_the_clients_byte_for_byte() {
    let parent = case("mini-parent");
    for child in ["mini-child", "mini-child-rawblock"] {
        let made = child_of(&parent, &ChildSpec { parent: "mini-parent", child, through: 4 }).unwrap();
        assert_eq!(records(&made), records(&case(child)), "{child}");
        assert_eq!(turns(&made, &NoContents).unwrap().turns().len(), 1);
    }
    let made = child_of(&parent, &ChildSpec { parent: "mini-parent", child: "c", through: 8 }).unwrap();
    assert_eq!(turns(&made, &NoContents).unwrap().turns().len(), 2);
    assert!(made.len() < parent.len(), "a child is about as large as what it repeats");
}

#[test]
fn a_child_of_a_child_repeats_the_same_events() {
    let spec = |parent, child| ChildSpec { parent, child, through: 8 };
    let child = child_of(&case("mini-parent"), &spec("mini-parent", "c1")).unwrap();
    let grandchild = child_of(&child, &spec("c1", "c2")).unwrap();
    let events =
        |bytes: &[u8]| records(bytes).into_iter().filter(|r| r.contains("batch/event")).collect::<Vec<_>>();
    assert_eq!(events(&child), events(&grandchild));
    let (all, _) = commits(&grandchild, &NoContents).unwrap();
    assert!(all.iter().all(|c| c.begin.operation_id.starts_with("inherit:c1:")));
}

#[test]
fn a_cut_inside_of_a_commit_is_refused() {
    for through in [1, 3, 5, 11] {
        let spec = ChildSpec { parent: "mini-parent", child: "c", through };
        assert!(matches!(child_of(&case("mini-parent"), &spec), Err(Trouble::Damaged { .. })), "{through}");
    }
}
