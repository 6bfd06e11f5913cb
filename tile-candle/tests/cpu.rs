//! On the CPU: the fast simulator on candle's slices, against candle's own products.

use candle_core::{DType, Device, Result, Tensor};
use tile_candle::{
    Activation, AttentionOptions, GemmOptions, Gemv, Op1, Op2, Op3, attention, attention_into, gemm, gemm_into, gemv,
    gemv_into, hold,
};

fn normal(shape: (usize, usize), dtype: DType) -> Result<Tensor> {
    Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)
}

fn close(found: &Tensor, expected: &Tensor, bound: f32) -> Result<()> {
    assert_eq!(found.dims(), expected.dims());
    let [found, expected] = [found, expected].map(|t| t.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>());
    for (found, expected) in found?.into_iter().zip(expected?) {
        // Also where one of them is NaN.
        assert!((found - expected).abs() <= bound * (1.0 + expected.abs()), "{found}, not {expected}");
    }
    Ok(())
}

/// What rounding to a type costs.
fn bound(dtype: DType) -> f32 {
    match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 2e-2,
        _ => 1e-5,
    }
}

const DTYPES: [DType; 3] = [DType::F16, DType::BF16, DType::F32];

/// Filled with NaN.
fn poisoned(shape: impl Into<candle_core::Shape>, dtype: DType) -> Result<Tensor> {
    Tensor::full(f32::NAN, shape, &Device::Cpu)?.to_dtype(dtype)
}

#[test]
fn gemv_gives_candle_s_results() -> Result<()> {
    for dtype in DTYPES {
        let (w, x) = (normal((37, 129), dtype)?, normal((1, 129), dtype)?.squeeze(0)?);
        let expected = w.to_dtype(DType::F32)?.matmul(&x.to_dtype(DType::F32)?.unsqueeze(1)?)?.squeeze(1)?;
        close(&gemv(&w, &x)?, &expected, bound(dtype))?;
        let y = poisoned(37, dtype)?;
        gemv_into(&y, &w, &x, Gemv::default())?;
        close(&y, &expected, bound(dtype))?;
        gemv_into(&y, &w, &x, Gemv { alpha: 1.0, beta: 0.5 })?;
        close(&y, &(expected * 1.5)?, 2.0 * bound(dtype))?;
    }
    Ok(())
}

#[test]
fn gemm_with_its_epilogue_gives_candle_s_results() -> Result<()> {
    for dtype in DTYPES {
        let (a, b) = (normal((33, 40), dtype)?, normal((40, 24), dtype)?);
        let bias = normal((1, 24), dtype)?.squeeze(0)?;
        let wide = |t: &Tensor| t.to_dtype(DType::F32);
        let product = wide(&a)?.matmul(&wide(&b)?)?;
        close(&gemm(&a, &b, None, GemmOptions::default())?, &product, bound(dtype))?;
        for activation in [Activation::None, Activation::Relu, Activation::Gelu, Activation::Silu] {
            let options = GemmOptions { alpha: 0.5, activation, ..GemmOptions::default() };
            let sum = (&product * 0.5)?.broadcast_add(&wide(&bias)?)?;
            let expected = match activation {
                Activation::None => sum,
                Activation::Relu => sum.relu()?,
                Activation::Gelu => sum.gelu()?,
                Activation::Silu => sum.silu()?,
            };
            close(&gemm(&a, &b, Some(&bias), options)?, &expected, 2.0 * bound(dtype))?;
            let c = poisoned((33, 24), dtype)?;
            gemm_into(&c, &a, &b, Some(&bias), options)?;
            close(&c, &expected, 2.0 * bound(dtype))?;
        }
        let wide_result = GemmOptions { result: Some(DType::F32), ..GemmOptions::default() };
        let c = gemm(&a, &b, None, wide_result)?;
        assert_eq!(c.dtype(), DType::F32);
        close(&c, &product, 1e-5)?;
    }
    Ok(())
}

