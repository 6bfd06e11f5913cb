//! Statements to operations, one to one but for vectorised loops and tile operations.

use super::block::Block;
use super::*;

impl<'a> Lowering<'a> {
    pub(super) fn block(&mut self, block: &[StmtId]) {
        for &stmt in block {
            self.span = self.kernel.stmts[stmt].span;
            // What channels bring to consumers is ordered by mbarriers; their own arrays alone need barriers.
            let barriers = self.roles.as_ref().map_or(&self.analysis.barriers_before, |roles| roles.barriers());
            if barriers.contains(&stmt) {
                self.block_barrier();
            }
            self.statement(stmt);
            self.release_once(stmt);
        }
    }

    /// Lowers the kernel's body as one block whose threads all do the same.
    pub(super) fn whole_block(&mut self, block: Block) {
        let kernel = self.kernel;
        self.layouts = block.layouts;
        self.products = block.products;
        for (span, text) in block.fallbacks {
            self.remark(RemarkKind::Fallback, span, text);
        }
        self.clusters = kernel.stmts.values().any(|s| matches!(&s.kind, StmtKind::Tile(op) if op.joins_cluster()));
        if let Some(&extent) = kernel.cluster.first().filter(|_| !self.clusters && uses::cluster(kernel) != [1; 3]) {
            let text = "no cluster: every block loads its own tiles".to_owned();
            self.remark(RemarkKind::Fallback, kernel.exprs[extent].span, text);
        }
        self.plain_grid();
        self.meet_cluster();
        self.bindings();
        self.block(&kernel.body);
    }

    /// Registers for block and thread indices.
    pub(super) fn bindings(&mut self) {
        self.grid_bindings();
        let kernel = self.kernel;
        for (axis, bound) in kernel.threads.iter().enumerate() {
            self.bind_axis(ValueKind::Thread(axis as u8), bound);
        }
    }

    /// Registers for block indices.
    pub(super) fn grid_bindings(&mut self) {
        let kernel = self.kernel;
        let line = kernel.swizzle.is_some() || self.cluster() != [1; 3];
        if line && !kernel.grid.is_empty() {
            self.span = kernel.grid[0].span;
            return self.grid_line();
        }
        for (axis, bound) in kernel.grid.iter().enumerate() {
            self.bind_axis(ValueKind::Block(axis as u8), bound);
        }
    }

    /// Binds the author's thread indices, of a thread's number among those that compute; `named`: each has a register.
    pub(super) fn bind_threads(&mut self, thread: ValueId, named: bool) {
        let kernel = self.kernel;
        let extents = kernel.thread_extents();
        let mut stride = 1;
        for (axis, bound) in kernel.threads.iter().enumerate() {
            let mut index = self.binary(BinaryOp::Div, thread, stride);
            if axis + 1 < kernel.threads.len() {
                index = self.binary(BinaryOp::Rem, index, extents[axis]);
            }
            stride *= extents[axis];
            self.vars[bound.var] = Some(Binding::Value(index));
            if named {
                self.named_index(bound.var, index);
            }
        }
    }

    /// A register for an index of the hardware, if something reads it.
    fn bind_axis(&mut self, kind: ValueKind, bound: &Axis) {
        let kernel = self.kernel;
        self.span = bound.span;
        let value = self.push(kind, ValueType::Index);
        if !used_variables(kernel).contains(&bound.var) {
            self.vars[bound.var] = Some(Binding::Value(value));
            return;
        }
        self.named_index(bound.var, value);
    }

    /// A register for an index of a block or thread.
    fn named_index(&mut self, var: VarId, value: ValueId) {
        let reg = self.out.reg(&self.kernel.vars[var].name, ValueType::Index, false);
        self.define(reg, value);
        self.vars[var] = Some(Binding::Reg(reg));
    }

    /// A register for a variable.
    pub(super) fn variable_reg(&mut self, var: VarId) -> RegId {
        let Var { name, ty, kind, .. } = &self.kernel.vars[var];
        let ty = match self.value_type(*ty) {
            ValueType::Index => self.index_type(var),
            ty => ty,
        };
        let (name, mutable) = (name.clone(), *kind == VarKind::Mut);
        let reg = self.reg(&name, ty, mutable);
        self.vars[var] = Some(Binding::Reg(reg));
        reg
    }

    pub(super) fn declare(&mut self, buffer: BufferId) {
        let kernel = self.kernel;
        let Buffer { name, scope, .. } = &kernel.buffers[buffer];
        let (dtype, len) = (kernel.buffer_dtype(buffer), kernel.buffer_len(buffer) as u32);
        match scope {
            Scope::Local => self.locals[buffer] = Some(self.out.local(name, dtype, len)),
            Scope::Fragment => self.declare_fragment(buffer),
            // It receives from other blocks, and was there before they sent.
            Scope::Shared if self.receives(buffer) => {}
            Scope::Shared => {
                let slots = self.stages.get(&buffer).copied().unwrap_or(1);
                let layout = self.layouts.shared.get(&buffer);
                let len = layout.map_or(len, |layout| layout.bytes() / dtype.bytes());
                let pitch = if slots == 1 { len } else { len.next_multiple_of(16 / dtype.bytes()) };
                // Rows that are free of bank conflicts within an atom are so for every slot.
                let align = if layout.is_some() { 128 } else { 16 };
                self.declare_shared(buffer, dtype, pitch, (slots, align));
            }
        }
    }

