//! Tiles by TMA: one thread asks for the boxes that a tile is made of, which arrive swizzled and complete the slot's barrier.

use super::super::*;
use super::load::Target;
use super::{Load, Sharing};
use crate::layout::{TmaBox, TmaPlan};

impl Lowering<'_> {
    /// The map of a tensor for boxes of this plan, which are stored or loaded.
    pub(in crate::lower) fn tensor_map(&mut self, tensor: ParamId, boxes: &TmaPlan, stores: bool) -> MapId {
        let alike = |map: &TensorMap| {
            let same_box = map.box_extents == boxes.box_dims && map.swizzle == boxes.swizzle;
            map.tensor == tensor && same_box && map.stores == stores
        };
        if let Some((map, _)) = self.program.tensor_maps.iter().find(|(_, map)| alike(map)) {
            return map;
        }
        let map = self.program.tensor_maps.next_key();
        let wanted = format!("{}_map", self.kernel.params[tensor].name);
        let name = self.parameter(&wanted, ValueType::Wide, ParameterKind::TensorMap(map));
        self.program.tensor_maps.push(TensorMap {
            name,
            tensor,
            box_extents: boxes.box_dims.clone(),
            swizzle: boxes.swizzle,
            // 256 bytes cost up to 6% where a tensor is read once (`docs/hopper.md`, "TMA and bulk copies").
            promotion: Promotion::B128,
            stores,
        })
    }

    /// Asks for one tile, which goes to its array from element `base`: all its boxes, or this block's part of one that blocks of the
    /// cluster share.
    pub(super) fn load_boxes(&mut self, load: &Load, (boxes, sharing): (&TmaPlan, Option<Sharing>), to: Target) {
        let Target { shared, base, barrier } = to;
        let map = self.tensor_map(load.tensor, boxes, false);
        let size = load.dtype.bytes();
        let part = sharing.map(|of| (self.part_of_tile(&of), self.sharing_ranks(&of), part_step(boxes)));
        for piece in boxes.boxes.iter().filter(|b| b.part == 0) {
            let mut coordinates = self.coordinates(&load.src.start, piece);
            let mut offset = self.binary(BinaryOp::Add, base, piece.offset / size);
            if let Some((part, _, (steps, bytes))) = &part {
                for (coordinate, step) in coordinates.iter_mut().zip(steps).filter(|(_, step)| **step != 0) {
                    *coordinate = self.binary(BinaryOp::Add, *coordinate, *part * *step);
                }
                offset = self.binary(BinaryOp::Add, offset, *part * (bytes / size));
            }
            let multicast = part.as_ref().map(|(_, mask, _)| *mask);
            let evict = load.evict;
            self.op(OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict });
        }
    }

    /// The coordinates, innermost first, of a box of a tile that begins at `start`.
    pub(in crate::lower) fn coordinates(&mut self, start: &[ExprId], piece: &TmaBox) -> Vec<ValueId> {
        let within = piece.coordinates.iter().zip((0..piece.coordinates.len()).rev());
        within
            .map(|(within, axis)| {
                let first = self.first_coordinate(start.get(axis).copied());
                self.binary(BinaryOp::Add, first, *within)
            })
            .collect()
    }

    /// Where a tile begins on an axis: at `start`, which the analysis has bounded by the 32 bits that TMA takes, or where the tensor does.
    pub(in crate::lower) fn first_coordinate(&mut self, start: Option<ExprId>) -> ValueId {
        let Some(start) = start else { return self.int(0) };
        let value = self.value(start);
        self.fit(value, ValueType::Index)
    }
}

/// How coordinates (innermost first) and byte offset change from one part of a shared tile to the next: parts follow one another in whole
/// atoms of rows, so the same for every box.
fn part_step(plan: &TmaPlan) -> (Vec<u32>, u32) {
    let first = |part: u32| plan.boxes.iter().find(|b| b.part == part);
    let (Some(a), Some(b)) = (first(0), first(1)) else { return (vec![0; plan.rank()], 0) };
    let steps = a.coordinates.iter().zip(&b.coordinates).map(|(a, b)| b.saturating_sub(*a)).collect();
    (steps, b.offset.saturating_sub(a.offset))
}
