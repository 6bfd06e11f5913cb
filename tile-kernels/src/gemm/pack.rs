//! Operands that TMA does not fetch, copied first to where it does: [`pack_rows`] into rows whose pitch is a multiple of 16 bytes, and
//! [`pack_transposed`] of what is stored across K, which `wgmma` takes of 16 bits alone, and 64 rows of it at a time.
//!
//! A copy reads and writes an operand once, at the rate of memory, and then the product is as fast as one of aligned operands. That is less
//! than what threads that copy take, unless the product does little with each element. The copies are in scratch memory of the stream
//! ([`Scratch`]).

use super::copied::MEMORY;
use super::copied::Operands;
use super::{Gemm, stored_extents, tf32};
use std::fmt;
use std::ops::Range;
use tile_runtime::kernel::{LaunchOn, Lent, Scratch};
use tile_runtime::prelude::*;
use tile_runtime::{Element, Error, LaunchError, TensorView};

// ANCHOR: rows
/// `y = x`, for a `y` of another pitch; `VEC` elements of a row at a time.
#[tile_kernel(
    instances(VEC in [1, 2, 4], where VEC * T::BITS <= 64),
    pdl(independent = [x]),
    dtypes(T in [f16, bf16, f32]),
    uses(move_rows),
    require(N % VEC == 0)
)]
pub fn pack_rows<T, const VEC: usize>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>) {
    let [bx, by] = blocks([ceil_div(N, 64 * VEC), ceil_div(M, 64)]);
    let [tx, ty] = threads([32, 8]);
    move_rows::<T, VEC>(x, y, by * 64 + ty, (bx * 64 + tx) * VEC);
}

/// `y = x` for 64 rows and 64 pieces of `VEC` columns, of which a thread has every eighth row from `row` on and two pieces from `col` on.
#[tile_fn(dtypes(T in [f16, bf16, f32]))]
fn move_rows<T, const VEC: usize>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (M, N)>, row: usize, col: usize) {
    // 16 reads are under way at once: a warp's are neighbours, however few bytes a thread has.
    let mut values = alloc_local::<T>([16, VEC]);
    for r in unroll(0..16) {
        for v in vectorized(0..VEC) {
            values[[r, v]] = x.masked([row + r / 2 * 8, col + r % 2 * (32 * VEC) + v]);
        }
    }
    for r in unroll(0..16) {
        for v in vectorized(0..VEC) {
            *y.masked_mut([row + r / 2 * 8, col + r % 2 * (32 * VEC) + v]) = values[[r, v]];
        }
    }
}

// ANCHOR_END: rows

/// `y = x^T`. A tile in shared memory is filled along the rows of `x` and emptied along those of `y`.
#[tile_kernel(
    pdl(independent = [x]),
    dtypes(T in [f16, bf16, f32]),
    uses(turn),
    lints(TK0601 = "deny")
)]
pub fn pack_transposed<T>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (N, M)>) {
    let [bx, by] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    let [tx, ty] = threads([64, 4]);
    turn(x, y, by * 64, bx * 64, tx, ty);
}

/// `y = x^T` for the 64 rows and columns of `x` from `row` and `col` on, by 64 x 4 threads.
#[tile_fn(dtypes(T in [f16, bf16, f32]))]
fn turn<T>(x: &Tensor<T, (M, N)>, y: &mut Tensor<T, (N, M)>, row: usize, col: usize, tx: usize, ty: usize) {
    // A column lies in different banks.
    let mut tile = alloc_shared::<T>([64, if T::BITS == 16 { 66 } else { 65 }]);
    let mut values = alloc_local::<T>([16]);
    for r in unroll(0..16) {
        values[r] = x.masked([row + r * 4 + ty, col + tx]);
    }
    for r in unroll(0..16) {
        tile[[r * 4 + ty, tx]] = values[r];
    }
    sync_threads();
    for r in unroll(0..16) {
        *y.masked_mut([col + r * 4 + ty, row + tx]) = tile[[tx, r * 4 + ty]];
    }
}

/// `y[z] = x[z]` for every `z`, as [`pack_rows`] has it for one matrix.
#[tile_kernel(
    instances(VEC in [1, 2, 4], where VEC * T::BITS <= 64),
    pdl(independent = []),
    dtypes(T in [f16, bf16, f32]),
    uses(move_rows),
    require(N % VEC == 0)
)]
pub fn pack_rows_batch<T, const VEC: usize>(x: &Tensor<T, (Z, M, N)>, y: &mut Tensor<T, (Z, M, N)>) {
    let [bx, by, z] = blocks([ceil_div(N, 64 * VEC), ceil_div(M, 64), Z]);
    let [tx, ty] = threads([32, 8]);
    move_rows::<T, VEC>(x.row(z), y.row_mut(z), by * 64 + ty, (bx * 64 + tx) * VEC);
}

