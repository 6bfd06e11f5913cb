//! Reductions: the steps of `ir::reduction`, as shuffles and one shared step.

use super::*;
use crate::ir::reduction::WARP;

impl Lowering<'_> {
    pub(super) fn reduce(&mut self, op: ReduceOp, src: ReduceSource, dst: Option<VarId>, axis: Option<VarId>) {
        let group = self.group(op, axis);
        // The running values: one register, or the array's elements.
        let running = match src {
            ReduceSource::Value(value) => {
                let value = self.value(value);
                let ty = self.program.values[value].ty;
                let name = dst.map_or_else(|| "sum".to_string(), |v| self.kernel.vars[v].name.clone());
                let reg = self.variable(&name, ty, value);
                if let Some(var) = dst {
                    self.vars[var] = Some(Binding::Reg(reg));
                }
                Running::Reg(reg)
            }
            ReduceSource::Local(buffer) => {
                let Space::Local(local) = self.space(Place::Buffer(buffer)) else {
                    return self.bug("a reduction of an array that is no thread's own");
                };
                Running::Array(local, self.program.locals[local].len)
            }
        };
        for step in group.reduction.plan().steps {
            match step {
                ReduceStep::Butterfly { mask } => self.each(running, |l, value| {
                    let other = l.butterfly(value.get, mask);
                    let combined = l.combine(op, value.get, other);
                    value.set(l, combined);
                }),
                ReduceStep::Ascending { parts, part_extent } => {
                    self.ascending(op, running, &group, parts, part_extent);
                }
            }
        }
    }

    /// One shared step: a leader a part publishes, everyone combines in ascending order.
    fn ascending(&mut self, op: ReduceOp, running: Running, group: &Group, parts: u32, part_extent: u32) {
        let (dtype, count) = match running {
            Running::Reg(reg) => (self.program.regs[reg].ty, 1),
            Running::Array(local, len) => (ValueType::Element(self.program.locals[local].dtype), len),
        };
        let ValueType::Element(dtype) = dtype else { return self.bug("a reduction of an index") };
        let threads = self.thread_total();
        let slots = threads / group.reduction.extent * parts;
        let scratch = self.shared_array("partial", dtype, slots * count, true);
        let which = self.group_index(group);
        let first = self.eval(which * parts);
        let slot = |l: &mut Self, part: ValueId, element: Option<ValueId>| {
            l.at(scratch, element.map_or(first + part, |element| element * slots + (first + part)))
        };
        let publish = self.nested(|l| {
            let position = l.thread_index(group.axis);
            let part = l.binary(BinaryOp::Div, position, part_extent);
            l.each(running, |l, value| {
                let memory = slot(l, part, value.element);
                l.store(memory, value.get);
            });
        });
        if part_extent > 1 {
            let position = self.thread_index(group.axis);
            self.guarded((position % part_extent).equals(0), publish);
        } else {
            self.ops.extend(publish);
        }
        self.block_barrier();
        self.each(running, |l, value| {
            let first = l.int(0);
            let memory = slot(l, first, value.element);
            let start = l.fetch(memory);
            value.set(l, start);
            let unroll = if parts <= WARP { Unroll::Full } else { Unroll::Auto };
            l.stepped("part", [1, parts, 1], unroll, |l, part| {
                let memory = slot(l, part, value.element);
                let other = l.fetch(memory);
                let combined = l.combine(op, value.get, other);
                value.set(l, combined);
            });
        });
        self.barrier_in_a_loop();
    }

    /// What the lane has whose number differs in the bits of `mask`.
    pub(super) fn butterfly(&mut self, value: ValueId, mask: u32) -> ValueId {
        let reg = self.out.reg("other", self.out.program.values[value].ty, false);
        let lane = self.int(i64::from(mask));
        self.op(OpKind::Shuffle { reg, kind: ShuffleKind::Xor, value, lane });
        self.read(reg)
    }

    pub(super) fn combine(&mut self, op: ReduceOp, a: ValueId, b: ValueId) -> ValueId {
        let op = match op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Max => BinaryOp::Max,
            ReduceOp::Min => BinaryOp::Min,
        };
        self.binary(op, a, b)
    }

    /// `f` on each running value.
    fn each(&mut self, running: Running, f: impl FnOnce(&mut Self, RunningValue)) {
        match running {
            Running::Reg(reg) => {
                let get = self.read(reg);
                f(self, RunningValue { get, running, element: None });
            }
            Running::Array(local, len) => {
                self.unrolled("i", len, |l, element| {
                    let get = l.get(local, element);
                    f(l, RunningValue { get, running, element: Some(element) });
                });
            }
        }
    }

    fn group(&self, op: ReduceOp, axis: Option<VarId>) -> Group {
        let extents = self.kernel.thread_extents();
        match axis.map(|var| self.kernel.vars[var].kind) {
            Some(VarKind::Thread(axis)) => {
                let before: u32 = extents.iter().take(usize::from(axis)).product();
                let extent = extents[usize::from(axis)];
                Group { reduction: Reduction { op, extent, stride: before }, axis }
            }
            _ => Group { reduction: Reduction { op, extent: WARP, stride: 1 }, axis: 0 },
        }
    }

    /// The thread's index on an axis.
    fn thread_index(&mut self, axis: u8) -> ValueId {
        let binding = self.kernel.threads.get(usize::from(axis)).and_then(|bound| self.vars[bound.var]);
        match (self.thread, binding) {
            // Where the compiler added threads, the hardware's axes are not the author's.
            (Some(_), Some(Binding::Reg(reg))) => self.read(reg),
            _ => self.push(ValueKind::Thread(axis), ValueType::Index),
        }
    }

    /// Which group of the block the thread is in: its linear index over the other axes.
    fn group_index(&mut self, group: &Group) -> ValueId {
        let extents = self.kernel.thread_extents();
        let mut index = None;
        let mut stride = 1;
        for axis in (0..self.kernel.threads.len() as u8).filter(|&a| a != group.axis) {
            let thread = self.thread_index(axis);
            let scaled = thread * stride;
            stride *= extents[usize::from(axis)];
            index = Some(self.joined(BinaryOp::Add, index, scaled));
        }
        index.unwrap_or_else(|| self.int(0))
    }
}

/// The threads of a reduction.
struct Group {
    reduction: Reduction,
    /// The thread axis they differ on.
    axis: u8,
}

/// Where a reduction keeps its values.
#[derive(Clone, Copy)]
enum Running {
    Reg(RegId),
    Array(LocalId, u32),
}

/// One running value.
struct RunningValue {
    /// What it is wherever that is read.
    get: ValueId,
    running: Running,
    element: Option<ValueId>,
}

impl RunningValue {
    fn set(&self, l: &mut Lowering<'_>, value: ValueId) {
        match (self.running, self.element) {
            (Running::Array(local, _), Some(element)) => {
                l.put(local, element, value);
            }
            (Running::Reg(reg), _) => l.set(reg, value),
            (Running::Array(..), None) => {}
        }
    }
}
