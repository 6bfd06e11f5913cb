//! Memory accesses: bounds, alignment, initialisation, races; then the access itself.

use super::AccessKind;
use super::bytecode::{Site, Slot};
use super::findings::verb;
use super::lanes::{self, Lanes, each};
use super::report::Who;
use super::schedule::Machine;
use super::shadow::{Access, Now};
use super::warp::{Owner, SharedMemory, Warp};
use crate::ir::{AtomicOp, Dtype, EntityRef, SpanId};
use crate::lowered::{LocalId, SharedId, Space};
use crate::sim::numeric;
use std::ops::Range;

/// A warp while it runs, and what of its block it needs.
pub(super) struct Running<'a> {
    pub warp: &'a mut Warp,
    pub shared: &'a mut SharedMemory,
    pub who: Who,
}

/// One element that an access may touch: inside its array.
pub(super) enum Element<'p> {
    Global { view: &'p super::launch::View, byte: usize },
    Shared { array: SharedId, byte: usize, cells: Range<usize> },
    Local { array: usize, index: usize },
}

impl<'p> Machine<'p> {
    pub(super) fn load(&mut self, run: &mut Running<'_>, site: u32, offset: Slot, dst: Slot) {
        let offsets = run.warp.slots[offset as usize];
        let mut result = run.warp.slots[dst as usize];
        each(run.warp.active, |lane| result[lane] = self.read(run, site, lane, offsets[lane]));
        run.warp.slots[dst as usize] = result;
    }

    pub(super) fn store(&mut self, run: &mut Running<'_>, site: u32, offset: Slot, value: Slot) {
        let (offsets, values) = (run.warp.slots[offset as usize], run.warp.slots[value as usize]);
        each(run.warp.active, |lane| self.write(run, site, lane, offsets[lane], values[lane]));
    }

    pub(super) fn vector_load(&mut self, run: &mut Running<'_>, site: u32, offset: Slot, local: u32, start: Slot) {
        let (offsets, starts) = (run.warp.slots[offset as usize], run.warp.slots[start as usize]);
        self.check_alignment(run, site, &offsets, local, &starts);
        let width = i64::from(self.code.sites[site as usize].width);
        each(run.warp.active, |lane| {
            for i in 0..width {
                let value = self.read(run, site, lane, offsets[lane].wrapping_add(i));
                self.put_local(run, site, local, lane, starts[lane].wrapping_add(i), value);
            }
        });
    }

    pub(super) fn vector_zero(&mut self, run: &mut Running<'_>, site: u32, local: u32, start: Slot) {
        let starts = run.warp.slots[start as usize];
        let width = i64::from(self.code.sites[site as usize].width);
        each(run.warp.active, |lane| {
            for i in 0..width {
                self.put_local(run, site, local, lane, starts[lane].wrapping_add(i), 0);
            }
        });
    }

    pub(super) fn vector_store(&mut self, run: &mut Running<'_>, site: u32, offset: Slot, local: u32, start: Slot) {
        let (offsets, starts) = (run.warp.slots[offset as usize], run.warp.slots[start as usize]);
        self.check_alignment(run, site, &offsets, local, &starts);
        let width = i64::from(self.code.sites[site as usize].width);
        each(run.warp.active, |lane| {
            for i in 0..width {
                let value = self.take_local(run, site, local, lane, starts[lane].wrapping_add(i));
                self.write(run, site, lane, offsets[lane].wrapping_add(i), value);
            }
        });
    }

