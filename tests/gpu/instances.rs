//! Every declared instance of every bundled kernel on three small shapes, each result compared with the CPU's: what
//! `bench/sanitize.sh` runs under compute-sanitizer.
//!
//! `TILE_SHARD=0/8` runs the first of eight parts of the instances, `TILE_INSTANCES=TEXT` those whose name contains the text,
//! such as `gemm<bf16,bf16> BM=128`. The simulator runs two of each kernel where neither is set.

mod product;
mod select;
mod vector;

use product::Family;
use select::{Declared, Selection, each};
use tile_kernel_examples::data::Real;
use tile_kernels::gemm::batched;
use tile_kernels::gemm::batched::kernel::{
    GemmBatchAnyTf32Params, GemmBatchParams, GemmBatchTf32Params, gemm_batch, gemm_batch_any_tf32, gemm_batch_tf32,
};
use tile_kernels::gemm::batched::split::{GemmBatchClusterParams, gemm_batch_cluster};
use tile_kernels::gemm::exchange::{GemmExchangeParams, gemm_exchange};
use tile_kernels::gemm::kernel::{GemmParams, gemm};
use tile_kernels::gemm::partial::{
    AddPartialParams, GemmPartialCopiedParams, GemmPartialParams, add_partial, gemm_partial, gemm_partial_copied,
};
use tile_kernels::gemm::parts::{GemmPartsParams, gemm_parts};
use tile_kernels::gemm::split::{GemmClusterParams, GemmSlotsParams, gemm_cluster, gemm_slots};
use tile_kernels::gemm::tf32::{GemmAnyTf32Params, GemmTf32Params, gemm_any_tf32, gemm_tf32};
use tile_kernels::gemv::bulk::{GemvBulkParams, gemv_bulk};
use tile_kernels::gemv::columns::{GemvColumnsParams, gemv_columns};
use tile_kernels::gemv::kernel::{GemvParams, gemv};
use tile_kernels::gemv::lines::{GemvLinesParams, gemv_lines};
use tile_kernels::gemv::ring::{GemvRingParams, gemv_ring};
use tile_kernels::gemv::rows::{GemvRowsParams, gemv_rows};
use tile_kernels::gemv::specialized::{GemvSpecializedParams, gemv_specialized};
use tile_kernels::gemv::split::{GemvSplitParams, gemv_split};
use tile_kernels::gemv::{Choice, Gemv, GemvElement};
use tile_runtime::kernel::Target;
use tile_runtime::prelude::*;

/// Tiles beside one another, more than an H200 has multiprocessors.
const WAVES: usize = 140;

/// What takes tiles in turns, and any rows.
const TURNS: Family = Family { step: 0, batches: 1, wide: WAVES, ragged: 3 };
/// A block a tile.
const BLOCKS: Family = Family { wide: 3, ..TURNS };

/// The parameters of a kernel's instance: sizes, and after the semicolon flags.
macro_rules! params {
    ($instance:ident, $params:ident { $($size:ident),* $(; $($flag:ident),*)? }) => {
        $params { $($size: $instance.size(stringify!($size)),)* $($($flag: $instance.flag(stringify!($flag)),)*)? }
    };
}

/// Calls a generic function with an instance's types.
macro_rules! typed {
    ($run:ident($device:expr, $instance:expr): $($($t:ty),+;)*) => {
        match &$instance.dtypes[..] {
            $(dtypes if dtypes == [$(<$t as Element>::DTYPE),+] => $run::<$($t),+>($device, $instance),)*
            dtypes => Err(format!("{dtypes:?} are not among this test's types")),
        }
    };
}

/// Launches a kernel of matrices, of which there is a batch of one.
macro_rules! launch {
    ($kernel:ident) => {
        |o| {
            let rank = "a batch of one has a first matrix";
            let (a, b, c) = (o.a.row(0).expect(rank), o.b.row(0).expect(rank), o.c.row(0).expect(rank));
            $kernel.launch(a, b, c, o.bias, o.alpha, o.beta, o.activation)
        }
    };
}

