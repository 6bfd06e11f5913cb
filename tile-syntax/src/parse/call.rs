//! Calls: the elementwise functions, and the way to all others.

use super::range::{Range, generic_types};
use super::tile::CopyOptions;
use super::types::{Class, Slot, Ty};
use super::{Binding, Facts, Parser};
use syn::{Expr, ExprCall, ExprMethodCall, Lit, PathArguments, UnOp};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{BinaryOp, Dtype, DtypeRef, ExprId, ExprKind, MathFn, MathOperands, SpanId, Type};

/// A function as written.
pub(super) struct Function<'a> {
    /// Its name; `fast::` forms with their module.
    pub(super) name: String,
    pub(super) arguments: &'a PathArguments,
    pub(super) range: Range,
}

/// What a call gives.
pub(super) enum Called {
    Value(ExprId),
    /// A statement without a value.
    Done,
    /// Already reported.
    Poison,
}

impl From<Option<ExprId>> for Called {
    fn from(value: Option<ExprId>) -> Self {
        value.map_or(Called::Poison, Called::Value)
    }
}

/// The function a call names: `f`, `fast::f`, or either below `dsl`. None for anything else.
pub(super) fn function_name(expr: &Expr) -> Option<Function<'_>> {
    let Expr::Path(path) = super::access::strip(expr) else { return None };
    if path.qself.is_some() {
        return None;
    }
    let range = Range::from(&path.path);
    let mut segments = path.path.segments.iter().rev();
    let last = segments.next()?;
    let mut name = last.ident.to_string();
    let mut module = segments.next();
    if let Some(segment) = module.filter(|segment| segment.ident == "fast") {
        name = format!("{}::{name}", segment.ident);
        module = segments.next();
    }
    if module.is_some_and(|segment| segment.ident != "dsl") {
        return None;
    }
    Some(Function { name, arguments: &last.arguments, range })
}

/// Functions without a value, beside those of [`super::tile`].
const STATEMENTS: [&str; 6] = ["gemm", "reduce", "sync_threads", "sync_warp", "device_print", "device_assert"];

impl Parser {
    /// A call as a value.
    pub(super) fn call_value(&mut self, call: &ExprCall) -> Option<ExprId> {
        let range = Range { first: Range::from(&*call.func).first, last: call.paren_token.span.close() };
        match self.call(call, true, range) {
            Called::Value(value) => Some(value),
            Called::Done | Called::Poison => None,
        }
    }

    /// Any call. `used`: its value is wanted; `range`: the statement, or the call.
    pub(super) fn call(&mut self, call: &ExprCall, used: bool, range: Range) -> Called {
        if let Some(called) = self.tile_function(call, used, range) {
            return called;
        }
        let Some(function) = function_name(&call.func) else {
            return self.converting(call).unwrap_or_else(|| {
                self.unknown_function(call);
                Called::Poison
            });
        };
        let name = function.name.as_str();
        // A variable is no function: rustc reports a call of one.
        match self.lookup(name) {
            Some(Binding::Poison) => return Called::Poison,
            Some(_) => {
                let at = self.mark(function.range);
                self.rustc(Diagnostic::new(Code::TYPE, at, format!("`{name}` is not a function")));
                return Called::Poison;
            }
            None => {}
        }
        let of_tiles = super::tile::arity(name).is_some();
        if used && (of_tiles || STATEMENTS.contains(&name)) {
            let at = self.mark(range);
            let message = format!("`{name}(..)` gives no value");
            self.unsupported(Diagnostic::new(Code::PLACEMENT, at, message).help("make it a statement of its own"));
            return Called::Poison;
        }
        match name {
            _ if of_tiles => {
                self.tile_operation(name, call, Some(CopyOptions::default()), range);
                Called::Done
            }
            "gemm" => {
                self.gemm(call, &[], range);
                Called::Done
            }
            "reduce" => self.reduce_tile(&function, call, range),
            "cluster" | "use_swizzle" => {
                let at = self.mark(range);
                let message = format!("`{name}(..)` gives no value");
                self.unsupported(Diagnostic::new(Code::PLACEMENT, at, message).help("make it a statement of its own"));
                Called::Poison
            }
            "blocks" | "threads" | "alloc_shared" | "alloc_local" | "alloc_fragment" => {
                let at = self.mark(range);
                let help = match name {
                    "blocks" => "let [bx] = blocks([ceil_div(N, 128)]);",
                    "threads" => "let [tx] = threads([128]);",
                    "alloc_shared" => "let mut s = alloc_shared::<f32>([128]);",
                    "alloc_fragment" => "let mut acc = alloc_fragment::<f32>([128, 128]);",
                    _ => "let mut a = alloc_local::<f32>([8]);",
                };
                let diagnostic =
                    Diagnostic::new(Code::PLACEMENT, at, format!("`{name}(..)` stands where nothing is bound"));
                self.unsupported(diagnostic.help(format!("write `{help}`")));
                Called::Poison
            }
            "serial" | "unroll" | "vectorized" | "pipelined" | "parallel" | "persistent" => {
                let message = format!("`{name}(..)` is the range of a loop, not a value");
                self.syntax(range, message, &format!("for i in {name}(0..n) {{ .. }}"));
                Called::Poison
            }
            _ => match self.elementwise(&function, call, range) {
                Some(called) => called,
                None => self.effect(&function, call, used, range),
            },
        }
    }

