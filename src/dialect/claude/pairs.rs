//! Tables over pairs of which nearly every first half has one second half.

use hashbrown::HashMap;

use crate::transcript::IdIx;

/// What is known of a pair of ids; the second one may be none.
pub(super) struct Pairs<V> {
    /// By first half: the second half that was given first, and what is known of the two.
    first: Vec<Option<(Option<IdIx>, V)>>,
    /// The others.
    more: HashMap<(IdIx, Option<IdIx>), V>,
}

impl<V: Copy> Pairs<V> {
    /// Nothing is known yet. First halves are ids of a table of this length.
    pub fn new(ids: usize) -> Self {
        Pairs { first: vec![None; ids], more: HashMap::new() }
    }

    pub fn get(&self, a: IdIx, b: Option<IdIx>) -> Option<V> {
        match self.first[a.ix()]? {
            (known, value) if known == b => Some(value),
            _ => self.more.get(&(a, b)).copied(),
        }
    }

    pub fn set(&mut self, a: IdIx, b: Option<IdIx>, value: V) {
        match &mut self.first[a.ix()] {
            Some((known, _)) if *known != b => drop(self.more.insert((a, b), value)),
            slot => *slot = Some((b, value)),
        }
    }
}

/// The pairs of a sorted list that begin with an id.
pub(super) fn ofs(sorted: &[(IdIx, IdIx)], a: IdIx) -> &[(IdIx, IdIx)] {
    let from = sorted.partition_point(|&(first, _)| first < a);
    let len = sorted[from..].partition_point(|&(first, _)| first == a);
    &sorted[from..from + len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_its_own_value() {
        let id = IdIx::new;
        let mut pairs = Pairs::new(2);
        let all = [(0, None), (0, Some(1)), (0, Some(2)), (1, Some(0)), (1, None)];
        for (value, &(a, b)) in all.iter().enumerate() {
            assert_eq!(pairs.get(id(a), b.map(id)), None);
            pairs.set(id(a), b.map(id), value);
        }
        pairs.set(id(0), Some(id(2)), 9);
        let found: Vec<_> = all.iter().map(|&(a, b)| pairs.get(id(a), b.map(id)).unwrap()).collect();
        assert_eq!(found, [0, 1, 9, 3, 4]);
    }

    #[test]
    fn a_list_by_its_first_halves() {
        let id = IdIx::new;
        let list: Vec<_> = [(0, 5), (2, 1), (2, 3), (4, 0)].map(|(a, b)| (id(a), id(b))).into();
        let lens: Vec<_> = (0..6).map(|a| ofs(&list, id(a)).len()).collect();
        assert_eq!(lens, [1, 0, 2, 0, 1, 0]);
    }
}
