//! From a program's trees to flat bytecode.
//!
//! Every value is computed into a slot of its own at the place of its use; constants, parameters and indices are
//! preset slots; registers are slots. Temporaries are a stack. A register's reads are checked only where no assignment
//! dominates them.

mod tensor;
mod value;

use super::AccessKind;
use super::bytecode::{Code, Format, Instr, Pc, Preset, Slot};
use super::lanes;
use crate::ir::{EntityRef, SpanId};
use crate::lowered::visit::each;
use crate::lowered::{
    Elements, Memory, MessageId, Op, OpKind, ParameterKind, Program, RegId, SharedId, Special, ValueId, ValueKind,
    ValueType,
};
use crate::sim::SimError;
use std::collections::BTreeMap;

/// Compiles a program.
pub(super) fn compile(program: &Program) -> Result<Code, SimError> {
    let regs = program.regs.len() as u32;
    let elements = program.locals.values().map(|l| u64::from(l.len)).sum::<u64>();
    if elements > MAX_LOCAL_ELEMENTS || program.shared_bytes > MAX_SHARED_BYTES {
        let bytes = program.shared_bytes;
        return malformed(format!("a thread has {elements} array elements, a block {bytes} bytes of shared memory"));
    }
    let mut compiler = Compiler {
        program,
        code: Code {
            regs,
            locals: program.locals.values().map(|l| l.len).collect(),
            shared: program.shared.len() as u32,
            agents: tensor::has_agents(program),
            scopes: vec![Vec::new()],
            ..Code::default()
        },
        leaves: vec![None; program.values.len()],
        zero: 0,
        top: 0,
        definite: vec![false; regs as usize],
        quiet: false,
        depth: 0,
        described: BTreeMap::new(),
        tiles: Vec::new(),
    };
    tensor::check(program)?;
    compiler.presets()?;
    compiler.ops(&program.body)?;
    let end = program.body.last().map_or(SpanId::new(0), |op| op.span);
    compiler.emit(Instr::End, end);
    Ok(compiler.code)
}

/// Deeper trees than this are not programs a lowering makes.
const MAX_DEPTH: u32 = 300;

/// More than any device has, so that no program makes the simulator run out of memory.
const MAX_LOCAL_ELEMENTS: u64 = 1 << 16;
const MAX_SHARED_BYTES: u32 = 1 << 20;
const MAX_INSTRUCTIONS: usize = 1 << 22;

struct Compiler<'p> {
    program: &'p Program,
    code: Code,
    /// The preset slot of each value that has one.
    leaves: Vec<Option<Slot>>,
    /// A preset slot of zeros.
    zero: Slot,
    /// The next free temporary.
    top: Slot,
    /// By register: whether an assignment dominates this place.
    definite: Vec<bool>,
    /// Whether index arithmetic is not to report: the offset of an access that does not happen.
    quiet: bool,
    depth: u32,
    /// By register: the array its matrix descriptor points into.
    described: BTreeMap<RegId, SharedId>,
    /// The tiles whose indices are assigned around this place, by position in `Program::tiles`.
    tiles: Vec<u32>,
}

fn malformed<T>(text: impl Into<String>) -> Result<T, SimError> {
    Err(SimError::Malformed(text.into()))
}

