//! Tables over pairs of which nearly every first half has one second half.

use std::cell::Cell;

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

/// Sorted, each once.
pub(super) fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

/// A sorted list of pairs. Mostly the ids asked for come in its order.
pub(super) struct Sorted {
    pairs: Vec<(IdIx, IdIx)>,
    /// Behind the pairs that were found last.
    behind: Cell<usize>,
}

impl Sorted {
    pub fn new(pairs: Vec<(IdIx, IdIx)>) -> Self {
        Sorted { pairs: sorted(pairs), behind: Cell::new(0) }
    }

    /// The pairs that begin with an id.
    pub fn of(&self, a: IdIx) -> &[(IdIx, IdIx)] {
        let (last, next) = (self.behind.get().checked_sub(1), self.pairs.get(self.behind.get()));
        let is_next =
            next.is_some_and(|&(first, _)| first == a) && last.is_none_or(|at| self.pairs[at].0 < a);
        let from = match is_next {
            true => self.behind.get(),
            false => self.pairs.partition_point(|&(first, _)| first < a),
        };
        let rest = &self.pairs[from..];
        // Few have more than one, and of those that have many not each is stepped on.
        let is_more = rest.get(1).is_some_and(|&(first, _)| first == a);
        let len = match is_more {
            true => rest.partition_point(|&(first, _)| first == a),
            false => usize::from(rest.first().is_some_and(|&(first, _)| first == a)),
        };
        self.behind.set(from + len);
        &self.pairs[from..from + len]
    }
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
        let list = Sorted::new([(4, 0), (2, 3), (0, 5), (2, 1), (2, 3)].map(|(a, b)| (id(a), id(b))).into());
        let len = |a| list.of(id(a)).len();
        // From each to each: what was asked for before changes nothing.
        for first in 0..6 {
            for second in 0..6 {
                let lens = [1, 0, 2, 0, 1, 0];
                assert_eq!((len(first), len(second)), (lens[first as usize], lens[second as usize]));
            }
        }
        assert_eq!(list.of(id(2)), [(id(2), id(1)), (id(2), id(3))]);
    }
}
