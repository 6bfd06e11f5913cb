//! What the work on a product needs of memory and knows the address of before the product is done: it is loaded while the product runs.
//!
//! Of a loop over a fragment these are the loads that every element makes whatever its value is, of tensors that the kernel does not write and
//! of arrays in slots, whose place depends on the element's row alone. A thread has few rows, two of 64 in an accumulator, so what it holds of
//! them are few registers; and each is loaded once, not for every element of the row.

use super::super::uses::{depends_on, each};
use super::super::*;
use super::plan::Ring;
use crate::ir::parts::accesses;
use crate::layout::{Formula, Fragment};

/// Most registers that a thread holds of what it has loaded for one iteration.
const MOST: u32 = 8;

/// An access of a loop over a fragment that is loaded ahead.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Held {
    access: AccessId,
    /// An element for each of a thread's rows.
    local: LocalId,
    layout: Fragment,
    /// The loop's row and column.
    vars: [VarId; 2],
}

impl<'a> Lowering<'a> {
    /// Declares registers for what statements, a loop's work on its product, load of memory without knowing the product.
    pub(super) fn declare_held(&mut self, ring: &Ring, work: &[StmtId]) -> Vec<Held> {
        let kernel = self.kernel;
        let mut all: Vec<Held> = Vec::new();
        let mut registers = 0;
        for &stmt in work {
            let StmtKind::Parallel { vars, body, .. } = &kernel.stmts[stmt].kind else { continue };
            let fragment = self.fragment_of(body).and_then(|fragment| self.fragments[fragment]);
            let fragment = fragment.filter(|held| held.kept.is_none() && held.layout.is_whole());
            let (&[row, col], Some(fragment::Registers { layout, .. })) = (&vars[..], fragment) else { continue };
            for access in self.certain_loads(ring, [row, col], work, body) {
                let place = kernel.accesses[access].place;
                registers += layout.slots(0);
                if registers > MOST {
                    return all;
                }
                let name = format!("{}_held", kernel.place_name(place));
                let dtype = self.dtype_of(place);
                let local = self.local(&name, dtype, layout.slots(0));
                all.push(Held { access, local, layout, vars: [row, col] });
            }
        }
        all
    }

    /// The loads that a loop over a fragment makes for every element whatever its value, from places that depend on the element's row alone.
    fn certain_loads(&self, ring: &Ring, [row, col]: [VarId; 2], work: &[StmtId], body: &[StmtId]) -> Vec<AccessId> {
        let kernel = self.kernel;
        // What is not known before the work.
        let mut own: Vec<VarId> = vec![col];
        each(kernel, work, &mut |stmt| {
            if let StmtKind::Let { var, .. } | StmtKind::Assign { var, .. } = kernel.stmts[stmt].kind {
                own.push(var);
            }
        });
        let mut found = Vec::new();
        let certain =
            |kind: &&StmtKind| matches!(kind, StmtKind::Let { .. } | StmtKind::Assign { .. } | StmtKind::Store { .. });
        let kinds = body.iter().map(|s| &kernel.stmts[*s].kind).filter(certain);
        let mut left: Vec<ExprId> = kinds.flat_map(StmtKind::values).collect();
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                // The other operands are evaluated only for some values of the first.
                ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, _) | ExprKind::If(a, _, _) => left.push(*a),
                ExprKind::Load(access) => found.extend(self.is_held(ring, *access, row, &own).then_some(*access)),
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
        for Held { access, local, layout, vars } in held {
            self.unrolled("i", layout.slots(0), |l, slot| {
                let register = l.representative(layout, 0, slot);
                let position = l.element_position(layout, register);
                let outer = [0, 1].map(|at| l.vars[vars[at]].replace(Binding::Value(position[at])));
                let memory = l.memory(*access);
                let value = l.fetch(memory);
                l.put(*local, slot, value);
                vars.iter().zip(outer).for_each(|(var, binding)| l.vars[*var] = binding);
            });
        }
    }

    /// The registers in which the work on a product finds an access, if it does.
    pub(in super::super) fn held_access(&self, access: AccessId) -> Option<Held> {
        self.held.values().flatten().find(|held| held.access == access).copied()
    }

    /// The element of an access that is held, in a loop over a fragment.
    pub(in super::super) fn held_element(&mut self, access: AccessId) -> Option<Memory> {
        let Held { local, layout, .. } = self.held_access(access)?;
        let (register, _) = self.element.register?;
        let offset = self.formula(&layout.slot(0, Formula::Symbol(0)), &[register]);
        Some(self.at(local, offset))
    }

    /// Whether work reads the slots of a ring only in accesses that are held.
    pub(super) fn reads_no_slot(&self, ring: &Ring, work: &[StmtId], held: &[Held]) -> bool {
        let kernel = self.kernel;
        accesses(kernel, work).iter().all(|access| match kernel.accesses[*access].place {
            Place::Buffer(buffer) if ring.loads().any(|load| load.buffer == buffer) => {
                held.iter().any(|held| held.access == *access)
            }
            Place::Buffer(_) | Place::Tensor(_) => true,
        })
    }
}
