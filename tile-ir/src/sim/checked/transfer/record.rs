//! What copies read and write, in the shadows of memory.

use crate::ir::EntityRef;
use crate::lowered::{SharedId, Space};
use crate::sim::checked::AccessKind;
use crate::sim::checked::bytecode::Site;
use crate::sim::checked::cluster::Cluster;
use crate::sim::checked::report::Who;
use crate::sim::checked::schedule::Machine;
use crate::sim::checked::shadow::{Access, Known, Now};
use crate::sim::checked::warp::{Block, Owner};
use crate::sim::hw::tma::Placement;
use std::ops::Range;

impl Machine<'_> {
    /// Records what an agent does to shared memory; reads of what nobody wrote or made visible are reported.
    pub(super) fn record_shared(
        &mut self,
        cluster: &mut Cluster,
        rank: u32,
        places: &[Placement],
        stamp: Access,
        by: ((u32, u16), &[u32]),
        (who, lane, site): (Who, usize, u32),
    ) {
        let code = self.code;
        let site_info = &code.sites[site as usize];
        let Space::Shared(array) = site_info.space else { return };
        let bytes = site_info.dtype.bytes();
        let block = &mut cluster.blocks[rank as usize];
        for place in places {
            let cells = cells(place.shared, bytes, block.shared.grain);
            let offset = self.element_at(array, place.shared);
            self.observed[site as usize] += 1;
            self.agent_access(block, cells, stamp, by, (who, lane), (site_info, offset));
        }
    }

    /// One access of an agent to shared memory.
    pub(in super::super) fn agent_access(
        &mut self,
        block: &mut Block,
        cells: Range<usize>,
        stamp: Access,
        (issuer, seen): ((u32, u16), &[u32]),
        (who, lane): (Who, usize),
        (site, offset): (&Site, i64),
    ) {
        let clocks = self.launch.clocks;
        if cells.end > block.shared.owners.len() {
            return self.out_of_bounds(who, site, lane, offset);
        }
        let now = Now { access: stamp, issuer, clocks, seen, known: &Known::NOTHING, parallel: None, global: false };
        for cell in cells {
            if site.kind == AccessKind::Read {
                if block.shared.owners[cell].block != block.linear + 1 {
                    self.uninitialised(who, site, lane, offset);
                }
                let write = block.shared.shadow.last_write(cell);
                let generic = write.clock != 0 && write.block == block.linear && write.warp() < 32;
                if generic && now.is_ordered(&write) {
                    let fences = &block.warps[write.warp() as usize].proxy_fences[usize::from(write.thread) % 32];
                    let seen = seen[clocks.entry(write.block, write.warp())];
                    if !fences.iter().any(|&fence| fence >= write.clock && fence <= seen) {
                        self.missing_fence(who, site, lane, offset, write);
                    }
                }
            } else {
                block.shared.owners[cell] = self.written_by_engine(block.linear, site);
            }
            if let Some(earlier) = block.shared.shadow.record(cell, site.kind, now) {
                self.agent_race(who, site, offset, stamp, earlier);
            }
        }
    }

    fn written_by_engine(&self, block: u32, site: &Site) -> Owner {
        let array = match site.space {
            Space::Shared(array) => array.as_u32(),
            Space::Global(_) | Space::Local(_) => 0,
        };
        Owner { block: block + 1, array, generation: u32::MAX }
    }

    pub(super) fn record_global(
        &mut self,
        places: &[Placement],
        stamp: Access,
        (issuer, seen): ((u32, u16), &[u32]),
        (who, _lane, site): (Who, usize, u32),
    ) {
        let site = &self.code.sites[site as usize];
        let Space::Global(param) = site.space else { return };
        let Some(view) = self.launch.views[param.index()].as_ref() else { return };
        let allocation = &self.launch.allocations[view.allocation];
        if !allocation.written {
            return;
        }
        let now = Now {
            access: stamp,
            issuer,
            clocks: self.launch.clocks,
            seen,
            known: &Known::NOTHING,
            parallel: None,
            global: true,
        };
        let bytes = view.dtype.bytes();
        let mut races = Vec::new();
        for place in places.iter().filter_map(|p| p.global) {
            for cell in cells(place as u32, bytes, allocation.grain) {
                if let Some(earlier) = self.globals[view.allocation].record(cell, site.kind, now) {
                    races.push(((place - view.base as u64) / u64::from(bytes), earlier));
                }
            }
        }
        for (offset, earlier) in races {
            self.agent_race(who, site, offset as i64, stamp, earlier);
        }
    }

    /// The element of an array at a byte of shared memory.
    pub(in super::super) fn element_at(&self, array: SharedId, byte: u32) -> i64 {
        let info = &self.program.shared[array];
        (i64::from(byte) - i64::from(info.offset)) / i64::from(info.dtype.bytes())
    }
}

/// The shadow cells of bytes.
pub(in super::super) fn cells(byte: u32, bytes: u32, grain: u32) -> Range<usize> {
    (byte / grain) as usize..((byte + bytes) / grain) as usize
}
