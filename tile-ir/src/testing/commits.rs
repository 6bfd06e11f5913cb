//! Commits of asynchronous copies where the program copies nothing: what is behind `else` of `0 < turns`, where there is no copy without turns.

use crate::ir::BinaryOp;
use crate::lowered::*;

/// Whether the commit is executed only where a number, which the program sets once, is too small for any asynchronous copy in it.
pub(super) fn commits_nothing(program: &Program, commit: &OpKind) -> bool {
    let is_set_once = |reg: RegId| {
        let mut sets = 0;
        visit::each(&program.body, &mut |op| {
            let sets_it = |part: &Part<'_>| matches!(part, Part::Declares(r) | Part::Sets(r) if **r == reg);
            sets += op.kind.parts().iter().filter(|part| sets_it(part)).count();
        });
        // Outside of loops: it is the same number all the way.
        sets == 1
            && program.body.iter().any(|op| matches!(&op.kind, OpKind::Let { reg: r, value: Some(_) } if *r == reg))
    };
    around(program, &program.body, commit)
        .into_iter()
        .any(|(reg, most)| is_set_once(reg) && !copies(program, &program.body, reg, most))
}

/// `3 < turns`, as the register and the number.
fn exceeds(program: &Program, cond: ValueId) -> Option<(RegId, i64)> {
    let ValueKind::Binary(BinaryOp::Lt, number, reg) = program.values.get(cond)?.kind else { return None };
    let ValueKind::Reg(reg) = program.values.get(reg)?.kind else { return None };
    Some((reg, program.values.get(number)?.kind.as_int()?))
}

/// Registers that are at most a number where an operation stands.
fn around(program: &Program, ops: &[Op], wanted: &OpKind) -> Vec<(RegId, i64)> {
    let holds = |ops: &[Op]| visit::any(ops, &|kind| std::ptr::eq(kind, wanted));
    let mut known = Vec::new();
    for op in ops {
        if let OpKind::If { cond, otherwise, .. } = &op.kind
            && holds(otherwise)
        {
            known.extend(exceeds(program, *cond));
        }
        for body in op.kind.bodies().into_iter().filter(|body| holds(body)) {
            known.extend(around(program, body, wanted));
        }
    }
    known
}

/// Whether anything is copied where a register is at most a number.
fn copies(program: &Program, ops: &[Op], reg: RegId, most: i64) -> bool {
    let is_int = |id: ValueId| program.values.get(id).and_then(|value| value.kind.as_int()).is_some_and(|n| n >= most);
    let is_reg = |id: ValueId| matches!(program.values.get(id).map(|v| &v.kind), Some(ValueKind::Reg(r)) if *r == reg);
    ops.iter().any(|op| match &op.kind {
        OpKind::AsyncCopy { .. } => true,
        OpKind::If { cond, otherwise, .. } if exceeds(program, *cond).is_some_and(|(r, n)| r == reg && n >= most) => {
            copies(program, otherwise, reg, most)
        }
        OpKind::For { start, end, .. } if is_int(*start) && is_reg(*end) => false,
        kind => kind.bodies().into_iter().any(|body| copies(program, body, reg, most)),
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::plant::{commits_without_copies, mistakes};

    /// Without turns nothing is copied; where there is one and not two, something is.
    #[test]
    fn a_commit_is_of_nothing_where_there_are_no_turns() {
        let text = "program rounds for sm_80
dims N
parameters
    x: wide = address of x
    N: index = dim N
tensors
    x: f32 (N,) of argument 0
launch
    blocks [1, 1, 1]
    threads [32, 1, 1]
shared: 512 bytes
    xs: f32[128] at byte 0, aligned to 16
body
    shared xs
    let turns: index = N / 128
    if 0 < turns {
        async copy x[thread.x * 4; 4] to xs[thread.x * 4; 4]
    } else {
        async commit
    }
    if 1 < turns {
        async copy x[thread.x * 4; 4] to xs[thread.x * 4; 4]
    } else {
        async commit
    }
    for turn: index in 0..turns step 1 {
        async copy x[thread.x * 4; 4] to xs[thread.x * 4; 4]
    }
";
        let program = crate::text::parse_program(text).unwrap_or_else(|error| panic!("{error}"));
        let commits = mistakes(&program).into_iter().filter(|m| m.text.starts_with("`async commit`"));
        let alone: Vec<bool> = commits.map(|mistake| commits_without_copies(&program, &mistake)).collect();
        assert_eq!(alone, [true, false]);
    }
}
