//! Steps that are masked: the last ones of a loop of products, peeled off it.
//!
//! Contract. In: a loop of products by `wgmma`, with an `if` between them that works on the elements of fragments and whose condition,
//! once it holds, holds in every later iteration: `step * c + d > bound`, where all threads of a block have the same bound ([`Alike`]) and the loop does
//! not change it, as the masks of attention have it. Out: the iterations before the first in which it holds, in a loop without the `if`, and
//! the others in a second loop, without the condition:
//!
//! ```text
//! for i in a..b { w; if i * c + d > n { x }; y }   becomes   for i in a..first { w; y }   for i in first..b { w; x; y }
//! ```
//!
//! What the loop declares for the bound, of values that it does not change, is declared before the two loops.
//!
//! A branch between products keeps ptxas from moving their work across it (decisions 43 and 56).

use super::alike::Alike;
use super::builder::Builder;
use super::term::{Compare, Term};
use crate::diag::Diagnostic;
use crate::ir::BinaryOp;
use crate::lowered::*;
use std::collections::BTreeSet;

/// The program, whose loops of products are split where an `if` begins to hold.
///
/// # Errors
/// A mistake of the compiler.
pub fn peel(program: Program) -> Result<Program, Vec<Diagnostic>> {
    match multiplies(&program.body) {
        true => {
            let alike = Alike::of(&program);
            Builder::rewrite(program, |l, ops| l.peeled(ops, &alike))
        }
        false => Ok(program),
    }
}

/// Whether operations multiply tiles by `wgmma`.
fn multiplies(ops: &[Op]) -> bool {
    visit::any(ops, &|kind| matches!(kind, OpKind::Wgmma { .. }))
}

/// Whether operations are loops over elements, without a barrier or a product.
fn works_on_elements(ops: &[Op]) -> bool {
    visit::any(ops, &|kind| matches!(kind, OpKind::For { .. })) && !visit::any(ops, &|kind| kind.protocol().is_some())
}

impl Builder {
    /// The operations, of which each loop that can be is two.
    fn peeled(&mut self, ops: Vec<Op>, alike: &Alike) -> Vec<Op> {
        let mut all = Vec::with_capacity(ops.len());
        for mut op in ops {
            self.span = op.span;
            if let Some(loops) = self.two_loops(&op.kind, alike) {
                all.extend(loops);
                continue;
            }
            for body in op.kind.bodies_mut() {
                *body = self.peeled(std::mem::take(body), alike);
            }
            all.push(op);
        }
        all
    }

    /// A loop as two, behind what says where the second one begins; `None` where it stays one.
    fn two_loops(&mut self, kind: &OpKind, alike: &Alike) -> Option<Vec<Op>> {
        let OpKind::For { reg, start, end, step, unroll, body } = kind else { return None };
        // A bound in 64 bits need not fit the register that holds where the second loop begins.
        let is_narrow = [start, end].iter().all(|bound| self.program.values[**bound].ty == ValueType::Index);
        if self.program.values[*step].kind.as_int() != Some(1) || !is_narrow || !multiplies(body) {
            return None;
        }
        let (at, from, moved) = body.iter().enumerate().find_map(|(at, op)| {
            let OpKind::If { cond, then, otherwise } = &op.kind else { return None };
            let is_mask = otherwise.is_empty() && works_on_elements(then);
            let from = self.holds_from(*cond, *reg).filter(|_| is_mask)?;
            let moved = self.declared_for(from.bound, *reg, body, alike)?;
            Some((at, from, moved))
        })?;
        let kept = |(at, op): (usize, &Op)| (!moved.contains(&at)).then(|| op.clone());
        let [before, behind] = [0..at, at + 1..body.len()]
            .map(|range| body.iter().enumerate().skip(range.start).take(range.len()).filter_map(kept));
        let Op { kind: OpKind::If { then, .. }, span } = body[at].clone() else { return None };
        let without = before.clone().chain(behind.clone()).collect();
        let masked = before.chain(then).chain(behind).collect();
        let declared = moved.iter().map(|at| body[*at].clone());
        let text = "the steps before the first that needs this are a loop of their own, without it";
        self.remark(RemarkKind::Choice, span, text.to_owned());
        Some(self.nested(|l| {
            l.ops.extend(declared);
            let name = format!("{}_masked", l.program.regs[*reg].name);
            let first = l.first(&from);
            let within = Term::binary(BinaryOp::Max, first, *start);
            let first = l.once(&name, Term::binary(BinaryOp::Min, within, *end));
            let (reg, step, unroll) = (*reg, *step, *unroll);
            l.op(OpKind::For { reg, start: *start, end: first, step, unroll, body: without });
            l.op(OpKind::For { reg, start: first, end: *end, step, unroll, body: masked });
        }))
    }

