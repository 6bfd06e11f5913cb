//! Random arguments for a launch, right and wrong in every way that the public interface allows, on both simulators; whether
//! a launch is right is decided a second time, from the rules, by going through the elements (R17).
//!
//! A launch that is refused must be a typed error and must have written nothing; one that is made must have written exactly
//! what the kernel says.

use crate::part::{Case, Outcome, Part};
use rand::Rng;
use std::collections::BTreeSet;
use tile_runtime::kernel::{Argument, InstanceTable, ScalarInput, TensorInput, launch};
use tile_runtime::prelude::*;
use tile_runtime::{Error, LaunchError, Tensor, TensorView};

/// y = alpha x v on the first `n` rows.
#[tile_kernel(require(K % 4 == 0), require(n <= N), partial(y))]
fn affine(x: &Tensor<f32, (N, K)>, v: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (N, K)>, alpha: f32, n: usize) {
    let [b] = blocks([N]);
    let [t] = threads([32]);
    if t < K && b < n {
        y[[b, t]] = alpha * x[[b, t]] * v[t];
    }
}

const ROWS: usize = 8;
const COLUMNS: usize = 24;

/// The part.
pub struct Launches;

impl Part for Launches {
    fn name(&self) -> &'static str {
        "launches"
    }

    fn about(&self) -> &'static str {
        "Arguments of wrong number, kind, dtype, rank, extent, device, overlap or value among right ones; a failure is a wrong \
         launch that is made, a right one that is refused, a refused one that wrote, a panic"
    }

    fn size(&self) -> u64 {
        100_000
    }

    fn sample(&self) -> u64 {
        600
    }

    fn run(&self, case: Case) -> Outcome {
        let checked = case.number % 2 == 1;
        let class = if checked { "sim-checked" } else { "sim" };
        match attempt(&mut case.rng(), checked) {
            Ok(Ok(())) => Outcome::passed(class, "launched"),
            Ok(Err(error)) => match error.code() {
                Some(code) => Outcome::passed(class, format!("refused {code}")),
                None => Outcome::failed(class, format!("a wrong argument is no failure of the device: {error}")),
            },
            Err(problem) => Outcome::failed(class, problem),
        }
    }
}

/// The memory that views are taken of.
struct Memory {
    wide: Tensor<f32, 2>,
    out: Tensor<f32, 2>,
    vector: Tensor<f32, 1>,
    cube: Tensor<f32, 3>,
    ints: Tensor<i32, 2>,
    halves: Tensor<f16, 2>,
    flags: Tensor<bool, 2>,
    endless: Tensor<f32, 2>,
}

fn value(i: usize) -> f32 {
    (i % 7) as f32 - 3.0
}

impl Memory {
    fn new(device: &Device) -> Result<Memory, Error> {
        let floats: Vec<f32> = (0..ROWS * COLUMNS).map(value).collect();
        Ok(Memory {
            wide: device.tensor(&floats, [ROWS, COLUMNS])?,
            out: device.zeros([ROWS, COLUMNS])?,
            vector: device.tensor(&floats[..COLUMNS], [COLUMNS])?,
            cube: device.zeros([2, ROWS, COLUMNS])?,
            ints: device.zeros([ROWS, COLUMNS])?,
            halves: device.zeros([ROWS, COLUMNS])?,
            flags: device.zeros([ROWS, COLUMNS])?,
            endless: device.zeros([1 << 33, 0])?,
        })
    }

    fn floats(&self) -> Result<Vec<f32>, Error> {
        Ok([self.wide.to_vec()?, self.out.to_vec()?, self.vector.to_vec()?].concat())
    }
}

