//! The launches of an instance that multiplies a matrix and a vector.

use super::select::Declared;
use tile_kernel_examples::data::{Real, integers};
use tile_runtime::LaunchError;
use tile_runtime::prelude::*;

/// The arguments of a launch: `y = alpha W x + beta y`.
pub struct Operands<'a, T: Element> {
    pub w: TensorView<'a, T, 2>,
    pub x: &'a Tensor<T, 1>,
    pub y: &'a mut Tensor<T, 1>,
    pub alpha: f32,
    pub beta: f32,
}

/// One launch: rows and columns of W, and elements from one row to the next.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub n: usize,
    pub k: usize,
    pub pitch: usize,
    /// Whether it is `y = alpha W^T x + beta y`.
    pub across: bool,
}

impl Case {
    /// Rows one behind the other.
    pub fn dense(n: usize, k: usize) -> Case {
        Case { n, k, pitch: k, across: false }
    }

    /// Rows with a gap of so many elements between them.
    pub fn apart(n: usize, k: usize, gap: usize) -> Case {
        Case { n, k, pitch: k + gap, across: false }
    }
}

/// Runs an instance on these shapes; how many launches that were.
pub fn run<T: Real>(
    device: &Device,
    cases: &[Case],
    launch: impl Fn(Operands<'_, T>) -> Result<(), LaunchError>,
) -> Result<usize, String> {
    for (i, case) in cases.iter().enumerate() {
        let (alpha, beta) = if i == 0 { (2.0, -1.0) } else { (1.0, 0.0) };
        check(device, *case, (alpha, beta), &launch).map_err(|problem| format!("{case:?}: {problem}"))?;
    }
    Ok(cases.len())
}

/// Several steps of every block and a rest; a row of one load; rows that are not aligned, or where loads are wide, apart.
pub fn any_k(instance: &Declared) -> [Case; 3] {
    let rows = instance.size("ROWS") * instance.size("GROUPS");
    let vec = instance.size("VEC");
    let chunk = 32 * instance.size("WARPS") * vec * instance.size("UNROLL");
    let last = if vec == 1 { Case::dense(3, 257) } else { Case::apart(3, 33 * vec, vec) };
    [Case::dense(2 * rows + 1, chunk * (instance.size("STAGES") + 1) + 3 * vec), Case::dense(rows + 1, vec), last]
}

/// Several steps of every group, of `parts` blocks, and a rest; a row of one load; rows with a gap that keeps them as aligned as they are.
pub fn groups(instance: &Declared, lanes: usize, rows: usize, parts: usize) -> [Case; 3] {
    let vec = instance.size("VEC");
    let chunk = lanes * parts * vec * instance.size("UNROLL");
    [
        Case::dense(2 * rows + 1, 2 * chunk + 3 * vec),
        Case::dense(rows + 1, vec),
        Case::apart(3, 33 * vec, if vec == 1 { 5 } else { vec }),
    ]
}

/// Rows along the result: several steps of every group of each block and a rest, a row of one load, rows with a gap.
pub fn columns(instance: &Declared) -> [Case; 3] {
    let vec = instance.size("VEC");
    let step = instance.size("GROUPS") * instance.size("PARTS") * instance.size("UNROLL");
    let wide = instance.size("LANES") * vec;
    let gap = if vec == 1 { 5 } else { vec };
    let cases = [Case::dense(2 * step + 3, 2 * wide + vec), Case::dense(7, vec), Case::apart(step / 2 + 1, wide, gap)];
    cases.map(|case| Case { across: true, ..case })
}

/// Rows that begin anywhere, side by side: several steps and a rest, rows shorter than a line, and those that happen to be aligned.
pub fn lines(instance: &Declared) -> [Case; 3] {
    let (vec, rows) = (instance.size("VEC"), instance.size("ROWS") * instance.size("VEC"));
    let chunk = instance.size("LANES") * vec * instance.size("UNROLL");
    [Case::dense(2 * rows + 3, chunk + 13), Case::dense(rows + 1, 3), Case::dense(rows + 5, 5 * vec)]
}

/// Most bytes of weights that a block has in shared memory here, of 227 KiB.
const RING: usize = 200 << 10;

/// The shapes for a kernel whose weights arrive by bulk copies, as far as shared memory has room for whole rows.
pub fn bulk(instance: &Declared, bytes: usize) -> [Case; 3] {
    ring(instance, instance.size("ROWS"), bytes)
}

/// Shapes for an instance of the GEMV whose blocks have so many rows.
pub fn ring(instance: &Declared, rows: usize, bytes: usize) -> [Case; 3] {
    let vec = instance.size("VEC");
    let step = 32 * instance.size("WARPS") * vec;
    let held = instance.size("SPAN") * instance.size("STAGES") * step * bytes;
    let long = if 2 * held <= RING { step + 3 * vec } else { step - 3 * vec };
    [Case::dense(rows + 3, long), Case::dense(rows + 1, vec), Case::apart(3, step / 2 + vec, vec)]
}

/// One launch against sums of integers on the CPU, bit by bit.
fn check<T: Real>(
    device: &Device,
    Case { n, k, pitch, across }: Case,
    (alpha, beta): (f32, f32),
    launch: &impl Fn(Operands<'_, T>) -> Result<(), LaunchError>,
) -> Result<(), String> {
    let (summed, results) = if across { (n, k) } else { (k, n) };
    let (w, x) = (integers::<T>(n as u64, n * pitch, 3), integers::<T>(k as u64, summed, 3));
    let old = integers::<T>(3, results, 3);
    let initial = if beta == 0.0 { vec![T::from_f32(f32::NAN); results] } else { old.clone() };

    let upload = |e: tile_runtime::Error| e.to_string();
    let dw = device.tensor(&w, [n, pitch]).map_err(upload)?;
    let dx = device.tensor(&x, [summed]).map_err(upload)?;
    let mut dy = device.tensor(&initial, [results]).map_err(upload)?;
    let view = dw.slice([0..n, 0..k]).map_err(upload)?;
    launch(Operands { w: view, x: &dx, y: &mut dy, alpha, beta }).map_err(|e| e.to_string())?;

    for (at, found) in dy.to_vec().map_err(upload)?.into_iter().enumerate() {
        let weight = |i: usize| if across { w[i * pitch + at] } else { w[at * pitch + i] };
        let sum: f32 = x.iter().enumerate().map(|(i, x)| weight(i).to_f32() * x.to_f32()).sum();
        let wanted = T::from_f32(alpha * sum + beta * old[at].to_f32());
        if found != wanted {
            return Err(format!("element {at} is {found:?}, not {wanted:?}"));
        }
    }
    Ok(())
}
