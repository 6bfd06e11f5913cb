use super::*;
use crate::ir::{BinaryOp, Dtype};
use crate::testing::parsed;

/// What one block of `threads` threads stores to `y` of `dtype`: thread `tx` the value of `result` after `body`.
fn map(threads: i64, dtype: Dtype, body: &str, result: &str) -> Vec<f64> {
    let built = parsed(&format!(
        "kernel map(y: &mut Tensor<{dtype}, (N,)>) {{
            let [bx] = blocks([1]);
            let [tx] = threads([{threads}]);
            {body}
            y[tx] = {result};
        }}"
    ));
    let args = [zeros(dtype, &[threads])];
    ok(&built, &args);
    values(&args[0])
}

#[test]
fn a_divergent_conditional_runs_both_arms() {
    let body = "let mut v = 0i32; if tx < 3 { v = 10i32; } else { v = v + tx.cast::<i32>(); }";
    let result = map(7, Dtype::I32, body, "v");
    assert_eq!(result, [10.0, 10.0, 10.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_condition_is_read_before_its_arms_change_it() {
    let body = "let mut v = tx.cast::<i32>(); if v < 2i32 { v = 5i32; } else { v = v + v; }";
    let result = map(4, Dtype::I32, body, "v");
    assert_eq!(result, [5.0, 5.0, 4.0, 6.0]);
}

#[test]
fn loops_whose_trip_count_differs_between_threads() {
    // Thread t sums t, t + 2, .. below 7.
    let body = "let mut sum = 0i32; for i in (tx..7).step_by(2) { sum = sum + i.cast::<i32>(); }";
    let result = map(9, Dtype::I32, body, "sum");
    let expected: Vec<f64> = (0..9).map(|t| (t..7).step_by(2).sum::<i32>().into()).collect();
    assert_eq!(result, expected);
}

#[test]
fn a_uniform_loop_in_a_divergent_one() {
    // Thread t counts t * 3.
    let body = "let mut count = 0u32; for i in 0..tx { for j in 0..3 { count = count + 1u32; } }";
    let result = map(5, Dtype::U32, body, "count");
    assert_eq!(result, [0.0, 3.0, 6.0, 9.0, 12.0]);
}

#[test]
fn bounds_are_evaluated_once() {
    let body = "let mut n = 4; let mut trips = 0i32; for i in 0..n { trips = trips + 1i32; n = 0; }";
    let result = map(2, Dtype::I32, body, "trips");
    assert_eq!(result, [4.0, 4.0]);
}

#[test]
fn an_assignment_under_a_divergent_condition_makes_a_variable_varying() {
    // `total` only becomes varying because `flag` is.
    let body = "let mut flag = 0i32; let mut total = 0i32; if tx < 1 { flag = 1i32; } total = flag;";
    let result = map(3, Dtype::I32, body, "total");
    assert_eq!(result, [1.0, 0.0, 0.0]);
}

#[test]
fn logic_short_circuits_and_if_expressions_are_lazy() {
    // 12 / tx would fault for thread 0.
    let and = map(4, Dtype::Bool, "", "tx != 0 && 5 < 12 / tx");
    assert_eq!(and, [0.0, 1.0, 1.0, 0.0]);
    let or = map(4, Dtype::Bool, "", "tx == 0 || 12 / tx < 5");
    assert_eq!(or, [1.0, 0.0, 0.0, 1.0]);
    let lazy = map(4, Dtype::I32, "", "(if tx == 0 { 7 } else { 12 / tx }).cast::<i32>()");
    assert_eq!(lazy, [7.0, 12.0, 6.0, 4.0]);
}

#[test]
fn uniform_conditions_and_scalars() {
    let built = parsed(
        r"
            kernel k(
                n: usize,
                y: &mut Tensor<f32, (M,)>,
            ) {
                let [bx] = blocks([n]);
                let [tx] = threads([2]);
                let mut v: f32 = 0.0f32;
                if bx < 2 {
                    v = 0.5f32;
                } else {
                    v = bx.cast::<f32>();
                }
                y[bx * 2 + tx] = v;
            }
        ",
    );
    let args = [index(4), zeros(Dtype::F32, &[8])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [0.5, 0.5, 0.5, 0.5, 2.0, 2.0, 3.0, 3.0]);
}

#[test]
fn arithmetic_on_registers_is_that_of_numeric() {
    // Every operator on every dtype, lanes against the functions on bits.
    let floats = [0.0, -0.0, 1.0, -2.5, 65504.0, 6e-8, f64::INFINITY, f64::NAN, 0.1, 3.0, 1e-3, -7.0];
    let ints = [0.0, 1.0, -1.0, 7.0, -7.0, 2147483647.0, -2147483648.0, 33.0, 5.0, 2.0, 100.0, -3.0];
    use BinaryOp::*;
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::I32, Dtype::U32] {
        let data = if dtype.is_float() { floats } else { ints };
        let ops: &[BinaryOp] = if dtype.is_float() {
            &[Add, Sub, Mul, Div, Rem, Min, Max, Lt, Le, Gt, Ge, Eq, Ne]
        } else {
            &[Add, Sub, Mul, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr, Lt, Le, Gt, Ge, Eq, Ne]
        };
        for &op in ops {
            let result = if op.is_comparison() { Dtype::Bool } else { dtype };
            let value = match op {
                Min | Max => format!("{}(x[bx], x[tx])", op.symbol()),
                _ => format!("x[bx] {} x[tx]", op.symbol()),
            };
            let built = parsed(&format!(
                "kernel k(x: &Tensor<{dtype}, (N,)>, y: &mut Tensor<{result}, (N, N)>) {{
                    let [bx] = blocks([N]);
                    let [tx] = threads([12]);
                    y[[bx, tx]] = {value};
                }}"
            ));
            let args = [tensor(dtype, &[12], &data), zeros(result, &[12, 12])];
            ok(&built, &args);
            let (Argument::Tensor(x), Argument::Tensor(y)) = (&args[0], &args[1]) else { unreachable!() };
            for i in 0..144 {
                let bits = |j: usize| x.memory.load(j * dtype.bytes() as usize, dtype);
                let expected = numeric::binary(op, dtype, bits(i / 12), bits(i % 12));
                let found = y.memory.load(i * result.bytes() as usize, result);
                assert_eq!(Some(found), expected, "{dtype} {op:?} {} {}", data[i / 12], data[i % 12]);
            }
        }
    }
}

