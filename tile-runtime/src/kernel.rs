//! TEMPORARY stand-in until the runtime lands.
#![allow(missing_docs)]
pub use crate::element::Element;
use tile_ir::ir::Dtype;
pub struct Definition(&'static str, &'static [u8]);
impl Definition {
    pub const fn new(name: &'static str, ir: &'static [u8]) -> Self {
        Definition(name, ir)
    }
    pub fn kernel(&'static self) -> Result<tile_ir::ir::Kernel, crate::Error> {
        let _ = self.0;
        tile_ir::codec::decode(self.1).map_err(|_| crate::Error)
    }
}
pub struct InstanceTable<const N: usize>(());
#[allow(clippy::new_without_default)]
impl<const N: usize> InstanceTable<N> {
    pub const fn new() -> Self {
        InstanceTable(())
    }
}
pub struct Argument<'a>(std::marker::PhantomData<&'a ()>);
#[diagnostic::on_unimplemented(message = "`{Self}` is not a rank-{R} tensor of `{T}`", label = "expected `&Tensor<{T}, {R}>`")]
pub trait TensorInput<T, const R: usize> {
    fn argument(&self) -> Argument<'_>;
}
#[diagnostic::on_unimplemented(message = "`{Self}` is not a mutable rank-{R} tensor of `{T}`", label = "expected `&mut Tensor<{T}, {R}>`")]
pub trait TensorOutput<T, const R: usize> {
    fn argument(&mut self) -> Argument<'_>;
}
pub trait ScalarInput {
    fn scalar(&self) -> Argument<'static>;
}
impl ScalarInput for f32 {
    fn scalar(&self) -> Argument<'static> {
        Argument(std::marker::PhantomData)
    }
}
impl<T: Element, const R: usize> TensorInput<T, R> for &crate::Tensor<T, R> {
    fn argument(&self) -> Argument<'_> {
        Argument(std::marker::PhantomData)
    }
}
impl<T: Element, const R: usize> TensorOutput<T, R> for &mut crate::Tensor<T, R> {
    fn argument(&mut self) -> Argument<'_> {
        Argument(std::marker::PhantomData)
    }
}
#[diagnostic::on_unimplemented(message = "`{Self}` is not a device or a stream", label = "expected a device or a stream")]
pub trait LaunchOn {}
impl LaunchOn for crate::Device {}
#[track_caller]
pub fn launch<const N: usize>(
    _def: &'static Definition,
    _table: &'static InstanceTable<N>,
    _instance: usize,
    _on: &impl LaunchOn,
    _args: &mut [Argument<'_>],
) -> Result<(), crate::LaunchError> {
    Ok(())
}
pub fn instance_index(_def: &'static Definition, _d: &[Dtype], _c: &[(&str, i64)]) -> Result<usize, crate::Error> {
    Ok(0)
}
