//! What is read off a program: ids, types, declarations, placement.

use super::Bug;
use crate::ir::{AccessMode, EntityRef, SpanId};
use crate::lowered::*;
use std::collections::{HashMap, HashSet};

/// Alignment that TMA asks of where a box goes, bytes.
const BOX_ALIGN: u32 = 128;

/// Checks a program's structure.
///
/// # Errors
/// The first broken rule, with the operation that breaks it.
pub(super) fn check(program: &Program) -> Result<(), Bug> {
    unfinished(program)?;
    let bug = |text: String| Err(Bug::new(super::first_span(program), text));
    memory(program).or_else(bug)?;
    if program.launch.dependent.is_some() && !waits(&program.body) {
        return bug("a path of the program does not wait for the previous kernel".into());
    }
    if let Some(tensor) = program.tensors.iter().find(|t| program.launch.dependent.is_some() && !t.ordered) {
        return bug(format!("loads of `{}` may move across the wait for the previous kernel", tensor.name));
    }
    mbarriers(program).or_else(bug)?;
    super::fences::check(program)
}

/// Checks the structure of a program that may have no place in shared memory and no waits for the previous kernel yet.
///
/// # Errors
/// The first broken rule, with the operation that breaks it.
pub(super) fn unfinished(program: &Program) -> Result<(), Bug> {
    let first = super::first_span(program);
    let bug = |text: String| Err(Bug::new(first, text));
    values(program)?;
    // Ids, types, and what the hardware has: whoever executes a program asks for the same.
    crate::sim::checked::is_well_formed(program).map_err(|error| Bug::new(first, error.to_string()))?;
    for tile in &program.tiles {
        if [Some(tile.index), tile.inside].into_iter().flatten().any(|reg| program.regs.get(reg).is_none()) {
            return bug(format!("a tile's index is {}, which is no register", tile.index));
        }
    }
    let mut scope = Scope { program, regs: HashMap::new(), locals: HashSet::new() };
    let mut declared = Declared::default();
    scope.ops(&program.body, &mut declared)
}

/// Whether every path of a list waits for the previous kernel.
fn waits(ops: &[Op]) -> bool {
    ops.iter().any(|op| {
        let both = || matches!(&op.kind, OpKind::If { then, otherwise, .. } if waits(then) && waits(otherwise));
        op.kind == OpKind::Wait || both()
    })
}

/// Values are made of values, and none of itself.
fn values(program: &Program) -> Result<(), Bug> {
    /// What is known of a value.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        /// Something below it is being looked at.
        Begun,
        Done,
    }
    let mut seen = vec![Seen::No; program.values.len()];
    for (id, value) in program.values.iter() {
        let mut rest = vec![(id, false)];
        while let Some((id, is_done)) = rest.pop() {
            let state = seen.get(id.index()).copied();
            match (state, is_done) {
                (None, _) => return Err(Bug::new(value.span, format!("{id} is no value"))),
                (_, true) => seen[id.index()] = Seen::Done,
                (Some(Seen::Done), false) => {}
                (Some(Seen::Begun), false) => {
                    return Err(Bug::new(value.span, format!("the value {id} is made of itself")));
                }
                (Some(Seen::No), false) => {
                    seen[id.index()] = Seen::Begun;
                    rest.push((id, true));
                    rest.extend(program.values[id].kind.operands().into_iter().map(|operand| (operand, false)));
                }
            }
        }
    }
    Ok(())
}

