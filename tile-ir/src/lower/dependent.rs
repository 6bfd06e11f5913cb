//! Dependent launch: where a kernel that may start early waits for the previous one.
//!
//! What holds afterwards, on every path of every thread: the wait comes before the first access to a tensor that is not
//! independent (and before any write), and dependents are launched right after a wait, or first of all where the kernel says
//! `trigger = AtStart`. A thread that touches no such tensor waits too, at its end: a kernel that is done has waited, so everything before it is done.
//!
//! The wait goes as far down as it can without leaving its place in the program's order: loads of independent tensors
//! that stand before the first dependent access are issued above it. Where that access is in a loop which reads
//! independent tensors first, and nothing independent was read before the loop, the loop's first iteration is written
//! out before the loop, so that its loads are above the wait and the other iterations do not wait:
//!
//! ```text
//! for i in a..b { w; x }   becomes   if a < b { w(a); wait; x(a); for i in a + 1..b { w; x } } else { wait }
//! ```
//!
//! A pipelined loop has its first loads before it, so the wait stands between them and the loop; where the first dependent access comes
//! before the loop, asynchronous ones are moved above the wait ([`prefetch`](super::prefetch)). Partitions wait each for
//! itself, where [`hopper`](super::hopper) puts it.
//!
//! Loads of all tensors are ordered with the wait from then on ([`TensorInfo::ordered`]).

use super::builder::Builder;
use super::schedule::listed;
use crate::diag::Diagnostic;
use crate::ir::{AccessMode, BinaryOp, SpanId, Trigger};
use crate::lowered::*;

/// The program with its waits.
///
/// In: a program whose `launch.dependent` says whether it may start early, and which has no waits but those of partitions, which have
/// placed their own. Out: what this module's contract says.
///
/// # Errors
/// A mistake of the compiler.
pub fn dependent(mut program: Program) -> Result<Program, Vec<Diagnostic>> {
    let Some(trigger) = program.launch.dependent else { return Ok(program) };
    program.tensors.iter_mut().for_each(|tensor| tensor.ordered = true);
    Builder::rewrite(program, |builder, ops| {
        let waits = visit::any(&ops, &|kind| matches!(kind, OpKind::Wait));
        let ops = if waits { ops } else { builder.waiting(ops, trigger) };
        let start = Op { kind: OpKind::LaunchDependents, span: SpanId::from_u32(0) };
        (trigger == Trigger::AtStart).then_some(start).into_iter().chain(ops).collect()
    })
}

impl Builder {
    /// The operations with waits, of which a remark tells.
    fn waiting(&mut self, ops: Vec<Op>, trigger: Trigger) -> Vec<Op> {
        let first = self.first_dependent(&ops);
        let hoisted = self.hoists(&ops);
        let (name, span) = first.unwrap_or_else(|| ("the end".into(), SpanId::from_u32(0)));
        let independent = self.program.tensors.iter().filter(|tensor| tensor.independent);
        let independent = listed(independent.map(|tensor| format!("`{}`", tensor.name)));
        let above = match (hoisted, independent.is_empty()) {
            (true, _) => format!("the first loads of {independent} are issued above it"),
            (false, true) => "no tensor is independent, so only the start of the launch overlaps".into(),
            (false, false) => format!("no load of {independent} stands before it"),
        };
        self.remark(RemarkKind::Choice, span, format!("the previous kernel is waited for before {name}: {above}"));
        self.with_waits(ops, false, trigger)
    }

    /// `ops` with waits: afterwards every path has waited. `above`: whether independent loads stand before.
    fn with_waits(&mut self, mut ops: Vec<Op>, mut above: bool, trigger: Trigger) -> Vec<Op> {
        let Some(at) = ops.iter().position(|op| self.depends(op)) else {
            let span = ops.last().map_or(self.span, |op| op.span);
            ops.extend(wait(span, trigger));
            return ops;
        };
        above |= self.read_ahead(&ops[..at]);
        let rest = ops.split_off(at + 1);
        let Some(mut op) = ops.pop() else { return rest };
        let span = op.span;
        if let OpKind::If { cond, then, otherwise } = &mut op.kind
            && !self.value_depends(*cond)
            && (self.hoists(then) || self.hoists(otherwise))
        {
            *then = self.with_waits(std::mem::take(then), above, trigger);
            *otherwise = self.with_waits(std::mem::take(otherwise), above, trigger);
            ops.push(op);
        } else if let OpKind::For { reg, start, end, step, unroll, body } = &mut op.kind
            && !above
            && !is_left(*reg, body)
            && self.hoists(body)
            && ![*start, *end, *step].iter().any(|v| self.value_depends(*v))
        {
            self.span = span;
            ops.extend(self.first_iteration(*reg, [*start, *end, *step], *unroll, std::mem::take(body), trigger));
        } else {
            let behind: Vec<Op> = std::iter::once(op).chain(rest).collect();
            let (early, mut behind) = self.prefetch(&ops, behind, false);
            if early.is_empty() {
                behind = self.copies_first(&ops, behind);
            }
            ops.extend(early);
            ops.extend(wait(span, trigger));
            ops.extend(behind);
            return ops;
        }
        ops.extend(rest);
        ops
    }

