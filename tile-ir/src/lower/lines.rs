//! Loads of a loop over a fragment whose place depends on one of its axes: once for each row or column of a thread, not once an element.
//!
//! A bias of the columns is such a load. A thread of an accumulator has two rows and two columns of each atom of 16 x 8, so that two of its
//! elements at least are in each of its columns, and two in each of its rows. The chunks of a loop with such loads are pieces of the tile:
//! atoms below one another and side by side, chosen so that the rows and columns that are loaded, of all chunks, are the fewest.

use super::elementwise::Chunk;
use super::uses::{accesses, statements};
use super::*;
use crate::layout::{Fragment, Index};

/// Most bytes that a thread holds for a chunk of what it has loaded of rows and columns: 16 registers.
const MOST_BYTES: u32 = 64;

/// A load whose place depends on one axis of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    access: AccessId,
    /// 0: its place depends on the row. 1: on the column.
    axis: u8,
    /// Bytes of an element.
    bytes: u32,
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
        let line = |access: AccessId| {
            let bytes = self.dtype_of(self.kernel.accesses[access].place).bytes();
            Some(Line { access, axis: self.line_axis(chunk, access)?, bytes })
        };
        self.certain_loads(stmts).into_iter().filter_map(line).collect()
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
        if vars.len() != 2 || !is_memory || self.held_access(access).is_some() || all.iter().any(|stmt| changes(*stmt))
        {
            return None;
        }
        let (mut depends, mut left) = ([false; 2], indices.clone());
        while let Some(expr) = left.pop() {
            match &kernel.exprs[expr].kind {
                ExprKind::Load(_) => return None,
                ExprKind::Var(var) => {
                    let inlined = |stmt: &StmtId| {
                        let StmtKind::Let { var: v, value } = kernel.stmts[*stmt].kind else { return None };
                        value.filter(|_| v == *var && kernel.vars[v].ty == Type::Index)
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
        for &Line { access, axis, .. } in lines {
            let place = self.kernel.accesses[access].place;
            let (name, dtype) = (self.kernel.place_name(place).to_string(), self.dtype_of(place));
            let local =
                self.local(&format!("{name}_{}", ["rows", "cols"][usize::from(axis)]), dtype, piece.slots(axis));
            let line = LoadedLine { axis, piece, local };
            let whole = self.whole_line(chunk, access, axis);
            let mut text = format!(
                "`{name}` is loaded once for each {} of {} elements of a thread, which has {}",
                ["row", "column"][usize::from(axis)],
                piece.registers(),
                piece.slots(axis)
            );
            if let Some((_, width @ 2..)) = whole {
                text += &format!(": {width} at once where they are aligned, in tiles that are not cut");
            }
            let span = self.kernel.accesses[access].span;
            self.remark(RemarkKind::Choice, span, text);
            match whole {
                Some((cond, width)) => self.either(
                    cond,
                    |l| l.load_line(chunk, access, line, Some(width)),
                    |l| l.load_line(chunk, access, line, None),
                ),
                None => self.load_line(chunk, access, line, None),
            }
            self.lines.insert(access, line);
        }
    }

    /// Loads a line: with its guards, or `width` neighbours at once where nothing needs a guard.
    fn load_line(&mut self, chunk: &Chunk<'a>, access: AccessId, line: LoadedLine, width: Option<u32>) {
        let LoadedLine { axis, piece, local } = line;
        let each = width.unwrap_or(1);
        self.unrolled("i", piece.slots(axis) / each, |l, i| {
            let slot = l.formula([i], |[i]| i.times(each));
            let element = l.formula([slot], |[slot]| piece.representative(axis, slot));
            let register = l.chunk_register(chunk, element);
            let register = l.once("held", register);
            let position = l.element_position(&chunk.layout, register);
            let reg = l.variable_reg(chunk.vars[usize::from(axis)]);
            l.define(reg, position[usize::from(axis)]);
            let memory = l.memory(access);
            let memory = if width.is_some() { Memory { guard: None, ..memory } } else { memory };
            if each > 1 {
                return l.vector_load(local, slot, memory, each);
            }
            let value = l.fetch(memory);
            l.put(local, slot, value);
        });
    }

    /// The condition under which a line may be loaded without guards, so many neighbours at once: the tile's last row or column is within
    /// bounds, and its first one is aligned. It is the same for all threads. `None` where that would change nothing, or where neighbours may
    /// lie apart.
    fn whole_line(&mut self, chunk: &Chunk<'a>, access: AccessId, axis: u8) -> Option<(ValueId, u32)> {
        let (kernel, layout) = (self.kernel, chunk.layout);
        let (var, extent) = match axis {
            0 => (chunk.vars[0], layout.rows()),
            _ => (chunk.vars[1], layout.cols()),
        };
        let Access { place, indices, masked, .. } = &kernel.accesses[access];
        let (last, outer) = indices.split_last()?;
        let is_open = (0..indices.len()).any(|axis| !self.analysis.axis_in_bounds(access, axis));
        let moves = |expr: &ExprId| self.moves_by(chunk, *expr, var);
        if is_open && !masked || moves(last) != Some(1) || outer.iter().any(|index| moves(index) != Some(0)) {
            return None;
        }
        let bytes = self.dtype_of(*place).bytes();
        let neighbours = if axis == 1 { layout.vector() } else { 1 };
        let width =
            (1..=neighbours).rev().find(|n| neighbours.is_multiple_of(*n) && n.is_power_of_two() && n * bytes <= 16)?;
        let at = |l: &mut Self, index: u32| {
            let index = l.int(index.into());
            l.vars[var] = Some(Binding::Value(index));
            l.memory(access)
        };
        let (first, end) = (at(self, 0), at(self, extent - 1));
        let mut cond = end.guard.map(|guard| guard.cond);
        if width > 1 {
            if let Space::Global(param) = first.space {
                let address = self.param(ParameterKind::Pointer(param));
                let rest = self.binary(BinaryOp::BitAnd, address, width * bytes - 1);
                cond = Some(self.joined(BinaryOp::And, cond, rest.equals(0)));
            }
            let rest = self.binary(BinaryOp::BitAnd, first.offset, width - 1);
            cond = Some(self.joined(BinaryOp::And, cond, rest.equals(0)));
        }
        Some((cond?, width))
    }

    /// By how much an index grows with a variable of the loop: 0, or 1. `None` where it is neither, or not known.
    fn moves_by(&self, chunk: &Chunk<'a>, expr: ExprId, var: VarId) -> Option<u32> {
        let kernel = self.kernel;
        match &kernel.exprs[expr].kind {
            ExprKind::Var(v) if *v == var => Some(1),
            ExprKind::Var(v) => match self.vars[*v] {
                Some(Binding::Inline(value)) if chunk.own.contains(v) => self.moves_by(chunk, value, var),
                _ => Some(0),
            },
            ExprKind::Binary(BinaryOp::Add, a, b) => {
                let sum = self.moves_by(chunk, *a, var)? + self.moves_by(chunk, *b, var)?;
                (sum <= 1).then_some(sum)
            }
            kind => {
                let mut moves = Some(0);
                kind.operands(kernel, &mut |operand| {
                    moves = moves.filter(|_| self.moves_by(chunk, operand, var) == Some(0))
                });
                moves
            }
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
            let is_memory =
                matches!(self.kernel.scope_of(self.kernel.accesses[access].place), None | Some(Scope::Shared));
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
    let held = |piece: &Fragment| lines.iter().map(|line| piece.slots(line.axis) * line.bytes).sum::<u32>();
    let fits = |piece: &Fragment| {
        let is_shared = lines.iter().all(|line| 2 * piece.slots(line.axis) <= piece.registers());
        is_shared && piece.registers() <= most && held(piece) <= MOST_BYTES
    };
    let loads = |piece: &Fragment| layout.registers() / piece.registers() * held(piece);
    pieces.filter(fits).min_by_key(|piece| (loads(piece), std::cmp::Reverse(piece.registers())))
}