    /// Declares the slots of an array, of so many elements each.
    pub(super) fn declare_shared(&mut self, buffer: BufferId, dtype: Dtype, each: u32, (slots, align): (u32, u32)) {
        let name = &self.kernel.buffers[buffer].name;
        let shared = self.shared_array(name, dtype, each.saturating_mul(slots), false);
        let array = &mut self.program.shared[shared];
        (array.slots, array.align) = (slots, align);
        self.shared[buffer] = Some(shared);
        self.op(OpKind::Shared { shared });
    }

    pub(super) fn shared_array(&mut self, name: &str, dtype: Dtype, len: u32, scratch: bool) -> SharedId {
        let name = self.name(name);
        self.program.shared.push(SharedArray { name, dtype, len, slots: 1, offset: 0, align: 16, scratch, beyond: 0 })
    }

    fn statement(&mut self, stmt: StmtId) {
        let kernel = self.kernel;
        if self.consume(stmt) {
            return;
        }
        match &kernel.stmts[stmt].kind {
            StmtKind::Let { var, value } => {
                let value = value.map(|e| self.value(e));
                if let Some(Binding::PerElement(local)) = self.vars[*var] {
                    return value.into_iter().for_each(|value| self.set_element(local, value));
                }
                let reg = self.variable_reg(*var);
                // What is assigned once is held as its only value is.
                if let (Some(value), VarKind::Let, ValueType::Index) =
                    (value, kernel.vars[*var].kind, self.program.regs[reg].ty)
                {
                    self.program.regs[reg].ty = self.program.values[value].ty;
                }
                self.program.regs[reg].mutable |= value.is_none();
                self.op(OpKind::Let { reg, value });
            }
            StmtKind::Alloc { buffer } => self.declare(*buffer),
            StmtKind::Assign { var, value } => {
                let value = self.value(*value);
                match self.vars[*var] {
                    Some(Binding::Reg(reg)) => {
                        self.program.regs[reg].mutable = true;
                        self.set(reg, value);
                    }
                    Some(Binding::PerElement(local)) => self.set_element(local, value),
                    Some(Binding::Inline(_) | Binding::Value(_)) | None => {}
                }
            }
            StmtKind::Store { access, value } => {
                if self.asynchronous_element(stmt, *access, *value, None) {
                    return;
                }
                let value = self.value(*value);
                let memory = self.memory(*access);
                self.once_an_element(kernel.accesses[*access].place, |l| l.store(memory, value));
            }
            StmtKind::If { cond, then, otherwise } => {
                let cond = self.value(*cond);
                self.either(cond, |l| l.block(then), |l| l.block(otherwise));
            }
            StmtKind::For { var, start, end, kind: LoopKind::Vectorized, body, .. } => {
                self.vectorized(*var, *start, *end, body);
            }
            StmtKind::For { var, start, end, step, kind: LoopKind::Pipelined { stages, schedule }, body } => {
                let rolled = *schedule == Schedule::Rolled;
                self.pipelined(*var, [*start, *end, *step], *stages, rolled, body);
            }
            StmtKind::For { var, start, end, step, kind, body } => {
                let (start, end, step) = (self.value(*start), self.value(*end), self.value(*step));
                let unroll = match kind {
                    LoopKind::Unroll => Unroll::Full,
                    LoopKind::Serial { unroll: Some(n) } => Unroll::By(uses::constant(kernel, *n).unwrap_or(1)),
                    _ => Unroll::Auto,
                };
                self.counted_loop(*var, [start, end, step], unroll, |l| l.block(body));
            }
            StmtKind::Parallel { vars, extents, body } => match self.fragment_of(body) {
                Some(fragment) => self.parallel_fragment(fragment, vars, body),
                None => self.parallel(stmt, vars, extents, body),
            },
            StmtKind::Tile(TileOp::Copy { src, dst, .. }) => self.copy(stmt, src, dst),
            StmtKind::Tile(TileOp::Fill { buffer, value }) => self.fill(*buffer, *value),
            StmtKind::Tile(op @ TileOp::Clamp { .. }) => self.bug(&format!("{} in a bound kernel", op.name())),
            // Consumers lower theirs in the loop over the ring.
            StmtKind::Tile(TileOp::Gemm { .. }) => self.gemm(stmt),
            // Nothing overlaps from tile to tile where all threads do the same, and what a loop carries costs registers: a
            // block a tile.
            StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body } => {
                let asked = [
                    per_sm.map(|_| "`.per_sm(..)`"),
                    contiguous.then_some("`.contiguous()`"),
                    counter.map(|_| "`.counter(..)`"),
                ];
                for method in asked.into_iter().flatten() {
                    let text = format!("a block takes one tile, so {method} has no effect");
                    self.remark_here(RemarkKind::Fallback, text);
                }
                self.launch_line(extents);
                self.line_bindings(vars, extents);
                self.block(body);
            }
            StmtKind::Reduce { op, src, dst, axis } => self.reduce(*op, *src, *dst, *axis),
            StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis }) => self.reduce_tile(*op, *src, *dst, *axis),
            StmtKind::Tile(TileOp::ClusterReduce { op, tile }) => self.cluster_reduce(stmt, *op, *tile),
            StmtKind::Tile(TileOp::ClusterExchange { src, dst }) => self.cluster_exchange(stmt, *src, *dst),
            StmtKind::Shuffle { kind, value, lane, dst } => {
                let (value, lane) = (self.value(*value), self.value(*lane));
                let reg = self.variable_reg(*dst);
                self.op(OpKind::Shuffle { reg, kind: *kind, value, lane });
            }
            StmtKind::Vote { kind, pred, dst } => {
                let pred = self.value(*pred);
                let reg = self.variable_reg(*dst);
                self.op(OpKind::Vote { reg, kind: *kind, pred });
            }
            StmtKind::Atomic { op, access, value, dst } => {
                let value = self.value(*value);
                let memory = self.memory(*access);
                let old = dst.map(|var| self.variable_reg(var));
                let place = kernel.accesses[*access].place;
                self.once_an_element(place, |l| l.op(OpKind::Atomic { op: *op, memory, value, old, ordered: false }));
            }
            StmtKind::LastArriver { access, count, dst } => self.last_arriver(*access, *count, *dst),
            StmtKind::SyncThreads => self.block_barrier(),
            StmtKind::SyncWarp => self.op(OpKind::WarpBarrier),
            StmtKind::Print { format, args } => {
                let args: Vec<ValueId> = args.iter().map(|&a| self.value(a)).collect();
                let message = self.message(MessageKind::Print, format, &args);
                self.op(OpKind::Print { message, args });
            }
            StmtKind::Assert { cond, message } => {
                let cond = self.value(*cond);
                let message = self.message(MessageKind::Assert, message, &[]);
                self.op(OpKind::Assert { cond, message });
            }
        }
    }

    /// What a thread may say here. The first one gives the program the parameters that messages need.
    fn message(&mut self, kind: MessageKind, text: &str, args: &[ValueId]) -> MessageId {
        if self.program.messages.is_empty() {
            self.parameter("tile_log", ValueType::Wide, ParameterKind::Log);
            self.parameter("tile_log_function", ValueType::Element(Dtype::U32), ParameterKind::LogFunction);
        }
        let args = args.iter().map(|&value| self.program.values[value].ty).collect();
        let span = self.span;
        self.program.messages.push(Message { kind, text: text.to_owned(), args, span })
    }

    /// Gives a variable that every element has of its own its value at the element being lowered.
    fn set_element(&mut self, local: LocalId, value: ValueId) {
        let offset = self.element_index();
        self.put(local, offset, value);
    }

    /// A loop over `[start, end, step]` whose body `f` lowers.
    pub(super) fn counted_loop(
        &mut self,
        var: VarId,
        [start, end, step]: [ValueId; 3],
        unroll: Unroll,
        f: impl FnOnce(&mut Self),
    ) {
        let reg = self.variable_reg(var);
        self.program.regs[reg].mutable = false;
        self.loop_over(reg, [start, end, step], unroll, f);
    }

    /// A counted loop over a register that the compiler made.
    pub(super) fn loop_over(
        &mut self,
        reg: RegId,
        [start, end, step]: [ValueId; 3],
        unroll: Unroll,
        f: impl FnOnce(&mut Self),
    ) {
        let span = self.span;
        self.loop_depth += 1;
        let body = self.nested(f);
        self.loop_depth -= 1;
        self.span = span;
        self.op(OpKind::For { reg, start, end, step, unroll, body });
    }

    /// A fully unrolled loop over `0..count`, with its index.
    pub(super) fn unrolled(&mut self, name: &str, count: u32, f: impl FnOnce(&mut Self, ValueId)) {
        self.stepped(name, [0, count, 1], Unroll::Full, f);
    }

    /// A loop over `[start, end, step]`, with its index.
    pub(super) fn stepped(
        &mut self,
        name: &str,
        bounds: [impl Into<Term>; 3],
        unroll: Unroll,
        f: impl FnOnce(&mut Self, ValueId),
    ) {
        let reg = self.reg(name, ValueType::Index, false);
        let bounds = bounds.map(|bound| self.eval(bound));
        self.loop_over(reg, bounds, unroll, |l| {
            let index = l.read(reg);
            f(l, index);
        });
    }
}

/// Variables that some reachable expression reads. Grid extents are the host's.
fn used_variables(kernel: &BoundKernel) -> BTreeSet<VarId> {
    let axis = |stmt: &Stmt| if let StmtKind::Reduce { axis, .. } = stmt.kind { axis } else { None };
    let read = kernel.exprs.values().filter_map(|expr| expr.kind.variable());
    read.chain(kernel.stmts.values().filter_map(axis)).collect()
}