/// Where shared memory's arrays and mbarriers lie.
fn memory(program: &Program) -> Result<(), String> {
    let mut boxes: HashSet<SharedId> = HashSet::new();
    visit::each(&program.body, &mut |op| {
        if let OpKind::TensorLoad { shared, .. } | OpKind::TensorStore { shared, .. } = &op.kind {
            boxes.insert(*shared);
        }
    });
    for (id, array) in program.shared.iter() {
        let SharedArray { name, dtype, len, slots, offset, align, scratch: _, beyond } = array;
        let end = u64::from(*offset) + u64::from(*len) * u64::from(dtype.bytes()) + u64::from(*beyond);
        if end > u64::from(program.shared_bytes) {
            return Err(format!("`{name}` ends at byte {end} of {} of shared memory", program.shared_bytes));
        }
        if *align == 0 || !offset.is_multiple_of(*align) || !offset.is_multiple_of(dtype.bytes()) {
            return Err(format!("`{name}` begins at byte {offset}, which is not aligned to {align}"));
        }
        if *slots == 0 || !len.is_multiple_of(*slots) {
            return Err(format!("the {len} elements of `{name}` are no {slots} equal stages"));
        }
        if boxes.contains(&id) && !offset.is_multiple_of(BOX_ALIGN) {
            return Err(format!("`{name}` is TMA's and begins at byte {offset}, no multiple of {BOX_ALIGN}"));
        }
    }
    for array in program.barriers.values() {
        let end = u64::from(array.offset) + u64::from(array.len) * u64::from(BARRIER_BYTES);
        if end > u64::from(program.shared_bytes) || !array.offset.is_multiple_of(BARRIER_BYTES) {
            return Err(format!("the mbarriers `{}` lie at bytes {} to {end}", array.name, array.offset));
        }
        let meets = program.shared.values().find(|shared| {
            let bytes = u64::from(shared.len) * u64::from(shared.dtype.bytes());
            u64::from(shared.offset) < end && u64::from(array.offset) < u64::from(shared.offset) + bytes
        });
        if let Some(shared) = meets {
            return Err(format!("the mbarriers `{}` lie in `{}`", array.name, shared.name));
        }
    }
    Ok(())
}

/// Every mbarrier is initialised, and a fence tells TMA of it.
fn mbarriers(program: &Program) -> Result<(), String> {
    let mut made: HashSet<BarrierId> = HashSet::new();
    let mut fenced = false;
    visit::each(&program.body, &mut |op| {
        fenced |= op.kind == OpKind::FenceBarrierInit;
        if let OpKind::BarrierInit { barrier, .. } = &op.kind {
            made.insert(barrier.array);
        }
    });
    match program.barriers.iter().find(|(id, _)| !made.contains(id)) {
        Some((_, array)) => Err(format!("the mbarriers `{}` are never initialised", array.name)),
        None if !made.is_empty() && !fenced => Err("no fence makes the initialisation of mbarriers visible".into()),
        None => Ok(()),
    }
}

/// What is declared where an operation stands.
struct Scope<'p> {
    program: &'p Program,
    /// In how many of the lists around it: a copy of a loop's first iteration declares what the loop does, around it.
    regs: HashMap<RegId, u32>,
    locals: HashSet<LocalId>,
}

/// What a list of operations declares: it ends with the list.
#[derive(Default)]
struct Declared {
    regs: HashSet<RegId>,
    locals: Vec<LocalId>,
}

