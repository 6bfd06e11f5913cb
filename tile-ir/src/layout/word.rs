//! Operands that `ldmatrix` cannot bring: which element of f32 each lane loads.
//!
//! `ldmatrix` transposes elements of 16 bits only, so tf32 whose contiguous axis is M (or N) is loaded a word a lane. Where
//! both operands are stored so, their K may be counted in another order, since a product sums over it: lane `t` of a quad
//! takes rows `2 t` and `2 t + 1` of eight instead of `t` and `t + 4`. Rows two apart are two chunks apart under
//! [`Swizzle::B128`](super::Swizzle::B128), and the quad's eight lanes a row are two chunks long, so that no two lanes of
//! a warp meet in a bank; rows next to each other meet two by two.

use super::{Fragment, Index, LayoutError, MmaInput, Operand};

/// One 32-bit load of a warp from shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WordAccess {
    /// M (or N) and K of lane 0, but for which half of a step along K it is.
    origin: (u32, u32),
    /// Which half of a step along K.
    half: u32,
    /// Whether lanes take neighbouring elements along K.
    paired: bool,
}

impl WordAccess {
    /// The load of word `word` of a warp's part of `fragment`, an operand of tf32 ([`Fragment::mma_a`],
    /// [`Fragment::mma_b`]). `paired`: both operands count K in the other order.
    ///
    /// # Errors
    /// A word beyond the fragment, or a fragment that is no operand.
    pub fn new(fragment: &Fragment, word: u32, paired: bool) -> Result<WordAccess, LayoutError> {
        let beyond = || {
            let (extent, most) = (u64::from(word) + 1, fragment.words().into());
            LayoutError::TooLarge { what: "words of a fragment", extent, most }
        };
        let (mn, k) = fragment.word_origin(word).filter(|_| word < fragment.words()).ok_or_else(beyond)?;
        let depth = MmaInput::Tf32.k();
        let (step, within) = (k / depth * depth, k % depth);
        Ok(WordAccess { origin: (mn, step), half: within / (depth / 2), paired })
    }

    /// M (or N) and K of the element that `lane` loads, in the warp's part of the fragment.
    pub fn position<I: Index>(&self, lane: I) -> (I, I) {
        let (group, thread) = (lane.clone().shr(2), lane.and(3));
        let (mn, k) = self.origin;
        let within = match self.paired {
            true => thread.times(2).plus(self.half),
            false => thread.plus(self.half * (MmaInput::Tf32.k() / 2)),
        };
        (group.plus(mn), within.plus(k))
    }

    /// Byte offset in the operand's tile of the element that `lane` loads, where the warp's part begins at (`mn`, `k`).
    pub fn offset<I: Index>(&self, operand: &Operand, mn: I, k: I, lane: I) -> I {
        let (along_mn, along_k) = self.position(lane);
        operand.offset(mn.add(along_mn), k.add(along_k))
    }
}
