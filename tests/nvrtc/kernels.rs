//! Which kernels are compiled: all of them, in every instance but for the bundled GEMM's ([`is_compiled`]).

#[path = "../../examples/first_kernel.rs"]
#[allow(dead_code)] // its `main` is not called here
mod first_kernel;
#[path = "../grammar/kernels.rs"]
mod grammar;

use tile_ir::ir::{Dtype, Instance, Kernel};
use tile_kernel_examples::ladder;
use tile_kernels::gemm::batched;
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::f16;

/// The bundled kernels, the ladder's, the book's first ones, and those that use every form of the language.
pub fn kernels() -> Vec<&'static Definition> {
    let mut all = ladder::definitions();
    all.push(tile_kernels::gemv::definition());
    all.push(tile_kernels::gemv::specialized::gemv_specialized::<f32>::definition());
    all.push(tile_kernels::gemv::bulk::gemv_bulk::<f32>::definition());
    all.push(tile_kernels::gemm::definition());
    all.push(batched::gemm_batch::<f16, f16, 64, 64, 8, 128, false, true>::definition());
    all.extend([first_kernel::saxpy::definition(), first_kernel::scaled_add::<f32>::definition()]);
    all.extend([
        grammar::statements::<f32>::definition(),
        grammar::tiles::definition(),
        grammar::expressions::definition(),
        grammar::specialized::definition(),
        grammar::functions::<2>::definition(),
        grammar::reductions::definition(),
    ]);
    all.push(super::products::product::<f16, 128, 128, 32, 4, 256, false, true>::definition());
    all
}

/// The value of a constant parameter.
pub fn constant(kernel: &Kernel, instance: &Instance, name: &str) -> Option<i64> {
    let at = kernel.consts.values().position(|c| c.name == name)?;
    instance.consts.get(at).copied()
}

/// Whether an instance is compiled here.
///
/// The bundled GEMM has hundreds, which would take minutes and differ in little: f16 from bf16 in the names of instructions.
/// So of its kernels these are compiled: bf16 with `b` transposed in every tile, with and without an epilogue; every other
/// layout, results of f32 and f32 operands in the tile that needs most registers, 128 x 128; every width of copies there.
pub fn is_compiled(kernel: &Kernel, instance: &Instance) -> bool {
    let is = |name: &str, wanted: i64| constant(kernel, instance, name).is_none_or(|value| value == wanted);
    let nt = is("A_T", 0) && is("B_T", 1);
    let demanding = is("BM", 128) && is("BN", 128);
    match (kernel.name.as_str(), &instance.dtypes[..]) {
        ("gemm" | "gemm_batch", [Dtype::Bf16, Dtype::Bf16]) => nt || demanding && is("EPILOGUE", 1),
        ("gemm_any" | "gemm_elements", [Dtype::Bf16, Dtype::Bf16]) => {
            demanding && (nt || is("WIDTH", 16)) || nt && is("WIDTH", 16)
        }
        ("gemm", [Dtype::F16, Dtype::F32]) => nt && demanding && is("EPILOGUE", 1),
        ("gemm_any", [Dtype::F16, Dtype::F32]) => nt && demanding && is("WIDTH", 16),
        ("gemm_any", [Dtype::F32, Dtype::F32]) => demanding && (nt || is("WIDTH", 4)),
        ("gemm" | "gemm_batch" | "gemm_any" | "gemm_elements", _) => false,
        _ => true,
    }
}
