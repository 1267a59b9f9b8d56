//! Which leaves were written in turns: the physical ranges of their distinct parts overlap.

/// How many other ranges each range overlaps, nesting included. Ends are inclusive and all ends are distinct places
/// unless they belong to the same range. `places` is one more than the largest.
pub(super) fn counts(ranges: &[(u32, u32)], places: usize) -> Vec<u32> {
    // How many ranges end before a place, and how many have begun by it.
    let mut ended = vec![0u32; places + 1];
    let mut begun = vec![0u32; places + 1];
    for &(from, to) in ranges {
        ended[to as usize + 1] += 1;
        begun[from as usize] += 1;
    }
    for at in 1..=places {
        ended[at] += ended[at - 1];
        begun[at] += begun[at - 1];
    }
    ranges.iter().map(|&(from, to)| begun[to as usize] - ended[from as usize] - 1).collect()
}

/// The ranges that each range overlaps, in the order of `ranges`. Linear in what is returned, but for sorting.
pub(super) fn lists(ranges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut with = vec![Vec::new(); ranges.len()];
    let mut by_start: Vec<u32> = (0..ranges.len() as u32).collect();
    by_start.sort_unstable_by_key(|&ix| ranges[ix as usize].0);
    let mut open: Vec<u32> = Vec::new();
    for ix in by_start {
        let from = ranges[ix as usize].0;
        open.retain(|&other| {
            let overlaps = ranges[other as usize].1 >= from;
            if overlaps {
                with[other as usize].push(ix);
                with[ix as usize].push(other);
            }
            overlaps
        });
        open.push(ix);
    }
    with.iter_mut().for_each(|list| list.sort_unstable());
    with
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_and_crossing_count_and_neighbours_do_not() {
        let ranges = [(0, 9), (1, 3), (4, 12), (13, 13)];
        assert_eq!(lists(&ranges), [vec![1, 2], vec![0], vec![0], vec![]]);
        assert_eq!(counts(&ranges, 14), [2, 1, 1, 0]);
    }
}