/// Attention by candle's own ops, in f32: `q` of `[B, H, M, D]`, `k` and `v` of `[B, HK, N, D]`.
fn attention_of_candle(q: &Tensor, k: &Tensor, v: &Tensor, options: AttentionOptions<'_>) -> Result<Tensor> {
    let wide = |t: &Tensor| t.to_dtype(DType::F32)?.contiguous();
    let (_, heads, m, d) = q.dims4()?;
    let (b, key_heads, n, _) = k.dims4()?;
    let group = heads / key_heads;
    let repeated = |t: &Tensor| {
        let (_, _, n, d) = t.dims4()?;
        wide(t)?.unsqueeze(2)?.expand((b, key_heads, group, n, d))?.contiguous()?.reshape((b, heads, n, d))
    };
    let scores = wide(q)?.matmul(&repeated(k)?.transpose(2, 3)?.contiguous()?)?;
    let scores = (scores * (1.0 / (d as f64).sqrt()))?;
    let hidden = |i: usize, j: usize| {
        let own = n + i - m;
        options.causal && j > own || options.left.is_some_and(|left| j + left < own)
    };
    let mask: Vec<f32> = (0..m * n).map(|at| if hidden(at / n, at % n) { f32::NEG_INFINITY } else { 0.0 }).collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(mask, (m, n), &Device::Cpu)?)?;
    let weights = scores.broadcast_sub(&scores.max_keepdim(3)?)?.exp()?;
    weights.broadcast_div(&weights.sum_keepdim(3)?)?.matmul(&repeated(v)?)
}

#[test]
fn attention_gives_candle_s_results() -> Result<()> {
    let normal =
        |shape: (usize, usize, usize, usize), dtype| Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?.to_dtype(dtype);
    for (dtype, causal, left) in [(DType::F16, false, None), (DType::BF16, true, None), (DType::F16, true, Some(7))] {
        // Heads that lie side by side, a group of two for each head of keys.
        let q = normal((1, 21, 2, 64), dtype)?.transpose(1, 2)?;
        let k = normal((1, 37, 1, 64), dtype)?.transpose(1, 2)?;
        let v = normal((1, 1, 37, 64), dtype)?;
        let options = AttentionOptions { causal, left, ..AttentionOptions::default() };
        let expected = attention_of_candle(&q, &k, &v, options)?;
        close(&attention(&q, &k, &v, options)?, &expected, 2.0 * bound(dtype))?;
        let o = poisoned((1, 2, 21, 64), dtype)?;
        attention_into(&o, &q, &k, &v, options)?;
        close(&o, &expected, 2.0 * bound(dtype))?;
    }
    // A sink that outweighs all keys takes nearly everything.
    let q = normal((1, 2, 1, 64), DType::F16)?;
    let sinks = Tensor::new(&[100f32, -100.0], &Device::Cpu)?;
    let o = attention(&q, &q, &q, AttentionOptions { sinks: Some(&sinks), ..AttentionOptions::default() })?;
    close(&o.narrow(1, 0, 1)?, &(q.narrow(1, 0, 1)? * 0.0)?, 1e-3)?;
    close(&o.narrow(1, 1, 1)?, &q.narrow(1, 1, 1)?, 1e-3)?;
    let text = attention(&q, &q, &q.narrow(3, 0, 32)?, AttentionOptions::default()).unwrap_err().to_string();
    assert!(text.contains("here are 64 with values of 32"), "{text}");
    let f32s = q.to_dtype(DType::F32)?;
    let text = attention(&f32s, &f32s, &f32s, AttentionOptions::default()).unwrap_err().to_string();
    assert!(text.contains("attention takes f16 and bf16, not f32"), "{text}");
    Ok(())
}

#[test]
fn a_layer_in_one_kernel() -> Result<()> {
    let (x, weight) = (normal((8, 40), DType::F32)?, normal((24, 40), DType::F32)?);
    let bias = normal((1, 24), DType::F32)?.squeeze(0)?;
    // ANCHOR: gemm
    // gelu(x weight^T + bias)
    let options = GemmOptions { activation: Activation::Gelu, ..GemmOptions::default() };
    let y = gemm(&x, &weight.t()?, Some(&bias), options)?;
    // `gemm_into` writes the result to a tensor that exists: nothing is allocated.
    let there = Tensor::zeros((8, 24), DType::F32, x.device())?;
    gemm_into(&there, &x, &weight.t()?, Some(&bias), options)?;
    // ANCHOR_END: gemm
    let expected = x.matmul(&weight.t()?)?.broadcast_add(&bias)?.gelu()?;
    close(&y, &expected, 2e-5)?;
    close(&there, &expected, 2e-5)
}

