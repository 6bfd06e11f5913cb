//! `o = softmax(q k^T / sqrt(D)) v`: [`forward`] over whole sequences, [`forward_packed`] over packed ones of different length; over keys and values in pages, [`decode`] for few new tokens of each of
//! many sequences, [`append_and_decode`] for one new token of each, which is rotated and appended in the same launch, [`prefill`] for many
//! of one sequence.
//!
//! | module | what it is |
//! |---|---|
//! | [`append_kernel`] | the kernel of [`append_and_decode`] as it is written |
//! | [`causal_kernel`] | that of [`forward`] where a query sees the keys up to its own |
//! | [`decode_kernel`] | the kernel of [`decode`] as it is written |
//! | [`forward_kernel`] | the kernel of [`forward`] without a mask as it is written |
//! | [`options_kernel`] | that of [`forward`] with a window, a soft cap or sinks |
//! | [`packed_kernel`] | the kernel of [`forward_packed`] as it is written |
//! | [`parts`] | what the kernels share |
//! | [`prefill_kernel`] | the kernel of [`prefill`] as it is written |

pub mod append_kernel;
pub mod causal_kernel;
pub mod decode_kernel;
pub mod forward_kernel;
pub mod options_kernel;
pub mod packed_kernel;
pub mod parts;
pub mod prefill_kernel;
mod tile;

use crate::rope::Rope;
use append_kernel::AppendDecodeParams;
use causal_kernel::CausalParams;
use decode_kernel::DecodeParams;
use forward_kernel::ForwardParams;
use options_kernel::ForwardOptionsParams;
use packed_kernel::PackedParams;
use prefill_kernel::PrefillParams;
use tile::{Tile, Work};
use tile_runtime::dsl::{Float, Half};
use tile_runtime::kernel::{Argument, Definition, LaunchOn, Target, TensorInput, TensorOutput};
use tile_runtime::{Device, Error, LaunchError, Tensor, TensorView, TensorViewMut};

/// Rows of a block: queries of a sequence times the heads that share one head of keys.
const ROWS: usize = 16;
/// Parts that a sequence may be cut into.
const SPLITS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Parts that a sequence in f32 may be cut into: fewer, because f32 has no tensor-core products here, and a kernel of unrolled multiply-adds
/// takes NVRTC several seconds.
const SPLITS_F32: [usize; 2] = [1, 8];
/// Multiprocessors of an H100 or H200. Two blocks of [`decode`] run on each at once, or one that has a longer ring of stages.
const MULTIPROCESSORS: usize = 132;
/// Tiles of queries of one head of keys up to which sequences are cut: each has a counter of the parts that are done.
const COUNTERS: usize = 1024;
/// Stages of the ring of keys and values with which two blocks share a multiprocessor.
const SHARED_RING: usize = 2;
/// Stages of a ring with which a block has a multiprocessor for itself. For 16,384 keys of one sequence [`decode`] takes 22.2 us with three, 22.5 with four
/// and 23.0 with five. [`append_and_decode`], whose loop is written out once a stage, took 2 to 5 us more with five between the other kernels of a model, though
/// not alone: its code probably comes from memory each time.
const OWN_RING: usize = 3;
/// Steps of a block up to which blocks are not worth sharing a multiprocessor, however few they are.
const FEW_STEPS: usize = 4;
/// Blocks from which on one on each multiprocessor keeps the device as busy as two.
const FULL: usize = 118;
/// Parts from which on there are instances with a ring for a block by itself.
const LEAST_PARTS: usize = 4;
/// Clusters of so many blocks that an H100 or H200 runs at once, one block on a multiprocessor: groups of multiprocessors are not all whole.
const CLUSTERS: [(usize, usize); 3] = [(8, 15), (4, 30), (2, 66)];
/// Stages of the ring of a block of [`decode`] in a cluster, which has a multiprocessor for itself.
const CLUSTER_RING: usize = 5;
/// Steps of a block up to which clusters that do not fill the device are taken: 4,096 keys of one sequence in 8 parts take 9.0 us, in 16 without
/// clusters 9.7, and 16,384 more than without (`decode_attention --variants`, H200); between them nothing was timed.
const CLUSTER_STEPS: usize = 8;
/// Keys of a warp of a block in a step.
const KEYS: usize = 16;
/// Warps of a block of 16-bit elements.
const WARPS: usize = 4;
/// Warps of a block in a cluster whose sequences are longer than [`FEW_CLUSTER_STEPS`]: a warp's step takes as long whatever runs beside it, and eight have
/// twice the keys in the same time.
const CLUSTER_WARPS: usize = 8;
/// Stages of the ring of a block of eight warps: 4,096 and 16,384 keys of one sequence take 7.9 and 19.8 us with two, 8.0 and 20.1 with three
/// (`decode_attention --variants`, H200).
const EIGHT_RING: usize = 2;
/// Steps of four warps up to which a block in a cluster has four: 1,024 keys of one sequence, two steps, take 4.95 us with four warps and 4.88 with eight, 4,096 take
/// 8.9 and 8.0 (`decode_attention --variants`, H200).
const FEW_CLUSTER_STEPS: usize = 1;
/// Blocks of eight warps from which on one on each of as many multiprocessors keeps the memory busy: 16,384 keys of one sequence take 19.8 us in 64 such blocks, and 21.9 in
/// 128 blocks of four warps (`decode_attention --variants`, H200).
const FULL_OF_EIGHT: usize = 60;
/// Keys of a step of [`prefill`].
const PREFILL_STEP: usize = 128;

