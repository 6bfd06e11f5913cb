//! Which instance of the kernel serves a shape.

use super::bulk::gemv_bulk;
use super::kernel::gemv;
use super::specialized::gemv_specialized;
use super::{Gemv, GemvElement};
use tile_runtime::LaunchError;
use tile_runtime::kernel::{Dtype, LaunchOn, TensorInput, TensorOutput, TensorRef};
use tile_runtime::prelude::*;

/// An instance: how a block's threads share rows, and how wide they load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Warps of a group, rows of a group, groups of a block, loads a thread keeps in flight a row.
    pub shape: (usize, usize, usize, usize),
    /// Steps whose loads are in flight at once: 1 loads nothing ahead.
    pub stages: usize,
    /// Whether loads are 16 bytes wide; else one element.
    pub vector: bool,
    /// Where the kernel that is compiled for K serves ([`super::specialized`]): its warps, rows, groups and loads.
    pub specialized: Option<(usize, usize, usize, usize)>,
    /// Where the kernel with bulk copies serves ([`super::bulk`]): its warps, rows at a time, stages and rows of a block.
    pub bulk: Option<(usize, usize, usize, usize)>,
}

impl Default for Choice {
    fn default() -> Self {
        Choice { shape: (1, 1, 4, 4), stages: 1, vector: false, specialized: None, bulk: None }
    }
}

impl Choice {
    /// The choice for these operands.
    pub(super) fn of(w: &TensorRef<'_>, x: &TensorRef<'_>) -> Choice {
        let bytes = i64::from(w.dtype().bytes());
        let (&[n, k], &[pitch, _]) = (w.shape(), w.strides()) else { return Choice::default() };
        let vector = [w.address() as i64, x.address() as i64, k * bytes, pitch * bytes].iter().all(|v| v % 16 == 0);
        let specialized = vector.then(|| Choice::specialized(k, w.dtype()));
        Choice { vector, specialized, ..Choice::for_shape(n, k, w.dtype()) }
    }

    /// The instance of the kernel that is compiled for K, for aligned operands.
    ///
    /// Measured on an H200 with `bench/peers.py`, f16 and bf16: within 2.3% of the best instance on each of its six shapes.
    pub fn specialized(k: i64, dtype: Dtype) -> (usize, usize, usize, usize) {
        match k.saturating_mul(i64::from(dtype.bytes())) / 16 {
            // Two warps have all of a short row in flight at once.
            ..=128 => (2, 1, 2, 4),
            // Eight warps take whole steps of two loads a thread.
            loads if loads % 512 == 0 => (8, 1, 1, 2),
            // A row that is no whole number of steps: more loads in flight, fewer steps that are partly masked.
            _ => (8, 1, 1, 4),
        }
    }

    /// The instance of the kernel with bulk copies for a launch that may start before the previous kernel is done, for
    /// aligned operands; none where a row is too long or too short for it, or rows are too few. [`gemv`](super::gemv) does
    /// not ask for it: without such a launch the kernel in registers starts sooner.
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

    /// The choice among the instances that serve any K, for aligned operands of this shape, by how many 16-byte loads a row takes and how they divide among
    /// the threads.
    ///
    /// Measured on an H200 with `bench/peers.py`: on each of its six shapes the choice is within 3% of the best instance.
    pub fn for_shape(n: i64, k: i64, dtype: Dtype) -> Choice {
        let loads = k.saturating_mul(i64::from(dtype.bytes())) / 16;
        let shape = match loads {
            // Short rows: a warp has enough to do with one of its own.
            ..=64 => (1, 1, 8, 2),
            // Rows that fill the loads of four warps, and enough of them to fill the device.
            _ if loads % 512 == 0 && n.saturating_mul(loads) > 1 << 19 => (4, 1, 1, 4),
            _ => (4, 2, 1, 2),
        };
        Choice { shape, stages: 1, vector: true, ..Choice::default() }
    }
}

/// Every instance is a type of its own: the match from a value to it, written once. Instances that load ahead are
/// vectorised ones.
macro_rules! element {
    (
        $ty:ty, $vector:literal, [$(($w:literal, $r:literal, $g:literal, $u:literal)),*],
        [$(($pw:literal, $pr:literal, $pg:literal, $pu:literal, $ps:literal)),*],
        [$(($bw:literal, $bs:literal, $bt:literal, $br:literal)),*]
    ) => {
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
                match choice.bulk {
                    $(Some(($bw, $bs, $bt, $br)) => {
                        return gemv_bulk::<$ty, $bw, $bs, $bt, $br, $vector>::launch(on, w, x, y, alpha, beta);
                    })*
                    _ => {}
                }
                match choice.specialized {
                    Some((2, 1, 2, 4)) => {
                        return gemv_specialized::<$ty, 2, 1, 2, 4, 1, $vector>::launch(on, w, x, y, alpha, beta);
                    }
                    Some((8, 1, 1, 2)) => {
                        return gemv_specialized::<$ty, 8, 1, 1, 2, 1, $vector>::launch(on, w, x, y, alpha, beta);
                    }
                    Some((8, 1, 1, 4)) => {
                        return gemv_specialized::<$ty, 8, 1, 1, 4, 1, $vector>::launch(on, w, x, y, alpha, beta);
                    }
                    _ => {}
                }
                match (choice.shape, choice.stages, choice.vector) {
                    $((($w, $r, $g, $u), 1, true) =>
                        gemv::<$ty, $w, $r, $g, $u, 1, $vector>::launch(on, w, x, y, alpha, beta),
                      (($w, $r, $g, $u), 1, false) =>
                        gemv::<$ty, $w, $r, $g, $u, 1, 1>::launch(on, w, x, y, alpha, beta),)*
                    $((($pw, $pr, $pg, $pu), $ps, true) =>
                        gemv::<$ty, $pw, $pr, $pg, $pu, $ps, $vector>::launch(on, w, x, y, alpha, beta),)*
                    // A shape that no instance has: the smallest serves every operand.
                    _ => gemv::<$ty, 1, 1, 4, 4, 1, 1>::launch(on, w, x, y, alpha, beta),
                }
            }
        }
    };
}

macro_rules! elements {
    ($shapes:tt, $ahead:tt, $bulk:tt: $($ty:ty = $vector:literal),*) => {
        $(element!($ty, $vector, $shapes, $ahead, $bulk);)*
    };
}

elements!(
    [(1, 1, 4, 4), (1, 1, 8, 2), (4, 1, 1, 4), (4, 2, 1, 2), (8, 2, 1, 1), (8, 2, 1, 4)],
    [(4, 1, 1, 4, 2), (4, 1, 1, 8, 2), (8, 2, 1, 1, 2)],
    [(4, 4, 1, 4), (4, 2, 6, 16)]: f16 = 8, bf16 = 8, f32 = 4
);
