//! What writes a program: values, registers and operations, one behind the other. The walk over a kernel writes with it, and so does
//! every pass over a program.

use super::term::Term;
use crate::diag::{Bug, Diagnostic};
use crate::ir::{BinaryOp, Dtype, SpanId};
use crate::lowered::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A program, and the place in it that is being written.
pub(super) struct Builder {
    pub(super) program: Program,
    /// Operations of the block being written.
    pub(super) ops: Vec<Op>,
    /// Where what is being written stands in the author's text.
    pub(super) span: SpanId,
    /// Every name in the program.
    names: BTreeSet<String>,
    /// Sums of indices that are computed before they are added to something.
    pub(super) signed_sums: BTreeSet<ValueId>,
    /// What was come upon and cannot be: the pass ends with the first of these.
    bugs: RefCell<Vec<Bug>>,
}

impl Builder {
    /// Writes into a program, behind nothing.
    pub(super) fn new(program: Program) -> Self {
        let params = program.params.iter().map(|p| &p.name);
        let memory = program.shared.values().map(|a| &a.name).chain(program.barriers.values().map(|b| &b.name));
        let own = program.regs.values().map(|r| &r.name).chain(program.locals.values().map(|l| &l.name));
        let names = params.chain(memory).chain(own).cloned().collect();
        let (ops, span, signed_sums, bugs) = (Vec::new(), SpanId::from_u32(0), BTreeSet::new(), RefCell::default());
        Builder { program, ops, span, names, signed_sums, bugs }
    }

    /// A pass over a program: its operations become what `f` makes of them.
    pub(super) fn rewrite(
        mut program: Program,
        f: impl FnOnce(&mut Builder, Vec<Op>) -> Vec<Op>,
    ) -> Result<Program, Vec<Diagnostic>> {
        let ops = std::mem::take(&mut program.body);
        let mut builder = Builder::new(program);
        builder.program.body = f(&mut builder, ops);
        builder.finish()
    }

    /// The program, unless it has something that cannot be. In debug builds it is verified as far as it can be before it has its place
    /// in shared memory and its waits.
    pub(super) fn finish(self) -> Result<Program, Vec<Diagnostic>> {
        let found = self.bugs.into_inner().into_iter().next();
        #[cfg(any(test, feature = "sim"))]
        let found = match cfg!(debug_assertions) && found.is_none() && !self.program.body.is_empty() {
            true => crate::verify::program::unfinished(&self.program).err(),
            false => found,
        };
        match found {
            Some(bug) => Err(vec![bug.diagnostic()]),
            None => Ok(self.program),
        }
    }

    /// A name for `wanted` that nothing in the program has. What C makes of it is the emitter's matter.
    pub(super) fn name(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut suffix = 1;
        while !self.names.insert(name.clone()) {
            name = format!("{wanted}_{suffix}");
            suffix += 1;
        }
        name
    }

    /// Adds a C parameter. What it is called.
    pub(super) fn parameter(&mut self, wanted: &str, ty: ValueType, kind: ParameterKind) -> String {
        let name = self.name(wanted);
        self.program.params.push(Parameter { name: name.clone(), ty, kind });
        name
    }

    pub(super) fn reg(&mut self, name: &str, ty: ValueType, mutable: bool) -> RegId {
        let name = self.name(name);
        self.program.regs.push(Reg { name, ty, mutable })
    }

    /// A register that begins with a value, and is assigned others.
    pub(super) fn variable(&mut self, name: &str, ty: ValueType, value: impl Into<Term>) -> RegId {
        let reg = self.reg(name, ty, true);
        self.define(reg, value);
        reg
    }

    /// A register that is given its first value later.
    pub(super) fn undefined(&mut self, name: &str, ty: ValueType) -> RegId {
        let reg = self.reg(name, ty, true);
        self.op(OpKind::Let { reg, value: None });
        reg
    }

    /// An array of a thread's own, declared here.
    pub(super) fn local(&mut self, name: &str, dtype: Dtype, len: u32) -> LocalId {
        let name = self.name(name);
        let local = self.program.locals.push(LocalArray { name, dtype, len });
        self.op(OpKind::Local { local });
        local
    }

    pub(super) fn op(&mut self, mut kind: OpKind) {
        // An index is held in what its register has. A loop's end may be one that the index is never at: it is compared as it is.
        if let OpKind::Let { reg, value: Some(value) }
        | OpKind::Set { reg, value }
        | OpKind::For { reg, start: value, .. } = &mut kind
        {
            *value = self.fit(*value, self.program.regs[*reg].ty);
        }
        self.ops.push(Op { kind, span: self.span });
    }

