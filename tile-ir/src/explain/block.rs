//! One representative block: what its threads know of their integers.
//!
//! Every value is known or not. What comes from memory is not; nor is what is computed from that. Addresses, guards
//! and trip counts are made of indices, dims and constants, and so are known, unless the author's data decide.

use super::occupancy::WARP;
use super::shape::Shape;
use crate::ir::{BinaryOp, DtypeClass, EntityRef, UnaryOp};
use crate::lowered::{HostValues, ParameterKind, Program, RegId, Special, ValueId, ValueKind, ValueType, fold};

/// A value that does not come from memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Known {
    Int(i64),
    Float(f64),
    /// A condition that holds in this share of the blocks.
    Share(f64),
}

impl Known {
    pub fn int(self) -> Option<i64> {
        match self {
            Known::Int(value) => Some(value),
            Known::Float(_) | Known::Share(_) => None,
        }
    }

    /// Converted to `ty`; a share only to `bool`.
    fn cast(self, ty: ValueType) -> Option<Known> {
        let dtype = match (self, ty) {
            (Known::Share(_), _) => return (ty == ValueType::BOOL).then_some(self),
            (Known::Int(_), ValueType::Index | ValueType::Wide) => return Some(self),
            (Known::Float(a), ValueType::Index | ValueType::Wide) => return Some(Known::Int(a as i64)),
            (_, ValueType::Element(dtype)) => dtype,
        };
        Some(match (self, dtype.class()) {
            (Known::Int(a), DtypeClass::Float(_)) => Known::Float(a as f64),
            (Known::Int(a), DtypeClass::Int(format)) => Known::Int(format.wrapped(a)),
            (Known::Int(a), DtypeClass::Bool) => Known::Int(i64::from(a != 0)),
            (Known::Float(a), DtypeClass::Int(format)) => {
                let (least, most) = format.range();
                Known::Int((a as i64).clamp(least, most))
            }
            (Known::Float(a), DtypeClass::Bool) => Known::Int(i64::from(a != 0.0)),
            (Known::Float(_), DtypeClass::Float(_)) | (Known::Share(_), _) => self,
        })
    }
}

/// Block 0 of a launch: the values of its threads' registers.
pub(super) struct Block<'p> {
    /// Its number in its cluster.
    pub rank: u32,
    program: &'p Program,
    /// By position in `Program::params`.
    params: Vec<Option<Known>>,
    /// Threads on x and y; z has the rest.
    extents: [usize; 2],
    /// Blocks on x, y and z.
    grid: [Option<i64>; 3],
    /// By register, then by thread.
    regs: Vec<Vec<Option<Known>>>,
}

