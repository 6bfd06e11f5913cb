//! Launch-time expressions as flat code: a launch evaluates a dozen of them in a few tens of nanoseconds.

use tile_ir::ir::{BinaryOp, DimId, ParamId};
use tile_ir::lowered::{HostExpr, HostValues};

/// A compiled [`HostExpr`].
#[derive(Clone, Debug)]
pub(crate) enum Formula {
    /// A leaf.
    Leaf(Leaf),
    /// `leaf % (mask + 1) == 0`, the divisor a power of two.
    Multiple(Leaf, i64),
    /// `ceil_div(leaf, divisor)`, or `leaf / divisor` where `up` is 0; both not negative.
    Quotient { leaf: Leaf, up: i64, divisor: i64 },
    /// Anything else.
    Tree(Box<HostExpr>),
}

/// A launch-time value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaf {
    Int(i64),
    Dim(DimId),
    Stride(ParamId, u8),
    Scalar(ParamId),
    Address(ParamId),
    Capacity,
}

impl Leaf {
    fn of(expr: &HostExpr) -> Option<Leaf> {
        Some(match expr {
            HostExpr::Int(value) => Leaf::Int(*value),
            HostExpr::Dim(dim) => Leaf::Dim(*dim),
            HostExpr::Stride(param, axis) => Leaf::Stride(*param, *axis),
            HostExpr::Scalar(param) => Leaf::Scalar(*param),
            HostExpr::Address(param) => Leaf::Address(*param),
            HostExpr::Capacity => Leaf::Capacity,
            HostExpr::Binary(..) | HostExpr::Not(_) | HostExpr::Choose(_) => return None,
        })
    }

    #[inline]
    fn value(self, values: &impl HostValues) -> i64 {
        match self {
            Leaf::Int(value) => value,
            Leaf::Dim(dim) => values.dim(dim),
            Leaf::Stride(param, axis) => values.stride(param, axis),
            Leaf::Scalar(param) => values.scalar(param),
            Leaf::Address(param) => values.address(param) as i64,
            Leaf::Capacity => values.capacity(),
        }
    }
}

impl Formula {
    /// Compiles an expression.
    pub fn new(expr: &HostExpr) -> Formula {
        let special = || -> Option<Formula> {
            if let Some(leaf) = Leaf::of(expr) {
                return Some(Formula::Leaf(leaf));
            }
            let HostExpr::Binary(op, a, b) = expr else { return None };
            match (op, &**a, &**b) {
                (BinaryOp::Eq, HostExpr::Binary(BinaryOp::Rem, value, divisor), HostExpr::Int(0)) => match **divisor {
                    HostExpr::Int(n) if n > 0 && n.count_ones() == 1 => {
                        Some(Formula::Multiple(Leaf::of(value)?, n - 1))
                    }
                    _ => None,
                },
                (BinaryOp::CeilDiv, value, HostExpr::Int(divisor)) if *divisor > 0 => {
                    Some(Formula::Quotient { leaf: Leaf::of(value)?, up: divisor - 1, divisor: *divisor })
                }
                (BinaryOp::Div, value, HostExpr::Int(divisor)) if *divisor > 0 => {
                    Some(Formula::Quotient { leaf: Leaf::of(value)?, up: 0, divisor: *divisor })
                }
                _ => None,
            }
        };
        special().unwrap_or_else(|| Formula::Tree(Box::new(expr.clone())))
    }

    /// The value; `None` on overflow or division by zero, as [`HostExpr::evaluate`].
    #[inline]
    pub fn evaluate(&self, values: &impl HostValues) -> Option<i64> {
        match self {
            Formula::Leaf(leaf) => Some(leaf.value(values)),
            // Two's complement: the low bits tell for negative values too.
            Formula::Multiple(leaf, mask) => Some(i64::from(leaf.value(values) & mask == 0)),
            Formula::Quotient { leaf, up, divisor } => {
                let value = leaf.value(values);
                if (0..=i64::from(i32::MAX)).contains(&value) && *divisor <= i64::from(u32::MAX) {
                    // 32-bit division is several times faster than 64-bit on older processors.
                    let sum = value + up;
                    return Some(match u32::try_from(sum) {
                        Ok(sum) => i64::from(sum / *divisor as u32),
                        Err(_) => sum / divisor,
                    });
                }
                slow_quotient(value, *up, *divisor)
            }
            Formula::Tree(expr) => expr.evaluate(values),
        }
    }
}

#[cold]
fn slow_quotient(value: i64, up: i64, divisor: i64) -> Option<i64> {
    let quotient = value.checked_div(divisor)?;
    Some(quotient + i64::from(up > 0 && value % divisor != 0 && value > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_ir::ir::EntityRef;

    struct One(i64);

    impl HostValues for One {
        fn dim(&self, _: DimId) -> i64 {
            self.0
        }
        fn stride(&self, _: ParamId, _: u8) -> i64 {
            self.0
        }
        fn scalar(&self, _: ParamId) -> i64 {
            self.0
        }
        fn address(&self, _: ParamId) -> u64 {
            self.0 as u64
        }
        fn capacity(&self) -> i64 {
            self.0
        }
    }

    #[test]
    fn every_form_agrees_with_the_tree() {
        let param = ParamId::new(0);
        let leaves = [
            HostExpr::Dim(DimId::new(0)),
            HostExpr::Stride(param, 0),
            HostExpr::Scalar(param),
            HostExpr::Address(param),
            HostExpr::Capacity,
        ];
        let numbers = [i64::MIN, -1025, -9, -8, -1, 0, 1, 7, 8, 9, 1024, i64::from(i32::MAX), 1 << 40, i64::MAX];
        let mut special = 0;
        for leaf in leaves {
            let mut all = vec![leaf.clone(), HostExpr::Not(Box::new(leaf.clone()))];
            for divisor in [-4, 0, 1, 2, 3, 8, 100, 4096, 1 << 33, i64::MAX] {
                let binary = |op| HostExpr::binary(op, leaf.clone(), HostExpr::Int(divisor));
                all.push(HostExpr::binary(BinaryOp::Eq, binary(BinaryOp::Rem), HostExpr::Int(0)));
                all.extend([BinaryOp::CeilDiv, BinaryOp::Div, BinaryOp::Add, BinaryOp::Le].map(binary));
            }
            for expr in &all {
                let formula = Formula::new(expr);
                special += usize::from(!matches!(formula, Formula::Tree(_)));
                for value in numbers {
                    assert_eq!(formula.evaluate(&One(value)), expr.evaluate(&One(value)), "{expr:?} of {value}");
                }
            }
        }
        assert!(special > 60, "{special} special forms");
    }
}
