//! Ready ops: products by `tile-kernels`, of f16, bf16 and f32.

use crate::lock::{Operand, in_place, made};
use crate::op::Forward;
use crate::{CandleElement, Lies, Op2, Op3};
use candle_core::{DType, Result, Tensor, bail};
use half::{bf16, f16};
use tile_kernels::gemm::{Activation, Gemm, GemmElement, Precision, gemm as launch_gemm};
use tile_kernels::gemv::{Gemv, GemvElement, gemv as launch_gemv};

/// `y = W x`: `w` of shape `[N, K]`, `x` of `[K]`, both of f16, bf16 or f32, as is the result, of shape `[N]`.
///
/// ```
/// # use candle_core::{Device, Tensor};
/// let w = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// let x = Tensor::new(&[1.0f32, 10.0], &Device::Cpu)?;
/// assert_eq!(tile_candle::gemv(&w, &x)?.to_vec1::<f32>()?, [21.0, 43.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Other shapes, element types or devices; rows that are not contiguous; whatever launching fails with.
pub fn gemv(w: &Tensor, x: &Tensor) -> Result<Tensor> {
    let made = gemv_to(None, w, x, Gemv::default())?;
    made.ok_or_else(|| candle_core::Error::msg("gemv made no tensor"))
}

/// `y = alpha W x + beta y`, in the `y` that is there: of shape `[N]`, and as [`gemv`] otherwise. It allocates nothing, so
/// it may be captured in a graph.
///
/// ```
/// # use candle_core::{DType, Device, Tensor};
/// # use tile_candle::{Gemv, gemv_into};
/// let w = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// let x = Tensor::new(&[1.0f32, 10.0], &Device::Cpu)?;
/// let y = Tensor::ones(2, DType::F32, &Device::Cpu)?;
/// gemv_into(&y, &w, &x, Gemv { alpha: 2.0, beta: 1.0 })?;
/// assert_eq!(y.to_vec1::<f32>()?, [43.0, 87.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// As [`gemv`]; `y` is of another shape or element type, or shares its storage with an operand.
pub fn gemv_into(y: &Tensor, w: &Tensor, x: &Tensor, scalars: Gemv) -> Result<()> {
    gemv_to(Some(y), w, x, scalars).map(drop)
}

fn gemv_to(y: Option<&Tensor>, w: &Tensor, x: &Tensor, scalars: Gemv) -> Result<Option<Tensor>> {
    match w.dtype() {
        DType::F16 => gemv_of::<f16>(y, w, x, scalars),
        DType::BF16 => gemv_of::<bf16>(y, w, x, scalars),
        DType::F32 => gemv_of::<f32>(y, w, x, scalars),
        other => bail!("gemv multiplies f16, bf16 and f32, not {}", other.as_str()),
    }
}

/// Into `y`, or into the new tensor that is returned.
fn gemv_of<T: CandleElement + GemvElement>(
    y: Option<&Tensor>,
    w: &Tensor,
    x: &Tensor,
    scalars: Gemv,
) -> Result<Option<Tensor>> {
    let shape = |[n, k]: [usize; 2], [found]: [usize; 1]| match k == found {
        true => Ok([n]),
        false => bail!("gemv: w has {k} columns, and x {found} elements"),
    };
    let op = Op2::<T, 2, T, 1, T, 1, _, _>::new("gemv", shape, |on, w, x, y| launch_gemv(on, w, x, y, scalars));
    // SAFETY: a new result has beta = 0: then the product writes every row and reads none.
    let op = unsafe { op.writes_all() };
    to(y, [(w, w.layout().into()), (x, x.layout().into())], &op)
}

/// `op` of these operands, into a tensor that is there or the new one that is returned.
pub(crate) fn to<const N: usize>(
    result: Option<&Tensor>,
    operands: [Operand<'_>; N],
    op: &impl Forward<N>,
) -> Result<Option<Tensor>> {
    match result {
        Some(result) => in_place(result, operands, op).map(|()| None),
        None => made(operands, op).map(Some),
    }
}

/// What [`gemm`] and [`gemm_into`] do besides the product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmOptions {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of the `c` that is there: of [`gemm_into`] alone. Where it is 0, `c` is not read and may hold anything.
    pub beta: f32,
    /// Applied to the sum.
    pub activation: Activation,
    /// What is multiplied of f32 operands.
    pub precision: Precision,
    /// The element type of the tensor that [`gemm`] makes, where it is not the operands': f32 of f16 or bf16.
    pub result: Option<DType>,
}

impl Default for GemmOptions {
    /// `c = a b`.
    fn default() -> Self {
        GemmOptions { alpha: 1.0, beta: 0.0, activation: Activation::None, precision: Precision::Full, result: None }
    }
}