impl<'p> Block<'p> {
    pub fn new(program: &'p Program, shape: &Shape, threads: usize) -> Block<'p> {
        let params = program.params.iter().map(|p| match p.kind {
            // Allocations are aligned.
            ParameterKind::Pointer(_) => Some(Known::Int(0)),
            ParameterKind::TensorMap(_) => None,
            ParameterKind::Log | ParameterKind::LogFunction => None,
            // What is explained is a launch by itself.
            ParameterKind::Ahead(_) => Some(Known::Int(0)),
            ParameterKind::Computed(place) => {
                program.launch.computed.get(place as usize).and_then(|number| number.evaluate(shape)).map(Known::Int)
            }
            ParameterKind::Dim(dim) => Some(Known::Int(shape.dim(dim))),
            ParameterKind::Stride(tensor, axis) => Some(Known::Int(shape.stride(tensor, axis))),
            ParameterKind::Scalar(param) => shape.given_scalar(param).map(|value| match p.ty {
                ValueType::Element(dtype) if dtype.is_float() => Known::Float(value),
                _ => Known::Int(value as i64),
            }),
        });
        let [x, y, _] = program.launch.threads.map(|t| t.max(1) as usize);
        Block {
            program,
            rank: 0,
            params: params.collect(),
            extents: [x, y],
            grid: [0, 1, 2].map(|axis: usize| program.launch.grid[axis].evaluate(shape)),
            regs: vec![vec![None; threads]; program.regs.len()],
        }
    }

    /// Gives a thread's register a value.
    pub fn set(&mut self, reg: RegId, thread: usize, value: Option<Known>) {
        if let Some(slot) = self.regs.get_mut(reg.index()).and_then(|threads| threads.get_mut(thread)) {
            *slot = value;
        }
    }

    /// In what share of the blocks a condition holds for a thread: 0 or 1 where all blocks are alike.
    pub fn share(&self, value: ValueId, thread: usize) -> Option<f64> {
        match self.value(value, thread)? {
            Known::Int(value) => Some(if value != 0 { 1.0 } else { 0.0 }),
            Known::Share(share) => Some(share),
            Known::Float(_) => None,
        }
    }

    /// A condition's value for a thread.
    pub fn condition(&self, value: ValueId, thread: usize) -> Option<bool> {
        Some(self.value(value, thread)?.int()? != 0)
    }

    /// An integer's value for a thread.
    pub fn int(&self, value: ValueId, thread: usize) -> Option<i64> {
        self.value(value, thread)?.int()
    }

    /// A value for a thread; `None` where it depends on memory or has none.
    pub fn value(&self, value: ValueId, thread: usize) -> Option<Known> {
        if let Some(arrival) = self.program.arrivals.iter().find(|a| a.last == value) {
            return self.int(arrival.of, thread).filter(|of| *of >= 1).map(|of| Known::Share(1.0 / of as f64));
        }
        let value = self.program.values.get(value)?;
        Some(match &value.kind {
            ValueKind::Int(value) => Known::Int(*value),
            ValueKind::Float(value) => Known::Float(*value),
            ValueKind::Param(position) => (*self.params.get(*position as usize)?)?,
            ValueKind::Thread(axis) => Known::Int(self.thread(*axis, thread)),
            // The representative block is the first.
            ValueKind::Block(_) => Known::Int(0),
            ValueKind::Reg(reg) => (*self.regs.get(reg.index())?.get(thread)?)?,
            ValueKind::Unary(op, a) => match (op, self.value(*a, thread)?, value.ty) {
                (UnaryOp::Neg, Known::Int(a), _) => Known::Int(a.checked_neg()?),
                (UnaryOp::Neg, Known::Float(a), _) => Known::Float(-a),
                (UnaryOp::Not, Known::Int(a), ValueType::BOOL) => Known::Int(i64::from(a == 0)),
                (UnaryOp::Not, Known::Int(a), _) => Known::Int(!a),
                (UnaryOp::Not, Known::Share(share), _) => Known::Share(1.0 - share),
                (UnaryOp::Not, Known::Float(_), _) | (UnaryOp::Neg, Known::Share(_), _) => return None,
            },
            ValueKind::Binary(op, a, b) => return self.binary(*op, *a, *b, thread),
            ValueKind::Divisor(a) => return self.value(*a, thread),
            ValueKind::Quotient(x, d, _) => return self.binary(BinaryOp::Div, *x, *d, thread),
            ValueKind::Select(cond, a, b) | ValueKind::Choose(cond, a, b) => {
                return self.value(if self.condition(*cond, thread)? { *a } else { *b }, thread);
            }
            ValueKind::Cast(a) => self.value(*a, thread)?.cast(value.ty)?,
            ValueKind::Special(special) => match special {
                Special::Warp => Known::Int((thread / WARP as usize) as i64),
                Special::Lane => Known::Int((thread % WARP as usize) as i64),
                Special::ClusterRank => Known::Int(i64::from(self.rank)),
                Special::Grid(axis) => Known::Int((*self.grid.get(usize::from(*axis))?)?),
                Special::Elected => Known::Int(i64::from(thread.is_multiple_of(WARP as usize))),
            },
            // Addresses in shared memory, of which only differences matter here.
            ValueKind::Descriptor { bits, .. } => Known::Int(*bits as i64),
            ValueKind::Math(..) | ValueKind::Load(_) | ValueKind::Pack(..) | ValueKind::Unpack(..) => return None,
        })
    }

    fn binary(&self, op: BinaryOp, a: ValueId, b: ValueId, thread: usize) -> Option<Known> {
        let (a, b) = (self.value(a, thread), || self.value(b, thread));
        // One side decides, whether or not the other is known.
        match (op, a) {
            (BinaryOp::And, Some(Known::Int(0))) => return Some(Known::Int(0)),
            (BinaryOp::Or, Some(Known::Int(a))) if a != 0 => return Some(Known::Int(1)),
            (BinaryOp::And, None) if b() == Some(Known::Int(0)) => return Some(Known::Int(0)),
            // The other side is decided by the same threads in every block.
            (BinaryOp::And, Some(Known::Int(_))) | (BinaryOp::Or, Some(Known::Int(0))) => {
                if let Some(Known::Share(share)) = b() {
                    return Some(Known::Share(share));
                }
            }
            (BinaryOp::And, Some(Known::Share(share))) => {
                return b()?.int().map(|b| if b != 0 { Known::Share(share) } else { Known::Int(0) });
            }
            (BinaryOp::Or, Some(Known::Share(share))) => {
                return b()?.int().map(|b| if b != 0 { Known::Int(1) } else { Known::Share(share) });
            }
            _ => {}
        }
        match (a?, b()?) {
            (Known::Int(a), Known::Int(b)) => fold(op, a, b).map(Known::Int),
            (Known::Float(a), Known::Float(b)) => {
                let holds = match op {
                    BinaryOp::Lt => a < b,
                    BinaryOp::Le => a <= b,
                    BinaryOp::Gt => a > b,
                    BinaryOp::Ge => a >= b,
                    BinaryOp::Eq => a == b,
                    BinaryOp::Ne => a != b,
                    // Floating-point arithmetic decides no address.
                    _ => return None,
                };
                Some(Known::Int(i64::from(holds)))
            }
            _ => None,
        }
    }

    fn thread(&self, axis: u8, thread: usize) -> i64 {
        let [x, y] = self.extents;
        (match axis {
            0 => thread % x,
            1 => thread / x % y,
            _ => thread / (x * y),
        }) as i64
    }
}
