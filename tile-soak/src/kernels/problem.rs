//! What a kernel is launched on: extents, scalars, and data made of a seed.

use rand::Rng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tile_ir::ir::{Dtype, DtypeClass, DtypeRef, EntityRef, Extent, Kernel, ParamId, ParamKind, Type};
use tile_ir::sim::numeric;
use tile_ir::sim::{Argument, Memory, ScalarValue, TensorArgument};

/// A launch's values, by name, so that a mutant is launched as its original is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Extents by dim.
    pub dims: BTreeMap<String, i64>,
    /// Integers by scalar parameter; of a float, a number of quarters.
    pub scalars: BTreeMap<String, i64>,
    /// The optional tensors that are left out.
    pub absent: BTreeSet<String>,
    /// What the tensors' elements are made of.
    pub data: u64,
    /// The tensors of places in other tensors.
    #[serde(default)]
    pub tables: BTreeMap<String, Table>,
}

/// What the elements of a tensor of places are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Table {
    /// Numbers below this one.
    Below(i64),
    /// Numbers below this one, all different where there are at most so many elements.
    Distinct(i64),
    /// Where parts of a range of this length begin and end: from 0, ascending, to the length.
    Cuts(i64),
}

impl Table {
    /// Element `at` of `len`.
    fn element(self, random: u64, data: u64, at: usize, len: usize) -> u32 {
        let number = |n: i64| n.max(1) as u64;
        let value = match self {
            Table::Below(n) => random % number(n),
            Table::Distinct(n) => {
                let n = number(n);
                let step = [7, 5, 3].into_iter().find(|step| n % step != 0).unwrap_or(1);
                (at as u64 * step + data % n) % n
            }
            Table::Cuts(n) => n.max(0) as u64 * at as u64 / number(len as i64 - 1),
        };
        value as u32
    }
}

/// Extents that are primes, or the least.
const ODD: [i64; 6] = [1, 2, 3, 7, 13, 37];
/// Extents that pipelined loops go over several times: at least [`DEPTH`].
const DEEP: [i64; 4] = [DEPTH, 128, 129, 160];
/// The least extent that a pipelined loop is deep over: four tiles of 32, two of 64.
pub const DEPTH: i64 = 127;

impl Problem {
    /// A problem for a kernel and the constants of one of its instances: extents are at and beside multiples of the instance's
    /// tiles, primes, and 1, few of them different, so that extents that must be equal often are.
    pub fn draw(kernel: &Kernel, consts: &[i64], rng: &mut impl Rng) -> Problem {
        let tiles = tiles(consts);
        let edge = |rng: &mut dyn rand::RngCore| match rng.random_range(0..5) {
            0 => *ODD.choose(rng).unwrap_or(&1),
            1 => 8 * rng.random_range(1..=12),
            _ => {
                let tile = *tiles.choose(rng).unwrap_or(&32);
                (tile * rng.random_range(1..=2) + rng.random_range(-1..=1)).max(1)
            }
        };
        let pool: Vec<i64> = (0..rng.random_range(1..=3)).map(|_| edge(rng)).collect();
        Problem::of(kernel, &pool, rng)
    }

    /// A problem whose extents are just above one of the instance's tiles or beside two of them, or deep: 127 and more.
    pub fn draw_tiles(kernel: &Kernel, consts: &[i64], rng: &mut impl Rng) -> Problem {
        let mut tiles = tiles(consts);
        tiles.extend([1, 64]);
        let edge = |rng: &mut dyn rand::RngCore| match (rng.random_range(0..3), *tiles.choose(rng).unwrap_or(&32)) {
            (0, _) => *DEEP.choose(rng).unwrap_or(&128),
            (1, tile) => tile + 1,
            (_, tile) => (2 * tile + rng.random_range(-1..=1)).max(1),
        };
        let pool: Vec<i64> = (0..rng.random_range(1..=3)).map(|_| edge(rng)).collect();
        Problem::of(kernel, &pool, rng)
    }

