//! Loads of a loop over a fragment whose place depends on one of its axes: once for each row or column of a thread, not once an element.
//!
//! A bias of the columns is such a load. A thread of an accumulator has two rows and two columns of each atom of 16 x 8, so that two of its
//! elements at least are in each of its columns, and two in each of its rows. The chunks of a loop with such loads are pieces of the tile:
//! atoms below one another and side by side, chosen so that the rows and columns that are loaded, of all chunks, are the fewest.

use super::elementwise::Chunk;
use super::uses::{accesses, statements};
use super::*;
use crate::layout::Fragment;

/// Most values of rows and columns that a thread holds for a chunk.
const MOST_LINES: u32 = 32;

/// A load whose place depends on one axis of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    access: AccessId,
    /// 0: its place depends on the row. 1: on the column.
    axis: u8,
}

/// What a thread has loaded of a [`Line`] for the chunk that is being lowered.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedLine {
    axis: u8,
    /// The chunk, as a tile.
    piece: Fragment,
    /// An element for each row or column of the chunk.
    local: LocalId,
}

impl<'a> Lowering<'a> {
    /// The lines among the loads that statements of a loop's body make whatever values they find.
    pub(super) fn lines(&self, chunk: &Chunk<'a>, stmts: &[StmtId]) -> Vec<Line> {
        let found = self.certain_loads(stmts).into_iter();
        found.filter_map(|access| Some(Line { access, axis: self.line_axis(chunk, access)? })).collect()
    }

    /// The axis on which the place of a load depends, where it does on one, and where the loop leaves what is there as it is.
    fn line_axis(&self, Chunk { vars, body, own, .. }: &Chunk<'a>, access: AccessId) -> Option<u8> {
        let kernel = self.kernel;
        let Access { place, indices, .. } = &kernel.accesses[access];
        let is_memory = matches!(kernel.scope_of(*place), None | Some(Scope::Shared));
        let changes = |stmt: StmtId| {
            matches!(kernel.stmts[stmt].kind,
                StmtKind::Store { access, .. } | StmtKind::Atomic { access, .. } if kernel.accesses[access].place == *place)
        };
        let all = statements(kernel, body);
        if !is_memory || self.held_access(access).is_some() || all.iter().any(|stmt| changes(*stmt)) {
            return None;
        }
        let (mut depends, mut left) = ([false; 2], indices.clone());
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                ExprKind::Load(_) => return None,
                ExprKind::Var(var) => {
                    let inlined = |stmt: &StmtId| match kernel.stmts[*stmt].kind {
                        StmtKind::Let { var: v, value } if v == *var && kernel.vars[v].ty == Type::Index => value,
                        _ => None,
                    };
                    if let Some(axis) = vars.iter().position(|v| v == var) {
                        depends[axis] = true;
                    } else if own.contains(var) {
                        left.push(all.iter().find_map(inlined)?);
                    }
                }
                kind => kind.operands(kernel, &mut |operand| left.push(operand)),
            }
        }
        match depends {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        }
    }

    /// Loads lines for a chunk. Until [`Lowering::forget_lines`], its elements find them in registers.
    pub(super) fn load_lines(&mut self, chunk: &Chunk<'a>, lines: &[Line]) {
        let Some(piece) = chunk.piece else { return };
        for &Line { access, axis } in lines {
            let place = self.kernel.accesses[access].place;
            let (name, dtype) = (self.kernel.place_name(place).to_string(), self.dtype_of(place));
            let local = self.local(&format!("{name}_{}", ["rows", "cols"][usize::from(axis)]), dtype, piece.slots(axis));
            self.unrolled("i", piece.slots(axis), |l, slot| {
                let element = l.formula([slot], |[slot]| piece.representative(axis, slot));
                let register = l.chunk_register(chunk, element);
                let position = l.element_position(&chunk.layout, register);
                let reg = l.variable_reg(chunk.vars[usize::from(axis)]);
                l.define(reg, position[usize::from(axis)]);
                let memory = l.memory(access);
                let value = l.fetch(memory);
                l.put(local, slot, value);
            });
            self.lines.insert(access, LoadedLine { axis, piece, local });
        }
    }

    pub(super) fn forget_lines(&mut self, lines: &[Line]) {
        for line in lines {
            self.lines.remove(&line.access);
        }
    }

    /// What has been loaded of an access for the row or column of the element being lowered.
    pub(super) fn line_element(&mut self, access: AccessId) -> Option<Memory> {
        let LoadedLine { axis, piece, local } = *self.lines.get(&access)?;
        let element = self.element_index();
        let offset = self.formula([element], |[element]| piece.slot(axis, element));
        Some(self.at(local, offset))
    }

    /// Whether statements access memory in each of their elements, lines and what is held aside.
    pub(super) fn reaches_memory(&self, stmts: &[StmtId], lines: &[Line]) -> bool {
        let is_reached = |access: AccessId| {
            let is_memory = matches!(self.kernel.scope_of(self.kernel.accesses[access].place), None | Some(Scope::Shared));
            is_memory && self.held_access(access).is_none() && !lines.iter().any(|line| line.access == access)
        };
        accesses(self.kernel, stmts).into_iter().any(is_reached)
    }
}

/// The piece of a tile that a chunk is, of `most` elements at most: where `lines` are loaded the seldomest. `None` where a fragment has no pieces,
/// or none whose lines are fewer than its elements.
pub(super) fn piece_of(layout: &Fragment, lines: &[Line], most: u32) -> Option<Fragment> {
    let [down, across] = layout.atoms()?;
    let divisors = |of: u32| (1..=of).filter(move |n| of.is_multiple_of(*n));
    let pieces = divisors(down).flat_map(|d| divisors(across).map(move |a| layout.piece([d, a])));
    let held = |piece: &Fragment| lines.iter().map(|line| piece.slots(line.axis)).sum::<u32>();
    let fits = |piece: &Fragment| {
        let is_shared = lines.iter().all(|line| 2 * piece.slots(line.axis) <= piece.registers());
        is_shared && piece.registers() <= most && held(piece) <= MOST_LINES
    };
    let loads = |piece: &Fragment| layout.registers() / piece.registers() * held(piece);
    pieces.filter(fits).min_by_key(|piece| (loads(piece), std::cmp::Reverse(piece.registers())))
}
