//! Values of the lowered program. A type is written where the operands do not give it: of literals and casts always, as `7wide` and
//! `wide(x)`, of anything else as `(x: wide)` where it is not [`implied`].

use super::program::{ProgramPrinter, call, type_name};
use super::{Piece, float};
use crate::ir::{Dtype, MathFn, UnaryOp};
use crate::lowered::{GuardReason, Memory, Program, Special, ValueId, ValueKind, ValueType};

const AXES: [&str; 3] = ["x", "y", "z"];

impl ProgramPrinter<'_> {
    /// A value's text.
    pub(super) fn value(&self, id: ValueId) -> String {
        self.piece(id).text
    }

    fn piece(&self, id: ValueId) -> Piece {
        let Some(value) = self.program.values.get(id) else { return Piece::atom(format!("?{id}")) };
        let piece = self.untyped(id);
        match implied(self.program, &value.kind) {
            Some(ty) if ty != value.ty => Piece::atom(format!("({}: {})", piece.text, type_name(value.ty))),
            _ => piece,
        }
    }

    fn is_number(&self, id: ValueId) -> bool {
        matches!(self.program.values.get(id).map(|v| &v.kind), Some(ValueKind::Int(_) | ValueKind::Float(_)))
    }

    /// A value's text where its type is what it seems to be.
    fn untyped(&self, id: ValueId) -> Piece {
        let value = &self.program.values[id];
        let axis = |axis: u8| AXES.get(usize::from(axis)).copied().unwrap_or("?");
        match &value.kind {
            ValueKind::Int(number) => {
                let text = match value.ty {
                    ValueType::Index => number.to_string(),
                    ty => format!("{number}{}", type_name(ty)),
                };
                Piece { tightness: literal(&text), text }
            }
            ValueKind::Float(number) => {
                let text = float(*number, type_name(value.ty));
                Piece { tightness: literal(&text), text }
            }
            ValueKind::Param(position) => Piece::atom(self.parameter(*position)),
            ValueKind::Thread(a) => Piece::atom(format!("thread.{}", axis(*a))),
            ValueKind::Block(a) => Piece::atom(format!("block.{}", axis(*a))),
            ValueKind::Reg(reg) => Piece::atom(self.reg(*reg)),
            // `-5` is a number with a sign.
            ValueKind::Unary(UnaryOp::Neg, a) if self.is_number(*a) => {
                Piece { text: format!("-({})", self.value(*a)), tightness: super::Tightness::PREFIX }
            }
            ValueKind::Unary(op, a) => Piece::prefix(if *op == UnaryOp::Neg { "-" } else { "!" }, self.piece(*a)),
            ValueKind::Binary(op, a, b) => Piece::binary(*op, self.piece(*a), self.piece(*b)),
            ValueKind::Math(function, args) => Piece::atom(call(function.name(), args.iter().map(|a| self.value(*a)))),
            ValueKind::Select(c, a, b) => Piece::atom(call("select", [c, a, b].map(|v| self.value(*v)))),
            ValueKind::Choose(c, a, b) => Piece::atom(call("choose", [c, a, b].map(|v| self.value(*v)))),
            ValueKind::Divisor(a) => Piece::atom(call("divisor", [self.value(*a)])),
            ValueKind::Quotient(x, d, r) => Piece::atom(call("quotient", [x, d, r].map(|v| self.value(*v)))),
            ValueKind::Cast(a) => Piece::atom(call(type_name(value.ty), [self.value(*a)])),
            ValueKind::Load(memory) => {
                let text = self.memory(memory, None);
                // A guard is part of the load.
                Piece::atom(if memory.guard.is_some() { format!("({text})") } else { text })
            }
            ValueKind::Special(special) => Piece::atom(match special {
                Special::Warp => "thread.warp".to_owned(),
                Special::Lane => "thread.lane".to_owned(),
                Special::ClusterRank => "cluster.rank".to_owned(),
                Special::Grid(a) => format!("grid.{}", axis(*a)),
                Special::Elected => "thread.elected".to_owned(),
            }),
            ValueKind::Pack(dtype, low, high) => {
                Piece::atom(call(&format!("pack_{dtype}"), [low, high].map(|v| self.value(*v))))
            }
            ValueKind::Unpack(dtype, word, high) => {
                let half = if *high { "high" } else { "low" };
                Piece::atom(call(&format!("unpack_{dtype}_{half}"), [self.value(*word)]))
            }
            ValueKind::Descriptor { shared, bits } => {
                Piece::atom(call("descriptor", [self.shared(*shared), format!("{bits:#018x}")]))
            }
        }
    }

    /// `x[offset]`, `x[offset; width]` for a vector, and the guard.
    pub(super) fn memory(&self, memory: &Memory, width: Option<u32>) -> String {
        let width = width.map(|w| format!("; {w}")).unwrap_or_default();
        let guard = memory.guard.map(|guard| {
            let why = match guard.reason {
                GuardReason::Masked => "if",
                GuardReason::Unproven => "guarded by",
            };
            format!(" {why} {}", self.value(guard.cond))
        });
        let (space, offset) = (self.space(memory.space), self.value(memory.offset));
        format!("{space}[{offset}{width}]{}", guard.unwrap_or_default())
    }
}

/// The type that a value's text implies: what its operands and places make of it. `None` where the text names the type itself,
/// or where an id points nowhere.
pub(super) fn implied(program: &Program, kind: &ValueKind) -> Option<ValueType> {
    let ty = |id: &ValueId| program.values.get(*id).map(|v| v.ty);
    match kind {
        ValueKind::Int(_) | ValueKind::Float(_) | ValueKind::Cast(_) => None,
        ValueKind::Param(position) => program.params.get(*position as usize).map(|p| p.ty),
        ValueKind::Thread(_) | ValueKind::Block(_) => Some(ValueType::Index),
        ValueKind::Special(Special::Elected) => Some(ValueType::BOOL),
        ValueKind::Special(Special::Warp | Special::Lane | Special::ClusterRank | Special::Grid(_)) => {
            Some(ValueType::Index)
        }
        ValueKind::Reg(reg) => program.regs.get(*reg).map(|r| r.ty),
        ValueKind::Binary(op, ..) if op.is_comparison() => Some(ValueType::BOOL),
        ValueKind::Math(MathFn::ToBits, _) => Some(ValueType::Element(Dtype::U32)),
        ValueKind::Math(_, args) => args.first().and_then(ty),
        ValueKind::Unary(_, a) | ValueKind::Binary(_, a, _) | ValueKind::Divisor(a) => ty(a),
        ValueKind::Quotient(..) => Some(ValueType::Index),
        ValueKind::Select(_, a, _) | ValueKind::Choose(_, a, _) => ty(a),
        ValueKind::Load(memory) => program.dtype(memory.space).map(ValueType::Element),
        ValueKind::Pack(..) => Some(ValueType::Element(Dtype::U32)),
        ValueKind::Unpack(..) => Some(ValueType::Element(Dtype::F32)),
        ValueKind::Descriptor { .. } => Some(ValueType::Wide),
    }
}

fn literal(text: &str) -> super::Tightness {
    if text.starts_with('-') { super::Tightness::PREFIX } else { super::Tightness::ATOM }
}
