//! Tiles by TMA: one thread asks for the boxes that a tile is made of, which arrive swizzled and complete the slot's barrier.

use super::super::hopper::Load;
use super::super::*;
use crate::layout::TmaPlan;

impl Lowering<'_> {
    /// The slots of a load's array and its tensor map.
    pub(in crate::lower) fn slots_of(&mut self, load: &Load, stages: u32) -> MapId {
        let elements = load.layout.bytes() / load.layout.dtype().bytes();
        let Buffer { name, .. } = &self.kernel.buffers[load.buffer];
        if self.shared[load.buffer].is_none() {
            let shared = self.shared_array(name, load.layout.dtype(), elements.saturating_mul(stages), false);
            self.program.shared[shared].align = load.layout.alignment();
            self.program.shared[shared].slots = stages;
            self.shared[load.buffer] = Some(shared);
            self.op(OpKind::Shared { shared });
        }
        self.tensor_map(load.tensor, &load.boxes, false)
    }

    /// The map of a tensor for boxes of this plan, which are stored or loaded.
    pub(in crate::lower) fn tensor_map(&mut self, tensor: ParamId, boxes: &TmaPlan, stores: bool) -> MapId {
        let alike = |map: &TensorMap| {
            let same_box = map.box_extents == boxes.box_dims && map.swizzle == boxes.swizzle;
            map.tensor == tensor && same_box && map.stores == stores
        };
        if let Some((map, _)) = self.program.tensor_maps.iter().find(|(_, map)| alike(map)) {
            return map;
        }
        let name = self.out.name(&format!("{}_map", self.kernel.params[tensor].name));
        let map = self.program.tensor_maps.push(TensorMap {
            name: name.clone(),
            tensor,
            box_extents: boxes.box_dims.clone(),
            swizzle: boxes.swizzle,
            // 256 bytes cost up to 6% where a tensor is read once (`docs/hopper.md`, "TMA and bulk copies").
            promotion: Promotion::B128,
            stores,
        });
        let kind = ParameterKind::TensorMap(map);
        self.program.params.push(Parameter { name, ty: ValueType::Wide, kind });
        map
    }

    /// Asks for one tile, which goes to its array from element `base`: all its boxes, or this block's part of one that blocks of the
    /// cluster share.
    pub(in crate::lower) fn load_tile(&mut self, load: &Load, map: MapId, barrier: BarrierRef, base: ValueId) {
        self.span = load.span;
        let Some(shared) = self.shared[load.buffer] else { return self.bug("a load has no stages") };
        let size = load.layout.dtype().bytes();
        let part =
            load.shared.map(|sharing| (self.part_of_tile(&sharing), self.sharing_ranks(&sharing), load.part_step()));
        for piece in load.boxes.boxes.iter().filter(|b| b.part == 0) {
            let rank = piece.coordinates.len();
            let mut coordinates = Vec::new();
            for (axis, &within) in piece.coordinates.iter().enumerate() {
                let first = match load.start.get(rank - 1 - axis) {
                    Some(&start) => self.narrow_value(start),
                    None => self.int(0),
                };
                let within = self.int(i64::from(within));
                let mut coordinate = self.binary(BinaryOp::Add, first, within);
                if let Some((part, _, (steps, _))) = &part
                    && steps[axis] != 0
                {
                    let step = self.int(i64::from(steps[axis]));
                    let shift = self.binary(BinaryOp::Mul, *part, step);
                    coordinate = self.binary(BinaryOp::Add, coordinate, shift);
                }
                coordinates.push(coordinate);
            }
            let within = self.int(i64::from(piece.offset / size));
            let mut offset = self.binary(BinaryOp::Add, base, within);
            if let Some((part, _, (_, bytes))) = &part {
                let step = self.int(i64::from(bytes / size));
                let shift = self.binary(BinaryOp::Mul, *part, step);
                offset = self.binary(BinaryOp::Add, offset, shift);
            }
            let multicast = part.as_ref().map(|(_, mask, _)| *mask);
            let evict = load.evict;
            self.op(OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict });
        }
    }
}