    /// The pure functions; none if it is another.
    fn elementwise(&mut self, function: &Function<'_>, call: &ExprCall, range: Range) -> Option<Called> {
        let math = MathFn::ALL.into_iter().find(|f| f.name() == function.name);
        if function.name == "is_nan" {
            return Some(self.is_nan(function, call, range).into());
        }
        let arity = match function.name.as_str() {
            "min" | "max" | "ceil_div" => 2,
            "select" => 3,
            "lit" => 1,
            _ => math?.arity(),
        };
        if !self.arity(function, call, arity) {
            return Some(Called::Poison);
        }
        if function.name == "lit" {
            return Some(self.lit(call, function).into());
        }
        let operands: Vec<&Expr> = call.args.iter().collect();
        let Some(operands) = self.operands(&operands) else { return Some(Called::Poison) };
        let span = self.mark(range);
        let value = match (function.name.as_str(), operands.as_slice()) {
            ("min", &[a, b]) => self.combine_values(BinaryOp::Min, a, b, span),
            ("max", &[a, b]) => self.combine_values(BinaryOp::Max, a, b, span),
            ("ceil_div", &[a, b]) => {
                self.demand(a, Type::Index).and_then(|a| self.combine_values(BinaryOp::CeilDiv, a, b, span))
            }
            ("select", &[cond, a, b]) => self.select(cond, a, b, span),
            _ => math.and_then(|math| self.math(math, operands, span)),
        };
        Some(value.into())
    }

    /// Whether a call has as many arguments as its function takes: rustc reports where it has not.
    pub(super) fn arity(&mut self, function: &Function<'_>, call: &ExprCall, arity: usize) -> bool {
        if call.args.len() == arity {
            return true;
        }
        let at = self.mark(call.paren_token.span);
        let message = format!("`{}` takes {arity} arguments, {} given", function.name, call.args.len());
        self.rustc(Diagnostic::new(Code::CALL, at, message));
        false
    }

    fn select(&mut self, cond: ExprId, a: ExprId, b: ExprId, span: SpanId) -> Option<ExprId> {
        self.demand(cond, Type::BOOL)?;
        self.demand(b, self.ty(a))?;
        let facts = self.facts(cond).and(self.facts(a)).and(self.facts(b));
        Some(self.push(ExprKind::Select(cond, a, b), self.ty(a), facts, span))
    }

    fn math(&mut self, math: MathFn, operands: Vec<ExprId>, span: SpanId) -> Option<ExprId> {
        let (&first, rest) = operands.split_first()?;
        let ty = self.ty(first);
        if math.operands() == MathOperands::Integers {
            self.exchanged(ty);
        }
        for &operand in rest {
            self.demand(operand, ty)?;
        }
        let class = self.class(ty);
        self.computed(class, ty, math.name(), span)?;
        let fits = match math.operands() {
            MathOperands::Floats => matches!(class, Class::Float | Class::Unknown),
            MathOperands::Numbers => matches!(class, Class::Float | Class::Unknown | Class::Int),
            MathOperands::Integers => matches!(class, Class::Int | Class::Unknown),
            MathOperands::F32 => {
                self.demand(first, Type::F32)?;
                true
            }
        };
        if !fits {
            let message = format!("`{}` is not defined for {}", math.name(), self.ty_name(ty));
            self.rustc(Diagnostic::new(Code::DTYPE, span, message));
            return None;
        }
        let facts = operands.iter().fold(Facts::CONSTANT, |all, &operand| all.and(self.facts(operand)));
        // Computed on the device: never a constant, never part of a launch check.
        let facts = Facts { constant: false, launch: false, ..facts };
        let ty = if math == MathFn::ToBits { Ty::Is(Type::Value(DtypeRef::Is(Dtype::U32))) } else { ty };
        Some(self.push(ExprKind::Math(math, operands), ty, facts, span))
    }

    /// `is_nan(x)`: a NaN is the only value that is not equal to itself.
    fn is_nan(&mut self, function: &Function<'_>, call: &ExprCall, range: Range) -> Option<ExprId> {
        if !self.arity(function, call, 1) {
            return None;
        }
        let operand = self.expr(&call.args[0])?;
        let (ty, span) = (self.ty(operand), self.mark(range));
        if !matches!(self.class(ty), Class::Float | Class::Unknown) {
            let message = format!("`is_nan` is not defined for {}", self.ty_name(ty));
            self.rustc(Diagnostic::new(Code::DTYPE, span, message));
            return None;
        }
        let facts = Facts { constant: false, launch: false, ..self.facts(operand) };
        Some(self.push(ExprKind::Binary(BinaryOp::Ne, operand, operand), Type::BOOL, facts, span))
    }

