//! Indices that are computed from data: integers of 32 bits, whose arithmetic wraps, and what is known of them
//! whatever the data.

use super::*;

/// What an access `y[value]` of four elements is, where `value` is computed from `keys[t]` of `dtype`.
struct Index {
    b: Build,
    dtype: Dtype,
    key: E,
    y: Place,
}

impl Index {
    fn of(dtype: Dtype) -> Index {
        let mut b = Build::new();
        let keys = b.tensor("keys", dtype, &["32"], false);
        let y = b.tensor("y", Dtype::F32, &["4"], true);
        let t = b.threads("t", 32);
        let t = b.var(t);
        let key = b.load(keys, &[t]);
        let key = b.let_("key", key);
        let key = b.var(key);
        Index { b, dtype, key, y }
    }

    fn int(&mut self, value: i64) -> E {
        self.b.expr(ExprKind::Int(value), self.dtype.into())
    }

    fn op(&mut self, op: BinaryOp, a: E, b: i64) -> E {
        let b = self.int(b);
        self.b.bin(op, a, b)
    }

    fn add_at(&mut self, value: E) {
        let index = self.b.expr(ExprKind::Cast(Type::Index, value), Type::Index);
        let access = self.b.access(self.y, &[index], false);
        let one = self.b.float(1.0);
        self.b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value: one, dst: None });
    }

    /// `inside`, or what the lint says; whether it is computed in 64 bits, too.
    fn found(self) -> String {
        let kernel = self.b.done();
        let analysis = analyse(&kernel, Target::Sm90a);
        assert_eq!(report(&analysis.diagnostics), "");
        let bits = if analysis.wide.is_empty() { "32 bits" } else { "64 bits" };
        match analysis.lints.first() {
            None => format!("inside, {bits}"),
            Some(lint) => format!("{}, {bits}", lint.code),
        }
    }
}

/// The access `y[f(keys[t])]`.
fn found(dtype: Dtype, f: impl FnOnce(&mut Index, E) -> E) -> String {
    let mut index = Index::of(dtype);
    let value = index.key;
    let value = f(&mut index, value);
    index.add_at(value);
    index.found()
}

#[test]
fn arithmetic_by_constants_has_a_range_whatever_the_data() {
    use BinaryOp::*;
    for (op, by) in [(Rem, 4), (Rem, 3), (BitAnd, 3), (BitAnd, 2), (Shr, 30), (Shr, 31), (Min, 3), (Div, 1 << 30)] {
        assert_eq!(found(Dtype::U32, |i, key| i.op(op, key, by)), "inside, 32 bits", "{op:?} {by}");
    }
    // One more is outside.
    for (op, by) in [(Rem, 5), (BitAnd, 7), (BitAnd, 4), (Shr, 29), (Min, 4), (Div, 1 << 29)] {
        assert_eq!(found(Dtype::U32, |i, key| i.op(op, key, by)), "TK0604, 32 bits", "{op:?} {by}");
    }
    // A mask on the left.
    let masked = found(Dtype::U32, |i, key| {
        let three = i.int(3);
        i.b.bin(BitAnd, three, key)
    });
    assert_eq!(masked, "inside, 32 bits");
    // Not negative, and below.
    for (op, by) in [(BitAnd, 3), (BitAnd, 1)] {
        assert_eq!(found(Dtype::I32, |i, key| i.op(op, key, by)), "inside, 32 bits", "{op:?} {by}");
    }
    // The remainder of a negative `i32` is negative; `i32 >> 30` is -2 to 1.
    for (op, by) in [(Rem, 4), (Shr, 30), (Min, 3)] {
        assert_eq!(found(Dtype::I32, |i, key| i.op(op, key, by)), "TK0605, 32 bits", "{op:?} {by}");
    }
}

#[test]
fn sums_and_products_of_what_has_a_range_have_one() {
    use BinaryOp::*;
    for dtype in [Dtype::U32, Dtype::I32] {
        let sum = |i: &mut Index, key, by| {
            let one = i.op(BitAnd, key, 1);
            let shifted = i.op(Shr, key, 5);
            let other = i.op(BitAnd, shifted, 1);
            let other = i.op(Mul, other, by);
            i.b.bin(Add, one, other)
        };
        assert_eq!(found(dtype, |i, key| sum(i, key, 2)), "inside, 32 bits", "{dtype}");
        assert_eq!(found(dtype, |i, key| sum(i, key, 3)), "TK0604, 32 bits", "{dtype}");
    }
    let difference = |by: i64| {
        move |i: &mut Index, key: E| {
            let rest = i.op(Rem, key, 4);
            let three = i.int(by);
            i.b.bin(Sub, three, rest)
        }
    };
    assert_eq!(found(Dtype::U32, difference(3)), "inside, 32 bits");
    // 2 - 3 wraps to 2^32 - 1.
    assert_eq!(found(Dtype::U32, difference(2)), "TK0604, 64 bits");
    // Bits of two, side by side.
    let bits = |by: i64| {
        move |i: &mut Index, key: E| {
            let (low, shifted) = (i.op(BitAnd, key, 1), i.op(Shr, key, 7));
            let high = i.op(BitAnd, shifted, 1);
            let high = i.op(Shl, high, by);
            i.b.bin(BitOr, low, high)
        }
    };
    assert_eq!(found(Dtype::U32, bits(1)), "inside, 32 bits");
    assert_eq!(found(Dtype::U32, bits(2)), "TK0604, 32 bits");
    // A choice between two.
    let chosen = found(Dtype::U32, |i, key| {
        let cond = i.op(Lt, key, 1000);
        let (a, b) = (i.op(Rem, key, 4), i.op(Shr, key, 30));
        i.b.expr(ExprKind::If(cond, a, b), i.dtype.into())
    });
    assert_eq!(chosen, "inside, 32 bits");
}