/// Bytes of keys and values that stay in an H200's second-level cache while tiles of all of them are computed.
const CACHED: usize = 24 << 20;
/// Tiles of a multiprocessor below which the tiles of all sequences are computed together, the longest first.
const FEW_TILES: usize = 4;

/// How many heads with `d` elements and values of `dv` may have their queries in one tile, of each `group` that share keys.
fn of_tile(group: usize, heads: [usize; 2]) -> usize {
    let together = if matches!(heads, [64, 64] | [128, 128]) { [8, 4, 2, 1] } else { [1; 4] };
    together.into_iter().find(|together| group.is_multiple_of(*together)).unwrap_or(1)
}

/// What [`decode`] does beside its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decode {
    /// The most queries that any sequence has; 0 stands for 1. A sequence that has more gets no result for the rest.
    pub queries: usize,
    /// Factor of the products before the softmax; `1 / sqrt(D)` where none is given.
    pub scale: Option<f32>,
    /// Into how many parts of keys, each a block's, a sequence is cut: rounded down to 1, 2, 4, 8, 16 or 32 (of f32 to 1 or 8). Where
    /// none is given, as many as fill the device with parts of at least 64 keys (of 16 in f32). 1 where the sequences have more than
    /// 1,024 tiles of 16 rows. Results with different numbers differ by rounding, so whoever wants results that do not depend on how
    /// many sequences there are gives one.
    pub splits: Option<usize>,
}

impl Decode {
    /// Tiles of 16 rows that the queries of a sequence have, of one head of keys.
    fn tiles(self, heads: usize, key_heads: usize) -> usize {
        (self.queries.max(1) * (heads / key_heads.max(1)).max(1)).div_ceil(ROWS)
    }

    /// The instance of [`decode_kernel::decode`] that [`decode`] launches on a device for `[H, HK, D]` and tables of `[B, L]` with pages of `PAGE` keys, given as
    /// `[B, L, PAGE]`: whoever times instances finds the one that is taken so.
    pub fn params<T: Float>(
        self,
        device: &Device,
        [heads, key_heads, d]: [usize; 3],
        [sequences, most, page]: [usize; 3],
    ) -> DecodeParams {
        let tiles = self.tiles(heads, key_heads);
        let has_clusters = device.supports(Target::Sm90a);
        let may_have_eight = d == 128 && page.is_multiple_of(CLUSTER_WARPS * KEYS) && self.splits.is_none();
        let Cut { splits, cluster, ring, warps } = self.cut::<T>(
            has_clusters.then_some(may_have_eight),
            sequences * tiles,
            key_heads,
            most * page / (warps::<T>() * KEYS),
        );
        // Half the rows suffice for one query of few heads.
        let is_half = size_of::<T>() == 2 && heads <= ROWS / 2 * key_heads && self.queries <= 1;
        let rows = if is_half && (d == 128 || cluster > 1) { ROWS / 2 } else { ROWS };
        let stages = match (size_of::<T>(), d) {
            (_, 64) => 4,
            (2, _) => ring,
            _ => 3,
        };
        DecodeParams { D: d, BN: KEYS, WARPS: warps, STAGES: stages, SPLITS: splits, CLUSTER: cluster, ROWS: rows }
    }

