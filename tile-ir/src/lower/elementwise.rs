//! `for [i, j] in parallel([m, n])` over a fragment: every thread its own elements, some at a time.
//!
//! A thread may hold a hundred elements. Were the body written out for all of them at once, the assembler would begin the
//! loads of all of them first and spill what they displace; so elements go in chunks, and nothing moves from one into
//! the next. Within a chunk the body is lowered a statement at a time, where its statements allow it: an `if` whose
//! condition is the same for all elements is then one branch a chunk, not one an element.

use super::fragment::Registers;
use super::uses::{accesses, declared, depends, loaded, statements};
use super::*;
use crate::ir::parts::roots;
use crate::layout::Fragment;

/// Most elements of a chunk: as many loads may be in flight.
const CHUNK: u32 = 16;

/// The chunk being lowered.
struct Chunk<'a> {
    layout: Fragment,
    /// Row and column.
    vars: &'a [VarId],
    /// The whole body.
    body: &'a [StmtId],
    /// `vars`, and the variables that the body declares: what may differ from element to element.
    own: BTreeSet<VarId>,
    /// The first register of the chunk.
    first: ValueId,
    /// Elements of the chunk.
    count: u32,
}

impl<'a> Lowering<'a> {
    /// The fragment that a `parallel` loop works on: any whose elements its body accesses, a tile rather than its rows.
    pub(super) fn fragment_of(&self, body: &[StmtId]) -> Option<BufferId> {
        let fragment = |access: AccessId| self.fragment_at(self.kernel.accesses[access].place);
        let all: Vec<BufferId> = accesses(self.kernel, body).into_iter().filter_map(fragment).collect();
        let tile = all.iter().find(|buffer| self.kernel.buffers[**buffer].extents.len() > 1);
        tile.or(all.first()).copied()
    }

    /// `for [i, j] in parallel([m, n])` over a fragment.
    pub(super) fn parallel_fragment(&mut self, fragment: BufferId, vars: &'a [VarId], body: &'a [StmtId]) {
        let kernel = self.kernel;
        let Some(Registers { layout, kept, .. }) = self.held_in(fragment) else { return };
        if let (Some(axis), [var]) = (kept, vars) {
            return self.parallel_slots(&layout, axis, *var, body);
        }
        let registers = layout.held_registers();
        let count = (1..=CHUNK).rev().find(|n| registers.is_multiple_of(*n)).unwrap_or(1);
        let mut own: BTreeSet<VarId> = vars.iter().copied().collect();
        own.extend(statements(kernel, body).into_iter().filter_map(|stmt| declared(kernel, stmt)));
        let chunk = Chunk { layout, vars, body, own, first: self.int(0), count };
        let marked = self.stores_beyond_registers(body);
        if let Some(cond) = self.row_condition(vars, body).filter(|_| !marked && layout.is_whole()) {
            let some = self.some_row(&layout, cond);
            return self.when(some, |l| l.chunks(chunk));
        }
        self.mark(marked, Elements::Begin);
        self.chunks(chunk);
        self.mark(marked, Elements::End);
    }

    /// The body for four elements from register `first` on, of a fragment of whose elements each can be lowered by itself.
    pub(super) fn four_elements(&mut self, layout: Fragment, vars: &'a [VarId], body: &'a [StmtId], first: u32) {
        let own = vars.iter().copied().collect();
        let chunk = Chunk { layout, vars, body, own, first: self.int(first.into()), count: 4 };
        self.element_wise(&chunk, body);
    }

    /// Whether a body only stores to a fragment, of what fragments hold: its elements may be lowered in any order.
    pub(super) fn only_stores_to(&self, body: &[StmtId], fragment: BufferId) -> bool {
        let kernel = self.kernel;
        let place = |access: AccessId| kernel.accesses[access].place;
        let is_store = |stmt: &StmtId| matches!(kernel.stmts[*stmt].kind, StmtKind::Store { access, .. } if place(access) == Place::Buffer(fragment));
        body.iter().all(is_store)
            && accesses(kernel, body).into_iter().all(|access| self.fragment_at(place(access)).is_some())
    }

