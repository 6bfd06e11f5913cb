//! The kernels for operands that the tensor memory accelerator cannot fetch, for devices without it, and for f32: any
//! address, any pitch, any extents.
//!
//! How wide the pieces are that operands are fetched in is a class of its own each ([`Class`]): asynchronous
//! copies of 16, 8 or 4 bytes, or one element of 2 bytes at a time through registers.

use super::epilogue::finish;
use super::{Choice, Class, Gemm, GemmElement};
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;

/// `c = f(alpha a b + beta c + bias)` as [`gemm`](super::kernel::gemm) has it, its operands by asynchronous copies of
/// `WIDTH` bytes: rows of `a` and `b` begin at multiples of them, and are whole multiples long.
///
/// 16-bit operands are multiplied on tensor cores, f32 by multiply-adds of f32.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS) in [(128, 128, 4, 256), (64, 64, 4, 128)],
        WIDTH in [16, 8, 4],
        (A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)],
        where T::BITS == 16 || U::BITS == 32
    ),
    dtypes(T in [f16, bf16, f32], U in [f16, bf16, f32]),
    uses(finish),
    require(A1 % (WIDTH * 8 / T::BITS) == 0),
    require(B1 % (WIDTH * 8 / T::BITS) == 0),
    require(A_T || A0 == M),
    require(!A_T || A1 == M),
    require(B_T || B1 == N),
    require(!B_T || B0 == N),
    require(A_T || B_T || A1 == B0),
    require(A_T || !B_T || A1 == B1),
    require(!A_T || B_T || A0 == B0),
    require(!A_T || !B_T || A0 == B1)
)]
pub fn gemm_any<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const THREADS: usize,
    const WIDTH: usize,
    const A_T: bool,
    const B_T: bool,
>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let bk = 512 / T::BITS; // 64 bytes of a row
    let depth = if A_T { A0 } else { A1 };
    let [bx, by] = blocks([ceil_div(N, BN), ceil_div(M, BM)]);
    threads([THREADS]);
    use_swizzle(8);
    let row = by * BM;
    let col = bx * BN;
    let mut a_s = alloc_shared::<T>([if A_T { bk } else { BM }, if A_T { BM } else { bk }]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { bk }, if B_T { bk } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BM, BN]);
    clear(&mut acc);
    for step in pipelined(0..ceil_div(depth, bk), STAGES) {
        let k = step * bk;
        copy(a.at([if A_T { k } else { row }, if A_T { row } else { k }]), &mut a_s)
            .width(WIDTH * 8 / T::BITS)
            .tma(false);
        copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s)
            .width(WIDTH * 8 / T::BITS)
            .tma(false);
        if A_T && B_T {
            gemm(a_s.t(), b_s.t(), &mut acc);
        } else if A_T {
            gemm(a_s.t(), &b_s, &mut acc);
        } else if B_T {
            gemm(&a_s, b_s.t(), &mut acc);
        } else {
            gemm(&a_s, &b_s, &mut acc);
        }
    }
    finish(&mut acc, c, bias, row, col, alpha, beta, activation);
    copy(&acc, c.at_mut([row, col]));
}

/// The same for 16-bit operands at any address and of any pitch: an element at a time through registers, those of the next
/// step along K on their way while this one's are multiplied.
#[tile_kernel(
    instances((A_T, B_T) in [(false, true), (false, false), (true, true), (true, false)]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(finish),
    require(A_T || A0 == M),
    require(!A_T || A1 == M),
    require(B_T || B1 == N),
    require(!B_T || B0 == N),
    require(A_T || B_T || A1 == B0),
    require(A_T || !B_T || A1 == B1),
    require(!A_T || B_T || A0 == B0),
    require(!A_T || !B_T || A0 == B1)
)]
pub fn gemm_elements<T, U, const A_T: bool, const B_T: bool>(
    a: &Tensor<T, (A0, A1)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    let depth = if A_T { A0 } else { A1 };
    let a_wide = if A_T { 128 } else { 32 }; // a row of the tile as it is stored
    let b_wide = if B_T { 32 } else { 128 };
    let [bx, by] = blocks([ceil_div(N, 128), ceil_div(M, 128)]);
    let [t] = threads([256]);
    use_swizzle(8);
    let row = by * 128;
    let col = bx * 128;
    let mut a_s = alloc_shared::<T>([4096 / a_wide, a_wide]);
    let mut b_s = alloc_shared::<T>([4096 / b_wide, b_wide]);
    let mut a_r = alloc_local::<T>([16]);
    let mut b_r = alloc_local::<T>([16]);
    let mut acc = alloc_fragment::<f32>([128, 128]);
    clear(&mut acc);
    for i in unroll(0..16) {
        a_r[i] = a.masked([
            if A_T { 0 } else { row } + i * (256 / a_wide) + t / a_wide,
            if A_T { row } else { 0 } + t % a_wide,
        ]);
        b_r[i] = b.masked([
            if B_T { col } else { 0 } + i * (256 / b_wide) + t / b_wide,
            if B_T { 0 } else { col } + t % b_wide,
        ]);
    }
    for step in 0..ceil_div(depth, 32) {
        for i in unroll(0..16) {
            a_s[[i * (256 / a_wide) + t / a_wide, t % a_wide]] = a_r[i];
            b_s[[i * (256 / b_wide) + t / b_wide, t % b_wide]] = b_r[i];
        }
        let next = (step + 1) * 32;
        for i in unroll(0..16) {
            a_r[i] = a.masked([
                if A_T { next } else { row } + i * (256 / a_wide) + t / a_wide,
                if A_T { row } else { next } + t % a_wide,
            ]);
            b_r[i] = b.masked([
                if B_T { col } else { next } + i * (256 / b_wide) + t / b_wide,
                if B_T { next } else { col } + t % b_wide,
            ]);
        }
        if A_T && B_T {
            gemm(a_s.t(), b_s.t(), &mut acc);
        } else if A_T {
            gemm(a_s.t(), &b_s, &mut acc);
        } else if B_T {
            gemm(&a_s, b_s.t(), &mut acc);
        } else {
            gemm(&a_s, &b_s, &mut acc);
        }
    }
    finish(&mut acc, c, bias, row, col, alpha, beta, activation);
    copy(&acc, c.at_mut([row, col]));
}