fn gemm_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmParams { BM, BN, BK, STAGES, THREADS, CX, CY; A_T, B_T, EPILOGUE });
    let kernel = gemm::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<T, U>(device, i, TURNS, launch!(kernel))
}

fn batch_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmBatchParams { BM, BN, BK, STAGES, THREADS, CX, CY; A_T, B_T, EPILOGUE });
    let kernel = gemm_batch::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<T, U>(device, i, Family { batches: 2, wide: WAVES / 2, ..TURNS }, |o| {
        kernel.launch(o.a, o.b, o.c, o.bias, o.alpha, o.beta, o.activation)
    })
}

fn batch_cluster_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmBatchClusterParams { BM, BN, BK, STAGES, THREADS, CK; TF32, A_T, B_T, EPILOGUE });
    let kernel = gemm_batch_cluster::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<T, U>(device, i, Family { batches: 2, ..BLOCKS }, |o| {
        kernel.launch(o.a, o.b, o.c, o.bias, o.alpha, o.beta, o.activation)
    })
}

fn cluster_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmClusterParams { BM, BN, BK, STAGES, THREADS, CK; A_T, B_T, EPILOGUE });
    let kernel = gemm_cluster::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<T, U>(device, i, BLOCKS, launch!(kernel))
}

fn exchange_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmExchangeParams { BM, BN, BK, STAGES, THREADS, CK; A_T, B_T });
    let kernel = gemm_exchange::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    // The kernel takes columns by eights.
    product::run::<T, U>(device, i, Family { ragged: 8, ..BLOCKS }, launch!(kernel))
}

fn slots_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmSlotsParams { BM, BN, BK, STAGES, THREADS, S; A_T, B_T });
    let kernel = gemm_slots::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    // It demands an N of eights. As many slots as it takes, and fewer.
    let slots = params.S - i.index % 3;
    product::run::<T, U>(device, i, Family { ragged: 8, ..BLOCKS }, |o| {
        let rank = "a batch of one has a first matrix";
        let (a, b, c) = (o.a.row(0).expect(rank), o.b.row(0).expect(rank), o.c.row(0).expect(rank));
        kernel.launch(a, b, c, o.bias, o.alpha, o.beta, o.activation, slots)
    })
}

/// The sums of one, two or five parts of K, and what adds them.
fn partial_instance<T: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmPartialParams { BM, BN, BK, STAGES, THREADS, CX, CY; A_T, B_T });
    let kernel = gemm_partial::<T>::instance(device, params).map_err(|e| e.to_string())?;
    let adds = add_partial::<T, f32>::instance(device, AddPartialParams { VEC: 4 }).map_err(|e| e.to_string())?;
    let parts = [1, 2, 5][i.index % 3];
    product::run::<T, f32>(device, i, Family { ragged: 8, ..BLOCKS }, |o| {
        let rank = "a batch of one has a first matrix";
        let (a, b, c) = (o.a.row(0).expect(rank), o.b.row(0).expect(rank), o.c.row(0).expect(rank));
        let [m, n] = c.shape();
        let mut partial = device.zeros::<f32, 3>([parts, m, n])?;
        kernel.launch(a, b, &mut partial)?;
        adds.launch(&partial, c, o.bias, o.alpha, o.beta, o.activation)
    })
}

/// The sums of one, two or five parts of K of any extents, and what adds them: elements of a result in rows that begin anywhere.
fn partial_copied_instance<T: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmPartialCopiedParams { BM, BN, BK, STAGES, THREADS; TF32, A_T, B_T });
    let kernel = gemm_partial_copied::<T>::instance(device, params).map_err(|e| e.to_string())?;
    let adds = add_partial::<T, f32>::instance(device, AddPartialParams { VEC: 1 }).map_err(|e| e.to_string())?;
    let parts = [1, 2, 5][i.index % 3];
    product::run::<T, f32>(device, i, BLOCKS, |o| {
        let rank = "a batch of one has a first matrix";
        let (a, b, c) = (o.a.row(0).expect(rank), o.b.row(0).expect(rank), o.c.row(0).expect(rank));
        let [m, n] = c.shape();
        let mut partial = device.zeros::<f32, 3>([parts, m, n.next_multiple_of(4)])?;
        kernel.launch(a, b, partial.view_mut().slice([0..parts, 0..m, 0..n])?)?;
        adds.launch(&partial, c, o.bias, o.alpha, o.beta, o.activation)
    })
}

