//! Which tile a block works on: the grid of the hardware, or the order that `use_swizzle`, `persistent` and clusters ask
//! for.
//!
//! Contract. In: the extents of the author's grid. Out: its indices are bound, and `launch.grid` is what the launcher
//! evaluates. A plain grid is the hardware's. Any other is launched as a line of blocks: a cluster takes `cx x cy`
//! neighbouring tiles (`padding` keeps those beyond the grid's edge from having effects), clusters take groups of `panel`
//! rows, column by column within a group, so that what a wave of blocks reads fits the second-level cache.

use super::*;

/// What the number of blocks of a persistent launch is a multiple of, where the device holds so many.
const EVEN_BLOCKS: i64 = 4;

/// Rows of a panel up to which it is taken as it is, and the launch checks its tiles.
const LOW: i64 = 128;
/// Twice as many clusters as any device holds at once.
const MOST_CLUSTERS: i64 = 1 << 16;

/// A divisor's reciprocal is this over it ([`ValueKind::Quotient`]).
const RECIPROCAL: i64 = (1 << 31) - 1;

/// A line of blocks that stands for a grid.
#[derive(Clone)]
pub(super) struct Raster {
    /// Cluster-tiles along x and y.
    wide: ValueId,
    high: ValueId,
    /// All of them, z included.
    total: ValueId,
    /// Blocks of a cluster along x, y and z.
    cluster: [u32; 3],
    /// Rows of cluster-tiles in a group; none: row after row.
    panel: Option<ValueId>,
    /// `wide` and `high` as the launcher's expressions, of a grid that it knows.
    known: Option<[HostExpr; 2]>,
}

impl<'a> Lowering<'a> {
    /// Blocks of a cluster along x, y and z.
    pub(super) fn cluster(&self) -> [u32; 3] {
        if self.clusters { uses::cluster(self.kernel) } else { [1; 3] }
    }

    /// Blocks of a cluster.
    pub(super) fn cluster_size(&self) -> u32 {
        self.cluster().iter().product()
    }

    /// The raster of a grid of these extents, as values and as the launcher's expressions. `is_loop`: blocks take tile after tile.
    pub(super) fn raster(&mut self, extents: &[ExprId], is_loop: bool) -> Raster {
        let cluster = self.cluster();
        // The last extent only those ask for that take tile after tile, and groups of tiles along y.
        let is_asked =
            |axis: usize, is_grouped: bool| is_loop || axis == 0 || axis == 1 && (is_grouped || extents.len() > 2);
        let along = |l: &mut Self, axis: usize, name: &str| match extents.get(axis) {
            None => l.int(1),
            Some(&extent) => {
                let by = i64::from(cluster[axis]);
                if let (true, Some(known)) = (by > 1, l.kernel.const_index(extent)) {
                    return l.int((known + by - 1) / by);
                }
                let extent = l.value(extent);
                let tiles = if cluster[axis] > 1 { l.binary(BinaryOp::CeilDiv, extent, by) } else { extent };
                if is_asked(axis, l.kernel.swizzle.is_some()) { l.once(name, tiles) } else { tiles }
            }
        };
        let wide = along(self, 0, "tiles_x");
        let high = along(self, 1, "tiles_y");
        let deep = along(self, 2, "tiles_z");
        let total = self.eval(wide * high * deep);
        let panel = self.kernel.swizzle.map(|panel| match self.kernel.const_index(panel) {
            Some(rows) if rows <= LOW => self.int(rows.max(1)),
            // At most all rows, so that the tiles of a group are at most all tiles.
            _ => {
                let rows = self.value(panel);
                let rows = self.binary(BinaryOp::Max, Term::binary(BinaryOp::Min, rows, high), 1);
                let rows = self.fit(rows, ValueType::Index);
                self.once("panel", rows)
            }
        });
        self.check_raster(extents);
        let known = |axis: usize| match extents.get(axis) {
            Some(extent) => self.host_along(axis, *extent),
            None => Some(HostExpr::Int(1)),
        };
        let known = known(0).zip(known(1)).map(|(wide, high)| [wide, high]);
        Raster { wide, high, total, cluster, panel, known }
    }

    /// The launcher's count of cluster-tiles along an axis.
    fn host_along(&self, axis: usize, extent: ExprId) -> Option<HostExpr> {
        let along = HostExpr::of(self.kernel, extent)?;
        Some(match self.cluster().get(axis).filter(|by| **by > 1) {
            Some(&by) => HostExpr::binary(BinaryOp::CeilDiv, along, HostExpr::Int(i64::from(by))),
            None => along,
        })
    }

