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
                    let name = self.name(name);
                    let axes = shape.len();
                    let shape_exprs = (0..axes).map(|axis| self.host_extent(param, axis)).collect();
                    let dtype = self.dtype_of(Place::Tensor(param));
                    let (shape, stream) = (shape_exprs, kernel.attributes.stream.contains(&param));
                    let independent = self.program.launch.dependent.is_some()
                        && kernel.attributes.dependent.as_ref().is_some_and(|all| all.independent.contains(&param));
                    let (name, mutable) = (name.clone(), *mutable);
                    let output = mutable && is_output(kernel, param);
                    let info = TensorInfo {
                        param,
                        name: name.clone(),
                        dtype,
                        shape,
                        mutable,
                        stream,
                        output,
                        independent,
                        ordered: false,
                    };
                    self.program.tensors.push(info);
                    let kind = ParameterKind::Pointer(param);
                    self.program.params.push(Parameter { name: name.clone(), ty: ValueType::Wide, kind });
                    for axis in 0..axes.saturating_sub(1) {
                        let suffix = if axes == 2 { String::new() } else { axis.to_string() };
                        strides.push((format!("{name}_stride{suffix}"), ParameterKind::Stride(param, axis as u8)));
                    }
                }
                ParamKind::Absent => {}
                ParamKind::Scalar { ty } => {
                    scalars.push((name.clone(), self.value_type(*ty), ParameterKind::Scalar(param)));
                }
            }
        }
        // A dim with a value is no parameter: it is a constant of the program.
        for (dim, Dim { name, .. }) in kernel.dims.iter().filter(|(_, d)| d.value.is_none()) {
            let name = self.name(name);
            self.program.params.push(Parameter { name, ty: ValueType::Index, kind: ParameterKind::Dim(dim) });
        }
        for (name, kind) in strides {
            let name = self.name(&name);
            self.program.params.push(Parameter { name, ty: ValueType::Index, kind });
        }
        for (name, ty, kind) in scalars {
            let name = self.name(&name);
            self.program.params.push(Parameter { name, ty, kind });
        }
    }

    fn host_extent(&self, param: ParamId, axis: usize) -> HostExpr {
        let extent = match self.tensor_extent(param, axis) {
            Some(Extent::Dim(dim)) => Some(HostExpr::Dim(dim)),
            Some(Extent::Fixed(expr)) => self.kernel.const_index(expr).map(HostExpr::Int),
            None => None,
        };
        extent.unwrap_or_else(|| {
            self.bug("a tensor's extent is neither a dim nor a constant");
            HostExpr::Int(0)
        })
    }

    /// One block a tile, on the axes of the author's grid.
    pub(super) fn plain_grid(&mut self) {
        let kernel = self.kernel;
        for (slot, axis) in kernel.grid.iter().enumerate().take(3) {
            if let Some(extent) = HostExpr::of(kernel, axis.extent) {
                self.program.launch.grid[slot] = extent;
            }
        }
        let tiles = kernel.persistent().into_iter().flat_map(|tiles| tiles.extents);
        for (slot, extent) in tiles.enumerate().take(3) {
            if let Some(extent) = HostExpr::of(kernel, *extent) {
                self.program.launch.grid[slot] = extent;
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
            if let Some(holds) = HostExpr::of(kernel, require.cond) {
                let kind = CheckKind::Require { text: require.text.clone() };
                checks.push(Check { holds, kind, request: None, span: require.span });
            }
        }
        for (count, extents) in &self.analysis.arrivals {
            let blocks = extents.iter().try_fold(HostExpr::Int(1), |all, e| {
                let extent = HostExpr::of(kernel, *e)?;
                Some(if all == HostExpr::Int(1) { extent } else { HostExpr::binary(BinaryOp::Mul, all, extent) })
            });
            if let (Some(count_value), Some(blocks)) = (HostExpr::of(kernel, *count), blocks) {
                let holds = HostExpr::binary(BinaryOp::Eq, count_value, blocks);
                let text = "as many blocks as `last_arriver` awaits share its counter".to_owned();
                checks.push(Check {
                    holds,
                    kind: CheckKind::Require { text },
                    request: None,
                    span: kernel.exprs[*count].span,
                });
            }
        }
        for need in &self.analysis.block_needs {
            let kind = CheckKind::Require { text: need.text.clone() };
            checks.push(Check { holds: need.holds.clone(), kind, request: None, span: need.span });
        }
        for stmt in &kernel.body {
            let StmtKind::Shuffle { lane, .. } = kernel.stmts[*stmt].kind else { continue };
            if let (None, Some(lane_value)) = (kernel.const_index(lane), HostExpr::of(kernel, lane)) {
                let holds = HostExpr::binary(BinaryOp::Lt, lane_value, HostExpr::Int(32));
                let text =
                    "the mask, distance or lane of a shuffle is below 32, as many lanes as a warp has".to_owned();
                checks.push(Check {
                    holds,
                    kind: CheckKind::Require { text },
                    request: None,
                    span: kernel.exprs[lane].span,
                });
            }
        }
        for need in &self.analysis.launch_needs {
            let (tensor, request, span) = (need.tensor, need.request, need.span);
            if need.align_bytes > 1 {
                let holds = multiple_of(HostExpr::Address(tensor), need.align_bytes);
                let kind = CheckKind::Alignment { tensor, bytes: need.align_bytes };
                checks.push(Check { holds, kind, request, span });
            }
            for (axis, &elements) in need.stride_multiple.iter().enumerate().filter(|(_, m)| **m > 1) {
                let axis = axis as u8;
                let holds = multiple_of(HostExpr::Stride(tensor, axis), elements);
                checks.push(Check {
                    holds,
                    kind: CheckKind::StrideMultiple { tensor, axis, multiple: elements },
                    request,
                    span,
                });
            }
        }
        for &(dim, multiple, span) in &self.analysis.extent_needs {
            let holds = multiple_of(HostExpr::Dim(dim), multiple);
            let kind = CheckKind::Require { text: format!("{} % {multiple} == 0", kernel.dims[dim].name) };
            checks.push(Check { holds, kind, request: Some(Side::Reads), span });
        }
        // What TMA asks of a tensor, and what stores by pairs do.
        let chunk = crate::layout::swizzle::CHUNK;
        let mut rows: BTreeMap<ParamId, u32> = BTreeMap::new();
        for &tensor in &self.paired {
            rows.insert(tensor, 2 * self.dtype_of(Place::Tensor(tensor)).bytes());
        }
        rows.extend(self.program.tensor_maps.values().map(|map| (map.tensor, chunk)));
        for (tensor, bytes) in rows {
            let span = kernel.params[tensor].span;
            let is_written = matches!(kernel.params[tensor].kind, ParamKind::Tensor { mutable: true, .. });
            let request = Some(if is_written { Side::Writes } else { Side::Reads });
            let holds = multiple_of(HostExpr::Address(tensor), bytes);
            checks.push(Check { holds, kind: CheckKind::Alignment { tensor, bytes }, request, span });
            let elements = bytes / self.dtype_of(Place::Tensor(tensor)).bytes();
            let rank = match &kernel.params[tensor].kind {
                ParamKind::Tensor { shape, .. } => shape.len(),
                ParamKind::Scalar { .. } | ParamKind::Absent => 0,
            };
            for axis in 0..rank.saturating_sub(1) as u8 {
                let holds = multiple_of(HostExpr::Stride(tensor, axis), elements);
                checks.push(Check {
                    holds,
                    kind: CheckKind::StrideMultiple { tensor, axis, multiple: elements },
                    request,
                    span,
                });
            }
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
    let loaded = kernel.exprs.values().any(|e| matches!(e.kind, ExprKind::Load(access) if of(access)));
    let mut used = false;
    for stmt in kernel.stmts.values() {
        stmt.kind.parts(&mut |part| match part {
            StmtPart::Tile(tile, touch) => used |= touch.reads() && tile.place == place,
            StmtPart::Element(access, touch) => used |= touch.reads() && of(access),
            StmtPart::Value(_)
            | StmtPart::Constant(_)
            | StmtPart::Array(..)
            | StmtPart::Binds(_)
            | StmtPart::Sets(_) => {}
            StmtPart::Body(_) | StmtPart::Report | StmtPart::BlockCollective | StmtPart::WarpCollective => {}
            StmtPart::BlockBarrier | StmtPart::WarpBarrier => {}
        });
    }
    !loaded && !used
}
