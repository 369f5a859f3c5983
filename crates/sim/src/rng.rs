//! Random numbers from a seed: splitmix64, so that a seed means the same on every machine and for ever.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of a list.
    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() { None } else { list.get(self.below(list.len() as u64) as usize) }
    }
}

/// Mixes values into one number: for decisions that must not depend on the order of draws.
pub(crate) fn mix(values: &[u64]) -> u64 {
    values
        .iter()
        .fold(0x5EED, |state, value| Rng::new(state ^ value.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next())
}