    /// What the blocks compute of the grid stays below 2^31: the number of tiles and, of those that take tile after tile,
    /// the number of the next one, and the tiles of a group.
    fn check_raster(&mut self, extents: &[ExprId]) {
        let span = extents.first().map_or(self.span, |e| self.kernel.exprs[*e].span);
        let mut bounds = Vec::new();
        if let Some(tiles) = self.host_tiles(extents).filter(|_| self.kernel.persistent().is_some()) {
            bounds.push(HostExpr::binary(BinaryOp::Add, tiles, HostExpr::Int(MOST_CLUSTERS)));
        }
        let panel =
            self.kernel.swizzle.and_then(|panel| self.kernel.const_index(panel)).filter(|p| (2..=LOW).contains(p));
        if let (Some(rows), Some(&first)) = (panel, extents.first())
            && let Some(wide) = HostExpr::of(self.kernel, first)
        {
            bounds.push(HostExpr::binary(BinaryOp::Mul, wide, HostExpr::Int(rows)));
        }
        for bound in bounds {
            let range = IndexRange { bound, span };
            if !self.index_ranges.contains(&range) {
                self.index_ranges.push(range);
            }
        }
    }

    /// The launcher's count of cluster-tiles.
    fn host_tiles(&self, extents: &[ExprId]) -> Option<HostExpr> {
        let along = extents.iter().enumerate().map(|(axis, &extent)| self.host_along(axis, extent));
        along.into_iter().try_fold(HostExpr::Int(1), |tiles, along| Some(times(tiles, along?)))
    }

    /// A number that the launcher computes, as a parameter of this name.
    fn computed(&mut self, name: &str, number: HostExpr) -> ValueId {
        let place = self.program.launch.computed.iter().position(|known| *known == number);
        let place = place.unwrap_or_else(|| {
            self.program.launch.computed.push(number);
            self.program.launch.computed.len() - 1
        });
        let kind = ParameterKind::Computed(place as u32);
        if !self.program.params.iter().any(|p| p.kind == kind) {
            self.parameter(name, ValueType::Index, kind);
        }
        self.param(kind)
    }

    /// The reciprocal of a number of at least 1 that the launcher knows.
    fn reciprocal(&mut self, name: &str, of: HostExpr) -> ValueId {
        let of = HostExpr::binary(BinaryOp::Max, of, HostExpr::Int(1));
        self.computed(name, HostExpr::binary(BinaryOp::Div, HostExpr::Int(RECIPROCAL), of))
    }

    /// The quotient and the remainder of two indices by the reciprocal of the divisor.
    fn divided(&mut self, name: &str, x: ValueId, d: ValueId, reciprocal: ValueId) -> [ValueId; 2] {
        let quotient = self.push(ValueKind::Quotient(x, d, reciprocal), ValueType::Index);
        let quotient = self.once(name, quotient);
        [quotient, self.eval(x - quotient * d)]
    }

    /// Lowers what waits for its first loads: it finds its tiles by multiplications (`docs/decisions/54-tiles-are-found-by-multiplications.md`).
    pub(super) fn by_reciprocals(&mut self, f: impl FnOnce(&mut Self)) {
        self.reciprocals = true;
        f(self);
        self.reciprocals = false;
    }

    /// The quotient and the remainder of two indices; `of`: the divisor, where the launcher knows it.
    fn divide(&mut self, name: &str, x: ValueId, d: ValueId, of: Option<HostExpr>) -> [ValueId; 2] {
        let are_indices = [x, d].iter().all(|value| self.program.values[*value].ty == ValueType::Index);
        let is_known = self.program.values[d].kind.as_int().is_some();
        match of.filter(|_| self.reciprocals && are_indices && !is_known) {
            None => [self.binary(BinaryOp::Div, x, d), self.binary(BinaryOp::Rem, x, d)],
            Some(of) => {
                let r = self.reciprocal(&format!("{name}_reciprocal"), of);
                self.divided(name, x, d, r)
            }
        }
    }

    /// Launches one block a tile, as a line.
    pub(super) fn launch_line(&mut self, extents: &[ExprId]) {
        let Some(tiles) = self.host_tiles(extents) else { return self.bug("a grid that the launch cannot know") };
        let size = i64::from(self.cluster_size());
        self.program.launch.grid = [scaled(tiles, size), HostExpr::Int(1), HostExpr::Int(1)];
    }

