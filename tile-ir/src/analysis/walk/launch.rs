//! What is known before the first statement: dims, scalar parameters, what `require` says of them, and the indices of
//! blocks and threads.

use super::{Ranged, Value, Walk};
use crate::constraint::{Cond, Monomial, Poly, Sym, Varies, gcd};
use crate::diag::{Code, Diagnostic};
use crate::ir::{BinaryOp, DimId, DtypeRef, ExprId, ExprKind, ParamKind, Type, VarId};
use crate::lowered::HostExpr;

impl<'k> Walk<'k> {
    pub(super) fn launch_symbols(&mut self) {
        let (kernel, most) = (self.kernel, Some(i64::from(i32::MAX)));
        for (id, dim) in kernel.dims.iter() {
            if let Some(value) = dim.value {
                self.dims.push(Poly::constant(value));
                continue;
            }
            let sym = self.cx.fresh_launch(&dim.name, Some(0), most);
            self.hosts.insert(sym, HostExpr::Dim(id));
            self.dims.push(Poly::sym(sym));
        }
        for (id, param) in kernel.params.iter() {
            let ParamKind::Scalar { ty } = param.kind else { continue };
            let (lo, hi) = match ty {
                Type::Index => (0, i64::from(i32::MAX)),
                Type::Value(DtypeRef::Is(dtype)) if dtype.is_whole() => match dtype.range() {
                    Some(range) => range,
                    None => continue,
                },
                Type::Value(_) => continue,
            };
            let sym = self.cx.fresh_launch(&param.name, Some(lo), Some(hi));
            self.hosts.insert(sym, HostExpr::Scalar(id));
            self.scalars.insert(id.as_u32(), Poly::sym(sym));
        }
        let mut equal = Vec::new();
        for require in &kernel.requires {
            self.required_equal(require.cond, &mut equal);
        }
        for require in &kernel.requires {
            self.require_multiples(require.cond, &equal);
        }
        for (dim, value) in kernel.derived_dims() {
            if let Value::Int(value) = self.eval(value) {
                // A tensor has no negative extent, and none beyond the index type.
                self.cx.assume_nonneg(value.clone());
                if let Some(room) = Poly::constant(i64::from(i32::MAX)).minus(&value) {
                    self.cx.assume_nonneg(room);
                }
                self.dims[dim.as_u32() as usize] = value;
            }
        }
        for require in &kernel.requires {
            if let Value::Bool(cond) = self.eval(require.cond) {
                if cond == Cond::False {
                    let message = format!("no launch passes this: {} is never so", require.text);
                    self.analysis.diagnostics.push(Diagnostic::new(Code::LAUNCH_REQUIRE, require.span, message));
                }
                self.cx.assume(&cond);
            }
        }
    }

