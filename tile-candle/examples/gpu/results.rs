//! Results beside those of candle's `matmul`. In f32 neither of the two is exact, and both are compared with the product in f64.

use crate::Failures;
use crate::data::{bits, distance, error, normal, poison, poison_pool};
use candle_core::{DType, Device, Result, Tensor};
use tile_candle::{Activation, GemmOptions, Gemv, gemm, gemm_into, gemv, gemv_into};

const DTYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

/// N x K.
const GEMV: [(usize, usize); 6] = [(4096, 4096), (14336, 4096), (4096, 14336), (256, 256), (1000, 1001), (1, 7)];

/// M x N x K.
const GEMM: [(usize, usize, usize); 7] = [
    (16, 4096, 4096),
    (64, 14336, 4096),
    (512, 4096, 4096),
    (2048, 2048, 2048),
    (129, 257, 511),
    (33, 65, 77),
    (1, 128, 64),
];

/// What a product should be.
struct Expected {
    /// Candle's.
    candle: Tensor,
    /// The exact one, in f64, of f32.
    exact: Option<Tensor>,
}

impl Expected {
    fn product(a: &Tensor, b: &Tensor) -> Result<Expected> {
        let exact = match a.dtype() {
            DType::F32 => Some(a.to_dtype(DType::F64)?.matmul(&b.to_dtype(DType::F64)?)?),
            _ => None,
        };
        Ok(Expected { candle: a.matmul(b)?, exact })
    }

    /// `w x`.
    fn gemv(w: &Tensor, x: &Tensor) -> Result<Expected> {
        let Expected { candle, exact } = Expected::product(w, &x.unsqueeze(1)?)?;
        Ok(Expected { candle: candle.squeeze(1)?, exact: exact.map(|exact| exact.squeeze(1)).transpose()? })
    }
}

pub fn run(device: &Device, failures: &mut Failures) -> Result<()> {
    let mut compared = 0;
    let mut check = |name: &str, found: &Tensor, expected: &Expected, k: usize, roundings: f32| -> Result<()> {
        compared += 1;
        let far = match &expected.exact {
            Some(exact) => {
                let (ours, candles) = (error(found, exact, k)?, error(&expected.candle, exact, k)?);
                println!("{name:64} {ours:8.3} of what is allowed from the exact one; candle's {candles:.3}");
                ours
            }
            None => {
                let far = distance(found, &expected.candle, k, roundings)?;
                println!("{name:64} {far:8.3} of what is allowed");
                far
            }
        };
        failures.check(far <= 1.0, || format!("{name}: {far} times what is allowed"));
        Ok(())
    };
    for dtype in DTYPES {
        let name = dtype.as_str();
        for (n, k) in GEMV {
            let (w, x) = (normal((n, k), dtype, device)?, normal(k, dtype, device)?);
            let expected = Expected::gemv(&w, &x)?;
            poison_pool(n, dtype, device)?;
            check(&format!("gemv {name} {n} x {k}"), &gemv(&w, &x)?, &expected, k, 2.0)?;
            let y = Tensor::zeros(n, dtype, device)?;
            poison(&y)?;
            gemv_into(&y, &w, &x, Gemv::default())?;
            check(&format!("gemv_into {name} {n} x {k}"), &y, &expected, k, 2.0)?;
        }
        for (m, n, k) in GEMM {
            let (a, b, w) =
                (normal((m, k), dtype, device)?, normal((k, n), dtype, device)?, normal((n, k), dtype, device)?);
            let plain = GemmOptions::default();
            poison_pool((m, n), dtype, device)?;
            let expected = Expected::product(&a, &b)?;
            check(&format!("gemm {name} {m} x {n} x {k}"), &gemm(&a, &b, None, plain)?, &expected, k, 2.0)?;
            let expected = Expected::product(&a, &w.t()?)?;
            poison_pool((m, n), dtype, device)?;
            let found = gemm(&a, &w.t()?, None, plain)?;
            check(&format!("gemm, w transposed, {name} {m} x {n} x {k}"), &found, &expected, k, 2.0)?;
            let c = Tensor::zeros((m, n), dtype, device)?;
            poison(&c)?;
            gemm_into(&c, &a, &w.t()?, None, plain)?;
            check(&format!("gemm_into, w transposed, {name} {m} x {n} x {k}"), &c, &expected, k, 2.0)?;
        }
        epilogues(dtype, device, &mut check)?;
        views(dtype, device, &mut check)?;
    }
    println!("{compared} results compared");
    Ok(())
}

