//! Where a constant is demanded.

use super::Parser;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{ExprId, ExprKind, SpanId};

impl Parser {
    /// Demands that an expression is a constant.
    pub(super) fn constant(&mut self, value: ExprId, what: &str, help: &str) -> Option<ExprId> {
        if self.facts(value).constant {
            return Some(value);
        }
        let span = self.kernel.exprs[value].span;
        let mut diagnostic = Diagnostic::new(Code::NOT_CONSTANT, span, format!("{what} is not a constant"));
        if let Some((name, declared, why)) = self.not_constant(value) {
            diagnostic = diagnostic.label(declared, format!("`{name}` {why}"));
        }
        self.error(diagnostic.help(help));
        None
    }

    /// The first thing in an expression that is not a constant.
    fn not_constant(&self, value: ExprId) -> Option<(String, SpanId, &'static str)> {
        let facts = self.facts(value);
        if facts.constant {
            return None;
        }
        match &self.kernel.exprs[value].kind {
            ExprKind::Dim(dim) => {
                let dim = &self.kernel.dims[*dim];
                Some((dim.name.clone(), dim.span, "is a dim, known at the launch only"))
            }
            ExprKind::Scalar(param) => {
                let param = &self.kernel.params[*param];
                Some((param.name.clone(), param.span, "is a parameter, known at the launch only"))
            }
            ExprKind::Var(var) => {
                let declared = &self.kernel.vars[*var];
                let why = if facts.varies { "is a variable" } else { "is known while the kernel runs only" };
                Some((declared.name.clone(), declared.span, why))
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.not_constant(*a),
            ExprKind::Binary(_, a, b) => self.not_constant(*a).or_else(|| self.not_constant(*b)),
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
                self.not_constant(*a).or_else(|| self.not_constant(*b)).or_else(|| self.not_constant(*c))
            }
            ExprKind::Math(_, operands) => operands.iter().find_map(|&a| self.not_constant(a)),
            _ => None,
        }
    }
}
