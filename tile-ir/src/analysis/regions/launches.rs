//! A few launches that a kernel's contract admits: what holds at all of them is told as what happens.

use super::points::Values;
use crate::analysis::walk::Walk;
use crate::constraint::Sym;
use crate::ir::{BoundKernel, DimId, DtypeRef, ExprId, ExprKind, ParamId, ParamKind, Type};
use crate::lowered::{HostExpr, fold};
use std::collections::BTreeMap;

/// Launches looked at.
const LAUNCHES: usize = 3;
/// Values of the integer scalar parameters, one for all of them; each launch begins with another.
const SCALARS: [i64; 6] = [2, 3, 8, 1, 64, 0];

/// Values of the dims and of the integer scalar parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Launch {
    dims: Vec<i64>,
    scalars: BTreeMap<ParamId, i64>,
}

impl Launch {
    /// A few launches that the contract admits, of large and of ragged extents.
    pub fn some(kernel: &BoundKernel) -> Vec<Launch> {
        let count = kernel.dims.len();
        let uniform = |v: i64| vec![v; count];
        let growing = |v: i64| (0..count).map(|i| v << (i % 4)).collect::<Vec<_>>();
        let shrinking = |v: i64| (0..count).map(|i| v << ((count - 1 - i) % 4)).collect::<Vec<_>>();
        let mut all: Vec<Vec<i64>> = vec![uniform(4096), growing(640), shrinking(640), uniform(1000)];
        all.extend([2048, 1024, 512, 256, 128, 96, 64, 32, 16, 8, 4, 2].map(uniform));
        all.extend([1024, 256, 64, 32, 8].into_iter().flat_map(|v| [growing(v), shrinking(v)]));
        let scalars: Vec<ParamId> =
            kernel.params.iter().filter(|(_, p)| is_integer(&p.kind)).map(|(id, _)| id).collect();
        let derived = kernel.derived_dims();
        let fixed = |dims: Vec<i64>, scalar: i64| {
            let scalars = scalars.iter().map(|param| (*param, scalar)).collect();
            let mut launch = Launch { dims, scalars };
            for (slot, dim) in launch.dims.iter_mut().zip(kernel.dims.values()) {
                *slot = dim.value.unwrap_or(*slot);
            }
            for (dim, expr) in &derived {
                if let Some(found) = launch.value(kernel, *expr) {
                    launch.dims[dim.as_u32() as usize] = found;
                }
            }
            launch
        };
        let admitted = |launch: &Launch| kernel.requires.iter().all(|r| launch.value(kernel, r.cond) == Some(1));
        let mut chosen: Vec<Launch> = Vec::new();
        for dims in all {
            let choices = if scalars.is_empty() { 1 } else { SCALARS.len() };
            let scalar = |choice: usize| SCALARS[(choice + chosen.len()) % SCALARS.len()];
            let launches = (0..choices).map(|choice| fixed(dims.clone(), scalar(choice)));
            let found = launches.into_iter().find(|launch| !chosen.contains(launch) && admitted(launch));
            chosen.extend(found);
            if chosen.len() == LAUNCHES {
                break;
            }
        }
        chosen
    }

    /// The value of a dim.
    pub fn dim(&self, dim: DimId) -> Option<i64> {
        self.dims.get(dim.as_u32() as usize).copied()
    }

    /// The value of an expression of dims, integer scalar parameters and constants.
    pub fn value(&self, kernel: &BoundKernel, expr: ExprId) -> Option<i64> {
        match &kernel.exprs[expr].kind {
            ExprKind::Int(value) => Some(*value),
            ExprKind::Bool(value) => Some(i64::from(*value)),
            ExprKind::Dim(dim) => self.dim(*dim),
            ExprKind::Scalar(param) => self.scalars.get(param).copied(),
            ExprKind::Binary(op, a, b) => fold(*op, self.value(kernel, *a)?, self.value(kernel, *b)?),
            _ => None,
        }
    }

    /// The values of the symbols that the launcher knows.
    pub fn values(&self, walk: &Walk<'_>) -> Values {
        let mut values = Values::none(walk.cx.symbols());
        for (sym, host) in &walk.hosts {
            if let Some(value) = self.host_value(host) {
                values.set(*sym, value);
            }
        }
        values
    }

    /// The value of what the launcher evaluates.
    fn host_value(&self, host: &HostExpr) -> Option<i64> {
        match host {
            HostExpr::Int(value) => Some(*value),
            HostExpr::Dim(dim) => self.dim(*dim),
            HostExpr::Scalar(param) => self.scalars.get(param).copied(),
            HostExpr::Binary(op, a, b) => fold(*op, self.host_value(a)?, self.host_value(b)?),
            HostExpr::Choose(parts) => {
                let [c, a, b] = &**parts;
                self.host_value(if self.host_value(c)? != 0 { a } else { b })
            }
            HostExpr::Stride(..) | HostExpr::Address(_) | HostExpr::Capacity | HostExpr::Not(_) => None,
        }
    }

    /// `M = 4096, parts = 2`.
    pub fn shown(&self, kernel: &BoundKernel) -> String {
        let dims = kernel.dims.values().zip(&self.dims).map(|(dim, value)| format!("{} = {value}", dim.name));
        let scalars = self.scalars.iter().map(|(param, value)| format!("{} = {value}", kernel.params[*param].name));
        dims.chain(scalars).collect::<Vec<_>>().join(", ")
    }
}

/// Whether a symbol that the launcher knows is a scalar parameter, or made of one.
pub(super) fn is_of_scalars(walk: &Walk<'_>, sym: Sym) -> bool {
    let mut found = false;
    if let Some(host) = walk.hosts.get(&sym) {
        host.each_leaf(&mut |leaf| found |= matches!(leaf, HostExpr::Scalar(_)));
    }
    found
}

fn is_integer(kind: &ParamKind) -> bool {
    match kind {
        ParamKind::Scalar { ty: Type::Index } => true,
        ParamKind::Scalar { ty: Type::Value(DtypeRef::Is(dtype)) } => dtype.is_whole(),
        ParamKind::Scalar { .. } | ParamKind::Tensor { .. } | ParamKind::Absent => false,
    }
}