fn parts_instance<T: Real, U: Real>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmPartsParams { BM, BN, BK, STAGES, THREADS; TF32, A_T, B_T });
    let kernel = gemm_parts::<T, U>::instance(device, params).map_err(|e| e.to_string())?;
    // One part, and more than are added at once.
    let slots = [1, 2, 5][i.index % 3];
    product::run::<T, U>(device, i, BLOCKS, |o| {
        let rank = "a batch of one has a first matrix";
        let (a, b, c) = (o.a.row(0).expect(rank), o.b.row(0).expect(rank), o.c.row(0).expect(rank));
        kernel.launch(a, b, c, o.bias, o.alpha, o.beta, o.activation, slots)
    })
}

fn tf32_instance(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmTf32Params { BM, BN, STAGES, THREADS, CX, CY; A_T, B_T, EPILOGUE });
    let kernel = gemm_tf32::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<f32, f32>(device, i, Family { step: 32, ..TURNS }, launch!(kernel))
}

fn any_tf32_instance(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmAnyTf32Params { BM, BN, STAGES, THREADS; A_T, B_T });
    let kernel = gemm_any_tf32::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<f32, f32>(device, i, Family { step: 16, ..BLOCKS }, launch!(kernel))
}

fn batch_tf32_instance(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmBatchTf32Params { BM, BN, STAGES, THREADS, CX, CY; A_T, B_T, EPILOGUE });
    let kernel = gemm_batch_tf32::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<f32, f32>(device, i, Family { step: 32, batches: 2, wide: WAVES / 2, ..TURNS }, |o| {
        kernel.launch(o.a, o.b, o.c, o.bias, o.alpha, o.beta, o.activation)
    })
}

fn batch_any_tf32_instance(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemmBatchAnyTf32Params { BM, BN, STAGES, THREADS; A_T, B_T });
    let kernel = gemm_batch_any_tf32::instance(device, params).map_err(|e| e.to_string())?;
    product::run::<f32, f32>(device, i, Family { step: 16, batches: 2, ..BLOCKS }, |o| {
        kernel.launch(o.a, o.b, o.c, o.bias, o.alpha, o.beta, o.activation)
    })
}

fn gemv_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvParams { WARPS, ROWS, GROUPS, UNROLL, STAGES, VEC });
    let kernel = gemv::<T>::instance(device, params).map_err(|e| e.to_string())?;
    vector::run::<T>(device, &vector::any_k(i), |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta))
}

fn specialized_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvSpecializedParams { WARPS, ROWS, GROUPS, UNROLL, STAGES, VEC });
    let kernel = gemv_specialized::<T>::instance(device, params).map_err(|e| e.to_string())?;
    vector::run::<T>(device, &vector::any_k(i), |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta))
}

fn bulk_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvBulkParams { WARPS, SPAN, STAGES, ROWS, VEC });
    let kernel = gemv_bulk::<T>::instance(device, params).map_err(|e| e.to_string())?;
    vector::run::<T>(device, &vector::bulk(i, size_of::<T>()), |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta))
}

fn rows_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvRowsParams { LANES, ROWS, GROUPS, UNROLL, VEC });
    let kernel = gemv_rows::<T>::instance(device, params).map_err(|e| e.to_string())?;
    let cases = vector::groups(i, params.LANES, params.ROWS * params.GROUPS, 1);
    vector::run::<T>(device, &cases, |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta))
}

fn columns_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvColumnsParams { LANES, GROUPS, UNROLL, PARTS, VEC });
    let kernel = gemv_columns::<T>::instance(device, params).map_err(|e| e.to_string())?;
    vector::run::<T>(device, &vector::columns(i), |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta))
}

