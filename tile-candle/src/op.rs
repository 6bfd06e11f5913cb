//! An op of any kernel: what candle's `apply_op` and `inplace_op` take.

#[cfg(feature = "cuda")]
use crate::cuda;
use crate::{CandleElement, Lies, failed, host};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, InplaceOp2, InplaceOp3, Layout, Result, Shape};
#[cfg(feature = "cuda")]
use candle_core::{CudaStorage, backend::BackendStorage};
use std::marker::PhantomData;
use tile_runtime::interop::{Lent, LentMut};
use tile_runtime::{LaunchError, Stream};

/// What an op makes, or writes to a tensor that is there, of the storages of its `N` operands, each with how it lies. The traits of
/// candle that an op implements call this; of them there is one for each number of operands.
pub(crate) trait Forward<const N: usize> {
    /// What the op is called.
    fn op(&self) -> &'static str;
    /// A new tensor on the CPU.
    fn cpu_new(&self, operands: [(&CpuStorage, Lies<'_>); N]) -> Result<(CpuStorage, Shape)>;
    /// Into a tensor on the CPU.
    fn cpu_into(&self, sy: &mut CpuStorage, ly: &Layout, operands: [(&CpuStorage, Lies<'_>); N]) -> Result<()>;
    /// A new tensor on a CUDA device.
    #[cfg(feature = "cuda")]
    fn cuda_new(&self, operands: [(&CudaStorage, Lies<'_>); N]) -> Result<(CudaStorage, Shape)>;
    /// Into a tensor on a CUDA device.
    #[cfg(feature = "cuda")]
    fn cuda_into(&self, sy: &mut CudaStorage, ly: &Layout, operands: [(&CudaStorage, Lies<'_>); N]) -> Result<()>;
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
        $vis:vis $Op:ident of $n:literal;
        $(($T:ident, $R:ident, $t:ident, $s:ident, $l:ident)),+
    ) => {
        $(#[$doc])*
        $vis struct $Op<$($T, const $R: usize,)+ Y, const RY: usize, S, F> {
            name: &'static str,
            shape: S,
            launch: F,
            /// Whether the launch writes the whole result and reads none of it before.
            #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "memory of the CPU is always filled with zeros"))]
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

            fn cpu_new(&self, [$(($s, $l)),+]: [(&CpuStorage, Lies<'_>); $n]) -> Result<(CpuStorage, Shape)> {
                let shape = (self.shape)($($l.extents::<$R>()?),+)?;
                let on = host::stream()?;
                $(let $t = host::lent::<$T, $R>(&on, $s, $l)?;)+
                host::output(&on, shape, |y| (self.launch)(&on, $(&$t,)+ y))
            }

            fn cpu_into(
                &self,
                sy: &mut CpuStorage,
                ly: &Layout,
                [$(($s, $l)),+]: [(&CpuStorage, Lies<'_>); $n],
            ) -> Result<()> {
                fits(self.name, (self.shape)($($l.extents::<$R>()?),+)?, ly)?;
                let on = host::stream()?;
                $(let $t = host::lent::<$T, $R>(&on, $s, $l)?;)+
                (self.launch)(&on, $(&$t,)+ &mut host::lent_mut(&on, sy, ly.into())?).map_err(failed)
            }

            #[cfg(feature = "cuda")]
            fn cuda_new(&self, [$(($s, $l)),+]: [(&CudaStorage, Lies<'_>); $n]) -> Result<(CudaStorage, Shape)> {
                let shape = (self.shape)($($l.extents::<$R>()?),+)?;
                let beside = first!($($s),+);
                let on = cuda::lender(beside.device())?;
                $(let $t = cuda::lent::<$T, $R>(&on, $s, $l)?;)+
                let made = cuda::output(&on, beside, shape, self.whole, |y| (self.launch)(on.stream(), $(&$t,)+ y))?;
                $(on.take_back($t);)+
                Ok(made)
            }

            #[cfg(feature = "cuda")]
            fn cuda_into(
                &self,
                sy: &mut CudaStorage,
                ly: &Layout,
                [$(($s, $l)),+]: [(&CudaStorage, Lies<'_>); $n],
            ) -> Result<()> {
                fits(self.name, (self.shape)($($l.extents::<$R>()?),+)?, ly)?;
                let on = cuda::lender(sy.device())?;
                $(let $t = cuda::lent::<$T, $R>(&on, $s, $l)?;)+
                let mut y = cuda::lent_mut(&on, sy, ly.into())?;
                (self.launch)(on.stream(), $(&$t,)+ &mut y).map_err(failed)?;
                $(on.take_back($t);)+
                on.take_back_mut(y);
                Ok(())
            }
        }
    };
}

/// Implements candle's trait `$CustomOp` for `$Op`: the result is a new tensor.
macro_rules! new_tensor {
    ($Op:ident of $n:literal: $CustomOp:ident; $(($T:ident, $R:ident, $t:ident, $s:ident, $l:ident)),+) => {
        impl<$($T, const $R: usize,)+ Y, const RY: usize, S, F> $CustomOp for $Op<$($T, $R,)+ Y, RY, S, F>
        where
            Self: Forward<$n>,
        {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(&self, $($s: &CpuStorage, $l: &Layout),+) -> Result<(CpuStorage, Shape)> {
                self.cpu_new([$(($s, $l.into())),+])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(&self, $($s: &CudaStorage, $l: &Layout),+) -> Result<(CudaStorage, Shape)> {
                self.cuda_new([$(($s, $l.into())),+])
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
                self.cpu_into(sy, ly, [$(($s, $l.into())),+])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(&self, sy: &mut CudaStorage, ly: &Layout, $($s: &CudaStorage, $l: &Layout),+) -> Result<()> {
                self.cuda_into(sy, ly, [$(($s, $l.into())),+])
            }
        }
    };
}

op! {
    /// An op of one tensor by a kernel: what its result's shape is, and how it is launched. A [`CustomOp1`] makes a new tensor,
    /// an [`InplaceOp2`] writes to one that is there: it is both.
    pub Op1 of 1;
    (A, RA, ta, sa, la)
}
new_tensor!(Op1 of 1: CustomOp1; (A, RA, ta, sa, la));
in_place!(Op1 of 1: InplaceOp2; (A, RA, ta, sa, la));

op! {
    /// An op of two tensors by a kernel: what its result's shape is, and how it is launched. A [`CustomOp2`] makes a new tensor,
    /// an [`InplaceOp3`] writes to one that is there: it is both.
    pub Op2 of 2;
    (A, RA, ta, sa, la), (B, RB, tb, sb, lb)
}
new_tensor!(Op2 of 2: CustomOp2; (A, RA, ta, sa, la), (B, RB, tb, sb, lb));
in_place!(Op2 of 2: InplaceOp3; (A, RA, ta, sa, la), (B, RB, tb, sb, lb));

op! {
    /// An op of three tensors by a kernel: what its result's shape is, and how it is launched. As a [`CustomOp3`] it makes a new
    /// tensor. More inputs are [held](crate::hold).
    pub Op3 of 3;
    (A, RA, ta, sa, la), (B, RB, tb, sb, lb), (C, RC, tc, sc, lc)
}
new_tensor!(Op3 of 3: CustomOp3; (A, RA, ta, sa, la), (B, RB, tb, sb, lb), (C, RC, tc, sc, lc));

op! {
    /// An op of four tensors, for which candle has no trait: of ready ops alone.
    pub(crate) Op4 of 4;
    (A, RA, ta, sa, la), (B, RB, tb, sb, lb), (C, RC, tc, sc, lc), (D, RD, td, sd, ld)
}

/// The error of a tensor that is not of the result's shape.
fn fits<const R: usize>(name: &str, shape: [usize; R], layout: &Layout) -> Result<()> {
    if layout.dims() == shape {
        return Ok(());
    }
    candle_core::bail!("{name}: the result has shape {shape:?}, and the tensor to be written {:?}", layout.dims())
}