impl Scope<'_> {
    fn list(&mut self, ops: &[Op]) -> Result<(), Bug> {
        let mut declared = Declared::default();
        self.ops(ops, &mut declared)?;
        self.end(&declared);
        declared.locals.iter().for_each(|local| _ = self.locals.remove(local));
        Ok(())
    }

    fn end(&mut self, declared: &Declared) {
        for reg in &declared.regs {
            if let Some(lists) = self.regs.get_mut(reg) {
                *lists = lists.saturating_sub(1);
            }
        }
    }

    fn ops(&mut self, ops: &[Op], declared: &mut Declared) -> Result<(), Bug> {
        ops.iter().try_for_each(|op| self.op(op, declared))
    }

    fn declare(&mut self, reg: RegId, span: SpanId, declared: &mut Declared) -> Result<(), Bug> {
        if !declared.regs.insert(reg) {
            let name = &self.program.regs[reg].name;
            return Err(Bug::new(span, format!("the register `{name}` is declared twice")));
        }
        *self.regs.entry(reg).or_insert(0) += 1;
        Ok(())
    }

    fn op(&mut self, op: &Op, declared: &mut Declared) -> Result<(), Bug> {
        let span = op.span;
        op.kind.values().into_iter().try_for_each(|value| self.value(value, span))?;
        if let OpKind::NamedBarrier { threads, .. } = op.kind {
            let block: u32 = self.program.launch.threads.iter().product();
            if threads > block.next_multiple_of(32) {
                return Err(Bug::new(span, format!("a barrier of {threads} threads in a block of {block}")));
            }
        }
        for part in op.kind.parts() {
            match part {
                Part::Memory(memory, ..) => self.space(memory.space, span)?,
                Part::Local(local, start, count, _) => self.part(*local, *start, count, span)?,
                Part::Pins(local) => self.space(Space::Local(*local), span)?,
                Part::Map(map, Some(access)) => self.map(*map, access != AccessMode::Read, span)?,
                Part::Declares(reg) => self.declare(*reg, span, declared)?,
                Part::Sets(reg) => {
                    self.reg(*reg, span)?;
                    let register = &self.program.regs[*reg];
                    if !register.mutable {
                        let text = format!("the register `{}` is assigned and may not be", register.name);
                        return Err(Bug::new(span, text));
                    }
                }
                Part::DeclaresLocal(local) => {
                    self.locals.insert(*local);
                    declared.locals.push(*local);
                }
                Part::Body(ops, index) => {
                    let mut around = Declared::default();
                    index.map_or(Ok(()), |index| self.declare(*index, span, &mut around))?;
                    self.list(ops)?;
                    self.end(&around);
                }
                // Values have been looked at, and whoever executes a program looks at the other ids.
                Part::Value(_) | Part::Shared(..) | Part::Map(_, None) => {}
                Part::Barrier(_) | Part::Message(_) | Part::DeclaresShared(_) => {}
            }
        }
        Ok(())
    }

    fn reg(&self, reg: RegId, span: SpanId) -> Result<(), Bug> {
        if self.regs.get(&reg).is_some_and(|lists| *lists > 0) {
            return Ok(());
        }
        let name = self.program.regs.get(reg).map_or("", |r| r.name.as_str());
        Err(Bug::new(span, format!("the register `{name}` is used where it is not declared")))
    }

    fn space(&self, space: Space, span: SpanId) -> Result<(), Bug> {
        match space {
            Space::Local(local) if !self.locals.contains(&local) => {
                let name = self.program.locals.get(local).map_or("", |array| array.name.as_str());
                Err(Bug::new(span, format!("`{name}` is used where it is not declared")))
            }
            Space::Global(_) | Space::Shared(_) | Space::Local(_) => Ok(()),
        }
    }

    fn value(&self, id: ValueId, span: SpanId) -> Result<(), Bug> {
        let Some(value) = self.program.values.get(id) else {
            return Err(Bug::new(span, format!("{id} is no value")));
        };
        if let ValueKind::Reg(reg) = &value.kind {
            self.reg(*reg, span)?;
        }
        if let ValueKind::Load(memory) = &value.kind {
            self.space(memory.space, span)?;
        }
        value.kind.operands().into_iter().try_for_each(|operand| self.value(operand, span))
    }

    /// A part of a thread's array, where its beginning is known.
    fn part(&self, local: LocalId, start: ValueId, count: u32, span: SpanId) -> Result<(), Bug> {
        self.space(Space::Local(local), span)?;
        let array = &self.program.locals[local];
        match self.program.values.get(start).map(|value| &value.kind) {
            Some(ValueKind::Int(start)) if *start < 0 || start + i64::from(count) > i64::from(array.len) => {
                let text = format!("elements {start} to {} of `{}`", start + i64::from(count), array.name);
                Err(Bug::new(span, format!("{text}, which has {}", array.len)))
            }
            _ => Ok(()),
        }
    }

    fn map(&self, map: MapId, stores: bool, span: SpanId) -> Result<(), Bug> {
        let Some(map) = self.program.tensor_maps.get(map) else {
            return Err(Bug::new(span, format!("{map} is no tensor map")));
        };
        if map.stores != stores {
            let [made, used] = [map.stores, stores].map(|stores| if stores { "stores" } else { "loads" });
            return Err(Bug::new(
                span,
                format!("the tensor map `{}` is made for {made} and used for {used}", map.name),
            ));
        }
        Ok(())
    }
}