fn lines_instance<T: Real + GemvElement>(device: &Device, i: &Declared) -> Result<usize, String> {
    let choice = Choice::Lines(params!(i, GemvLinesParams { LANES, ROWS, GROUPS, UNROLL, VEC }));
    vector::run::<T>(device, &vector::lines(i), |o| {
        T::launch(device, choice, o.w, o.x, o.y, Gemv { alpha: o.alpha, beta: o.beta })
    })
}

fn split_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvSplitParams { WARPS, ROWS, UNROLL, PARTS, VEC });
    let kernel = gemv_split::<T>::instance(device, params).map_err(|e| e.to_string())?;
    let cases = vector::groups(i, 32 * params.WARPS, params.ROWS, params.PARTS);
    vector::run::<T>(device, &cases, |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta))
}

fn ring_instance<T: Real + Float>(device: &Device, i: &Declared) -> Result<usize, String> {
    let params = params!(i, GemvRingParams { WARPS, SPAN, STAGES, MOST, VEC });
    let kernel = gemv_ring::<T>::instance(device, params).map_err(|e| e.to_string())?;
    // More rows than the ring has, and no whole stages of them.
    let rows = params.SPAN * (params.STAGES + 1) + 1;
    let cases = vector::ring(i, rows, size_of::<T>());
    vector::run::<T>(device, &cases, |o| kernel.launch(o.w, o.x, o.y, o.alpha, o.beta, rows))
}

fn every_gemm(device: &Device, selection: &Selection) {
    each(gemm::<f16, f16>::definition(), selection, |i| {
        typed!(gemm_instance(device, i):
            f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32; f32, f32;)
    });
}

fn every_gemm_batch(device: &Device, selection: &Selection) {
    each(
        gemm_batch::<f16, f16>::definition(),
        selection,
        |i| typed!(batch_instance(device, i): f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32; f32, f32;),
    );
}

fn every_gemm_batch_cluster(device: &Device, selection: &Selection) {
    each(
        gemm_batch_cluster::<f16, f16>::definition(),
        selection,
        |i| typed!(batch_cluster_instance(device, i): f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32; f32, f32;),
    );
}

fn every_gemm_cluster(device: &Device, selection: &Selection) {
    each(
        gemm_cluster::<f16, f16>::definition(),
        selection,
        |i| typed!(cluster_instance(device, i): f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32; f32, f32;),
    );
}

fn every_gemm_exchange(device: &Device, selection: &Selection) {
    each(
        gemm_exchange::<f16, f16>::definition(),
        selection,
        |i| typed!(exchange_instance(device, i): f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32;),
    );
}

fn every_gemm_slots(device: &Device, selection: &Selection) {
    each(
        gemm_slots::<f16, f16>::definition(),
        selection,
        |i| typed!(slots_instance(device, i): f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32; f32, f32;),
    );
}

fn every_gemm_partial(device: &Device, selection: &Selection) {
    let dtypes = |i: &Declared| typed!(partial_instance(device, i): f16; bf16;);
    each(gemm_partial::<f16>::definition(), selection, dtypes);
}

fn every_gemm_partial_copied(device: &Device, selection: &Selection) {
    let dtypes = |i: &Declared| typed!(partial_copied_instance(device, i): f16; bf16; f32;);
    each(gemm_partial_copied::<f16>::definition(), selection, dtypes);
}

fn every_gemm_parts(device: &Device, selection: &Selection) {
    each(gemm_parts::<f16, f16>::definition(), selection, |i| {
        typed!(parts_instance(device, i):
            f16, f16; f16, bf16; f16, f32; bf16, f16; bf16, bf16; bf16, f32; f32, f32;)
    });
}

fn every_gemm_tf32(device: &Device, selection: &Selection) {
    each(gemm_tf32::<128, 256, 4, 256, 1, 1, false, true, false>::definition(), selection, |i| {
        tf32_instance(device, i)
    });
}

fn every_gemm_any_tf32(device: &Device, selection: &Selection) {
    each(gemm_any_tf32::<64, 64, 4, 128, false, true>::definition(), selection, |i| any_tf32_instance(device, i));
}

fn every_gemm_batch_tf32(device: &Device, selection: &Selection) {
    let [_, definition, ..] = batched::definitions();
    each(definition, selection, |i| batch_tf32_instance(device, i));
}

