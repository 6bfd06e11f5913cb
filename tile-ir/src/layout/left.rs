//! A sum as the left operand of another product: it never leaves the registers.
//!
//! A sum of f32, converted to 16 bit element by element, is word by word what `mma.sync` and `wgmma` take for their left
//! operand: two atoms of 16 x 8 side by side are one step of 16 along K. With `g = lane / 4` and `t = lane % 4`, an atom
//! has rows `g` and `g + 8`, columns `2t` and `2t + 1`; an operand has these two rows, first of columns `2t`, `2t + 1`, then
//! of those 8 further on (PTX ISA, "Matrix Fragments for mma.m16n8k16", "Register Fragments for wgmma.mma_async").
//!
//! Where operands are exchanged ([`Fragment::mma_exchanged`]), the left operand is the instruction's second one, `K x 8`: an atom of 8 x 16 is one
//! step along K. A lane has rows `2t` and `2t + 1` of column `g`, and must have row `g` of columns `2t` and `2t + 1`: each of the
//! two words is an 8 x 8 matrix to be transposed across the warp (`movmatrix`).

use super::{Fragment, Index, MmaInput};

impl Fragment {
    /// Words of a left operand that one step along K has, in 16 rows (of a warp) or 64 (of a warpgroup).
    pub const LEFT_WORDS: u32 = 4;

    /// Words of a step along K where operands are exchanged, in 8 rows.
    pub const EXCHANGED_WORDS: u32 = 2;

    /// Of an accumulator as wide as K: the first of the two elements that are word `word` (of [`Fragment::LEFT_WORDS`], or of
    /// [`Fragment::EXCHANGED_WORDS`]) of step `step` along K, in the thread's atom row `block`, counted from the top: 16 rows of a warp, 64 of a
    /// warpgroup, 8 of a warp with exchanged operands. The two elements are neighbours in a row, with exchanged operands in a column.
    pub fn left_word<I: Index>(&self, block: I, step: u32, word: u32) -> I {
        let within = match self.is_exchanged() {
            // Atom by atom, two elements of the upper row, two of the lower.
            false => (2 * step + word / 2) * 4 + word % 2 * 2,
            true => step * 4 + word * 2,
        };
        block.times(self.across() * 4).plus(within)
    }

    /// Steps along K that an accumulator has as a left operand of 16-bit elements.
    pub fn left_steps(&self) -> u32 {
        let atom = if self.is_exchanged() { 16 } else { 8 };
        self.across() * atom / MmaInput::Half.k()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::WarpGrid;
    use crate::sim::hw::{matrix::movmatrix, mma, wgmma};

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

    /// Packed and transposed, a sum of exchanged operands is the second operand of the next product: every lane and half, by the
    /// simulator's own formulas.
    #[test]
    fn a_sum_of_exchanged_operands_is_a_left_operand() {
        for depth in (16..=128).step_by(16) {
            for (warps, blocks) in [(1, 1), (1, 3), (4, 1), (2, 2)] {
                let rows = 8 * warps * blocks;
                let sum = Fragment::mma_exchanged(rows, depth, WarpGrid { rows: warps, cols: 1 }).unwrap();
                assert_eq!(sum.left_steps(), depth / 16);
                let mut all = Vec::new();
                for (warp, block) in (0..warps).flat_map(|warp| (0..blocks).map(move |block| (warp, block))) {
                    all.extend((0..depth / 16 * 2).map(|n| (warp, block, n / 2, n % 2)));
                }
                for (warp, block, step, word) in all {
                    let number = |lane: usize, half: u32| {
                        let register = sum.left_word(block, step, word) + half;
                        let (row, col) = sum.position(warp * 32 + lane as u32, register);
                        row * depth + col
                    };
                    let words = std::array::from_fn(|lane| number(lane, 0) | number(lane, 1) << 16);
                    for (lane, found) in movmatrix(words).into_iter().enumerate() {
                        for half in 0..2 {
                            let (k, n) = mma::b_position(mma::Input::F16, lane, word as usize * 2 + half);
                            let row = (warp * blocks + block) * 8 + n as u32;
                            assert_eq!(found >> (16 * half) & 0xffff, row * depth + step * 16 + k as u32);
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
