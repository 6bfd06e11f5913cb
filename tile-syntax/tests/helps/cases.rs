//! Kernels with a mistake, and what they compute once its help is followed.

use super::run::{Arg, f32s, tensor};
use tile_ir::ir::Dtype;

/// A kernel that is said something about.
pub struct Case {
    pub name: &'static str,
    /// The code of what is said.
    pub code: &'static str,
    /// `#[tile_kernel(..)]` on the first line, the function from the second on.
    pub kernel: &'static str,
    pub args: fn() -> Vec<Arg>,
    /// What its output is to hold, computed here.
    pub right: fn() -> Vec<f32>,
}

/// An expression of `v: f32` (or `n: u32`) that is not in the language, and its value.
type Expression = (&'static str, fn(f32) -> f32);

pub const EXPRESSIONS: &[Expression] = &[
    ("v.max(3.0)", |v| v.max(3.0)),
    ("(v + 1.0).sqrt()", |v| (v + 1.0).sqrt()),
    ("v.mul_add(2.0, 1.0)", |v| v * 2.0 + 1.0),
    ("v.ln()", f32::ln),
    ("v.powf(2.0)", |v| v * v),
    ("2.0 / tan(v)", |v| 2.0 / v.tan()),
    ("powf(v, 2.0)", |v| v * v),
    ("powi(v, n / 2)", |v| v.powi(v as i32 / 2)),
    ("rint(v)", |v| v),
    ("exp10(v - 7.0)", |v| 10f32.powf(v - 7.0)),
    ("log2(v)", f32::log2),
    ("2.0 * log10(v)", |v| 2.0 * v.log10()),
    ("sigmoid(v - 4.0)", |v| 1.0 / (1.0 + (4.0 - v).exp())),
    ("popc(n) as f32", |v| (v as u32).count_ones() as f32),
    ("clz(n) as f32", |v| (v as u32).leading_zeros() as f32),
    ("ffs(n) as f32", |v| (v as u32).trailing_zeros() as f32),
    ("shfl_idx(v, 2)", |_| 3.0),
    ("((i % 7 + 1).div_ceil(2)) as f32", |v| (v / 2.0).ceil()),
    ("v * lit(2)", |v| v * 2.0),
    ("relu(v - 4.0)", |v| (v - 4.0).max(0.0)),
    ("expf(v)", f32::exp),
    ("__logf(v)", f32::ln),
    ("__expf(v - 5.0)", |v| (v - 5.0).exp()),
    ("((v + 1.0) as f16).cast::<f32>()", |v| v + 1.0),
];

/// A kernel with such an expression.
pub fn with_expression(expression: &str) -> String {
    format!(
        "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {{
    let [b] = blocks([ceil_div(N, 28)]);
    let [t] = threads([32]);
    let i = b * 28 + t;
    let v = x.masked([i]);
    let n = v as u32;
    let result = {expression};
    if t < 28 && i < N {{
        y[i] = result;
    }}
}}"
    )
}

/// Values that differ in every row and column.
pub fn one_to_seven(i: i64) -> f32 {
    (i % 7 + 1) as f32
}

/// 100 numbers and as many results.
pub fn vectors() -> Vec<Arg> {
    vec![f32s([100], one_to_seven), f32s([100], |_| 0.0)]
}

/// 96 of them, with a distance.
fn vectors_and(distance: i64) -> Vec<Arg> {
    vec![f32s([96], one_to_seven), f32s([96], |_| 0.0), Arg::Index(distance)]
}

/// Two matrices of 64 x 64, and a place for their product.
fn squares() -> Vec<Arg> {
    vec![
        tensor(Dtype::F16, [64, 64], one_to_seven),
        tensor(Dtype::F16, [64, 64], |i| (i % 5) as f32),
        f32s([64, 64], |_| 0.0),
    ]
}

/// The first times the transpose of the second.
fn product_of_squares() -> Vec<f32> {
    each(4096, |at| each(64, |k| one_to_seven(at / 64 * 64 + k) * ((at % 64 * 64 + k) % 5) as f32).iter().sum())
}