/// `y[z] = x[z]^T` for every `z`, as [`pack_transposed`] has it for one matrix.
#[tile_kernel(
    pdl(independent = []),
    dtypes(T in [f32]),
    uses(turn),
    lints(TK0601 = "deny")
)]
pub fn pack_transposed_batch<T>(x: &Tensor<T, (Z, M, N)>, y: &mut Tensor<T, (Z, N, M)>) {
    let [bx, by, z] = blocks([ceil_div(N, 64), ceil_div(M, 64), Z]);
    let [tx, ty] = threads([64, 4]);
    turn(x.row(z), y.row_mut(z), by * 64, bx * 64, tx, ty);
}

/// How an operand is copied before a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// Rows into rows of another pitch, so many elements at a time.
    Rows {
        /// 1, 2 or 4.
        vec: usize,
    },
    /// Rows into columns.
    Transposed,
}

/// How `a` and `b` are copied; none of what TMA fetches as it is.
pub type Packs = [Option<Pack>; 2];

/// Most bytes of scratch memory that an operand is copied to.
pub(super) const MOST_BYTES: i64 = 1 << 30;

/// Rows below which tiles of few rows are thought of for an `a` that is stored across K.
const FEW_ROWS: i64 = 64;

/// Most rows of what is copied: a grid has 65,535 blocks of 64 rows.
const MOST_ROWS: i64 = 65_535 * 64;

/// us from the end of the launch in front of it to that of a copy of nothing. This and [`RATE`] are fitted to 116 launches of 29 products on an H200
/// (`python3 bench/fit_pack.py bench/results/gemm-odd-e0dd0001-h200.json`), which they are 13% off in the quadratic mean.
const LAUNCH: f64 = 1.05;

/// Bytes a us of a copy, read and written; more than memory has, since what is copied is read again soon.
const RATE: f64 = 4.92e6;

impl Pack {
    /// How rows of so many elements are copied that begin at multiples of so many bytes; none where TMA fetches them as they are.
    pub(super) fn of_rows(width: i64, bytes: i64, begin_at: i64) -> Option<Pack> {
        let fits = |vec: &i64| vec * bytes <= begin_at.min(8) && width % vec == 0;
        (begin_at < 16).then(|| Pack::Rows { vec: [4, 2].into_iter().find(fits).unwrap_or(1) as usize })
    }

    /// Whether an operand of these extents, as it is stored, may be copied.
    fn fits(self, [rows, cols]: [i64; 2], bytes: i64) -> bool {
        let (height, width) = self.extents([rows, cols]);
        let pitch = pitch(width, bytes);
        rows.max(cols) <= MOST_ROWS && height.saturating_mul(pitch).saturating_mul(bytes) <= MOST_BYTES
    }

    /// Rows and columns of the copy.
    pub(super) fn extents(self, [rows, cols]: [i64; 2]) -> (i64, i64) {
        match self {
            Pack::Rows { .. } => (rows, cols),
            Pack::Transposed => (cols, rows),
        }
    }
}

/// us that the copy of an operand of these extents takes to move it, at so many bytes a us.
pub(super) fn moving([rows, cols]: [i64; 2], bytes: i64, rate: f64) -> f64 {
    let moved = (2 * rows * cols * bytes) as f64;
    // Of a small one there are too few blocks to ask for as many bytes as memory has under way.
    moved / (rate * (1.0 - (-moved / (0.5 * MEMORY[1])).exp())).max(1.0)
}

impl fmt::Display for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pack::Rows { .. } => "packed",
            Pack::Transposed => "transposed",
        })
    }
}

/// Elements from a row of a copy of so many to the next one. Rows begin at multiples of 32 bytes, sectors of memory, and at multiples of 128, lines of
/// it, where that is no more than a sixteenth longer. Nothing is written between them.
pub(super) fn pitch(width: i64, bytes: i64) -> i64 {
    let [of_line, of_sector] = [128, 32].map(|of| (width * bytes + of - 1) / of * of / bytes);
    if of_line - width <= width / 16 { of_line } else { of_sector }
}

