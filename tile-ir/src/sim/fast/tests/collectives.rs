use super::*;
use crate::ir::Dtype;
use crate::testing::parsed;

/// What one block of threads `x` by `y` stores to `y` of `dtype`: the thread of number `linear` the value that `body` leaves in `r`.
fn block([x, y]: [i64; 2], dtype: Dtype, body: &str) -> Vec<f64> {
    let built = parsed(&format!(
        "kernel k(y: &mut Tensor<{dtype}, (N,)>) {{
            let [bx] = blocks([1]);
            let [tx, ty] = threads([{x}, {y}]);
            let linear = ty * {x} + tx;
            {body}
            y[linear] = r;
        }}"
    ));
    let args = [zeros(dtype, &[x * y])];
    ok(&built, &args);
    values(&args[0])
}

#[test]
fn a_float_sum_has_the_defined_order() {
    // Values for which the order of additions shows.
    let term = |i: usize| (1.0 + i as f32 * 0.37).powi(7);
    let terms: Vec<f32> = (0..64).map(term).collect();
    let source: Vec<f64> = terms.iter().map(|t| f64::from(*t)).collect();
    for (extent, total) in [(64i64, 64usize), (48, 48), (16, 16)] {
        let built = parsed(&format!(
            "kernel sum(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {{
                let [bx] = blocks([1]);
                let [tx] = threads([{extent}]);
                let sum = thread_allreduce(Sum, x[tx], tx);
                y[tx] = sum;
            }}"
        ));
        let args = [tensor(Dtype::F32, &[extent], &source[..total]), zeros(Dtype::F32, &[extent])];
        ok(&built, &args);
        let butterfly = |values: &[f32]| {
            let mut v = values.to_vec();
            let mut mask = v.len() / 2;
            while mask > 0 {
                v = (0..v.len()).map(|i| v[i] + v[i ^ mask]).collect();
                mask /= 2;
            }
            v[0]
        };
        let expected = match extent {
            64 => butterfly(&terms[..32]) + butterfly(&terms[32..]),
            48 => terms[1..48].iter().fold(terms[0], |a, b| a + b),
            _ => butterfly(&terms[..16]),
        };
        assert_eq!(values(&args[1]), vec![f64::from(expected); total], "{extent} threads");
    }
}

#[test]
fn a_reduction_joins_threads_that_differ_on_one_axis() {
    let over_x = block([4, 3], Dtype::I32, "let r = thread_allreduce(Max, linear.cast::<i32>(), tx);");
    assert_eq!(over_x, [3.0, 3.0, 3.0, 3.0, 7.0, 7.0, 7.0, 7.0, 11.0, 11.0, 11.0, 11.0]);
    let over_y = block([4, 3], Dtype::I32, "let r = thread_allreduce(Sum, linear.cast::<i32>(), ty);");
    assert_eq!(over_y[..4], [12.0, 15.0, 18.0, 21.0]);
    assert_eq!(over_y[8..], [12.0, 15.0, 18.0, 21.0]);
}

#[test]
fn a_local_array_is_reduced_element_by_element() {
    let result = block(
        [8, 1],
        Dtype::F16,
        "let mut h = alloc_local::<f16>([2]);
        h[0] = tx.cast::<f16>();
        h[1] = tx.cast::<f16>() + tx.cast::<f16>();
        thread_allreduce(Sum, &mut h, tx);
        let r = h[1] - h[0];",
    );
    assert_eq!(result, [28.0; 8]);
}

#[test]
fn reducing_a_variable_leaves_it_alone() {
    let result = block(
        [4, 1],
        Dtype::I32,
        "let own = tx.cast::<i32>();
        let sum = thread_allreduce(Sum, own, tx);
        let r = sum * 10i32 + own;",
    );
    assert_eq!(result, [60.0, 61.0, 62.0, 63.0]);
}

#[test]
fn warps_reduce_shuffle_and_vote() {
    let shuffled =
        |call: &str| block([40, 1], Dtype::U32, &format!("let value = linear.cast::<u32>(); let r = {call};"));
    let xor = shuffled("shfl_xor(value, 5u32)");
    assert_eq!(xor[..4], [5.0, 4.0, 7.0, 6.0]);
    assert_eq!(xor[32..36], [37.0, 36.0, 39.0, 38.0]);
    let down = shuffled("shfl_down(value, 3u32)");
    assert_eq!((down[0], down[28], down[29], down[32], down[37]), (3.0, 31.0, 29.0, 35.0, 37.0));
    let sum = block([64, 1], Dtype::I32, "let r = warp_reduce(Sum, linear.cast::<i32>());");
    assert_eq!((sum[0], sum[63]), (496.0, 1520.0));
    let vote = |name: &str, dtype| block([64, 1], dtype, &format!("let r = {name}(linear < 34);"));
    assert_eq!(vote("ballot", Dtype::U32)[31..33], [f64::from(u32::MAX), 3.0]);
    assert_eq!(vote("any", Dtype::Bool)[31..33], [1.0, 1.0]);
    assert_eq!(vote("all", Dtype::Bool)[31..33], [1.0, 0.0]);
}

#[test]
fn atomics_return_the_old_value() {
    for (op, expected) in [("add", 1.0 + 28.0), ("max", 7.0), ("min", 0.0)] {
        for place in ["total", "s"] {
            let built = parsed(&format!(
                "kernel atomic(total: &mut Tensor<i32, (N,)>, old: &mut Tensor<i32, (N,)>) {{
                    let [bx] = blocks([1]);
                    let [tx] = threads([8]);
                    let mut s = alloc_shared::<i32>([1]);
                    {place}[0] = 1i32;
                    sync_threads();
                    let before = atomic_{op}(&mut {place}[0], tx.cast::<i32>());
                    old[tx] = before;
                    sync_threads();
                    total[tx] = {place}[0];
                }}"
            ));
            let args = [zeros(Dtype::I32, &[8]), zeros(Dtype::I32, &[8])];
            ok(&built, &args);
            assert_eq!(values(&args[0]), [expected; 8]);
            if op == "add" {
                assert_eq!(values(&args[1]), [1.0, 1.0, 2.0, 4.0, 7.0, 11.0, 16.0, 22.0]);
            }
        }
    }
}

#[test]
fn blocks_add_to_one_element() {
    let built = parsed(
        r"
            kernel count(
                blocks: usize,
                total: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([blocks]);
                let [tx] = threads([32]);
                atomic_add(&mut total[0], 1.0f32);
            }
        ",
    );
    let args = [index(1000), zeros(Dtype::F32, &[1])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [32_000.0]);
}
