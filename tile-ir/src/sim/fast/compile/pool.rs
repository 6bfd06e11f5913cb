//! Registers by kind: variables keep theirs, temporaries are handed out and taken back.

use super::super::code::{FileSize, Kind, Loc, MaskId};
use super::Value;

#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) floats: Pool<f32>,
    pub(super) ints: Pool<u32>,
    pub(super) indices: Pool<i64>,
    pub(super) bools: Pool<bool>,
    masks: u32,
    free_masks: Vec<MaskId>,
}

/// One kind's registers.
#[derive(Debug, Default)]
pub(super) struct Pool<T> {
    lanes: Vec<Use>,
    scalars: Vec<(T, Use)>,
    free_lanes: Vec<u32>,
    free_scalars: Vec<u32>,
}

/// What a register is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Handed out until freed.
    Temporary,
    Free,
    /// A variable, or an element of a per-thread array.
    Kept,
    /// Never written.
    Constant,
}

impl<T: Copy + Default + PartialEq> Pool<T> {
    pub(super) fn size(&self) -> FileSize<T> {
        FileSize { lanes: self.lanes.len() as u32, scalars: self.scalars.iter().map(|(value, _)| *value).collect() }
    }

    fn take_lanes(&mut self) -> u32 {
        let register = self.free_lanes.pop().unwrap_or_else(|| {
            self.lanes.push(Use::Free);
            self.lanes.len() as u32 - 1
        });
        self.lanes[register as usize] = Use::Temporary;
        register
    }

    fn take_scalar(&mut self) -> u32 {
        let scalar = self.free_scalars.pop().unwrap_or_else(|| {
            self.scalars.push((T::default(), Use::Free));
            self.scalars.len() as u32 - 1
        });
        self.scalars[scalar as usize].1 = Use::Temporary;
        scalar
    }

    fn fresh(&mut self, varies: bool) -> Loc {
        if varies {
            self.lanes.push(Use::Kept);
            Loc::Lanes(self.lanes.len() as u32 - 1)
        } else {
            self.scalars.push((T::default(), Use::Kept));
            Loc::Scalar(self.scalars.len() as u32 - 1)
        }
    }

    fn run(&mut self, count: u32) -> u32 {
        let first = self.lanes.len() as u32;
        self.lanes.extend(std::iter::repeat_n(Use::Kept, count as usize));
        first
    }

    /// `same` is equality of bits, so that -0 and +0 stay two constants.
    pub(super) fn constant(&mut self, value: T, same: impl Fn(T, T) -> bool) -> Loc {
        let known = self.scalars.iter().position(|(v, role)| *role == Use::Constant && same(*v, value));
        Loc::Scalar(known.unwrap_or_else(|| {
            self.scalars.push((value, Use::Constant));
            self.scalars.len() - 1
        }) as u32)
    }

    fn free(&mut self, loc: Loc) {
        match loc {
            Loc::Lanes(register) if self.lanes[register as usize] == Use::Temporary => {
                self.lanes[register as usize] = Use::Free;
                self.free_lanes.push(register);
            }
            Loc::Scalar(scalar) if self.scalars[scalar as usize].1 == Use::Temporary => {
                self.scalars[scalar as usize].1 = Use::Free;
                self.free_scalars.push(scalar);
            }
            _ => {}
        }
    }

    fn is_constant(&self, loc: Loc) -> bool {
        matches!(loc, Loc::Scalar(scalar) if self.scalars[scalar as usize].1 == Use::Constant)
    }
}

macro_rules! each {
    ($self:ident, $kind:expr, |$pool:ident| $body:expr) => {
        match $kind {
            Kind::Float => {
                let $pool = &mut $self.floats;
                $body
            }
            Kind::Int => {
                let $pool = &mut $self.ints;
                $body
            }
            Kind::Index => {
                let $pool = &mut $self.indices;
                $body
            }
            Kind::Bool => {
                let $pool = &mut $self.bools;
                $body
            }
        }
    };
}

impl Pools {
    /// A temporary, a value a thread.
    pub(super) fn lanes(&mut self, kind: Kind) -> u32 {
        each!(self, kind, |pool| pool.take_lanes())
    }

    /// A temporary, a value a block.
    pub(super) fn scalar(&mut self, kind: Kind) -> Loc {
        Loc::Scalar(each!(self, kind, |pool| pool.take_scalar()))
    }

    /// A variable's register. Never a former temporary: thread and block indices are set before the first statement,
    /// and must still be there at their first use.
    pub(super) fn variable(&mut self, kind: Kind, varies: bool) -> Loc {
        each!(self, kind, |pool| pool.fresh(varies))
    }

    /// Neighbouring registers for a per-thread array; never freed.
    pub(super) fn run(&mut self, kind: Kind, count: u32) -> u32 {
        each!(self, kind, |pool| pool.run(count))
    }

    pub(super) fn zero(&mut self, kind: Kind) -> Loc {
        match kind {
            Kind::Float => self.floats.constant(0.0, |a, b| a.to_bits() == b.to_bits()),
            Kind::Int => self.ints.constant(0, |a, b| a == b),
            Kind::Index => self.index_constant(0),
            Kind::Bool => self.bools.constant(false, |a, b| a == b),
        }
    }

    pub(super) fn index_constant(&mut self, value: i64) -> Loc {
        self.indices.constant(value, |a, b| a == b)
    }

    /// Whether a value never changes.
    pub(super) fn is_constant(&mut self, value: Value) -> bool {
        each!(self, value.repr.kind(), |pool| pool.is_constant(value.loc))
    }

    /// Takes a temporary back; variables and constants stay.
    pub(super) fn free(&mut self, kind: Kind, loc: Loc) {
        each!(self, kind, |pool| pool.free(loc));
    }

    /// A mask of its own.
    pub(super) fn mask(&mut self) -> MaskId {
        self.free_masks.pop().unwrap_or_else(|| {
            // 0 is the whole block.
            self.masks += 1;
            MaskId(self.masks)
        })
    }

    pub(super) fn free_mask(&mut self, mask: MaskId) {
        self.free_masks.push(mask);
    }

    pub(super) fn masks(&self) -> u32 {
        self.masks + 1
    }
}