    pub(super) fn atomic(
        &mut self,
        run: &mut Running<'_>,
        (op, ordered): (AtomicOp, bool),
        site: u32,
        [offset, value, old]: [Slot; 3],
    ) {
        let (offsets, values) = (run.warp.slots[offset as usize], run.warp.slots[value as usize]);
        let mut olds = run.warp.slots[old as usize];
        let dtype = self.code.sites[site as usize].dtype;
        // Which lane comes first is not defined: let the seed decide.
        let first = self.first_lane();
        for step in 0..32 {
            let lane = (first + step) % 32;
            if run.warp.active >> lane & 1 == 0 {
                continue;
            }
            let Some(element) = self.touch(run, site, lane, offsets[lane]) else { continue };
            if let (true, Element::Global { view, byte }) = (ordered, &element) {
                self.release_and_acquire(run, (view.allocation, *byte));
                self.arrived.insert((view.allocation, *byte), (run.who, site));
            }
            let before = get(run, &element, dtype, lane);
            let after = numeric::atomic(op, dtype, before, lanes::to_bits(dtype, values[lane]));
            olds[lane] = lanes::from_bits(dtype, before);
            put(run, &element, dtype, lane, after);
        }
        run.warp.slots[old as usize] = olds;
    }

    /// What this warp and the blocks it knows of did before is released at a counter, and what was released there acquired.
    fn release_and_acquire(&mut self, run: &mut Running<'_>, counter: (usize, usize)) {
        let clocks = run.warp.released();
        let known = self.released.entry(counter).or_default();
        known.join(&run.warp.known);
        known.add(run.who.linear, &clocks);
        run.warp.known = known.clone();
    }

    /// `below`: the indices that the guard tests for being negative.
    pub(super) fn guard_fired_at(&mut self, run: &mut Running<'_>, site: u32, offset: Option<Slot>, below: (u32, u32)) {
        let (code, active) = (self.code, run.warp.active);
        self.counters.guards_fired += u64::from(active.count_ones());
        let offsets = offset.map(|slot| &run.warp.slots[slot as usize]);
        let below = &code.below[below.0 as usize..below.1 as usize];
        let negative = |lane: usize| {
            let index = below.iter().map(|(slot, span)| (run.warp.slots[*slot as usize][lane], *span));
            index.into_iter().find(|(index, _)| *index < 0)
        };
        let lanes = || (0..32).filter(|&lane| active & (1 << lane) != 0);
        if let Some((lane, (index, span))) = lanes().find_map(|lane| Some((lane, negative(lane)?))) {
            self.negative_index(run.who, &code.sites[site as usize], span, lane, index);
        }
        let fired = lanes().find(|&lane| negative(lane).is_none());
        if let Some(lane) = fired {
            let offset = offsets.map(|offsets| offsets[lane]);
            self.guard_fired(run.who, &code.sites[site as usize], lane, offset);
        }
    }

    /// One element's value, 0 where it is out of bounds.
    #[inline]
    fn read(&mut self, run: &mut Running<'_>, site: u32, lane: usize, offset: i64) -> i64 {
        let dtype = self.code.sites[site as usize].dtype;
        match self.touch(run, site, lane, offset) {
            Some(Element::Local { array, index }) => run.warp.locals[array].data[index][lane],
            Some(element) => lanes::from_bits(dtype, get(run, &element, dtype, lane)),
            None => 0,
        }
    }

    /// Writes one element; nothing where it is out of bounds.
    #[inline]
    fn write(&mut self, run: &mut Running<'_>, site: u32, lane: usize, offset: i64, value: i64) {
        let dtype = self.code.sites[site as usize].dtype;
        if let Some(element) = self.touch(run, site, lane, offset) {
            put(run, &element, dtype, lane, lanes::to_bits(dtype, value));
        }
    }

