//! The order in which a reduction combines its values: part of the language, so that every executor gives the same
//! bits.
//!
//! A group is the threads of a block that differ only on one axis, of `extent` threads at linear distance `stride`.
//! Where the group fills a power-of-two, naturally aligned part of a warp, the values meet in a butterfly. A group of
//! several whole warps does the butterfly in each warp and then combines the warps' results in ascending order.
//! Any other group combines its values in ascending order of the axis.

use super::ReduceOp;
use serde::{Deserialize, Serialize};

/// Threads a warp.
pub const WARP: u32 = 32;

/// One reduction: operator and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reduction {
    /// The operator.
    pub op: ReduceOp,
    /// Threads a group.
    pub extent: u32,
    /// Distance of neighbours in the linear thread index.
    pub stride: u32,
}

/// One step of a [`ReductionPlan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceStep {
    /// `v = op(v, v of the lane whose index differs by xor with this mask)`.
    Butterfly {
        /// The lane mask.
        mask: u32,
    },
    /// The group is cut into `parts` neighbouring parts of `part_extent` threads, whose members agree; every member
    /// combines one value a part, in ascending order: `op(..op(op(part 0, part 1), part 2).., part n)`.
    Ascending {
        /// How many parts.
        parts: u32,
        /// Threads a part.
        part_extent: u32,
    },
}

/// The steps of a reduction, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReductionPlan {
    /// The steps.
    pub steps: Vec<ReduceStep>,
}

impl Reduction {
    /// The defined order of this reduction.
    pub fn plan(&self) -> ReductionPlan {
        let (extent, stride) = (self.extent.max(1), self.stride.max(1));
        let butterfly = |threads: u32| -> Vec<ReduceStep> {
            std::iter::successors(Some(threads / 2), |m| Some(m / 2))
                .take_while(|m| *m > 0)
                .map(|m| ReduceStep::Butterfly { mask: m * stride })
                .collect()
        };
        let steps = if extent.is_power_of_two() && stride.is_power_of_two() && extent * stride <= WARP {
            butterfly(extent)
        } else if stride == 1 && extent.is_multiple_of(WARP) {
            let mut steps = butterfly(WARP);
            steps.push(ReduceStep::Ascending { parts: extent / WARP, part_extent: WARP });
            steps
        } else {
            vec![ReduceStep::Ascending { parts: extent, part_extent: 1 }]
        };
        ReductionPlan { steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(extent: u32, stride: u32) -> Vec<ReduceStep> {
        Reduction { op: ReduceOp::Sum, extent, stride }.plan().steps
    }

    #[test]
    fn a_part_of_a_warp_is_a_butterfly() {
        let masks = |steps: Vec<ReduceStep>| -> Vec<u32> {
            steps.iter().map(|s| if let ReduceStep::Butterfly { mask } = s { *mask } else { 0 }).collect()
        };
        assert_eq!(masks(plan(32, 1)), [16, 8, 4, 2, 1]);
        assert_eq!(masks(plan(8, 4)), [16, 8, 4]);
        assert_eq!(plan(1, 1), []);
    }

    #[test]
    fn whole_warps_then_ascending() {
        assert_eq!(plan(128, 1).last(), Some(&ReduceStep::Ascending { parts: 4, part_extent: 32 }));
        assert_eq!(plan(128, 1).len(), 6);
        assert_eq!(plan(8, 32), [ReduceStep::Ascending { parts: 8, part_extent: 1 }]);
        assert_eq!(plan(48, 1), [ReduceStep::Ascending { parts: 48, part_extent: 1 }]);
    }
}
