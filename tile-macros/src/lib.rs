//! `#[tile_kernel]` and `#[tile_fn]`: the macros themselves. What they do is in `tile-syntax`.
//!
//! The crate is used through `tile_runtime`, which re-exports the macros; the expansion names only that crate.
#![deny(missing_docs)]

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
/// - `uses(activation)`: the functions that it calls, each a [`macro@tile_fn`];
/// - `stream(w)`: tensors whose data are used once: read past L1, or the first to leave L2 when stored;
/// - `pdl(independent = [w])`: the kernel may start before the previous one of its stream is done, and then reads
///   nothing but these tensors, which that one did not write, until it is, and writes none. The next kernel may start once all blocks have
///   waited; with `trigger = AtStart` once all have started, which gains where this kernel is short and the next one has much to
///   read early;
/// - `targets(sm_80, sm_90a)`, `min_blocks(n)`, `lints(TK0601 = "warn")`, `crate = path`.
///
/// What a body is written in is documented in `tile_runtime::dsl`.
#[proc_macro_attribute]
pub fn tile_kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    tile_syntax::expand_kernel(attribute.into(), item.into()).into()
}

/// Declares a function that kernels may call: its body is written out in the place of each call.
///
/// ```text
/// #[tile_fn]
/// fn silu(x: f32) -> f32 {
///     x / (1.0 + exp(-x))
/// }
///
/// #[tile_fn(uses(silu))]
/// fn epilogue<T: Half>(acc: &mut Fragment<f32, (BM, BN)>, bias: Option<&Tensor<T, (N,)>>, col: usize) {
///     for [i, j] in parallel([BM, BN]) {
///         if let Some(b) = bias {
///             acc[[i, j]] += b.masked([col + j]).cast::<f32>();
///         }
///         acc[[i, j]] = silu(acc[[i, j]]);
///     }
/// }
///
/// #[tile_kernel(uses(epilogue))]
/// pub fn gemm(..) { .. epilogue(&mut acc, bias, col); .. }
/// ```
///
/// - A kernel or function names those it calls in `uses(..)`, as it calls them: `uses(epilogue::silu)` for
///   `epilogue::silu(x)`. They may stand in any module of the crate, or where they are `pub` in another crate.
/// - Parameters are values, `&Tensor<T, (M, N)>` or `&mut Tensor<..>`, `Option<&Tensor<..>>`, and by `&` or `&mut` a
///   `Fragment<T, (M, N)>`, `SharedArray<..>` or `LocalArray<..>` of the caller. A name in the dims is the extent of what
///   is passed: a constant where that is an array.
/// - Generics are dtypes, taken from the arguments or given, and constants, given: `scale::<f32, 8>(..)`.
/// - It returns one value or nothing. It sees its parameters only, and cannot call itself.
///
/// The attribute takes `uses(..)`, `dtypes(T in [..])` and `crate = path`.
#[proc_macro_attribute]
pub fn tile_fn(attribute: TokenStream, item: TokenStream) -> TokenStream {
    tile_syntax::expand_function(attribute.into(), item.into()).into()
}

/// A step of an expansion that needs the tokens of other items (`link`). Not to be called.
#[doc(hidden)]
#[proc_macro]
pub fn link_step(state: TokenStream) -> TokenStream {
    tile_syntax::expand_step(state.into()).into()
}
