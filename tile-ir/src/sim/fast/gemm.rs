//! Products of tiles: `acc[M, N] += a[M, K] b[K, N]`, whole tiles at a time.
//!
//! Every element of the sum takes its products in order of `k`. Products of 16-bit elements are exact in f32; those of
//! f32 are taken in f64, those of tf32, whose elements lose their low 13 bits first, are exact in f32 again. Hardware adds them in another order: results agree bitwise where every partial sum is exact.

use super::block::Machine;
use super::code::{ArrayInfo, GemmOperand, GemmPlan, MaskId};
use super::state::{Shared, State};
use crate::diag::{Code as DiagnosticCode, Diagnostic};
use crate::ir::{DtypeClass, FloatFormat, Precision};
use crate::sim::Fault;
use std::mem;

impl Machine<'_> {
    pub(super) fn gemm(&self, s: &mut State, plan: &GemmPlan, mask: MaskId) -> Result<(), Box<Fault>> {
        self.check_convergence(s, false, mask, plan.span)?;
        let stored = |operand: GemmOperand| matrix(&self.code.shared[operand.array as usize]);
        let turned =
            |(rows, columns), operand: GemmOperand| if operand.transposed { (columns, rows) } else { (rows, columns) };
        let (m, k) = turned(stored(plan.a), plan.a);
        let sum = matrix(&self.code.shared[plan.acc as usize]);
        // One matrix of the right operand, and how many there are.
        let (rows, columns) = stored(plan.b);
        let own = if plan.b.transposed { sum.1 } else { k };
        let parts = if plan.grouped && own > 0 { rows / own } else { 1 };
        let (k_of_b, n) = turned((rows / parts.max(1), columns), plan.b);
        // A left operand with the rows of one group is multiplied with every matrix.
        let copies = if plan.grouped && m * parts == sum.0 { parts } else { 1 };
        let (of_left, m) = (m, m * copies);
        if k != k_of_b || sum != (m, n) || parts == 0 || !rows.is_multiple_of(parts) || !m.is_multiple_of(parts) {
            let (rows, columns) = sum;
            let message = format!("gemm: [{m}, {k}] times [{k_of_b}, {n}] is not [{rows}, {columns}]");
            return Err(self.fault(s, 0, Diagnostic::new(DiagnosticCode::TILE_SHAPE, plan.span, message)));
        }
        // Taken out while the operands are read: the sum is none of them.
        let mut acc = mem::replace(&mut s.shared[plan.acc as usize], Shared::Floats(Vec::new()));
        let operands = (&s.shared[plan.a.array as usize], &s.shared[plan.b.array as usize]);
        if let (Shared::Floats(acc), (Shared::Floats(a), Shared::Floats(b))) = (&mut acc, operands)
            && a.len() == of_left * k
            && b.len() == parts * k * n
        {
            if plan.clear {
                acc.fill(0.0);
            }
            let transpose = |data: &[f32], operand: GemmOperand, rows: usize, columns: usize, into: &mut Vec<f32>| {
                if operand.transposed {
                    into.extend((0..rows).flat_map(|i| (0..columns).map(move |j| data[j * rows + i])));
                } else {
                    into.extend_from_slice(data);
                }
            };
            let (left, right) = (&mut s.scratch.left, &mut s.scratch.right);
            left.clear();
            right.clear();
            transpose(a, plan.a, of_left, k, left);
            if k * n > 0 {
                b.chunks_exact(k * n).for_each(|part| transpose(part, plan.b, k, n, right));
            }
            let dtype = self.code.shared[plan.a.array as usize].dtype;
            let exact = match (dtype.class(), plan.precision) {
                (DtypeClass::Float(FloatFormat::Binary32), Precision::Full) => false,
                (DtypeClass::Float(FloatFormat::Binary32), Precision::Tf32) => {
                    [left, right].into_iter().flatten().for_each(|x| *x = to_tf32(*x));
                    true
                }
                (DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16), _) => true,
                // Not held as floats, so not here.
                (DtypeClass::Bool | DtypeClass::Int(_), _) => true,
            };
            let rows = m / parts;
            if rows * n * k > 0 {
                let groups = acc.chunks_exact_mut(rows * n).zip(s.scratch.left.chunks_exact(rows * k).cycle());
                for ((acc, a), b) in groups.zip(s.scratch.right.chunks_exact(k * n)) {
                    if exact { product(acc, a, b, n, k) } else { wide_product(acc, a, b, n, k) }
                }
            }
        }
        s.shared[plan.acc as usize] = acc;
        Ok(())
    }
}

/// What tensor cores read of an f32 as tf32: all but the low 13 bits of its fraction.
fn to_tf32(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & !0x1fff)
}

/// Rows and columns.
fn matrix(info: &ArrayInfo) -> (usize, usize) {
    let extent = |axis: usize| info.extents.get(axis).map_or(1, |e| (*e).max(0) as usize);
    (extent(0), extent(1))
}

/// Rows of the sum that share a row of `b` while it is in registers.
const ROWS: usize = 4;

/// `acc += a b`, row-major. Four rows of the sum at a time: a row of `b` is read once for the four.
fn product(acc: &mut [f32], a: &[f32], b: &[f32], n: usize, k: usize) {
    if n == 0 || k == 0 {
        return;
    }
    for (acc, a) in acc.chunks_mut(ROWS * n).zip(a.chunks(ROWS * k)) {
        if acc.len() < ROWS * n {
            for (acc, a) in acc.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
                for (&x, b) in a.iter().zip(b.chunks_exact(n)) {
                    acc.iter_mut().zip(b).for_each(|(sum, y)| *sum += x * y);
                }
            }
            continue;
        }
        let (r0, rest) = acc.split_at_mut(n);
        let (r1, rest) = rest.split_at_mut(n);
        let (r2, r3) = rest.split_at_mut(n);
        for (at, b) in b.chunks_exact(n).enumerate() {
            let [x0, x1, x2, x3] = [a[at], a[k + at], a[2 * k + at], a[3 * k + at]];
            let rows = r0.iter_mut().zip(r1.iter_mut()).zip(r2.iter_mut().zip(r3.iter_mut()));
            for (((s0, s1), (s2, s3)), &y) in rows.zip(b) {
                *s0 += x0 * y;
                *s1 += x1 * y;
                *s2 += x2 * y;
                *s3 += x3 * y;
            }
        }
    }
}

/// `acc += a b` with f32 operands: a product of two has up to 48 bits.
fn wide_product(acc: &mut [f32], a: &[f32], b: &[f32], n: usize, k: usize) {
    if n == 0 || k == 0 {
        return;
    }
    for (acc, a) in acc.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        for (&x, b) in a.iter().zip(b.chunks_exact(n)) {
            let x = f64::from(x);
            acc.iter_mut().zip(b).for_each(|(sum, y)| *sum = (f64::from(*sum) + x * f64::from(*y)) as f32);
        }
    }
}