    /// A register's declaration, with its first value.
    pub(super) fn define(&mut self, reg: RegId, value: impl Into<Term>) {
        let value = Some(self.eval(value));
        self.op(OpKind::Let { reg, value });
    }

    pub(super) fn set(&mut self, reg: RegId, value: impl Into<Term>) {
        let value = self.eval(value);
        self.op(OpKind::Set { reg, value });
    }

    /// Operations that are executed where a condition holds.
    pub(super) fn guarded(&mut self, cond: impl Into<Term>, then: Vec<Op>) {
        let cond = self.eval(cond);
        self.op(OpKind::If { cond, then, otherwise: Vec::new() });
    }

    /// An element of memory, which nothing guards.
    pub(super) fn at(&mut self, space: impl Into<Space>, offset: impl Into<Term>) -> Memory {
        Memory { space: space.into(), offset: self.eval(offset), guard: None, span: self.span }
    }

    /// What memory holds.
    pub(super) fn fetch(&mut self, memory: Memory) -> ValueId {
        let dtype = self.program.dtype(memory.space).unwrap_or_else(|| {
            self.bug("memory of no array and no tensor");
            Dtype::F32
        });
        self.push(ValueKind::Load(memory), ValueType::Element(dtype))
    }

    pub(super) fn store(&mut self, memory: Memory, value: ValueId) {
        self.op(OpKind::Store { memory, value });
    }

    /// Stores to memory what other memory holds, in its element type.
    pub(super) fn carry(&mut self, from: Memory, to: Memory) {
        let value = self.fetch(from);
        let value = match self.program.dtype(to.space) {
            Some(dtype) => self.converted(value, dtype),
            None => value,
        };
        self.store(to, value);
    }

    /// The element `offset` of an array.
    pub(super) fn get(&mut self, space: impl Into<Space>, offset: impl Into<Term>) -> ValueId {
        let memory = self.at(space, offset);
        self.fetch(memory)
    }

    /// Sets the element `offset` of an array.
    pub(super) fn put(&mut self, space: impl Into<Space>, offset: impl Into<Term>, value: ValueId) {
        let memory = self.at(space, offset);
        self.store(memory, value);
    }

    /// Loads `width` elements at once into an array, from its element `start` on.
    pub(super) fn vector_load(&mut self, local: LocalId, start: impl Into<Term>, memory: Memory, width: u32) {
        let start = self.eval(start);
        self.op(OpKind::VectorLoad { local, start, memory, width });
    }

    /// Stores `width` elements of an array at once, from its element `start` on.
    pub(super) fn vector_store(&mut self, memory: Memory, local: LocalId, start: impl Into<Term>, width: u32) {
        let start = self.eval(start);
        self.op(OpKind::VectorStore { memory, local, start, width });
    }

    /// A value in an element type.
    pub(super) fn converted(&mut self, value: ValueId, dtype: Dtype) -> ValueId {
        let ty = ValueType::Element(dtype);
        if self.program.values[value].ty == ty { value } else { self.push(ValueKind::Cast(value), ty) }
    }

