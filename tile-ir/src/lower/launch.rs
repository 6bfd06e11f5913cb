//! The launch: C parameters, grid and checks.

use super::*;

impl Lowering<'_> {
    /// C parameters: pointers first, then dims, strides, scalars, each in the kernel's order.
    pub(super) fn parameters(&mut self) {
        let kernel = self.kernel;
        let mut strides = Vec::new();
        let mut scalars = Vec::new();
        for (param, Param { name, kind, .. }) in kernel.params.iter() {
            match kind {
                ParamKind::Tensor { shape, mutable, .. } => {
                    let name = self.parameter(name, ValueType::Wide, ParameterKind::Pointer(param));
                    let axes = shape.len();
                    let independent = self.program.launch.dependent.is_some()
                        && kernel.attributes.dependent.as_ref().is_some_and(|all| all.independent.contains(&param));
                    for axis in 0..axes.saturating_sub(1) {
                        let suffix = if axes == 2 { String::new() } else { axis.to_string() };
                        strides.push((format!("{name}_stride{suffix}"), ParameterKind::Stride(param, axis as u8)));
                    }
                    let info = TensorInfo {
                        param,
                        name,
                        dtype: self.dtype_of(Place::Tensor(param)),
                        shape: shape.iter().map(|extent| self.host_extent(*extent)).collect(),
                        mutable: *mutable,
                        stream: kernel.attributes.stream.contains(&param),
                        output: *mutable && is_output(kernel, param),
                        independent,
                        ordered: false,
                    };
                    self.program.tensors.push(info);
                }
                ParamKind::Absent => {}
                ParamKind::Scalar { ty } => {
                    scalars.push((name.clone(), self.value_type(*ty), ParameterKind::Scalar(param)));
                }
            }
        }
        // A dim with a value is no parameter: it is a constant of the program.
        for (dim, Dim { name, .. }) in kernel.dims.iter().filter(|(_, d)| d.value.is_none()) {
            self.parameter(name, ValueType::Index, ParameterKind::Dim(dim));
        }
        let strides = strides.into_iter().map(|(name, kind)| (name, ValueType::Index, kind));
        for (name, ty, kind) in strides.chain(scalars) {
            self.parameter(&name, ty, kind);
        }
    }

    fn host_extent(&self, extent: Extent) -> HostExpr {
        let extent = match extent {
            Extent::Dim(dim) => return HostExpr::Dim(dim),
            Extent::Fixed(expr) => self.kernel.const_index(expr),
        };
        if extent.is_none() {
            self.bug("a tensor's extent is neither a dim nor a constant");
        }
        HostExpr::Int(extent.unwrap_or(0))
    }

    /// One block a tile, on the axes of the author's grid.
    pub(super) fn plain_grid(&mut self) {
        let kernel = self.kernel;
        let grid = kernel.grid.iter().map(|axis| axis.extent).enumerate();
        let tiles = kernel.persistent().into_iter().flat_map(|tiles| tiles.extents.iter().copied());
        for (slot, extent) in grid.take(3).chain(tiles.enumerate().take(3)) {
            match HostExpr::of(kernel, extent) {
                Some(extent) => self.program.launch.grid[slot] = extent,
                None => self.bug("a grid that the launcher does not compute"),
            }
        }
    }

    /// Launch checks, in order of reporting: specialised dims, requires, alignment, strides, operands, index ranges.
    pub(super) fn checks(&mut self) {
        let kernel = self.kernel;
        let mut checks = Vec::new();
        for (dim, value) in kernel.dims.iter().filter_map(|(id, dim)| Some((id, dim.value?))) {
            let holds = HostExpr::binary(BinaryOp::Eq, HostExpr::Dim(dim), HostExpr::Int(value));
            let span = kernel.attributes.specialize.as_ref().map_or(kernel.dims[dim].span, |s| s.span);
            checks.push(Check { holds, kind: CheckKind::Specialized { dim, value }, request: None, span });
        }
        for require in &kernel.requires {
            match HostExpr::of(kernel, require.cond) {
                Some(holds) => checks.push(required(holds, &require.text, require.span)),
                None => self.bug("a contract that the launcher does not compute"),
            }
        }
        for (count, extents) in &self.analysis.arrivals {
            let blocks =
                extents.iter().try_fold(HostExpr::Int(1), |all, e| Some(raster::times(all, HostExpr::of(kernel, *e)?)));
            if let (Some(count_value), Some(blocks)) = (HostExpr::of(kernel, *count), blocks) {
                let holds = HostExpr::binary(BinaryOp::Eq, count_value, blocks);
                let text = "as many blocks as `last_arriver` awaits share its counter";
                checks.push(required(holds, text, kernel.exprs[*count].span));
            }
        }
        for need in &self.analysis.block_needs {
            checks.push(required(need.holds.clone(), &need.text, need.span));
        }
        for stmt in &kernel.body {
            let StmtKind::Shuffle { lane, .. } = kernel.stmts[*stmt].kind else { continue };
            if let (None, Some(lane_value)) = (kernel.const_index(lane), HostExpr::of(kernel, lane)) {
                let holds = HostExpr::binary(BinaryOp::Lt, lane_value, HostExpr::Int(32));
                let text = "the mask, distance or lane of a shuffle is below 32, as many lanes as a warp has";
                checks.push(required(holds, text, kernel.exprs[lane].span));
            }
        }
        for need in &self.analysis.launch_needs {
            let (tensor, request, span) = (need.tensor, need.request, need.span);
            checks.extend((need.align_bytes > 1).then(|| aligned(tensor, need.align_bytes, request, span)));
            for (axis, &elements) in need.stride_multiple.iter().enumerate().filter(|(_, m)| **m > 1) {
                checks.push(strided(tensor, axis as u8, elements, request, span));
            }
        }
        for &(dim, multiple, span) in &self.analysis.extent_needs {
            let holds = multiple_of(HostExpr::Dim(dim), multiple);
            let check = required(holds, &format!("{} % {multiple} == 0", kernel.dims[dim].name), span);
            checks.push(Check { request: Some(Side::Reads), ..check });
        }
        // What TMA asks of a tensor, and what stores of several elements at once do.
        let chunk = crate::layout::swizzle::CHUNK;
        let mut rows: BTreeMap<ParamId, u32> = BTreeMap::new();
        for (&tensor, &elements) in &self.pieces {
            rows.insert(tensor, elements * self.dtype_of(Place::Tensor(tensor)).bytes());
        }
        rows.extend(self.program.tensor_maps.values().map(|map| (map.tensor, chunk)));
        for (tensor, bytes) in rows {
            let span = kernel.params[tensor].span;
            let is_written = matches!(kernel.params[tensor].kind, ParamKind::Tensor { mutable: true, .. });
            let request = Some(if is_written { Side::Writes } else { Side::Reads });
            checks.push(aligned(tensor, bytes, request, span));
            let elements = bytes / self.dtype_of(Place::Tensor(tensor)).bytes();
            let outer = self.rank(Place::Tensor(tensor)).saturating_sub(1) as u8;
            checks.extend((0..outer).map(|axis| strided(tensor, axis, elements, request, span)));
        }
        for operand in &self.analysis.operand_ranges {
            let (kind, value, span) = (operand.kind, operand.value.clone(), operand.span);
            let holds = kind.holds(value.clone());
            checks.push(Check { holds, kind: CheckKind::Operand { kind, value }, request: None, span });
        }
        for range in self.analysis.index_ranges.iter().chain(&self.index_ranges) {
            let limit = HostExpr::Int(1 << 31);
            let holds = HostExpr::binary(BinaryOp::Lt, range.bound.clone(), limit);
            let kind = CheckKind::IndexRange { bound: range.bound.clone() };
            checks.push(Check { holds, kind, request: None, span: range.span });
        }
        // What is read decides first, so that every class is reached in one way.
        checks.sort_by_key(|check| check.request == Some(Side::Writes));
        self.program.launch.checks = checks;
    }
}