fn every_gemm_batch_any_tf32(device: &Device, selection: &Selection) {
    let [_, _, definition, _] = batched::definitions();
    each(definition, selection, |i| batch_any_tf32_instance(device, i));
}

fn every_gemv(device: &Device, selection: &Selection) {
    each(gemv::<f32>::definition(), selection, |i| typed!(gemv_instance(device, i): f16; bf16; f32;));
}

fn every_gemv_specialized(device: &Device, selection: &Selection) {
    each(
        gemv_specialized::<f32>::definition(),
        selection,
        |i| typed!(specialized_instance(device, i): f16; bf16; f32;),
    );
}

fn every_gemv_bulk(device: &Device, selection: &Selection) {
    each(gemv_bulk::<f32>::definition(), selection, |i| typed!(bulk_instance(device, i): f16; bf16; f32;));
}

fn every_gemv_rows(device: &Device, selection: &Selection) {
    each(gemv_rows::<f32>::definition(), selection, |i| typed!(rows_instance(device, i): f16; bf16; f32;));
}

fn every_gemv_columns(device: &Device, selection: &Selection) {
    each(gemv_columns::<f32>::definition(), selection, |i| typed!(columns_instance(device, i): f16; bf16; f32;));
}

fn every_gemv_lines(device: &Device, selection: &Selection) {
    each(gemv_lines::<f32>::definition(), selection, |i| typed!(lines_instance(device, i): f16; bf16; f32;));
}

fn every_gemv_split(device: &Device, selection: &Selection) {
    each(gemv_split::<f32>::definition(), selection, |i| typed!(split_instance(device, i): f16; bf16; f32;));
}

fn every_gemv_ring(device: &Device, selection: &Selection) {
    each(gemv_ring::<f32>::definition(), selection, |i| typed!(ring_instance(device, i): f16; bf16; f32;));
}

/// A test a kernel: on a GPU, on Hopper alone where instances are for its shared memory or its instructions; and two of its
/// instances on the simulator.
macro_rules! families {
    ($($name:ident, $every:ident, $hopper:literal;)*) => {
        $(#[test]
        fn $name() {
            let Some(device) = super::gpu() else { return };
            if $hopper && !device.supports(Target::Sm90a) {
                eprintln!("SKIPPED, it is for Hopper");
                return;
            }
            $every(&device, &Selection::from_environment(Selection::all()));
        })*

        mod on_the_simulator {
            use super::*;
            $(#[test]
            fn $name() {
                $every(&Device::simulator(), &Selection::from_environment(Selection::Two));
            })*
        }
    };
}

families! {
    every_instance_of_gemm, every_gemm, true;
    every_instance_of_gemm_batch, every_gemm_batch, true;
    every_instance_of_gemm_batch_cluster, every_gemm_batch_cluster, true;
    every_instance_of_gemm_cluster, every_gemm_cluster, true;
    every_instance_of_gemm_exchange, every_gemm_exchange, true;
    every_instance_of_gemm_slots, every_gemm_slots, true;
    every_instance_of_gemm_partial, every_gemm_partial, true;
    every_instance_of_gemm_partial_copied, every_gemm_partial_copied, false;
    every_instance_of_gemm_parts, every_gemm_parts, false;
    every_instance_of_gemm_tf32, every_gemm_tf32, true;
    every_instance_of_gemm_any_tf32, every_gemm_any_tf32, false;
    every_instance_of_gemm_batch_tf32, every_gemm_batch_tf32, true;
    every_instance_of_gemm_batch_any_tf32, every_gemm_batch_any_tf32, false;
    every_instance_of_gemv, every_gemv, false;
    every_instance_of_gemv_specialized, every_gemv_specialized, false;
    every_instance_of_gemv_bulk, every_gemv_bulk, true;
    every_instance_of_gemv_rows, every_gemv_rows, false;
    every_instance_of_gemv_columns, every_gemv_columns, true;
    every_instance_of_gemv_lines, every_gemv_lines, false;
    every_instance_of_gemv_split, every_gemv_split, true;
    every_instance_of_gemv_ring, every_gemv_ring, true;
}
