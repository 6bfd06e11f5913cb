//! Which kernel and instance serves a call.

use super::bulk::{GemvBulkParams, gemv_bulk};
use super::candidates::{Problem, candidates, candidates_of_any_k};
use super::kernel::{GemvParams, gemv};
use super::lines::{GemvLinesParams, gemv_lines};
use super::ring::{GemvRingParams, gemv_ring};
use super::rows::{GemvRowsParams, gemv_rows};
use super::specialized::{GemvSpecializedParams, gemv_specialized};
use super::split::{GemvSplitParams, gemv_split};
use super::{Gemv, GemvElement};
use std::cell::RefCell;
use std::fmt;
use tile_runtime::LaunchError;
use tile_runtime::kernel::{Argument, Dtype, LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// A kernel and the constants of its instance: what a call launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// [`gemv`](struct@super::kernel::gemv), which serves every K without being compiled for it.
    AnyK(GemvParams),
    /// [`gemv_specialized`](struct@super::specialized::gemv_specialized), compiled for each K.
    ForK(GemvSpecializedParams),
    /// [`gemv_rows`](struct@super::rows::gemv_rows), for short rows and for those that are not aligned to 16 bytes.
    Rows(GemvRowsParams),
    /// [`gemv_lines`](struct@super::lines::gemv_lines), for rows that lie side by side and are not aligned.
    Lines(GemvLinesParams),
    /// [`gemv_split`](struct@super::split::gemv_split), where the blocks of a cluster share few long rows.
    Split(GemvSplitParams),
    /// [`gemv_bulk`](struct@super::bulk::gemv_bulk), by bulk copies, with a constant number of rows a block.
    Bulk(GemvBulkParams),
    /// [`gemv_ring`](struct@super::ring::gemv_ring), by bulk copies, and how many rows a block has.
    Ring(GemvRingParams, usize),
}

impl Default for Choice {
    /// What serves all operands, however they are aligned.
    fn default() -> Self {
        Choice::AnyK(GemvParams { WARPS: 1, ROWS: 1, GROUPS: 4, UNROLL: 4, STAGES: 1, VEC: 1 })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Choice::AnyK(GemvParams { WARPS, ROWS, GROUPS, UNROLL, STAGES, VEC }) => {
                write!(f, "gemv {WARPS}x{ROWS}x{GROUPS}x{UNROLL}x{STAGES} v{VEC}")
            }
            Choice::ForK(GemvSpecializedParams { WARPS, ROWS, GROUPS, UNROLL, STAGES, VEC }) => {
                write!(f, "gemv_specialized {WARPS}x{ROWS}x{GROUPS}x{UNROLL}x{STAGES} v{VEC}")
            }
            Choice::Rows(GemvRowsParams { LANES, ROWS, GROUPS, UNROLL, VEC }) => {
                write!(f, "gemv_rows {LANES}x{ROWS}x{GROUPS}x{UNROLL} v{VEC}")
            }
            Choice::Lines(GemvLinesParams { LANES, ROWS, GROUPS, UNROLL, VEC }) => {
                write!(f, "gemv_lines {LANES}x{ROWS}x{GROUPS}x{UNROLL} v{VEC}")
            }
            Choice::Split(GemvSplitParams { WARPS, ROWS, UNROLL, PARTS, VEC }) => {
                write!(f, "gemv_split {WARPS}x{ROWS}x{UNROLL}x{PARTS} v{VEC}")
            }
            Choice::Bulk(GemvBulkParams { WARPS, SPAN, STAGES, ROWS, VEC }) => {
                write!(f, "gemv_bulk {WARPS}x{SPAN}x{STAGES}x{ROWS} v{VEC}")
            }
            Choice::Ring(GemvRingParams { WARPS, SPAN, STAGES, MOST: _, VEC }, rows) => {
                write!(f, "gemv_ring {WARPS}x{SPAN}x{STAGES} v{VEC}, {rows} rows")
            }
        }
    }
}

/// Problems whose choices a thread remembers: finding one looks at some thirty candidates.
const REMEMBERED: usize = 64;

thread_local! {
    static CHOICES: RefCell<[Option<(Problem, Choice)>; REMEMBERED]> = const { RefCell::new([None; REMEMBERED]) };
}

impl Choice {
    /// The candidate that the model expects to be the fastest of those that are not compiled for each K, and its us.
    pub(crate) fn of_any_k(problem: Problem) -> Option<(Choice, f64)> {
        let timed = candidates_of_any_k(problem).map(|candidate| (candidate.choice, candidate.us()));
        timed.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Whether its kernel is compiled for each K.
    pub(super) fn is_of_one_k(&self) -> bool {
        match self {
            Choice::ForK(_) | Choice::Bulk(_) | Choice::Ring(..) => true,
            Choice::AnyK(_) | Choice::Rows(_) | Choice::Lines(_) | Choice::Split(_) => false,
        }
    }

    /// The candidate that the model expects to be the fastest for a problem.
    pub fn of(problem: Problem) -> Choice {
        let timed = candidates(problem).map(|candidate| (candidate.us(), candidate.choice));
        timed.min_by(|a, b| a.0.total_cmp(&b.0)).map_or_else(Choice::default, |(_, choice)| choice)
    }

    /// The fastest candidate for a problem by the model ([`Choice::of`]), which the thread remembers.
    pub(super) fn remembered(problem: Problem) -> Choice {
        let place = (problem.n.wrapping_mul(31).wrapping_add(problem.k)).rem_euclid(REMEMBERED as i64) as usize;
        CHOICES.with_borrow_mut(|choices| match choices.get(place) {
            Some(Some((known, choice))) if *known == problem => *choice,
            _ => {
                let choice = Choice::of(problem);
                if let Some(entry) = choices.get_mut(place) {
                    *entry = Some((problem, choice));
                }
                choice
            }
        })
    }

    /// The name of its kernel.
    pub fn kernel(&self) -> &'static str {
        match self {
            Choice::AnyK(_) => "gemv",
            Choice::ForK(_) => "gemv_specialized",
            Choice::Rows(_) => "gemv_rows",
            Choice::Lines(_) => "gemv_lines",
            Choice::Split(_) => "gemv_split",
            Choice::Bulk(_) => "gemv_bulk",
            Choice::Ring(..) => "gemv_ring",
        }
    }

