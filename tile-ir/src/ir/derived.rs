//! Dims that a contract gives by other dims: `require(D == 2 * K)`, and `Extent<{ 2 * K }>`, which is such a contract.
//!
//! Analysis takes the dim for the expression, so that bounds in one are bounds in the other. A launch still finds the dim's value
//! in its tensors, and checks the contract.

use super::{BinaryOp, DimId, ExprId, ExprKind, Kernel, Type};

impl Kernel {
    /// Dims that a `require` of a bound kernel gives as expressions of constants and of dims before them; ascending, once each.
    pub(crate) fn derived_dims(&self) -> Vec<(DimId, ExprId)> {
        let mut all: Vec<(DimId, ExprId)> = Vec::new();
        for require in &self.requires {
            let ExprKind::Binary(BinaryOp::Eq, a, b) = self.exprs[require.cond].kind else { continue };
            for (dim, value) in [(a, b), (b, a)] {
                if let ExprKind::Dim(dim) = self.exprs[dim].kind
                    && self.dims[dim].value.is_none()
                    && self.is_made_of_dims_before(value, dim)
                    && !all.iter().any(|(known, _)| *known == dim)
                {
                    all.push((dim, value));
                    break;
                }
            }
        }
        all.sort_by_key(|(dim, _)| *dim);
        all
    }

    fn is_made_of_dims_before(&self, expr: ExprId, dim: DimId) -> bool {
        match &self.exprs[expr].kind {
            ExprKind::Int(_) => self.exprs[expr].ty == Type::Index,
            ExprKind::Dim(other) => *other < dim,
            ExprKind::Binary(op, a, b) => {
                let arithmetic = !op.is_comparison() && !matches!(op, BinaryOp::And | BinaryOp::Or);
                arithmetic && self.is_made_of_dims_before(*a, dim) && self.is_made_of_dims_before(*b, dim)
            }
            _ => false,
        }
    }
}
