//! The operations that start copies: checked where the program stands, and handed over as messages.

use super::{Message, Start, StartKind};
use crate::ir::{EntityRef, ParamId, SpanId, Swizzle};
use crate::lowered::Space;
use crate::sim::checked::access::Running;
use crate::sim::checked::bytecode::BarrierPlace;
use crate::sim::checked::lanes::{each, to_bits};
use crate::sim::checked::schedule::Machine;
use crate::sim::hw::tma::{Direction, Placement, TensorMap};
use crate::sim::hw::{HwError, SwizzleMode};

impl Machine<'_> {
    /// A box: the active lanes each start it.
    pub(in super::super) fn box_copy(&mut self, run: &mut Running<'_>, copy: u32, span: SpanId) {
        let code = self.code;
        let copy = &code.boxes[copy as usize];
        let map = &self.program.tensor_maps[copy.map];
        let described = self.describe_map(map.tensor, &map.box_extents, map.swizzle);
        let array = &self.program.shared[copy.shared];
        each(run.warp.active, |lane| {
            self.check_waited(run, copy.sites[0], lane);
            let at = |slot: u32| run.warp.slots[slot as usize][lane];
            let offset = at(copy.offset);
            let coordinates: Vec<i64> = copy.coordinates.iter().map(|c| i64::from(at(*c) as i32)).collect();
            let Some(inside) = u32::try_from(offset).ok().filter(|o| *o <= array.len) else {
                self.out_of_bounds(run.who, &code.sites[copy.sites[1] as usize], lane, offset);
                return;
            };
            let address = array.offset + inside * array.dtype.bytes();
            let places = described.as_ref().map_err(HwError::clone).and_then(|(map, is_empty)| {
                // The image repeats only at multiples of the swizzle's period.
                let period = map.swizzle.period();
                if !address.is_multiple_of(period) {
                    return Err(HwError::Misaligned {
                        what: "shared address of a box",
                        address: address.into(),
                        multiple: period.into(),
                    });
                }
                let direction = if copy.barrier.is_some() { Direction::Load } else { Direction::Store };
                let mut places = map.placements(&coordinates, address, direction)?;
                if *is_empty {
                    places.iter_mut().for_each(|place| place.global = None);
                }
                Ok(places)
            });
            let places = match places {
                Ok(places) => places,
                Err(error) => return self.refused(run.who, span, lane, &error.to_string()),
            };
            let bytes = i64::from(array.dtype.bytes()) * places.len() as i64;
            if i64::from(inside) * i64::from(array.dtype.bytes()) + bytes > i64::from(array.len * array.dtype.bytes()) {
                let last = offset + places.len() as i64 - 1;
                self.out_of_bounds(run.who, &code.sites[copy.sites[1] as usize], lane, last);
                return;
            }
            let kind = match copy.barrier {
                Some(place) => {
                    let mask = copy.multicast.map(|slot| at(slot) as u32);
                    match self.load_kind(run, place, mask, lane, bytes, span) {
                        Some(kind) => kind,
                        None => return,
                    }
                }
                None => {
                    let site = &code.sites[copy.sites[0] as usize];
                    if site.scope != 0 && places.iter().any(|place| place.global.is_some()) {
                        self.check_tile(run, site.scope, lane, span, ("writes", Some(site.space)));
                    }
                    let group = run.warp.bulk_groups[lane];
                    run.warp.bulk_started = run.warp.bulk_started.max(group + 1);
                    StartKind::Store { group }
                }
            };
            let seen = run.warp.released();
            let start = Start { who: run.who, lane, span, seen, places, sites: copy.sites, kind };
            self.outbox.push(Message::Start(start));
        });
    }

    /// Reports a copy that a lane starts too early.
    fn check_waited(&mut self, run: &Running<'_>, site: u32, lane: usize) {
        let code = self.code;
        let site = &code.sites[site as usize];
        if site.dependent && run.warp.waited >> lane & 1 == 0 {
            self.early_access(run.who, site, lane);
        }
    }

    /// Bytes that lie together.
    pub(in super::super) fn bulk_copy(&mut self, run: &mut Running<'_>, copy: u32, span: SpanId) {
        let code = self.code;
        let copy = &code.bulks[copy as usize];
        let array = &self.program.shared[copy.shared];
        let size = i64::from(array.dtype.bytes());
        each(run.warp.active, |lane| {
            self.check_waited(run, copy.sites[0], lane);
            let at = |slot: u32| run.warp.slots[slot as usize][lane];
            let (from, offset, bytes) = (at(copy.from), at(copy.offset), at(copy.bytes));
            let site = &code.sites[copy.sites[0] as usize];
            let Space::Global(param) = site.space else { return };
            let Some(view) = self.launch.views[param.index()].as_ref() else { return };
            let count = bytes / size;
            let shared = i64::from(array.offset) + offset * size;
            for (what, number) in [
                ("number of bytes", bytes),
                ("shared address", shared),
                ("global address", view.base as i64 + from * size),
            ] {
                if number % 16 != 0 || number < 0 {
                    let text = format!("the {what} of a bulk copy is {number}, which is not a multiple of 16");
                    return self.refused(run.who, span, lane, &text);
                }
            }
            if let Some(outside) = (from..from + count).find(|o| !view.contains(*o)) {
                return self.out_of_bounds(run.who, site, lane, outside);
            }
            if offset < 0 || offset + count > i64::from(array.len) {
                let site = &code.sites[copy.sites[1] as usize];
                return self.out_of_bounds(run.who, site, lane, offset + count - 1);
            }
            let places = (0..count)
                .map(|i| Placement { global: Some(view.byte(from + i) as u64), shared: (shared + i * size) as u32 });
            let places = places.collect();
            let Some(kind) = self.load_kind(run, copy.barrier, None, lane, bytes, span) else { return };
            let seen = run.warp.released();
            let start = Start { who: run.who, lane, span, seen, places, sites: copy.sites, kind };
            self.outbox.push(Message::Start(start));
        });
    }

    fn load_kind(
        &mut self,
        run: &Running<'_>,
        place: BarrierPlace,
        mask: Option<u32>,
        lane: usize,
        bytes: i64,
        span: SpanId,
    ) -> Option<StartKind> {
        let barrier = self.barrier_of(run, place, lane, span)?;
        let size = self.launch.cluster_size();
        let own = 1 << (run.who.linear % size);
        let mask = mask.unwrap_or(own);
        if mask == 0 || mask >> size != 0 {
            let text = format!("a copy goes to the blocks {mask:#b} of a cluster of {size}");
            self.refused(run.who, span, lane, &text);
            return None;
        }
        Some(StartKind::Load { mask, barrier, bytes })
    }

    /// A tensor as TMA sees it. No axis of a map may be empty: the launcher gives an empty tensor's map one element,
    /// of memory that is no tensor's. Says whether it did.
    fn describe_map(&self, tensor: ParamId, extents: &[u32], swizzle: Swizzle) -> Result<(TensorMap, bool), HwError> {
        let missing = HwError::Illegal { what: "tensor of a map", value: 0, allowed: "an argument" };
        let view = self.launch.views.get(tensor.index()).and_then(Option::as_ref).ok_or(missing)?;
        let element_bytes = view.dtype.bytes();
        let inner_first = |numbers: &[i64]| numbers.iter().rev().map(|&n| n.max(0) as u64).collect::<Vec<_>>();
        let is_empty = view.shape.contains(&0);
        let (address, dims, strides) = if is_empty {
            (0, vec![1; view.shape.len()], vec![16; view.shape.len() - 1])
        } else {
            let strides = inner_first(&view.strides)[1..].iter().map(|s| s * u64::from(element_bytes)).collect();
            (view.base as u64, inner_first(&view.shape), strides)
        };
        let map = TensorMap {
            element_bytes,
            address,
            dims,
            strides,
            box_dims: extents.to_vec(),
            swizzle: SwizzleMode::from(swizzle),
        };
        map.check().map(|()| (map, is_empty))
    }

    /// Elements of a thread into another block's shared memory.
    pub(in super::super) fn cluster_store(&mut self, run: &mut Running<'_>, store: u32, span: SpanId) {
        let code = self.code;
        let store = &code.cluster_stores[store as usize];
        let offsets = run.warp.slots[store.offset as usize];
        self.check_site(run, store.site, &offsets);
        let array = &self.program.shared[store.shared];
        let size = self.launch.cluster_size();
        each(run.warp.active, |lane| {
            let start = run.warp.slots[store.from.start as usize][lane];
            let values = (0..i64::from(store.width))
                .map(|i| self.take_local(run, store.from.site, store.from.local, lane, start.wrapping_add(i)));
            let data: Vec<u32> = values.map(|value| to_bits(array.dtype, value)).collect();
            let (offset, rank) = (offsets[lane], run.warp.slots[store.block as usize][lane]);
            if offset < 0 || offset + i64::from(store.width) > i64::from(array.len) {
                let last = offset + i64::from(store.width) - 1;
                return self.out_of_bounds(run.who, &code.sites[store.site as usize], lane, last);
            }
            if !(0..i64::from(size)).contains(&rank) {
                let text = format!("a store into block {rank} of a cluster of {size}");
                return self.refused(run.who, span, lane, &text);
            }
            let Some(barrier) = self.barrier_index(run, store.barrier, lane, span) else { return };
            let first = array.offset + offset as u32 * 4;
            let places = (0..store.width).map(|i| Placement { global: None, shared: first + 4 * i }).collect();
            let met = run.warp.met;
            let kind = StartKind::Push { rank: rank as u32, barrier, data, met };
            let (seen, sites) = (run.warp.released(), [store.site; 2]);
            self.outbox.push(Message::Start(Start { who: run.who, lane, span, seen, places, sites, kind }));
        });
    }
}
