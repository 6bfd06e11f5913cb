//! `o = softmax(q k^T / sqrt(D)) v`: [`decode`] for the newest tokens of many sequences, over keys and values in pages.
//!
//! | module | what it is |
//! |---|---|
//! | [`decode_kernel`] | the kernel of [`decode`] as it is written |

pub mod decode_kernel;

use decode_kernel::DecodeParams;
use tile_runtime::LaunchError;
use tile_runtime::dsl::Float;
use tile_runtime::kernel::{Argument, Definition, LaunchOn, TensorInput, TensorOutput};

/// Rows of a block: queries of a sequence times the heads that share one head of keys.
const ROWS: usize = 16;
/// Parts that a sequence may be cut into.
const SPLITS: [usize; 5] = [1, 4, 8, 16, 32];
/// Those of f32, whose products are multiply-adds: its kernels take half a minute to compile.
const SPLITS_F32: [usize; 2] = [1, 8];
/// Blocks that run at once: two on each of the 132 multiprocessors of an H100 or H200.
const BLOCKS: usize = 264;
/// Tiles of queries of one head of keys up to which sequences are cut: each has a counter of the parts that are done.
const COUNTERS: usize = 1024;
/// Keys of a step.
const STEP: usize = 64;

/// What [`decode`] does beside its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decode {
    /// The most queries that any sequence has; 0 stands for 1. A sequence that has more gets no result for the rest.
    pub queries: usize,
    /// Factor of the products before the softmax; `1 / sqrt(D)` where none is given.
    pub scale: Option<f32>,
    /// Into how many parts of keys, each a block's, a sequence is cut: rounded down to 1, 4, 8, 16 or 32 (of f32 to 1 or 8); where none is
    /// given, as many as fill the device; 1 where the sequences have more than 1,024 tiles of 16 rows. Results with different numbers differ by rounding. So whoever wants results
    /// that do not depend on how many sequences there are gives one.
    pub splits: Option<usize>,
}

impl Decode {
    /// The parts of a sequence, for so many tiles of queries, heads of keys, and at most so many steps of keys.
    fn splits<T>(self, tiles: usize, key_heads: usize, steps: usize) -> usize {
        if tiles > COUNTERS {
            return 1;
        }
        let most = self.splits.unwrap_or_else(|| (BLOCKS / (tiles * key_heads).max(1)).min(steps));
        let splits = if size_of::<T>() == 2 { &SPLITS[..] } else { &SPLITS_F32[..] };
        splits.iter().copied().rfind(|splits| *splits <= most).unwrap_or(1)
    }
}

/// The extents of a tensor; zeros where it is none.
fn shape<const R: usize>(argument: &Argument<'_>) -> [usize; R] {
    let shape = match argument {
        Argument::Tensor(tensor) => tensor.shape(),
        _ => &[],
    };
    std::array::from_fn(|axis| shape.get(axis).map_or(0, |extent| usize::try_from(*extent).unwrap_or(0)))
}

/// The sequences of a launch of [`decode`], as tensors on the device.
#[derive(Clone, Copy, Debug)]
pub struct Batch<P, F> {
    /// `[B, L]`: which page holds the keys `i PAGE` to `(i + 1) PAGE` of each of the B sequences.
    pub pages: P,
    /// `[B + 1]`: the first query of each sequence, and the end of the last one's.
    pub first: F,
    /// `[B]`: how many keys each sequence has, those of its own queries included.
    pub lengths: F,
}

/// Attention of the newest tokens of B sequences, whose keys and values lie in pages.
///
/// | tensor | shape | |
/// |---|---|---|
/// | `q` | `[S, H, D]` | the queries of all sequences, sequence after sequence, D = 64 or 128 |
/// | `k`, `v` | `[P, HK, PAGE, D]` | P pages of PAGE keys, a multiple of 64 (a page may hold a whole sequence: a contiguous cache) |
/// | `batch` | | which pages and queries belong to which sequence |
/// | `o` | `[S, H, D]` | the result; rows that belong to no sequence are left as they are |
///
/// Head `h` of `q` uses head `h / (H / HK)` of `k`. A sequence's last query sees all its keys, each one before it one less; a
/// query that sees none gets 0. A sequence without queries costs nothing. Pages and lengths are read on the device, so a captured launch
/// follows what is written to them. A page beyond P reads as zeros. All of a page in use must be finite, also behind the end of
/// the sequence: what is there is multiplied by 0.
///
/// # Errors
/// Where H is no multiple of HK, HK is more than 64, D neither 64 nor 128, PAGE no multiple of 64 or shapes differ; where `o` overlaps an
/// operand; and whatever compiling and launching may fail with. Nothing is launched then.
#[track_caller]
pub fn decode<T: Float, P, F>(
    on: &impl LaunchOn,
    q: impl TensorInput<T, 3>,
    k: impl TensorInput<T, 4>,
    v: impl TensorInput<T, 4>,
    batch: Batch<P, F>,
    o: impl TensorOutput<T, 3>,
    options: Decode,
) -> Result<(), LaunchError>
where
    P: TensorInput<u32, 2>,
    F: TensorInput<u32, 1>,
{
    let [_, heads, d] = shape::<3>(&q.argument());
    let [_, key_heads, page, _] = shape::<4>(&k.argument());
    let [sequences, most] = shape::<2>(&batch.pages.argument());
    let tiles = (options.queries.max(1) * (heads / key_heads.max(1)).max(1)).div_ceil(ROWS);
    let splits = options.splits::<T>(sequences * tiles, key_heads, most * page / STEP);
    let (step, stages) = match (size_of::<T>(), d) {
        (2, 64) => (64, 4),
        (2, _) => (64, 3),
        (_, 64) => (32, 4),
        _ => (32, 3),
    };
    let params = DecodeParams { D: d, BN: step, STAGES: stages, SPLITS: splits };
    let scale = options.scale.map_or(1.0 / (d as f64).sqrt(), f64::from) * std::f64::consts::LOG2_E;
    let Batch { pages, first, lengths } = batch;
    let kernel = decode_kernel::decode::<T>::instance(on.device(), params)?;
    kernel.launch_on(on, q, k, v, pages, first, lengths, o, scale as f32, tiles)
}

/// The kernel, as data.
pub fn definition() -> &'static Definition {
    decode_kernel::decode::<f32>::definition()
}
