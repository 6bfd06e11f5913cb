//! Attention beside candle's own operations in f32.

use crate::data::{bits, normal, poison, poison_pool, values};
use crate::{Failures, REPEATS};
use candle_core::{DType, Device, Result, Tensor};
use tile_candle::{AttentionOptions, attention, attention_into};

/// Heads of queries and of keys, queries, keys, elements of a head.
const SHAPES: [(usize, usize, usize, usize, usize); 5] =
    [(8, 2, 256, 256, 128), (4, 4, 200, 333, 64), (6, 2, 129, 777, 96), (2, 1, 64, 65, 256), (4, 1, 1, 1000, 128)];
const BATCH: usize = 2;

/// What candle's operations make of it in f32.
fn expected(q: &Tensor, k: &Tensor, v: &Tensor, options: AttentionOptions<'_>) -> Result<Tensor> {
    let wide = |t: &Tensor| t.to_dtype(DType::F32)?.contiguous();
    let (b, heads, m, d) = q.dims4()?;
    let (_, key_heads, n, _) = k.dims4()?;
    let repeated = |t: &Tensor| {
        let (_, _, n, d) = t.dims4()?;
        let all = wide(t)?.unsqueeze(2)?.expand((b, key_heads, heads / key_heads, n, d))?;
        all.contiguous()?.reshape((b, heads, n, d))
    };
    let scores = (wide(q)?.matmul(&repeated(k)?.transpose(2, 3)?.contiguous()?)? * (1.0 / (d as f64).sqrt()))?;
    let hidden = |i: usize, j: usize| {
        let own = (n + i) as i64 - m as i64;
        options.causal && j as i64 > own || options.left.is_some_and(|left| ((j + left) as i64) < own)
    };
    let mask: Vec<f32> = (0..m * n).map(|at| if hidden(at / n, at % n) { f32::NEG_INFINITY } else { 0.0 }).collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(mask, (m, n), q.device())?)?;
    let most = scores.max_keepdim(3)?;
    // A sink is one more score, whose value is 0.
    let most = match options.sinks {
        Some(sinks) => most.broadcast_maximum(&sinks.reshape((1, heads, 1, 1))?)?,
        None => most,
    };
    let weights = scores.broadcast_sub(&most)?.exp()?;
    let sum = weights.sum_keepdim(3)?;
    let sum = match options.sinks {
        Some(sinks) => (sum + sinks.reshape((1, heads, 1, 1))?.broadcast_sub(&most)?.exp()?)?,
        None => sum,
    };
    weights.broadcast_div(&sum)?.matmul(&repeated(v)?)
}

/// How far apart two results are, in units of what rounding the weights and the result to this type allows; NaN where one is.
fn distance(found: &Tensor, expected: &Tensor) -> Result<f32> {
    if found.dims() != expected.dims() {
        candle_core::bail!("shapes {:?} and {:?}", found.dims(), expected.dims());
    }
    let unit = if found.dtype() == DType::F16 { 2f32.powi(-10) } else { 2f32.powi(-7) };
    let pairs = values(found)?.into_iter().zip(values(expected)?);
    let far = pairs.map(|(f, e)| (f - e).abs() / (unit * (1.0 + e.abs())));
    Ok(far.fold(0.0, |most: f32, far| if far.is_nan() || far > most { far } else { most }))
}

pub fn run(device: &Device, failures: &mut Failures) -> Result<()> {
    let mut compared = 0;
    for dtype in [DType::F16, DType::BF16] {
        for (heads, key_heads, m, n, d) in SHAPES {
            // [B, S, H, D], of which two axes are exchanged; values as they are taken.
            let q = normal((BATCH, m, heads, d), dtype, device)?.transpose(1, 2)?;
            let k = normal((BATCH, n, key_heads, d), dtype, device)?.transpose(1, 2)?;
            let v = normal((BATCH, key_heads, n, d), dtype, device)?;
            let sinks = normal(heads, DType::F32, device)?;
            let plain = AttentionOptions::default();
            let causal = AttentionOptions { causal: true, ..plain };
            let mut options = vec![("all keys", plain), ("causal", causal)];
            if d == 64 || d == 128 {
                options.push(("causal, 100 keys", AttentionOptions { left: Some(99), ..causal }));
                options.push(("sinks", AttentionOptions { sinks: Some(&sinks), ..plain }));
            }
            for (what, options) in options {
                let name =
                    format!("attention {} {BATCH} x {heads}/{key_heads} x {m} x {n} x {d}, {what}", dtype.as_str());
                let expected = expected(&q, &k, &v, options)?;
                poison_pool((BATCH, heads, m, d), dtype, device)?;
                let new = attention(&q, &k, &v, options)?;
                // Heads side by side, as the next product takes them.
                let o = Tensor::zeros((BATCH, m, heads, d), dtype, device)?.transpose(1, 2)?;
                poison(&o.transpose(1, 2)?)?;
                attention_into(&o, &q, &k, &v, options)?;
                let far = distance(&new, &expected)?;
                let same = bits(&new)? == bits(&o.contiguous()?)?;
                println!("{name:64} {far:8.3} of what is allowed");
                failures.check(far <= 1.0, || format!("{name}: {far} times what is allowed"));
                failures.check(same, || format!("{name}: attention_into gives other bits"));
                compared += 2;
            }
        }
    }
    println!("{compared} results compared");

    let (heads, key_heads, m, n, d) = SHAPES[0];
    let q = normal((BATCH, heads, m, d), DType::BF16, device)?;
    let [k, v] = [(); 2].map(|()| normal((BATCH, key_heads, n, d), DType::BF16, device));
    let (k, v, o) = (k?, v?, q.zeros_like()?);
    let options = AttentionOptions { causal: true, ..AttentionOptions::default() };
    attention_into(&o, &q, &k, &v, options)?;
    let first = bits(&o)?;
    let mut wrong = 0;
    for round in 0..REPEATS {
        poison(&o)?;
        attention_into(&o, &q, &k, &v, options)?;
        if round % 10 == 0 || round + 1 == REPEATS {
            wrong += usize::from(bits(&o)? != first);
        }
    }
    println!("{REPEATS} calls of attention_into, compared after every tenth: {wrong} with other bits");
    failures.check(wrong == 0, || format!("attention: {wrong} with other bits"));
    Ok(())
}