    /// Writes with `f` into a list of operations of its own.
    pub(super) fn nested(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Op> {
        let outer = std::mem::take(&mut self.ops);
        f(self);
        std::mem::replace(&mut self.ops, outer)
    }

    /// Something that cannot be, at the statement being lowered: the pass ends with an error that says so.
    pub(super) fn bug(&self, text: &str) {
        self.bugs.borrow_mut().push(Bug::new(self.span, text));
    }

    pub(super) fn remark(&mut self, kind: RemarkKind, span: SpanId, text: String) {
        let remark = Remark { kind, text, span };
        // A statement may be lowered several times.
        if !self.program.remarks.contains(&remark) {
            self.program.remarks.push(remark);
        }
    }

    /// A remark on what is being written.
    pub(super) fn remark_here(&mut self, kind: RemarkKind, text: String) {
        self.remark(kind, self.span, text);
    }

    pub(super) fn push(&mut self, kind: ValueKind, ty: ValueType) -> ValueId {
        self.program.values.push(Value { kind, ty, span: self.span })
    }

    pub(super) fn int(&mut self, number: i64) -> ValueId {
        self.push(ValueKind::Int(number), ValueType::Index)
    }

    pub(super) fn zero(&mut self, ty: ValueType) -> ValueId {
        self.push(ty.zero(), ty)
    }

    /// `op(a, b)`; of two indices in 64 bits where either is held in such.
    pub(super) fn binary(&mut self, op: BinaryOp, a: impl Into<Term>, b: impl Into<Term>) -> ValueId {
        let (a, b) = (self.eval(a), self.eval(b));
        self.operation(op, a, b)
    }

    fn operation(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        let (a, b) = match op {
            BinaryOp::Shl | BinaryOp::Shr => (a, self.fit(b, ValueType::Index)),
            _ => self.alike(a, b),
        };
        let ty = match op {
            _ if op.is_comparison() => ValueType::BOOL,
            _ => self.program.values[a].ty,
        };
        // Adding nothing is left out, so that the text reads as an author would write it.
        let is = |v: ValueId, n: i64| matches!(self.program.values[v].kind, ValueKind::Int(x) if x == n);
        let whole = matches!(ty, ValueType::Index | ValueType::Wide);
        match op {
            BinaryOp::Add if whole && is(b, 0) => return a,
            BinaryOp::Add if whole && is(a, 0) => return b,
            BinaryOp::Mul | BinaryOp::Div if whole && is(b, 1) => return a,
            BinaryOp::Mul if whole && is(a, 1) => return b,
            _ => {}
        }
        let is_sum = op == BinaryOp::Add && whole;
        let b = if is_sum { self.apart(b) } else { b };
        let value = self.push(ValueKind::Binary(op, a, b), ty);
        // As a right operand it would be taken apart from its left operand on.
        if is_sum && self.signed_sums.contains(&a) {
            self.signed_sums.insert(value);
        }
        value
    }

    /// `op` of what there is so far, if anything, and of what comes next.
    pub(super) fn joined(&mut self, op: BinaryOp, all: Option<ValueId>, next: impl Into<Term>) -> ValueId {
        match all {
            None => self.eval(next),
            Some(all) => self.binary(op, all, next),
        }
    }

    /// The right operand of a sum of indices, marked where it must be computed first and nothing in it says so.
    fn apart(&mut self, operand: ValueId) -> ValueId {
        if !self.signed_sums.contains(&operand) || self.program.is_apart(operand) {
            return operand;
        }
        let ty = self.program.values[operand].ty;
        self.push(ValueKind::Cast(operand), ty)
    }

    pub(super) fn widen(&mut self, value: ValueId) -> ValueId {
        let number = self.program.values[value].kind.as_int();
        self.push(number.map_or(ValueKind::Cast(value), ValueKind::Int), ValueType::Wide)
    }

    /// An index in `ty`; any other value as it is.
    pub(super) fn fit(&mut self, value: ValueId, ty: ValueType) -> ValueId {
        match (self.program.values[value].ty, ty) {
            (ValueType::Index, ValueType::Wide) => self.widen(value),
            (ValueType::Wide, ValueType::Index) => {
                let number = self.program.values[value].kind.as_int().filter(|n| i32::try_from(*n).is_ok());
                self.push(number.map_or(ValueKind::Cast(value), ValueKind::Int), ValueType::Index)
            }
            _ => value,
        }
    }

    /// Two values in one type.
    pub(super) fn alike(&mut self, a: ValueId, b: ValueId) -> (ValueId, ValueId) {
        match (self.program.values[a].ty, self.program.values[b].ty) {
            (ValueType::Wide, ValueType::Index) => (a, self.widen(b)),
            (ValueType::Index, ValueType::Wide) => (self.widen(a), b),
            _ => (a, b),
        }
    }

    pub(super) fn read(&mut self, reg: RegId) -> ValueId {
        let ty = self.program.regs[reg].ty;
        self.push(ValueKind::Reg(reg), ty)
    }

    /// The C parameter of this kind.
    pub(super) fn param(&mut self, kind: ParameterKind) -> ValueId {
        let found = self.program.params.iter().position(|p| p.kind == kind);
        let index = found.unwrap_or_else(|| {
            self.bug(&format!("the program has no parameter {kind:?}"));
            0
        });
        let ty = self.program.params.get(index).map_or(ValueType::Index, |p| p.ty);
        self.push(ValueKind::Param(index as u32), ty)
    }

    /// A value that is evaluated once, here.
    pub(super) fn once(&mut self, name: &str, value: impl Into<Term>) -> ValueId {
        let value = self.eval(value);
        if matches!(self.program.values[value].kind, ValueKind::Int(_) | ValueKind::Param(_)) {
            return value;
        }
        let reg = self.reg(name, self.program.values[value].ty, false);
        self.define(reg, value);
        self.read(reg)
    }
}
