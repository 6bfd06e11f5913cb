//! `for [i, j] in parallel([m, n])` over a fragment: every thread its own elements, some at a time.
//!
//! A thread may hold a hundred elements. Were the body written out for all of them at once, the assembler would begin the
//! loads of all of them first and spill what they displace; so elements go in chunks, and nothing moves from one into
//! the next. Within a chunk the body is lowered a statement at a time, where its statements allow it: an `if` whose
//! condition is the same for all elements is then one branch a chunk, not one an element. Such a body has larger chunks,
//! in which only the statements that access memory go some elements at a time.

use super::fragment::Registers;
use super::lines::{Line, piece_of};
use super::uses::{accesses, declared, depends, loaded, statements};
use super::*;
use crate::ir::parts::roots;
use crate::layout::Fragment;

/// Most elements that access memory side by side: as many loads may be in flight.
const CHUNK: u32 = 16;

/// Most elements of a chunk of a body that has branches or lines, each of which is executed once a chunk, where consumers have registers
/// of their own; the second number where a thread has more elements than `LARGE`: with what lines and values take, 64 of 192 accumulators spill.
/// Where all threads do the same, registers decide how many blocks a multiprocessor holds: such a loop has neither.
const WIDE_CHUNKS: [u32; 2] = [64, 32];
const LARGE: u32 = 128;

/// The chunk being lowered.
pub(super) struct Chunk<'a> {
    pub(super) layout: Fragment,
    /// Row and column.
    pub(super) vars: &'a [VarId],
    /// The whole body.
    pub(super) body: &'a [StmtId],
    /// `vars`, and the variables that the body declares: what may differ from element to element.
    pub(super) own: BTreeSet<VarId>,
    /// The first register of the chunk.
    first: ValueId,
    /// Elements of the chunk.
    count: u32,
    /// The chunk as a tile, if its elements are not those of `count` registers that follow one another.
    pub(super) piece: Option<Fragment>,
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
        let mut own: BTreeSet<VarId> = vars.iter().copied().collect();
        own.extend(statements(kernel, body).into_iter().filter_map(|stmt| declared(kernel, stmt)));
        let chunk = self.chunk(layout, vars, body, own);
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
        let chunk = Chunk { layout, vars, body, own, first: self.int(first.into()), count: 4, piece: None };
        self.element_wise(&chunk, body);
    }

    /// The first chunk of a loop, as large as its body allows.
    fn chunk(&mut self, layout: Fragment, vars: &'a [VarId], body: &'a [StmtId], own: BTreeSet<VarId>) -> Chunk<'a> {
        let registers = layout.held_registers();
        let largest = |most: u32| (1..=most).rev().find(|n| registers.is_multiple_of(*n)).unwrap_or(1);
        let chunk = Chunk { layout, vars, body, own, first: self.int(0), count: largest(CHUNK), piece: None };
        if self.roles.is_none() || !self.is_statement_wise(body, &chunk.own) {
            return chunk;
        }
        let (mut lines, mut branches) = (Vec::new(), false);
        self.lines_and_branches(&chunk, body, &mut lines, &mut branches);
        let wide = WIDE_CHUNKS[usize::from(registers > LARGE)];
        match piece_of(&layout, &lines, wide).filter(|_| !lines.is_empty()) {
            Some(piece) => Chunk { count: piece.registers(), piece: Some(piece), ..chunk },
            None if branches => Chunk { count: largest(wide), ..chunk },
            None => chunk,
        }
    }

    /// What of a body that is lowered a statement at a time is executed once for several elements.
    fn lines_and_branches(&self, chunk: &Chunk<'a>, body: &[StmtId], lines: &mut Vec<Line>, branches: &mut bool) {
        for &stmt in body {
            if let StmtKind::If { cond, then, otherwise } = &self.kernel.stmts[stmt].kind
                && self.is_uniform(*cond, &chunk.own)
            {
                *branches = true;
                self.lines_and_branches(chunk, then, lines, branches);
                self.lines_and_branches(chunk, otherwise, lines, branches);
            } else {
                lines.extend(self.lines(chunk, &[stmt]));
            }
        }
    }

    /// The register of an element of a chunk.
    pub(super) fn chunk_register(&mut self, chunk: &Chunk<'a>, element: ValueId) -> ValueId {
        let Chunk { layout, first, piece, .. } = chunk;
        let element = match piece {
            Some(piece) => self.formula([element], |[element]| layout.in_piece(piece, element)),
            None => element,
        };
        let held = self.binary(BinaryOp::Add, *first, element);
        self.formula([held], |[held]| layout.held(held))
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
                let first = match &chunk.piece {
                    Some(piece) => l.formula([number], |[number]| layout.piece_origin(piece, number)),
                    None => l.eval(number * count),
                };
                let chunk = Chunk { first, ..chunk };
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

    /// Statements for an element, then for the next, behind the loads that several elements share.
    fn element_wise(&mut self, chunk: &Chunk<'a>, run: &[StmtId]) {
        let lines = if chunk.piece.is_some() { self.lines(chunk, run) } else { Vec::new() };
        self.load_lines(chunk, &lines);
        let read = self.read_beside_fragments(run);
        let together = match self.reaches_memory(run, &lines) {
            true => (1..=CHUNK).rev().find(|n| chunk.count.is_multiple_of(*n)).unwrap_or(1),
            false => chunk.count,
        };
        if together == chunk.count {
            self.unrolled("i", chunk.count, |l, element| l.chunk_element(chunk, run, &read, element));
        } else {
            self.unrolled("part", chunk.count / together, |l, part| {
                l.unrolled("i", together, |l, i| {
                    let element = l.eval(part * together + i);
                    l.chunk_element(chunk, run, &read, element);
                });
                l.op(OpKind::Order);
            });
        }
        self.forget_lines(&lines);
    }

    /// Statements for one element of a chunk.
    fn chunk_element(&mut self, chunk: &Chunk<'a>, run: &[StmtId], read: &BTreeSet<VarId>, element: ValueId) {
        let mut register = self.chunk_register(chunk, element);
        if chunk.piece.is_some() && chunk.vars.iter().any(|var| read.contains(var)) {
            register = self.once("held", register);
        }
        self.mark(self.stores_beyond_registers(chunk.body), Elements::At(register));
        let position = self.element_position(&chunk.layout, register);
        for (&var, value) in chunk.vars.iter().zip(position).filter(|(var, _)| read.contains(var)) {
            let reg = self.variable_reg(var);
            self.define(reg, value);
        }
        let register = Some((register, chunk.layout));
        let element = Element { position: Some(element), register, ..self.element };
        self.at_element(element, |l| l.block(run));
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
        let is_loaded = self.held_access(access).is_some() || self.lines.contains_key(&access);
        if is_register || is_loaded { Vec::new() } else { indices.clone() }
    }
}
