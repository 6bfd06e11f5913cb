//! Pipelined loops: the loads lead the body, and the rest leaves their arrays alone. What the loads are is defined in
//! `ir/pipeline.rs`.

use super::slots;
use crate::diag::{Code, Diagnostic};
use crate::ir::parts::{StmtPart, each};
use crate::ir::pipeline::{By, Leading, Moving, Split, is_address, is_global_load, is_index, split};
use crate::ir::{Buffer, BufferId, Kernel, LoopKind, Place, Scope, SpanId, StmtId, StmtKind, TileOp, VarId, VarKind};

/// Reports pipelined loops that cannot be.
pub(super) fn check(kernel: &Kernel, all: &mut Vec<Diagnostic>) {
    let mut loops = Vec::new();
    each(kernel, &kernel.body, &mut |stmt| {
        if matches!(kernel.stmts[stmt].kind, StmtKind::For { kind: LoopKind::Pipelined { .. }, .. }) {
            loops.push(stmt);
        }
    });
    for stmt in loops {
        if let StmtKind::For { body, .. } = &kernel.stmts[stmt].kind {
            one(kernel, stmt, body, all);
        }
    }
}

/// Whether the body multiplies tiles.
pub(super) fn is_tile_pipeline(kernel: &Kernel, body: &[StmtId]) -> bool {
    let mut found = false;
    each(kernel, body, &mut |s| found |= matches!(kernel.stmts[s].kind, StmtKind::Tile(TileOp::Gemm { .. })));
    found
}

fn one(kernel: &Kernel, stmt: StmtId, body: &[StmtId], all: &mut Vec<Diagnostic>) {
    if is_tile_pipeline(kernel, body) {
        // Its loads are copies: `tiles` has its rules.
        return;
    }
    let StmtKind::For { var, .. } = kernel.stmts[stmt].kind else { return };
    let Split { loads, moving, buffers, .. } = split(kernel, var, body);
    let rest = &body[loads..];
    let span = kernel.stmts[stmt].span;
    if let Some((fill, buffer)) = rest.iter().find_map(|s| stray_fill(kernel, *s, var, body)) {
        let Buffer { name, scope, .. } = &kernel.buffers[buffer];
        let message = format!("`{name}` is filled from global memory among statements that compute");
        let mut diagnostic = Diagnostic::new(Code::PLACEMENT, fill, message).at("this is a load");
        if let Some(compute) = rest.iter().find_map(|s| first_compute(kernel, *s, var, body)) {
            diagnostic = diagnostic.label(compute, "the computing begins here: loads stand before it");
        }
        let help = match scope {
            Scope::Local => {
                "a pipelined loop begins with statements that only load: fill the array in a loop of its own \
                 before the computing, or allocate it in the body if it is not to be loaded ahead"
            }
            Scope::Shared | Scope::Fragment => {
                "a pipelined loop begins with statements that only load: fill the array before the computing"
            }
        };
        all.push(diagnostic.help(help));
        return;
    }
    if let (0, Some(moving)) = (loads, moving) {
        all.push(unsteady(kernel, stmt, moving));
        return;
    }
    if loads == 0 {
        let message = "the loop has no loads to issue ahead";
        let reads_its_place = |stmt: &StmtId| {
            matches!(&kernel.stmts[*stmt].kind, StmtKind::Tile(TileOp::Copy { src, .. })
                if src.start.iter().any(|at| !is_address(kernel, *at)) && src.start.iter().all(|at| is_index(kernel, var, *at)))
        };
        let help = if body.first().is_some_and(reads_its_place) {
            "give what the coordinate reads from shared memory a name before the copy, by a let, and use the name there"
        } else {
            "begin the body with statements that only fill arrays, allocated before the loop, from `&` tensors; or use \
             `serial(a..b)`"
        };
        let mut diagnostic = Diagnostic::new(Code::PLACEMENT, span, message).help(help);
        if let Some(&first) = body.first() {
            diagnostic = diagnostic.label(kernel.stmts[first].span, "its body begins with this");
        }
        all.push(diagnostic);
        return;
    }
    for &buffer in &buffers {
        slots::alone(kernel, stmt, rest, buffer, all);
    }
}

