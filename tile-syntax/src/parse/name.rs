//! Names and literals: the leaves of expressions.

use super::range::Range;
use super::types::{Integer, Slot, Ty};
use super::{Binding, Facts, Parser};
use syn::Lit;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    ConstKind, Dtype, DtypeClass, DtypeRef, ExprId, ExprKind, FloatFormat, LARGEST_LITERAL, ParamKind, SpecialValue,
    Type,
};

impl Parser {
    pub(super) fn literal(&mut self, literal: &syn::ExprLit) -> Option<ExprId> {
        let span = self.mark(literal.lit.span());
        let (suffix, is_float) = match &literal.lit {
            Lit::Int(int) => (int.suffix(), matches!(int.suffix(), "f32" | "f64")),
            Lit::Float(float) => (float.suffix(), true),
            Lit::Bool(bool) => return Some(self.push(ExprKind::Bool(bool.value), Type::BOOL, Facts::CONSTANT, span)),
            _ => {
                let message = "text and characters are not values of a kernel";
                self.syntax(literal.lit.span(), message, "text stands in `device_print` and `device_assert` only");
                return None;
            }
        };
        let ty = match (suffix, is_float) {
            ("", true) => self.fresh(Slot::Float),
            ("", false) => self.fresh(Slot::Int(Integer::Any)),
            ("usize", false) => Ty::Is(Type::Index),
            ("f32", true) => Ty::Is(Type::F32),
            (suffix, _) if Dtype::from_name(suffix).is_some_and(|d| d.is_whole() && !is_float) => {
                Ty::Is(Dtype::from_name(suffix).map_or(Type::Index, Type::from))
            }
            _ => {
                let message = format!("`{suffix}` is not a type of this version of the language");
                let diagnostic = Diagnostic::new(Code::DTYPE, span, message);
                self.unsupported(diagnostic.help("use usize, i32, u32 or f32"));
                return None;
            }
        };
        let kind = match &literal.lit {
            Lit::Int(int) if !is_float => {
                int.base10_parse::<i64>().ok().filter(|value| *value <= LARGEST_LITERAL).map(ExprKind::Int)
            }
            Lit::Int(int) => int.base10_digits().parse::<f32>().ok().map(|v| ExprKind::Float(f64::from(v))),
            // A float literal is an f32; `lit(..)` reads its own.
            Lit::Float(float) => float.base10_digits().parse::<f32>().ok().map(|v| ExprKind::Float(f64::from(v))),
            _ => None,
        };
        let Some(kind) = kind else {
            let diagnostic = Diagnostic::new(Code::SYNTAX, span, "this number is too large");
            self.unsupported(diagnostic.at(format!("the largest is 2^53, {LARGEST_LITERAL}")));
            return None;
        };
        Some(self.push(kind, ty, Facts::CONSTANT, span))
    }

    pub(super) fn path(&mut self, path: &syn::ExprPath) -> Option<ExprId> {
        let range = Range::from(&path.path);
        if let Some(qualified) = &path.qself {
            let range = Range { first: qualified.lt_token.span, last: range.last };
            self.syntax(range, "qualified paths are not in the language", "write `T::ZERO`");
            return None;
        }
        let segments = &path.path.segments;
        if segments.len() == 2 {
            return self.associated(&segments[0].ident.to_string(), &segments[1].ident.to_string(), range);
        }
        let Some(name) = path.path.get_ident().map(ToString::to_string) else {
            let message = "this path has no value in a kernel: what is declared outside is not visible to it";
            let span = self.mark(range);
            let diagnostic = Diagnostic::new(Code::UNKNOWN_NAME, span, message);
            self.unsupported(diagnostic.help("pass it as a const parameter or a scalar parameter"));
            return None;
        };
        let Some(binding) = self.lookup(&name) else {
            self.unknown_name(&name, range);
            return None;
        };
        if matches!(binding, Binding::Poison) {
            return None;
        }
        let span = self.mark(range);
        Some(match binding {
            Binding::Var(var) => self.var(var, span),
            Binding::Dim(dim) => {
                let specialised = self.kernel.specialized().contains(&dim);
                let facts = if specialised { Facts::CONSTANT } else { Facts::LAUNCH };
                self.push(ExprKind::Dim(dim), Type::Index, facts, span)
            }
            Binding::Const(constant) => {
                let ty = match self.kernel.consts[constant].kind {
                    ConstKind::Usize => Type::Index,
                    ConstKind::Bool => Type::BOOL,
                };
                self.push(ExprKind::Const(constant), ty, Facts::CONSTANT, span)
            }
            Binding::Scalar(param) => {
                let ParamKind::Scalar { ty } = self.kernel.params[param].kind else { return None };
                self.push(ExprKind::Scalar(param), ty, Facts::LAUNCH, span)
            }
            Binding::Value(value) => self.again(value, span),
            Binding::Tensor(_) | Binding::Row(_) | Binding::Buffer(_) | Binding::Borrowed(..) => {
                let (kind, index) = if matches!(binding, Binding::Tensor(_) | Binding::Row(_)) {
                    ("tensor", "an element of it, `copy`")
                } else {
                    ("array", "an element of it, `copy`, `fill`, `clear`")
                };
                let message = format!("{kind} `{name}` is not a value");
                self.unsupported(Diagnostic::new(Code::SYNTAX, span, message).help(format!("use {index}")));
                return None;
            }
            Binding::Optional(_) => {
                let message = format!("optional tensor `{name}` is not a value");
                let help = format!("take it out: `if let Some(t) = {name} {{ .. }}`");
                self.unsupported(Diagnostic::new(Code::SYNTAX, span, message).help(help));
                return None;
            }
            Binding::Poison => return None,
        })
    }

