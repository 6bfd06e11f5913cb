//! What is drawn from a seed.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A source of choices; the same seed gives the same program.
pub struct Draw {
    rng: ChaCha8Rng,
}

impl Draw {
    /// From a seed.
    pub fn new(seed: u64) -> Draw {
        Draw { rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// An integer from `low` to `high`, both included.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        self.rng.random_range(low..=high.max(low))
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())].clone()
    }

    /// True so often of a hundred times.
    pub fn percent(&mut self, chance: u32) -> bool {
        self.rng.random_range(0..100) < chance
    }

    /// An extent around a tile: a multiple of it, one off, a prime, or 1.
    pub fn extent(&mut self, tile: i64, most: i64) -> i64 {
        let multiple = tile * self.range(1, (most / tile).max(1));
        let chosen = match self.range(0, 6) {
            0 => multiple,
            1 => multiple - 1,
            2 => multiple + 1,
            3 => self.pick(&[2, 3, 5, 7, 13, 31, 61, 67, 97, 101, 127, 131, 193, 257]),
            4 => self.range(1, tile),
            5 => 1,
            _ => self.range(1, most),
        };
        chosen.clamp(1, most)
    }

    /// Any bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.random()
    }
}
