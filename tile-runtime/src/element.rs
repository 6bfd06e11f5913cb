//! TEMPORARY stand-in until the runtime lands.
/// An element type.
pub trait Element {
    /// Its dtype.
    const DTYPE: tile_ir::ir::Dtype;
}
macro_rules! e { ($($t:ty = $d:ident),*) => { $(impl Element for $t { const DTYPE: tile_ir::ir::Dtype = tile_ir::ir::Dtype::$d; })* } }
e!(bool = Bool, i32 = I32, u32 = U32, f32 = F32, half::f16 = F16, half::bf16 = Bf16);