    /// How sequences are cut, for so many tiles of queries, heads of keys, and at most so many steps of keys. `clusters`: whether their blocks may have
    /// eight warps; `None` where there are none.
    fn cut<T>(self, clusters: Option<bool>, tiles: usize, key_heads: usize, steps: usize) -> Cut {
        let all = if size_of::<T>() == 2 { &SPLITS[..] } else { &SPLITS_F32[..] };
        let at_most = |most: usize| match tiles > COUNTERS {
            true => 1,
            false => all.iter().copied().rfind(|splits| *splits <= most).unwrap_or(1),
        };
        let heads = (tiles * key_heads).max(1);
        let wanted = self.splits.map(at_most);
        // Blocks of a cluster add their parts sooner than those that meet in global memory (0.8 us of 6.3 for 1,024 keys of one sequence in 8 parts); but there are at most eight,
        // too few where they do not fill the device and have much to do.
        let full = if clusters == Some(true) { FULL_OF_EIGHT } else { FULL };
        let fits = |&&(blocks, at_once): &&(usize, usize)| {
            let is_wanted = wanted.map_or(blocks <= steps, |wanted| wanted == blocks);
            let is_short = steps.div_ceil(blocks) <= CLUSTER_STEPS;
            heads <= at_once && is_wanted && (is_short || blocks * heads >= full)
        };
        if let Some(may_have_eight) = clusters
            && size_of::<T>() == 2
            && let Some(&(splits, _)) = CLUSTERS.iter().find(fits)
        {
            let (warps, ring) = match may_have_eight && steps.div_ceil(splits) > FEW_CLUSTER_STEPS {
                true => (CLUSTER_WARPS, EIGHT_RING),
                false => (WARPS, CLUSTER_RING),
            };
            return Cut { splits, cluster: splits, ring, warps };
        }
        let is_own = |splits: usize| {
            let blocks = splits * heads;
            let is_short = steps.div_ceil(splits) <= FEW_STEPS;
            splits >= LEAST_PARTS && blocks <= MULTIPROCESSORS && (is_short || blocks >= FULL)
        };
        let few = at_most((MULTIPROCESSORS / heads).min(steps));
        let many = || at_most((2 * MULTIPROCESSORS / heads).min(steps / 2));
        let splits = wanted.unwrap_or_else(|| if is_own(few) { few } else { many() });
        Cut { splits, cluster: 1, ring: if is_own(splits) { OWN_RING } else { SHARED_RING }, warps: warps::<T>() }
    }
}

/// How a launch cuts its sequences.
struct Cut {
    /// Parts of a sequence.
    splits: usize,
    /// Blocks of a cluster: all the parts, or 1.
    cluster: usize,
    /// Stages of a block's ring for heads of 128 elements of 16 bits.
    ring: usize,
    /// Warps of a block.
    warps: usize,
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
/// | `k`, `v` | `[P, HK, PAGE, D]` | P pages of PAGE keys, a multiple of 64 (of 16 for f32; a page may hold a whole sequence: a contiguous cache) |
/// | `batch` | | which pages and queries belong to which sequence |
/// | `o` | `[S, H, D]` | the result; rows that belong to no sequence are left as they are |
///
/// Head `h` of `q` uses head `h / (H / HK)` of `k`. A sequence's last query sees all its keys, each one before it one less; a
/// query that sees none gets 0. A sequence without queries costs nothing. Pages and lengths are read on the device, so a captured launch
/// follows what is written to them. A page beyond P reads as zeros. All of a page in use must be finite, also behind the end of
/// the sequence: what is there is multiplied by 0.
///
/// # Errors
/// Where H is no multiple of HK, HK is more than 64, D neither 64 nor 128, PAGE no multiple of what is said above or shapes differ; where `o` overlaps an
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
    let tiles = options.tiles(heads, key_heads);
    let params = options.params::<T>(on.device(), [heads, key_heads, d], [sequences, most, page]);
    let scale = options.scale.map_or(1.0 / (d as f64).sqrt(), f64::from) * std::f64::consts::LOG2_E;
    let Batch { pages, first, lengths } = batch;
    let kernel = decode_kernel::decode::<T>::instance(on.device(), params)?;
    kernel.launch_on(on, q, k, v, pages, first, lengths, o, scale as f32, tiles)
}

/// Whether [`append_and_decode`] takes heads of `d` elements of this type, `group` query heads for each key head.
pub fn has_append<T: Float>(d: usize, group: usize) -> bool {
    size_of::<T>() == 2 && [64, 128].contains(&d) && (1..=ROWS).contains(&group)
}

