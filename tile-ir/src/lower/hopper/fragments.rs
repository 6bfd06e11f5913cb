//! The layouts of fragments that no product decides: each takes the layout of the fragment that it is used with, or the one that
//! an accumulator of its extents would have.

use super::super::block;
use super::super::schedule::Layouts;
use super::super::uses::{allocated, statements};
use super::plan::{Planner, Reason, accumulator};
use crate::ir::*;
use crate::layout::Fragment;
use std::collections::BTreeMap;

impl Planner<'_> {
    /// All fragments' layouts, from those that products want.
    pub(super) fn fragments(
        &self,
        consumers: u32,
        wanted: BTreeMap<BufferId, Fragment>,
        span: SpanId,
    ) -> Result<Layouts, Reason> {
        let kernel = self.kernel;
        let mut layouts = Layouts { fragments: wanted, ..Layouts::default() };
        self.meet(&mut layouts)?;
        let allocated = allocated(kernel, Scope::Fragment);
        for &buffer in &allocated {
            let [rows, cols] = kernel.buffer_extents(buffer)[..] else { continue };
            if layouts.fragments.contains_key(&buffer) {
                continue;
            }
            let alike = layouts.fragments.values().find(|f| (rows, cols) == (f.rows(), f.cols())).copied();
            let made = alike.map_or_else(|| accumulator(rows, cols, consumers), Ok);
            let name = &kernel.buffers[buffer].name;
            let layout = made.map_err(|e| Reason::new(format!("fragment `{name}`: {e}"), span))?;
            layouts.fragments.insert(buffer, layout);
        }
        // A fragment of one axis takes the layout of the tile that it is used with.
        self.meet(&mut layouts)?;
        for buffer in allocated {
            let name = &kernel.buffers[buffer].name;
            let why = match layouts.fragments.get(&buffer) {
                None => "it meets no tile",
                // Its threads hold rows that are not the tile's.
                Some(layout) if layouts.kept.contains_key(&buffer) && !layout.is_whole() => {
                    "it is of a tile of fewer than 64 rows"
                }
                Some(_) => continue,
            };
            return Err(Reason::new(format!("fragment `{name}`: {why}"), span));
        }
        Ok(layouts)
    }

    fn meet(&self, layouts: &mut Layouts) -> Result<(), Reason> {
        block::meet(self.kernel, layouts).map_err(|all| match all.first() {
            Some(first) => Reason::new(&first.message, first.primary),
            None => Reason::new("its fragments disagree", self.span()),
        })
    }

    /// 32-bit registers that a thread's fragments take. The parts of rows that a loop adds up take the place of the sums, which have no
    /// value meanwhile.
    pub(super) fn held(&self, layouts: &Layouts) -> u32 {
        let one = |(buffer, layout): (&BufferId, &Fragment)| {
            (layouts.elements(*buffer, layout) * self.kernel.buffer_dtype(*buffer).bytes()).div_ceil(4)
        };
        let is_parts = |buffer: &BufferId, layout: &Fragment| layout.is_parts() && !layouts.kept.contains_key(buffer);
        layouts.fragments.iter().filter(|(buffer, layout)| !is_parts(buffer, layout)).map(one).sum()
    }

    /// Bytes of shared memory that reductions over the rows of a tile go through.
    pub(super) fn spilled(&self) -> u64 {
        let kernel = self.kernel;
        let bytes = |stmt: StmtId| {
            let StmtKind::Tile(TileOp::ReduceTile { src, axis: 0, dst, .. }) = kernel.stmts[stmt].kind else {
                return 0;
            };
            (kernel.buffer_len(src) + kernel.buffer_len(dst)) * u64::from(kernel.buffer_dtype(src).bytes())
        };
        statements(kernel, &kernel.body).into_iter().map(bytes).sum()
    }
}