    /// Checks and records an access to one element. None where it is out of bounds.
    #[inline]
    pub(super) fn touch(
        &mut self,
        run: &mut Running<'_>,
        site_index: u32,
        lane: usize,
        offset: i64,
    ) -> Option<Element<'p>> {
        let (code, launch, program) = (self.code, self.launch, self.program);
        let site = &code.sites[site_index as usize];
        let bytes = site.dtype.bytes() as usize;
        let access = Access {
            block: run.who.linear,
            clock: run.warp.clock,
            thread: run.who.thread(lane) as u16,
            site: site_index as u16,
        };
        if site.dependent && run.warp.waited >> lane & 1 == 0 {
            self.early_access(run.who, site, lane);
        }
        if site.scope != 0 && site.kind != AccessKind::Read && matches!(site.space, Space::Global(_)) {
            self.check_tile(run, site.scope, lane, site.span, (verb(site.kind), Some(site.space)));
        }
        let (issuer, clocks) = ((access.block, access.thread), launch.clocks);
        let element = match site.space {
            Space::Global(param) => {
                let Some(view) = launch.views[param.index()].as_ref().filter(|v| v.contains(offset)) else {
                    self.out_of_bounds(run.who, site, lane, offset);
                    return None;
                };
                let byte = view.byte(offset);
                let allocation = &launch.allocations[view.allocation];
                if allocation.written {
                    let grain = allocation.grain as usize;
                    let (seen, known, parallel) = (&run.warp.seen, &run.warp.known, run.warp.elements_from());
                    let now = Now { access, issuer, clocks, seen, known, parallel, global: true };
                    let shadow = &mut self.globals[view.allocation];
                    let race = (byte / grain..(byte + bytes) / grain).fold(None, |found, cell| {
                        let race = shadow.record(cell, site.kind, now);
                        found.or(race)
                    });
                    if let Some(earlier) = race {
                        self.race(run.who, site, lane, offset, earlier);
                    }
                }
                Element::Global { view, byte }
            }
            Space::Shared(array) => {
                let info = &program.shared[array];
                let inside = (0..i64::from(info.len)).contains(&offset);
                let byte = if inside { info.offset as usize + offset as usize * bytes } else { 0 };
                // `shared_bytes` may be too small for the arrays: then it is what the hardware enforces.
                if !inside || byte + bytes > run.shared.data.len() {
                    self.out_of_bounds(run.who, site, lane, offset);
                    return None;
                }
                let grain = run.shared.grain as usize;
                let cells = byte / grain..(byte + bytes) / grain;
                let (seen, known, parallel) = (&run.warp.seen, &run.warp.known, run.warp.elements_from());
                let now = Now { access, issuer, clocks, seen, known, parallel, global: false };
                if let Some(pilot) = run.shared.pilot(cells.clone()) {
                    self.in_flight(run.who, site, lane, offset, pilot);
                    self.observed[site_index as usize] += 1;
                    return Some(Element::Shared { array, byte, cells });
                }
                let race = cells.clone().fold(None, |found, cell| {
                    let race = run.shared.shadow.record(cell, site.kind, now);
                    found.or(race)
                });
                if let Some(earlier) = race {
                    self.race(run.who, site, lane, offset, earlier);
                }
                let generation = run.warp.generations[array.index()];
                if site.kind != AccessKind::Write
                    && !run.shared.is_initialised(cells.clone(), run.who.linear, array, generation)
                {
                    self.uninitialised(run.who, site, lane, offset);
                }
                Element::Shared { array, byte, cells }
            }
            Space::Local(local) => {
                let array = local.index();
                let Some(init) = usize::try_from(offset).ok().and_then(|o| run.warp.locals[array].init.get(o)) else {
                    self.out_of_bounds(run.who, site, lane, offset);
                    return None;
                };
                if site.kind != AccessKind::Write && init >> lane & 1 == 0 {
                    self.uninitialised(run.who, site, lane, offset);
                }
                self.touch_local(run, site, array, offset as usize, lane);
                Element::Local { array, index: offset as usize }
            }
        };
        self.observed[site_index as usize] += 1;
        Some(element)
    }

    /// Reports an effect of a lane in the work on a tile that is not one of the author's.
    pub(super) fn check_tile(
        &mut self,
        run: &Running<'_>,
        scope: u32,
        lane: usize,
        span: SpanId,
        effect: (&str, Option<Space>),
    ) {
        let (code, program) = (self.code, self.program);
        for &tile in &code.scopes[scope as usize] {
            let (index, extent) = (program.tiles[tile as usize].index, self.launch.tiles[tile as usize]);
            let at = run.warp.slots[index.index()][lane];
            if at >= extent {
                self.outside_the_grid(run.who, span, lane, effect, (&program.regs[index].name, at, extent));
            }
        }
    }

    /// An element of a shared array, without checks.
    pub(super) fn shared_element(&self, run: &Running<'_>, site: &Site, offset: i64) -> Option<Element<'p>> {
        let Space::Shared(array) = site.space else { return None };
        let (info, bytes) = (&self.program.shared[array], site.dtype.bytes() as usize);
        let offset = usize::try_from(offset).ok().filter(|o| *o < info.len as usize)?;
        let (byte, grain) = (info.offset as usize + offset * bytes, run.shared.grain as usize);
        let inside = byte + bytes <= run.shared.data.len();
        inside.then(|| Element::Shared { array, byte, cells: byte / grain..(byte + bytes) / grain })
    }

    /// Reports lanes whose vector does not start at a multiple of its size, on either side.
    fn check_alignment(&mut self, run: &mut Running<'_>, site: u32, offsets: &Lanes, local: u32, starts: &Lanes) {
        self.check_site(run, site, offsets);
        let code = self.code;
        let space = Space::Local(LocalId::new(local as usize));
        self.check_side(run, &Site { space, ..code.sites[site as usize] }, 0, starts);
    }

    /// Reports lanes whose access, on the side that the program names, does not start at a multiple of its size.
    pub(super) fn check_site(&mut self, run: &Running<'_>, site: u32, offsets: &Lanes) {
        let (code, launch, program) = (self.code, self.launch, self.program);
        let site = &code.sites[site as usize];
        let base = match site.space {
            // Allocations are aligned to 256 bytes, a block's shared memory to 1024, per-thread arrays to 16.
            Space::Global(param) => launch.views[param.index()].as_ref().map_or(0, |v| v.base as i64),
            Space::Shared(array) => i64::from(program.shared[array].offset),
            Space::Local(_) => 0,
        };
        self.check_side(run, site, base, offsets);
    }

    /// Reports lanes among `rows` whose 16 bytes of a matrix row are misaligned.
    pub(super) fn check_rows(&mut self, run: &Running<'_>, site: u32, offsets: &Lanes, rows: u32) {
        let code = self.code;
        let site = &code.sites[site as usize];
        let Space::Shared(array) = site.space else { return };
        let base = i64::from(self.program.shared[array].offset);
        let byte = |lane: usize| base.wrapping_add(offsets[lane].wrapping_mul(i64::from(site.dtype.bytes())));
        let mut misaligned = 0;
        each(rows, |lane| misaligned |= u32::from(byte(lane) % 16 != 0) << lane);
        if misaligned != 0 {
            let lane = misaligned.trailing_zeros() as usize;
            self.misaligned(run.who, site, misaligned, rows, (lane, byte(lane)));
        }
    }

    /// Bytes of an array are written.
    pub(super) fn mark_written(&mut self, run: &mut Running<'_>, array: SharedId, byte: u32, bytes: u32) {
        let grain = run.shared.grain;
        let generation = run.warp.generations[array.index()];
        let owner = Owner { block: run.who.linear + 1, array: array.index() as u32, generation };
        run.shared.owners[(byte / grain) as usize..((byte + bytes) / grain) as usize].fill(owner);
    }

    fn check_side(&mut self, run: &Running<'_>, site: &Site, base: i64, offsets: &Lanes) {
        let element = i64::from(site.dtype.bytes());
        let byte = |lane: usize| base.wrapping_add(offsets[lane].wrapping_mul(element));
        let bytes = i64::from(site.width) * element;
        let mut misaligned = 0;
        each(run.warp.active, |lane| misaligned |= u32::from(byte(lane) % bytes != 0) << lane);
        if misaligned != 0 {
            let lane = misaligned.trailing_zeros() as usize;
            self.misaligned(run.who, site, misaligned, run.warp.active, (lane, byte(lane)));
        }
    }

    pub(super) fn put_local(
        &mut self,
        run: &mut Running<'_>,
        site: u32,
        local: u32,
        lane: usize,
        index: i64,
        value: i64,
    ) {
        if let Ok(element) = usize::try_from(index) {
            let code = self.code;
            let site = Site { kind: AccessKind::Write, ..code.sites[site as usize] };
            self.touch_local(run, &site, local as usize, element, lane);
        }
        let memory = &mut run.warp.locals[local as usize];
        match usize::try_from(index).ok().filter(|&i| i < memory.data.len()) {
            Some(index) => {
                memory.data[index][lane] = value;
                memory.init[index] |= 1 << lane;
            }
            None => {
                let code = self.code;
                self.local_out_of_bounds(run.who, &code.sites[site as usize], local, lane, index);
            }
        }
    }

    /// A thread's own access to a register: a product of its warpgroup may hold it.
    #[inline]
    fn touch_local(&mut self, run: &mut Running<'_>, site: &Site, array: usize, element: usize, lane: usize) {
        let fences = run.warp.fences;
        let Some(held) = run.warp.locals[array].held.get_mut(element) else { return };
        held.touched = fences + 1;
        let held = *held;
        if held.written != 0 || held.read != 0 && site.kind != AccessKind::Read {
            self.held_register(run.who, site, array, element, lane, held);
        }
    }

    pub(super) fn take_local(&mut self, run: &mut Running<'_>, site: u32, local: u32, lane: usize, index: i64) -> i64 {
        let code = self.code;
        if let Ok(element) = usize::try_from(index) {
            let site = Site { kind: AccessKind::Read, ..code.sites[site as usize] };
            self.touch_local(run, &site, local as usize, element, lane);
        }
        let memory = &run.warp.locals[local as usize];
        let Some(at) = usize::try_from(index).ok().filter(|&i| i < memory.data.len()) else {
            self.local_out_of_bounds(run.who, &code.sites[site as usize], local, lane, index);
            return 0;
        };
        if memory.init[at] >> lane & 1 == 0 {
            let site = &code.sites[site as usize];
            let source = Site { space: Space::Local(LocalId::new(local as usize)), kind: AccessKind::Read, ..*site };
            self.uninitialised(run.who, &source, lane, index);
        }
        memory.data[at][lane]
    }
}