/// The attention of a decode step in one launch: what [`rope::append`](crate::rope::append) and then [`decode`] do for one new token of each of B
/// sequences.
///
/// | tensor | shape | |
/// |---|---|---|
/// | `qkv` | `[B, (H + 2 HK) D]` | a token's H query heads, then its HK key heads, then its HK value heads; D = 64 or 128, in f16 or bf16 |
/// | `caches` | `[P, HK, PAGE, D]` each | keys and values: P pages of PAGE keys, a multiple of 64 |
/// | `pages` | `[B, L]` | which page holds the keys `i PAGE` to `(i + 1) PAGE` of each sequence |
/// | `lengths` | `[B]` | how many keys each sequence has with the new one, whose position is one less |
/// | `o` | `[B, H, D]` | the result |
///
/// Queries and keys are normed and rotated as `rope` says. A sequence of length 0 stores nothing, and its result is 0. A page beyond P reads as zeros and
/// stores nothing; two sequences do not share the page that is appended to. All of a page in use must be finite, also behind the end of the
/// sequence: what is there is multiplied by 0. `options.queries` is not looked at. The new key and value enter the softmax in f32.
///
/// The launch may begin before the previous kernel of its stream is done, where that one writes nothing but `qkv`: tables, weights, pages and
/// the first keys and values are then read before it.
///
/// # Errors
/// What [`has_append`] says no to; where H is no multiple of HK, HK is more than 64, PAGE no multiple of 64, shapes differ, tensors overlap that are
/// written; where tables or weights are not aligned to 16 bytes; and whatever compiling and launching may fail with. Nothing is launched then.
#[track_caller]
#[allow(clippy::too_many_arguments)]
pub fn append_and_decode<T: Float>(
    on: &impl LaunchOn,
    rope: &Rope<'_, T>,
    qkv: impl TensorInput<T, 2>,
    caches: [impl TensorOutput<T, 4>; 2],
    pages: impl TensorInput<u32, 2>,
    lengths: impl TensorInput<u32, 1>,
    mut o: impl TensorOutput<T, 3>,
    options: Decode,
) -> Result<(), LaunchError> {
    let [mut keys, values] = caches;
    let Rope { cosines, sines, q_norm, k_norm, epsilon } = *rope;
    let [_, heads, d] = shape::<3>(&o.argument());
    let [_, key_heads, page, _] = shape::<4>(&keys.argument());
    let [sequences, most] = shape::<2>(&pages.argument());
    // Without clusters: in a decode step of Qwen3-8B this launch took 6.4 us with them and 5.9 without at 1,024 keys, 29.6 and 26.7 at 16,384
    // (`tile-llm bench --random qwen3-8b --profile`, H100): a cluster's blocks begin together, behind the product before.
    let Cut { splits, ring, .. } = options.cut::<T>(None, sequences, key_heads, most * page / (WARPS * KEYS));
    let stages = if d == 64 { 4 } else { ring };
    let rows = if heads <= ROWS / 2 * key_heads { ROWS / 2 } else { ROWS };
    let params = AppendDecodeParams { D: d, BN: KEYS, WARPS, STAGES: stages, SPLITS: splits, ROWS: rows };
    let scale = options.scale.map_or(1.0 / (d as f64).sqrt(), f64::from) * std::f64::consts::LOG2_E;
    let kernel = append_kernel::append_decode::<T>::instance(on.device(), params)?;
    kernel.launch_on(on, keys, values, o, qkv, cosines, sines, q_norm, k_norm, pages, lengths, scale as f32, epsilon)
}

/// Warps of a block that is in no cluster of longer sequences.
const fn warps<T>() -> usize {
    if size_of::<T>() == 2 { WARPS } else { 1 }
}

/// What PAGE must be a multiple of for [`decode`].
pub const fn decode_page<T>() -> usize {
    KEYS * warps::<T>()
}

/// Whether [`prefill`] takes heads of `d` elements of this type and pages of `page` keys.
pub fn has_prefill<T: Float>(d: usize, page: usize) -> bool {
    size_of::<T>() == 2 && [64, 128].contains(&d) && page > 0 && page.is_multiple_of(PREFILL_STEP)
}

