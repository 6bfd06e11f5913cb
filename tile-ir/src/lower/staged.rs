//! Stores a fragment to a tensor of 16-bit floats or f32 through shared memory, where rows allow no store wider than one element.
//!
//! In the layout of an accumulator four lanes of a warp share a row, two neighbouring columns each, and the warp has eight rows. Stored straight from
//! registers, one instruction of the warp writes four elements, two columns apart, in each of eight rows: eight sectors, which the next instruction writes
//! again. From shared memory the threads of a warp store neighbouring elements of a row. Warpgroups store by sub-tiles instead (`hopper::store`).

use super::fragment::Registers;
use super::tile::CopySide;
use super::*;
use crate::layout::{Index, MmaInput};

/// Elements that pad a row of the array. With them the pairs that a warp stores at once lie in different banks: those of eight rows in 16 bits, of four in f32.
const PAD: u32 = 8;

impl Lowering<'_> {
    /// Whether `copy(&fragment, y.at_mut(..))` goes through shared memory: the fragment is an accumulator of the whole block, and shared memory has
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

    /// Writes the fragment to shared memory, waits for the block, and stores it from there, neighbouring threads neighbouring elements of a row.
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
        // Where the block's threads are a multiple of a row's elements, a thread keeps its column and goes down the rows.
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
