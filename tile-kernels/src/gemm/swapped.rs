//! The product with its operands swapped: `c^T = b^T a^T`, turned on its way out. `wgmma` multiplies 64 rows at a time and any multiple of 8
//! columns: where the rows of `a` are the columns of the instruction, a product of 151 rows takes 160 of them instead of 192.

use super::activation::activate;
use super::model::Work;
use super::{Choice, Gemm, GemmElement};
use tile_runtime::kernel::{LaunchOn, TensorInput, TensorOutput};
use tile_runtime::prelude::*;
use tile_runtime::{Element, LaunchError};

/// `c = f(alpha a b + beta c + bias)`, [`kernel::gemm`](fn@super::kernel::gemm) for an `a` that is stored as M x K, in tiles of `BM` rows, any
/// multiple of 8.
#[tile_kernel(
    instances(
        (BM, BN, STAGES, THREADS) in [
            (80, 64, 10, 128), (104, 64, 8, 128), (80, 128, 7, 256), (112, 128, 6, 256), (160, 128, 5, 256), (208, 128, 4, 256),
            (80, 256, 4, 256), (112, 256, 4, 256), (160, 256, 3, 256),
        ],
        B_T in [true, false]
    ),
    pdl(independent = [b]),
    dtypes(T in [f16, bf16], U in [f16, bf16, f32]),
    uses(activate),
    targets(sm_90a),
    require(B_T || B1 == N),
    require(!B_T || B0 == N),
    require(B_T || K == B0),
    require(!B_T || K == B1)
)]
pub fn gemm_swapped<
    T,
    U,
    const BM: usize,
    const BN: usize,
    const STAGES: usize,
    const THREADS: usize,
    const B_T: bool,
>(
    a: &Tensor<T, (M, K)>,
    b: &Tensor<T, (B0, B1)>,
    c: &mut Tensor<U, (M, N)>,
    bias: Option<&Tensor<T, (N,)>>,
    alpha: f32,
    beta: f32,
    activation: u32,
) {
    threads([THREADS]);
    let mut a_s = alloc_shared::<T>([BM, 64]);
    let mut b_s = alloc_shared::<T>([if B_T { BN } else { 64 }, if B_T { 64 } else { BN }]);
    let mut acc = alloc_fragment::<f32>([BN, BM]);
    for [by, bx] in persistent([ceil_div(M, BM), ceil_div(N, BN)]) {
        let row = by * BM;
        let col = bx * BN;
        clear(&mut acc);
        for step in pipelined(0..ceil_div(K, 64), STAGES) {
            let k = step * 64;
            copy(a.at([row, k]), &mut a_s).evict(Last);
            copy(b.at([if B_T { col } else { k }, if B_T { k } else { col }]), &mut b_s);
            if B_T {
                gemm(&b_s, a_s.t(), &mut acc);
            } else {
                gemm(b_s.t(), a_s.t(), &mut acc);
            }
        }
        for [i, j] in parallel([BN, BM]) {
            let mut value = alpha * acc[[i, j]];
            if beta != 0.0 {
                value += beta * c.masked([row + j, col + i]).cast::<f32>();
            }
            if let Some(shift) = bias {
                value += shift.masked([col + i]).cast::<f32>();
            }
            acc[[i, j]] = activate(value, activation);
        }
        copy(acc.t(), c.at_mut([row, col]));
    }
}

/// A tile of [`gemm_swapped`]: rows and columns of the result, stages, threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swapped(pub i64, pub i64, pub usize, pub usize);

const TILES: [Swapped; 9] = [
    Swapped(80, 64, 10, 128),
    Swapped(104, 64, 8, 128),
    Swapped(80, 128, 7, 256),
    Swapped(112, 128, 6, 256),
    Swapped(160, 128, 5, 256),
    Swapped(208, 128, 4, 256),
    Swapped(80, 256, 4, 256),
    Swapped(112, 256, 4, 256),
    Swapped(160, 256, 3, 256),
];

impl Swapped {
    /// Every tile, for operands that are stored so.
    pub fn candidates([a_transposed, _]: [bool; 2]) -> impl Iterator<Item = Swapped> {
        TILES.into_iter().filter(move |_| !a_transposed)
    }

    /// What a launch by it does.
    pub fn work(self, shape: [i64; 3], stored: [bool; 2]) -> Work {
        let Swapped(rows, cols, stages, threads) = self;
        let (depth, threads) = (64 * stages as i64, threads as i64);
        Work { shape, stored, tile: [rows, cols], depth, threads, cluster: 1, parts: 1, slots: 1, swapped: true }
    }
}

/// An element type whose products may be swapped, where the result's is `C`.
pub trait SwappedElement<C: Element = Self>: Element {
    /// Launches a tile; `a` is stored as M x K.
    #[doc(hidden)]
    #[track_caller]
    fn launch_swapped(
        on: &impl LaunchOn,
        tile: Swapped,
        a: impl TensorInput<Self, 2>,
        b: impl TensorInput<Self, 2>,
        c: impl TensorOutput<C, 2>,
        options: &Gemm<'_, Self>,
    ) -> Result<(), LaunchError>;
}

/// Every instance is a type of its own: the match from values to it, written once.
macro_rules! launch {
    ($ty:ty, $out:ty, $on:ident, $tile:ident, $a:ident, $b:ident, $c:ident, $o:ident;
     $(($bm:literal, $bn:literal, $stages:literal, $threads:literal)),*) => {
        match ($tile, $o.b_transposed) {
            $((Swapped($bm, $bn, $stages, $threads), true) => gemm_swapped::<$ty, $out, $bm, $bn, $stages, $threads, true>::launch(
                $on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number(),
            ),
            (Swapped($bm, $bn, $stages, $threads), false) => gemm_swapped::<$ty, $out, $bm, $bn, $stages, $threads, false>::launch(
                $on, $a, $b, $c, $o.bias, $o.alpha, $o.beta, $o.activation.number(),
            ),)*
            _ => <$ty as GemmElement<$out>>::launch($on, Choice::default(), $a, $b, $c, $o),
        }
    };
}

macro_rules! elements {
    ($($ty:ty => $out:ty),*) => { $(
        impl SwappedElement<$out> for $ty {
            #[track_caller]
            fn launch_swapped(
                on: &impl LaunchOn,
                tile: Swapped,
                a: impl TensorInput<Self, 2>,
                b: impl TensorInput<Self, 2>,
                c: impl TensorOutput<$out, 2>,
                options: &Gemm<'_, Self>,
            ) -> Result<(), LaunchError> {
                launch!($ty, $out, on, tile, a, b, c, options;
                    (80, 64, 10, 128), (104, 64, 8, 128), (80, 128, 7, 256), (112, 128, 6, 256), (160, 128, 5, 256),
                    (208, 128, 4, 256), (80, 256, 4, 256), (112, 256, 4, 256), (160, 256, 3, 256)
                )
            }
        }
    )* };
}

elements!(f16 => f16, f16 => f32, bf16 => bf16, bf16 => f32);
