//! Numbers from 0 of which an absent one takes no more room.

/// Makes a type of them, which are given out in order.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(std::num::NonZero<u32>);

        impl $name {
            /// The one with this number.
            ///
            /// # Panics
            /// For the highest `u32`, which is never given.
            pub fn new(number: u32) -> $name {
                let number = number.checked_add(1).and_then(std::num::NonZero::new);
                number.map($name).expect(concat!("BUG: more than 2^32 - 1 ", $what))
            }

            /// Its number.
            pub fn number(self) -> u32 {
                self.0.get() - 1
            }

            /// As an index.
            pub fn ix(self) -> usize {
                self.number() as usize
            }
        }
    };
}

pub(super) use number;