    /// `lit(2.0)`: a literal of any number type.
    fn lit(&mut self, call: &ExprCall, function: &Function<'_>) -> Option<ExprId> {
        let (negative, literal) = match super::access::strip(&call.args[0]) {
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => (true, super::access::strip(&unary.expr)),
            literal => (false, literal),
        };
        let value = match literal {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Float(float) => float.base10_parse::<f64>().ok(),
                Lit::Int(int) => {
                    let at = self.mark(literal.lit.span());
                    let diagnostic = Diagnostic::new(Code::TYPE, at, "`lit` takes a float literal");
                    self.rustc(diagnostic.help(format!("write `{}.0`", int.base10_digits())));
                    return None;
                }
                _ => None,
            },
            _ => None,
        };
        let span = self.mark(Range { first: function.range.first, last: call.paren_token.span.close() });
        let Some(value) = value else {
            let diagnostic = Diagnostic::new(Code::NOT_CONSTANT, span, "`lit` takes a float literal");
            self.unsupported(diagnostic.help("a value is converted by `v.cast::<T>()`"));
            return None;
        };
        let ty = match generic_types(function.arguments).first() {
            Some(ty) => Ty::Is(Type::Value(self.dtype_type(ty)?)),
            None => self.fresh(Slot::Lit),
        };
        Some(self.push(ExprKind::Float(if negative { -value } else { value }), ty, Facts::CONSTANT, span))
    }

    /// A method call as a value.
    pub(super) fn method_value(&mut self, call: &ExprMethodCall) -> Option<ExprId> {
        let name = call.method.to_string();
        match name.as_str() {
            "masked" => {
                let access = self.masked(call)?;
                Some(self.load(access))
            }
            "masked_mut" => {
                let range = Range { first: Range::from(&*call.receiver).first, last: call.paren_token.span.close() };
                let help = "a masked store is `*y.masked_mut([i]) = v;`, a masked load `x.masked([i])`";
                self.syntax(range, "a masked place is not a value", help);
                None
            }
            "cast" => self.cast(call),
            "to_f32" if call.args.is_empty() => self.method_to_f32(call),
            _ => {
                self.outside_method(call, &name);
                None
            }
        }
    }

    /// `x.cast::<U>()`.
    fn cast(&mut self, call: &ExprMethodCall) -> Option<ExprId> {
        let value = self.expr(&call.receiver);
        let range = Range { first: Range::from(&*call.receiver).first, last: call.paren_token.span.close() };
        let to = match &call.turbofish {
            Some(arguments) if arguments.args.len() == 1 => match arguments.args.first() {
                Some(syn::GenericArgument::Type(ty)) => ty,
                _ => return None,
            },
            _ => {
                let at = self.mark(call.method.span());
                let diagnostic = Diagnostic::new(Code::CALL, at, "`cast` needs the type it converts to");
                self.unsupported(diagnostic.help("write `cast::<f32>`"));
                return None;
            }
        };
        let to = self.scalar_type(to);
        if !call.args.is_empty() {
            let at = self.mark(call.paren_token.span);
            self.rustc(Diagnostic::new(Code::CALL, at, "`cast` takes no arguments"));
            return None;
        }
        let (value, to) = (value?, to?);
        let span = self.mark(range);
        if let Ty::Slot(_) = self.resolve(self.ty(value)) {
            // Rust wants to know the type before it looks for a method.
            let diagnostic = Diagnostic::new(Code::TYPE, span, "`cast` of a literal without a type");
            self.rustc(diagnostic.help("write the type: `2.0f32`, or `lit(2.0)`"));
            return None;
        }
        Some(self.push(ExprKind::Cast(to, value), to, self.facts(value), span))
    }

    /// `copy(..).width(n)` as a statement; any other method call is a value.
    pub(super) fn method_stmt(&mut self, call: &ExprMethodCall, range: Range) {
        let (base, methods) = unchained(call);
        let name = if let Expr::Call(call) = base { function_name(&call.func).map(|f| f.name) } else { None };
        match (base, name.as_deref()) {
            (Expr::Call(copy), Some("copy")) => {
                let options = self.copy_options(&methods);
                self.tile_operation("copy", copy, options, range);
            }
            (Expr::Call(gemm), Some("gemm")) => self.gemm(gemm, &methods, range),
            _ => {
                self.method_value(call);
            }
        }
    }
}

/// What methods are called on, and the methods, outermost first.
pub(super) fn unchained(call: &ExprMethodCall) -> (&Expr, Vec<&ExprMethodCall>) {
    let mut methods = vec![call];
    let mut base = super::access::strip(&call.receiver);
    while let Expr::MethodCall(inner) = base {
        methods.push(inner);
        base = super::access::strip(&inner.receiver);
    }
    (base, methods)
}