    /// A problem whose extents are counts of blocks, 1 to 24, or so many of one of the instance's tiles, or beside them.
    pub fn draw_blocks(kernel: &Kernel, consts: &[i64], rng: &mut impl Rng) -> Problem {
        let mut tiles = tiles(consts);
        tiles.extend([1, 64]);
        let edge = |rng: &mut dyn rand::RngCore| {
            let tile = *tiles.choose(rng).unwrap_or(&32);
            (tile * rng.random_range(1..=24) + rng.random_range(-1..=1)).max(1)
        };
        let pool: Vec<i64> = (0..rng.random_range(1..=3)).map(|_| edge(rng)).collect();
        Problem::of(kernel, &pool, rng)
    }

    /// A problem with these extents, each of them at one of the dims or several.
    fn of(kernel: &Kernel, pool: &[i64], rng: &mut impl Rng) -> Problem {
        let dims = kernel.dims.values().map(|d| (d.name.clone(), *pool.choose(rng).unwrap_or(&1))).collect();
        let scalars = kernel.params.values().filter(|p| matches!(p.kind, ParamKind::Scalar { .. }));
        let scalars = scalars.map(|p| (p.name.clone(), rng.random_range(0..=4))).collect();
        let optional = kernel.params.values().filter(|p| matches!(p.kind, ParamKind::Tensor { optional: true, .. }));
        let absent = optional.filter(|_| rng.random()).map(|p| p.name.clone()).collect();
        Problem { dims, scalars, absent, data: rng.random(), tables: BTreeMap::new() }
    }

    /// About how much work it is: of a product the product of its three extents, of what reads its tensors once, as one that
    /// goes by a table of places does, their size.
    pub fn work(&self, kernel: &Kernel) -> f64 {
        let extent = |extent: &Extent| match *extent {
            Extent::Dim(dim) => self.dim(&kernel.dims[dim].name) as f64,
            Extent::Fixed(_) => 64.0,
        };
        let sizes = kernel.params.values().filter_map(|param| match &param.kind {
            ParamKind::Tensor { shape, .. } => Some(shape.iter().map(extent).product::<f64>()),
            _ => None,
        });
        let mut sizes: Vec<f64> = sizes.collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        let largest = sizes.first().copied().unwrap_or(1.0);
        if !self.tables.is_empty() {
            return largest;
        }
        sizes.iter().take(3).product::<f64>().sqrt().max(largest)
    }

    /// The value of a dim; a mutant may have other names.
    pub fn dim(&self, name: &str) -> i64 {
        self.dims.get(name).copied().unwrap_or(32)
    }

    /// The parameters that this launch leaves out.
    pub fn absent(&self, kernel: &Kernel) -> Vec<ParamId> {
        let left_out = kernel.params.iter().filter(|(_, p)| {
            matches!(p.kind, ParamKind::Tensor { optional: true, .. }) && self.absent.contains(&p.name)
        });
        left_out.map(|(id, _)| id).collect()
    }

    /// Arguments for a bound kernel, in memory of their own.
    pub fn arguments(&self, bound: &Kernel) -> Vec<Argument> {
        self.arguments_with(bound, Problem::tensor)
    }

    /// What a launch is checked by: arguments whose tensors have shapes and no elements.
    pub fn shapes(&self, bound: &Kernel) -> Vec<Argument> {
        self.arguments_with(bound, |_, _, dtype, shape, _| of_shape(dtype, shape, Memory::zeros(0)))
    }

    /// Arguments whose tensors are made so, of their name, dtype and shape, and of whether they begin as zeros.
    fn arguments_with(
        &self,
        bound: &Kernel,
        tensor: impl Fn(&Problem, &str, Dtype, Vec<i64>, bool) -> TensorArgument,
    ) -> Vec<Argument> {
        let argument = |(id, param): (ParamId, &tile_ir::ir::Param)| match &param.kind {
            ParamKind::Absent => Argument::Absent,
            ParamKind::Scalar { ty } => Argument::Scalar(self.scalar(&param.name, *ty)),
            ParamKind::Tensor { dtype, shape, mutable, .. } => {
                let extent = |extent: &Extent| match *extent {
                    Extent::Dim(dim) => self.dim(&bound.dims[dim].name),
                    Extent::Fixed(value) => bound.const_index(value).unwrap_or(1),
                };
                let shape: Vec<i64> = shape.iter().map(extent).collect();
                let dtype = concrete(*dtype);
                // Counters begin at 0, as the launcher's own memory does.
                let zero = bound.attributes.workspaces.contains(&id) || *mutable && dtype == Dtype::U32;
                Argument::Tensor(tensor(self, &param.name, dtype, shape, zero))
            }
        };
        bound.params.iter().map(argument).collect()
    }

