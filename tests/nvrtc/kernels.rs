//! Which kernels are compiled: all of them, in every instance but for the bundled GEMM's, GEMV's and those of rows ([`classes`]).

#[path = "../../examples/first_kernel.rs"]
#[allow(dead_code)] // its `main` is not called here
mod first_kernel;
#[path = "../grammar/kernels.rs"]
mod grammar;

use tile_ir::ir::{Class, DimId, Dtype, Instance, Kernel, Target, Width};
use tile_kernel_examples::ladder;
use tile_kernels::gemm::{batched, exchange, pack, partial, parts, split, tf32};
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::f16;

/// The bundled kernels, the ladder's, the book's first ones, and those that use every form of the language.
pub fn kernels() -> Vec<&'static Definition> {
    let mut all = ladder::definitions();
    all.push(tile_kernels::gemv::definition());
    all.push(tile_kernels::gemv::specialized::gemv_specialized::<f32>::definition());
    all.push(tile_kernels::gemv::bulk::gemv_bulk::<f32>::definition());
    all.push(tile_kernels::gemv::rows::gemv_rows::<f32>::definition());
    all.push(tile_kernels::gemv::lines::gemv_lines::<f32>::definition());
    all.push(tile_kernels::gemv::split::gemv_split::<f32>::definition());
    all.push(tile_kernels::gemv::ring::gemv_ring::<f32>::definition());
    all.push(tile_kernels::gemv::columns::gemv_columns::<f32>::definition());
    all.extend(tile_kernels::gemv::stream::definitions());
    all.push(tile_kernels::gemm::definition());
    all.extend(batched::definitions());
    all.push(split::gemm_cluster::<f16, f16>::definition());
    all.push(split::gemm_slots::<f16, f16>::definition());
    all.push(partial::gemm_partial::<f16>::definition());
    all.push(exchange::gemm_exchange::<f16, f16>::definition());
    all.push(partial::gemm_partial_copied::<f16>::definition());
    all.push(partial::add_partial::<f16, f16, 4>::definition());
    all.push(parts::gemm_parts::<f16, f16>::definition());
    all.push(tile_kernels::gemm::gated::definition());
    all.push(pack::pack_rows::<f16, 1>::definition());
    all.push(pack::pack_transposed::<f32>::definition());
    all.push(pack::pack_rows_batch::<f16, 1>::definition());
    all.push(pack::pack_transposed_batch::<f32>::definition());
    all.push(tf32::gemm_tf32::<128, 256, 4, 256, 1, 1, false, true, false>::definition());
    all.push(tf32::gemm_any_tf32::<64, 64, 4, 128, false, true>::definition());
    all.extend(tile_kernels::norm::definitions());
    all.extend([tile_kernels::rope::definition(), tile_kernels::embedding::definition()]);
    all.extend(tile_kernels::attention::definitions());
    all.extend(tile_kernels::sampling::definitions());
    all.extend(tile_kernels::softmax::definitions());
    all.extend(tile_kernels::swiglu::definitions());
    all.extend([first_kernel::saxpy::definition(), first_kernel::scaled_add::<f32>::definition()]);
    all.extend([
        grammar::statements::<f32>::definition(),
        grammar::tiles::definition(),
        grammar::products::definition(),
        grammar::clamped::<f16>::definition(),
        grammar::expressions::definition(),
        grammar::specialized::definition(),
        grammar::functions::<2>::definition(),
        grammar::reductions::definition(),
        grammar::clusters::definition(),
    ]);
    all.extend(tile_kernel_examples::cliff::definitions());
    all.push(super::products::product::<f16, 128, 128, 32, 4, 256, false, true>::definition());
    all
}

/// The value of a constant parameter.
pub fn constant(kernel: &Kernel, instance: &Instance, name: &str) -> Option<i64> {
    let at = kernel.consts.values().position(|c| c.name == name)?;
    instance.consts.get(at).copied()
}

/// The values that a kernel's specialised dims are compiled for, in the order of the dims: some that divide evenly, some that do
/// not. The last value stands for the dims that remain.
pub fn values(kernel: &Kernel) -> &'static [&'static [i64]] {
    match kernel.name.as_str() {
        _ if kernel.specialized().is_empty() => &[&[]],
        // Slots of longer rows are more than shared memory has.
        "gemv_bulk" => &[&[1024], &[1032]],
        "gemv_ring" => &[&[1024], &[520]],
        "gemv_stream" | "gemv_norm_stream" => &[&[5000, 264]],
        "decode" | "append_decode" => &[&[32, 8, 128]],
        "prefill" => &[&[8, 128]],
        _ => &[&[4096], &[7176]],
    }
}

/// A kernel's specialised dims at one of its [`values`].
pub fn dims(kernel: &Kernel, values: &[i64]) -> Vec<(DimId, i64)> {
    let value = |at: usize| values.get(at).or(values.last()).copied().unwrap_or(0);
    kernel.specialized().iter().enumerate().map(|(at, dim)| (*dim, value(at))).collect()
}

