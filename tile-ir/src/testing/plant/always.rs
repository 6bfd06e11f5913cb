//! Conditions that hold in every launch, so that nobody takes the other way: a number that the launch checks say is not 0 is divided into more
//! than no parts, and a number is less than the greater of another and the one after it.

use super::leaders::first_value;
use crate::ir::{BinaryOp, EntityRef};
use crate::lowered::*;

/// Whether a condition is `a < b`, and holds whenever the launch checks do.
pub(super) fn holds(program: &Program, cond: ValueId) -> bool {
    matches!(program.values[cond].kind, ValueKind::Binary(BinaryOp::Lt, a, b) if is_less(program, a, b))
}

fn is_less(program: &Program, a: ValueId, b: ValueId) -> bool {
    let (a, b) = (first(program, a), first(program, b));
    let is_zero = program.values[a].kind.as_int() == Some(0);
    match program.values[b].kind {
        ValueKind::Int(number) => program.values[a].kind.as_int().is_some_and(|a| a < number),
        ValueKind::Param(at) => is_zero && is_demanded(program, at),
        ValueKind::Binary(BinaryOp::CeilDiv, number, by) => {
            is_zero && is_less(program, a, number) && program.values[by].kind.as_int().is_some_and(|by| by > 0)
        }
        ValueKind::Binary(BinaryOp::Max, x, y) => is_less(program, a, x) || is_less(program, a, y),
        ValueKind::Binary(BinaryOp::Add, x, more) => {
            is_same(program, a, first(program, x)) && program.values[more].kind.as_int().is_some_and(|more| more > 0)
        }
        _ => false,
    }
}

/// The value that a register was declared with, if it never gets another one.
fn first(program: &Program, id: ValueId) -> ValueId {
    let ValueKind::Reg(reg) = program.values[id].kind else { return id };
    if program.regs[reg].mutable {
        return id;
    }
    first_value(&program.body, reg).map_or(id, |value| first(program, value))
}

/// Whether two values are written alike, of nothing that may change between them.
fn is_same(program: &Program, a: ValueId, b: ValueId) -> bool {
    match (&program.values[a].kind, &program.values[b].kind) {
        (ValueKind::Reg(a), ValueKind::Reg(b)) => a == b && !program.regs[*a].mutable,
        (ValueKind::Int(a), ValueKind::Int(b)) => a == b,
        (ValueKind::Param(a), ValueKind::Param(b)) => a == b,
        (ValueKind::Binary(op, a, b), ValueKind::Binary(other, c, d)) => {
            op == other && is_same(program, *a, *c) && is_same(program, *b, *d)
        }
        _ => false,
    }
}

/// Whether a launch check demands that a parameter, which is a dim, is more than 0.
fn is_demanded(program: &Program, at: u32) -> bool {
    let Some(ParameterKind::Dim(dim)) = program.params.get(at as usize).map(|parameter| parameter.kind) else {
        return false;
    };
    let is_dim = |expr: &HostExpr| matches!(expr, HostExpr::Dim(d) if d.index() == dim.index());
    let is_natural = |expr: &HostExpr| matches!(expr, HostExpr::Int(number) if *number >= 0);
    program.launch.checks.iter().any(|check| match &check.holds {
        HostExpr::Binary(BinaryOp::Gt, a, b) => is_dim(a) && is_natural(b),
        HostExpr::Binary(BinaryOp::Lt, a, b) => is_natural(a) && is_dim(b),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use crate::lowered::OpKind;

    /// Of five conditions: of a dim that is demanded and one that is not, of a number and the one after it, of a number that changes, and of
    /// one too far.
    #[test]
    fn a_condition_holds_where_the_checks_or_its_form_say_so() {
        let text = "program ways for sm_80
dims N, M
parameters
    x: wide = address of x
    N: index = dim N
    M: index = dim M
tensors
    x: f32 (N, M) of argument 0
launch
    blocks [1, 1, 1]
    threads [32, 1, 1]
    check N > 0 (require \"N > 0\")
shared: 0 bytes
body
    let some: index = ceil_div(N, 128)
    let perhaps: index = ceil_div(M, 128)
    let begin: index = M / 4
    let mut at: index = 0
    if 0 < some {
        barrier
    }
    if 0 < perhaps {
        barrier
    }
    if begin < max(some, begin + 1) {
        barrier
    }
    if at < max(some, at + 1) {
        barrier
    }
    if 1 < some {
        barrier
    }
";
        let program = crate::text::parse_program(text).unwrap_or_else(|error| panic!("{error}"));
        let conditions = program.body.iter().filter_map(|op| {
            if let OpKind::If { cond, .. } = op.kind { Some(super::holds(&program, cond)) } else { None }
        });
        assert_eq!(conditions.collect::<Vec<_>>(), [true, false, true, false, false]);
    }
}