/// How operands of this shape would be copied, whose rows begin at multiples of so many bytes: 16, 8, 4 or 2. None where TMA fetches them as
/// they are, where there is nothing to multiply, and where a copy would be too large.
pub(super) fn packs(operands: Operands, shape: [i64; 3], stored: [bool; 2], begin_at: [i64; 2]) -> Packs {
    let [m, n, _] = shape;
    let is_along = match operands {
        // `wgmma` reads 64 rows of an `a` that is stored as K x M; tiles of fewer rows want it along K.
        Operands::Fetched | Operands::Copied { .. } => [!(stored[0] && m < FEW_ROWS), true],
        // Of two operands of tf32 that lie across K the one with fewer elements.
        Operands::Tf32 { fetched: false } if !tf32::takes(stored) => [m >= n, m < n],
        Operands::Tf32 { fetched: false } => [true, true],
        Operands::Full | Operands::Tf32 { fetched: true } => return [None; 2],
    };
    let bytes = operands.bytes();
    let each = stored_extents(shape, stored);
    let pack = |at: usize| {
        let width = each[at][1];
        match is_along[at] {
            false => Some(Pack::Transposed),
            true => Pack::of_rows(width, bytes, begin_at[at]),
        }
    };
    let packs = [pack(0), pack(1)];
    let fit = packs.iter().zip(each).all(|(pack, extents)| pack.is_none_or(|pack| pack.fits(extents, bytes)));
    if fit && !shape.contains(&0) { packs } else { [None; 2] }
}

/// us that the copies in front of a product of this shape are expected to take on an H200. `stored`: how operands are stored.
pub(super) fn us(packs: Packs, shape: [i64; 3], stored: [bool; 2], bytes: i64) -> f64 {
    let each = packs.iter().zip(stored_extents(shape, stored));
    each.filter_map(|(pack, extents)| pack.map(|_| LAUNCH + moving(extents, bytes, RATE))).sum()
}

/// Calls `product` with what the operands are copied to, and with the options that say how that is stored. Nothing is launched where `copies`
/// is false.
#[track_caller]
pub(super) fn with<T: Element, R>(
    on: &impl LaunchOn,
    packs: Packs,
    [a, b]: [TensorView<'_, T, 2>; 2],
    options: &Gemm<'_, T>,
    copies: bool,
    product: impl FnOnce(TensorView<'_, T, 2>, TensorView<'_, T, 2>, &Gemm<'_, T>) -> Result<R, LaunchError>,
) -> Result<R, LaunchError> {
    static SCRATCH: [Scratch; 2] = [const { Scratch::new() }; 2];
    let [of_a, of_b] = packs;
    let mut options = *options;
    options.a_transposed ^= of_a == Some(Pack::Transposed);
    options.b_transposed ^= of_b == Some(Pack::Transposed);
    // `b` first: the product, which may read `b` before the launch in front of it is done, then starts beside the copy of `a`.
    let mut room: [Option<Room<T>>; 2] = [None, None];
    for (at, pack, x) in [(1, of_b, b), (0, of_a, a)] {
        let (Some(pack), Some(room), Some(scratch)) = (pack, room.get_mut(at), SCRATCH.get(at)) else { continue };
        let (rows, cols) = pack.extents(x.shape().map(|extent| extent as i64));
        let width = pitch(cols, size_of::<T>() as i64);
        let mut lent = scratch.lend::<T, 2>(on, [rows as usize, width as usize])?;
        if copies {
            let y = lent.view_mut().slice([0..rows as usize, 0..cols as usize])?;
            match pack {
                Pack::Rows { vec } => {
                    pack_rows::<T>::instance(on.device(), PackRowsParams { VEC: vec })?.launch_on(on, x, y)?;
                }
                Pack::Transposed => pack_transposed::<T>::instance(on.device())?.launch_on(on, x, y)?,
            }
        }
        *room = Some((lent, [0..rows as usize, 0..cols as usize]));
    }
    let [room_a, room_b] = &room;
    product(copied(room_a, a)?, copied(room_b, b)?, &options)
}

/// Scratch memory, and the part of its rows that an operand is copied to.
type Room<T> = (Lent<T, 2>, [Range<usize>; 2]);

/// What an operand is copied to, or itself.
fn copied<'a, T: Element>(
    room: &'a Option<Room<T>>,
    operand: TensorView<'a, T, 2>,
) -> Result<TensorView<'a, T, 2>, Error> {
    match room {
        Some((lent, part)) => lent.view().slice(part.clone()),
        None => Ok(operand),
    }
}
