//! Small launches of a program: extents and scalars that satisfy every check of its launch, a few blocks, and loops that go around
//! their stages more than once.
//!
//! They are searched for, from several starting points, by changing one number at a time: first until every check holds, then
//! until the grid is small and what the grid does not depend on is as large as is wanted.

use crate::ir::{DimId, Dtype, DtypeClass, EntityRef, ParamId};
use crate::lowered::{Check, CheckKind, HostExpr, HostValues, ParameterKind, Program, ValueType};
use crate::sim::numeric;
use crate::sim::{Argument, Memory, ScalarValue, TensorArgument};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of a tensor that is only read and is all zeros: its memory is asked for, and hardly any of it is touched.
const MOST_READ: i64 = 1 << 32;

/// Most bytes of any other: of what is written is kept who wrote it.
const MOST_TOUCHED: i64 = 1 << 25;

/// Numbers that extents and scalars are tried with, beside those that the checks mention.
const NUMBERS: [i64; 17] = [0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

/// What a launch is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    /// By `DimId` index.
    dims: Vec<i64>,
    /// `usize` and integer scalars.
    scalars: BTreeMap<ParamId, i64>,
    /// Blocks that the device holds at once.
    capacity: i64,
    strides: BTreeMap<(ParamId, u8), i64>,
}

impl Extents {
    /// `M = 128, K = 1024`
    pub fn text(&self, program: &Program) -> String {
        let dims = program.dims.iter().zip(&self.dims).map(|(name, extent)| format!("{name} = {extent}"));
        let scalars = self.scalars.iter().map(|(param, number)| format!("{param} = {number}"));
        dims.chain(scalars).collect::<Vec<_>>().join(", ")
    }
}

impl HostValues for Extents {
    fn dim(&self, dim: DimId) -> i64 {
        self.dims.get(dim.index()).copied().unwrap_or(1)
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        self.strides.get(&(tensor, axis)).copied().unwrap_or(1)
    }

    fn scalar(&self, param: ParamId) -> i64 {
        self.scalars.get(&param).copied().unwrap_or(1)
    }

    fn address(&self, _tensor: ParamId) -> u64 {
        // As aligned as any.
        0
    }

    fn capacity(&self) -> i64 {
        self.capacity
    }
}

/// A number that is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unknown {
    Dim(usize),
    Scalar(ParamId),
}

/// What a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Clusters that are executed at once: what a grid of persistent blocks is made of.
    pub clusters: u32,
    /// What an extent is to be near that the grid does not depend on; 0: tensors may be without elements.
    pub steps: i64,
    /// Whether extents that may be odd are: tiles that leave their tensors, guards that are false. Scalars are then sought from 3 on, not
    /// from 1: a tile has several parts.
    pub ragged: bool,
    /// Whether tensors hold more than zeros.
    pub is_filled: bool,
    /// Whether tiles are wanted along two axes of the author's grid, where it has them: what a block does may depend on where its tile is.
    pub square: bool,
}

/// Extents and scalars that satisfy the checks; `None` where none were found.
pub(crate) fn extents(program: &Program, wanted: Wanted) -> Option<Extents> {
    let search = Search::new(program, wanted);
    let starts = [wanted.steps, 64, 128, 1024, 1, 16, 4096];
    let found = starts.into_iter().find_map(|start| search.satisfying(start))?;
    Some(search.refined(found))
}

struct Search<'p> {
    program: &'p Program,
    wanted: Wanted,
    unknowns: Vec<Unknown>,
    numbers: Vec<i64>,
}

