//! Pseudo-random numbers for inputs and corpora.

/// A generator of pseudo-random numbers, which are the same in every run.
pub struct Random(u64);

impl Random {
    /// Starts a sequence from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number, which is less than `end`.
    pub fn below(&mut self, end: usize) -> usize {
        // The constants are those of Knuth's MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}
