//! Expressions to values, and accesses to addresses with their guards.

use super::*;

/// An axis on which an index was not proven in bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenAxis {
    pub(super) axis: usize,
    /// Whether the index may be negative, which is a mistake (TK0303) but must not leave the tensor.
    pub(super) below: bool,
}

impl Lowering<'_> {
    /// What the loop's index, or an assigned index, is held in.
    pub(super) fn index_type(&self, var: VarId) -> ValueType {
        if self.analysis.wide_vars.contains(&var) { ValueType::Wide } else { ValueType::Index }
    }

    /// The value of an expression.
    pub(super) fn value(&mut self, id: ExprId) -> ValueId {
        if let Some(value) = self.quotients.get(&id) {
            return *value;
        }
        let kernel = self.kernel;
        let Expr { kind, ty, span } = &kernel.exprs[id];
        let outer = std::mem::replace(&mut self.span, *span);
        let ty = self.value_type(*ty);
        let value = match kind {
            ExprKind::Int(number) if ty == ValueType::Index && i32::try_from(*number).is_err() => {
                self.push(ValueKind::Int(*number), ValueType::Wide)
            }
            ExprKind::Int(number) => self.push(ValueKind::Int(*number), ty),
            ExprKind::Bool(value) => self.push(ValueKind::Int(i64::from(*value)), ty),
            ExprKind::Float(number) => self.push(ValueKind::Float(*number), ty),
            ExprKind::Dim(dim) => self.param(ParameterKind::Dim(*dim)),
            ExprKind::Scalar(param) => self.param(ParameterKind::Scalar(*param)),
            ExprKind::Var(var) => self.variable_value(*var, ty),
            ExprKind::Unary(op, x) => {
                let x = self.value(*x);
                let x = if self.analysis.wide.contains(&id) { self.fit(x, ValueType::Wide) } else { x };
                let ty = if ty == ValueType::Index { self.program.values[x].ty } else { ty };
                self.push(ValueKind::Unary(*op, x), ty)
            }
            ExprKind::Binary(op, a, b) => {
                let (mut a, mut b) = (self.value(*a), self.value(*b));
                if self.analysis.wide.contains(&id) {
                    a = self.fit(a, ValueType::Wide);
                }
                if self.analysis.open_divisors.contains(&id) {
                    let ty = self.program.values[b].ty;
                    b = self.push(ValueKind::Divisor(b), ty);
                }
                let value = self.binary(*op, a, b);
                if self.analysis.signed_sums.contains(&id) {
                    self.signed_sums.insert(value);
                }
                value
            }
            ExprKind::Math(function, args) => {
                let args = args.iter().map(|&a| self.value(a)).collect();
                self.push(ValueKind::Math(*function, args), ty)
            }
            ExprKind::Select(c, a, b) | ExprKind::If(c, a, b) => {
                let (c, a, b) = (self.value(*c), self.value(*a), self.value(*b));
                let (a, b) = self.alike(a, b);
                let is_lazy = matches!(kind, ExprKind::If(..));
                let choice = if is_lazy { ValueKind::Choose(c, a, b) } else { ValueKind::Select(c, a, b) };
                let ty = self.program.values[a].ty;
                self.push(choice, ty)
            }
            ExprKind::Cast(_, x) => {
                let x = self.value(*x);
                match (self.program.values[x].ty, ty) {
                    (from, to) if from == to => x,
                    (ValueType::Wide, ValueType::Index) => x,
                    (_, ValueType::Index) if self.analysis.wide.contains(&id) => {
                        self.push(ValueKind::Cast(x), ValueType::Wide)
                    }
                    _ => self.push(ValueKind::Cast(x), ty),
                }
            }
            ExprKind::Load(access) => self.load(*access, ty),
            // Absent from bound kernels.
            ExprKind::Const(_) | ExprKind::Bits(_) | ExprKind::Special(..) | ExprKind::Present(_) => {
                self.push(ValueKind::Int(0), ty)
            }
        };
        let value = match self.program.values[value].ty {
            ValueType::Index if self.analysis.wide.contains(&id) => self.widen(value),
            ValueType::Wide if self.analysis.narrow.contains(&id) && !self.analysis.wide.contains(&id) => {
                self.fit(value, ValueType::Index)
            }
            _ => value,
        };
        self.span = outer;
        value
    }

    /// The value of a variable.
    pub(super) fn variable_value(&mut self, var: VarId, ty: ValueType) -> ValueId {
        match self.vars[var] {
            Some(Binding::Reg(reg)) => self.read(reg),
            Some(Binding::Value(value)) => value,
            Some(Binding::Inline(expr)) => self.value(expr),
            Some(Binding::PerElement(local)) => {
                let offset = self.element_index();
                self.get(local, offset)
            }
            // Every variable is bound before it is used: names resolve in order.
            None => self.push(ValueKind::Int(0), ty),
        }
    }

    fn load(&mut self, access: AccessId, ty: ValueType) -> ValueId {
        if let Some(local) = self.loaded[access] {
            let offset = self.element_index();
            return self.get(local, offset);
        }
        let in_registers = self.held_element(access).or_else(|| self.line_element(access));
        let memory = in_registers.unwrap_or_else(|| self.memory(access));
        self.push(ValueKind::Load(memory), ty)
    }

    /// The address of an element, with the guards that were not proven away.
    pub(super) fn memory(&mut self, id: AccessId) -> Memory {
        let kernel = self.kernel;
        let access = &kernel.accesses[id];
        let outer = std::mem::replace(&mut self.span, access.span);
        let indices: Vec<ValueId> = access.indices.iter().map(|&e| self.value(e)).collect();
        let open: Vec<OpenAxis> = (0..indices.len())
            .filter(|&axis| !self.analysis.axis_in_bounds(id, axis))
            .map(|axis| OpenAxis { axis, below: !self.analysis.axis_nonnegative(id, axis) })
            .collect();
        let reason = if access.masked { GuardReason::Masked } else { GuardReason::Unproven };
        let guard = self.guard(access.place, &indices, &open, reason);
        if guard.is_some() && reason == GuardReason::Unproven {
            let name = kernel.place_name(access.place).to_string();
            let axes: Vec<String> = open.iter().map(|o| o.axis.to_string()).collect();
            let text = format!("`{name}` is guarded on axis {}: the index was not proven in bounds", axes.join(", "));
            self.remark(RemarkKind::Guard, access.span, text);
        }
        let guard = self.clipped_read(access.place, &indices, guard);
        let memory = Memory {
            space: self.space(access.place),
            offset: self.offset(access.place, &indices),
            guard,
            span: access.span,
        };
        self.span = outer;
        memory
    }

    /// The condition under which `indices` are in bounds on the axes `open`.
    pub(super) fn guard(
        &mut self,
        place: Place,
        indices: &[ValueId],
        open: &[OpenAxis],
        reason: GuardReason,
    ) -> Option<Guard> {
        let mut cond = None;
        for open in open {
            let index = indices[open.axis];
            if open.below {
                cond = Some(self.joined(BinaryOp::And, cond, index.at_least(0)));
            }
            let extent = self.extent(place, open.axis);
            cond = Some(self.joined(BinaryOp::And, cond, index.below(extent)));
        }
        cond.map(|cond| Guard { cond, reason })
    }

    /// A place's extent on an axis.
    pub(super) fn extent(&mut self, place: Place, axis: usize) -> ValueId {
        match place {
            Place::Buffer(buffer) => {
                let Some(extent) = self.kernel.buffer_extents(buffer).get(axis) else {
                    self.bug("an axis that an array lacks");
                    return self.int(0);
                };
                self.int(i64::from(*extent))
            }
            Place::Tensor(param) => match self.tensor_extent(param, axis) {
                Some(Extent::Dim(dim)) => match self.kernel.dims[dim].value {
                    Some(value) => self.int(value),
                    None => self.param(ParameterKind::Dim(dim)),
                },
                Some(Extent::Fixed(expr)) => self.value(expr),
                None => self.int(0),
            },
        }
    }

    pub(super) fn tensor_extent(&self, param: ParamId, axis: usize) -> Option<Extent> {
        match &self.kernel.params[param].kind {
            ParamKind::Tensor { shape, .. } => shape.get(axis).copied(),
            ParamKind::Scalar { .. } | ParamKind::Absent => None,
        }
    }

    pub(super) fn space(&mut self, place: Place) -> Space {
        match place {
            Place::Tensor(param) => Space::Global(param),
            Place::Buffer(buffer) => match (self.locals[buffer], self.shared[buffer], self.fragments[buffer]) {
                (Some(local), _, _) => Space::Local(local),
                (None, Some(shared), _) => Space::Shared(shared),
                (None, None, Some(registers)) => Space::Local(registers.local),
                // Buffers are declared before they are used; a late declaration keeps the program well formed.
                (None, None, None) => {
                    let (dtype, len) = (self.kernel.buffer_dtype(buffer), self.kernel.buffer_len(buffer) as u32);
                    let local = self.out.local(&self.kernel.buffers[buffer].name, dtype, len);
                    self.locals[buffer] = Some(local);
                    Space::Local(local)
                }
            },
        }
    }

    /// The offset of an element: row-major. Rows of tensors are 64-bit, since a tensor may have more than 2^31
    /// elements though no axis has.
    pub(super) fn offset(&mut self, place: Place, indices: &[ValueId]) -> ValueId {
        // An element of a fragment is the register that the loop over the fragment is at.
        if let (Place::Buffer(buffer), Some((register, layout))) = (place, self.element.register)
            && let Some(registers) = self.fragments[buffer]
        {
            let Some(axis) = registers.kept else { return register };
            return self.formula([register], |[register]| layout.slot(axis, register));
        }
        let Some((&last, outer)) = indices.split_last() else {
            self.bug("an access without an index");
            return self.int(0);
        };
        let within = self.within(place, indices, last, outer);
        match place {
            Place::Buffer(buffer) => self.in_slot(buffer, within),
            Place::Tensor(_) => within,
        }
    }

    /// The offset in a tensor or in a slot of an array.
    fn within(&mut self, place: Place, indices: &[ValueId], last: ValueId, outer: &[ValueId]) -> ValueId {
        if outer.is_empty() {
            return last;
        }
        match place {
            Place::Buffer(buffer) => {
                if let (Some(layout), [row, col]) = (self.layouts.shared.get(&buffer).copied(), indices) {
                    return self.formula([*row, *col], |[row, col]| layout.place(row, col));
                }
                let extents = self.kernel.buffer_extents(buffer);
                let mut offset = indices[0];
                for (axis, &index) in indices.iter().enumerate().skip(1) {
                    offset = self.binary(BinaryOp::Add, offset * extents[axis], index);
                }
                offset
            }
            Place::Tensor(param) => {
                let mut offset = None;
                for (axis, &index) in outer.iter().enumerate() {
                    let stride = self.param(ParameterKind::Stride(param, axis as u8));
                    let (index, stride) = (self.widen(index), self.widen(stride));
                    offset = Some(self.joined(BinaryOp::Add, offset, index * stride));
                }
                let last = self.widen(last);
                self.joined(BinaryOp::Add, offset, last)
            }
        }
    }
}