/// A fill that would be a load, were it the same in every iteration.
pub(super) fn unsteady(kernel: &Kernel, stmt: StmtId, moving: Moving) -> Diagnostic {
    let Moving { span, by, var } = moving;
    let by_variable = |what: &str, otherwise: &str| match var {
        Some(var) => format!("{what} depends on `{}`", kernel.vars[var].name),
        None => format!("{what} {otherwise}"),
    };
    let own = |var| {
        let mut own = false;
        each(kernel, &[stmt], &mut |s| {
            kernel.stmts[s].kind.each_part(&mut |part| own |= matches!(part, StmtPart::Binds(v) if v == var));
        });
        own
    };
    // What a loop around binds is the same in all iterations of one entry of this one.
    let every = if var.is_none_or(own) { "in every iteration" } else { "whenever the loop is entered" };
    let (message, at, help) = match by {
        By::Place => (
            format!("the load fills other elements {every}"),
            by_variable("its place in the array", "is no constant"),
            format!("fill the same elements {every}: the loop keeps a copy of the array for each stage"),
        ),
        By::Condition => (
            format!("whether the load is made is not the same {every}"),
            by_variable("the condition", "is read from memory"),
            format!(
                "make the load {every}, by a masked access where there may be nothing to load: the loop keeps a copy of \
                 the array for each stage"
            ),
        ),
    };
    let around = kernel.stmts[stmt].span;
    Diagnostic::new(Code::PLACEMENT, span, message).at(at).label(around, "the pipelined loop").help(help)
}

/// A fill of an array from outside the loop that is not among the leading loads, and the array.
fn stray_fill(kernel: &Kernel, stmt: StmtId, index: VarId, body: &[StmtId]) -> Option<(SpanId, BufferId)> {
    let mut allocated = Vec::new();
    each(kernel, body, &mut |s| {
        if let StmtKind::Alloc { buffer } = kernel.stmts[s].kind {
            allocated.push(buffer);
        }
    });
    let kind = &kernel.stmts[stmt].kind;
    let is_load = || Leading::shared(kernel, index, &allocated).statement(stmt) == Some(true);
    if let StmtKind::Store { access, value } = kind {
        let Place::Buffer(buffer) = kernel.accesses[*access].place else { return None };
        let stray = match kernel.buffers[buffer].scope {
            Scope::Local => !allocated.contains(&buffer) && is_global_load(kernel, *value),
            // Of other elements in every iteration, it is no load to begin with.
            Scope::Fragment => false,
            Scope::Shared => is_load(),
        };
        return stray.then(|| (kernel.stmts[stmt].span, buffer));
    }
    if let StmtKind::Tile(TileOp::Copy { dst, .. }) = kind {
        let Place::Buffer(buffer) = dst.place else { return None };
        return is_load().then(|| (kernel.stmts[stmt].span, buffer));
    }
    plain_loop(kernel, stmt)?.iter().find_map(|s| stray_fill(kernel, *s, index, body))
}

/// The body of a loop that is not itself pipelined.
fn plain_loop(kernel: &Kernel, stmt: StmtId) -> Option<&[StmtId]> {
    let StmtKind::For { body, kind, .. } = &kernel.stmts[stmt].kind else { return None };
    (!matches!(kind, LoopKind::Pipelined { .. })).then_some(body)
}