    fn scalar(&self, name: &str, ty: Type) -> ScalarValue {
        let value = self.scalars.get(name).copied().unwrap_or(1);
        match ty {
            Type::Index => ScalarValue::Index(value),
            Type::Value(dtype) => {
                let dtype = concrete(dtype);
                let float = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32);
                ScalarValue::Element(
                    dtype,
                    if float { numeric::encode(dtype, value as f32 / 4.0) } else { value as u32 },
                )
            }
        }
    }

    fn tensor(&self, name: &str, dtype: Dtype, shape: Vec<i64>, zero: bool) -> TensorArgument {
        let elements: i64 = shape.iter().product();
        let size = dtype.bytes() as usize;
        let memory = Memory::zeros(elements.max(0) as usize * size);
        if !zero {
            let table = self.tables.get(name);
            let name = name.bytes().fold(self.data, |h, b| mix(h ^ u64::from(b)));
            for i in 0..elements.max(0) as usize {
                let random = mix(name.wrapping_add(i as u64));
                let bits = match table {
                    Some(table) => table.element(random, self.data, i, elements.max(0) as usize),
                    None => element(dtype, random),
                };
                memory.set(i * size, dtype, bits).expect("it has this element");
            }
        }
        of_shape(dtype, shape, memory)
    }
}

/// A tensor whose rows lie one behind the other.
fn of_shape(dtype: Dtype, shape: Vec<i64>, memory: Memory) -> TensorArgument {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    TensorArgument { dtype, shape, strides, memory: Arc::new(memory), offset: 0 }
}

/// The constants of an instance that may be tiles, and common ones.
fn tiles(consts: &[i64]) -> Vec<i64> {
    let mut tiles: Vec<i64> = consts.iter().copied().filter(|c| (2..=256).contains(c)).collect();
    tiles.extend([8, 32]);
    tiles
}

/// Small numbers: sums and products of them are exact in f32, and indices made of them stay small.
fn element(dtype: Dtype, random: u64) -> u32 {
    let small = (random >> 33) % 7;
    match dtype.class() {
        DtypeClass::Bool => u32::from(small > 3),
        DtypeClass::Int(format) if !format.signed => small as u32,
        DtypeClass::Int(_) | DtypeClass::Float(_) => numeric::encode(dtype, small as f32 - 3.0),
    }
}

fn concrete(dtype: DtypeRef) -> Dtype {
    match dtype {
        DtypeRef::Is(dtype) => dtype,
        DtypeRef::Param(_) => Dtype::F32,
    }
}

/// One round of splitmix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What a launch left in the tensors that it may write, by name.
pub type Results = BTreeMap<String, Vec<u8>>;

/// The results in these arguments. Workspaces are the launcher's own.
pub fn results(bound: &Kernel, args: &[Argument]) -> Results {
    let written = bound.params.iter().filter(|(id, param)| {
        matches!(param.kind, ParamKind::Tensor { mutable: true, .. }) && !bound.attributes.workspaces.contains(id)
    });
    let read = |(id, param): (ParamId, &tile_ir::ir::Param)| match args.get(id.index()) {
        Some(Argument::Tensor(tensor)) => {
            let mut bytes = vec![0; tensor.memory.len()];
            tensor.memory.read(0, &mut bytes).expect("it has so many bytes");
            Some((param.name.clone(), bytes))
        }
        _ => None,
    };
    written.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_places() {
        let elements = |table: Table, len: usize| -> Vec<u32> {
            (0..len).map(|i| table.element(mix(i as u64), 11, i, len)).collect()
        };
        assert!(elements(Table::Below(5), 100).iter().all(|place| *place < 5));
        for n in [1, 2, 15, 105, 210] {
            let all: BTreeSet<u32> = elements(Table::Distinct(n), n as usize).into_iter().collect();
            assert!(all.len() == n as usize && all.iter().all(|place| i64::from(*place) < n), "{n}: {all:?}");
        }
        assert_eq!(elements(Table::Cuts(10), 4), [0, 3, 6, 10]);
        assert_eq!(elements(Table::Cuts(10), 1), [0]);
    }
}
