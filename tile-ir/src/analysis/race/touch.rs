//! Accesses since the last barrier, element by element, and which of them race.

use super::{Here, Run, UNKNOWN, Values};
use crate::ir::{AccessId, Extent, ParamKind, Place, StmtId};
use std::hash::Hasher;

/// An access since the last barrier.
#[derive(Clone, Copy)]
pub(super) struct Touch {
    pub(super) thread: u32,
    /// Warp synchronisations before it.
    epoch: u32,
    pub(super) access: AccessId,
    pub(super) stmt: StmtId,
    /// How many accesses were executed before it.
    pub(super) time: u32,
}

/// The accesses of one element since the last barrier: of each kind, two by different threads.
#[derive(Clone, Default)]
pub(super) struct Cell {
    reads: [Option<Touch>; 2],
    writes: [Option<Touch>; 2],
    atomics: [Option<Touch>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Atomic,
}

impl Run<'_> {
    /// Records an access by the threads that are certainly here, and reports the first race with an earlier one.
    pub(super) fn access(&mut self, access: AccessId, kind: Kind, here: &[Here]) {
        let kernel = self.kernel;
        let data = &kernel.accesses[access];
        if !self.watched(data.place) || self.reported.contains(&key(data.place)) {
            return;
        }
        let indices: Vec<Values> = data.indices.iter().map(|e| self.eval(*e)).collect();
        let extents: Vec<i64> = self.extents(data.place);
        self.time += 1;
        self.work += here.len();
        let stmt = self.around.last().map_or(StmtId::from_u32(0), |a| a.0);
        for (position, _) in here.iter().enumerate().filter(|(_, h)| **h == Here::Yes) {
            let mut address = 0i64;
            let mut inside = true;
            for (index, extent) in indices.iter().zip(&extents) {
                let value = index.at(position);
                inside &= value != UNKNOWN && (0..*extent).contains(&value);
                address = address.wrapping_mul(*extent).wrapping_add(value);
            }
            // What is out of bounds is not written.
            if !inside {
                continue;
            }
            let thread = self.threads[position];
            let touch = Touch { thread, epoch: self.epoch, access, stmt, time: self.time };
            let cell = self.cells.entry((key(data.place), address)).or_default();
            let races = |other: &&Touch| {
                other.thread != thread && (other.thread / 32 != thread / 32 || other.epoch == touch.epoch)
            };
            let against: [&[Option<Touch>; 2]; 3] = match kind {
                Kind::Read => [&cell.writes, &cell.atomics, &[None, None]],
                Kind::Write => [&cell.writes, &cell.reads, &cell.atomics],
                Kind::Atomic => [&cell.writes, &cell.reads, &[None, None]],
            };
            if let Some(earlier) = against.iter().flat_map(|a| a.iter().flatten()).find(races).copied() {
                let earlier_kind = if cell.writes.iter().flatten().any(|w| w.time == earlier.time) {
                    Kind::Write
                } else if cell.reads.iter().flatten().any(|r| r.time == earlier.time) {
                    Kind::Read
                } else {
                    Kind::Atomic
                };
                let index: Vec<i64> = indices.iter().map(|i| i.at(position)).collect();
                self.report(earlier, earlier_kind, touch, kind, &index);
                return;
            }
            let own = match kind {
                Kind::Read => &mut cell.reads,
                Kind::Write => &mut cell.writes,
                Kind::Atomic => &mut cell.atomics,
            };
            match own {
                [None, _] => own[0] = Some(touch),
                [Some(first), second] if first.thread != thread => *second = Some(touch),
                // The later access of the same thread is the one that a coming access may race with.
                [first, _] => *first = Some(touch),
            }
        }
    }

    fn extents(&mut self, place: Place) -> Vec<i64> {
        let kernel = self.kernel;
        match place {
            Place::Buffer(b) => kernel.buffer_extents(b).iter().copied().map(i64::from).collect(),
            Place::Tensor(p) => match &kernel.params[p].kind {
                ParamKind::Tensor { shape, .. } => shape
                    .iter()
                    .map(|e| match e {
                        Extent::Dim(d) => self.dims.get(d.as_u32() as usize).copied().unwrap_or(0),
                        Extent::Fixed(e) => kernel.const_index(*e).unwrap_or(0),
                    })
                    .collect(),
                ParamKind::Scalar { .. } | ParamKind::Absent => vec![],
            },
        }
    }
}

/// A place, ordered: tensors are even, arrays odd.
pub(super) type Key = u64;

pub(super) fn key(place: Place) -> Key {
    match place {
        Place::Tensor(p) => 2 * u64::from(p.as_u32()),
        Place::Buffer(b) => 2 * u64::from(b.as_u32()) + 1,
    }
}

/// A hash of a few integers, cheap in unoptimised builds; the keys are the compiler's own.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, value: u64) {
        // The multiplier of rustc's FxHash; the high bits select the bucket's tag, the low ones the bucket.
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }
}