type Check<'a> = &'a mut dyn FnMut(&str, &Tensor, &Expected, usize, f32) -> Result<()>;

/// Factor, bias and activation in the kernel, beside candle's operations one after the other, in f32.
fn epilogues(dtype: DType, device: &Device, check: Check<'_>) -> Result<()> {
    let (m, n, k) = (96, 1024, 512);
    let (a, w, bias) = (normal((m, k), dtype, device)?, normal((n, k), dtype, device)?, normal(n, dtype, device)?);
    let wide = |tensor: &Tensor| tensor.to_dtype(DType::F32);
    let sum = (wide(&a)?.matmul(&wide(&w)?.t()?)? * 0.25)?.broadcast_add(&wide(&bias)?)?;
    for activation in [Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu] {
        let expected = match activation {
            Activation::None => sum.clone(),
            Activation::Relu => sum.relu()?,
            Activation::Gelu => sum.gelu()?,
            Activation::Silu => sum.silu()?,
        };
        let options = GemmOptions { alpha: 0.25, activation, ..GemmOptions::default() };
        let name = format!("gemm {} 0.25 a b + bias, {activation:?}", dtype.as_str());
        poison_pool((m, n), dtype, device)?;
        let expected = Expected { candle: expected.to_dtype(dtype)?, exact: None };
        check(&name, &gemm(&a, &w.t()?, Some(&bias), options)?, &expected, k, 8.0)?;
    }
    if dtype != DType::F32 {
        let options = GemmOptions { result: Some(DType::F32), ..GemmOptions::default() };
        let expected = Expected::product(&wide(&a)?, &wide(&w)?.t()?)?;
        check(&format!("gemm {} into f32", dtype.as_str()), &gemm(&a, &w.t()?, None, options)?, &expected, k, 4.0)?;
    }
    Ok(())
}

/// Operands and results with offsets, and with gaps between rows.
fn views(dtype: DType, device: &Device, check: Check<'_>) -> Result<()> {
    let (m, n, k) = (40, 256, 200);
    let name = dtype.as_str();
    for (row, column) in [(0, 0), (3, 8), (5, 7)] {
        let a = normal((64, 320), dtype, device)?.narrow(0, row, m)?.narrow(1, column, k)?;
        let w = normal((300, 256), dtype, device)?.narrow(0, row, n)?.narrow(1, column, k)?;
        let expected = Expected::product(&a.contiguous()?, &w.contiguous()?.t()?)?;
        let found = gemm(&a, &w.t()?, None, GemmOptions::default())?;
        check(&format!("gemm {name} of views at {row}, {column}"), &found, &expected, k, 2.0)?;
        let wide = normal((64, 320), dtype, device)?;
        let c = wide.narrow(0, row, m)?.narrow(1, column, n)?;
        let outside = |wide: &Tensor| -> Result<Vec<u32>> {
            let inside = |at: usize| (row..row + m).contains(&(at / 320)) && (column..column + n).contains(&(at % 320));
            let bits = bits(wide)?.into_iter().enumerate();
            Ok(bits.filter(|(at, _)| !inside(*at)).map(|(_, bits)| bits).collect())
        };
        let before = outside(&wide)?;
        poison(&c)?;
        gemm_into(&c, &a, &w.t()?, None, GemmOptions::default())?;
        check(&format!("gemm_into {name} of views at {row}, {column}"), &c.contiguous()?, &expected, k, 2.0)?;
        let x = a.get(2)?;
        let expected = Expected::gemv(&w.contiguous()?, &x.contiguous()?)?;
        check(&format!("gemv {name} of views at {row}, {column}"), &gemv(&w, &x)?, &expected, k, 2.0)?;
        // What is around a result stays.
        if outside(&wide)? != before {
            candle_core::bail!("gemm_into {name} of views at {row}, {column}: written beside the result");
        }
    }
    Ok(())
}