/// The bits of an element.
#[inline]
pub(super) fn get(run: &Running<'_>, element: &Element<'_>, dtype: Dtype, lane: usize) -> u32 {
    match element {
        Element::Global { view, byte } => view.memory.load(*byte, dtype),
        Element::Shared { byte, .. } => {
            // Inside: `touch` made it.
            match run.shared.data[*byte..*byte + dtype.bytes() as usize] {
                [a] => u32::from(a),
                [a, b] => u32::from(u16::from_le_bytes([a, b])),
                [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
                _ => 0,
            }
        }
        Element::Local { array, index } => lanes::to_bits(dtype, run.warp.locals[*array].data[*index][lane]),
    }
}

#[inline]
pub(super) fn put(run: &mut Running<'_>, element: &Element<'_>, dtype: Dtype, lane: usize, bits: u32) {
    match element {
        Element::Global { view, byte } => view.memory.store(*byte, dtype, bits),
        Element::Shared { array, byte, cells } => {
            let bytes = dtype.bytes() as usize;
            run.shared.data[*byte..*byte + bytes].copy_from_slice(&bits.to_le_bytes()[..bytes]);
            let generation = run.warp.generations[array.index()];
            let owner = Owner { block: run.who.linear + 1, array: array.index() as u32, generation };
            run.shared.owners[cells.clone()].fill(owner);
        }
        Element::Local { array, index } => {
            let memory = &mut run.warp.locals[*array];
            memory.data[*index][lane] = lanes::from_bits(dtype, bits);
            memory.init[*index] |= 1 << lane;
        }
    }
}