    /// From where on a condition holds, of the index `reg` of a loop and of a bound; `None` where it is of another kind.
    fn holds_from(&self, cond: ValueId, reg: RegId) -> Option<Threshold> {
        let ValueKind::Binary(op, a, b) = self.program.values[cond].kind else { return None };
        let (index, bound, is_above) = match op {
            BinaryOp::Gt => (a, b, true),
            BinaryOp::Ge => (a, b, false),
            BinaryOp::Lt => (b, a, true),
            BinaryOp::Le => (b, a, false),
            _ => return None,
        };
        let (scale, offset) = self.multiple(index, reg)?;
        let least = offset.checked_add(i64::from(!is_above))?;
        let is_small = |number: i64| (0..1 << 20).contains(&number);
        let fits = scale >= 2 && is_small(scale) && is_small(least);
        let is_index = self.program.values[bound].ty == ValueType::Index;
        (fits && is_index).then_some(Threshold { bound, scale, least })
    }

    /// `(c, d)` of a value that is `c * reg + d`, in 32 bits.
    fn multiple(&self, value: ValueId, reg: RegId) -> Option<(i64, i64)> {
        let value = &self.program.values[value];
        if value.ty != ValueType::Index {
            return None;
        }
        match value.kind {
            ValueKind::Int(number) => Some((0, number)),
            ValueKind::Reg(of) => (of == reg).then_some((1, 0)),
            ValueKind::Binary(BinaryOp::Add, a, b) => {
                let [(c, d), (e, f)] = [self.multiple(a, reg)?, self.multiple(b, reg)?];
                Some((c.checked_add(e)?, d.checked_add(f)?))
            }
            ValueKind::Binary(BinaryOp::Mul, a, b) => {
                let ((c, d), by) = (self.multiple(a, reg)?, self.program.values[b].kind.as_int()?);
                Some((c.checked_mul(by)?, d.checked_mul(by)?))
            }
            _ => None,
        }
    }

    /// Where a loop's body declares what a value is made of, if all threads of a block hold that value alike and the loop does not change it. A division by what may be 0
    /// is left where it is.
    fn declared_for(&self, value: ValueId, index: RegId, body: &[Op], alike: &Alike) -> Option<BTreeSet<usize>> {
        let is_set = |reg: RegId| {
            visit::any(body, &|kind| kind.parts().iter().any(|part| matches!(part, Part::Sets(r) if **r == reg)))
        };
        let divides = |value: &Value| match value.kind {
            ValueKind::Binary(BinaryOp::Div | BinaryOp::Rem | BinaryOp::CeilDiv, _, by) => {
                self.program.values[by].kind.as_int().is_none_or(|by| by == 0)
            }
            _ => false,
        };
        let (mut moved, mut wanted) = (BTreeSet::new(), vec![value]);
        let mut left = vec![value];
        while let Some(value) = left.pop() {
            for part in visit::values(&self.program, value) {
                let ValueKind::Reg(of) = part.kind else { continue };
                let declares = |op: &Op| matches!(op.kind, OpKind::Let { reg, .. } if reg == of);
                let Some(at) = body.iter().position(declares).filter(|at| !moved.contains(at)) else { continue };
                let OpKind::Let { value: Some(value), .. } = body[at].kind else { return None };
                if is_set(of) || visit::values(&self.program, value).into_iter().any(divides) {
                    return None;
                }
                moved.insert(at);
                wanted.push(value);
                left.push(value);
            }
        }
        let rest: Vec<Op> =
            body.iter().enumerate().filter(|(at, _)| !moved.contains(at)).map(|(_, op)| op.clone()).collect();
        wanted.into_iter().all(|value| self.is_kept(value, index, &rest, alike)).then_some(moved)
    }

    /// Whether all threads of a block hold a value alike, and the same one in every iteration of the loop over `index`: it reads no memory, and no
    /// register that the loop changes or declares.
    fn is_kept(&self, value: ValueId, index: RegId, body: &[Op], alike: &Alike) -> bool {
        let sets = |reg: RegId| move |part: &Part<'_>| matches!(part, Part::Declares(r) | Part::Sets(r) if **r == reg);
        let changed = |reg: RegId| reg == index || visit::any(body, &|kind| kind.parts().iter().any(sets(reg)));
        let is_kept = |value: &Value| match value.kind {
            ValueKind::Load(_) => false,
            ValueKind::Reg(reg) => !changed(reg),
            _ => true,
        };
        alike.is_alike(&self.program, value) && visit::values(&self.program, value).into_iter().all(is_kept)
    }

    /// The first index, counted from 0, from which on a condition holds.
    fn first(&mut self, Threshold { bound, scale, least }: &Threshold) -> ValueId {
        let (bound, least) = (*bound, *least);
        let beyond = (Term::from(bound) - least) / *scale + 1;
        let [always, beyond, zero] = [bound.below(least), beyond, Term::from(0)].map(|term| self.eval(term));
        self.push(ValueKind::Choose(always, zero, beyond), ValueType::Index)
    }
}

/// A condition `scale * i + d > bound`, of which `least` is `d`, or `scale * i + d >= bound`, of which it is `d + 1`: it holds from index
/// `(bound - least) / scale + 1` on, and from 0 on where `bound < least`.
struct Threshold {
    bound: ValueId,
    scale: i64,
    least: i64,
}