/// Attention of the S newest tokens of one sequence, whose keys and values lie in pages: every token sees the keys up to its own.
///
/// | tensor | shape | |
/// |---|---|---|
/// | `q` | `[S, H, D]` | the queries, D = 64 or 128, in f16 or bf16 |
/// | `k`, `v` | `[P, HK, PAGE, D]` | P pages of PAGE keys, a multiple of 128 |
/// | `pages` | `[L]` | which page holds the keys `i PAGE` to `(i + 1) PAGE` |
/// | `o` | `[S, H, D]` | the result |
///
/// `past` keys are of earlier tokens: the first of `q` is token number `past`, and the pages hold `past + S` keys. Head `h` of `q` uses
/// head `h / (H / HK)` of `k`. Products are multiplied by `scale`, `1 / sqrt(D)` where none is given. Pages are read on the device; a page beyond P
/// reads as zeros. All of a page in use must be finite, also behind the end of the sequence: what is there is multiplied by 0. Bound by
/// arithmetic: for few tokens [`decode`] is faster.
///
/// # Errors
/// What [`has_prefill`] says no to; where H is no multiple of HK or shapes differ; where `o` overlaps an operand; and
/// whatever compiling and launching may fail with. Nothing is launched then.
#[track_caller]
#[allow(clippy::too_many_arguments)]
pub fn prefill<T: Half>(
    on: &impl LaunchOn,
    q: TensorView<'_, T, 3>,
    k: impl TensorInput<T, 4>,
    v: impl TensorInput<T, 4>,
    pages: impl TensorInput<u32, 1>,
    o: TensorViewMut<'_, T, 3>,
    past: usize,
    scale: Option<f32>,
) -> Result<(), Error> {
    let ([_, heads, d], [_, key_heads, ..]) = (q.shape(), shape::<4>(&k.argument()));
    let scale = scale.map_or(1.0 / (d as f64).sqrt(), f64::from) * std::f64::consts::LOG2_E;
    let group = of_tile(heads / key_heads.max(1), [d, d]);
    let params = PrefillParams { BM: 128, BN: PREFILL_STEP, D: d, THREADS: 256, STAGES: 2, GROUP: group };
    let kernel = prefill_kernel::prefill::<T>::instance(on.device(), params)?;
    Ok(kernel.launch_on(on, q, k, v, pages, o, scale as f32, past)?)
}

/// What [`forward`] and [`forward_packed`] do beside their tensors.
///
/// A query's *own* key is the one that stands where it does when the last query and the last key of a sequence stand together: query `i` of M
/// has key number `N - M + i` of N.
#[derive(Debug, Default)]
pub struct Forward<'a> {
    /// A query sees no key after its own: the last query sees all of them.
    pub causal: bool,
    /// Factor of the products before the softmax, above 0; `1 / sqrt(D)` where none is given.
    pub scale: Option<f32>,
    /// The most keys before its own that a query sees: all where none is given.
    pub left: Option<usize>,
    /// The most keys after its own that a query sees, where it is not `causal`: all where none is given.
    pub right: Option<usize>,
    /// Scores become `cap tanh(s / cap)`, after the scale and before the mask. By the hardware's tanh, whose relative error is up to 2^-11.
    pub soft_cap: Option<f32>,
    /// `[H]`: one more score for each head, as if of a key that every query sees and whose value is 0. Neither scaled nor capped.
    pub sinks: Option<&'a Tensor<f32, 1>>,
    /// Queries and keys that a block multiplies in a step. For heads of 64 elements 128 and 128, or on Hopper 192 and 128; for heads of 128 elements 128 and 128, or
    /// on Hopper 192 and 80; other heads have one tile. Where none is given, the tile that is expected to be the fastest. Results of tiles with different numbers of keys
    /// differ by rounding, so whoever wants results that depend neither on the batch nor on the number of heads gives one. With a window, a soft cap or sinks
    /// [`forward`] has tiles of 128 queries only.
    pub tile: Option<[usize; 2]>,
    /// `[B, H, M]`, of [`forward_packed`] `[1, H, S]`: where the natural logarithm of each row's sum of exponentials is written, a sink included.
    pub log_sum_exp: Option<&'a mut Tensor<f32, 3>>,
}

/// Scalars of a launch.
struct Scalars {
    /// Factor of the exponents of two, and of what the tanh of a soft cap is taken of.
    scale: f32,
    inner: f32,
    left: usize,
    right: usize,
}

