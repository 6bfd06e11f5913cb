//! Vectorised loops: each access is one transaction over the whole range, arithmetic is per element.
//!
//! A statement at a time, which the analysis has shown to equal an iteration at a time: loads that move with the loop
//! go into an array of one element an iteration, the value is computed in an unrolled loop, and a store that moves
//! goes out as one transaction.

use super::*;

/// A vectorised loop: its index goes from `first` in `width` steps of 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vector {
    pub(super) var: VarId,
    pub(super) first: i64,
    pub(super) width: u32,
}

impl Lowering<'_> {
    pub(super) fn vectorized(&mut self, var: VarId, start: ExprId, end: ExprId, body: &[StmtId]) {
        let bounds = (self.kernel.const_index(start), self.kernel.const_index(end));
        let (Some(first), Some(last)) = bounds else { return self.bug("bounds of a vectorised loop are no constants") };
        let width = u32::try_from(last - first).unwrap_or(0);
        if width == 0 {
            return;
        }
        for &stmt in body {
            self.span = self.kernel.stmts[stmt].span;
            self.vector_statement(stmt, Vector { var, first, width });
        }
        self.vars[var] = None;
    }

    /// The position in per-element arrays of the element being lowered.
    pub(super) fn element_index(&mut self) -> ValueId {
        self.element.position.unwrap_or_else(|| self.int(0))
    }

    fn vector_statement(&mut self, stmt: StmtId, vector: Vector) {
        let kernel = self.kernel;
        let kind = &kernel.stmts[stmt].kind;
        if let StmtKind::Let { var: name, value: Some(value) } = kind {
            // Indices are inlined where they are used: an access needs its first element's.
            let Some(dtype) = kernel.vars[*name].ty.dtype() else {
                self.vars[*name] = Some(Binding::Inline(*value));
                return;
            };
            let local = self.local(&kernel.vars[*name].name, dtype, vector.width);
            if !self.load_whole(*value, local, None, vector) {
                self.load_operands(*value, vector);
                self.per_element(vector, |l, element| {
                    let value = l.value(*value);
                    l.put(local, element, value);
                });
            }
            self.vars[*name] = Some(Binding::PerElement(local));
        } else if let StmtKind::Store { access, value } = kind {
            if !self.asynchronous_element(stmt, *access, *value, Some(vector)) {
                self.store_vector(*access, *value, vector);
            }
        } else if let StmtKind::Assign { var: name, value } = kind {
            // An accumulation: element by element.
            self.load_operands(*value, vector);
            self.per_element(vector, |l, _| {
                let value = l.value(*value);
                if let Some(Binding::Reg(reg)) = l.vars[*name] {
                    l.program.regs[reg].mutable = true;
                    l.set(reg, value);
                }
            });
        } else {
            self.bug(&format!("{} in a vectorised loop", kind.a_name()));
        }
    }

    fn store_vector(&mut self, access: AccessId, value: ExprId, vector: Vector) {
        let kernel = self.kernel;
        let place = kernel.accesses[access].place;
        let moves = self.moves(access);
        let buffer_local = match self.space(place) {
            Space::Local(local) if self.is_local(access) => Some(local),
            Space::Local(_) | Space::Shared(_) | Space::Global(_) => None,
        };
        if let (Some(local), true) = (buffer_local, moves)
            && self.load_whole(value, local, Some(access), vector)
        {
            return;
        }
        self.load_operands(value, vector);
        if buffer_local.is_some() || !moves {
            self.per_element(vector, |l, _| {
                let value = l.value(value);
                let memory = l.memory(access);
                l.store(memory, value);
            });
            return;
        }
        // A per-thread array stored as it is needs no copy of it.
        let direct = match kernel.exprs[value].kind {
            ExprKind::Load(source) => match self.loaded[source] {
                Some(local) => Some((local, self.int(0))),
                None => self.local_run(source, vector),
            },
            _ => None,
        };
        let (local, start) = match direct {
            Some(run) => run,
            None => {
                let dtype = self.dtype_of(place);
                let local = self.local("out", dtype, vector.width);
                self.per_element(vector, |l, element| {
                    let value = l.value(value);
                    l.put(local, element, value);
                });
                (local, self.int(0))
            }
        };
        let memory = self.at_first(vector, |l| l.memory(access));
        self.vector_store(memory, local, start, vector.width);
    }

    /// `local[..] = load`: one transaction straight into the array, where its alignment is known. Says whether it was one.
    fn load_whole(&mut self, value: ExprId, local: LocalId, at: Option<AccessId>, vector: Vector) -> bool {
        let ExprKind::Load(source) = self.kernel.exprs[value].kind else { return false };
        if !self.moves(source) || self.is_local(source) || at.is_some_and(|access| !self.is_aligned(access)) {
            return false;
        }
        let start = match at {
            Some(access) => self.at_first(vector, |l| l.memory(access)).offset,
            None => self.int(0),
        };
        let memory = self.at_first(vector, |l| l.memory(source));
        self.vector_load(local, start, memory, vector.width);
        true
    }

    /// Loads every moving operand of `value` from shared and global memory into an array.
    fn load_operands(&mut self, value: ExprId, vector: Vector) {
        for access in loads(self.kernel, value) {
            if !self.moves(access) || self.is_local(access) {
                continue;
            }
            let place = self.kernel.accesses[access].place;
            let dtype = self.dtype_of(place);
            let name = format!("{}_v", self.kernel.place_name(place));
            let local = self.local(&name, dtype, vector.width);
            let memory = self.at_first(vector, |l| l.memory(access));
            self.vector_load(local, 0, memory, vector.width);
            self.loaded[access] = Some(local);
        }
    }

    /// If the access is to consecutive elements of a per-thread array that one transaction may take: the array and the first
    /// position.
    fn local_run(&mut self, access: AccessId, vector: Vector) -> Option<(LocalId, ValueId)> {
        if !self.is_local(access) || !self.moves(access) || !self.is_aligned(access) {
            return None;
        }
        let memory = self.at_first(vector, |l| l.memory(access));
        match memory.space {
            Space::Local(local) => Some((local, memory.offset)),
            _ => None,
        }
    }

    fn per_element(&mut self, Vector { var, first, width }: Vector, f: impl FnOnce(&mut Self, ValueId)) {
        let name = self.kernel.vars[var].name.clone();
        self.unrolled(&name, width, |l, element| {
            let index = l.binary(BinaryOp::Add, element, first);
            l.vars[var] = Some(Binding::Value(index));
            l.at_element(Element { position: Some(element), ..l.element }, |l| f(l, element));
        });
    }

    pub(super) fn at_first<R>(&mut self, vector: Vector, f: impl FnOnce(&mut Self) -> R) -> R {
        let first = self.int(vector.first);
        self.vars[vector.var] = Some(Binding::Value(first));
        f(self)
    }

    fn is_local(&self, access: AccessId) -> bool {
        self.kernel.scope_of(self.kernel.accesses[access].place) == Some(Scope::Local)
    }

    /// Whether the access moves with the loop.
    fn moves(&self, access: AccessId) -> bool {
        self.analysis.vectors.get(&access).is_some_and(|v| v.width > 1)
    }

    /// Whether the first element is known to lie at a multiple of the transaction's bytes.
    fn is_aligned(&self, access: AccessId) -> bool {
        self.analysis.vectors.get(&access).is_some_and(|v| v.aligned)
    }

    pub(super) fn dtype_of(&self, place: Place) -> Dtype {
        match self.kernel.place_dtype(place) {
            DtypeRef::Is(dtype) => dtype,
            DtypeRef::Param(_) => Dtype::F32,
        }
    }
}

/// Every load in an expression, in order of evaluation.
fn loads(kernel: &BoundKernel, expr: ExprId) -> Vec<AccessId> {
    let kind = &kernel.exprs[expr].kind;
    let mut all = Vec::new();
    kind.operands(kernel, &mut |operand| all.extend(loads(kernel, operand)));
    if let ExprKind::Load(access) = kind {
        all.push(*access);
    }
    all
}