#[test]
fn casts_on_registers_are_those_of_numeric() {
    let data = [0.0, 1.0, -1.5, 70000.0, 3e9, -3e9, 0.3, 2.5];
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            let built = parsed(&format!(
                "kernel k(x: &Tensor<{from}, (N,)>, y: &mut Tensor<{to}, (N,)>) {{
                    let [bx] = blocks([1]);
                    let [tx] = threads([8]);
                    y[tx] = x[tx].cast::<{to}>();
                }}"
            ));
            let args = [tensor(from, &[8], &data), zeros(to, &[8])];
            ok(&built, &args);
            let (Argument::Tensor(x), Argument::Tensor(y)) = (&args[0], &args[1]) else { unreachable!() };
            for (i, value) in data.iter().enumerate() {
                let expected = numeric::cast(from, to, x.memory.load(i * from.bytes() as usize, from));
                assert_eq!(y.memory.load(i * to.bytes() as usize, to), expected, "{from} to {to}: {value}");
            }
        }
    }
}

#[test]
fn math_negation_and_select() {
    let body = "let negative = -tx.cast::<f16>();";
    let result = map(4, Dtype::F16, body, "select(tx < 2, sqrt(abs(negative)), negative)");
    assert_eq!(result, [0.0, 1.0, -2.0, -3.0]);
    let rounded = map(1, Dtype::F16, "", "exp(0.3333333333333333f16)");
    assert_eq!(rounded, [f64::from(numeric::round_f16(numeric::round_f16(1.0 / 3.0).exp()))]);
}