impl Forward<'_> {
    /// The scalars for heads of `d` elements, or what is wrong with the options.
    fn scalars(&self, function: &'static str, d: usize) -> Result<Scalars, Error> {
        let refuse = |problem: String| Err(Error::Unsupported { function, problem });
        let is_factor = |x: f32| x.is_finite() && x > 0.0;
        if let Some(scale) = self.scale.filter(|scale| !is_factor(*scale)) {
            return refuse(format!("the scale is a finite number above 0, not {scale}"));
        }
        if let Some(cap) = self.soft_cap.filter(|cap| !is_factor(*cap)) {
            return refuse(format!("the soft cap is a finite number above 0, not {cap}"));
        }
        if let (true, Some(right @ 1..)) = (self.causal, self.right) {
            return refuse(format!("a causal query sees no key after its own, and right = {right} shows some"));
        }
        let scale = self.scale.map_or(1.0 / (d as f64).sqrt(), f64::from);
        let (factor, inner) = match self.soft_cap.map(f64::from) {
            Some(cap) => (cap, scale / cap),
            None => (scale, 0.0),
        };
        let right = if self.causal { Some(0) } else { self.right };
        let [left, right] = [self.left, right].map(|keys| keys.unwrap_or(ALL_KEYS).min(ALL_KEYS));
        Ok(Scalars { scale: (factor * std::f64::consts::LOG2_E) as f32, inner: inner as f32, left, right })
    }

    /// Refuses more queries or keys of a sequence than indices of 32 bits are sure to count.
    fn counted(function: &'static str, queries: usize, keys: usize) -> Result<(), Error> {
        if queries.max(keys) <= MOST_KEYS {
            return Ok(());
        }
        let problem =
            format!("at most {MOST_KEYS} queries and keys are taken; here are {queries} queries and {keys} keys");
        Err(Error::Unsupported { function, problem })
    }

    /// The tile of those that a kernel has for heads of `d` elements with values of `dv`, and the way to see the work, of which the least time is expected; or
    /// what is wrong: with the heads, which `problem` says, or with the tile that is asked for.
    fn fastest(
        &self,
        function: &'static str,
        device: &Device,
        works: [Option<Work>; 2],
        [d, dv]: [usize; 2],
        has: impl Fn(&Tile) -> bool,
        problem: impl FnOnce() -> String,
    ) -> Result<(Tile, Work), Error> {
        let is_hopper = device.supports(Target::Sm90a);
        let tiles = || Tile::of(d, dv).iter().filter(|tile| has(tile) && (is_hopper || !tile.needs_hopper()));
        let asked = tiles().filter(|tile| self.tile.is_none_or(|asked| asked == [tile.rows, tile.keys]));
        if let Some(fastest) = tile::fastest(asked.copied(), works) {
            return Ok(fastest);
        }
        let there: Vec<String> = tiles().map(|tile| format!("{} x {}", tile.rows, tile.keys)).collect();
        let problem = match self.tile {
            Some([rows, keys]) if !there.is_empty() => format!(
                "heads of {d} elements have tiles of {} queries and keys here; a tile of {rows} x {keys} was asked for",
                there.join(" or ")
            ),
            _ => problem(),
        };
        Err(Error::Unsupported { function, problem })
    }

    /// Whether the kernel without options does it.
    fn is_plain(&self) -> bool {
        let Forward { left, right, soft_cap, sinks, .. } = self;
        left.is_none()
            && right.unwrap_or(0) == 0
            && right.is_some() <= self.causal
            && soft_cap.is_none()
            && sinks.is_none()
    }
}

/// The most queries and keys of the kernels with windows.
const MOST_KEYS: usize = 1 << 28;
/// More keys than a sequence has.
const ALL_KEYS: usize = 2 * MOST_KEYS;