fn required(holds: HostExpr, text: &str, span: SpanId) -> Check {
    Check { holds, kind: CheckKind::Require { text: text.to_owned() }, request: None, span }
}

/// A tensor's address is a multiple of so many bytes.
fn aligned(tensor: ParamId, bytes: u32, request: Option<Side>, span: SpanId) -> Check {
    let holds = multiple_of(HostExpr::Address(tensor), bytes);
    Check { holds, kind: CheckKind::Alignment { tensor, bytes }, request, span }
}

/// A tensor's stride on an axis is a multiple of so many elements.
fn strided(tensor: ParamId, axis: u8, multiple: u32, request: Option<Side>, span: SpanId) -> Check {
    let holds = multiple_of(HostExpr::Stride(tensor, axis), multiple);
    Check { holds, kind: CheckKind::StrideMultiple { tensor, axis, multiple }, request, span }
}

/// Whether a value is a multiple.
fn multiple_of(value: HostExpr, of: u32) -> HostExpr {
    let rest = HostExpr::binary(BinaryOp::Rem, value, HostExpr::Int(i64::from(of)));
    HostExpr::binary(BinaryOp::Eq, rest, HostExpr::Int(0))
}

/// Whether a tensor that may be written is an output: stored to, and neither read nor updated, so that what it held before
/// the launch does not matter.
fn is_output(kernel: &BoundKernel, param: ParamId) -> bool {
    let place = Place::Tensor(param);
    let attributes = &kernel.attributes;
    if attributes.partial.contains(&param) || attributes.workspaces.contains(&param) {
        return false;
    }
    let of = |access: AccessId| kernel.accesses[access].place == place;
    let is_used = |part| match part {
        StmtPart::Tile(tile, touch) => touch.reads() && tile.place == place,
        StmtPart::Element(access, touch) => touch.reads() && of(access),
        _ => false,
    };
    !kernel.exprs.values().any(|e| matches!(e.kind, ExprKind::Load(access) if of(access)))
        && !kernel.stmts.values().flat_map(|stmt| stmt.kind.parts()).any(is_used)
}
