//! A sum as the left operand of another product: it never leaves the registers.
//!
//! A sum of f32, converted to 16 bit element by element, is word by word what `mma.sync` and `wgmma` take for their left
//! operand: two atoms of 16 x 8 side by side are one step of 16 along K. With `g = lane / 4` and `t = lane % 4`, an atom
//! has rows `g` and `g + 8`, columns `2t` and `2t + 1`; an operand has these two rows, first of columns `2t`, `2t + 1`, then
//! of those 8 further on (PTX ISA, "Matrix Fragments for mma.m16n8k16", "Register Fragments for wgmma.mma_async").

use super::{Fragment, Index, MmaInput};

impl Fragment {
    /// Words of a left operand that one step along K has, in 16 rows (of a warp) or 64 (of a warpgroup).
    pub const LEFT_WORDS: u32 = 4;

    /// Of an accumulator as wide as K: the first of the two elements that are word `word` (of [`Fragment::LEFT_WORDS`]) of
    /// step `step` along K, in the thread's atom row `block`, counted from the top: 16 rows of a warp, 64 of a warpgroup.
    pub fn left_word<I: Index>(&self, block: I, step: u32, word: u32) -> I {
        // Atom by atom, two elements of the upper row, two of the lower.
        let within = (2 * step + word / 2) * 4 + word % 2 * 2;
        block.times(self.across() * 4).plus(within)
    }

    /// Steps along K that an accumulator has as a left operand of 16-bit elements.
    pub fn left_steps(&self) -> u32 {
        self.across() * 8 / MmaInput::Half.k()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::WarpGrid;
    use crate::sim::hw::{mma, wgmma};

    /// Every thread, step, word and half, of every depth: it is where the fragment of the operand says, and where the
    /// simulator's own formula does.
    #[test]
    fn a_sum_is_a_left_operand_of_wgmma() {
        for depth in (16..=256).step_by(16) {
            for (warpgroups, blocks) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)] {
                let rows = 64 * warpgroups * blocks;
                let sum = Fragment::wgmma_accumulator(rows, depth, WarpGrid { rows: warpgroups, cols: 1 }).unwrap();
                let operand = Fragment::wgmma_a(MmaInput::Half, 64 * blocks, depth).unwrap();
                assert_eq!(sum.left_steps(), depth / 16);
                let mut seen = vec![false; (rows * depth) as usize];
                for thread in 0..128 * warpgroups {
                    for block in 0..blocks {
                        for (step, word, half) in steps(depth) {
                            let register = sum.left_word(block, step, word) + half;
                            let (row, col) = sum.position(thread, register);
                            let top = thread / 128 * 64 * blocks;
                            let number = (block * (depth / 16) + step) * 8 + word * 2 + half;
                            let (down, right) = operand.position(thread % 128, number);
                            assert_eq!((row, col), (top + down, right), "{rows} x {depth}: thread {thread}");
                            let (down, right) = wgmma::a_position(
                                mma::Input::F16,
                                (thread % 128) as usize,
                                word as usize,
                                half as usize,
                            );
                            let first = (top + 64 * block, 16 * step);
                            assert_eq!((row, col), (first.0 + down as u32, first.1 + right as u32));
                            assert!(!std::mem::replace(&mut seen[(row * depth + col) as usize], true));
                        }
                    }
                }
                assert!(seen.into_iter().all(|s| s), "{rows} x {depth}");
            }
        }
    }

    #[test]
    fn a_sum_is_a_left_operand_of_mma_sync() {
        for depth in (16..=128).step_by(16) {
            for (warps, blocks) in [(1, 1), (1, 4), (4, 1), (2, 3)] {
                let rows = 16 * warps * blocks;
                let sum = Fragment::mma_accumulator(rows, depth, WarpGrid { rows: warps, cols: 1 }).unwrap();
                let operand = Fragment::mma_a(MmaInput::Half, 16 * blocks, depth).unwrap();
                for thread in 0..32 * warps {
                    for block in 0..blocks {
                        for (step, word, half) in steps(depth) {
                            let at = sum.position(thread, sum.left_word(block, step, word) + half);
                            let number = (block * (depth / 16) + step) * 8 + word * 2 + half;
                            let (down, right) = operand.position(thread % 32, number);
                            assert_eq!(at, (thread / 32 * 16 * blocks + down, right), "{rows} x {depth}");
                        }
                    }
                }
            }
        }
    }

    fn steps(depth: u32) -> impl Iterator<Item = (u32, u32, u32)> {
        (0..depth / 16).flat_map(|step| (0..4).flat_map(move |word| (0..2).map(move |half| (step, word, half))))
    }
}