/// From this many tiles of 128 x 128 on they are preferred to tiles of 64 x 64, of which more fit on a device.
const ENOUGH_TILES: i64 = 100;

/// A launch of what serves a class; `large`: tiles of 128 x 128.
pub(super) trait Any<C: Element>: Element {
    #[track_caller]
    fn launch_any(
        on: &impl LaunchOn,
        class: Class,
        large: bool,
        a: impl TensorInput<Self, 2>,
        b: impl TensorInput<Self, 2>,
        c: impl TensorOutput<C, 2>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;
}

/// Whether a product of this shape fills a device with tiles of 128 x 128.
pub(super) fn is_large(m: i64, n: i64) -> bool {
    let up = |x: i64| (x.max(0) + 127) / 128;
    up(m).saturating_mul(up(n)) >= ENOUGH_TILES
}

/// Every instance is a type of its own: the match from values to it, written once.
macro_rules! launch {
    (copies $t:ty, $u:ty, $width:literal, $large:ident, $o:ident, $args:tt) => {
        match ($large, $o.a_transposed, $o.b_transposed) {
            (true, false, true) => launch!(@ gemm_any::<$t, $u, 128, 128, 4, 256, $width, false, true>, $o, $args),
            (true, false, false) => launch!(@ gemm_any::<$t, $u, 128, 128, 4, 256, $width, false, false>, $o, $args),
            (true, true, true) => launch!(@ gemm_any::<$t, $u, 128, 128, 4, 256, $width, true, true>, $o, $args),
            (true, true, false) => launch!(@ gemm_any::<$t, $u, 128, 128, 4, 256, $width, true, false>, $o, $args),
            (false, false, true) => launch!(@ gemm_any::<$t, $u, 64, 64, 4, 128, $width, false, true>, $o, $args),
            (false, false, false) => launch!(@ gemm_any::<$t, $u, 64, 64, 4, 128, $width, false, false>, $o, $args),
            (false, true, true) => launch!(@ gemm_any::<$t, $u, 64, 64, 4, 128, $width, true, true>, $o, $args),
            (false, true, false) => launch!(@ gemm_any::<$t, $u, 64, 64, 4, 128, $width, true, false>, $o, $args),
        }
    };
    (elements $t:ty, $u:ty, $o:ident, $args:tt) => {
        match ($o.a_transposed, $o.b_transposed) {
            (false, true) => launch!(@ gemm_elements::<$t, $u, false, true>, $o, $args),
            (false, false) => launch!(@ gemm_elements::<$t, $u, false, false>, $o, $args),
            (true, true) => launch!(@ gemm_elements::<$t, $u, true, true>, $o, $args),
            (true, false) => launch!(@ gemm_elements::<$t, $u, true, false>, $o, $args),
        }
    };
    (@ $kernel:ty, $o:ident, ($on:ident, $a:ident, $b:ident, $c:ident)) => {
        <$kernel>::launch($on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number())
    };
}

macro_rules! outputs {
    ($($t:ty => $u:ty: $($elements:ident)?;)*) => { $(
        impl Any<$u> for $t {
            #[track_caller]
            fn launch_any(
                on: &impl LaunchOn,
                class: Class,
                large: bool,
                a: impl TensorInput<Self, 2>,
                b: impl TensorInput<Self, 2>,
                c: impl TensorOutput<$u, 2>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                match class {
                    Class::Tma | Class::Copies16 => launch!(copies $t, $u, 16, large, options, (on, a, b, c)),
                    Class::Copies8 => launch!(copies $t, $u, 8, large, options, (on, a, b, c)),
                    $(Class::Elements => launch!($elements $t, $u, options, (on, a, b, c)),)?
                    // f32 has no narrower class.
                    #[allow(unreachable_patterns)]
                    Class::Copies4 | Class::Elements => launch!(copies $t, $u, 4, large, options, (on, a, b, c)),
                }
            }
        }
    )* };
}

outputs! {
    f16 => f16: elements;
    f16 => f32: elements;
    bf16 => bf16: elements;
    bf16 => f32: elements;
    f32 => f32: ;
}

impl GemmElement<f32> for f32 {
    #[track_caller]
    fn launch(
        on: &impl LaunchOn,
        class: Class,
        choice: Choice,
        a: impl TensorInput<f32, 2>,
        b: impl TensorInput<f32, 2>,
        c: impl TensorOutput<f32, 2>,
        options: &Gemm<'_, f32>,
    ) -> Result<(), LaunchError> {
        if options.precision == super::Precision::Tf32 {
            return super::tf32::launch(on, class, choice.many_tiles, a, b, c, options);
        }
        <f32 as Any<f32>>::launch_any(on, class, choice.many_tiles, a, b, c, options)
    }

    fn launch_batch(
        _: &impl LaunchOn,
        _: usize,
        _: impl TensorInput<f32, 3>,
        _: impl TensorInput<f32, 3>,
        _: impl TensorOutput<f32, 3>,
        _: &Gemm<'_, f32>,
    ) -> Option<Result<(), LaunchError>> {
        None
    }
}