    /// The body for all elements, chunk by chunk.
    fn chunks(&mut self, chunk: Chunk<'a>) {
        let Chunk { layout, body, count, .. } = chunk;
        let (apart, registers) = (self.is_statement_wise(body, &chunk.own), layout.held_registers());
        self.where_held(&layout, |l| {
            l.unrolled("chunk", registers / count, |l, number| {
                let chunk = Chunk { first: l.eval(number * count), ..chunk };
                match apart {
                    true => l.statement_wise(&chunk, body),
                    false => l.element_wise(&chunk, body),
                }
                if registers > count {
                    l.op(OpKind::Order);
                }
            });
        });
    }

    /// The condition of a body that is one `if` without `else`, where it depends on what fragments of one axis hold of a row, and on
    /// nothing that differs within a row.
    fn row_condition(&self, vars: &[VarId], body: &[StmtId]) -> Option<ExprId> {
        let kernel = self.kernel;
        let (&[stmt], &[row, _]) = (body, vars) else { return None };
        let StmtKind::If { cond, otherwise, .. } = &kernel.stmts[stmt].kind else { return None };
        let (mut of_row, mut loads) = (otherwise.is_empty(), false);
        let mut left = vec![*cond];
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                ExprKind::Load(access) => {
                    let access = &kernel.accesses[*access];
                    let is_rows = |buffer: BufferId| self.fragments[buffer].is_some_and(|held| held.kept == Some(0));
                    let index = access.indices.first().map(|index| &kernel.exprs[*index].kind);
                    of_row &= matches!(access.place, Place::Buffer(buffer) if is_rows(buffer))
                        && matches!(index, Some(ExprKind::Var(var)) if *var == row);
                    loads = true;
                }
                ExprKind::Var(_) | ExprKind::Math(..) | ExprKind::Select(..) | ExprKind::If(..) => of_row = false,
                kind => kind.operands(kernel, &mut |operand| left.push(operand)),
            }
        }
        (of_row && loads).then_some(*cond)
    }

    /// Whether a condition on rows holds for any row of the warp: where it holds for none, the warp branches over the elements.
    fn some_row(&mut self, layout: &Fragment, cond: ExprId) -> ValueId {
        let no = self.push(ValueKind::Int(0), ValueType::BOOL);
        let own = self.variable("own_row", ValueType::BOOL, no);
        self.unrolled("i", layout.slots(0), |l, slot| {
            let register = l.representative(layout, 0, slot);
            let element = Element { register: Some((register, *layout)), ..l.element };
            let holds = l.at_element(element, |l| l.value(cond));
            l.set(own, Term::binary(BinaryOp::Or, own, holds));
        });
        let (reg, pred) = (self.reg("some_row", ValueType::BOOL, false), self.read(own));
        self.op(OpKind::Vote { reg, kind: VoteKind::Any, pred });
        self.read(reg)
    }

    /// Whether doing every statement for all elements is the same as doing all statements for every element: elements
    /// meet in nothing but what they read.
    fn is_statement_wise(&self, body: &[StmtId], own: &BTreeSet<VarId>) -> bool {
        let kernel = self.kernel;
        let is_local = |access: AccessId| kernel.scope_of(kernel.accesses[access].place) == Some(Scope::Local);
        let is_apart = |stmt: StmtId| {
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::Let { var, value } = kind {
                // An index is inlined where it is used.
                kernel.vars[*var].ty != Type::Index
                    || kernel.vars[*var].kind != VarKind::Mut && value.is_some_and(|value| !self.loads(value))
            } else if let StmtKind::Assign { var, .. } = kind {
                own.contains(var)
            } else {
                matches!(kind, StmtKind::Store { .. } | StmtKind::If { .. })
            }
        };
        !accesses(kernel, body).into_iter().any(is_local) && statements(kernel, body).into_iter().all(is_apart)
    }

    pub(super) fn loads(&self, expr: ExprId) -> bool {
        !loaded(self.kernel, expr).is_empty()
    }

    /// Whether a condition is the same for all elements: it loads nothing and mentions no variable of `own`.
    fn is_uniform(&self, cond: ExprId, own: &BTreeSet<VarId>) -> bool {
        !self.loads(cond) && !depends(self.kernel, cond).iter().any(|var| own.contains(var))
    }

    /// A statement for all elements, then the next; those between two branches together.
    fn statement_wise(&mut self, chunk: &Chunk<'a>, body: &'a [StmtId]) {
        let kernel = self.kernel;
        let mut run = Vec::new();
        for &stmt in body {
            let kind = &kernel.stmts[stmt].kind;
            if let StmtKind::Let { var, value: Some(value) } = kind
                && kernel.vars[*var].ty == Type::Index
            {
                self.vars[*var] = Some(Binding::Inline(*value));
            } else if let StmtKind::If { cond, then, otherwise } = kind
                && self.is_uniform(*cond, &chunk.own)
            {
                self.run_of_statements(chunk, std::mem::take(&mut run));
                self.span = kernel.stmts[stmt].span;
                let cond = self.value(*cond);
                self.either(cond, |l| l.statement_wise(chunk, then), |l| l.statement_wise(chunk, otherwise));
            } else {
                run.push(stmt);
            }
        }
        self.run_of_statements(chunk, run);
    }

    /// Statements for all elements. What they declare for others is an array of an element each.
    fn run_of_statements(&mut self, chunk: &Chunk<'a>, run: Vec<StmtId>) {
        let kernel = self.kernel;
        if run.is_empty() {
            return;
        }
        let mut elsewhere: BTreeSet<VarId> = BTreeSet::new();
        for stmt in statements(kernel, chunk.body).into_iter().filter(|stmt| !run.contains(stmt)) {
            elsewhere.extend(kernel.stmts[stmt].kind.sets());
            elsewhere.extend(roots(kernel, stmt).into_iter().flat_map(|root| depends(kernel, root)));
        }
        for &stmt in &run {
            if let Some(var) = declared(kernel, stmt).filter(|var| elsewhere.contains(var))
                && let Some(dtype) = kernel.vars[var].ty.dtype()
            {
                let local = self.local(&kernel.vars[var].name, dtype, chunk.count);
                self.vars[var] = Some(Binding::PerElement(local));
            }
        }
        self.element_wise(chunk, &run);
    }

    /// Statements for an element, then for the next.
    fn element_wise(&mut self, chunk: &Chunk<'a>, run: &[StmtId]) {
        let read = self.read_beside_fragments(run);
        let marked = self.stores_beyond_registers(chunk.body);
        self.unrolled("i", chunk.count, |l, element| {
            let held = l.binary(BinaryOp::Add, chunk.first, element);
            let register = l.formula([held], |[held]| chunk.layout.held(held));
            l.mark(marked, Elements::At(held));
            let position = l.element_position(&chunk.layout, register);
            for (&var, value) in chunk.vars.iter().zip(position).filter(|(var, _)| read.contains(var)) {
                let reg = l.variable_reg(var);
                l.define(reg, value);
            }
            let register = Some((register, chunk.layout));
            let element = Element { position: Some(element), register, ..l.element };
            l.at_element(element, |l| l.block(run));
        });
    }

    /// The variables that statements read otherwise than to name an element of a fragment, which needs none.
    fn read_beside_fragments(&self, body: &[StmtId]) -> BTreeSet<VarId> {
        let kernel = self.kernel;
        let mut left: Vec<ExprId> = Vec::new();
        for stmt in statements(kernel, body) {
            if let StmtKind::Store { access, value } = &kernel.stmts[stmt].kind {
                left.push(*value);
                left.extend(self.named_indices(*access));
            } else {
                left.extend(roots(kernel, stmt));
            }
        }
        let mut read = BTreeSet::new();
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                ExprKind::Var(var) => {
                    read.insert(*var);
                    if let Some(Binding::Inline(value)) = self.vars[*var] {
                        left.push(value);
                    }
                }
                ExprKind::Load(access) => left.extend(self.named_indices(*access)),
                kind => kind.operands(kernel, &mut |operand| left.push(operand)),
            }
        }
        read
    }

    /// The indices of an access; none of a fragment's, nor of what is held in registers.
    fn named_indices(&self, access: AccessId) -> Vec<ExprId> {
        let Access { place, indices, .. } = &self.kernel.accesses[access];
        let is_register = place.buffer().is_some_and(|buffer| self.fragments[buffer].is_some());
        if is_register || self.held_access(access).is_some() { Vec::new() } else { indices.clone() }
    }
}