impl Compiler<'_> {
    fn presets(&mut self) -> Result<(), SimError> {
        self.zero = self.preset(Preset::Constant(0));
        for (id, value) in self.program.values.iter() {
            let preset = match value.kind {
                ValueKind::Int(int) => Preset::Constant(lanes::constant(value.ty, int as f64, int)),
                ValueKind::Float(float) => match value.ty {
                    ValueType::Element(dtype) if dtype.is_float() => {
                        Preset::Constant(lanes::constant(value.ty, float, 0))
                    }
                    _ => return malformed(format!("{id} is a float of another type")),
                },
                ValueKind::Param(index) => match self.program.params.get(index as usize).map(|p| p.kind) {
                    Some(ParameterKind::TensorMap(_) | ParameterKind::Log | ParameterKind::LogFunction) | None => {
                        return malformed(format!("{id} is no scalar parameter"));
                    }
                    Some(_) => Preset::Param(index, value.ty),
                },
                ValueKind::Thread(axis) if axis < 3 => Preset::Thread(axis),
                ValueKind::Block(axis) if axis < 3 => Preset::Block(axis),
                ValueKind::Thread(_) | ValueKind::Block(_) => return malformed(format!("{id} has no such axis")),
                ValueKind::Special(special) => match special {
                    Special::Warp => Preset::Warp,
                    Special::Lane => Preset::Lane,
                    Special::ClusterRank => Preset::ClusterRank,
                    Special::Grid(axis) if axis < 3 => Preset::Grid(axis),
                    Special::Grid(_) => return malformed(format!("{id} has no such axis")),
                    Special::Elected => continue,
                },
                ValueKind::Descriptor { shared, bits } => {
                    // Its number is kept among the presets; it is no leaf.
                    let offset = self.program.shared.get(shared).map_or(0, |array| array.offset);
                    self.preset(Preset::Constant((bits | u64::from((offset & 0x3ffff) >> 4)) as i64));
                    continue;
                }
                // Computed where they are used.
                ValueKind::Reg(_) | ValueKind::Load(_) | ValueKind::Unary(..) | ValueKind::Binary(..) => continue,
                ValueKind::Math(..) | ValueKind::Select(..) | ValueKind::Choose(..) | ValueKind::Cast(_) => continue,
                ValueKind::Quotient(..) => {
                    self.preset(Preset::Constant(31));
                    continue;
                }
                ValueKind::Divisor(_) | ValueKind::Pack(..) | ValueKind::Unpack(..) => continue,
            };
            let slot = self.preset(preset);
            self.leaves[id.index()] = Some(slot);
        }
        self.top = self.code.regs + self.code.presets.len() as u32;
        self.code.slots = self.top;
        Ok(())
    }

    fn preset(&mut self, preset: Preset) -> Slot {
        let presets = &mut self.code.presets;
        let index = presets.iter().position(|p| *p == preset).unwrap_or_else(|| {
            presets.push(preset);
            presets.len() - 1
        });
        self.code.regs + index as u32
    }

    fn temp(&mut self) -> Slot {
        let slot = self.top;
        self.top += 1;
        self.code.slots = self.code.slots.max(self.top);
        slot
    }

    fn emit(&mut self, instr: Instr, span: SpanId) -> Pc {
        self.code.instrs.push(instr);
        self.code.spans.push(span);
        self.code.instrs.len() as u32 - 1
    }

    fn here(&self) -> Pc {
        self.code.instrs.len() as u32
    }

    /// Completes a forward jump.
    fn land(&mut self, at: Pc, to: Pc) {
        match &mut self.code.instrs[at as usize] {
            Instr::If { target, .. } | Instr::Guard { target, .. } => *target = to,
            Instr::Else { end } => *end = to,
            Instr::LoopTest { exit, .. } => *exit = to,
            _ => {}
        }
    }

    /// The tiles that what is compiled here works on.
    fn scope(&mut self) -> u32 {
        let scopes = &mut self.code.scopes;
        let at = scopes.iter().position(|scope| *scope == self.tiles).unwrap_or_else(|| {
            scopes.push(self.tiles.clone());
            scopes.len() - 1
        });
        at as u32
    }

    /// From the assignment of a tile's index on, what follows is the work on that tile.
    fn enter_tile(&mut self, kind: &OpKind) {
        if let OpKind::Let { reg, .. } = kind {
            let tiles = self.program.tiles.iter().zip(0..).filter(|(tile, _)| tile.index == *reg);
            self.tiles.extend(tiles.map(|(_, at)| at));
        }
    }

    fn message(&self, message: MessageId) -> Result<&str, SimError> {
        match self.program.messages.get(message) {
            Some(message) => Ok(&message.text),
            None => malformed(format!("{message} is no message")),
        }
    }

    fn print(&mut self, format: &str, args: &[ValueId], span: SpanId) -> Result<(), SimError> {
        let mut slots = Vec::new();
        for arg in args {
            let slot = self.value(*arg)?;
            slots.push((slot, self.program.values[*arg].ty));
        }
        let scope = self.scope();
        self.code.formats.push(Format { text: format.to_owned(), scope, args: slots });
        let format = self.code.formats.len() as u32 - 1;
        self.emit(Instr::Print { format }, span);
        Ok(())
    }

    fn check_reg(&self, reg: RegId) -> Result<(), SimError> {
        if reg.index() < self.definite.len() { Ok(()) } else { malformed(format!("{reg} is not a register")) }
    }

    fn assign(&mut self, reg: RegId) -> Result<RegId, SimError> {
        self.check_reg(reg)?;
        self.definite[reg.index()] = true;
        Ok(reg)
    }

    fn ops(&mut self, ops: &[Op]) -> Result<(), SimError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return malformed(format!("operations are nested more than {MAX_DEPTH} deep"));
        }
        let outer = self.tiles.len();
        for op in ops {
            let base = self.top;
            self.op(op)?;
            self.top = base;
            self.enter_tile(&op.kind);
        }
        self.tiles.truncate(outer);
        self.depth -= 1;
        Ok(())
    }

    fn op(&mut self, op: &Op) -> Result<(), SimError> {
        let span = op.span;
        match &op.kind {
            OpKind::Let { reg, value: Some(value) } | OpKind::Set { reg, value } => {
                let src = self.value(*value)?;
                let reg = self.assign(*reg)?;
                if let Some(shared) = self.described(*value) {
                    self.described.insert(reg, shared);
                }
                self.emit(Instr::Assign { reg, src }, span);
            }
            OpKind::Let { reg, value: None } => {
                self.check_reg(*reg)?;
                self.definite[reg.index()] = false;
                self.emit(Instr::Declare { reg: *reg }, span);
            }
            OpKind::Local { local } => {
                let local = self.local(*local)?;
                self.emit(Instr::DeclareLocal { local }, span);
            }
            OpKind::Shared { shared } => {
                if self.program.shared.get(*shared).is_none() {
                    return malformed(format!("{shared} is not a shared array"));
                }
                self.emit(Instr::DeclareShared { shared: *shared }, span);
            }
            OpKind::Store { memory, value } => {
                let site = self.site(memory, AccessKind::Write, 1)?;
                let dtype = self.code.sites[site as usize].dtype;
                if self.program.values.get(*value).map(|v| v.ty) != Some(ValueType::Element(dtype)) {
                    return malformed(format!("{value} is stored as {dtype}"));
                }
                // C evaluates the value under the guard, after the offset.
                self.guarded(memory, site, |c, offset| Ok(Instr::Store { site, offset, value: c.value(*value)? }))?;
            }
            OpKind::VectorLoad { local, start, memory, width } => {
                let site = self.vector_site(memory, AccessKind::Read, *width, *local)?;
                let local = self.local(*local)?;
                let start = self.value(*start)?;
                if memory.guard.is_some() {
                    self.emit(Instr::VectorZero { site, local, start }, span);
                }
                self.guarded(memory, site, |_, offset| Ok(Instr::VectorLoad { site, offset, local, start }))?;
            }
            OpKind::VectorStore { memory, local, start, width } => {
                let site = self.vector_site(memory, AccessKind::Write, *width, *local)?;
                let local = self.local(*local)?;
                let start = self.value(*start)?;
                self.guarded(memory, site, |_, offset| Ok(Instr::VectorStore { site, offset, local, start }))?;
            }
            OpKind::AsyncCopy { to, from, width } => self.async_copy(to, from, *width)?,
            OpKind::AsyncCommit => {
                self.emit(Instr::AsyncCommit, span);
            }
            OpKind::AsyncWait { pending } => {
                self.emit(Instr::AsyncWait { pending: *pending }, span);
            }
            OpKind::AsyncArrive { barrier } => {
                let at = self.barrier(*barrier)?;
                self.emit(Instr::AsyncArrive { at }, span);
            }
            OpKind::If { cond, then, otherwise } => self.conditional(*cond, then, otherwise, span)?,
            OpKind::For { reg, start, end, step, body, unroll: _ } => {
                self.check_reg(*reg)?;
                self.for_loop(*reg, [*start, *end, *step], body, span)?;
            }
            OpKind::Barrier => {
                self.emit(Instr::Barrier, span);
            }
            OpKind::WarpBarrier => {
                self.emit(Instr::WarpBarrier, span);
            }
            OpKind::Wait => {
                self.emit(Instr::Wait, span);
            }
            OpKind::LaunchDependents => {
                self.emit(Instr::LaunchDependents, span);
            }
            OpKind::Shuffle { reg, kind, value, lane } => {
                let (value, lane) = (self.value(*value)?, self.value(*lane)?);
                let reg = self.assign(*reg)?;
                self.emit(Instr::Shuffle { reg, kind: *kind, value, lane }, span);
            }
            OpKind::Vote { reg, kind, pred } => {
                let pred = self.value(*pred)?;
                let reg = self.assign(*reg)?;
                self.emit(Instr::Vote { reg, kind: *kind, pred }, span);
            }
            OpKind::Atomic { op, memory, value, old, ordered } => {
                let site = self.site(memory, AccessKind::Atomic, 1)?;
                let dtype = self.code.sites[site as usize].dtype;
                if !op.supports(dtype)
                    || self.program.values.get(*value).map(|v| v.ty) != Some(ValueType::Element(dtype))
                {
                    return malformed(format!("an atomic {op:?} of {value} on {dtype}"));
                }
                let result = self.temp();
                if old.is_some() {
                    self.emit(Instr::Copy { dst: result, src: self.zero }, span);
                }
                self.guarded(memory, site, |c, offset| {
                    Ok(Instr::Atomic { op: *op, ordered: *ordered, site, offset, value: c.value(*value)?, old: result })
                })?;
                if let Some(old) = old {
                    let reg = self.assign(*old)?;
                    self.emit(Instr::Assign { reg, src: result }, span);
                }
            }
            OpKind::LoadMatrix { local, start, memory, count, transposed } => {
                self.matrices(AccessKind::Read, memory, (*local, *start), *count, *transposed)?;
            }
            OpKind::StoreMatrix { memory, local, start, count, transposed } => {
                self.matrices(AccessKind::Write, memory, (*local, *start), *count, *transposed)?;
            }
            OpKind::TransposeMatrix { reg, value } => {
                let word = ValueType::Element(crate::ir::Dtype::U32);
                if self.program.values.get(*value).map(|v| v.ty) != Some(word) {
                    return malformed(format!("a matrix of {value}, which is no word"));
                }
                let value = self.value(*value)?;
                let reg = self.assign(*reg)?;
                self.emit(Instr::TransposeMatrix { reg, value }, span);
            }
            OpKind::Mma { atom, acc, a, b } => self.warp_product(*atom, [*acc, *a, *b], span)?,
            OpKind::BarrierInit { barrier, arrivals } => {
                let at = self.barrier(*barrier)?;
                if *arrivals == 0 || *arrivals >= 1 << 20 {
                    return malformed(format!("a barrier of {arrivals} arrivals"));
                }
                self.emit(Instr::BarrierInit { at, arrivals: *arrivals }, span);
            }
            OpKind::FenceBarrierInit => {
                self.emit(Instr::FenceBarrierInit, span);
            }
            OpKind::BarrierArrive { barrier, cta } => {
                let at = self.barrier(*barrier)?;
                let cta = cta.map(|cta| self.index(cta)).transpose()?;
                self.emit(Instr::BarrierArrive { at, bytes: None, cta }, span);
            }
            OpKind::BarrierExpect { barrier, bytes } => {
                let (at, bytes) = (self.barrier(*barrier)?, self.index(*bytes)?);
                self.emit(Instr::BarrierArrive { at, bytes: Some(bytes), cta: None }, span);
            }
            OpKind::BarrierWait { barrier, parity } => {
                let (at, parity) = (self.barrier(*barrier)?, self.index(*parity)?);
                self.emit(Instr::BarrierWait { at, parity }, span);
            }
            OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict: _ } => {
                let barrier = Some(self.barrier(*barrier)?);
                let multicast = multicast.map(|mask| self.index(mask)).transpose()?;
                self.box_copy(*map, coordinates, (*shared, *offset), (barrier, multicast), false, span)?;
            }
            OpKind::TensorStore { map, coordinates, shared, offset, adds, evict: _ } => {
                self.box_copy(*map, coordinates, (*shared, *offset), (None, None), *adds, span)?;
            }
            OpKind::BulkLoad { memory, shared, offset, bytes, barrier, evict: _ } => {
                self.bulk_copy(memory, (*shared, *offset), *bytes, *barrier)?;
            }
            OpKind::ClusterStore { memory, block, local, start, width, barrier } => {
                self.cluster_store(memory, *block, (*local, *start), *width, *barrier)?;
            }
            OpKind::BulkCommit => {
                self.emit(Instr::BulkCommit, span);
            }
            OpKind::BulkWait { pending, read } => {
                self.emit(Instr::BulkWait { pending: *pending, read: *read }, span);
            }
            OpKind::FenceProxyAsync => {
                self.emit(Instr::FenceProxy, span);
            }
            OpKind::PrefetchMap { map } => {
                if self.program.tensor_maps.get(*map).is_none() {
                    return malformed(format!("{map} is not a tensor map"));
                }
            }
            OpKind::NamedBarrier { id, threads, arrive } => {
                if !(1..16).contains(id) || *threads == 0 || *threads > 1024 || !threads.is_multiple_of(32) {
                    return malformed(format!("barrier {id} of {threads} threads"));
                }
                self.emit(Instr::NamedBarrier { id: *id, threads: *threads, arrive: *arrive }, span);
            }
            OpKind::ClusterBarrier { relaxed } => {
                self.emit(Instr::ClusterBarrier { relaxed: *relaxed }, span);
            }
            OpKind::ClusterArrive => {
                self.emit(Instr::ClusterArrive, span);
            }
            OpKind::ClusterWait => {
                self.emit(Instr::ClusterWait, span);
            }
            OpKind::SetRegisters { count, increase } => {
                if !(24..=256).contains(count) || !count.is_multiple_of(8) {
                    return malformed(format!("{count} registers a thread: 24 to 256, a multiple of 8"));
                }
                if self.program.launch.min_blocks.is_none() {
                    return malformed("registers are shared out without a least number of blocks, which ptxas ignores");
                }
                self.emit(Instr::SetRegisters { count: *count, increase: *increase }, span);
            }
            OpKind::WgmmaFence => {
                self.emit(Instr::WgmmaFence, span);
            }
            OpKind::Wgmma { acc, start, n, rows, dtype, a, b, accumulate, transposed } => {
                let form = (*n, *rows, *dtype, *transposed);
                self.group_product((*acc, *start), form, (a, *b), *accumulate, span)?;
            }
            OpKind::WgmmaCommit => {
                self.emit(Instr::WgmmaCommit, span);
            }
            OpKind::WgmmaWait { pending } => {
                self.emit(Instr::WgmmaWait { pending: *pending }, span);
            }
            OpKind::Pin { local } => {
                self.local(*local)?;
            }
            // The simulator runs a program as it stands.
            OpKind::Elements(place) => {
                let instr = match place {
                    Elements::Begin => Instr::Elements { begins: true },
                    Elements::End => Instr::Elements { begins: false },
                    Elements::Next => Instr::Element { number: None },
                    Elements::At(number) => Instr::Element { number: Some(self.index(*number)?) },
                };
                self.emit(instr, span);
            }
            OpKind::Order => {}
            OpKind::Print { message, args } => {
                let format = self.message(*message)?.to_owned();
                self.print(&format, args, span)?;
            }
            OpKind::Assert { cond, message } => {
                let cond = self.value(*cond)?;
                let text = self.message(*message)?.to_owned();
                self.code.messages.push(text);
                let message = self.code.messages.len() as u32 - 1;
                self.emit(Instr::Assert { cond, message }, span);
            }
        }
        Ok(())
    }

    fn local(&self, local: crate::lowered::LocalId) -> Result<u32, SimError> {
        if self.program.locals.get(local).is_some() {
            Ok(local.as_u32())
        } else {
            malformed(format!("{local} is not a per-thread array"))
        }
    }

    fn vector_site(
        &mut self,
        memory: &Memory,
        kind: AccessKind,
        width: u32,
        local: crate::lowered::LocalId,
    ) -> Result<u32, SimError> {
        let site = self.site(memory, kind, width)?;
        let dtype = self.code.sites[site as usize].dtype;
        if self.program.locals.get(local).map(|l| l.dtype) != Some(dtype) {
            return malformed(format!("a vector of {dtype} in {local}, which holds another type"));
        }
        match width.checked_mul(dtype.bytes()) {
            Some(1 | 2 | 4 | 8 | 16) => Ok(site),
            _ => malformed(format!("a vector access of {width} elements of {dtype}")),
        }
    }

    fn conditional(&mut self, cond: ValueId, then: &[Op], otherwise: &[Op], span: SpanId) -> Result<(), SimError> {
        let cond = self.value(cond)?;
        let test = self.emit(Instr::If { cond, target: 0 }, span);
        let before = self.definite.clone();
        self.ops(then)?;
        let mut target = self.here();
        let after_then = std::mem::replace(&mut self.definite, before);
        if !otherwise.is_empty() {
            let other = self.emit(Instr::Else { end: 0 }, span);
            self.ops(otherwise)?;
            target = other;
            let end = self.here();
            self.land(other, end);
        }
        for (definite, then) in self.definite.iter_mut().zip(after_then) {
            *definite &= then;
        }
        self.emit(Instr::EndIf, span);
        self.land(test, target);
        Ok(())
    }

    fn for_loop(&mut self, reg: RegId, bounds: [ValueId; 3], body: &[Op], span: SpanId) -> Result<(), SimError> {
        let program = self.program;
        let index = |ty| matches!(ty, ValueType::Index | ValueType::Wide);
        if !index(program.regs[reg].ty) || bounds.iter().any(|b| program.values.get(*b).is_none_or(|v| !index(v.ty))) {
            return malformed(format!("the loop over {reg} is not over indices"));
        }
        // Evaluated once, before the loop: a register among them may change in the body.
        let mut kept = [0; 3];
        for (slot, bound) in kept.iter_mut().zip(bounds) {
            *slot = self.value(bound)?;
            if *slot < self.code.regs {
                let dst = self.temp();
                self.emit(Instr::Copy { dst, src: *slot }, span);
                *slot = dst;
            }
        }
        let [start, end, step] = kept;
        forget_declared(body, &mut self.definite);
        let before = self.definite.clone();
        self.emit(Instr::Assign { reg, src: start }, span);
        self.definite[reg.index()] = true;
        self.emit(Instr::LoopEnter { step }, span);
        let test = self.emit(Instr::LoopTest { index: reg, end, exit: 0 }, span);
        self.ops(body)?;
        let wide = program.regs[reg].ty == ValueType::Wide;
        self.emit(Instr::LoopNext { index: reg, step, wide, test }, span);
        let exit = self.emit(Instr::LoopExit, span);
        self.land(test, exit);
        self.definite = before;
        Ok(())
    }
}

/// Registers that a loop's body declares without a value are not assigned when its next iteration begins.
fn forget_declared(ops: &[Op], definite: &mut [bool]) {
    each(ops, &mut |op| {
        if let OpKind::Let { reg, value: None } = &op.kind
            && let Some(slot) = definite.get_mut(reg.index())
        {
            *slot = false;
        }
    });
}