    /// The constants of the kernel's instance, in order of declaration.
    pub fn consts(&self) -> Vec<i64> {
        let consts = match *self {
            Choice::AnyK(p) => vec![p.WARPS, p.ROWS, p.GROUPS, p.UNROLL, p.STAGES, p.VEC],
            Choice::ForK(p) => vec![p.WARPS, p.ROWS, p.GROUPS, p.UNROLL, p.STAGES, p.VEC],
            Choice::Rows(p) => vec![p.LANES, p.ROWS, p.GROUPS, p.UNROLL, p.VEC],
            Choice::Lines(p) => vec![p.LANES, p.ROWS, p.GROUPS, p.UNROLL, p.VEC],
            Choice::Split(p) => vec![p.WARPS, p.ROWS, p.UNROLL, p.PARTS, p.VEC],
            Choice::Bulk(p) => vec![p.WARPS, p.SPAN, p.STAGES, p.ROWS, p.VEC],
            Choice::Ring(p, _) => vec![p.WARPS, p.SPAN, p.STAGES, p.MOST, p.VEC],
        };
        consts.into_iter().map(|value| value as i64).collect()
    }

    /// The choice for dense, aligned operands of this shape on an H100 or H200.
    pub fn for_shape(n: i64, k: i64, dtype: Dtype) -> Choice {
        Choice::of(Problem::dense(n, k, dtype))
    }

    /// The instance of the kernel with bulk copies for a launch that may start before the previous kernel is done, for
    /// aligned operands; none where a row is too long or too short for it, or rows are too few: warps, rows at a time, stages and rows
    /// of a block.
    ///
    /// A block takes its rows in one go where a wave of blocks holds all of W, else it has six stages of them, and
    /// a multiprocessor two such blocks. Measured on an H200 in dependent chains (`bench/peers.py chain`): the best instance at
    /// 1024 x 1024, within 0.4% of it at 4096 x 4096, f16 and bf16.
    pub fn bulk(n: i64, k: i64, dtype: Dtype) -> Option<(usize, usize, usize, usize)> {
        let row = k.saturating_mul(i64::from(dtype.bytes()));
        match (n, row) {
            (256.., 1024..=4096) if n.saturating_mul(row) <= 4 << 20 => Some((4, 4, 1, 4)),
            (2048..=4224, 4097..=8192) => Some((4, 2, 6, 16)),
            _ => None,
        }
    }
}

macro_rules! elements {
    ($($ty:ty),*) => { $(
        impl GemvElement for $ty {
            #[track_caller]
            fn launch(
                on: &impl LaunchOn,
                choice: Choice,
                w: impl TensorInput<Self, 2>,
                x: impl TensorInput<Self, 1>,
                y: impl TensorOutput<Self, 1>,
                Gemv { alpha, beta }: Gemv,
            ) -> Result<(), LaunchError> {
                let device = on.device();
                match choice {
                    Choice::AnyK(params) => {
                        gemv::<$ty>::instance(device, params)?.launch_on(on, w, x, y, alpha, beta)
                    }
                    Choice::ForK(params) => {
                        gemv_specialized::<$ty>::instance(device, params)?.launch_on(on, w, x, y, alpha, beta)
                    }
                    Choice::Rows(params) => {
                        gemv_rows::<$ty>::instance(device, params)?.launch_on(on, w, x, y, alpha, beta)
                    }
                    Choice::Lines(params) => {
                        // Both views of the matrix are made of what it is without its type.
                        let Argument::Tensor(erased) = w.argument() else {
                            return Self::launch(on, Choice::default(), w, x, y, Gemv { alpha, beta });
                        };
                        match (erased.typed::<$ty, 2>(), erased.lines::<$ty>(params.VEC)) {
                            (Some(rows), Some(lines)) => {
                                let start = (erased.address() / size_of::<$ty>() as u64) as usize % params.VEC.max(1);
                                let before = usize::from(start > 0);
                                gemv_lines::<$ty>::instance(device, params)?
                                    .launch_on(on, rows, lines, x, y, alpha, beta, start, before)
                            }
                            // Rows with a pitch: any kernel of elements serves them.
                            _ => {
                                let any = Choice::default();
                                Self::launch(on, any, w, x, y, Gemv { alpha, beta })
                            }
                        }
                    }
                    Choice::Split(params) => {
                        gemv_split::<$ty>::instance(device, params)?.launch_on(on, w, x, y, alpha, beta)
                    }
                    Choice::Bulk(params) => {
                        gemv_bulk::<$ty>::instance(device, params)?.launch_on(on, w, x, y, alpha, beta)
                    }
                    Choice::Ring(params, rows) => {
                        gemv_ring::<$ty>::instance(device, params)?.launch_on(on, w, x, y, alpha, beta, rows)
                    }
                }
            }
        }
    )* };
}

elements!(f16, bf16, f32);