impl<'p> Search<'p> {
    fn new(program: &'p Program, wanted: Wanted) -> Search<'p> {
        let mut unknowns: BTreeSet<Unknown> = (0..program.dims.len()).map(Unknown::Dim).collect();
        let mut numbers: BTreeSet<i64> = NUMBERS.into_iter().collect();
        let mut expressions: Vec<&HostExpr> = program.launch.grid.iter().collect();
        expressions.extend(program.launch.checks.iter().map(|check| &check.holds));
        expressions.extend(program.tensors.iter().flat_map(|tensor| &tensor.shape));
        while let Some(expression) = expressions.pop() {
            match expression {
                HostExpr::Int(number) if (0..1 << 24).contains(number) => {
                    numbers.extend([*number, 2 * number, 4 * number, 16 * number, number + 1]);
                }
                HostExpr::Scalar(param) => {
                    unknowns.insert(Unknown::Scalar(*param));
                }
                HostExpr::Binary(_, a, b) => expressions.extend([&**a, &**b]),
                HostExpr::Not(a) => expressions.push(a),
                HostExpr::Choose(parts) => expressions.extend(parts.iter()),
                HostExpr::Int(_)
                | HostExpr::Dim(_)
                | HostExpr::Stride(..)
                | HostExpr::Address(_)
                | HostExpr::Capacity => {}
            }
        }
        for parameter in &program.params {
            if let (ParameterKind::Scalar(param), ValueType::Index | ValueType::Wide) = (parameter.kind, parameter.ty) {
                unknowns.insert(Unknown::Scalar(param));
            }
        }
        if wanted.ragged {
            let beyond = |number: i64| [1, 2, 3].map(|times| times * number + if number > 64 { 8 } else { 1 });
            let ragged: Vec<i64> =
                numbers.iter().copied().filter(|n| (4..=4096).contains(n)).flat_map(beyond).collect();
            numbers.extend(ragged.into_iter().chain([5, 7, 24, 40, 72, 100, 200, 1000]));
        }
        Search { program, wanted, unknowns: unknowns.into_iter().collect(), numbers: numbers.into_iter().collect() }
    }

    fn with(&self, extents: &Extents, unknown: Unknown, number: i64) -> Extents {
        let mut extents = extents.clone();
        match unknown {
            Unknown::Dim(dim) => extents.dims[dim] = number,
            Unknown::Scalar(param) => {
                extents.scalars.insert(param, number);
            }
        }
        self.with_strides(extents)
    }

    fn number(extents: &Extents, unknown: Unknown) -> i64 {
        match unknown {
            Unknown::Dim(dim) => extents.dims[dim],
            Unknown::Scalar(param) => extents.scalars.get(&param).copied().unwrap_or(1),
        }
    }

    /// Tensors are contiguous; where extents may be odd, there is room between their rows.
    fn with_strides(&self, mut extents: Extents) -> Extents {
        for tensor in &self.program.tensors {
            let mut stride = 1i64;
            for (axis, extent) in (0..tensor.shape.len() as u8).zip(&tensor.shape).rev() {
                extents.strides.insert((tensor.param, axis), stride);
                // Without elements a tensor may have any strides: they are 0, which is a multiple of whatever a check asks for.
                let extent = extent.evaluate(&extents).unwrap_or(1).max(i64::from(self.wanted.steps != 0));
                let is_row = stride == 1 && tensor.shape.len() > 1;
                let row = if is_row && self.wanted.ragged { 16 * (extent / 16 + 2) } else { extent };
                stride = stride.saturating_mul(row);
            }
        }
        extents
    }

    /// How many checks do not hold, and tensors that are too large or have no extents.
    fn broken(&self, extents: &Extents) -> usize {
        let holds = |check: &&Check| check.holds.evaluate(extents).is_some_and(|value| value != 0);
        let checks = &self.program.launch.checks;
        let broken = checks.len() - checks.iter().filter(holds).count();
        let least = if self.wanted.steps == 0 { 0 } else { 1 };
        let sizes = self.program.tensors.iter().filter(|tensor| {
            let shape = tensor.shape.iter().map(|extent| extent.evaluate(extents).filter(|e| *e >= least));
            let elements = shape.into_iter().try_fold(1i64, |n, extent| n.checked_mul(extent?));
            let bytes = elements.and_then(|n| n.checked_mul(i64::from(tensor.dtype.bytes())));
            let most = if tensor.mutable || self.wanted.is_filled { MOST_TOUCHED } else { MOST_READ };
            bytes.is_none_or(|bytes| bytes > most)
        });
        // A launch of no blocks shows nothing.
        broken + sizes.count() + usize::from(self.blocks(extents).is_none_or(|blocks| blocks == 0))
    }

    fn blocks(&self, extents: &Extents) -> Option<i64> {
        let mut blocks = 1i64;
        for (grid, cluster) in self.program.launch.grid.iter().zip(self.program.launch.cluster) {
            let extent = grid.evaluate(extents).filter(|e| (0..1 << 31).contains(e))?;
            blocks = blocks.checked_mul(extent)?;
            if extent % i64::from(cluster.max(1)) != 0 {
                return None;
            }
        }
        Some(blocks)
    }

    fn satisfying(&self, start: i64) -> Option<Extents> {
        let scalars = self.unknowns.iter().filter_map(|unknown| match unknown {
            Unknown::Scalar(param) => Some((*param, if self.wanted.ragged { 3 } else { 1 })),
            Unknown::Dim(_) => None,
        });
        let capacity = i64::from(self.wanted.clusters) * i64::from(self.program.launch.cluster_size().max(1));
        let dims = vec![start.max(1); self.program.dims.len()];
        let mut found =
            self.with_strides(Extents { dims, scalars: scalars.collect(), capacity, strides: BTreeMap::new() });
        // What the program was compiled for is known.
        for check in &self.program.launch.checks {
            if let CheckKind::Specialized { dim, value } = check.kind {
                found = self.with(&found, Unknown::Dim(dim.index()), value);
            }
        }
        let mut broken = self.broken(&found);
        while broken > 0 {
            let tries = self.unknowns.iter().flat_map(|unknown| self.numbers.iter().map(move |n| (*unknown, *n)));
            let (fewest, unknown, number) = tries
                .map(|(unknown, number)| (self.broken(&self.with(&found, unknown, number)), unknown, number))
                .min_by_key(|(fewest, _, _)| *fewest)?;
            if fewest >= broken {
                return self.pair(&found, broken).filter(|found| self.broken(found) == 0);
            }
            (found, broken) = (self.with(&found, unknown, number), fewest);
        }
        Some(found)
    }

    /// Two numbers changed at once, where changing one does not help.
    fn pair(&self, from: &Extents, broken: usize) -> Option<Extents> {
        let numbers = || self.numbers.iter().copied().filter(|n| *n > 0 && *n <= 4096);
        for (i, first) in self.unknowns.iter().enumerate() {
            for number in numbers() {
                let one = self.with(from, *first, number);
                for second in &self.unknowns[i + 1..] {
                    let found = numbers().map(|n| self.with(&one, *second, n)).find(|e| self.broken(e) < broken);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// The grid small, what it does not depend on near what is wanted.
    fn refined(&self, mut found: Extents) -> Extents {
        // As many as that blocks of persistent kernels work on several each.
        let few = 4 * i64::from(self.wanted.clusters) * i64::from(self.program.launch.cluster_size().max(1));
        // Where tiles are wanted along two axes: one alone, and from there some along the first axis, which leaves others to the second.
        let rounds = if self.wanted.square { vec![1, few.isqrt() + 1, few] } else { vec![few, few] };
        for round in rounds {
            let mut wanted = round;
            for &unknown in &self.unknowns {
                let best = self.numbers.iter().flat_map(|number| self.changed(&found, unknown, *number));
                let best = best.filter(|extents| self.broken(extents) == 0);
                let best = best.min_by_key(|extents| self.cost(extents, unknown, wanted));
                found = match best {
                    Some(best) if self.cost(&best, unknown, wanted) < self.cost(&found, unknown, wanted) => best,
                    _ => found,
                };
                if wanted != 1 && self.counts(&found, unknown) {
                    wanted = few;
                }
            }
        }
        if self.wanted.ragged { found } else { self.stretched(found) }
    }

    /// Each block given more of what an extent is divided by: `rows` of `N` where there are `ceil_div(N, rows)` blocks, with as many blocks
    /// as before.
    fn stretched(&self, mut found: Extents) -> Extents {
        let count = |extents: &Extents| (self.blocks(extents), self.tiles(extents));
        let (scalars, dims): (Vec<Unknown>, Vec<Unknown>) =
            self.unknowns.iter().partition(|unknown| matches!(unknown, Unknown::Scalar(_)));
        for scalar in scalars.into_iter().filter(|scalar| self.counts(&found, *scalar)).collect::<Vec<_>>() {
            let (before, blocks) = (count(&found), self.blocks(&found).unwrap_or(1));
            let each = dims.iter().flat_map(|dim| self.numbers.iter().map(move |number| (*dim, *number)));
            let tries = each
                .map(|(dim, number)| self.with(&self.with(&found, scalar, number), dim, number.saturating_mul(blocks)));
            let best = tries.filter(|extents| count(extents) == before && self.broken(extents) == 0);
            let far = |extents: &Extents| (Self::number(extents, scalar) - self.wanted.steps).abs();
            if let Some(best) = best.min_by_key(far).filter(|best| far(best) < far(&found)) {
                found = best;
            }
        }
        found
    }

    /// Each extent that the number of tiles depends on as large as leaves it what it is.
    #[cfg(any(test, feature = "testing"))]
    fn whole(&self, mut found: Extents) -> Extents {
        /// As large as makes more tiles.
        const MANY: i64 = 4096;
        let count = |extents: &Extents| (self.blocks(extents), self.tiles(extents));
        let before = count(&found);
        for &unknown in self.unknowns.iter().filter(|unknown| matches!(unknown, Unknown::Dim(_))) {
            let tries = |number: i64| {
                let changed = self.changed(&found, unknown, number).into_iter();
                changed.filter(|extents| self.broken(extents) == 0)
            };
            let number = Self::number(&found, unknown);
            let mut more = self.numbers.iter().rev().filter(|other| (number + 1..MANY).contains(*other));
            let is_counted = tries(MANY).any(|extents| count(&extents) != before);
            let larger = more.find_map(|more| tries(*more).find(|extents| count(extents) == before));
            if let Some(larger) = larger.filter(|_| is_counted) {
                found = larger;
            }
        }
        found
    }

    /// One number changed; where that breaks a check, with each other number that was the same: extents that are to be equal.
    fn changed(&self, from: &Extents, unknown: Unknown, number: i64) -> Vec<Extents> {
        let one = self.with(from, unknown, number);
        if self.broken(&one) == 0 {
            return vec![one];
        }
        let before = Self::number(from, unknown);
        let alike = self.unknowns.iter().filter(|other| **other != unknown && Self::number(from, **other) == before);
        alike.map(|other| self.with(&one, *other, number)).collect()
    }

    /// What is not as wanted: tiles beyond a few or below, then the distance from what is wanted.
    fn cost(&self, extents: &Extents, unknown: Unknown, few: i64) -> (i64, i64, i64) {
        let blocks = self.blocks(extents).unwrap_or(i64::MAX);
        let number = Self::number(extents, unknown);
        let counts = self.counts(extents, unknown);
        let wanted = if counts { 0 } else { self.wanted.steps };
        let distance = 32 * (number - wanted).abs() / number.max(wanted).max(1);
        let even = if self.wanted.ragged { 3 * i64::from(number.max(1).trailing_zeros()) } else { 0 };
        let tiles = self.tiles(extents).unwrap_or(blocks).max(blocks);
        // As many blocks may be launched for more tiles.
        let more = if self.wanted.square && counts { -number } else { 0 };
        ((tiles - few).max(0).saturating_add((few - tiles).max(0)), distance + even, more)
    }

    /// The tiles of the author's grid: as many blocks as a device that holds them all at once would be given.
    fn tiles(&self, extents: &Extents) -> Option<i64> {
        self.blocks(&Extents { capacity: 1 << 20, ..extents.clone() })
    }

    /// Whether the number of blocks, or of tiles, depends on a number.
    fn counts(&self, extents: &Extents, unknown: Unknown) -> bool {
        let number = Self::number(extents, unknown);
        [number.saturating_mul(64).max(64), 1].into_iter().any(|other| {
            let other = self.with(extents, unknown, other);
            self.blocks(&other) != self.blocks(extents) || self.tiles(&other) != self.tiles(extents)
        })
    }
}

/// The integers that are no index: enough that what they count goes around its stages, and a word can be shifted by it.
const SMALL: i64 = 16;

/// What tensors of a launch hold. Integers that the program writes are 0 but for [`Contents::Same`]: it may count in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Integers of this value; floating-point zeros.
    Same(i32),
    /// Integers that begin at 0, each by so much more than the one before: where sequences begin. Floating-point numbers as of `Random`, so
    /// that what is done only where they differ is done in long sequences too.
    Ascending(i32),
    /// Small numbers, drawn from a seed.
    Random(u64),
    /// Integers of this value where a tensor has one axis, such as the lengths of sequences; where it has more, as of `Random`, such as
    /// tables of entries that exist; floating-point numbers as of `Random` too.
    Tables(i32),
}

/// The arguments of a launch, one a kernel parameter.
pub(crate) fn arguments(program: &Program, extents: &Extents, contents: Contents) -> Option<Vec<Argument>> {
    let count = program.tensors.iter().map(|tensor| tensor.param.index() + 1).max().unwrap_or(0);
    let scalars = program.params.iter().filter_map(|parameter| match parameter.kind {
        ParameterKind::Scalar(param) => Some((param, parameter.ty)),
        _ => None,
    });
    let scalars: Vec<_> = scalars.collect();
    let count = scalars.iter().map(|(param, _)| param.index() + 1).max().unwrap_or(0).max(count);
    let mut all: Vec<Argument> = (0..count).map(|_| Argument::Absent).collect();
    for (param, ty) in scalars {
        let value = match ty {
            ValueType::Index | ValueType::Wide => ScalarValue::Index(extents.scalar(param)),
            ValueType::Element(dtype) => {
                let number = if dtype.is_whole() { SMALL } else { 1 };
                ScalarValue::Element(dtype, numeric::cast_from_index(dtype, number))
            }
        };
        all[param.index()] = Argument::Scalar(value);
    }
    for tensor in &program.tensors {
        let shape: Option<Vec<i64>> = tensor.shape.iter().map(|extent| extent.evaluate(extents)).collect();
        let (shape, mut strides) = (shape?, Vec::new());
        (0..shape.len() as u8).for_each(|axis| strides.push(extents.stride(tensor.param, axis)));
        let last: i64 = shape.iter().zip(&strides).map(|(extent, stride)| (extent - 1) * stride).sum();
        let elements = if shape.contains(&0) { 0 } else { usize::try_from(last + 1).ok()? };
        let memory = Memory::try_zeros(elements * tensor.dtype.bytes() as usize).ok()?;
        let is_whole = tensor.dtype.is_whole();
        let contents = match contents {
            Contents::Same(_) => contents,
            // What is counted in begins at 0.
            _ if is_whole && tensor.mutable => Contents::Same(0),
            Contents::Tables(number) if is_whole && shape.len() == 1 => Contents::Same(number),
            Contents::Tables(_) => Contents::Random(1),
            Contents::Ascending(_) | Contents::Random(_) => contents,
        };
        fill(&memory, tensor.dtype, elements, contents)?;
        let (dtype, memory) = (tensor.dtype, Arc::new(memory));
        all[tensor.param.index()] = Argument::Tensor(TensorArgument { dtype, shape, strides, memory, offset: 0 });
    }
    Some(all)
}

fn fill(memory: &Memory, dtype: Dtype, elements: usize, contents: Contents) -> Option<()> {
    let bits: Box<dyn Fn(usize) -> u32> = match contents {
        Contents::Same(number) if number != 0 && dtype.is_whole() => {
            Box::new(move |_| numeric::cast_from_index(dtype, i64::from(number)))
        }
        Contents::Ascending(by) if dtype.is_whole() => {
            Box::new(move |at| numeric::cast_from_index(dtype, (at as i64).saturating_mul(i64::from(by))))
        }
        Contents::Same(_) => return Some(()),
        Contents::Ascending(_) | Contents::Random(_) | Contents::Tables(_) => Box::new(move |at| {
            let seed = if let Contents::Random(seed) = contents { seed } else { 1 };
            let mixed = (at as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let number = ((mixed >> 40) % 9) as i32 - 4;
            match dtype.class() {
                DtypeClass::Bool => u32::from(number > 0),
                DtypeClass::Int(_) => number.unsigned_abs(),
                DtypeClass::Float(_) => numeric::encode(dtype, number as f32 / 4.0),
            }
        }),
    };
    // What no address is made of is the same again in each part of a large tensor: a prime of elements, so at other columns of its rows.
    let width = dtype.bytes() as usize;
    let distinct = if dtype.is_whole() { elements } else { elements.min(99_991) };
    let bytes = (0..distinct).flat_map(|at| bits(at).to_le_bytes().into_iter().take(width));
    let bytes: Vec<u8> = bytes.collect();
    let starts = (0..elements * width).step_by(bytes.len().max(1));
    starts.into_iter().try_for_each(|at| memory.write(at, &bytes[..bytes.len().min(elements * width - at)]).ok())
}

/// Whether the program has barriers in memory, whose phases say how far it went.
pub(super) fn barriers(program: &Program) -> u64 {
    program.barriers.values().map(|array| u64::from(array.len)).sum()
}

/// What a small launch is to be like.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As few rows and columns as make a few tiles: most of a tile may be outside of its tensor.
    Least,
    /// Extents are odd if they may be.
    Ragged,
    /// As many rows and columns as make no more tiles.
    Whole,
}

/// The arguments of a small launch, for tests that execute a program. What the grid does not depend on is near `steps`. `None` where no
/// launch was found.
#[cfg(any(test, feature = "testing"))]
pub fn small_launch(program: &Program, steps: i64, shape: Shape, contents: Contents) -> Option<Vec<Argument>> {
    let wanted = Wanted { clusters: 1, steps, ragged: shape == Shape::Ragged, is_filled: true, square: false };
    let found = extents(program, wanted)?;
    let found = if shape == Shape::Whole { Search::new(program, wanted).whole(found) } else { found };
    arguments(program, &found, contents)
}

#[cfg(test)]
mod tests {
    use super::{Contents, Shape, small_launch};
    use crate::sim::Argument;

    /// Blocks that take tiles in turn are a multiple of four: one tile counts as four, and the least launch has one of one row and one column, so that
    /// a load of columns 32 to 63 brings nothing of the tensor.
    #[test]
    fn whole_tiles_have_rows_and_columns() {
        let text = "program batch for sm_90a
dims Z, M, N
parameters
    c: wide = address of c
    N: index = dim N
tensors
    c: mut f32 (Z, M, N) of argument 0, output
launch
    blocks [min((ceil_div(((ceil_div(N, 64)) * (ceil_div(M, 64))) * Z, 4)) * 4, blocks at once), 1, 1]
    threads [128, 1, 1]
shared: 0 bytes
body
    barrier
";
        let program = crate::text::parse_program(text).unwrap_or_else(|error| panic!("{error}"));
        let extents = |shape| match &small_launch(&program, 256, shape, Contents::Same(0)).expect("a launch")[..] {
            [Argument::Tensor(tensor)] => tensor.shape.clone(),
            other => panic!("{} arguments", other.len()),
        };
        assert_eq!(extents(Shape::Least)[1..], [1, 1]);
        assert!(extents(Shape::Whole)[1..].iter().all(|extent| *extent >= 64), "{:?}", extents(Shape::Whole));
    }
}
