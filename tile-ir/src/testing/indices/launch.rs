//! What those kernels are launched with.

use super::Random;
use super::generate::{THREADS, edge};
use crate::ir::*;
use crate::lowered::{HostExpr, HostValues};
use std::collections::BTreeMap;

/// What a kernel is launched with.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) dims: BTreeMap<u32, i64>,
    pub(super) scalars: BTreeMap<u32, i64>,
    /// The innermost extent of tensors of two axes.
    pub(super) stride: i64,
}

impl Launch {
    /// Numbers of every size.
    pub(super) fn draw(kernel: &Kernel, random: &mut Random) -> Launch {
        let scale = random.below(4);
        let number = |random: &mut Random| {
            let most = i64::from(i32::MAX);
            match (scale, random.below(6)) {
                (0, _) | (1, 0..=3) => random.of(&[0, 1, 2, 3, 7, 8, 31, 32, 33, 100]),
                (1, _) | (2, 0..=2) => random.of(&[1000, 4096, 46_340, 46_341, 65_535, 65_536, 1 << 20]),
                (_, 3) => random.of(&[0, 1, 2, 5, 31]),
                (_, 4) => most - random.below(3) as i64,
                (_, 5) => edge(random, 31).min(most),
                _ => random.of(&[1 << 24, 1 << 27, 1 << 29, 1 << 30, (1 << 30) + 1, 715_827_883]),
            }
        };
        let dims: BTreeMap<u32, i64> = kernel.dims.keys().map(|dim| (dim.as_u32(), number(random))).collect();
        let mut scalars = BTreeMap::new();
        for (id, param) in kernel.params.iter() {
            let ParamKind::Scalar { ty } = param.kind else { continue };
            let drawn = number(random);
            // All that the types have, negative numbers among it.
            let value = match ty.dtype() {
                Some(Dtype::I32) if random.once_in(2) => -drawn - i64::from(random.once_in(2)),
                Some(Dtype::U32) if random.once_in(2) => i64::from(u32::MAX) - drawn,
                _ => drawn,
            };
            scalars.insert(id.as_u32(), value);
        }
        let stride = dims.get(&1).copied().unwrap_or(1);
        Launch { dims, scalars, stride }
    }

    /// A thread of a block; none where there are no blocks.
    pub(super) fn point(&self, kernel: &BoundKernel, random: &mut Random) -> Option<(i64, i64)> {
        let blocks = HostExpr::of(kernel, kernel.grid.first()?.extent)?.evaluate(self)?;
        if !(1..=i64::from(i32::MAX)).contains(&blocks) {
            return None;
        }
        let drawn = random.below(blocks as u64) as i64;
        let block = random.of(&[0, blocks - 1, drawn]);
        let drawn = random.below(THREADS as u64) as i64;
        Some((block, random.of(&[0, THREADS - 1, drawn])))
    }
}

impl HostValues for Launch {
    fn dim(&self, dim: DimId) -> i64 {
        self.dims.get(&dim.as_u32()).copied().unwrap_or(0)
    }
    fn stride(&self, _: ParamId, axis: u8) -> i64 {
        if axis == 0 { self.stride } else { 1 }
    }
    fn scalar(&self, param: ParamId) -> i64 {
        self.scalars.get(&param.as_u32()).copied().unwrap_or(0)
    }
    fn address(&self, _: ParamId) -> u64 {
        0
    }
    fn capacity(&self) -> i64 {
        1
    }
}
