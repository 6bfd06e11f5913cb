//! A fragment to a tensor of 16-bit floats or f32 through shared memory, where a thread stores one element at a time.
//!
//! In the layout of an accumulator a warp holds two neighbours in each of eight rows for four lanes. Stored from there one by one, an instruction of a
//! warp writes four elements, two apart, in each of eight rows: eight sectors, each of them twice. From shared memory neighbouring threads store neighbouring elements of a row.
//! (Warpgroups have sub-tiles for that: `hopper::store`.)

use super::fragment::Registers;
use super::tile::CopySide;
use super::*;
use crate::layout::{Index, MmaInput};

/// Elements between two rows in shared memory, beside the row: pairs of 16 bits of the four lanes of eight rows are in banks of their own, and pairs of f32 of four rows.
const PAD: u32 = 8;

impl Lowering<'_> {
    /// Whether `copy(&fragment, y.at_mut(..))` goes through shared memory: every thread of the block has a part of an accumulator, and there is
    /// room for the tile.
    pub(super) fn leaves_by_rows(&self, held: &Registers, src: &TileRef, dst: &CopySide<'_>) -> bool {
        let layout = held.layout;
        let is_accumulator = layout.accumulator_columns().is_some() && layout.vector() >= 2 && !layout.is_exchanged();
        let dtype = self.dtype_of(dst.tile.place);
        let bytes = layout.rows() * (layout.cols() + PAD) * dtype.bytes();
        matches!(dst.tile.place, Place::Tensor(_))
            && MmaInput::of(dtype).is_some()
            && self.roles.is_none()
            && is_accumulator
            && !src.transposed
            && self.has_room(bytes, 16)
    }

    /// Stores a fragment by elements, neighbouring threads neighbouring ones of a row.
    pub(super) fn store_by_rows(&mut self, &Registers { local, layout, .. }: &Registers, dst: &CopySide<'_>) {
        let dtype = self.dtype_of(dst.tile.place);
        let (rows, cols) = (layout.rows(), layout.cols());
        let pitch = cols + PAD;
        let staged = self.shared_array("staged", dtype, rows * pitch, true);
        let pair = self.local("pair", dtype, 2);
        self.each_held(&layout, 2, |l, register| {
            let [row, col] = l.element_position(&layout, register);
            let offset = l.formula([row, col], |[row, col]| row.times(pitch).add(col));
            for by in 0..2 {
                let (own, half) = (l.at(local, register + by), l.at(pair, by));
                l.carry(own, half);
            }
            let memory = l.at(staged, offset);
            l.vector_store(memory, pair, 0, 2);
        });
        self.block_barrier();
        let threads = self.thread_total();
        let store = |l: &mut Self, [row, col]: [ValueId; 2], offset: Option<ValueId>| {
            let (row, col) = (l.once("row", row), l.once("col", col));
            let mut to = l.tile_memory(dst, &[row, col]);
            to.offset = offset.unwrap_or(to.offset);
            let at = l.formula([row, col], |[row, col]| row.times(pitch).add(col));
            let from = l.at(staged, at);
            l.carry(from, to);
        };
        // A thread's elements have one column where a row has no more than there are threads, and lie as many rows apart.
        let apart = threads / cols;
        let below = threads.is_multiple_of(cols) && rows.is_multiple_of(apart.max(1));
        let thread = self.linear_thread();
        let place = [thread / cols, thread % cols].map(|index| self.eval(index));
        match below.then(|| self.walked(dst, place, apart)).flatten() {
            Some((offset, step)) => self.unrolled("i", rows / apart, |l, i| {
                let row = l.eval(place[0] + i * apart);
                let at = l.read(offset);
                store(l, [row, place[1]], Some(at));
                l.set(offset, offset + step);
            }),
            None => self.spread("element", &[rows, cols], |l, indices| store(l, [indices[0], indices[1]], None)),
        }
        self.barrier_in_a_loop();
    }
}
