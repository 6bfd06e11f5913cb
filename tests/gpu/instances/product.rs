//! The launches of an instance that multiplies matrices: shapes made for its tile, and their products on the CPU.

use super::select::Declared;
use tile_kernel_examples::data::{Real, integers};
use tile_kernel_examples::gemm::product;
use tile_runtime::LaunchError;
use tile_runtime::prelude::*;

/// The arguments of a launch: `c[z] = f(alpha a[z] b[z] + beta c[z] + bias)`.
pub struct Operands<'a, T: Element, U: Element> {
    pub a: TensorView<'a, T, 3>,
    pub b: TensorView<'a, T, 3>,
    pub c: TensorViewMut<'a, U, 3>,
    pub bias: Option<&'a Tensor<T, 1>>,
    pub alpha: f32,
    pub beta: f32,
    pub activation: u32,
}

/// One launch: extents, and what its epilogue does.
#[derive(Clone, Copy, Debug)]
struct Case {
    batches: usize,
    shape: [usize; 3],
    bias: bool,
    alpha: f32,
    beta: f32,
    relu: bool,
}

/// What a kernel asks of its shapes beyond its constants.
#[derive(Clone, Copy)]
pub struct Family {
    /// Elements of a step along K, where no constant says it.
    pub step: usize,
    pub batches: usize,
    /// Columns that the second shape has, in tiles: more than a device has multiprocessors, where blocks go from one tile to
    /// the next.
    pub wide: usize,
    /// What N of an unaligned shape is beyond a tile.
    pub ragged: usize,
}

/// Runs an instance on its shapes; how many launches that were.
pub fn run<T: Real, U: Real>(
    device: &Device,
    instance: &Declared,
    family: Family,
    launch: impl Fn(Operands<'_, T, U>) -> Result<(), LaunchError>,
) -> Result<usize, String> {
    let stored = [("A_T", false), ("B_T", true)].map(|(name, usual)| instance.find(name).map_or(usual, |v| v != 0));
    // On a simulator blocks run one after the other.
    let family = Family { wide: if device.is_simulator() { family.wide.min(2) } else { family.wide }, ..family };
    let cases = cases(instance, family);
    for case in &cases {
        check(device, case, stored, &launch).map_err(|problem| format!("{case:?}: {problem}"))?;
    }
    Ok(cases.len())
}

/// Aligned and ragged, with more steps than the ring has slots; K shorter than a step, with tiles for several turns of every
/// block; rows that are aligned to single elements. Where every thread copies, also rows aligned to 8 and to 4 bytes, which are
/// programs of their own.
fn cases(instance: &Declared, family: Family) -> Vec<Case> {
    let (bm, bn) = (instance.size("BM"), instance.size("BN"));
    let step = instance.find("BK").unwrap_or(family.step);
    let stages = instance.size("STAGES");
    let parts = instance.find("CK").unwrap_or(1) * instance.find("S").unwrap_or(1);
    // Where many blocks share K, a ring that comes round for each of them takes the CPU too long.
    let steps = parts * if parts <= 2 { stages + 1 } else { 2 };

    let aligned = [bm + 8, bn + 8, steps * step + 8];
    let short = [8, family.wide * bn + 8, 8];
    // Nothing but wgmma multiplies tiles of 8 rows, so their operands are always aligned; the result need not be.
    let unaligned = [5, bn + family.ragged, step + if bm < 16 { 8 } else { 5 }];
    let mut shapes = vec![aligned, short, unaligned];
    let bytes = instance.dtypes.first().map_or(4, |dtype| dtype.bytes() as usize);
    if step * bytes == 64 {
        let elements = [8, 4].map(|width| width / bytes).into_iter().filter(|elements| *elements > 1);
        shapes.extend(elements.map(|beyond| [8 + beyond, bn + beyond, step + beyond]));
    }

    let case = |(i, shape): (usize, [usize; 3])| {
        let plain = Case { batches: family.batches, shape, bias: false, alpha: 1.0, beta: 0.0, relu: false };
        // An absent bias makes another program. Each instance runs with one and without, but not in every alignment.
        let bias = (instance.index + i / 2).is_multiple_of(2);
        match (instance.find("EPILOGUE"), i) {
            (Some(0), _) => plain,
            (_, 0) => Case { bias, alpha: 2.0, beta: 1.0, ..plain },
            (_, 1) => Case { bias, alpha: -1.0, relu: true, ..plain },
            _ => Case { bias, alpha: 2.0, beta: -1.0, relu: true, ..plain },
        }
    };
    shapes.into_iter().enumerate().map(case).collect()
}

/// One launch against the product of integers on the CPU, bit by bit.
fn check<T: Real, U: Real>(
    device: &Device,
    case: &Case,
    [a_t, b_t]: [bool; 2],
    launch: &impl Fn(Operands<'_, T, U>) -> Result<(), LaunchError>,
) -> Result<(), String> {
    let &Case { batches: z, shape: [m, n, k], alpha, beta, .. } = case;
    // One `b` for all batches.
    let (a, b) = (integers::<T>(m as u64, z * m * k, 3), integers::<T>(n as u64, n * k, 3));
    let (old, shift) = (integers::<U>(3, z * m * n, 3), integers::<T>(4, n, 3));
    // What is not read is poison, and so is what is not written.
    let initial = if beta == 0.0 { vec![U::from_f32(f32::NAN); z * m * n] } else { old.clone() };

    let stored = |transposed, z, rows, cols| if transposed { [z, cols, rows] } else { [z, rows, cols] };
    let upload = |e: tile_runtime::Error| e.to_string();
    let da = device.tensor(&a, stored(a_t, z, m, k)).map_err(upload)?;
    let db = device.tensor(&b, stored(b_t, 1, k, n)).map_err(upload)?;
    let mut dc = device.tensor(&initial, [z, m, n]).map_err(upload)?;
    let bias = if case.bias { Some(device.tensor(&shift, [n]).map_err(upload)?) } else { None };
    launch(Operands {
        a: da.view(),
        b: db.view(),
        c: dc.view_mut(),
        bias: bias.as_ref(),
        alpha,
        beta,
        activation: u32::from(case.relu),
    })
    .map_err(|e| e.to_string())?;
    let found = dc.to_vec().map_err(upload)?;

    for (batch, a) in a.chunks(m * k).enumerate() {
        for (at, sum) in product(a, &b, [m, n, k], [a_t, b_t]).into_iter().enumerate() {
            let place = batch * m * n + at;
            let bias = if case.bias { shift[at % n].to_f32() } else { 0.0 };
            let value = alpha * sum + beta * old[place].to_f32() + bias;
            let wanted = U::from_f32(if case.relu { value.max(0.0) } else { value });
            if found[place] != wanted {
                let (row, col, found) = (at / n, at % n, found[place]);
                return Err(format!("batch {batch}, row {row}, column {col} is {found:?}, not {wanted:?}"));
            }
        }
    }
    Ok(())
}