fn each<T>(count: i64, value: impl Fn(i64) -> T) -> Vec<T> {
    (0..count).map(value).collect()
}

pub const CASES: &[Case] = &[
    Case {
        name: "a number among the dims",
        code: "TK0104",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N, 4)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[[i, 1]];
    }
}",
        args: || vec![f32s([25, 4], one_to_seven), f32s([25], |_| 0.0)],
        right: || each(25, |i| one_to_seven(4 * i + 1)),
    },
    Case {
        name: "an expression as the operand of a product",
        code: "TK0801",
        kernel: "#[tile_kernel]
fn k(a: &Tensor<f16, (M, K)>, b: &Tensor<f16, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let [x, y] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    copy(a.at([y * 64, 0]), &mut a_s);
    copy(b.at([x * 64, 0]), &mut b_s);
    gemm(a_s + a_s, b_s.t(), &mut acc);
    copy(&acc, c.at_mut([y * 64, x * 64]));
}",
        args: squares,
        right: product_of_squares,
    },
    Case {
        name: "a tile that its author cuts off at the tensor's edge",
        code: "TK0806",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    copy(x.tile([b * 64..min(b * 64 + 64, N)]), &mut s);
    sync_threads();
    if b * 64 + t < N {
        y[b * 64 + t] = s[t] + 1.0;
    }
}",
        args: vectors,
        right: || each(100, |i| one_to_seven(i) + 1.0),
    },
    Case {
        name: "the first tile, cut off at the tensor's edge",
        code: "TK0806",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    copy(x.tile([0..min(128, N)]), &mut s);
    sync_threads();
    if t < N {
        y[t] = s[t] + 1.0;
    }
}",
        args: vectors,
        right: || each(100, |i| one_to_seven(i) + 1.0),
    },
    Case {
        name: "a barrier between a store and a neighbour's load",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    s[t] = x.masked([b * 64 + t]);
    *y.masked_mut([b * 64 + t]) = s[63 - t];
}",
        args: vectors,
        right: || {
            each(100, |i| {
                if i < 64 {
                    one_to_seven(63 - i)
                } else if i < 92 {
                    0.0
                } else {
                    one_to_seven(191 - i)
                }
            })
        },
    },
    Case {
        name: "the distance is known at the launch, and the load stands in an `if`",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    let mut s = alloc_shared::<f32>([64]);
    s[t] = x.masked([i]);
    if i < N {
        y[i] = s[(t + shift) % 64];
    }
}",
        args: || vectors_and(33),
        right: || {
            let x = |i| if i < 96 { one_to_seven(i) } else { 0.0 };
            each(96, |i| x(i / 64 * 64 + (i % 64 + 33) % 64))
        },
    },
    Case {
        name: "the next iteration overwrites what slower threads read",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    let mut sum = 0.0f32;
    for k in 0..M {
        s[t] = x.masked([k, t]);
        sync_threads();
        sum += s[63 - t];
    }
    *y.masked_mut([t]) = sum;
}",
        args: || vec![f32s([3, 64], one_to_seven), f32s([64], |_| 0.0)],
        right: || each(64, |t| each(3, |k| one_to_seven(k * 64 + 63 - t)).iter().sum()),
    },
    Case {
        name: "the same, with a distance that the launch knows",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
    blocks([1]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    let mut sum = 0.0f32;
    for k in 0..M {
        s[t] = x.masked([k, t]);
        sync_threads();
        if t < N {
            sum += s[(t + shift) % 64];
        }
    }
    *y.masked_mut([t]) = sum;
}",
        args: || vec![f32s([3, 64], one_to_seven), f32s([64], |_| 0.0), Arg::Index(33)],
        right: || each(64, |t| each(3, |k| one_to_seven(k * 64 + (t + 33) % 64)).iter().sum()),
    },
    Case {
        name: "lanes of a warp, with a distance that the launch knows",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, shift: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([32]);
    s[t] = x.masked([b * 32 + t]);
    *y.masked_mut([b * 32 + t]) = s[(t + shift) % 32];
}",
        args: || vectors_and(5),
        right: || each(96, |i| one_to_seven(i / 32 * 32 + (i % 32 + 5) % 32)),
    },
    Case {
        name: "an element is read and its neighbour's written in one statement",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    s[t] = x.masked([b * 64 + t]);
    sync_threads();
    s[t] = s[63 - t] + 1.0;
    sync_threads();
    *y.masked_mut([b * 64 + t]) = s[t];
}",
        args: || vec![f32s([64], one_to_seven), f32s([64], |_| 0.0)],
        right: || each(64, |i| one_to_seven(63 - i) + 1.0),
    },
    Case {
        name: "threads count in a shared array",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<u32, (N,)>, y: &mut Tensor<u32, (Fixed<8>,)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut h = alloc_shared::<u32>([8]);
    clear(&mut h);
    let v = min(x.masked([t]) as usize, 7);
    h[v] += 1;
    sync_threads();
    *y.masked_mut([t]) = h[t % 8];
}",
        args: || vec![tensor(Dtype::U32, [64], one_to_seven), tensor(Dtype::U32, [8], |_| 0.0)],
        right: || each(8, |v| each(64, one_to_seven).iter().filter(|x| **x == v as f32).count() as f32),
    },
    Case {
        name: "blocks count in a tensor",
        code: "TK0405",
        kernel: "#[tile_kernel(partial(y))]
fn k(x: &Tensor<u32, (N,)>, y: &mut Tensor<u32, (Fixed<8>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    let v = min(x[b] as usize, 7);
    if t == 0 {
        y[v] = y[v] + 1;
    }
}",
        args: || vec![tensor(Dtype::U32, [64], one_to_seven), tensor(Dtype::U32, [8], |_| 0.0)],
        right: || each(8, |v| each(64, one_to_seven).iter().filter(|x| **x == v as f32).count() as f32),
    },
    Case {
        name: "every thread stores the block's result",
        code: "TK0401",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    let v = thread_allreduce(Sum, x.masked([b * 2 + t % 2]), t);
    y[b] = v;
}",
        args: || vec![f32s([10], one_to_seven), f32s([10], |_| 0.0)],
        right: || {
            let x = |i| if i < 10 { one_to_seven(i) } else { 0.0 };
            each(10, |b| 16.0 * (x(b * 2) + x(b * 2 + 1)))
        },
    },
    Case {
        name: "every block stores the same element",
        code: "TK0405",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<1>,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    if t == 0 {
        y[0] = x.masked([b]);
    }
}",
        args: || vec![f32s([100], one_to_seven), f32s([1], |_| 0.0)],
        right: || vec![1.0],
    },
    Case {
        name: "no guard around a store",
        code: "TK0604",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    y[i] = 2.0 * x.masked([i]);
}",
        args: vectors,
        right: || each(100, |i| 2.0 * one_to_seven(i)),
    },
    Case {
        name: "no guard around a load",
        code: "TK0604",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    *y.masked_mut([i]) = 2.0 * x[i];
}",
        args: vectors,
        right: || each(100, |i| 2.0 * one_to_seven(i)),
    },
    Case {
        name: "an index that may be negative",
        code: "TK0605",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, by: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = 0.0;
        y[i] = x[i - by] + 0.0;
    }
}",
        args: || vectors_and(3),
        right: || each(96, |i| if i < 3 { 0.0 } else { one_to_seven(i - 3) }),
    },
    Case {
        name: "a guard that lets one element out",
        code: "TK0302",
        kernel: "#[tile_kernel(lints(TK0604 = \"off\"))]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N + 1, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i <= N {
        y[i] = x.masked([i]);
    }
}",
        args: || vec![f32s([96], one_to_seven), f32s([96], |_| 0.0)],
        right: || each(96, one_to_seven),
    },
    Case {
        name: "a load that leaves its tensor",
        code: "TK0302",
        kernel: "#[tile_kernel(lints(TK0604 = \"off\"))]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[i] + x[i + 1];
    }
}",
        args: vectors,
        right: || each(100, |i| one_to_seven(i) + if i < 99 { one_to_seven(i + 1) } else { 0.0 }),
    },
    Case {
        name: "an index below zero",
        code: "TK0303",
        kernel: "#[tile_kernel(lints(TK0605 = \"off\"))]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, by: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[i - by];
    }
}",
        args: || vectors_and(3),
        right: || each(96, |i| if i < 3 { 0.0 } else { one_to_seven(i - 3) }),
    },
    Case {
        name: "a store below zero",
        code: "TK0303",
        kernel: "#[tile_kernel(lints(TK0605 = \"off\"), partial(y))]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, by: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i - by] = x[i];
    }
}",
        args: || vectors_and(3),
        right: || each(96, |i| if i < 93 { one_to_seven(i + 3) } else { 0.0 }),
    },
    Case {
        name: "rows and columns swapped",
        code: "TK0604",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N, M)>, y: &mut Tensor<f32, (N, M)>) {
    let [b] = blocks([ceil_div(M, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < M {
        for row in 0..N {
            y[[row, i]] = x[[i, row]];
        }
    }
}",
        args: || vec![f32s([3, 40], one_to_seven), f32s([3, 40], |_| 0.0)],
        right: || each(120, one_to_seven),
    },
    Case {
        name: "half of a shared array is written",
        code: "TK0304",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    if t < 32 {
        s[t] = x.masked([b * 64 + t]);
    }
    sync_threads();
    *y.masked_mut([b * 64 + t]) = s[63 - t];
}",
        args: || vec![f32s([64], one_to_seven), f32s([64], |_| 0.0)],
        right: || each(64, |i| if i < 32 { 0.0 } else { one_to_seven(63 - i) }),
    },
    Case {
        name: "a part that the launch knows is written",
        code: "TK0304",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, count: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut s = alloc_shared::<f32>([32]);
    if t < count {
        s[t] = x.masked([b * 32 + t]);
    }
    sync_threads();
    *y.masked_mut([b * 32 + t]) = s[31 - t];
}",
        args: || vectors_and(16),
        right: || each(96, |i| if i % 32 < 16 { 0.0 } else { one_to_seven(i ^ 31) }),
    },
    Case {
        name: "an accumulator without a first value",
        code: "TK0304",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut acc = alloc_local::<f32>([2]);
    for step in 0..4 {
        acc[step % 2] += x.masked([b * 32 + t]);
    }
    *y.masked_mut([b * 32 + t]) = acc[0] + acc[1];
}",
        args: vectors,
        right: || each(100, |i| 4.0 * one_to_seven(i)),
    },
    Case {
        name: "a counter of several loops without a first value",
        code: "TK0304",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let mut acc = alloc_local::<f32>([1]);
    acc[0] += x.masked([b * 32 + t]);
    *y.masked_mut([b * 32 + t]) = acc[0];
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "a tensor whose rest is meant to stay",
        code: "TK0307",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N / 32]);
    let [t] = threads([32]);
    y[b * 32 + t] = x[b * 32 + t];
}",
        args: vectors,
        right: || each(100, |i| if i < 96 { one_to_seven(i) } else { 0.0 }),
    },
    Case {
        name: "a vector whose alignment nobody promises",
        code: "TK0201",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([M]);
    let [t] = threads([32]);
    for v in vectorized(0..4) {
        *y.masked_mut([b, t * 4 + v]) = x.masked([b, t * 4 + v]);
    }
}",
        args: || vec![f32s([2, 100], one_to_seven), f32s([2, 100], |_| 0.0)],
        right: || each(200, one_to_seven),
    },
    Case {
        name: "an index of another type",
        code: "TK0807",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, from: &Tensor<i32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    let at = from.masked([i]);
    *y.masked_mut([i]) = x.masked([at]);
}",
        args: || vec![f32s([100], one_to_seven), f32s([100], |_| 0.0), tensor(Dtype::I32, [100], |i| (99 - i) as f32)],
        right: || each(100, |i| one_to_seven(99 - i)),
    },
    Case {
        name: "two indices without a bracket of their own",
        code: "TK0801",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [row] = blocks([M]);
    let [t] = threads([32]);
    if t < N {
        y[row, t] = x[[row, t]];
    }
}",
        args: || vec![f32s([4, 20], one_to_seven), f32s([4, 20], |_| 0.0)],
        right: || each(80, one_to_seven),
    },
    Case {
        name: "f32 times f16",
        code: "TK0807",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f16, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let half = 0.5f32;
    *y.masked_mut([b * 32 + t]) = half * x.masked([b * 32 + t]);
}",
        args: || vec![tensor(Dtype::F16, [100], one_to_seven), f32s([100], |_| 0.0)],
        right: || each(100, |i| 0.5 * one_to_seven(i)),
    },
    Case {
        name: "an index that only the launch knows",
        code: "TK0604",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<1>,)>, at: usize) {
    blocks([1]);
    let [t] = threads([32]);
    if t == 0 {
        y[0] = x[at];
    }
}",
        args: || vec![f32s([10], one_to_seven), f32s([1], |_| 0.0), Arg::Index(4)],
        right: || vec![5.0],
    },
    Case {
        name: "a width that nobody promises",
        code: "TK0201",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, N)>) {
    let [b] = blocks([M]);
    threads([32]);
    let mut s = alloc_shared::<f32>([1, 128]);
    copy(x.at([b, 0]), &mut s).width(4);
    copy(&s, y.at_mut([b, 0]));
}",
        args: || vec![f32s([2, 100], one_to_seven), f32s([2, 100], |_| 0.0)],
        right: || each(200, one_to_seven),
    },
    Case {
        name: "a parameter without a borrow",
        code: "TK0801",
        kernel: "#[tile_kernel]
fn k(x: Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    *y.masked_mut([b * 32 + t]) = x.masked([b * 32 + t]);
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "a masked store without its star",
        code: "TK0801",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    y.masked_mut([b * 32 + t]) = x.masked([b * 32 + t]);
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "a barrier of CUDA",
        code: "TK0801",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    s[t] = x.masked([b * 64 + t]);
    __syncthreads();
    *y.masked_mut([b * 64 + t]) = s[63 - t];
}",
        args: || vec![f32s([64], one_to_seven), f32s([64], |_| 0.0)],
        right: || each(64, |i| one_to_seven(63 - i)),
    },
    Case {
        name: "a step that may be 0",
        code: "TK0306",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, counts: &Tensor<u32, (Fixed<1>,)>) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    let by = counts[0] as usize;
    let mut sum = 0.0f32;
    for k in (0..8).step_by(by) {
        sum += x.masked([b + k]);
    }
    if t == 0 {
        y[b] = sum;
    }
}",
        args: || vec![f32s([20], one_to_seven), f32s([20], |_| 0.0), tensor(Dtype::U32, [1], |_| 3.0)],
        right: || {
            let x = |i| if i < 20 { one_to_seven(i) } else { 0.0 };
            each(20, |b| x(b) + x(b + 3) + x(b + 6))
        },
    },
    Case {
        name: "a shift by what is in memory",
        code: "TK0306",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<u32, (N,)>, y: &mut Tensor<u32, (N,)>, counts: &Tensor<u32, (Fixed<1>,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let bits = counts[0] as usize;
    let at = (1 << bits) + b * 32 + t;
    *y.masked_mut([b * 32 + t]) = x.masked([at]);
}",
        args: || {
            let x = tensor(Dtype::U32, [100], one_to_seven);
            vec![x, tensor(Dtype::U32, [100], |_| 0.0), tensor(Dtype::U32, [1], |_| 3.0)]
        },
        right: || each(100, |i| if i + 8 < 100 { one_to_seven(i + 8) } else { 0.0 }),
    },
    Case {
        name: "a product's operand by value",
        code: "TK0807",
        kernel: "#[tile_kernel]
fn k(a: &Tensor<f16, (Fixed<64>, Fixed<64>)>, w: &Tensor<f16, (Fixed<64>, Fixed<64>)>, c: &mut Tensor<f32, (Fixed<64>, Fixed<64>)>) {
    blocks([1]);
    threads([128]);
    let mut left = alloc_shared::<f16>([64, 64]);
    let mut right = alloc_shared::<f16>([64, 64]);
    let mut sum = alloc_fragment::<f32>([64, 64]);
    clear(&mut sum);
    copy(a, &mut left);
    copy(w, &mut right);
    gemm(left, right.t(), &mut sum);
    copy(&sum, c);
}",
        args: squares,
        right: product_of_squares,
    },
    Case {
        name: "a product's sum by value",
        code: "TK0807",
        kernel: "#[tile_kernel]
fn k(a: &Tensor<f16, (Fixed<64>, Fixed<64>)>, w: &Tensor<f16, (Fixed<64>, Fixed<64>)>, c: &mut Tensor<f32, (Fixed<64>, Fixed<64>)>) {
    blocks([1]);
    threads([128]);
    let mut left = alloc_shared::<f16>([64, 64]);
    let mut right = alloc_shared::<f16>([64, 64]);
    let mut sum = alloc_fragment::<f32>([64, 64]);
    clear(&mut sum);
    copy(a, &mut left);
    copy(w, &mut right);
    gemm(&left, right.t(), sum);
    copy(&sum, c);
}",
        args: squares,
        right: product_of_squares,
    },
    Case {
        name: "a product's sum that is only borrowed",
        code: "TK0807",
        kernel: "#[tile_kernel]
fn k(a: &Tensor<f16, (Fixed<64>, Fixed<64>)>, w: &Tensor<f16, (Fixed<64>, Fixed<64>)>, c: &mut Tensor<f32, (Fixed<64>, Fixed<64>)>) {
    blocks([1]);
    threads([128]);
    let mut left = alloc_shared::<f16>([64, 64]);
    let mut right = alloc_shared::<f16>([64, 64]);
    let mut sum = alloc_fragment::<f32>([64, 64]);
    clear(&mut sum);
    copy(a, &mut left);
    copy(w, &mut right);
    gemm(&left, right.t(), &sum);
    copy(&sum, c);
}",
        args: squares,
        right: product_of_squares,
    },
    Case {
        name: "a masked load through a pointer",
        code: "TK0807",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let v = *x.masked([b * 64 + t]);
    *y.masked_mut([b * 64 + t]) = v;
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "a conversion to nothing",
        code: "TK0803",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let v = x.masked([b * 64 + t]).cast();
    *y.masked_mut([b * 64 + t]) = v;
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "a step of 0",
        code: "TK0803",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut sum = 0.0f32;
    for k in (0..3).step_by(0) {
        sum += x.masked([b * 64 + t + k]);
    }
    *y.masked_mut([b * 64 + t]) = sum;
}",
        args: vectors,
        right: || each(100, |i| each(3, |k| if i + k < 100 { one_to_seven(i + k) } else { 0.0 }).iter().sum()),
    },
    Case {
        name: "a copy that asks for TMA by a number",
        code: "TK0803",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    copy(x.at([b * 64]), &mut s).tma(0);
    *y.masked_mut([b * 64 + t]) = s[t];
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "a barrier of a warp, as CUDA writes it",
        code: "TK0801",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let mut s = alloc_shared::<f32>([64]);
    s[t] = x.masked([b * 64 + t]);
    __syncwarp();
    *y.masked_mut([b * 64 + t]) = s[t ^ 31];
}",
        args: || vec![f32s([64], one_to_seven), f32s([64], |_| 0.0)],
        right: || each(64, |i| one_to_seven(i / 32 * 32 + 31 - i % 32)),
    },
    Case {
        name: "a constant of a type, as Rust writes it where it is not sure",
        code: "TK0801",
        kernel: "#[tile_kernel(dtypes(T in [f32]))]
fn k<T: Float>(x: &Tensor<T, (N,)>, y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    *y.masked_mut([b * 64 + t]) = max(x.masked([b * 64 + t]), <T>::ZERO);
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
    Case {
        name: "no threads",
        code: "TK0804",
        kernel: "#[tile_kernel]
fn k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    for [i] in parallel([64]) {
        *y.masked_mut([b * 64 + i]) = x.masked([b * 64 + i]);
    }
}",
        args: vectors,
        right: || each(100, one_to_seven),
    },
];