    /// Launches as many blocks as the device holds at once, evenly: `tiles / waves`, so that no block idles while
    /// others work on a last, partial wave. That number is rounded up to [`EVEN_BLOCKS`]: 131 blocks walk the rows of a
    /// panel askew, and are 0.7% slower than 132 where both take 63 waves. Where tiles are counted there are no waves, and every
    /// multiprocessor has a block.
    pub(super) fn launch_persistent(&mut self, extents: &[ExprId]) {
        let Some(tiles) = self.host_tiles(extents) else { return self.bug("a grid that the launch cannot know") };
        let size = i64::from(self.cluster_size());
        let one = HostExpr::Int(1);
        let one_by_one = HostExpr::binary(BinaryOp::Div, HostExpr::Capacity, HostExpr::Int(size));
        let at_once = if size == 1 { HostExpr::Capacity } else { one_by_one };
        let at_once = HostExpr::binary(BinaryOp::Max, at_once, one.clone());
        if self.counted.is_some() {
            self.program.launch.grid = [HostExpr::binary(BinaryOp::Min, tiles, at_once), one.clone(), one];
            return;
        }
        let waves = HostExpr::binary(BinaryOp::CeilDiv, tiles.clone(), at_once.clone());
        let waves = HostExpr::binary(BinaryOp::Max, waves, one.clone());
        let even = HostExpr::binary(BinaryOp::CeilDiv, tiles, waves);
        let even = match EVEN_BLOCKS / size {
            0 | 1 => even,
            by => {
                let rounded = scaled(HostExpr::binary(BinaryOp::CeilDiv, even, HostExpr::Int(by)), by);
                HostExpr::binary(BinaryOp::Min, rounded, at_once)
            }
        };
        self.program.launch.grid = [scaled(even, size), one.clone(), one];
    }

    /// This block's cluster in the line.
    fn line_index(&mut self, kind: ValueKind) -> ValueId {
        let (index, size) = (self.push(kind, ValueType::Index), self.cluster_size());
        self.binary(BinaryOp::Div, index, size)
    }

    /// The indices x, y, z of the tile of this block in cluster-tile `t`.
    pub(super) fn tile_of(&mut self, raster: &Raster, t: ValueId) -> [ValueId; 3] {
        let plane = self.binary(BinaryOp::Mul, raster.wide, raster.high);
        let flat = matches!(self.program.values[raster.total].kind, ValueKind::Binary(BinaryOp::Mul, a, b)
            if a == raster.wide && b == raster.high);
        let [wide, high] = raster.known.clone().map_or([None, None], |known| known.map(Some));
        let (z, t) = if flat {
            (self.int(0), t)
        } else {
            let tiles = wide.clone().zip(high.clone()).map(|(wide, high)| times(wide, high));
            let [z, t] = self.divide("plane", t, plane, tiles);
            (z, t)
        };
        let (x, y) = match raster.panel {
            None => {
                let [y, x] = self.divide("line", t, raster.wide, wide);
                (x, y)
            }
            Some(panel) => {
                let height = self.program.values[panel].kind.as_int();
                let group_tiles = self.eval(panel * raster.wide);
                let tiles = height.zip(wide).map(|(rows, wide)| times(wide, HostExpr::Int(rows)));
                let [group, _] = self.divide("group", t, group_tiles, tiles);
                let is_held = matches!(self.program.values[group].kind, ValueKind::Reg(_));
                let group = if is_held { group } else { self.once("group", group) };
                let first = self.eval(group * panel);
                let rows = self.once("group_rows", Term::binary(BinaryOp::Min, panel, raster.high - first));
                let within = self.once("in_group", t - group * group_tiles);
                let [x, y] = match height.zip(high).filter(|_| self.reciprocals) {
                    Some((1, _)) => [within, self.int(0)],
                    // All groups have this many rows, but for the last one.
                    Some((height, high)) => {
                        let last = HostExpr::binary(BinaryOp::Rem, high, HostExpr::Int(height));
                        let last = self.reciprocal("last_rows_reciprocal", last);
                        let (full, is_full) = (self.int(RECIPROCAL / height), self.eval(rows.equals(panel)));
                        let r = self.push(ValueKind::Select(is_full, full, last), ValueType::Index);
                        self.divided("column", within, rows, r)
                    }
                    None => self.divide("column", within, rows, None),
                };
                (x, self.binary(BinaryOp::Add, first, y))
            }
        };
        let [cx, cy, cz] = raster.cluster;
        if cx * cy * cz == 1 {
            return [x, y, z];
        }
        let rank = self.eval(Special::ClusterRank);
        let across = if cy * cz == 1 { rank } else { self.binary(BinaryOp::Rem, rank, cx) };
        let behind = self.binary(BinaryOp::Div, rank, cx);
        let down = if cz == 1 { behind } else { self.binary(BinaryOp::Rem, behind, cy) };
        let back = self.binary(BinaryOp::Div, behind, cy);
        [(x, cx, across), (y, cy, down), (z, cz, back)].map(|(tile, by, within)| match by {
            1 => tile,
            _ => self.binary(BinaryOp::Add, tile * by, within),
        })
    }

