//! Random operands, poison, and how far two results may be apart.

use candle_core::{DType, Device, Result, Shape, Tensor};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};
use std::sync::atomic::{AtomicU64, Ordering};

/// Normal random numbers, others each time.
pub fn normal(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let shape = shape.into();
    let rng = StdRng::seed_from_u64(SEED.fetch_add(1, Ordering::Relaxed));
    let values: Vec<f32> = StandardNormal.sample_iter(rng).take(shape.elem_count()).collect();
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// A tensor of NaN.
pub fn poisoned(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    let values = vec![f32::NAN; shape.elem_count()];
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)
}

/// Fills a tensor with NaN.
pub fn poison(tensor: &Tensor) -> Result<()> {
    use candle_core::scalar::Scalar;
    tensor.const_set(match tensor.dtype() {
        DType::F16 => Scalar::F16(half::f16::NAN),
        DType::BF16 => Scalar::BF16(half::bf16::NAN),
        _ => Scalar::F32(f32::NAN),
    })
}

/// Leaves NaN in the memory that the next tensor of this shape is given.
pub fn poison_pool(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<()> {
    poisoned(shape, dtype, device).map(drop)
}

/// The values, as f32.
pub fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
}

/// The values' bits.
pub fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(values(tensor)?.into_iter().map(f32::to_bits).collect())
}

/// How far the sum of `k` products of normal numbers may be from the exact one, if it is added up in f32 in whatever order.
///
/// After `i` products a sum is of the size `sqrt(i)`, and is rounded by at most `2^-24` of that. If roundings are independent,
/// their sum has a standard deviation of at most `2^-24 sqrt(1 + 2 + .. + k) = 2^-24 k / sqrt(2)`: that is for one product
/// after the other, and adding parts of the sum makes it smaller. Eight standard deviations are not met with by chance in
/// millions of results, and the product of TF32 operands, or a sum without one of its terms, is far beyond them.
fn rounding(k: usize) -> f64 {
    8.0 * 2f64.powi(-24) * k as f64 / 2f64.sqrt()
}

/// How far each of two results is from the other, in units of what is allowed: at most 1 where they agree. Both are sums over
/// `k` products of normal numbers in f32, each rounded to its type `roundings` times (cuBLAS adds parts of a sum in 16 bits).
pub fn distance(found: &Tensor, expected: &Tensor, k: usize, roundings: f32) -> Result<f32> {
    let unit = match found.dtype() {
        DType::F16 => 2f32.powi(-10),
        DType::BF16 => 2f32.powi(-7),
        _ => 2f32.powi(-22),
    };
    // Each of the two sums is rounded by itself.
    let sum = (2f64.sqrt() * rounding(k)) as f32;
    if found.dims() != expected.dims() {
        candle_core::bail!("shapes {:?} and {:?}", found.dims(), expected.dims());
    }
    let pairs = values(found)?.into_iter().zip(values(expected)?);
    Ok(furthest(pairs.map(|(f, e)| (f - e).abs() / (roundings * unit * f.abs().max(e.abs()) + sum + roundings * 1e-6))))
}

/// How far a result in f32 is from the exact one, which is in f64, in units of what is allowed: at most 1.
pub fn error(found: &Tensor, exact: &Tensor, k: usize) -> Result<f32> {
    if found.dims() != exact.dims() {
        candle_core::bail!("shapes {:?} and {:?}", found.dims(), exact.dims());
    }
    let exact: Vec<f64> = exact.to_device(&Device::Cpu)?.flatten_all()?.to_vec1()?;
    let pairs = values(found)?.into_iter().zip(exact);
    Ok(furthest(pairs.map(|(f, e)| ((f64::from(f) - e).abs() / (rounding(k) + 2f64.powi(-24) * e.abs())) as f32)))
}

/// The most of all; NaN where there is one, which `max` would pass over.
fn furthest(far: impl Iterator<Item = f32>) -> f32 {
    far.fold(0.0, |most: f32, far| if far.is_nan() || far > most { far } else { most })
}