#[test]
fn operands_may_be_transposed_views() -> Result<()> {
    let (a, b) = (normal((18, 40), DType::F32)?, normal((40, 24), DType::F32)?);
    let expected = a.matmul(&b)?;
    let (at, bt) = (a.t()?.contiguous()?, b.t()?.contiguous()?);
    for (a, b) in [(&a, &bt.t()?), (&at.t()?, &b), (&at.t()?, &bt.t()?)] {
        close(&gemm(a, b, None, GemmOptions::default())?, &expected, 1e-5)?;
    }
    // One row or one column: a stride that means nothing.
    let row = a.narrow(0, 2, 1)?;
    close(&gemm(&row, &bt.t()?, None, GemmOptions::default())?, &row.matmul(&b)?, 1e-5)?;
    let column = b.narrow(1, 3, 1)?;
    close(&gemm(&a, &column, None, GemmOptions::default())?, &a.matmul(&column.contiguous()?)?, 1e-5)?;
    let column = column.contiguous()?.t()?;
    close(&gemm(&column, &at.t()?.t()?.contiguous()?, None, GemmOptions::default())?, &column.matmul(&at)?, 1e-5)
}

#[test]
fn offsets_and_row_strides_are_honoured() -> Result<()> {
    let wide = normal((40, 200), DType::F32)?;
    // Rows 3..40 and columns 7..136 of it: an offset of 607 elements, and rows 200 apart.
    let w = wide.narrow(0, 3, 37)?.narrow(1, 7, 129)?;
    assert!(!w.is_contiguous());
    let x = wide.get(1)?.narrow(0, 5, 129)?;
    let expected = w.contiguous()?.matmul(&x.contiguous()?.unsqueeze(1)?)?;
    close(&gemv(&w, &x)?, &expected.squeeze(1)?, 1e-5)?;
    // A result that is a part of a tensor, whose rest stays.
    let all = Tensor::ones((40, 60), DType::F32, &Device::Cpu)?;
    let c = all.narrow(0, 2, 37)?.narrow(1, 11, 37)?;
    gemm_into(&c, &w, &w.t()?, None, GemmOptions::default())?;
    close(&c.contiguous()?, &w.contiguous()?.matmul(&w.t()?.contiguous()?)?, 1e-5)?;
    for (row, values) in all.to_vec2::<f32>()?.into_iter().enumerate() {
        let inside = |column: usize| (2..39).contains(&row) && (11..48).contains(&column);
        assert!(values.iter().enumerate().all(|(column, value)| inside(column) || *value == 1.0), "row {row}");
    }
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused_with_both_numbers() -> Result<()> {
    let (w, x) = (normal((4, 6), DType::F32)?, normal((1, 6), DType::F32)?.squeeze(0)?);
    let text = |result: Result<Tensor>| result.unwrap_err().to_string();
    let says = |error: String, text: &str| assert!(error.contains(text), "{error}");
    says(text(gemv(&w.t()?, &w.get(0)?.narrow(0, 0, 4)?)), "lie 6 elements apart, not 1");
    says(text(gemv(&w, &x.narrow(0, 0, 5)?)), "w has 6 columns, and x 5 elements");
    says(text(gemv(&x.broadcast_as((4, 6))?, &x)), "lie 0 elements apart, and each takes 6");
    says(text(gemv(&x, &x)), "takes a tensor of 2 axes, and this one has 1");
    says(text(gemv(&w, &x.to_dtype(DType::F16)?)), "F16");
    says(text(gemv(&w.to_dtype(DType::F64)?, &x)), "gemv multiplies f16, bf16 and f32, not f64");

    let options = GemmOptions::default();
    says(text(gemm(&w, &w, None, options)), "a has 6 columns, and b 4 rows");
    says(text(gemm(&w, &w.t()?, Some(&x), options)), "N = 4 (`c`, axis 1) and N = 6 (`bias`, axis 0)");
    says(text(gemm(&w, &w.t()?, None, GemmOptions { beta: 0.5, ..options })), "beta is 0.5");
    let into_u32 = GemmOptions { result: Some(DType::U32), ..options };
    says(text(gemm(&w, &w.t()?, None, into_u32)), "not f32 into u32");
    let half = Tensor::zeros(4, DType::F16, &Device::Cpu)?;
    says(text(gemm(&w, &w.t()?, Some(&half), options)), "F16");

    let into = |c: &Tensor| gemm_into(c, &w, &w.t()?, None, options);
    let text = |result: Result<()>| result.unwrap_err().to_string();
    let c = Tensor::zeros((4, 5), DType::F32, &Device::Cpu)?;
    says(text(into(&c)), "the result has shape [4, 4], and the tensor to be written [4, 5]");
    says(text(into(&w.narrow(1, 0, 4)?)), "shares its storage with an operand");
    let square = normal((4, 4), DType::F32)?;
    says(text(gemm_into(&square, &w, &w.t()?, Some(&square.get(0)?), options)), "shares its storage with an operand");
    says(text(into(&square.t()?)), "lie 4 elements apart, not 1");
    Ok(())
}

/// Runs `op` to and from each of two tensors, on two threads that begin each round together.
fn crossing(
    rounds: usize,
    (x, y): (Tensor, Tensor),
    op: impl Fn(&Tensor, &Tensor) -> Result<()> + Clone + Send + 'static,
) -> Result<()> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (ended, end) = std::sync::mpsc::channel();
    // Spinning lets both begin within a fraction of a microsecond.
    let arrived = std::sync::Arc::new(AtomicUsize::new(0));
    for (to, from) in [(x.clone(), y.clone()), (y, x)] {
        let (op, ended, arrived) = (op.clone(), ended.clone(), arrived.clone());
        std::thread::spawn(move || {
            let all = || -> Result<()> {
                for round in 0..rounds {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
                        std::thread::yield_now();
                    }
                    op(&to, &from)?;
                }
                Ok(())
            };
            ended.send(all().map_err(|error| error.to_string())).ok();
        });
    }
    for _ in 0..2 {
        let ended = end.recv_timeout(std::time::Duration::from_secs(120));
        assert_eq!(ended, Ok(Ok(())), "an op waits for ever, or fails");
    }
    Ok(())
}