/// The kernels of rows: f16 and bf16 differ in the names of instructions alone, and f32 is compiled for one target.
fn is_of_rows(kernel: &Kernel) -> bool {
    let names = [
        "norm_rows",
        "norm_long",
        "append_heads",
        "swiglu_rows",
        "swiglu_many_rows",
        "embedding_rows",
        "argmax_rows",
        "sample_rows",
        "softmax_rows",
        "softmax_long",
    ];
    names.iter().any(|name| kernel.name.ends_with(name))
}

/// The classes that an instance is compiled in for a target; none where it is not compiled.
///
/// Of the bundled GEMM there are hundreds of instances, which would take minutes and differ in little: f16 from bf16 in the
/// names of instructions. So of its kernels these are compiled: bf16 with `b` transposed in every tile, with and without an
/// epilogue; every other layout and results of f32 in the tile that needs most registers, 128 x 128; f32 operands in all of theirs. Tiles of
/// steps of 64 bytes are for where every thread copies: in every class of what is read. The others are Hopper's: of what is read
/// in the widest class alone, but for those with the longest steps and 64 x 64, which single elements are the most for.
pub fn classes(kernel: &Kernel, instance: &Instance, target: Target) -> Vec<Class> {
    let is = |name: &str, wanted: i64| constant(kernel, instance, name).is_none_or(|value| value == wanted);
    let nt = is("A_T", 0) && is("B_T", 1);
    let read = |reads| Class { reads, ..Class::WIDEST };
    match (kernel.name.as_str(), &instance.dtypes[..]) {
        // Instances with clusters are not launched where there are none.
        _ if target == Target::Sm80 && !is("CLUSTER", 1) => return vec![],
        ("gemm" | "gemm_batch", _) => {}
        (_, [Dtype::F16]) if is_of_rows(kernel) => return vec![],
        (_, [Dtype::F32]) if is_of_rows(kernel) && target == Target::Sm80 => return vec![],
        // Operands of 16 bits are those that TMA does not fetch; f32 mostly is aligned.
        ("gemm_parts", [Dtype::Bf16, Dtype::Bf16]) if nt && target == Target::Sm90a => {
            return [Width::Four, Width::Element].map(read).to_vec();
        }
        ("gemm_parts", [Dtype::Bf16, Dtype::Bf16]) if target == Target::Sm90a => return vec![read(Width::Element)],
        ("gemm_parts", [Dtype::F32, Dtype::F32]) if nt && target == Target::Sm90a => {
            return [Width::Sixteen, Width::Four].map(read).to_vec();
        }
        ("gemm_parts", [Dtype::F32, Dtype::F32]) if target == Target::Sm90a => return vec![Class::WIDEST],
        // Another device's kernels are those of one layout.
        ("gemm_parts", [Dtype::Bf16, Dtype::Bf16] | [Dtype::F32, Dtype::F32]) if nt => return vec![Class::WIDEST],
        ("gemm_parts", _) => return vec![],
        // The steps of `gemm_parts`, and another end.
        ("gemm_partial_copied", [Dtype::Bf16 | Dtype::F32]) if nt && target == Target::Sm90a => {
            return vec![Class::WIDEST, read(Width::Element)];
        }
        ("gemm_partial_copied", [Dtype::Bf16 | Dtype::F32]) if nt => return vec![Class::WIDEST],
        ("gemm_partial_copied", _) => return vec![],
        // Tiles with the longest steps are the most for single elements; other layouts than the usual one differ in their loads.
        ("gemm_cluster", [Dtype::Bf16, Dtype::Bf16]) if nt && is("BK", 128) => {
            return vec![Class::WIDEST, read(Width::Element)];
        }
        ("gemm_cluster", [Dtype::Bf16, Dtype::Bf16]) if nt || is("EPILOGUE", 1) => return vec![Class::WIDEST],
        ("gemm_slots" | "gemm_exchange", [Dtype::Bf16, Dtype::Bf16]) | ("gemm_partial", [Dtype::Bf16]) => {
            return vec![Class::WIDEST];
        }
        ("gemm_exchange", [Dtype::F16, Dtype::F32]) if nt => return vec![Class::WIDEST],
        ("gemm_partial" | "gemm_exchange", _) | ("add_partial", [_, Dtype::F16]) => return vec![],
        // Their results are staged or stored in other ways.
        ("gemm_cluster" | "gemm_slots", [Dtype::F16, Dtype::F32]) if nt && is("EPILOGUE", 1) && is("S", 8) => {
            return vec![Class::WIDEST];
        }
        ("gemm_cluster" | "gemm_slots", [Dtype::F32, Dtype::F32]) => return vec![Class::WIDEST],
        ("gemm_cluster" | "gemm_slots", _) => return vec![],
        // Of each length of head and way of combining, the instance that a model of 16 bits uses.
        ("decode" | "append_decode", [Dtype::Bf16]) if is("D", 128) && (is("SPLITS", 1) || is("SPLITS", 16)) => {
            return vec![Class::WIDEST];
        }
        ("decode", [Dtype::Bf16]) if is("D", 128) && is("CLUSTER", 8) && is("ROWS", 8) => return vec![Class::WIDEST],
        ("decode" | "append_decode", [Dtype::Bf16]) if is("D", 64) && is("SPLITS", 8) => return vec![Class::WIDEST],
        // Multiply-adds, written out: half a minute each.
        ("decode", [Dtype::F32]) if is("D", 64) && is("SPLITS", 1) && target == Target::Sm90a => {
            return vec![Class::WIDEST];
        }
        ("decode" | "append_decode", _) => return vec![],
        // More shared memory than sm_80 has.
        ("forward" | "causal" | "forward_options" | "packed", _)
            if target == Target::Sm80 && constant(kernel, instance, "D") >= Some(192) =>
        {
            return vec![];
        }
        // They spill 8 to 48 bytes on sm_80 or have no room there, where `attention` does not take them.
        ("forward", _) if target == Target::Sm80 && is("BM", 192) && is("D", 128) => return vec![],
        ("causal" | "packed", _) if target == Target::Sm80 && is("BM", 192) => return vec![],
        ("causal" | "forward_options" | "packed", [Dtype::F16]) => return vec![],
        ("prefill" | "gemv_stream" | "gemv_norm_stream", [Dtype::F16, ..]) => return vec![],
        // f16 and bf16 differ in the names of instructions alone.
        (
            "gemv_specialized" | "gemv_rows" | "gemv_columns" | "gemv_lines" | "gemv_split" | "gemv_bulk" | "gemv_ring",
            [Dtype::F16],
        ) => {
            return vec![];
        }
        // Of results in f32, and of operands in f32, the instance that a head and the one that most layers use.
        ("gemv_stream" | "gemv_norm_stream", [.., Dtype::F32]) if !is("SPAN", 2) => return vec![],
        // Without an epilogue they are parts of those with one.
        ("gemm_batch_tf32", _) if !is("EPILOGUE", 1) => return vec![],
        ("gemm_batch_cluster", [Dtype::Bf16, Dtype::Bf16]) if nt && is("EPILOGUE", 1) => return vec![Class::WIDEST],
        // Multiply-adds take a minute to compile, and differ by layout as those of `gemm_batch` do.
        ("gemm_batch_cluster", [Dtype::F32, Dtype::F32]) if is("EPILOGUE", 1) && (nt || is("TF32", 1)) => {
            return vec![Class::WIDEST];
        }
        ("gemm_batch_cluster", _) => return vec![],
        // Batches are copied as those of `gemm_any_tf32` are.
        ("gemm_batch_any_tf32", _) if target == Target::Sm80 => return vec![],
        ("gemm_any_tf32", _) if nt => return [Width::Sixteen, Width::Eight, Width::Four].map(read).to_vec(),
        _ => return vec![Class::WIDEST],
    }
    let demanding = is("BM", 128) && is("BN", 128);
    let by_threads = is("BK", 8) || is("BK", 16) || is("BK", 32);
    let compiled = match &instance.dtypes[..] {
        [Dtype::Bf16, Dtype::Bf16] => nt || demanding && is("EPILOGUE", 1),
        [Dtype::F16, Dtype::F32] => kernel.name == "gemm" && nt && demanding && is("EPILOGUE", 1),
        [Dtype::F32, Dtype::F32] => is("EPILOGUE", 1),
        _ => false,
    };
    let is_f32 = instance.dtypes.first() == Some(&Dtype::F32);
    // Operands by single elements are multiplied in small tiles where there are many of them.
    let by_elements = kernel.name == "gemm" || is("BM", 64);
    let all = |widths: &[Width]| {
        widths.iter().copied().filter(|width| by_elements || *width != Width::Element).map(read).collect()
    };
    let written = |writes| Class { writes, ..Class::WIDEST };
    match target {
        _ if !compiled => vec![],
        // Every thread copies there in the widest class too.
        Target::Sm80 if !by_threads => vec![],
        // The other tiles of f32 differ in how many threads have a part of them.
        _ if is_f32 && !(is("STAGES", 4) && (demanding || kernel.name != "gemm" && is("BM", 128))) => {
            vec![Class::WIDEST]
        }
        _ if is_f32 => all(&[Width::Sixteen, Width::Eight, Width::Four]),
        Target::Sm80 if nt => all(&[Width::Sixteen, Width::Eight, Width::Four, Width::Element]),
        Target::Sm80 => all(&[Width::Sixteen, Width::Element]),
        Target::Sm90a if by_threads && nt => all(&[Width::Eight, Width::Four, Width::Element]),
        Target::Sm90a if by_threads => all(&[Width::Eight, Width::Element]),
        // How results leave is not the loop's business: once with, once without a bias.
        Target::Sm90a if nt && (demanding || is("BN", 256) || is("BM", 8)) => {
            vec![Class::WIDEST, written(Width::Four), written(Width::Element)]
        }
        // Batches take tiles for few rows where TMA fetches operands alone.
        Target::Sm90a if kernel.name == "gemm_batch" && is("BK", 128) => vec![Class::WIDEST],
        // More elements a thread than can be held in registers, or nearly.
        Target::Sm90a if nt && is("BM", 64) && is("BN", 64) || is("BK", 128) => {
            vec![Class::WIDEST, read(Width::Element)]
        }
        Target::Sm90a => vec![Class::WIDEST],
    }
}