    /// The dims and scalar parameters that `require(M == N)` says are equal, in pairs.
    fn required_equal(&self, cond: ExprId, equal: &mut Vec<[&'k ExprKind; 2]>) {
        let kernel = self.kernel;
        let ExprKind::Binary(op, a, b) = kernel.exprs[cond].kind else { return };
        if op == BinaryOp::And {
            self.required_equal(a, equal);
            self.required_equal(b, equal);
            return;
        }
        let sides = [a, b].map(|side| &kernel.exprs[side].kind);
        if op == BinaryOp::Eq && sides.iter().all(|side| self.at_launch(side).is_some()) {
            equal.push(sides);
        }
    }

    /// What is known of a dim or a scalar parameter; `None` for other expressions.
    fn at_launch(&self, kind: &ExprKind) -> Option<Poly> {
        match kind {
            ExprKind::Dim(dim) => self.dims.get(dim.as_u32() as usize).cloned(),
            ExprKind::Scalar(param) => self.scalars.get(&param.as_u32()).cloned(),
            _ => None,
        }
    }

    /// `e % m == 0` with one symbol that is not known to be such a multiple: the symbol becomes a multiple of a new
    /// one, so that divisibility can be read off coefficients. Where `e` is a dim or a parameter, so do those that are `equal` to it.
    fn require_multiples(&mut self, cond: ExprId, equal: &[[&'k ExprKind; 2]]) {
        let kernel = self.kernel;
        let ExprKind::Binary(op, a, b) = kernel.exprs[cond].kind else { return };
        if op == BinaryOp::And {
            self.require_multiples(a, equal);
            self.require_multiples(b, equal);
            return;
        }
        let (remainder, zero) = if kernel.const_index(a) == Some(0) { (b, a) } else { (a, b) };
        let ExprKind::Binary(BinaryOp::Rem, value, modulus) = kernel.exprs[remainder].kind else { return };
        if op != BinaryOp::Eq || kernel.const_index(zero) != Some(0) {
            return;
        }
        let (Value::Int(known), Value::Int(modulus)) = (self.eval(value), self.eval(modulus)) else { return };
        let Some(modulus) = modulus.as_constant().filter(|m| (2..=1 << 20).contains(m)) else { return };
        self.require_multiple(&known, modulus);
        let mut same = vec![&kernel.exprs[value].kind];
        let mut at = 0;
        while let Some(one) = same.get(at).copied() {
            for other in equal.iter().filter(|pair| pair.contains(&one)).flatten() {
                if !same.contains(other) {
                    same.push(other);
                    let known = self.at_launch(other);
                    known.iter().for_each(|known| self.require_multiple(known, modulus));
                }
            }
            at += 1;
        }
    }

    /// `value % modulus == 0`.
    fn require_multiple(&mut self, value: &Poly, modulus: i64) {
        let mut rest = value.terms().iter().filter(|t| t.1 % modulus != 0);
        let (Some((monomial, coefficient)), None) = (rest.next(), rest.next()) else { return };
        let Some(sym) = monomial.latest().filter(|_| monomial.rest() == Monomial::ONE) else {
            return;
        };
        let shared = gcd(coefficient.unsigned_abs(), modulus.unsigned_abs()) as i64;
        let factor = modulus / shared;
        let Some(host) = self.hosts.get(&sym).cloned() else { return };
        let symbol = self.cx.symbol(sym);
        let (name, hi) = (format!("{} / {factor}", symbol.name), symbol.hi.map(|hi| hi / factor));
        let lo = symbol.lo.map(|lo| -((-lo).div_euclid(factor)));
        let part = self.cx.fresh_launch(&name, lo, hi);
        self.hosts.insert(part, HostExpr::binary(BinaryOp::Div, host, HostExpr::Int(factor)));
        let Some(multiple) = Poly::sym(part).scaled(factor) else { return };
        for value in self.dims.iter_mut().chain(self.scalars.values_mut()) {
            if let Some(next) = value.substitute(sym, &multiple) {
                *value = next;
            }
        }
    }

    /// Whether a value depends on a specialised dim that has no value yet: what is demanded of it is checked once it
    /// has one.
    pub fn waits(&self, value: &Poly) -> bool {
        let mut leaves = Vec::new();
        self.leaves(value, &mut leaves);
        let kernel = self.kernel;
        let is_open = |dim: &DimId| kernel.specialized().contains(dim) && kernel.dims[*dim].value.is_none();
        let mut waits = false;
        for host in leaves.iter().filter_map(|sym| self.hosts.get(sym)) {
            host.each_leaf(&mut |leaf| waits |= matches!(leaf, HostExpr::Dim(dim) if is_open(dim)));
        }
        waits
    }

    pub(super) fn bindings(&mut self) {
        let kernel = self.kernel;
        // Where the grid is launched as a line, its blocks compute their indices from its extents.
        self.in_kernel = kernel.swizzle.is_some() || !kernel.cluster.is_empty();
        if let Some(panel) = kernel.swizzle {
            self.eval(panel);
        }
        let extents: Vec<Value> = kernel.grid.iter().map(|axis| self.eval(axis.extent)).collect();
        self.in_kernel = false;
        for (axis, (binding, extent)) in kernel.grid.iter().zip(extents).enumerate().take(3) {
            let Value::Int(extent) = extent else { continue };
            if let Some(blocks) = extent.as_constant().filter(|blocks| *blocks < 0) {
                let span = kernel.exprs[binding.extent].span;
                let message = format!("a grid of {blocks} blocks: no launch is possible");
                self.analysis.diagnostics.push(Diagnostic::new(Code::LAUNCH_LIMIT, span, message));
            }
            let varies = Varies { blocks: 1 << axis, ..Varies::default() };
            let name = &kernel.vars[binding.var].name;
            let sym = self.cx.fresh(name, Some(0), Some(i64::from(i32::MAX) - 1), varies);
            let Some(last) = extent.plus_constant(-1) else { continue };
            self.bind_ranged(binding.var, sym, last);
            // A block that runs is one of its grid's.
            self.cx.assume_positive(&extent);
        }
        let extents = kernel.thread_extents();
        for (axis, binding) in kernel.threads.iter().enumerate().take(3) {
            let last = i64::from(extents[axis].max(1)) - 1;
            let varies = self.uniform.var(binding.var);
            let sym = self.cx.fresh(&kernel.vars[binding.var].name, Some(0), Some(last), varies);
            self.bind_ranged(binding.var, sym, Poly::constant(last));
        }
    }

    pub(super) fn bind_ranged(&mut self, var: VarId, sym: Sym, last: Poly) {
        if let Some(fact) = last.minus(&Poly::sym(sym)) {
            self.cx.assume_nonneg(fact);
        }
        let value = Poly::sym(sym);
        self.vars[var] = Value::Int(value.clone());
        self.ranged.push(Ranged { sym, lo: Poly::constant(0), hi: last, var, value });
    }
}
