use super::*;
use crate::ir::*;
use crate::testing::{Builder, kernel};

/// One block of `threads` threads that stores `value(b, tx)` to `y[tx]`.
fn map(threads: i64, dtype: Dtype, value: impl FnOnce(&mut Builder, ExprId) -> ExprId) -> Vec<f64> {
    let built = kernel("map", |b| {
        let n = b.dim("N");
        let y = b.tensor_mut("y", dtype, &[n]);
        let one = b.int(1);
        b.blocks([("bx", one)]);
        let [tx] = b.threads([("tx", threads)]);
        let value = value(b, tx);
        b.store(y, &[tx], value);
    });
    let args = [zeros(dtype, &[threads])];
    ok(&built, &args);
    values(&args[0])
}

#[test]
fn a_divergent_conditional_runs_both_arms() {
    let result = map(7, Dtype::I32, |b, tx| {
        let start = b.int_of(Dtype::I32, 0);
        let v = b.bind_mut("v", start);
        let three = b.int(3);
        let small = b.lt(tx, three);
        b.branch(
            small,
            |b| {
                let ten = b.int_of(Dtype::I32, 10);
                b.assign(v, ten);
            },
            |b| {
                let own = b.cast(Dtype::I32, tx);
                let next = b.add(v, own);
                b.assign(v, next);
            },
        );
        v
    });
    assert_eq!(result, [10.0, 10.0, 10.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_condition_is_read_before_its_arms_change_it() {
    let result = map(4, Dtype::I32, |b, tx| {
        let start = b.cast(Dtype::I32, tx);
        let v = b.bind_mut("v", start);
        let two = b.int_of(Dtype::I32, 2);
        let small = b.lt(v, two);
        let five = b.int_of(Dtype::I32, 5);
        b.branch(
            small,
            |b| b.assign(v, five),
            |b| {
                let double = b.add(v, v);
                b.assign(v, double);
            },
        );
        v
    });
    assert_eq!(result, [5.0, 5.0, 4.0, 6.0]);
}

#[test]
fn loops_whose_trip_count_differs_between_threads() {
    // Thread t sums t, t + 2, .. below 7.
    let result = map(9, Dtype::I32, |b, tx| {
        let zero = b.int_of(Dtype::I32, 0);
        let sum = b.bind_mut("sum", zero);
        let bounds = [tx, b.int(7), b.int(2)];
        b.for_each("i", LoopKind::Serial { unroll: None }, bounds, |b, i| {
            let i = b.cast(Dtype::I32, i);
            let next = b.add(sum, i);
            b.assign(sum, next);
        });
        sum
    });
    let expected: Vec<f64> = (0..9).map(|t| (t..7).step_by(2).sum::<i32>().into()).collect();
    assert_eq!(result, expected);
}

#[test]
fn a_uniform_loop_in_a_divergent_one() {
    // Thread t counts t * 3.
    let result = map(5, Dtype::U32, |b, tx| {
        let zero = b.int_of(Dtype::U32, 0);
        let count = b.bind_mut("count", zero);
        b.range("i", tx, |b, _| {
            let three = b.int(3);
            b.range("j", three, |b, _| {
                let one = b.int_of(Dtype::U32, 1);
                let next = b.add(count, one);
                b.assign(count, next);
            });
        });
        count
    });
    assert_eq!(result, [0.0, 3.0, 6.0, 9.0, 12.0]);
}

#[test]
fn bounds_are_evaluated_once() {
    let result = map(2, Dtype::I32, |b, _| {
        let four = b.int(4);
        let n = b.bind_mut("n", four);
        let zero = b.int_of(Dtype::I32, 0);
        let trips = b.bind_mut("trips", zero);
        b.range("i", n, |b, _| {
            let one = b.int_of(Dtype::I32, 1);
            let next = b.add(trips, one);
            b.assign(trips, next);
            let zero = b.int(0);
            b.assign(n, zero);
        });
        trips
    });
    assert_eq!(result, [4.0, 4.0]);
}

#[test]
fn an_assignment_under_a_divergent_condition_makes_a_variable_varying() {
    let result = map(3, Dtype::I32, |b, tx| {
        let zero = b.int_of(Dtype::I32, 0);
        let flag = b.bind_mut("flag", zero);
        let total = b.bind_mut("total", zero);
        let one_index = b.int(1);
        let first = b.lt(tx, one_index);
        b.when(first, |b| {
            let one = b.int_of(Dtype::I32, 1);
            b.assign(flag, one);
        });
        // `total` only becomes varying because `flag` is.
        b.assign(total, flag);
        total
    });
    assert_eq!(result, [1.0, 0.0, 0.0]);
}

#[test]
fn logic_short_circuits_and_if_expressions_are_lazy() {
    // 12 / tx would fault for thread 0.
    let divided = |b: &mut Builder, tx: ExprId| {
        let twelve = b.int(12);
        b.binary(BinaryOp::Div, twelve, tx)
    };
    let and = map(4, Dtype::Bool, |b, tx| {
        let zero = b.int(0);
        let nonzero = b.binary(BinaryOp::Ne, tx, zero);
        let (quotient, five) = (divided(b, tx), b.int(5));
        let large = b.lt(five, quotient);
        b.binary(BinaryOp::And, nonzero, large)
    });
    assert_eq!(and, [0.0, 1.0, 1.0, 0.0]);
    let or = map(4, Dtype::Bool, |b, tx| {
        let zero = b.int(0);
        let is_zero = b.eq(tx, zero);
        let (quotient, five) = (divided(b, tx), b.int(5));
        let small = b.lt(quotient, five);
        b.binary(BinaryOp::Or, is_zero, small)
    });
    assert_eq!(or, [1.0, 0.0, 0.0, 1.0]);
    let lazy = map(4, Dtype::I32, |b, tx| {
        let zero = b.int(0);
        let is_zero = b.eq(tx, zero);
        let seven = b.int(7);
        let quotient = divided(b, tx);
        let chosen = b.lazy_if(is_zero, seven, quotient);
        b.cast(Dtype::I32, chosen)
    });
    assert_eq!(lazy, [7.0, 12.0, 6.0, 4.0]);
}

#[test]
fn uniform_conditions_and_scalars() {
    let built = kernel("k", |b| {
        let n = b.scalar("n", Type::Index);
        let m = b.dim("M");
        let y = b.tensor_mut("y", Dtype::F32, &[m]);
        let [bx] = b.blocks([("bx", n)]);
        let [tx] = b.threads([("tx", 2)]);
        let two = b.int(2);
        let low = b.lt(bx, two);
        let zero = b.float(Dtype::F32, 0.0);
        let v = b.bind_mut("v", zero);
        b.branch(
            low,
            |b| {
                let half = b.float(Dtype::F32, 0.5);
                b.assign(v, half);
            },
            |b| {
                let index = b.cast(Dtype::F32, bx);
                b.assign(v, index);
            },
        );
        let at = b.scaled(bx, 2, tx);
        b.store(y, &[at], v);
    });
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
            let built = kernel("k", |b| {
                let n = b.dim("N");
                let x = b.tensor("x", dtype, &[n]);
                let y = b.tensor_mut("y", result, &[n, n]);
                let [bx] = b.blocks([("bx", n)]);
                let [tx] = b.threads([("tx", 12)]);
                let (left, right) = (b.load(x, &[bx]), b.load(x, &[tx]));
                let value = b.binary(op, left, right);
                b.store(y, &[bx, tx], value);
            });
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
            let built = kernel("k", |b| {
                let n = b.dim("N");
                let x = b.tensor("x", from, &[n]);
                let y = b.tensor_mut("y", to, &[n]);
                let one = b.int(1);
                b.blocks([("bx", one)]);
                let [tx] = b.threads([("tx", 8)]);
                let value = b.load(x, &[tx]);
                let value = b.cast(to, value);
                b.store(y, &[tx], value);
            });
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
    let result = map(4, Dtype::F16, |b, tx| {
        let x = b.cast(Dtype::F16, tx);
        let negative = b.unary(UnaryOp::Neg, x);
        let positive = b.math(MathFn::Abs, &[negative]);
        let root = b.math(MathFn::Sqrt, &[positive]);
        let two = b.int(2);
        let cond = b.lt(tx, two);
        b.select(cond, root, negative)
    });
    assert_eq!(result, [0.0, 1.0, -2.0, -3.0]);
    let rounded = map(1, Dtype::F16, |b, _| {
        let third = b.float(Dtype::F16, 1.0 / 3.0);
        b.math(MathFn::Exp, &[third])
    });
    assert_eq!(rounded, [f64::from(numeric::round_f16(numeric::round_f16(1.0 / 3.0).exp()))]);
}
