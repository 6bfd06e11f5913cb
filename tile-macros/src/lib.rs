//! `#[tile_kernel]`: Rust tokens to tile IR, with errors on the author's own lines.
//!
//! ```text
//!  tokens ── parse ──▶ Kernel + mistakes ── tile_ir::analysis::check ──▶ more mistakes
//!                         │
//!                         └─ expand ──▶ errors | struct, launch, instances, IR bytes, shadow function
//! ```
//!
//! The crate is used through `tile_runtime`, which re-exports the macro; the expansion names only that crate.
#![deny(missing_docs)]

mod expand;
mod parse;

use proc_macro::TokenStream;

/// Declares a tile kernel: a function whose body is compiled for the GPU and for the simulators.
///
/// ```text
/// #[tile_kernel(instances(ROWS in [1, 2, 4, 8]), require(K % (128 / T::BITS) == 0))]
/// pub fn gemv<T: Float, const ROWS: usize>(x: &Tensor<T, (K,)>, w: &Tensor<T, (N, K)>, y: &mut Tensor<T, (N,)>) { .. }
/// ```
///
/// makes a type `gemv<T, ROWS>` with
/// - `gemv::<f16, 8>::launch(&device, &x, &w, &mut y)?`: a launch on a device or stream; an undeclared instance is a
///   compile error;
/// - `gemv::<f16>::instance(&device, GemvParams { ROWS: rows })?`: an instance chosen at run time, a `GemvKernel<f16>`
///   with a `launch` of its own;
/// - `gemv::<f16>::definition()`: the kernel as data.
///
/// The attribute takes, separated by commas:
/// - `instances(A in [1, 2], (B, C) in [(1, 2), (3, 4)], D = 5, where A < B)`: the combinations of const parameters
///   that exist;
/// - `dtypes(T in [f32, i32])`: the element types of `T`, where its bound is not `Half` or `Float`;
/// - `require(condition)`: a contract over dims, constants and scalars, checked before each launch;
/// - `stream(w)`: tensors that are read once, past L1;
/// - `pdl(independent = [w])`: the kernel may start before the previous one of its stream is done, and then reads
///   nothing but these tensors, which that one did not write, until it is;
/// - `targets(sm_80, sm_90a)`, `min_blocks(n)`, `lints(TK0601 = "warn")`, `crate = path`.
///
/// What a body is written in is documented in `tile_runtime::dsl`.
#[proc_macro_attribute]
pub fn tile_kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::kernel(attribute.into(), item.into()).into()
}