/// Attention over whole sequences: `o = softmax(scale q k^T) v`.
///
/// | tensor | shape | |
/// |---|---|---|
/// | `q` | `[B, H, M, D]` | the queries of B sequences, in f16 or bf16 |
/// | `k` | `[B, HK, N, D]` | the keys; head `h` of `q` uses head `h / (H / HK)` |
/// | `v` | `[B, HK, N, DV]` | the values |
/// | `o` | `[B, H, M, DV]` | the result |
///
/// Heads have D = DV = 64, 96, 128 or 256 elements, or D = 192 and DV = 128; with a window, a soft cap or sinks, and where queries may see no
/// key, 64, 128 or 256. The two longest need the shared memory of an H100. A query that sees no key gets 0, and negative infinity as its logarithm.
///
/// Views with any strides but the last, which is 1, are taken: a tensor `[B, S, H, D]` is one with two axes exchanged
/// ([`TensorView::swap_axes`]). Bound by arithmetic: for few queries [`decode`] is faster. Blocks of keys that a window hides are not visited. The
/// result has the same bits however often it is computed; for heads of 128 elements they depend on the batch and the number of heads, unless [`Forward::tile`]
/// is given.
///
/// # Errors
/// Other heads; options that contradict each other or are out of their range; H that is no multiple of HK; shapes that differ; `o` that
/// overlaps an operand; and whatever compiling and launching may fail with. Nothing is launched then.
#[track_caller]
pub fn forward<T: Half>(
    on: &impl LaunchOn,
    q: TensorView<'_, T, 4>,
    k: TensorView<'_, T, 4>,
    v: impl TensorInput<T, 4>,
    mut o: impl TensorOutput<T, 4>,
    options: Forward<'_>,
) -> Result<(), Error> {
    const NAME: &str = "attention::forward";
    let ([batch, heads, queries, d], [_, key_heads, keys, _]) = (q.shape(), k.shape());
    let [.., dv] = shape::<4>(&v.argument());
    let Scalars { scale, inner, left, right } = options.scalars(NAME, d)?;
    let (group, past) = (heads / key_heads.max(1), keys.saturating_sub(queries));
    let Forward { causal, soft_cap, sinks, .. } = options;
    if options.is_plain() && keys >= if causal { queries.max(1) } else { 1 } {
        let work = Work { heads: batch.saturating_mul(heads), of_tile: 1, queries, keys, ragged: false, causal };
        // The heads that use the same keys may have their queries in one tile, which is filled better: as one head with the queries of all, where memory has them side
        // by side, or where the kernel has tiles of so many heads.
        let merged = |d| [batch, key_heads, group.saturating_mul(queries), d];
        let together = if causal {
            Some(Work { of_tile: of_tile(group, [d, dv]), ..work })
        } else {
            let can_merge = group > 1
                && heads == group * key_heads
                && options.log_sum_exp.is_none()
                && q.reshape(merged(d)).is_ok()
                && o.to_view().is_some_and(|o| o.reshape(merged(dv)).is_ok());
            can_merge.then(|| work.merged(group))
        };
        let problem = || {
            format!(
                "heads of 64, 96, 128 or 256 elements are taken, or of 192 with values of 128; here are {d} with values of {dv}"
            )
        };
        let works = [Some(work), together];
        let (tile, taken) = options.fastest(NAME, on.device(), works, [d, dv], |_| true, problem)?;
        let (rows, keys, threads, sums) = (tile.rows, tile.keys, 2 * tile.rows, options.log_sum_exp);
        if causal {
            let params = CausalParams { BM: rows, BN: keys, D: d, DV: dv, THREADS: threads, GROUP: taken.of_tile };
            let kernel = causal_kernel::causal::<T>::instance(on.device(), params)?;
            let o = o.to_view().map(|o| o.swap_axes(1, 2)).transpose()?;
            let refuse = || Error::Unsupported { function: NAME, problem: "results have no four axes".into() };
            let o = o.ok_or_else(refuse)?;
            let bytes = [key_heads, keys, d + dv, size_of::<T>()].into_iter().fold(batch, usize::saturating_mul);
            // Else the order of tiles that share keys matters more.
            let together = bytes <= CACHED && taken.tiles(tile) < FEW_TILES * MULTIPROCESSORS;
            let section = if together { batch.max(1) } else { 1 };
            kernel.launch_on(on, q.swap_axes(1, 2)?, k, v, o, sums, scale, group, past, section)?;
            return Ok(());
        }
        let one_head = o.to_view().filter(|_| taken != work).map(|o| o.reshape(merged(dv))).transpose()?;
        let params = ForwardParams { BM: rows, BN: keys, D: d, DV: dv, THREADS: threads };
        let kernel = forward_kernel::forward::<T>::instance(on.device(), params)?;
        match one_head {
            Some(o) => kernel.launch_on(on, q.reshape(merged(d))?, k, v, o, sums, scale, 1)?,
            None => kernel.launch_on(on, q, k, v, o, sums, scale, group)?,
        }
        return Ok(());
    }
    Forward::counted(NAME, queries, keys)?;
    let work = Work { heads: batch.saturating_mul(heads), of_tile: 1, queries, keys, ragged: false, causal };
    let has = |tile: &Tile| tile.rows == 128 && matches!(d, 64 | 128 | 256);
    let problem = || {
        format!(
            "with a window, a soft cap or sinks, and where queries may see no key ({queries} queries, {keys} keys), heads of 64, 128 or \
             256 elements are taken; here are {d} with values of {dv}"
        )
    };
    let (tile, _) = options.fastest(NAME, on.device(), [Some(work), None], [d, dv], has, problem)?;
    let params = ForwardOptionsParams { BM: 128, BN: tile.keys, D: d, THREADS: 256, CAP: soft_cap.is_some() };
    let kernel = options_kernel::forward_options::<T>::instance(on.device(), params)?;
    Ok(kernel.launch_on(on, q, k, v, o, sinks, options.log_sum_exp, scale, inner, group, left, right)?)
}

/// Where the sequences of [`forward_packed`] begin.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// `[B + 1]`: the first query of each sequence, and the end of the last one's.
    pub first_query: &'a Tensor<i32, 1>,
    /// `[B + 1]`: the first key of each sequence, and the end of the last one's.
    pub first_key: &'a Tensor<i32, 1>,
}

