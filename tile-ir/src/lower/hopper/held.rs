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
#[derive(Clone, Debug)]
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
            let (&[row, col], Some(fragment)) = (&vars[..], self.fragment_of(body)) else { continue };
            let Some(layout) = self.fragments[fragment].filter(|held| held.kept.is_none()).map(|held| held.layout)
            else {
                continue;
            };
            if !layout.is_whole() {
                continue;
            }
            for access in self.certain_loads(ring, [row, col], work, body) {
                let place = kernel.accesses[access].place;
                registers += layout.slots(0);
                if registers > MOST {
                    return all;
                }
                let name = format!("{}_held", kernel.place_name(place));
                let dtype = self.dtype_of(place);
                let local = self.local(&name, dtype, layout.slots(0));
                self.op(OpKind::Local { local });
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
        let mut left = Vec::new();
        for &stmt in body {
            if let StmtKind::Let { value: Some(value), .. }
            | StmtKind::Assign { value, .. }
            | StmtKind::Store { value, .. } = kernel.stmts[stmt].kind
            {
                left.push(value);
            }
        }
        let mut found = Vec::new();
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => left.push(*a),
                ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, _) | ExprKind::If(a, _, _) => left.push(*a),
                ExprKind::Binary(_, a, b) => left.extend([a, b]),
                ExprKind::Math(_, args) => left.extend(args),
                ExprKind::Select(a, b, c) => left.extend([a, b, c]),
                ExprKind::Load(access) => found.extend(self.is_held(ring, *access, row, &own).then_some(*access)),
                ExprKind::Int(_)
                | ExprKind::Bool(_)
                | ExprKind::Float(_)
                | ExprKind::Var(_)
                | ExprKind::Dim(_)
                | ExprKind::Scalar(_)
                | ExprKind::Const(_)
                | ExprKind::Bits(_)
                | ExprKind::Special(..)
                | ExprKind::Present(_) => {}
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
        let span = self.span;
        for Held { access, local, layout, vars } in held {
            self.unrolled("i", layout.slots(0), |l, slot| {
                let register = l.formula(&layout.representative(0, Formula::Symbol(0)), &[slot]);
                let position = l.element_position(layout, register);
                let outer = vars.map(|var| l.vars[var]);
                for (var, value) in vars.iter().zip(position) {
                    l.vars[*var] = Some(Binding::Value(value));
                }
                let dtype = l.dtype_of(l.kernel.accesses[*access].place);
                let memory = l.memory(*access);
                let value = l.push(ValueKind::Load(memory), ValueType::Element(dtype));
                let memory = Memory { space: Space::Local(*local), offset: slot, guard: None, span };
                l.op(OpKind::Store { memory, value });
                for (var, binding) in vars.iter().zip(outer) {
                    l.vars[*var] = binding;
                }
            });
        }
    }

    /// Whether the work being lowered finds an access in registers.
    pub(in super::super) fn is_held_now(&self, access: AccessId) -> bool {
        self.held.iter().any(|held| held.access == access)
    }

    /// The element of an access that is held, in a loop over a fragment.
    pub(in super::super) fn held_element(&mut self, access: AccessId) -> Option<Memory> {
        let Held { local, layout, .. } = self.held.iter().find(|held| held.access == access)?.clone();
        let register = self.register?;
        let offset = self.formula(&layout.slot(0, Formula::Symbol(0)), &[register]);
        Some(Memory { space: Space::Local(local), offset, guard: None, span: self.span })
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