    /// A name that nothing in the kernel binds. rustc finds a typing error; it finds nothing wrong with a constant
    /// declared outside, which the kernel cannot see.
    fn unknown_name(&mut self, name: &str, range: Range) {
        let span = self.mark(range);
        if matches!(name, "Sum" | "Max" | "Min") {
            let message = format!("`{name}` is an operator, not a value");
            let help = format!("it is the first argument of a reduction: thread_allreduce({name}, v, tk)");
            return self.unsupported(Diagnostic::new(Code::CALL, span, message).help(help));
        }
        let constant = name.chars().any(char::is_alphabetic) && !name.chars().any(char::is_lowercase);
        let message = format!("`{name}` is no dim, const parameter or variable of `{}`", self.kernel.name);
        let diagnostic = Diagnostic::new(Code::UNKNOWN_NAME, span, message);
        if constant {
            let diagnostic = diagnostic.note("a constant declared outside is not visible to a kernel");
            self.unsupported(diagnostic.help(format!(
                "a `let` of constants is a constant: write `let {name} = 128;`, with its value, at the beginning of the body; where \
                 it is chosen at the launch, declare `const {name}: usize` among the generics"
            )));
            // Said once.
            self.bind(name.to_owned(), Binding::Poison);
        } else {
            self.rustc(diagnostic.help("declare it with `let`"));
        }
    }

    /// `T::ZERO`, `T::BITS`, `f32::INFINITY`, `u32::MAX`.
    fn associated(&mut self, ty: &str, name: &str, range: Range) -> Option<ExprId> {
        let span = self.mark(range);
        let dtype = self.dtype_param(ty).or_else(|| Dtype::from_name(ty).map(DtypeRef::Is));
        let Some(dtype) = dtype else {
            let message =
                format!("`{ty}::{name}` has no value in a kernel: what is declared outside is not visible to it");
            let diagnostic = Diagnostic::new(Code::UNKNOWN_NAME, span, message);
            self.unsupported(diagnostic.help("pass it as a const parameter or a scalar parameter"));
            return None;
        };
        let special = match name {
            "BITS" => return Some(self.push(ExprKind::Bits(dtype), Type::Index, Facts::CONSTANT, span)),
            "ZERO" => SpecialValue::Zero,
            "ONE" => SpecialValue::One,
            "NEG_INFINITY" => SpecialValue::NegInfinity,
            "INFINITY" => SpecialValue::Infinity,
            _ => {
                let class = match dtype {
                    DtypeRef::Is(dtype) => Some(dtype.class()),
                    DtypeRef::Param(_) => None,
                };
                let single = DtypeClass::Float(FloatFormat::Binary32);
                let number = match (class, name) {
                    (Some(DtypeClass::Int(format)), "MAX") => Some(ExprKind::Int(format.range().1)),
                    (Some(DtypeClass::Int(format)), "MIN") => Some(ExprKind::Int(format.range().0)),
                    (Some(class), "MAX") if class == single => Some(ExprKind::Float(f64::from(f32::MAX))),
                    (Some(class), "MIN") if class == single => Some(ExprKind::Float(f64::from(f32::MIN))),
                    (Some(class), "EPSILON") if class == single => Some(ExprKind::Float(f64::from(f32::EPSILON))),
                    (Some(_) | None, _) => None,
                };
                let Some(number) = number else {
                    let diagnostic =
                        Diagnostic::new(Code::SYNTAX, span, format!("`{ty}::{name}` is not in the language"));
                    self.unsupported(diagnostic.help(format!("use {ty}::ZERO, ONE, INFINITY, NEG_INFINITY or BITS")));
                    return None;
                };
                return Some(self.push(number, Type::Value(dtype), Facts::CONSTANT, span));
            }
        };
        let infinite = matches!(special, SpecialValue::NegInfinity | SpecialValue::Infinity);
        if infinite && let Some(stray) = self.dtypes(dtype).into_iter().find(|d| !d.is_float()) {
            let message = format!("`{ty}::{name}` does not exist for {stray}");
            let help = "use a float dtype, or begin with the first element";
            self.unsupported(Diagnostic::new(Code::DTYPE, span, message).help(help));
            return None;
        }
        Some(self.push(ExprKind::Special(dtype, special), Type::Value(dtype), Facts::CONSTANT, span))
    }
}
