//! A tile in shared memory as an operand of `gemm`: M x K of A, or N x K of B.
//!
//! The four layouts of `gemm` differ only here. `a` of `[BM, BK]` and `b.t()` of `[BN, BK]` are K-major; `a.t()` of
//! `[BK, BM]` and `b` of `[BK, BN]` are MN-major: their contiguous columns run along M or N.

use super::{Fragment, Index, LayoutError, MatrixAccess, MmaInput, SharedLayout};

/// Which axis of an operand is contiguous in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// K: the tile's rows are M (or N).
    K,
    /// M (or N): the tile's rows are K.
    Mn,
}

/// A tile as `gemm` reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The tile.
    pub tile: SharedLayout,
    /// Which of its axes is K.
    pub major: Major,
}

impl Operand {
    /// Extent along M (or N).
    pub const fn mn(&self) -> u32 {
        match self.major {
            Major::K => self.tile.rows(),
            Major::Mn => self.tile.cols(),
        }
    }

    /// Extent along K.
    pub const fn k(&self) -> u32 {
        match self.major {
            Major::K => self.tile.cols(),
            Major::Mn => self.tile.rows(),
        }
    }

    /// Byte offset of element (`mn`, `k`) from the start of the tile.
    pub fn offset<I: Index>(&self, mn: I, k: I) -> I {
        match self.major {
            Major::K => self.tile.offset(mn, k),
            Major::Mn => self.tile.offset(k, mn),
        }
    }

    /// Where element (`mn`, `k`) is, counted in elements from the start of the tile.
    pub fn place<I: Index>(&self, mn: I, k: I) -> I {
        match self.major {
            Major::K => self.tile.place(mn, k),
            Major::Mn => self.tile.place(k, mn),
        }
    }

    /// What the tensor cores multiply it as.
    ///
    /// # Errors
    /// An integer or `bool` tile.
    pub fn input(&self, instruction: &'static str) -> Result<MmaInput, LayoutError> {
        let (dtype, major) = (self.tile.dtype(), self.major);
        MmaInput::of(dtype).ok_or(LayoutError::Unsupported { instruction, dtype, major })
    }

    /// Whether a warp loads it word by word ([`WordAccess`](super::WordAccess)): f32 that is MN-major, which `ldmatrix`
    /// cannot transpose.
    pub fn by_words(&self) -> bool {
        self.major == Major::Mn && MmaInput::of(self.tile.dtype()) == Some(MmaInput::Tf32)
    }

    /// The `ldmatrix` that fills words `word .. word + count` of `fragment`, an operand fragment of one warp
    /// ([`Fragment::mma_a`] or [`Fragment::mma_b`]); `.trans` where the operand is MN-major.
    ///
    /// # Errors
    /// tf32 that is MN-major, which `ldmatrix` cannot transpose ([`Operand::by_words`]); rows that are not whole chunks of 16 bytes; words that do not lie in a
    /// parallelogram.
    pub fn load_matrix(&self, fragment: &Fragment, word: u32, count: u32) -> Result<MatrixAccess, LayoutError> {
        let instruction = "ldmatrix";
        let input = self.input(instruction)?;
        if input == MmaInput::Tf32 && self.major == Major::Mn {
            return Err(LayoutError::Unsupported { instruction, dtype: self.tile.dtype(), major: self.major });
        }
        self.tile.whole_chunks(instruction)?;
        MatrixAccess::new(fragment, word, count, self.major == Major::Mn)
    }
}