/// Locks are taken in one order: neither do two ops that write what the other reads wait for each other, nor one for itself
/// whose operands are parts of one storage.
#[test]
fn ops_that_cross_on_two_threads_end() -> Result<()> {
    let w = normal((1, 1), DType::F32)?;
    crossing(2000, (w.get(0)?.copy()?, w.get(0)?.copy()?), move |to, from| {
        gemv_into(to, &w, from, Gemv { alpha: 0.1, beta: 0.0 })?;
        gemv(&w, &w.get(0)?).map(drop)
    })
}

/// As [`ops_that_cross_on_two_threads_end`], where what the other thread writes is the bias: alone, and beside an operand that is a
/// part of the same storage.
#[test]
fn biases_that_cross_on_two_threads_end() -> Result<()> {
    let w = normal((1, 1), DType::F32)?;
    let options = GemmOptions { alpha: 0.1, ..GemmOptions::default() };
    let weight = w.clone();
    crossing(200, (w.copy()?, w.copy()?), move |to, from| {
        gemm_into(to, &weight, &weight, Some(&from.get(0)?), options)
    })?;
    crossing(200, (w.copy()?, w.copy()?), move |to, from| gemm_into(to, from, &w, Some(&from.get(0)?), options))
}

#[test]
fn ops_of_parts_of_one_storage() -> Result<()> {
    let square = normal((6, 6), DType::F32)?;
    let expected = square.matmul(&square.t()?)?;
    close(&gemm(&square, &square.t()?, None, GemmOptions::default())?, &expected, 1e-5)?;
    let c = poisoned((6, 6), DType::F32)?;
    gemm_into(&c, &square, &square.t()?, None, GemmOptions::default())?;
    close(&c, &expected, 1e-5)?;
    let expected = expected.broadcast_add(&square.get(5)?)?;
    gemm_into(&c, &square, &square.t()?, Some(&square.get(5)?), GemmOptions::default())?;
    close(&c, &expected, 1e-5)?;
    close(&gemm(&square, &square.t()?, Some(&square.get(5)?), GemmOptions::default())?, &expected, 1e-5)?;
    let expected = square.matmul(&square.get(2)?.unsqueeze(1)?)?.squeeze(1)?;
    close(&gemv(&square, &square.get(2)?)?, &expected, 1e-5)
}

mod kernels {
    use tile_runtime::prelude::*;

