//! An op of any kernel: what candle's `apply_op` and `inplace_op` take.

#[cfg(feature = "cuda")]
use crate::cuda;
use crate::{CandleElement, extents, failed, host};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, InplaceOp2, InplaceOp3, Layout, Result, Shape};
#[cfg(feature = "cuda")]
use candle_core::{CudaStorage, backend::BackendStorage};
use std::marker::PhantomData;
use tile_runtime::interop::{Lent, LentMut};
use tile_runtime::{LaunchError, Stream};

/// What an op does with the storages of its `N` operands, each with how it lies. The traits of candle that an op implements call
/// this; of them there is one for each number of operands.
pub(crate) trait Forward<const N: usize> {
    /// What the op is called.
    fn op(&self) -> &'static str;
    /// To a new storage, on the CPU.
    fn cpu_new(&self, operands: [(&CpuStorage, &Layout); N]) -> Result<(CpuStorage, Shape)>;
    /// To a storage that exists, on the CPU.
    fn cpu_into(&self, sy: &mut CpuStorage, ly: &Layout, operands: [(&CpuStorage, &Layout); N]) -> Result<()>;
    /// To a new storage, on a CUDA device.
    #[cfg(feature = "cuda")]
    fn cuda_new(&self, operands: [(&CudaStorage, &Layout); N]) -> Result<(CudaStorage, Shape)>;
    /// To a storage that exists, on a CUDA device.
    #[cfg(feature = "cuda")]
    fn cuda_into(&self, sy: &mut CudaStorage, ly: &Layout, operands: [(&CudaStorage, &Layout); N]) -> Result<()>;
}

/// The first of some expressions.
#[cfg(feature = "cuda")]
macro_rules! first {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}