/// A view of any of them.
enum View<'a> {
    Matrix(TensorView<'a, f32, 2>),
    Vector(TensorView<'a, f32, 1>),
    Cube(TensorView<'a, f32, 3>),
    Ints(TensorView<'a, i32, 2>),
    Halves(TensorView<'a, f16, 2>),
    Flags(TensorView<'a, bool, 2>),
}

/// An argument, and what is known of it without asking the runtime.
enum Given<'a> {
    Tensor { view: View<'a>, shape: Vec<usize>, float: bool, here: bool, elements: BTreeSet<(u8, usize)> },
    Float(f32),
    Index(usize),
    Other(Argument<'static>),
}

impl Given<'_> {
    fn argument(&self) -> Argument<'_> {
        match self {
            Given::Tensor { view, .. } => match view {
                View::Matrix(view) => view.argument(),
                View::Vector(view) => view.argument(),
                View::Cube(view) => view.argument(),
                View::Ints(view) => view.argument(),
                View::Halves(view) => view.argument(),
                View::Flags(view) => view.argument(),
            },
            Given::Float(value) => value.scalar(),
            Given::Index(value) => value.scalar(),
            Given::Other(argument) => *argument,
        }
    }

    /// Its extents, where it is a tensor that a parameter of this rank takes here.
    fn extents(&self, rank: usize) -> Option<&[usize]> {
        match self {
            Given::Tensor { shape, float: true, here: true, .. } if shape.len() == rank => {
                shape.iter().all(|extent| *extent <= i32::MAX as usize).then_some(shape)
            }
            _ => None,
        }
    }

    fn elements(&self) -> Option<&BTreeSet<(u8, usize)>> {
        match self {
            Given::Tensor { elements, .. } => Some(elements),
            _ => None,
        }
    }
}

/// A part of a matrix of `ROWS x COLUMNS` elements, in memory number `memory`.
fn part(rng: &mut impl Rng, memory: u8, shape: [usize; 2]) -> ([std::ops::Range<usize>; 2], BTreeSet<(u8, usize)>) {
    let [rows, columns] = [shape[0].min(ROWS), shape[1].min(COLUMNS)];
    let (row, column) = (rng.random_range(0..=ROWS - rows), rng.random_range(0..=COLUMNS - columns));
    let all = (row..row + rows).flat_map(|r| (column..column + columns).map(move |c| (memory, r * COLUMNS + c)));
    ([row..row + rows, column..column + columns], all.collect())
}

/// The argument for parameter `place` of a launch with these extents: mostly right.
fn draw<'a>(
    rng: &mut impl Rng,
    place: usize,
    (n, k): (usize, usize),
    here: &'a Memory,
    elsewhere: &'a Memory,
) -> Result<Given<'a>, Error> {
    let wrong = rng.random_range(0..12) == 0;
    let foreign = wrong && rng.random_range(0..6) == 0;
    let (memory, is_here) = if foreign { (elsewhere, false) } else { (here, true) };
    let matrix = |view, shape: [usize; 2], elements| Given::Tensor {
        view: View::Matrix(view),
        shape: shape.to_vec(),
        float: true,
        here: is_here,
        elements,
    };
    if wrong && !foreign {
        let other = |view, shape: &[usize]| Given::Tensor {
            view,
            shape: shape.to_vec(),
            float: false,
            here: true,
            elements: BTreeSet::new(),
        };
        return Ok(match rng.random_range(0..11) {
            0 => Given::Other(Argument::Absent),
            1 => Given::Other(1u32.scalar()),
            2 => Given::Other(true.scalar()),
            3 => Given::Float(2.0),
            4 => Given::Index([0, 1, n, n + 1, i32::MAX as usize, 1 << 31, usize::MAX][rng.random_range(0..7)]),
            5 => other(View::Ints(memory.ints.slice([0..n, 0..k])?), &[n, k]),
            6 => other(View::Halves(memory.halves.slice([0..n, 0..k])?), &[n, k]),
            7 => other(View::Flags(memory.flags.slice([0..n, 0..k])?), &[n, k]),
            8 => other(View::Cube(memory.cube.view()), &[2, ROWS, COLUMNS]),
            9 => {
                let rows = [0, 4, 1 << 31, 1 << 33][rng.random_range(0..4)];
                matrix(memory.endless.rows(0..rows)?, [rows, 0], BTreeSet::new())
            }
            _ => {
                let shape = [rng.random_range(0..=ROWS), rng.random_range(0..=COLUMNS)];
                let (ranges, elements) = part(rng, 0, shape);
                matrix(memory.wide.slice(ranges)?, shape, elements)
            }
        });
    }
    Ok(match place {
        0 => {
            let (ranges, elements) = part(rng, 0, [n, k]);
            matrix(memory.wide.slice(ranges)?, [n, k], elements)
        }
        1 => {
            let start = rng.random_range(0..=COLUMNS - k);
            Given::Tensor {
                view: View::Vector(memory.vector.rows(start..start + k)?),
                shape: vec![k],
                float: true,
                here: is_here,
                elements: (start..start + k).map(|i| (2, i)).collect(),
            }
        }
        2 => {
            // Sometimes a part of what x is a part of.
            let from = if rng.random_range(0..6) == 0 { 0 } else { 1 };
            let (ranges, elements) = part(rng, from, [n, k]);
            let source = if from == 0 { &memory.wide } else { &memory.out };
            matrix(source.slice(ranges)?, [n, k], elements)
        }
        3 => Given::Float(2.0),
        _ => Given::Index(rng.random_range(0..=n)),
    })
}

/// Whether the rules allow a launch with these arguments.
fn is_right(given: &[Given<'_>]) -> bool {
    let [x, v, y, Given::Float(_), Given::Index(rows)] = given else { return false };
    let (Some([n, k]), Some([length]), Some([y_n, y_k])) = (x.extents(2), v.extents(1), y.extents(2)) else {
        return false;
    };
    let apart = |other: &Given<'_>| match (y.elements(), other.elements()) {
        (Some(written), Some(read)) => written.is_disjoint(read),
        _ => true,
    };
    (n, k) == (y_n, y_k) && k == length && k % 4 == 0 && rows <= n && apart(x) && apart(v)
}

/// What the memory holds after a launch that is right.
fn expected(given: &[Given<'_>], before: &[f32]) -> Vec<f32> {
    let mut after = before.to_vec();
    let [x, v, y, Given::Float(alpha), Given::Index(rows)] = given else { return after };
    let place = |(memory, index): &(u8, usize)| usize::from(*memory) * ROWS * COLUMNS + index;
    let places = |given: &Given<'_>| given.elements().map_or(vec![], |all| all.iter().map(place).collect());
    // Elements are in row-major order, since they are ordered by their places in one memory.
    let (x, v, y): (Vec<usize>, Vec<usize>, Vec<usize>) = (places(x), places(v), places(y));
    for (i, (x, y)) in x.iter().zip(&y).enumerate().filter(|(i, _)| i / v.len().max(1) < *rows) {
        after[*y] = alpha * before[*x] * before[v[i % v.len()]];
    }
    after
}

/// One launch. The outer error: it did not go as the rules say.
fn attempt(rng: &mut impl Rng, checked: bool) -> Result<Result<(), LaunchError>, String> {
    static TABLE: InstanceTable<1> = InstanceTable::new();
    let text = |error: Error| error.to_string();
    let (device, other) = match checked {
        false => (Device::simulator(), Device::checked_simulator()),
        true => (Device::checked_simulator(), Device::simulator()),
    };
    let (here, elsewhere) = (Memory::new(&device).map_err(text)?, Memory::new(&other).map_err(text)?);
    let n = rng.random_range(0..=4);
    let k = if rng.random_range(0..10) == 0 { rng.random_range(0..=COLUMNS) } else { 4 * rng.random_range(0..=6) };
    let count = if rng.random_range(0..30) == 0 { rng.random_range(0..8) } else { 5 };
    let given: Result<Vec<Given<'_>>, Error> =
        (0..count).map(|place| draw(rng, place, (n, k), &here, &elsewhere)).collect();
    let mut given = given.map_err(text)?;
    if given.len() > 1 && rng.random_range(0..30) == 0 {
        let (a, b) = (rng.random_range(0..given.len()), rng.random_range(0..given.len()));
        given.swap(a, b);
    }
    let before = [here.floats().map_err(text)?, elsewhere.floats().map_err(text)?];
    let right = is_right(&given);
    let launched =
        launch(affine::definition(), &TABLE, 0, &device, &mut given.iter().map(Given::argument).collect::<Vec<_>>());
    let after = [here.floats().map_err(text)?, elsewhere.floats().map_err(text)?];
    let shown: Vec<String> = given.iter().map(|g| format!("{:?}", g.argument())).collect();
    match (&launched, right) {
        (Ok(()), false) => return Err(format!("a wrong launch was made: {shown:?}")),
        (Err(error), true) => return Err(format!("a right launch was refused: {shown:?}: {error}")),
        (Err(error), false) if !error.to_string().ends_with("Nothing was launched.") => {
            return Err(format!("{error}"));
        }
        _ => {}
    }
    let wanted = if right { expected(&given, &before[0]) } else { before[0].clone() };
    if after[0] != wanted || after[1] != before[1] {
        return Err(format!("wrong memory after {shown:?}, which was {}", if right { "right" } else { "wrong" }));
    }
    Ok(launched)
}
