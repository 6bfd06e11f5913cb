//! Products of one row or one column: a matrix times a vector, of which every element of the matrix is used once.
//!
//! Where the matrix's rows lie along K, a kernel of [`gemv`] multiplies, one of those that are not compiled for each K; where they lie
//! along the result, [`gemv_columns`](struct@crate::gemv::columns::gemv_columns). They are thought of where TMA does not fetch the operands: of those that it
//! fetches, tiles of 16 rows read the matrix as fast as memory gives it.

use super::{Activation, Gemm, GemmElement};
use crate::gemv::columns::{self, GemvColumnsParams};
use crate::gemv::{self, Gemv};
use std::fmt;
use tile_runtime::kernel::{LaunchOn, Place, Target, TensorOutput, TensorRef};
use tile_runtime::{Element, LaunchError, TensorView};

/// The kernel that multiplies a matrix and a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vector {
    /// The matrix's rows lie along K.
    Along(gemv::Choice),
    /// The matrix's rows lie along the result.
    Across(GemvColumnsParams),
}

impl fmt::Display for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vector::Along(choice) => choice.fmt(f),
            Vector::Across(GemvColumnsParams { LANES, GROUPS, UNROLL, PARTS, VEC }) => {
                write!(f, "gemv_columns {LANES}x{GROUPS}x{UNROLL}x{PARTS} v{VEC}")
            }
        }
    }
}

/// A product of one row or column, as far as its choice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Rows and columns of the result, or the other way round, and how the matrix is aligned.
    of: gemv::Problem,
    /// Whether the matrix's rows lie along K.
    along: bool,
}

impl Problem {
    /// The product as one of a matrix and a vector; none where it has several rows and columns, something is done with the sum that kernels of
    /// vectors do not do, or an operand or the result that is a vector has a pitch.
    pub(super) fn of<T: Element>(
        on: &impl LaunchOn,
        [a, b, c]: [&TensorRef<'_>; 3],
        shape: [i64; 3],
        options: &Gemm<'_, T>,
    ) -> Option<Problem> {
        let same = a.dtype() == c.dtype() && b.dtype() == c.dtype();
        let plain = options.bias.is_none() && options.activation == Activation::None;
        if !same || !plain || shape.contains(&0) || !on.device().supports(Target::Sm90a) {
            return None;
        }
        let operand = Operand::matrix(shape, [options.a_transposed, options.b_transposed])?;
        let (matrix, vector) = if operand.is_b { (b, a) } else { (a, b) };
        // A row's elements are neighbours, a column's where it has no pitch.
        let is_dense = |tensor: &TensorRef<'_>| match *tensor.shape() {
            [rows, 1] if rows > 1 => tensor.strides().first() == Some(&1),
            _ => true,
        };
        let of = match operand.along {
            true => gemv::Problem::of(matrix, vector, true),
            // Elements of the vector are loaded one by one.
            false => gemv::Problem::of(matrix, matrix, true).turned(),
        };
        (is_dense(vector) && is_dense(c)).then_some(Problem { of, along: operand.along })
    }

    /// The kernel that is expected to be the fastest, and its us.
    pub(super) fn fastest(self) -> Option<(Vector, f64)> {
        if self.along {
            gemv::Choice::of_any_k(self.of).map(|(choice, us)| (Vector::Along(choice), us))
        } else {
            columns::fastest(self.of).map(|(params, us)| (Vector::Across(params), us))
        }
    }
}

/// The operand that is the matrix.
#[derive(Clone, Copy)]
struct Operand {
    is_b: bool,
    /// Whether its rows lie along K.
    along: bool,
}

impl Operand {
    /// Of a product of one row or column; `[a_transposed, b_transposed]` says how the operands are stored.
    fn matrix([m, n, _]: [i64; 3], [a_transposed, b_transposed]: [bool; 2]) -> Option<Operand> {
        match (m, n) {
            (1, _) => Some(Operand { is_b: true, along: b_transposed }),
            (_, 1) => Some(Operand { is_b: false, along: !a_transposed }),
            _ => None,
        }
    }
}

/// Launches a product of one row or column; none where the element types have no such kernel, or the operands are no matrix and vectors.
#[track_caller]
pub(super) fn launch<T: GemmElement<C>, C: Element>(
    on: &Place<'_>,
    vector: Vector,
    [a, b]: [TensorView<'_, T, 2>; 2],
    c: &mut impl TensorOutput<C, 2>,
    options: &Gemm<'_, T>,
) -> Option<Result<(), LaunchError>> {
    let c = c.to_view()?;
    let [m, n] = c.shape().map(|extent| extent as i64);
    let operand = Operand::matrix([m, n, 0], [options.a_transposed, options.b_transposed])?;
    let (matrix, x) = if operand.is_b { (b, a) } else { (a, b) };
    let (x, y) = (x.reshape([x.len()]).ok()?, c.reshape([(m * n) as usize]).ok()?);
    // The kernels read the matrix before the previous one is done, and `gemm` says that of `b` alone.
    let on = if operand.is_b { *on } else { on.in_order() };
    T::launch_vector(&on, vector, matrix, x, y, Gemv { alpha: options.alpha, beta: options.beta })
}