#[test]
fn what_wraps_is_not_known() {
    use BinaryOp::*;
    // (key + 1) % 4 is below 4; key + 1 may be 0, so (key + 1) - 1 need not be key, and key % 4 + u32::MAX is key % 4 - 1.
    let after = |op, by: i64, then: i64| {
        move |i: &mut Index, key: E| {
            let sum = i.op(op, key, by);
            i.op(Rem, sum, then)
        }
    };
    assert_eq!(found(Dtype::U32, after(Add, 1, 4)), "inside, 32 bits");
    assert_eq!(found(Dtype::U32, after(Mul, 2_654_435_761, 4)), "inside, 32 bits");
    assert_eq!(found(Dtype::U32, after(Mul, 2_654_435_761, 5)), "TK0604, 32 bits");
    let minus_one = found(Dtype::U32, |i, key| {
        let rest = i.op(Rem, key, 4);
        i.op(Add, rest, u32::MAX.into())
    });
    assert_eq!(minus_one, "TK0604, 64 bits");
    let product = found(Dtype::U32, |i, key| {
        let low = i.op(BitAnd, key, 1);
        i.op(Mul, low, 1 << 31)
    });
    assert_eq!(product, "TK0604, 64 bits");
    // Shifts count modulo 32: `key >> 62` is `key >> 30`, `key >> 32` is `key`.
    assert_eq!(found(Dtype::U32, |i, key| i.op(Shr, key, 32)), "TK0604, 64 bits");
    let shifted = found(Dtype::U32, |i, key| {
        let low = i.op(BitAnd, key, 3);
        i.op(Shr, low, 33)
    });
    assert_eq!(shifted, "inside, 32 bits");
    // Nothing is known of a quotient by zero.
    let quotient = found(Dtype::U32, |i, key| {
        let (low, by) = (i.op(BitAnd, key, 3), i.op(Shr, key, 5));
        i.b.bin(Div, low, by)
    });
    assert_eq!(quotient, "TK0604, 64 bits");
}

/// `if key < 4 { y[key] }`, `if key >= 2 && key < 6 { y[key - 2] }`: a guard on the data says that nothing wraps.
#[test]
fn a_guard_says_that_nothing_wraps() {
    use BinaryOp::*;
    let guarded = |least: i64, end: i64, by: i64| {
        let mut index = Index::of(Dtype::U32);
        let key = index.key;
        let (above, below) = (index.op(Ge, key, least), index.op(Lt, key, end));
        let cond = index.b.and(above, below);
        let Index { mut b, dtype, key, y } = index;
        b.if_(cond, |b| {
            let by = b.expr(ExprKind::Int(by), dtype.into());
            let value = b.bin(Sub, key, by);
            let at = b.expr(ExprKind::Cast(Type::Index, value), Type::Index);
            let (access, one) = (b.access(y, &[at], false), b.float(1.0));
            b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value: one, dst: None });
        });
        let index = Index { b, dtype, key, y };
        index.found()
    };
    assert_eq!(guarded(0, 4, 0), "inside, 64 bits");
    assert_eq!(guarded(2, 6, 2), "inside, 64 bits");
    assert_eq!(guarded(2, 7, 2), "TK0604, 64 bits");
    assert_eq!(guarded(1, 6, 2), "TK0604, 64 bits");
}

/// A conversion to an index first, then the remainder.
#[test]
fn a_remainder_of_what_data_says_as_an_index() {
    let Index { mut b, dtype, key, y } = Index::of(Dtype::U32);
    let at = b.expr(ExprKind::Cast(Type::Index, key), Type::Index);
    let four = b.int(4);
    let at = b.bin(BinaryOp::Rem, at, four);
    let (access, one) = (b.access(y, &[at], false), b.float(1.0));
    b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value: one, dst: None });
    // The key itself may be beyond `int`.
    assert_eq!(Index { b, dtype, key, y }.found(), "inside, 64 bits");
}