    /// The rows of a table that have these numbers; 0 for one that it does not have.
    #[tile_kernel]
    pub fn rows(table: &Tensor<f32, (V, K)>, ids: &Tensor<u32, (N,)>, y: &mut Tensor<f32, (N, K)>) {
        let [b] = blocks([N]);
        let [t] = threads([32]);
        for k in (0..K).step_by(32) {
            if k + t < K {
                y[[b, k + t]] = table.masked([ids[b].cast::<usize>(), k + t]);
            }
        }
    }

    /// y = x + 1, of every row but the last.
    #[tile_kernel(partial(y))]
    pub fn next(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>) {
        let [b] = blocks([N]);
        let [t] = threads([32]);
        for k in (0..K).step_by(32) {
            if k + t < K && b + 1 < N {
                y[[b, k + t]] = x[[b, k + t]] + 1.0;
            }
        }
    }

    /// y = a + b + c + d.
    #[tile_kernel]
    pub fn sum4(
        a: &Tensor<f32, (N,)>,
        b: &Tensor<f32, (N,)>,
        c: &Tensor<f32, (N,)>,
        d: &Tensor<f32, (N,)>,
        y: &mut Tensor<f32, (N,)>,
    ) {
        let [block] = blocks([ceil_div(N, 32)]);
        let [t] = threads([32]);
        let i = block * 32 + t;
        if i < N {
            y[i] = a[i] + b[i] + c[i] + d[i];
        }
    }
}

#[test]
fn an_op_of_any_kernel_begins_with_zeros_or_with_what_is_there() -> Result<()> {
    let op = Op1::new("next", |x: [usize; 2]| Ok(x), |on, x, y| kernels::next::launch(on, x, y));
    let x = Tensor::ones((3, 50), DType::F32, &Device::Cpu)?;
    let y = x.apply_op1_no_bwd(&op)?;
    assert_eq!(y.to_vec2::<f32>()?, [vec![2.0; 50], vec![2.0; 50], vec![0.0; 50]]);
    let y = Tensor::full(7f32, (3, 50), &Device::Cpu)?;
    y.inplace_op2(&x, &op)?;
    assert_eq!(y.to_vec2::<f32>()?, [vec![2.0; 50], vec![2.0; 50], vec![7.0; 50]]);
    // candle itself refuses a result that is an input.
    assert!(y.inplace_op2(&y, &op).is_err());
    Ok(())
}

#[test]
fn an_op_s_inputs_may_differ_in_type_and_rank() -> Result<()> {
    let shape = |[_, k]: [usize; 2], [n]: [usize; 1]| Ok([n, k]);
    let op = Op2::new("rows", shape, |on, table, ids, y| kernels::rows::launch(on, table, ids, y));
    let table = normal((10, 40), DType::F32)?;
    let ids = Tensor::new(&[3u32, 0, 9, 3], &Device::Cpu)?;
    let found = table.apply_op2_no_bwd(&ids, &op)?;
    assert_eq!(found.to_vec2::<f32>()?, table.index_select(&ids, 0)?.to_vec2::<f32>()?);
    let error = table.apply_op2_no_bwd(&ids.to_dtype(DType::I64)?, &op).unwrap_err().to_string();
    assert!(error.contains("U32") && error.contains("I64"), "{error}");
    Ok(())
}

#[test]
fn more_inputs_than_candle_s_ops_have_are_held() -> Result<()> {
    let vectors: Vec<Tensor> = (0..4).map(|_| normal((1, 70), DType::F32)?.squeeze(0)).collect::<Result<_>>()?;
    let held = hold::<f32, 1>(&vectors[3])?;
    let op = Op3::new(
        "sum4",
        |[n]: [usize; 1], _: [usize; 1], _: [usize; 1]| Ok([n]),
        |on, a, b, c, y| kernels::sum4::launch(on, a, b, c, &held.lend(on)?, y),
    );
    let found = vectors[0].apply_op3_no_bwd(&vectors[1], &vectors[2], &op)?;
    close(&found, &(((&vectors[0] + &vectors[1])? + &vectors[2])? + &vectors[3])?, 1e-6)?;
    // Extents that do not agree are the launch's error.
    let short = vectors[0].narrow(0, 0, 69)?;
    let error = short.apply_op3_no_bwd(&vectors[1], &vectors[2], &op).unwrap_err().to_string();
    assert!(error.contains("69") && error.contains("70"), "{error}");
    assert!(hold::<f32, 2>(&vectors[0]).is_err() && hold::<u32, 1>(&vectors[0]).is_err());
    Ok(())
}