/// The first statement that is neither a load nor an index.
fn first_compute(kernel: &Kernel, stmt: StmtId, index: VarId, body: &[StmtId]) -> Option<SpanId> {
    let kind = &kernel.stmts[stmt].kind;
    if let Some(inner) = plain_loop(kernel, stmt) {
        return inner.iter().find_map(|s| first_compute(kernel, *s, index, body));
    }
    let is_index = matches!(kind, StmtKind::Let { var, value: Some(value) }
        if kernel.vars[*var].kind == VarKind::Let && is_index(kernel, index, *value));
    let is_load = matches!(kind, StmtKind::Store { .. } | StmtKind::Tile(TileOp::Copy { .. }))
        && stray_fill(kernel, stmt, index, body).is_some();
    (!is_index && !is_load).then(|| kernel.stmts[stmt].span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::report;
    use crate::ir::Kernel;
    use crate::testing::parsed;
    use expect_test::{Expect, expect};

    /// A pipelined loop with this body, which fills `a` from `x`; then `after`.
    fn looped(scope: &str, body: &str, after: &str) -> Kernel {
        parsed(&format!(
            "kernel k(x: &Tensor<f32, (N,)>) {{
                let [bx] = blocks([N]);
                let [t] = threads([32]);
                let mut a = alloc_{scope}::<f32>([1]);
                for i in pipelined(0..N, 2) {{
                    {body}
                }}
                {after}
            }}"
        ))
    }

    const FILL: &str = "a[0] = x.masked([i]);";

    fn check(kernel: &Kernel, expected: Expect) {
        let mut all = Vec::new();
        super::check(kernel, &mut all);
        expected.assert_eq(&report(&all));
    }

    #[test]
    fn loads_that_lead() {
        let own = "let mut own = alloc_local::<f32>([1]); own[0] = x.masked([i]); let mut sum = own[0];";
        let kernel = looped("local", &format!("{FILL} {own}"), "");
        check(&kernel, expect![[""]]);
        let StmtKind::For { var, body, .. } = &kernel.stmts[*kernel.body.last().unwrap()].kind else { panic!() };
        let split = split(&kernel, *var, body);
        assert_eq!((split.loads, split.own, split.buffers.len()), (1, 3, 1));
    }

    #[test]
    fn loops_without_leading_loads() {
        let compute = "let mut sum = 1.0f32;";
        let kernel = looped("local", &format!("{compute} {FILL}"), "");
        check(
            &kernel,
            expect![[r#"
                [TK0804] `a` is filled from global memory among statements that compute
                  at: this is a load
                  label: the computing begins here: loads stand before it
                  help: a pipelined loop begins with statements that only load: fill the array in a loop of its own before the computing, or allocate it in the body if it is not to be loaded ahead
            "#]],
        );
        check(
            &looped("local", compute, ""),
            expect![[r#"
                [TK0804] the loop has no loads to issue ahead
                  label: its body begins with this
                  help: begin the body with statements that only fill arrays, allocated before the loop, from `&` tensors; or use `serial(a..b)`
            "#]],
        );
        check(&looped("shared", FILL, ""), expect![[""]]);
    }

    /// A copy whose row is an element of a shared array: legal behind a `let`, which the help says.
    #[test]
    fn a_coordinate_from_shared_memory() {
        let gathered = |body: &str| {
            parsed(&format!(
                "kernel k(w: &Tensor<f32, (N, K)>, rows: &Tensor<u32, (L,)>) {{
                    let [bx] = blocks([N]);
                    let [t] = threads([32]);
                    let mut table = alloc_shared::<u32>([32]);
                    let mut tile = alloc_shared::<f32>([1, 128]);
                    table[t] = rows.masked([t]);
                    sync_threads();
                    for i in pipelined(0..32, 2) {{
                        {body}
                    }}
                }}"
            ))
        };
        check(&gathered("let row: usize = table[i].cast::<usize>(); copy(w.at([row, 0]), &mut tile);"), expect![[""]]);
        check(
            &gathered("copy(w.at([table[i].cast::<usize>(), 0]), &mut tile);"),
            expect![[r#"
            [TK0804] the loop has no loads to issue ahead
              label: its body begins with this
              help: give what the coordinate reads from shared memory a name before the copy, by a let, and use the name there
        "#]],
        );
    }

    /// How often a loop among the loads goes round may be made of a specialised dim.
    #[test]
    fn loads_as_many_as_a_specialised_dim_says() {
        let kernel = looped("local", &format!("for u in unroll(0..N) {{ {FILL} }}"), "");
        let specialised = parsed(&format!("#[specialize(N, max = 4)]\n{kernel}"));
        check(&specialised, expect![[""]]);
        let mut all = Vec::new();
        super::check(&kernel, &mut all);
        assert!(!all.is_empty(), "without `specialize` the number of loads is not known");
    }

    #[test]
    fn arrays_of_the_loads_are_theirs() {
        let store = "a[0] = 1.0f32;";
        check(
            &looped("local", &format!("{FILL} {store}"), ""),
            expect![[r#"
                [TK0804] `a` holds loads that are issued ahead: only they may write it
                  label: the pipelined loop
                  help: compute into another array
            "#]],
        );
        check(
            &looped("local", FILL, store),
            expect![[r#"
                [TK0804] `a` is filled by a pipelined loop and used outside of it
                  label: the pipelined loop
                  help: use another array here: between iterations the loop keeps several copies of it
            "#]],
        );
    }
}
