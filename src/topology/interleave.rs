//! Which leaves were written in turns: the physical ranges of their distinct parts overlap.

/// How many other ranges each range overlaps, nesting included. Ends are inclusive.
pub(super) fn counts(ranges: &[(u32, u32)]) -> Vec<u32> {
    let sorted = |end: fn(&(u32, u32)) -> u32| {
        let mut ends: Vec<u32> = ranges.iter().map(end).collect();
        ends.sort_unstable();
        ends
    };
    let (starts, ends) = (sorted(|r| r.0), sorted(|r| r.1));
    let count = |&(from, to): &(u32, u32)| {
        let begun = starts.partition_point(|&start| start <= to);
        let ended = ends.partition_point(|&end| end < from);
        (begun - ended - 1) as u32
    };
    ranges.iter().map(count).collect()
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
        assert_eq!(counts(&ranges), [2, 1, 1, 0]);
    }
}