    /// A loop whose first iteration, which waits, is written out.
    fn first_iteration(
        &mut self,
        reg: RegId,
        bounds: [ValueId; 3],
        unroll: Unroll,
        body: Vec<Op>,
        trigger: Trigger,
    ) -> Vec<Op> {
        let name = self.program.regs[reg].name.clone();
        let span = self.span;
        self.nested(|l| {
            let [start, end, step] = bounds;
            let [start, end, step] = [("start", start), ("end", end), ("step", step)]
                .map(|(bound, value)| l.once(&format!("{name}_{bound}"), value));
            let inside = l.binary(BinaryOp::Lt, start, end);
            let then = l.nested(|l| {
                l.define(reg, start);
                let first = l.with_waits(body.clone(), false, trigger);
                l.ops.extend(first);
                l.span = span;
                let second = l.binary(BinaryOp::Add, start, step);
                l.op(OpKind::For { reg, start: second, end, step, unroll, body });
            });
            l.op(OpKind::If { cond: inside, then, otherwise: wait(span, trigger) });
        })
    }

    /// Whether independent loads would stand above the wait that `ops` get.
    fn hoists(&self, ops: &[Op]) -> bool {
        let at = ops.iter().position(|op| self.depends(op));
        let (before, first) = ops.split_at(at.unwrap_or(ops.len()));
        self.read_ahead(before)
            || first.first().is_some_and(|op| op.kind.bodies().into_iter().any(|body| self.hoists(body)))
    }

    /// The tensor of the first dependent access, in words, and where it stands.
    fn first_dependent(&self, ops: &[Op]) -> Option<(String, SpanId)> {
        let op = ops.iter().find(|op| self.depends(op))?;
        let touched = |memory: &Memory| {
            let tensor = self.program.tensor(memory.space)?;
            Some((format!("`{}` is touched", tensor.name), memory.span))
        };
        let inner = op.kind.bodies().into_iter().find_map(|body| self.first_dependent(body));
        let own = inner.or_else(|| op.kind.memories().into_iter().find_map(touched));
        Some(own.unwrap_or_else(|| ("the first other tensor is touched".into(), op.span)))
    }

    /// Whether operations read an independent tensor.
    fn read_ahead(&self, ops: &[Op]) -> bool {
        visit::all_accesses(&self.program, ops).into_iter().any(|(space, access)| self.is_ahead(space, access))
    }

    /// Whether an operation, or one in it, accesses any other tensor, or writes one.
    fn depends(&self, op: &Op) -> bool {
        let accesses = visit::all_accesses(&self.program, std::slice::from_ref(op)).into_iter();
        accesses
            .filter(|(space, _)| self.program.tensor(*space).is_some())
            .any(|(space, access)| !self.is_ahead(space, access))
    }

    /// Whether a value is made of what any other tensor holds.
    fn value_depends(&self, id: ValueId) -> bool {
        let mut tensors =
            visit::loads(&self.program, id).into_iter().filter_map(|memory| self.program.tensor(memory.space));
        tensors.any(|tensor| !tensor.independent)
    }

    fn is_ahead(&self, space: Space, access: AccessMode) -> bool {
        access == AccessMode::Read && self.program.tensor(space).is_some_and(|tensor| tensor.independent)
    }
}

/// The wait, and what may follow it at once.
pub(super) fn wait(span: SpanId, trigger: Trigger) -> Vec<Op> {
    match trigger {
        Trigger::AfterWait => vec![OpKind::Wait, OpKind::LaunchDependents],
        Trigger::AtStart => vec![OpKind::Wait],
    }
    .into_iter()
    .map(|kind| Op { kind, span })
    .collect()
}

