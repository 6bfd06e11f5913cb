//! What statements and expressions name: variables, arrays, tensors and accesses, each given its place on first mention.

use super::super::code::{ArrayInfo, ElementRef, Kind, Loc, MaskId, Repr, Step, Target};
use super::{Compiler, Value, malformed};
use crate::ir::{AccessId, BufferId, Dtype, EntityRef, ExprId, ExprKind, Place, Scope, Type, VarId, VarKind};
use crate::sim::SimError;

impl Compiler<'_, '_> {
    pub(super) fn place_shape(&self, place: Place) -> Result<Vec<i64>, SimError> {
        match place {
            Place::Tensor(param) => match self.launch.tensors.get(param.index()) {
                Some(Some(view)) => Ok(view.shape.clone()),
                _ => malformed("a scalar is used as a tensor"),
            },
            Place::Buffer(buffer) => self.extents(buffer),
        }
    }

    pub(super) fn place(&mut self, place: Place) -> Result<Target, SimError> {
        match place {
            Place::Tensor(param) => match self.launch.tensors.get(param.index()) {
                Some(Some(_)) => Ok(Target::Tensor(param.index() as u32)),
                _ => malformed("a scalar is used as a tensor"),
            },
            Place::Buffer(buffer) => self.array(buffer),
        }
    }

    pub(super) fn extents(&self, buffer: BufferId) -> Result<Vec<i64>, SimError> {
        let Some(declared) = self.kernel.buffers.get(buffer) else { return malformed("an array is missing") };
        let literal = |e: &ExprId| match self.kernel.exprs.get(*e).map(|e| &e.kind) {
            Some(ExprKind::Int(value)) if *value >= 0 => Ok(*value),
            _ => malformed(format!("an extent of `{}` is not a literal: bind an instance first", declared.name)),
        };
        declared.extents.iter().map(literal).collect()
    }

    /// An array, allocated on first mention.
    pub(super) fn array(&mut self, buffer: BufferId) -> Result<Target, SimError> {
        if let Some(target) = self.arrays[buffer] {
            return Ok(target);
        }
        let extents = self.extents(buffer)?;
        let declared = &self.kernel.buffers[buffer];
        let Some(dtype) = Type::Value(declared.dtype).dtype() else { return malformed("a dtype is not bound") };
        // Every thread's registers, or a block's shared memory: 256 MiB is beyond any device and still allocatable.
        let copies = if declared.scope == Scope::Local { self.launch.lanes() as i64 } else { 1 };
        let len = extents.iter().try_fold(1i64, |product, e| product.checked_mul(*e));
        let len = match len {
            Some(len) if len.checked_mul(copies).is_some_and(|all| all <= 64 << 20) => len as u32,
            _ => return malformed(format!("`{}` is too large to simulate", declared.name)),
        };
        let name = declared.name.clone();
        let target = match declared.scope {
            // A fragment is whole, as a shared array is: how it is spread over threads shows in nothing.
            Scope::Shared | Scope::Fragment => {
                self.shared.push(ArrayInfo { name, dtype, extents, first: 0, len });
                Target::Shared(self.shared.len() as u32 - 1)
            }
            Scope::Local => {
                let first = self.pools.run(Kind::of_dtype(dtype), len.max(1));
                self.locals.push(ArrayInfo { name, dtype, extents, first, len });
                Target::Local(self.locals.len() as u32 - 1)
            }
        };
        self.arrays[buffer] = Some(target);
        Ok(target)
    }

    pub(super) fn var_repr(&self, var: VarId) -> Result<Repr, SimError> {
        let ty = self.kernel.vars.get(var).map(|v| v.ty);
        ty.and_then(Repr::of).map_or_else(|| malformed("a variable's type is not bound"), Ok)
    }

    /// A variable's register, allocated on first mention.
    pub(super) fn var(&mut self, var: VarId) -> Result<Loc, SimError> {
        if let Some(loc) = self.vars[var] {
            return Ok(loc);
        }
        let repr = self.var_repr(var)?;
        let loc = match self.kernel.vars[var].kind {
            VarKind::Thread(axis) if self.uniform.thread_axis_is_one(axis) => self.pools.index_constant(0),
            _ => self.pools.variable(repr.kind(), self.uniform.var_varies(var)),
        };
        match (self.kernel.vars[var].kind, loc) {
            (VarKind::Thread(axis), Loc::Lanes(register)) => self.thread_vars.push((axis, register)),
            (VarKind::Block(axis), Loc::Scalar(scalar)) => self.block_vars.push((axis, scalar)),
            _ => {}
        }
        self.vars[var] = Some(loc);
        Ok(loc)
    }

    /// Extents that are the same for the whole block.
    pub(super) fn uniform_indices(
        &mut self,
        exprs: &[ExprId],
        mask: MaskId,
        out: &mut Vec<Step>,
    ) -> Result<Vec<Value>, SimError> {
        let mut values = Vec::new();
        for expr in exprs {
            let value = self.index(*expr, mask, out)?;
            if let Loc::Lanes(_) = value.loc {
                return malformed("an extent differs between threads");
            }
            values.push(value);
        }
        Ok(values)
    }

    pub(super) fn index(&mut self, expr: ExprId, mask: MaskId, out: &mut Vec<Step>) -> Result<Value, SimError> {
        let value = self.expr(expr, mask, out)?;
        if value.repr == Repr::Index { Ok(value) } else { malformed("an index that is not usize") }
    }

    pub(super) fn element(
        &mut self,
        access: AccessId,
        mask: MaskId,
        out: &mut Vec<Step>,
    ) -> Result<ElementRef, SimError> {
        let Some(access) = self.kernel.accesses.get(access) else { return malformed("an access is missing") };
        let target = self.place(access.place)?;
        if self.place_shape(access.place)?.len() != access.indices.len() {
            return malformed("an access has another number of indices than axes");
        }
        let indices = access.indices.iter().map(|i| self.index(*i, mask, out).map(|v| v.loc));
        let indices = indices.collect::<Result<_, _>>()?;
        Ok(ElementRef { target, indices, masked: access.masked, span: access.span })
    }

    pub(super) fn free_element(&mut self, element: &ElementRef) {
        for loc in &element.indices {
            self.pools.free(Kind::Index, *loc);
        }
    }

    pub(super) fn free(&mut self, value: Value) {
        if value.temp {
            self.pools.free(value.repr.kind(), value.loc);
        }
    }

    pub(super) fn constant_index(&mut self, value: i64) -> Value {
        Value { repr: Repr::Index, loc: self.pools.index_constant(value), temp: false }
    }

    /// The dtype of what an access touches.
    pub(super) fn access_repr(&self, access: AccessId) -> Result<Repr, SimError> {
        let place = self.kernel.accesses.get(access).map(|a| a.place);
        let dtype: Option<Dtype> = place.and_then(|p| Type::Value(self.kernel.place_dtype(p)).dtype());
        dtype.map_or_else(|| malformed("an access's dtype is not bound"), |d| Ok(Repr::Element(d)))
    }
}
