//! Values of the lowered program. Types that the operands do not give are written: literals and casts.

use super::program::{ProgramPrinter, call, type_name};
use super::{Piece, float};
use crate::ir::UnaryOp;
use crate::lowered::{GuardReason, Memory, Special, ValueId, ValueKind, ValueType};

const AXES: [&str; 3] = ["x", "y", "z"];

impl ProgramPrinter<'_> {
    /// A value's text.
    pub(super) fn value(&self, id: ValueId) -> String {
        self.piece(id).text
    }

    fn piece(&self, id: ValueId) -> Piece {
        let Some(value) = self.program.values.get(id) else { return Piece::atom(format!("?{id}")) };
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
            ValueKind::Unary(op, a) => Piece::prefix(if *op == UnaryOp::Neg { "-" } else { "!" }, self.piece(*a)),
            ValueKind::Binary(op, a, b) => Piece::binary(*op, self.piece(*a), self.piece(*b)),
            ValueKind::Math(function, args) => Piece::atom(call(function.name(), args.iter().map(|a| self.value(*a)))),
            ValueKind::Select(c, a, b) => Piece::atom(call("select", [c, a, b].map(|v| self.value(*v)))),
            ValueKind::Choose(c, a, b) => Piece::atom(call("choose", [c, a, b].map(|v| self.value(*v)))),
            ValueKind::Divisor(a) => Piece::atom(call("divisor", [self.value(*a)])),
            ValueKind::Cast(a) => Piece::atom(call(type_name(value.ty), [self.value(*a)])),
            ValueKind::Load(memory) => {
                let text = self.memory(memory, None);
                // A guard is part of the load.
                Piece::atom(if memory.guard.is_some() { format!("({text})") } else { text })
            }
            ValueKind::Special(special) => Piece::atom(match special {
                Special::Warp => "warp".to_owned(),
                Special::Lane => "lane".to_owned(),
                Special::ClusterRank => "cluster rank".to_owned(),
                Special::Grid(a) => format!("grid.{}", axis(*a)),
                Special::Elected => "elected".to_owned(),
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

fn literal(text: &str) -> super::Tightness {
    if text.starts_with('-') { super::Tightness::PREFIX } else { super::Tightness::ATOM }
}