    /// Launches the author's grid as a line, and binds its indices.
    pub(super) fn grid_line(&mut self) {
        let (vars, extents): (Vec<VarId>, Vec<ExprId>) = self.kernel.grid.iter().map(|a| (a.var, a.extent)).unzip();
        self.line_bindings(&vars, &extents);
        self.launch_line(&extents);
    }

    /// Binds the indices of a grid that is launched as a line.
    pub(super) fn line_bindings(&mut self, vars: &[VarId], extents: &[ExprId]) {
        let raster = self.raster(extents, false);
        let t = self.line_index(ValueKind::Block(0));
        let t = self.once("tile", t);
        let tile = self.tile_of(&raster, t);
        let vars: Vec<_> = vars.iter().copied().map(Some).collect();
        self.bind_tile(&vars, extents, tile);
    }

    /// The block's tiles where it takes neighbouring ones: the first, and one past the last.
    fn contiguous_tiles(&mut self, raster: &Raster) -> [ValueId; 2] {
        let first = self.line_index(ValueKind::Block(0));
        let clusters = self.line_index(ValueKind::Special(Special::Grid(0)));
        let share = self.once("share", Term::binary(BinaryOp::CeilDiv, raster.total, clusters));
        let start = self.eval(first * share);
        [start, self.binary(BinaryOp::Min, start + share, raster.total)]
    }

    /// `f` for the first tile of this block in a loop over tiles, if it has one. Of the loop's indices those in `needed` are bound.
    pub(super) fn first_tile(
        &mut self,
        &PersistentLoop { vars, extents, contiguous, .. }: &PersistentLoop<'_>,
        needed: &BTreeSet<VarId>,
        f: impl FnOnce(&mut Self),
    ) {
        let vars: Vec<Option<VarId>> = vars.iter().map(|v| needed.contains(v).then_some(*v)).collect();
        let raster = self.raster(extents, true);
        let [start, end] = match contiguous {
            true => self.contiguous_tiles(&raster),
            false => [self.line_index(ValueKind::Block(0)), raster.total],
        };
        self.when(start.below(end), |l| {
            let t = l.once("tile", start);
            let tile = l.tile_of(&raster, t);
            l.bind_tile(&vars, extents, tile);
            f(l);
        });
    }

    /// A loop over the tiles of this block; over every second one, from the `turn`th, where two take turns.
    pub(super) fn persistent_loop(&mut self, turn: Option<ValueId>, f: impl FnOnce(&mut Self)) {
        let Some(PersistentLoop { vars, extents, contiguous, .. }) = self.kernel.persistent() else {
            return self.bug("a loop over tiles that is none");
        };
        let raster = self.raster(extents, true);
        let first = self.line_index(ValueKind::Block(0));
        let clusters = self.line_index(ValueKind::Special(Special::Grid(0)));
        let bounds = if contiguous {
            let [start, end] = self.contiguous_tiles(&raster);
            [start, end, self.int(1)]
        } else if let Some(turn) = turn {
            [self.eval(first + turn * clusters), raster.total, self.eval(Term::from(2) * clusters)]
        } else {
            [first, raster.total, clusters]
        };
        let counted = self.counted.clone();
        let reg = self.reg("tile", ValueType::Index, counted.is_some());
        self.loop_over(reg, bounds, Unroll::Auto, |l| {
            let t = l.read(reg);
            l.more_tiles = turn.map(|_| l.eval((t + clusters).below(raster.total)));
            let tile = l.tile_of(&raster, t);
            let vars: Vec<_> = vars.iter().copied().map(Some).collect();
            l.bind_tile(&vars, extents, tile);
            let Some(counted) = &counted else { return f(l) };
            let number = l.count_beside(counted, f);
            l.next_tile(counted, number, reg, raster.total);
        });
    }
}

/// The product of what there is so far and of another factor.
pub(super) fn times(all: HostExpr, factor: HostExpr) -> HostExpr {
    if all == HostExpr::Int(1) { factor } else { HostExpr::binary(BinaryOp::Mul, all, factor) }
}

fn scaled(blocks: HostExpr, by: i64) -> HostExpr {
    if by == 1 { blocks } else { HostExpr::binary(BinaryOp::Mul, blocks, HostExpr::Int(by)) }
}
