//! Values and memory accesses: from trees to slots.

use super::{Compiler, MAX_DEPTH, MAX_INSTRUCTIONS, malformed};
use crate::ir::{BinaryOp, Dtype, DtypeClass, EntityRef, MathFn, UnaryOp};
use crate::lowered::{GuardReason, Memory, SharedId, Space, ValueId, ValueKind, ValueType};
use crate::sim::SimError;
use crate::sim::checked::AccessKind;
use crate::sim::checked::bytecode::{Instr, Preset, Site, Slot};

impl Compiler<'_> {
    /// The slot that holds a value, computed here unless it is a leaf.
    pub(super) fn value(&mut self, id: ValueId) -> Result<Slot, SimError> {
        let Some(value) = self.program.values.get(id) else { return malformed(format!("{id} is not a value")) };
        if let Some(slot) = self.leaves[id.index()] {
            return Ok(slot);
        }
        if let ValueKind::Reg(reg) = value.kind {
            self.check_reg(reg)?;
            if !self.definite[reg.index()] {
                self.emit(Instr::CheckReg { reg }, value.span);
            }
            return Ok(reg.as_u32());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH || self.code.instrs.len() > MAX_INSTRUCTIONS {
            return malformed(format!("{id} is nested more than {MAX_DEPTH} deep, or the program is too long"));
        }
        let dst = self.temp();
        self.compute(id, dst)?;
        self.top = dst + 1;
        self.depth -= 1;
        Ok(dst)
    }

    /// A value into a slot. Each kind has a function of its own: this one calls itself as deep as values are nested, and
    /// a frame with the locals of all kinds would be large.
    fn compute(&mut self, id: ValueId, dst: Slot) -> Result<(), SimError> {
        let program = self.program;
        let value = &program.values[id];
        match &value.kind {
            ValueKind::Unary(op, a) => self.unary(id, *op, *a, dst),
            ValueKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => self.short_circuit(id, *op, [*a, *b], dst),
            ValueKind::Binary(op, a, b) => self.operation(id, *op, [*a, *b], dst),
            ValueKind::Math(function, args) => self.math(id, *function, args, dst),
            ValueKind::Select(cond, a, b) => self.select(id, [*cond, *a, *b], dst),
            ValueKind::Choose(cond, a, b) => self.choose(id, [*cond, *a, *b], dst),
            ValueKind::Cast(a) => self.cast(id, *a, dst),
            ValueKind::Divisor(a) => self.divisor(id, *a, dst),
            ValueKind::Quotient(x, d, r) => self.quotient(id, [*x, *d, *r], dst),
            ValueKind::Load(memory) => self.load(id, memory, dst),
            // The others are presets.
            ValueKind::Special(_) => {
                self.emit(Instr::Elected { dst }, value.span);
                Ok(())
            }
            ValueKind::Pack(dtype, low, high) => self.pack(id, *dtype, [*low, *high], dst),
            ValueKind::Unpack(dtype, word, high) => self.unpack(id, *dtype, *word, *high, dst),
            ValueKind::Descriptor { shared, bits } => self.descriptor(id, *shared, *bits, dst),
            ValueKind::Int(_) | ValueKind::Float(_) | ValueKind::Param(_) | ValueKind::Thread(_) => Ok(()),
            ValueKind::Block(_) | ValueKind::Reg(_) => Ok(()),
        }
    }

    fn unary(&mut self, id: ValueId, op: UnaryOp, a: ValueId, dst: Slot) -> Result<(), SimError> {
        let (ty, span) = (self.program.values[id].ty, self.program.values[id].span);
        let a = self.value(a)?;
        let instr = match (op, ty) {
            (_, ValueType::Element(dtype)) => Instr::Unary { op, dtype, dst, a },
            (UnaryOp::Neg, _) => {
                let wide = ty == ValueType::Wide;
                Instr::IndexBinary { op: BinaryOp::Sub, wide, quiet: self.quiet, dst, a: self.zero, b: a }
            }
            (UnaryOp::Not, _) => return malformed(format!("{id} is `!` of an index")),
        };
        self.emit(instr, span);
        Ok(())
    }

    /// The right side is evaluated where the left side does not decide.
    fn short_circuit(&mut self, id: ValueId, op: BinaryOp, [a, b]: [ValueId; 2], dst: Slot) -> Result<(), SimError> {
        let span = self.program.values[id].span;
        let a = self.value(a)?;
        self.emit(Instr::Copy { dst, src: a }, span);
        let cond = if op == BinaryOp::And {
            dst
        } else {
            let not = self.temp();
            self.emit(Instr::Unary { op: UnaryOp::Not, dtype: Dtype::Bool, dst: not, a: dst }, span);
            not
        };
        let test = self.emit(Instr::If { cond, target: 0 }, span);
        let b = self.value(b)?;
        self.emit(Instr::Copy { dst, src: b }, span);
        let end = self.emit(Instr::EndIf, span);
        self.land(test, end);
        Ok(())
    }

    fn operation(&mut self, id: ValueId, op: BinaryOp, [a, b]: [ValueId; 2], dst: Slot) -> Result<(), SimError> {
        let values = &self.program.values;
        let operands = values.get(a).map(|v| v.ty).zip(values.get(b).map(|v| v.ty));
        let (a, b) = (self.value(a)?, self.value(b)?);
        let Some((operand, other)) = operands else { return malformed(format!("{id} lacks an operand")) };
        let instr = self.binary(op, operand, other, dst, a, b);
        let Some(instr) = instr else { return malformed(format!("{id}: `{}` of {operand:?}", op.symbol())) };
        self.emit(instr, self.program.values[id].span);
        Ok(())
    }

    fn math(&mut self, id: ValueId, function: MathFn, args: &[ValueId], dst: Slot) -> Result<(), SimError> {
        let (ty, span) = (self.program.values[id].ty, self.program.values[id].span);
        let ValueType::Element(dtype) = ty else { return malformed(format!("{id} is a function of indices")) };
        if args.len() != function.arity() {
            return malformed(format!("{id}: {} takes {} operands", function.name(), function.arity()));
        }
        let mut slots = [self.zero; 3];
        for (slot, arg) in slots.iter_mut().zip(args) {
            *slot = self.value(*arg)?;
        }
        self.emit(Instr::Math { function, dtype, dst, args: slots }, span);
        Ok(())
    }

    fn select(&mut self, id: ValueId, [cond, a, b]: [ValueId; 3], dst: Slot) -> Result<(), SimError> {
        let (cond, a, b) = (self.value(cond)?, self.value(a)?, self.value(b)?);
        self.emit(Instr::Select { dst, cond, a, b }, self.program.values[id].span);
        Ok(())
    }

    fn choose(&mut self, id: ValueId, [cond, a, b]: [ValueId; 3], dst: Slot) -> Result<(), SimError> {
        let span = self.program.values[id].span;
        let cond = self.value(cond)?;
        let test = self.emit(Instr::If { cond, target: 0 }, span);
        let a = self.value(a)?;
        self.emit(Instr::Copy { dst, src: a }, span);
        let other = self.emit(Instr::Else { end: 0 }, span);
        let b = self.value(b)?;
        self.emit(Instr::Copy { dst, src: b }, span);
        let end = self.emit(Instr::EndIf, span);
        self.land(test, other);
        self.land(other, end);
        Ok(())
    }

    fn cast(&mut self, id: ValueId, a: ValueId, dst: Slot) -> Result<(), SimError> {
        let (to, span) = (self.program.values[id].ty, self.program.values[id].span);
        let Some(from) = self.program.values.get(a).map(|v| v.ty) else {
            return malformed(format!("{id} lacks an operand"));
        };
        let a = self.value(a)?;
        self.emit(Instr::Cast { from, to, quiet: self.quiet, dst, a }, span);
        Ok(())
    }

    /// A division by zero is reported where it is.
    fn divisor(&mut self, id: ValueId, a: ValueId, dst: Slot) -> Result<(), SimError> {
        let src = self.value(a)?;
        self.emit(Instr::Copy { dst, src }, self.program.values[id].span);
        Ok(())
    }

    /// The steps that the emitted code takes, so that a wrong reciprocal gives a wrong quotient.
    fn quotient(&mut self, id: ValueId, [x, d, r]: [ValueId; 3], dst: Slot) -> Result<(), SimError> {
        let span = self.program.values[id].span;
        let (x, d, r) = (self.value(x)?, self.value(d)?, self.value(r)?);
        let (bits, rest) = (self.constant(31), self.temp());
        let index = |op, wide, dst, a, b| Instr::IndexBinary { op, wide, quiet: false, dst, a, b };
        self.emit(index(BinaryOp::Mul, true, rest, x, r), span);
        self.emit(index(BinaryOp::Shr, true, dst, rest, bits), span);
        self.emit(index(BinaryOp::Mul, false, rest, dst, d), span);
        self.emit(index(BinaryOp::Sub, false, rest, x, rest), span);
        self.emit(Instr::IndexCompare { op: BinaryOp::Ge, dst: rest, a: rest, b: d }, span);
        self.emit(index(BinaryOp::Add, false, dst, dst, rest), span);
        Ok(())
    }

    fn load(&mut self, id: ValueId, memory: &Memory, dst: Slot) -> Result<(), SimError> {
        let (ty, span) = (self.program.values[id].ty, self.program.values[id].span);
        self.emit(Instr::Copy { dst, src: self.zero }, span);
        let site = self.site(memory, AccessKind::Read, 1)?;
        if ty != ValueType::Element(self.code.sites[site as usize].dtype) {
            return malformed(format!("{id} loads another type than its array holds"));
        }
        self.guarded(memory, site, |_, offset| Ok(Instr::Load { site, offset, dst }))
    }

    fn pack(&mut self, id: ValueId, dtype: Dtype, [low, high]: [ValueId; 2], dst: Slot) -> Result<(), SimError> {
        // Two f32, or two that are rounded already: in the simulator the same numbers.
        let halves = self.program.values.get(low).is_some_and(|v| v.ty == ValueType::Element(dtype));
        let ty = ValueType::Element(if halves { dtype } else { Dtype::F32 });
        self.packed(dtype, &[low, high], ty)?;
        let (low, high) = (self.value(low)?, self.value(high)?);
        self.emit(Instr::Pack { dtype, dst, low, high }, self.program.values[id].span);
        Ok(())
    }

    fn unpack(&mut self, id: ValueId, dtype: Dtype, word: ValueId, high: bool, dst: Slot) -> Result<(), SimError> {
        self.packed(dtype, &[word], ValueType::Element(Dtype::U32))?;
        let word = self.value(word)?;
        self.emit(Instr::Unpack { dtype, dst, word, high }, self.program.values[id].span);
        Ok(())
    }

    fn descriptor(&mut self, id: ValueId, shared: SharedId, bits: u64, dst: Slot) -> Result<(), SimError> {
        let Some(array) = self.program.shared.get(shared) else {
            return malformed(format!("{shared} is not a shared array"));
        };
        // A copy, because it is no index: its upper bits are fields, and nothing is to be said of its size.
        let bits = bits | u64::from((array.offset & 0x3ffff) >> 4);
        let src = self.constant(bits as i64);
        self.emit(Instr::Copy { dst, src }, self.program.values[id].span);
        Ok(())
    }

    fn binary(&self, op: BinaryOp, ty: ValueType, other: ValueType, dst: Slot, a: Slot, b: Slot) -> Option<Instr> {
        use BinaryOp::*;
        let index = |ty| matches!(ty, ValueType::Index | ValueType::Wide);
        match (ty, other) {
            (left, right) if index(left) && index(right) => Some(if op.is_comparison() {
                Instr::IndexCompare { op, dst, a, b }
            } else {
                let wide = left == ValueType::Wide || right == ValueType::Wide;
                Instr::IndexBinary { op, wide, quiet: self.quiet, dst, a, b }
            }),
            (ValueType::Element(dtype), ValueType::Element(right)) if dtype == right => match op {
                _ if dtype.is_float() && op.is_comparison() => Some(Instr::FloatCompare { op, dst, a, b }),
                _ if op.is_comparison() => Some(Instr::IntCompare { op, dtype, dst, a, b }),
                _ => match dtype.class() {
                    DtypeClass::Float(_) => matches!(op, Add | Sub | Mul | Div | Rem | Min | Max)
                        .then_some(Instr::FloatBinary { op, dtype, dst, a, b }),
                    DtypeClass::Bool => {
                        matches!(op, BitAnd | BitOr | BitXor).then_some(Instr::IntBinary { op, dtype, dst, a, b })
                    }
                    DtypeClass::Int(_) => dtype.has_arithmetic().then_some(Instr::IntBinary { op, dtype, dst, a, b }),
                },
            },
            _ => None,
        }
    }

    /// A slot with this number in every lane. Presets are made before anything is compiled, so it is among them.
    fn constant(&self, number: i64) -> Slot {
        let at = self.code.presets.iter().position(|p| *p == Preset::Constant(number));
        at.map_or(self.zero, |at| self.code.regs + at as u32)
    }

    /// Checks the operands of packing and unpacking.
    fn packed(&self, dtype: Dtype, operands: &[ValueId], ty: ValueType) -> Result<(), SimError> {
        let fits = |v: &ValueId| self.program.values.get(*v).is_some_and(|v| v.ty == ty);
        if dtype.is_half() && operands.iter().all(fits) {
            Ok(())
        } else {
            malformed(format!("{operands:?} cannot be packed or unpacked as {dtype}"))
        }
    }

    // ---- memory ----

    pub(super) fn site(&mut self, memory: &Memory, kind: AccessKind, width: u32) -> Result<u32, SimError> {
        let program = self.program;
        let Some(dtype) = program.dtype(memory.space) else {
            return malformed(format!("{:?} does not exist", memory.space));
        };
        let index =
            |v: ValueId| matches!(program.values.get(v).map(|v| v.ty), Some(ValueType::Index | ValueType::Wide));
        if !index(memory.offset) {
            return malformed(format!("the offset {} is not an index", memory.offset));
        }
        let guard = memory.guard.map(|g| g.reason);
        let (span, pc) = (memory.span, self.here());
        let dependent = self.depends(memory.space, kind);
        let scope = self.scope();
        self.code.sites.push(Site { space: memory.space, dtype, kind, width, guard, dependent, scope, span, pc });
        // Shadow cells name a site in 16 bits.
        match u16::try_from(self.code.sites.len()) {
            Ok(len) => Ok(u32::from(len) - 1),
            Err(_) => malformed("more than 65535 memory accesses"),
        }
    }

    /// Emits an access under its guard. `access` makes the instruction from the slot of the offset.
    pub(super) fn guarded(
        &mut self,
        memory: &Memory,
        site: u32,
        access: impl FnOnce(&mut Self, Slot) -> Result<Instr, SimError>,
    ) -> Result<(), SimError> {
        let then = |c: &mut Self, offset| {
            let instr = access(c, offset)?;
            c.emit(instr, memory.span);
            Ok(())
        };
        self.under_guard(memory, site, then, None)
    }

    /// An asynchronous copy, of zeros where the source's guard fails.
    pub(super) fn async_copy(&mut self, to: &Memory, from: &Memory, width: u32) -> Result<(), SimError> {
        if !matches!((to.space, from.space), (Space::Shared(_), Space::Global(_))) {
            return malformed("an asynchronous copy that is not from global to shared memory");
        }
        let (target, source) = (self.site(to, AccessKind::Write, width)?, self.site(from, AccessKind::Read, width)?);
        let [a, b] = [target, source].map(|s| self.code.sites[s as usize].dtype);
        let bytes = width.checked_mul(a.bytes());
        if a != b || !matches!(bytes, Some(4 | 8 | 16)) {
            return malformed(format!("an asynchronous copy of {width} elements of {a} and {b}"));
        }
        let copy = |c: &mut Self, to_slot: Slot| {
            let whole = |c: &mut Self, from_slot: Slot| {
                let instr = Instr::AsyncCopy { to: (target, to_slot), from: Some((source, from_slot)) };
                c.emit(instr, from.span);
                Ok(())
            };
            c.under_guard(from, source, whole, Some(Instr::AsyncCopy { to: (target, to_slot), from: None }))
        };
        self.under_guard(to, target, copy, None)
    }

    /// `access` where a guard holds, given the slot of the offset; `otherwise` where it fails.
    fn under_guard(
        &mut self,
        memory: &Memory,
        site: u32,
        access: impl FnOnce(&mut Self, Slot) -> Result<(), SimError>,
        otherwise: Option<Instr>,
    ) -> Result<(), SimError> {
        let Some(guard) = memory.guard else {
            let offset = self.value(memory.offset)?;
            return access(self, offset);
        };
        let cond = self.value(guard.cond)?;
        let test = self.emit(Instr::Guard { cond, site, target: 0 }, memory.span);
        let base = self.top;
        let offset = self.value(memory.offset)?;
        access(self, offset)?;
        let mut target = self.here();
        if guard.reason == GuardReason::Unproven || otherwise.is_some() {
            target = self.emit(Instr::Else { end: 0 }, memory.span);
            self.top = base;
        }
        let other = target;
        if guard.reason == GuardReason::Unproven {
            self.guard_fired(memory, guard.cond, site)?;
        }
        if let Some(instr) = otherwise {
            self.emit(instr, memory.span);
        }
        if guard.reason == GuardReason::Unproven || otherwise.is_some() {
            let end = self.here();
            self.land(other, end);
        }
        self.emit(Instr::EndIf, memory.span);
        self.land(test, target);
        Ok(())
    }

    /// What is reported where a guard fails that the compiler added. The offset and the indices are evaluated again,
    /// quietly, so that the report can say where the access would have gone.
    fn guard_fired(&mut self, memory: &Memory, cond: ValueId, site: u32) -> Result<(), SimError> {
        let quiet = std::mem::replace(&mut self.quiet, true);
        let offset = if self.has_load(memory.offset) { None } else { Some(self.value(memory.offset)?) };
        let first = self.code.below.len() as u32;
        let mut below = Vec::new();
        self.tested_below(cond, &mut below);
        for index in below {
            let slot = self.value(index)?;
            self.code.below.push((slot, self.program.values[index].span));
        }
        self.quiet = quiet;
        let below = (first, self.code.below.len() as u32);
        self.emit(Instr::GuardFired { site, offset, below }, memory.span);
        Ok(())
    }

    /// The indices that a guard tests for being negative.
    fn tested_below(&self, cond: ValueId, all: &mut Vec<ValueId>) {
        match self.program.values.get(cond).map(|v| &v.kind) {
            Some(ValueKind::Binary(BinaryOp::And, a, b)) => {
                self.tested_below(*a, all);
                self.tested_below(*b, all);
            }
            Some(ValueKind::Binary(BinaryOp::Ge, index, least)) => {
                let is_zero = self.program.values.get(*least).is_some_and(|v| v.kind == ValueKind::Int(0));
                if is_zero && self.program.values.get(*index).is_some() {
                    all.push(*index);
                }
            }
            _ => {}
        }
    }

    fn has_load(&self, id: ValueId) -> bool {
        match self.program.values.get(id).map(|v| &v.kind) {
            Some(ValueKind::Load(_)) => true,
            Some(ValueKind::Unary(_, a) | ValueKind::Cast(a) | ValueKind::Divisor(a)) => self.has_load(*a),
            Some(ValueKind::Binary(_, a, b)) => self.has_load(*a) || self.has_load(*b),
            Some(ValueKind::Math(_, args)) => args.iter().any(|a| self.has_load(*a)),
            Some(ValueKind::Pack(_, a, b)) => self.has_load(*a) || self.has_load(*b),
            Some(ValueKind::Unpack(_, a, _)) => self.has_load(*a),
            Some(ValueKind::Select(c, a, b) | ValueKind::Choose(c, a, b) | ValueKind::Quotient(c, a, b)) => {
                self.has_load(*c) || self.has_load(*a) || self.has_load(*b)
            }
            _ => false,
        }
    }
}