/// `c = f(alpha a b + bias)`: `a` of shape `[M, K]`, `b` of `[K, N]`, the bias, if there is one, of `[N]`, all of f16, bf16
/// or f32. The result is `[M, N]`, of the operands' type or [`GemmOptions::result`].
///
/// Operands may be transposed views, as those of candle's `matmul`: of weights that are stored as `[N, K]`, `w.t()?`.
///
/// ```
/// # use candle_core::{Device, Tensor};
/// # use tile_candle::{GemmOptions, gemm};
/// let a = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// let bias = Tensor::new(&[0.5f32, -0.5], &Device::Cpu)?;
/// let c = gemm(&a, &a, Some(&bias), GemmOptions::default())?;
/// assert_eq!(c.to_vec2::<f32>()?, [[7.5, 9.5], [15.5, 21.5]]);
/// let c = gemm(&a, &a.t()?, None, GemmOptions::default())?;
/// assert_eq!(c.to_vec2::<f32>()?, [[5.0, 11.0], [11.0, 25.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Other shapes, element types or devices; operands of which neither rows nor columns are contiguous; `beta` is not 0;
/// whatever launching fails with.
pub fn gemm(a: &Tensor, b: &Tensor, bias: Option<&Tensor>, options: GemmOptions) -> Result<Tensor> {
    if options.beta != 0.0 {
        bail!("gemm makes a new c, and beta is {}; gemm_into takes the c that it is the factor of", options.beta);
    }
    let made = gemm_to(None, a, b, bias, options, options.result.unwrap_or(a.dtype()))?;
    made.ok_or_else(|| candle_core::Error::msg("gemm made no tensor"))
}

/// `c = f(alpha a b + beta c + bias)`, in the `c` that is there: of shape `[M, N]`, of the operands' type or, where these are
/// f16 or bf16, of f32; as [`gemm`] otherwise. It allocates nothing, so it may be captured in a graph.
///
/// ```
/// # use candle_core::{DType, Device, Tensor};
/// # use tile_candle::{GemmOptions, gemm_into};
/// let a = Tensor::new(&[[1.0f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// let c = Tensor::ones((2, 2), DType::F32, &Device::Cpu)?;
/// gemm_into(&c, &a, &a, None, GemmOptions { beta: 1.0, ..GemmOptions::default() })?;
/// assert_eq!(c.to_vec2::<f32>()?, [[8.0, 11.0], [16.0, 23.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// As [`gemm`]; `c` is of another shape or element type, or shares its storage with an operand or the bias.
pub fn gemm_into(c: &Tensor, a: &Tensor, b: &Tensor, bias: Option<&Tensor>, options: GemmOptions) -> Result<()> {
    gemm_to(Some(c), a, b, bias, options, c.dtype()).map(drop)
}

fn gemm_to(
    c: Option<&Tensor>,
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    options: GemmOptions,
    result: DType,
) -> Result<Option<Tensor>> {
    let gemm = match (a.dtype(), result) {
        (DType::F16, DType::F16) => gemm_of::<f16, f16>,
        (DType::F16, DType::F32) => gemm_of::<f16, f32>,
        (DType::BF16, DType::BF16) => gemm_of::<bf16, bf16>,
        (DType::BF16, DType::F32) => gemm_of::<bf16, f32>,
        (DType::F32, DType::F32) => gemm_of::<f32, f32>,
        (of, to) => bail!(
            "gemm multiplies f16, bf16 and f32 into their own type, and f16 and bf16 into f32; not {} into {}",
            of.as_str(),
            to.as_str()
        ),
    };
    gemm(c, a, b, bias, options)
}

/// Into `c`, or into the new tensor that is returned.
fn gemm_of<T: CandleElement + GemmElement<C>, C: CandleElement>(
    c: Option<&Tensor>,
    a: &Tensor,
    b: &Tensor,
    bias: Option<&Tensor>,
    GemmOptions { alpha, beta, activation, precision, .. }: GemmOptions,
) -> Result<Option<Tensor>> {
    let (la, lb) = (stored(a), stored(b));
    let (a_transposed, b_transposed) = (la.transposed, lb.transposed);
    let shape = |[m, ka]: [usize; 2], [kb, n]: [usize; 2]| {
        let ((m, ka), (kb, n)) = (swapped(a_transposed, m, ka), swapped(b_transposed, kb, n));
        match ka == kb {
            true => Ok([m, n]),
            false => bail!("gemm: a has {ka} columns, and b {kb} rows"),
        }
    };
    let plain = Gemm { a_transposed, b_transposed, alpha, beta, bias: None, activation, precision };
    match bias {
        None => {
            let op = Op2::<T, 2, T, 2, C, 2, _, _>::new("gemm", shape, |on, a, b, c| launch_gemm(on, a, b, c, &plain));
            // SAFETY: a new result has beta = 0: then the product writes every element and reads none.
            let op = unsafe { op.writes_all() };
            to(c, [(a, la), (b, lb)], &op)
        }
        Some(bias) => {
            // The bias's extent is checked by the launch.
            let shape = |a: [usize; 2], b: [usize; 2], _: [usize; 1]| shape(a, b);
            let op = Op3::<T, 2, T, 2, T, 1, C, 2, _, _>::new("gemm", shape, |on, a, b, bias, c| {
                launch_gemm(on, a, b, c, &Gemm { bias: Some(bias), ..plain })
            });
            // SAFETY: as without a bias.
            let op = unsafe { op.writes_all() };
            to(c, [(a, la), (b, lb), (bias, bias.layout().into())], &op)
        }
    }
}

/// How a matrix lies: as its transpose, where that is what is stored: its rows are contiguous, and the matrix's are not.
fn stored(matrix: &Tensor) -> Lies<'_> {
    let transposed = match (matrix.dims(), matrix.stride()) {
        (&[rows, columns], &[down, across]) => columns > 1 && across != 1 && (down == 1 || rows == 1),
        _ => false,
    };
    Lies { layout: matrix.layout(), transposed }
}

fn swapped(swap: bool, first: usize, second: usize) -> (usize, usize) {
    if swap { (second, first) } else { (first, second) }
}
