//! The order in which a reduction combines its values: part of the language, so that every executor gives the same
//! bits.
//!
//! A group is the threads of a block that differ only on one axis, of `extent` threads at linear distance `stride`.
//! Where the group fills a power-of-two, naturally aligned part of a warp, the values meet in a butterfly. A group of
//! several whole warps does the butterfly in each warp and then combines the warps' results in ascending order.
//! Any other group combines its values in ascending order of the axis.
//!
//! The axis of a tile (`reduce`) is combined in an order that does not depend on how the tile lies in registers, and that
//! tensor cores' accumulators meet without moving anything: elements are taken in pairs of neighbours; of the four pairs
//! of 8 neighbours each is combined with those at the same place 8, 16 and 24 further on, ascending, which makes the four
//! parts of a chunk of 32; the chunks are combined in ascending order, part by part; and the four parts `p` as
//! `(p0 p1) (p2 p3)`. What is beyond the end takes no part. [`combine_axis`] is this order.
//!
//! A loop that adds the rows of a tile to a running total keeps a total of each of the four parts, and combines these once,
//! behind the loop. Which loops do is decided for a bound kernel, whatever its target (`lower::bind::sums`);
//! [`axis_parts`] are the parts of one step.

use super::ReduceOp;
use serde::{Deserialize, Serialize};

/// Threads a warp.
pub const WARP: u32 = 32;

/// Elements of a chunk of a tile's axis.
pub const CHUNK: u32 = 32;
/// Parts of a chunk: the threads that share a row of an accumulator.
pub const PARTS: u32 = 4;
/// How far apart the pairs are that make a part: the columns of an accumulator's atom.
pub const ATOM: u32 = 8;

/// An axis of `extent` elements combined; `None` of no element.
pub fn combine_axis<T: Copy>(extent: u32, get: impl Fn(u32) -> T, f: impl Fn(T, T) -> T) -> Option<T> {
    let [a, b, c, d] = axis_parts(extent, get, &f);
    join(&f, join(&f, a, b), join(&f, c, d))
}

/// The four parts of an axis of `extent` elements, each combined; `None` of a part without elements.
pub fn axis_parts<T: Copy>(extent: u32, get: impl Fn(u32) -> T, f: impl Fn(T, T) -> T) -> [Option<T>; PARTS as usize] {
    let element = |index: u32| (index < extent).then(|| get(index));
    let part = |part: u32| {
        let mut total = None;
        for chunk in (0..extent).step_by(CHUNK as usize) {
            let mut sum = None;
            for atom in (0..CHUNK).step_by(ATOM as usize) {
                let first = chunk + atom + 2 * part;
                sum = join(&f, sum, join(&f, element(first), element(first + 1)));
            }
            total = join(&f, total, sum);
        }
        total
    };
    [0, 1, 2, 3].map(part)
}

/// Two values combined; what is missing takes no part.
fn join<T: Copy>(f: impl Fn(T, T) -> T, a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(f(a, b)),
        (a, b) => a.or(b),
    }
}

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
    fn an_axis_is_combined_in_the_defined_order() {
        let names = |extent: u32| -> Vec<String> { (0..extent).map(|i| i.to_string()).collect() };
        let text = |extent: u32| {
            let names = names(extent);
            let leaked: Vec<&'static str> = names.into_iter().map(|n| &*Box::leak(n.into_boxed_str())).collect();
            let join = |a: &'static str, b: &'static str| -> &'static str { Box::leak(format!("({a} {b})").into()) };
            combine_axis(extent, |i| leaked[i as usize], join)
        };
        assert_eq!(text(0), None);
        assert_eq!(text(1), Some("0"));
        assert_eq!(text(5), Some("(((0 1) (2 3)) 4)"));
        assert_eq!(text(10), Some("((((0 1) (8 9)) (2 3)) ((4 5) (6 7)))"));
        let parts = [0, 2, 4, 6].map(|p| {
            let pair = |i: u32| format!("({} {})", i + p, i + p + 1);
            let chunk = |c: u32| (1..4).fold(pair(c), |all, atom| format!("({all} {})", pair(c + 8 * atom)));
            format!("({} {})", chunk(0), chunk(32))
        });
        let [a, b, c, d] = parts;
        assert_eq!(text(64), Some(&*format!("(({a} {b}) ({c} {d}))")));
    }

    #[test]
    fn whole_warps_then_ascending() {
        assert_eq!(plan(128, 1).last(), Some(&ReduceStep::Ascending { parts: 4, part_extent: 32 }));
        assert_eq!(plan(128, 1).len(), 6);
        assert_eq!(plan(8, 32), [ReduceStep::Ascending { parts: 8, part_extent: 1 }]);
        assert_eq!(plan(48, 1), [ReduceStep::Ascending { parts: 48, part_extent: 1 }]);
    }
}