/// Whether a loop ends early: its body sets its index, which a first iteration of its own would not.
fn is_left(index: RegId, body: &[Op]) -> bool {
    visit::any(body, &|kind| matches!(kind, OpKind::Set { reg, .. } if *reg == index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Target;
    use crate::lower::lower_bound;
    use crate::testing::parsed;
    use expect_test::{Expect, expect};

    /// The operations of a kernel over `w: (N, K)`, which is independent, `x: (K,)` and `y: (N,)`, a thread a row.
    fn lowered(target: Target, attributes: &str, body: &str) -> Program {
        let bound = parsed(&format!(
            "#[pdl(independent = [w])] {attributes}
            kernel rows(w: &Tensor<f32, (N, K)>, x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (N,)>) {{
                let [block] = blocks([ceil_div(N, 32)]);
                let [thread] = threads([32]);
                let row = block * 32 + thread;
                {body}
            }}"
        ));
        lower_bound(&crate::testing::bound(&bound), target).unwrap_or_else(|d| panic!("{d:?}"))
    }

    /// The body is as expected, and obeys the rule on every shape: the checked simulator finds nothing.
    fn check(expected: Expect, body: &str) {
        let program = lowered(Target::Sm90a, "", body);
        let text = program.to_string();
        let body = text.split_once("body\n").map_or("", |(_, body)| body);
        // The body is indented; what is expected has no indentation in common.
        let body: String =
            body.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
        expected.assert_eq(&body);
        #[cfg(feature = "sim")]
        simulate(&program);
    }

    #[cfg(feature = "sim")]
    fn simulate(program: &Program) {
        use crate::sim::checked::{CheckedOptions, run};
        use crate::sim::{Argument, Memory, TensorArgument};
        for (n, k) in [(32, 0), (32, 1), (64, 2), (40, 5)] {
            let tensor = |shape: &[i64]| {
                let strides = if let [_, k] = shape { vec![*k, 1] } else { vec![1] };
                let memory = std::sync::Arc::new(Memory::zeros(4 * shape.iter().product::<i64>() as usize));
                let (dtype, shape) = (crate::ir::Dtype::F32, shape.to_vec());
                Argument::Tensor(TensorArgument { dtype, shape, strides, memory, offset: 0 })
            };
            let args = [tensor(&[n, k]), tensor(&[k]), tensor(&[n])];
            // What is looked at is who waits; some of these programs leave rows as they are.
            let options = CheckedOptions { whole_outputs: false, ..CheckedOptions::default() };
            let report = run(program, &args, &options).expect("arguments fit");
            assert!(report.is_clean(), "{n}x{k}:\n{}", report.render(program));
        }
    }

    #[test]
    fn what_stands_before_the_first_dependent_access_stays_above_the_wait() {
        check(
            expect![[r#"
                let block: index = block.x
                let thread: index = thread.x
                let row: index = block * 32 + thread
                let weight: f32 = (w[wide(row) * wide(w_stride)] if row < N && 0 < K)
                wait for the previous kernel
                launch dependents
                (y[row] if row < N) = weight * (x[row] if row < K)
        "#]],
            "let weight = w.masked([row, 0]);
            *y.masked_mut([row]) = weight * x.masked([row]);",
        );
    }

    #[test]
    fn the_first_iteration_of_a_loop_waits() {
        check(
            expect![[r#"
                let block: index = block.x
                let thread: index = thread.x
                let row: index = block * 32 + thread
                let mut sum: f32 = 0.0f32
                if 0 < K {
                    let i: index = 0
                    let weight: f32 = (w[wide(row) * wide(w_stride) + wide(i)] if row < N)
                    wait for the previous kernel
                    launch dependents
                    sum = fma(weight, x[i], sum)
                    for i: index in 1..K step 1 {
                        let weight: f32 = (w[wide(row) * wide(w_stride) + wide(i)] if row < N)
                        sum = fma(weight, x[i], sum)
                    }
                } else {
                    wait for the previous kernel
                    launch dependents
                }
                (y[row] if row < N) = sum
        "#]],
            "let mut sum = 0.0f32;
            for i in 0..K {
                let weight = w.masked([row, i]);
                sum = fma(weight, x[i], sum);
            }
            *y.masked_mut([row]) = sum;",
        );
    }

    #[test]
    fn a_loop_is_left_alone_where_loads_stand_before_it_or_none_would_be_hoisted() {
        check(
            expect![[r#"
                let block: index = block.x
                let thread: index = thread.x
                let row: index = block * 32 + thread
                let mut sum: f32 = (w[wide(row) * wide(w_stride)] if row < N && 0 < K)
                wait for the previous kernel
                launch dependents
                for i: index in 0..K step 1 {
                    let weight: f32 = (w[wide(row) * wide(w_stride) + wide(i)] if row < N)
                    sum = fma(weight, x[i], sum)
                }
                (y[row] if row < N) = sum
        "#]],
            "let mut sum = w.masked([row, 0]);
            for i in 0..K {
                let weight = w.masked([row, i]);
                sum = fma(weight, x[i], sum);
            }
            *y.masked_mut([row]) = sum;",
        );
        check(
            expect![[r#"
                let block: index = block.x
                let thread: index = thread.x
                let row: index = block * 32 + thread
                let mut sum: f32 = 0.0f32
                wait for the previous kernel
                launch dependents
                for i: index in 0..K step 1 {
                    let value: f32 = x[i]
                    sum = fma((w[wide(row) * wide(w_stride) + wide(i)] if row < N), value, sum)
                }
                (y[row] if row < N) = sum
        "#]],
            "let mut sum = 0.0f32;
            for i in 0..K {
                let value = x[i];
                sum = fma(w.masked([row, i]), value, sum);
            }
            *y.masked_mut([row]) = sum;",
        );
    }

    #[test]
    fn every_branch_waits() {
        check(
            expect![[r#"
                let block: index = block.x
                let thread: index = thread.x
                let row: index = block * 32 + thread
                if row < 35 {
                    let weight: f32 = (w[wide(row) * wide(w_stride)] if row < N && 0 < K)
                    wait for the previous kernel
                    launch dependents
                    (y[row] if row < N) = weight * (x[row] if row < K)
                } else {
                    wait for the previous kernel
                    launch dependents
                }
        "#]],
            "if row < 35 {
                let weight = w.masked([row, 0]);
                *y.masked_mut([row]) = weight * x.masked([row]);
            }",
        );
    }

    #[test]
    fn a_thread_that_touches_nothing_else_waits_at_its_end() {
        check(
            expect![[r#"
                let block: index = block.x
                let thread: index = thread.x
                let row: index = block * 32 + thread
                let weight: f32 = (w[wide(row) * wide(w_stride)] if row < N && 0 < K)
                wait for the previous kernel
                launch dependents
        "#]],
            "let weight = w.masked([row, 0]);",
        );
    }

    /// Asynchronous copies of an independent tensor into shared memory are loads like others: those of the first
    /// iterations are issued above the wait, those of a tensor that is not independent below it.
    #[test]
    fn the_first_asynchronous_copies_of_independent_tensors_stand_above_the_wait() {
        // Rows of any number of elements.
        let both = |dependent: bool| {
            let (copy, value) = match dependent {
                true => ("copy(x.at([c * 4]), &mut xs);", "xs[0]"),
                false => ("", "x.masked([c * 4])"),
            };
            let body = format!(
                "let mut ws = alloc_shared::<f32>([32, 4]);
                let mut xs = alloc_shared::<f32>([4]);
                let mut sum = 0.0f32;
                for c in pipelined(0..ceil_div(K, 4), 3) {{
                    copy(w.at([0, c * 4]), &mut ws);
                    {copy}
                    sum = fma(ws[[0, 0]], {value}, sum);
                }}
                *y.masked_mut([row]) = sum;"
            );
            lowered(Target::Sm90a, "#[aligned(reads = 4, writes = 16)]", &body)
        };
        for dependent in [false, true] {
            let program = both(dependent);
            let text = program.to_string();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let at =
                |what: &str| lines.iter().position(|l| l.contains(what)).unwrap_or_else(|| panic!("{what}:\n{text}"));
            let wait = at("wait for the previous kernel");
            let copies = |tensor: &str| -> Vec<usize> {
                let of = |l: &&str| l.contains("async") && l.contains(&format!("{tensor}["));
                lines.iter().enumerate().filter(|(_, l)| of(l)).map(|(i, _)| i).collect()
            };
            let above = copies("w").iter().filter(|i| **i < wait).count();
            // Two of three stages are loaded ahead; x of the first is what the wait stands before.
            assert_eq!(above, if dependent { 1 } else { 2 }, "{text}");
            assert!(copies("x").iter().all(|i| *i > wait) && copies("x").is_empty() != dependent, "{text}");
            #[cfg(feature = "sim")]
            simulate(&program);
        }
    }

    #[test]
    fn an_older_target_does_not_wait_and_says_so() {
        let program = lowered(Target::Sm80, "", "*y.masked_mut([row]) = w.masked([row, 0]);");
        assert!(!program.to_string().contains("wait") && program.launch.dependent.is_none());
        assert!(program.remarks.iter().any(|r| r.text == "sm_80 has no dependent launch: `pdl` has no effect"));
    }
}
