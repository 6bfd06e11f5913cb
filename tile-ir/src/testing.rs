//! What tests share: kernels of texts; whether a kernel's text is the kernel; and the oracle of index arithmetic. The soak runs the
//! last two.

mod alike;
mod commits;
mod fences;
pub mod indices;
pub mod plant;
pub mod text;

#[cfg(test)]
use crate::ir::{BoundKernel, Dtype, Kernel};

/// The kernel of a text, which the test wrote.
#[cfg(test)]
pub(crate) fn parsed(text: &str) -> Kernel {
    crate::text::parse_kernel(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The kernel of a text that has nothing generic, as binding would give it.
#[cfg(test)]
pub(crate) fn bound(kernel: &Kernel) -> BoundKernel {
    BoundKernel::new(kernel.clone()).unwrap_or_else(|diagnostic| panic!("{diagnostic:?}\n{kernel}"))
}

/// The vectorised GEMV of the language's description, bound: `rows` rows a block, a vector of 16 bytes a transaction.
#[cfg(test)]
pub(crate) fn gemv(dtype: Dtype, rows: i64) -> Kernel {
    let vec = 128 / i64::from(dtype.bits());
    let step = 32 * vec;
    parsed(&format!(
        "#[require(K % {vec} == 0)]
        kernel gemv_{dtype}_{rows}(x: &Tensor<{dtype}, (K,)>, w: &Tensor<{dtype}, (N, K)>, y: &mut Tensor<{dtype}, (N,)>) {{
            let [bn] = blocks([ceil_div(N, {rows})]);
            let [tk, tn] = threads([32, {rows}]);
            let row = bn * {rows} + tn;
            let mut acc = 0.0f32;
            let mut xs = alloc_local::<{dtype}>([{vec}]);
            let mut ws = alloc_local::<{dtype}>([{vec}]);
            for bk in 0..ceil_div(K, {step}) {{
                for v in vectorized(0..{vec}) {{
                    xs[v] = x.masked([bk * {step} + (tk * {vec} + v)]);
                    ws[v] = w.masked([row, bk * {step} + (tk * {vec} + v)]);
                }}
                for v in unroll(0..{vec}) {{
                    acc = fma(xs[v].cast::<f32>(), ws[v].cast::<f32>(), acc);
                }}
            }}
            let sum = thread_allreduce(Sum, acc, tk);
            if tk == 0 && row < N {{
                y[row] = sum.cast::<{dtype}>();
            }}
        }}"
    ))
}
