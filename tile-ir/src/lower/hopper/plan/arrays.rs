//! Whose a shared array is: a channel's, a resident tile's, or the consumers' own.

use super::{Channel, Load, Planner, Reason, Ring, Shift};
use crate::ir::*;
use crate::layout::{Major, Operand, SharedLayout, TmaPlan};
use crate::lower::schedule::Layouts;
use crate::lower::uses::{allocated, loaded, statements};
use std::collections::{BTreeMap, BTreeSet};

impl Planner<'_> {
    /// The loads of every loop, and the channels that they fill: arrays that the same loops load for the same products are filled together.
    pub(super) fn channels(
        &self,
        operands: &BTreeMap<BufferId, Operand>,
        shifts: &[Option<Shift>],
    ) -> Result<(Vec<Ring>, Vec<Channel>), Reason> {
        let mut loads: Vec<Vec<Load>> = Vec::new();
        let mut loaded_by: BTreeMap<BufferId, Vec<(usize, bool)>> = BTreeMap::new();
        for (number, at) in self.loops.iter().enumerate() {
            let mut all = Vec::new();
            for &stmt in &at.loads {
                let load = self.load_boxes(stmt, true, operands)?;
                let late = shifts[number].as_ref().is_some_and(|shift| shift.late.contains(&load.buffer));
                loaded_by.entry(load.buffer).or_default().push((number, late));
                all.push(load);
            }
            loads.push(all);
        }
        let mut channels: Vec<Channel> = Vec::new();
        let mut rings = Vec::new();
        for ((at, shift), loads) in self.loops.iter().zip(shifts).zip(loads) {
            let mut fills: Vec<(usize, Vec<Load>)> = Vec::new();
            for load in loads {
                let alike = |buffer: &BufferId| loaded_by.get(buffer) == loaded_by.get(&load.buffer);
                let found = channels.iter().position(|channel| channel.buffers.iter().any(alike));
                let number = found.unwrap_or_else(|| {
                    channels.push(Channel { buffers: Vec::new(), slots: 0, once: false, bytes: 0, shared: Vec::new() });
                    channels.len() - 1
                });
                let channel = &mut channels[number];
                channel.slots = channel.slots.max(at.stages.unwrap_or(0));
                if let Some(sharing) = load.sharing().filter(|sharing| !channel.shared.contains(sharing)) {
                    channel.shared.push(sharing);
                }
                if !channel.buffers.contains(&load.buffer) {
                    channel.buffers.push(load.buffer);
                    channel.bytes += load.bytes();
                }
                match fills.iter_mut().find(|(of, _)| *of == number) {
                    Some((_, loads)) => loads.push(load),
                    None => fills.push((number, vec![load])),
                }
            }
            rings.push(Ring { shift: shift.clone(), ..Ring::new(at, fills) });
        }
        Ok((rings, channels))
    }

    /// The arrays of channels and resident tiles that threads read, not only tensor cores; and those whose elements they read, not
    /// only by `ldmatrix`, as the copies `unpacked` are. An error where an array is written by another statement than its load, or
    /// touched where its tile may be gone.
    pub(super) fn read_by_threads(
        &self,
        rings: &[Ring],
        filled: &BTreeSet<BufferId>,
        stay: &BTreeSet<BufferId>,
        unpacked: &BTreeSet<StmtId>,
    ) -> Result<[BTreeSet<BufferId>; 2], Reason> {
        let kernel = self.kernel;
        let [mut read, mut elements] = [BTreeSet::new(), BTreeSet::new()];
        let mut found = Ok(());
        let loads: BTreeSet<StmtId> = rings.iter().flat_map(Ring::loads).map(|load| load.stmt).collect();
        let residents: BTreeSet<StmtId> = self.resident_copies().into_iter().collect();
        self.visit(&kernel.body, None, &mut |stmt, ring| {
            if found.is_err() || loads.contains(&stmt) {
                return;
            }
            for (buffer, mode, by_tensor_cores) in self.touched(stmt) {
                let name = &kernel.buffers[buffer].name;
                let loads_it = ring.is_some_and(|ring| self.loops[ring].loads.iter().any(|s| self.fills(*s, buffer)));
                let text = match (filled.contains(&buffer), stay.contains(&buffer)) {
                    (true, _) if mode != AccessMode::Read => {
                        format!("`{name}` is loaded by a loop and written elsewhere")
                    }
                    (true, _) if !loads_it => format!("`{name}` is read outside of the loop that loads it"),
                    (_, true) if mode != AccessMode::Read && !residents.contains(&stmt) => {
                        format!("`{name}` is loaded once and written elsewhere")
                    }
                    (false, false) => continue,
                    _ => {
                        if !by_tensor_cores && mode == AccessMode::Read {
                            read.insert(buffer);
                            elements.extend((!unpacked.contains(&stmt)).then_some(buffer));
                        }
                        continue;
                    }
                };
                found = Err(Reason { text, span: kernel.stmts[stmt].span });
            }
        });
        found.map(|()| [read, elements])
    }

    /// Whether a statement is a copy into an array.
    pub(in super::super) fn fills(&self, stmt: StmtId, buffer: BufferId) -> bool {
        matches!(&self.kernel.stmts[stmt].kind,
            StmtKind::Tile(TileOp::Copy { dst, .. }) if dst.place == Place::Buffer(buffer))
    }

    /// Every statement with the number of the loop of [`Planner::loops`] that it stands in.
    fn visit(&self, body: &[StmtId], ring: Option<usize>, f: &mut impl FnMut(StmtId, Option<usize>)) {
        for &stmt in body {
            f(stmt, ring);
            let ring = self.loops.iter().position(|l| l.stmt == stmt).or(ring);
            self.kernel.stmts[stmt].kind.bodies().into_iter().for_each(|body| self.visit(body, ring, f));
        }
    }

    /// The shared arrays that a statement touches, without what is nested in it, and whether tensor cores do.
    pub(in super::super) fn touched(&self, stmt: StmtId) -> Vec<(BufferId, AccessMode, bool)> {
        let kernel = self.kernel;
        let kind = &kernel.stmts[stmt].kind;
        let product = matches!(kind, StmtKind::Tile(TileOp::Gemm { .. }));
        let own = kind.parts().into_iter().filter_map(|part| match part {
            StmtPart::Tile(TileRef { place, .. }, mode) => Some((*place, mode, product)),
            StmtPart::Array(buffer, mode) => Some((Place::Buffer(buffer), mode, product)),
            StmtPart::Element(access, mode) => Some((kernel.accesses[access].place, mode, false)),
            _ => None,
        });
        let loaded = parts::roots(kernel, stmt).into_iter().flat_map(|root| loaded(kernel, root));
        let loaded = loaded.map(|access| (kernel.accesses[access].place, AccessMode::Read, false));
        let all = own.chain(loaded).filter(|(place, ..)| kernel.scope_of(*place) == Some(Scope::Shared));
        all.filter_map(|(place, mode, product)| Some((place.buffer()?, mode, product))).collect()
    }

    /// The consumers' own shared arrays. Those with a swizzle of the author's get their layout.
    pub(super) fn own(
        &self,
        filled: &BTreeSet<BufferId>,
        stay: &BTreeSet<BufferId>,
        operands: &mut BTreeMap<BufferId, Operand>,
    ) -> BTreeSet<BufferId> {
        let kernel = self.kernel;
        let others = allocated(kernel, Scope::Shared).into_iter();
        let own: BTreeSet<BufferId> = others.filter(|b| !filled.contains(b) && !stay.contains(b)).collect();
        for &buffer in &own {
            if let (true, Ok(tile)) = (kernel.buffers[buffer].swizzle.is_of_rows(), self.tile(buffer)) {
                operands.entry(buffer).or_insert(Operand { tile, major: Major::K });
            }
        }
        own
    }

    /// The copies of whole arrays of the consumers' own into tensors that TMA makes. An array that is only copied gets the layout with
    /// the widest swizzle, which a fragment is stored into without bank conflicts.
    pub(super) fn own_stores(&self, own: &BTreeSet<BufferId>, layouts: &mut Layouts) -> BTreeMap<StmtId, TmaPlan> {
        let kernel = self.kernel;
        let mut all = BTreeMap::new();
        if kernel.class.writes != Width::Sixteen
            || kernel.stmts.values().any(|s| matches!(s.kind, StmtKind::LastArriver { .. }))
        {
            return all;
        }
        let elements = parts::accesses(kernel, &kernel.body);
        let elementwise = |place: Place| elements.iter().any(|access| kernel.accesses[*access].place == place);
        for stmt in statements(kernel, &kernel.body) {
            let StmtKind::Tile(TileOp::Copy { src, dst, tma: true, .. }) = &kernel.stmts[stmt].kind else { continue };
            let (Place::Buffer(buffer), Place::Tensor(_)) = (src.place, dst.place) else { continue };
            let Some(facts) = self.analysis.copies.get(&stmt) else { continue };
            let dtype = kernel.buffer_dtype(buffer);
            let alike = kernel.place_dtype(dst.place) == kernel.place_dtype(src.place);
            if !own.contains(&buffer) || !src.start.is_empty() || !facts.starts_for_tma_stores() || !alike {
                continue;
            }
            let [rows, cols] = kernel.buffer_extents(buffer) else { continue };
            let asked = kernel.buffers[buffer].swizzle != SwizzleRequest::Auto;
            let made = match elementwise(src.place) || asked {
                true => SharedLayout::row_major(*rows, *cols, dtype),
                false => SharedLayout::automatic(*rows, *cols, dtype),
            };
            let Some(tile) = layouts.shared.get(&buffer).copied().or(made.ok()) else { continue };
            if let Ok(boxes) = TmaPlan::new(&facts.of_dst(), &tile, 1) {
                layouts.shared.insert(buffer, tile);
                all.insert(stmt, boxes);
            }
        }
        all
    }
}