/// An op: `$Op` of `$n` inputs, each an element type, a rank, and names for a tensor, a storage and a layout.
macro_rules! op {
    (
        $(#[$doc:meta])*
        $Op:ident of $n:literal: $CustomOp:ident;
        $(($T:ident, $R:ident, $t:ident, $s:ident, $l:ident)),+
    ) => {
        $(#[$doc])*
        pub struct $Op<$($T, const $R: usize,)+ Y, const RY: usize, S, F> {
            name: &'static str,
            shape: S,
            launch: F,
            /// Whether the launch writes the whole result.
            #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
            whole: bool,
            types: PhantomData<fn($([$T; $R]),+) -> [Y; RY]>,
        }

        impl<$($T, const $R: usize,)+ Y, const RY: usize, S, F> $Op<$($T, $R,)+ Y, RY, S, F>
        where
            S: Fn($([usize; $R]),+) -> Result<[usize; RY]>,
            F: Fn(&Stream, $(&Lent<'_, $T, $R>,)+ &mut LentMut<'_, Y, RY>) -> std::result::Result<(), LaunchError>,
        {
            /// The op called `name`. `shape` makes the result's shape of the inputs' shapes. `launch` is given a stream, the
            /// inputs and the result, and launches on that stream; it may launch several kernels. A new result is zeros
            /// before.
            pub fn new(name: &'static str, shape: S, launch: F) -> Self {
                $Op { name, shape, launch, whole: false, types: PhantomData }
            }

            /// The op, whose new result is not filled with zeros before: one call of the driver less.
            ///
            /// # Safety
            /// The launch writes every element of the result, and reads none that it has not written.
            pub unsafe fn writes_all(self) -> Self {
                $Op { whole: true, ..self }
            }
        }

        impl<$($T, const $R: usize,)+ Y, const RY: usize, S, F> Forward<$n> for $Op<$($T, $R,)+ Y, RY, S, F>
        where
            $($T: CandleElement,)+
            Y: CandleElement,
            S: Fn($([usize; $R]),+) -> Result<[usize; RY]>,
            F: Fn(&Stream, $(&Lent<'_, $T, $R>,)+ &mut LentMut<'_, Y, RY>) -> std::result::Result<(), LaunchError>,
        {
            fn op(&self) -> &'static str {
                self.name
            }

            fn cpu_new(&self, [$(($s, $l)),+]: [(&CpuStorage, &Layout); $n]) -> Result<(CpuStorage, Shape)> {
                let shape = (self.shape)($(extents::<$R>($l)?),+)?;
                let on = host::stream()?;
                $(let $t = host::lent::<$T, $R>(&on, $s, $l)?;)+
                host::output(&on, shape, |y| (self.launch)(&on, $(&$t,)+ y))
            }

            fn cpu_into(
                &self,
                sy: &mut CpuStorage,
                ly: &Layout,
                [$(($s, $l)),+]: [(&CpuStorage, &Layout); $n],
            ) -> Result<()> {
                fits(self.name, (self.shape)($(extents::<$R>($l)?),+)?, ly)?;
                let on = host::stream()?;
                $(let $t = host::lent::<$T, $R>(&on, $s, $l)?;)+
                (self.launch)(&on, $(&$t,)+ &mut host::lent_mut(&on, sy, ly)?).map_err(failed)
            }

            #[cfg(feature = "cuda")]
            fn cuda_new(&self, [$(($s, $l)),+]: [(&CudaStorage, &Layout); $n]) -> Result<(CudaStorage, Shape)> {
                let shape = (self.shape)($(extents::<$R>($l)?),+)?;
                let beside = first!($($s),+);
                let on = cuda::stream(beside.device())?;
                $(let $t = cuda::lent::<$T, $R>(&on, $s, $l)?;)+
                cuda::output(&on, beside, shape, self.whole, |y| (self.launch)(&on, $(&$t,)+ y))
            }

            #[cfg(feature = "cuda")]
            fn cuda_into(
                &self,
                sy: &mut CudaStorage,
                ly: &Layout,
                [$(($s, $l)),+]: [(&CudaStorage, &Layout); $n],
            ) -> Result<()> {
                fits(self.name, (self.shape)($(extents::<$R>($l)?),+)?, ly)?;
                let on = cuda::stream(sy.device())?;
                $(let $t = cuda::lent::<$T, $R>(&on, $s, $l)?;)+
                (self.launch)(&on, $(&$t,)+ &mut cuda::lent_mut(&on, sy, ly)?).map_err(failed)
            }
        }

        impl<$($T, const $R: usize,)+ Y, const RY: usize, S, F> $CustomOp for $Op<$($T, $R,)+ Y, RY, S, F>
        where
            Self: Forward<$n>,
        {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(&self, $($s: &CpuStorage, $l: &Layout),+) -> Result<(CpuStorage, Shape)> {
                self.cpu_new([$(($s, $l)),+])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(&self, $($s: &CudaStorage, $l: &Layout),+) -> Result<(CudaStorage, Shape)> {
                self.cuda_new([$(($s, $l)),+])
            }
        }
    };
}

/// Implements candle's in-place trait `$InplaceOp` for `$Op`: the result is written to a tensor that exists, and none is allocated.
macro_rules! in_place {
    ($Op:ident of $n:literal: $InplaceOp:ident; $(($T:ident, $R:ident, $t:ident, $s:ident, $l:ident)),+) => {
        impl<$($T, const $R: usize,)+ Y, const RY: usize, S, F> $InplaceOp for $Op<$($T, $R,)+ Y, RY, S, F>
        where
            Self: Forward<$n>,
        {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(&self, sy: &mut CpuStorage, ly: &Layout, $($s: &CpuStorage, $l: &Layout),+) -> Result<()> {
                self.cpu_into(sy, ly, [$(($s, $l)),+])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(&self, sy: &mut CudaStorage, ly: &Layout, $($s: &CudaStorage, $l: &Layout),+) -> Result<()> {
                self.cuda_into(sy, ly, [$(($s, $l)),+])
            }
        }
    };
}

op! {
    /// An op of one tensor by a kernel: what its result's shape is, and how it is launched. A [`CustomOp1`] makes a new tensor,
    /// an [`InplaceOp2`] writes to one that is there: it is both.
    Op1 of 1: CustomOp1;
    (A, RA, ta, sa, la)
}
in_place!(Op1 of 1: InplaceOp2; (A, RA, ta, sa, la));

op! {
    /// An op of two tensors by a kernel: what its result's shape is, and how it is launched. A [`CustomOp2`] makes a new tensor,
    /// an [`InplaceOp3`] writes to one that is there: it is both.
    Op2 of 2: CustomOp2;
    (A, RA, ta, sa, la), (B, RB, tb, sb, lb)
}
in_place!(Op2 of 2: InplaceOp3; (A, RA, ta, sa, la), (B, RB, tb, sb, lb));

op! {
    /// An op of three tensors by a kernel: what its result's shape is, and how it is launched. As a [`CustomOp3`] it makes a new
    /// tensor. More inputs are [held](crate::hold).
    Op3 of 3: CustomOp3;
    (A, RA, ta, sa, la), (B, RB, tb, sb, lb), (C, RC, tc, sc, lc)
}

/// The error of a tensor that is not of the result's shape.
fn fits<const R: usize>(name: &str, shape: [usize; R], layout: &Layout) -> Result<()> {
    if layout.dims() == shape {
        return Ok(());
    }
    candle_core::bail!("{name}: the result has shape {shape:?}, and the tensor to be written {:?}", layout.dims())
}
