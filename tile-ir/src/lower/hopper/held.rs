//! What the work on a product needs of memory and knows the address of before the product is done: it is loaded while the product runs.
//!
//! Of a loop over a fragment these are the loads that every element makes whatever its value is, of tensors that the kernel does not write and
//! of arrays in slots, whose place depends on the element's row alone. A thread has few rows, two of 64 in an accumulator, so what it holds of
//! them are few registers; and each is loaded once, not for every element of the row.
//! What it holds of a tensor may have been copied into slots of shared memory, steps ahead ([`super::copied`]).

use super::super::uses::{constant, depends, depends_on, statements};
use super::super::*;
use super::plan::Ring;
use crate::ir::parts::accesses;
use crate::layout::Fragment;

/// Most registers that a thread holds of what it has loaded for one iteration.
const MOST: u32 = 8;

/// A load of a loop over a fragment that is made ahead.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Held {
    load: RowLoad,
    /// An element for each of a thread's rows.
    local: LocalId,
}

/// A load that every element of a loop over a fragment makes whatever its value is, from a place that depends on the element's row alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLoad {
    pub(super) access: AccessId,
    layout: Fragment,
    /// The loop's row and column.
    pub(super) vars: [VarId; 2],
    /// How many rows the loop has.
    pub(super) rows: u32,
}

impl RowLoad {
    /// The variables that the place in the first row is made of.
    pub(super) fn vars(&self, kernel: &BoundKernel) -> Vec<VarId> {
        let indices = kernel.accesses[self.access].indices.iter();
        indices.flat_map(|index| depends(kernel, *index)).filter(|var| *var != self.vars[0]).collect()
    }
}

impl<'a> Lowering<'a> {
    /// Declares registers for what statements, a loop's work on its product, load of memory without knowing the product.
    pub(super) fn declare_held(&mut self, ring: &Ring, work: &[StmtId]) -> Vec<Held> {
        let loads = self.row_loads(ring, work);
        let declare = |load: RowLoad| {
            let place = self.kernel.accesses[load.access].place;
            let name = format!("{}_held", self.kernel.place_name(place));
            let dtype = self.dtype_of(place);
            Held { load, local: self.local(&name, dtype, load.layout.slots(0)) }
        };
        loads.into_iter().map(declare).collect()
    }

    /// The loads of rows that loops over fragments make, as many as a thread has registers for.
    pub(super) fn row_loads(&self, ring: &Ring, work: &[StmtId]) -> Vec<RowLoad> {
        let kernel = self.kernel;
        let mut registers = 0;
        // What is not known before the work.
        let made = |stmt| {
            let (StmtKind::Let { var, .. } | StmtKind::Assign { var, .. }) = kernel.stmts[stmt].kind else {
                return None;
            };
            Some(var)
        };
        let mut own: Vec<VarId> = statements(kernel, work).into_iter().filter_map(made).collect();
        let mut all = Vec::new();
        for &stmt in work {
            let StmtKind::Parallel { vars, extents, body } = &kernel.stmts[stmt].kind else { continue };
            let (&[row, col], Some(fragment)) = (&vars[..], self.fragment_of(body)) else { continue };
            own.push(col);
            let mut found = self.certain_loads(body);
            found.retain(|access| self.is_held(ring, *access, row, &own));
            let whole = self.layouts.fragments.get(&fragment).filter(|layout| layout.is_whole());
            let (Some(&layout), Some(rows)) = (whole, constant(kernel, extents[0])) else { continue };
            if self.layouts.kept.contains_key(&fragment) {
                continue;
            }
            for access in found {
                registers += layout.slots(0);
                if registers > MOST {
                    return all;
                }
                all.push(RowLoad { access, layout, vars: [row, col], rows });
            }
        }
        all
    }

    /// The loads that statements make whatever values they find.
    pub(in super::super) fn certain_loads(&self, body: &[StmtId]) -> Vec<AccessId> {
        let kernel = self.kernel;
        let mut found = Vec::new();
        let certain =
            |kind: &&StmtKind| matches!(kind, StmtKind::Let { .. } | StmtKind::Assign { .. } | StmtKind::Store { .. });
        let kinds = body.iter().map(|s| &kernel.stmts[*s].kind).filter(certain);
        let mut left: Vec<ExprId> = kinds.flat_map(StmtKind::values).collect();
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                // The other operands are evaluated only for some values of the first.
                ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, _) | ExprKind::If(a, _, _) => left.push(*a),
                ExprKind::Load(access) => found.push(*access),
                kind => kind.operands(kernel, &mut |operand| left.push(operand)),
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether what an access reads is the same before and during the work, and its place known from a row: no index is a load, or depends on
    /// the variables `own` that the work gives values to.
    fn is_held(&self, ring: &Ring, access: AccessId, row: VarId, own: &[VarId]) -> bool {
        let kernel = self.kernel;
        let Access { place, indices, .. } = &kernel.accesses[access];
        let constant = match *place {
            Place::Tensor(param) => matches!(kernel.params[param].kind, ParamKind::Tensor { mutable: false, .. }),
            Place::Buffer(buffer) => {
                let stores = |s: &Stmt| matches!(s.kind, StmtKind::Store { access, .. } if kernel.accesses[access].place == *place);
                ring.loads().any(|load| load.buffer == buffer) && !kernel.stmts.values().any(stores)
            }
        };
        let known = |index: &ExprId| !self.loads(*index) && !depends_on(kernel, *index, own);
        constant && indices.iter().all(known) && indices.iter().any(|index| depends_on(kernel, *index, &[row]))
    }

    /// Loads what is held, at the iteration that variables and slots stand for now.
    pub(super) fn load_held(&mut self, held: &[Held]) {
        for Held { load: RowLoad { access, layout, vars, .. }, local } in held {
            self.unrolled("i", layout.slots(0), |l, slot| {
                let register = l.representative(layout, 0, slot);
                let position = l.element_position(layout, register);
                vars.iter().zip(position).for_each(|(var, at)| l.vars[*var] = Some(Binding::Value(at)));
                let memory = l.copied_row(*access, position[0]).unwrap_or_else(|| l.memory(*access));
                let value = l.fetch(memory);
                l.put(*local, slot, value);
            });
        }
    }

    /// The registers in which the work on a product finds an access, if it does.
    pub(in super::super) fn held_access(&self, access: AccessId) -> Option<Held> {
        self.held.values().flatten().find(|held| held.load.access == access).copied()
    }

    /// The element of an access that is held, in a loop over a fragment.
    pub(in super::super) fn held_element(&mut self, access: AccessId) -> Option<Memory> {
        let Held { load: RowLoad { layout, .. }, local } = self.held_access(access)?;
        let (register, _) = self.element.register?;
        let offset = self.formula([register], |[register]| layout.slot(0, register));
        Some(self.at(local, offset))
    }

    /// Whether work reads the slots of a ring only in accesses that are held.
    pub(super) fn reads_no_slot(&self, ring: &Ring, work: &[StmtId], held: &[Held]) -> bool {
        let kernel = self.kernel;
        let is_slot = |place: Place| ring.loads().any(|load| Place::Buffer(load.buffer) == place);
        let is_held = |access: &AccessId| held.iter().any(|held| held.load.access == *access);
        accesses(kernel, work).iter().all(|access| !is_slot(kernel.accesses[*access].place) || is_held(access))
    }
}