/// [`forward`] over sequences of different length, which lie one behind the other.
///
/// | tensor | shape | |
/// |---|---|---|
/// | `q` | `[S, H, D]` | the queries of all sequences, in f16 or bf16 |
/// | `k` | `[K, HK, D]` | the keys; head `h` of `q` uses head `h / (H / HK)` |
/// | `v` | `[K, HK, DV]` | the values |
/// | `packed` | | which queries and keys belong to which sequence |
/// | `o` | `[S, H, DV]` | the result; rows that belong to no sequence are left as they are |
///
/// Heads have D = DV = 64, 128 or 256 elements, or without a soft cap D = 192 and DV = 128. A query sees keys of its own sequence, masked as
/// [`Forward`] says with the sequence's numbers of queries and keys; one that sees none gets 0, and negative infinity as its logarithm. The offsets are read on
/// the device, so that a captured launch follows what is written to them; what of them lies outside of `q` or `k` is cut off. Keys and values must be
/// finite, also those of no sequence: what stands behind a sequence's last key is multiplied by 0.
///
/// # Errors
/// As [`forward`]; offsets of another number of sequences for queries than for keys.
#[track_caller]
pub fn forward_packed<T: Half>(
    on: &impl LaunchOn,
    q: TensorView<'_, T, 3>,
    k: TensorView<'_, T, 3>,
    v: TensorView<'_, T, 3>,
    packed: Packed<'_>,
    o: TensorViewMut<'_, T, 3>,
    options: Forward<'_>,
) -> Result<(), Error> {
    const NAME: &str = "attention::forward_packed";
    let ([queries, heads, d], [keys, key_heads, _], [.., dv]) = (q.shape(), k.shape(), v.shape());
    let Scalars { scale, inner, left, right } = options.scalars(NAME, d)?;
    Forward::counted(NAME, queries, keys)?;
    let (cap, sequences) = (options.soft_cap.is_some(), packed.first_query.len().saturating_sub(1));
    // Only the device knows how long each sequence is.
    let [mean_queries, mean_keys] = [queries, keys].map(|all| all.div_ceil(sequences.max(1)));
    let heads_of_all = heads.saturating_mul(sequences);
    // The kernel with a window is the one with a soft cap, too.
    let window = cap || options.left.is_some();
    let group = heads / key_heads.max(1);
    let of_tile = if window { 1 } else { of_tile(group, [d, dv]) };
    let (ragged, causal) = (sequences > 1, options.causal);
    let work = Work { heads: heads_of_all, of_tile, queries: mean_queries, keys: mean_keys, ragged, causal };
    let has = |tile: &Tile| match d {
        64 | 128 | 256 => tile.rows == 128 || !window,
        192 => !cap,
        _ => false,
    };
    let problem = || {
        format!(
            "heads of 64, 128 or 256 elements are taken, or without a soft cap of 192 with values of 128; here are {d} with values of \
             {dv}{}",
            if cap { " and a soft cap" } else { "" }
        )
    };
    let (tile, _) = options.fastest(NAME, on.device(), [Some(work), None], [d, dv], has, problem)?;
    let Packed { first_query, first_key } = packed;
    let params = PackedParams {
        BM: tile.rows,
        BN: tile.keys,
        D: d,
        DV: dv,
        THREADS: 2 * tile.rows,
        WINDOW: window,
        CAP: cap,
        GROUP: of_tile,
    };
    let kernel = packed_kernel::packed::<T>::instance(on.device(), params)?;
    let (k, v) = (k.swap_axes(0, 1)?, v.swap_axes(0, 1)?);
    let (sinks, sums) = (options.sinks, options.log_sum_exp);
    Ok(kernel.launch_on(
        on,
        q,
        k,
        v,
        first_query,
        first_key,
        o,
        sinks,
        sums,
        scale,
        inner,
        group,
        sequences,
        sequences.next_power_of_two().trailing_zeros() as usize,
        left,
        right,
    )?)
}

/// The kernels, as data.
pub fn definitions() -> [&'static Definition; 7] {
    [
        append_kernel::append_decode::<f32>::definition(),
        decode_kernel::decode::<f32>::definition(),
        forward_kernel::forward::<tile_runtime::f16>::definition(),
        causal_kernel::causal::<tile_runtime::f16>::definition(),
        options_kernel::forward_options::<tile_runtime::f16>::definition(),
        packed_kernel::packed::<tile_runtime::f16>::definition(),
        prefill_kernel::prefill::<tile_runtime::f16>::definition(),
    ]
}
