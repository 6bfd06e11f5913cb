//! A call of a `#[tile_fn]`: its body, written out in the call's place.
//!
//! Values are computed once, before the body; tensors and arrays are the caller's own. The body sees its parameters, its
//! generics and its dims, and nothing else of its caller.

use super::access::strip;
use super::call::Called;
use super::function::{Definition, Generic, Origin, ParameterKind, TileFunction};
use super::range::Range;
use super::types::{Slot, Ty, peel};
use super::{Binding, Call, Hoist, Parser};
use std::rc::Rc;
use syn::{Expr, ExprCall, GenericArgument, PathArguments, ReturnType};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    BufferId, DtypeRef, ExprId, ExprKind, Extent, ParamId, ParamKind, Place, SpanId, StmtKind, Type, VarKind,
};

/// Expressions that functions which are written out may make in a kernel: more than anyone writes, and few enough to be read
/// between two keystrokes. Functions that call each other twice double from level to level.
const MOST_WRITTEN: usize = 10_000;

/// An argument of a call.
#[derive(Clone, Copy)]
pub(super) enum Argument {
    Value(ExprId),
    Tensor(ParamId),
    /// A row of a tensor: its number in `Parser::rows`.
    Row(u32),
    Optional(ParamId),
    /// An array, and whether it is given by `&mut`.
    Array(BufferId, bool),
}

impl Parser {
    /// A call of a `#[tile_fn]`; none where it is something else.
    pub(super) fn tile_function(&mut self, call: &ExprCall, used: bool, range: Range) -> Option<Called> {
        let Expr::Path(path) = strip(&call.func) else { return None };
        let name = crate::link::name(&path.path);
        if self.lookup(&name).is_some() {
            return None;
        }
        let Some(function) = self.function_named(&name).cloned() else {
            let itself = self.frames.iter().any(|f| f.name() == name);
            if itself {
                let message = format!("`{name}` calls itself: a `#[tile_fn]` is written out where it is called");
                self.syntax(&path.path, message, "write a loop");
            }
            return itself.then_some(Called::Poison);
        };
        let Some(definition) = function.definition.clone() else {
            // Reported where it is defined.
            let at = self.mark(range);
            self.deferred.push(Diagnostic::new(Code::SYNTAX, at, format!("`{name}` has mistakes")));
            return Some(Called::Poison);
        };
        Some(self.call_of(&definition, path, call, used, range).unwrap_or(Called::Poison))
    }

    /// Whether this is a call of a `#[tile_fn]` that is more than an expression.
    pub(super) fn has_statements(&self, call: &ExprCall) -> bool {
        let Expr::Path(path) = strip(&call.func) else { return false };
        let called = self.function_named(&crate::link::name(&path.path));
        called.and_then(|f| f.definition.as_ref()).is_some_and(|definition| !definition.is_expression())
    }

    /// The `#[tile_fn]` that a path means here, where a variable does not stand before it.
    fn function_named(&self, path: &str) -> Option<&Rc<TileFunction>> {
        self.functions.iter().find(|f| f.path == path).filter(|_| self.lookup(path).is_none())
    }

    fn call_of(
        &mut self,
        definition: &Rc<Definition>,
        path: &syn::ExprPath,
        call: &ExprCall,
        used: bool,
        range: Range,
    ) -> Option<Called> {
        let name = definition.name();
        let at = self.mark(range);
        if call.args.len() != definition.params.len() {
            let message = format!("`{name}` takes {} arguments, {} given", definition.params.len(), call.args.len());
            self.rustc(Diagnostic::new(Code::CALL, at, message));
            return None;
        }
        let arguments = self.call_arguments(definition, call);
        let generics = self.call_generics(definition, path);
        let (arguments, (mut dtypes, consts)) = (arguments?, generics?);
        self.infer_dtypes(definition, &arguments, &mut dtypes, at)?;
        if used && matches!(definition.item.sig.output, ReturnType::Default) {
            self.rustc(Diagnostic::new(Code::TYPE, at, format!("`{name}` returns nothing")));
            return None;
        }
        if !definition.is_expression() && !self.may_hoist(range, &format!("`{name}(..)`, a function with statements,"))
        {
            return None;
        }
        if self.written > MOST_WRITTEN {
            return None;
        }
        // A dependency's own calls are no lines of the author's.
        let foreign = definition.origin == Origin::AnotherPackage;
        let call = match self.call {
            Some(call) if call.foreign => call,
            _ => Call { at, foreign },
        };
        let outer = self.call.replace(call);
        let called = self.write_out(definition, arguments, dtypes, consts, at);
        self.call = outer;
        if self.written > MOST_WRITTEN
            && self.call.is_none()
            && !self.diagnostics.iter().any(|d| d.code == Code::WRITTEN_SIZE)
        {
            let message =
                format!("`{name}`, written out with all that it calls, is more than {MOST_WRITTEN} expressions");
            let diagnostic = Diagnostic::new(Code::WRITTEN_SIZE, at, message)
                .at("a `#[tile_fn]` is written out wherever it is called");
            self.error(diagnostic.help("compute what is called twice once, with `let`, or repeat it in a loop"));
        }
        Some(called)
    }

    fn call_arguments(&mut self, definition: &Definition, call: &ExprCall) -> Option<Vec<Argument>> {
        let mut values: Vec<Option<ExprId>> = vec![None; call.args.len()];
        let mut places: Vec<Option<Argument>> = vec![None; call.args.len()];
        for (index, (expr, param)) in call.args.iter().zip(&definition.params).enumerate() {
            match &param.kind {
                ParameterKind::Scalar(_) => {
                    let from = self.block.len();
                    let value = self.expr(expr);
                    self.spill(&mut values, from);
                    values[index] = value;
                }
                ParameterKind::Tensor { optional, .. } => places[index] = self.tensor_argument(expr, *optional),
                ParameterKind::Array { scope, .. } => {
                    let mutable = self.borrowed(expr).is_some_and(|(_, mutable)| mutable);
                    let place = self.borrowed(expr).map(|(array, _)| array);
                    let place = place.and_then(|array| self.place(array, &format!("`{}`", definition.name())));
                    places[index] = match place {
                        Some(Place::Buffer(buffer)) if self.kernel.buffers[buffer].scope == *scope => {
                            Some(Argument::Array(buffer, mutable))
                        }
                        _ => {
                            self.other_type(expr);
                            None
                        }
                    };
                }
            }
        }
        let all = values.into_iter().zip(places).map(|(value, place)| value.map(Argument::Value).or(place));
        all.collect()
    }

    fn tensor_argument(&mut self, expr: &Expr, optional: bool) -> Option<Argument> {
        let inner = match strip(expr) {
            Expr::Reference(reference) => &reference.expr,
            other => other,
        };
        if let (Expr::MethodCall(call), false) = (strip(inner), optional) {
            return self.row_argument(call).map(Argument::Row);
        }
        let name = match strip(inner) {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        };
        match (name.and_then(|name| self.lookup(&name)), optional) {
            (Some(Binding::Tensor(param)), false) => Some(Argument::Tensor(param)),
            (Some(Binding::Row(row)), false) => Some(Argument::Row(row)),
            (Some(Binding::Optional(param)), true) => Some(Argument::Optional(param)),
            (Some(Binding::Poison), _) => None,
            (_, true) => {
                let help = "pass the optional parameter itself; `if let Some(t) = ..` stands in the function";
                self.syntax(expr, "this is no optional tensor of the kernel", help);
                None
            }
            (_, false) => {
                self.other_type(expr);
                None
            }
        }
    }

    /// `x.row(i)`, `y.row_mut(i)`, of a tensor or of a row of one: its number.
    fn row_argument(&mut self, call: &syn::ExprMethodCall) -> Option<u32> {
        if call.method != "row" && call.method != "row_mut" {
            let help = "a tensor is given as it is, or a row of it: `x.row(i)`, `y.row_mut(i)`";
            self.syntax(call.method.span(), format!("`.{}(..)` is no argument for a tensor", call.method), help);
            return None;
        }
        let index = match call.args.first() {
            Some(index) if call.args.len() == 1 => index,
            _ => {
                let at = self.mark(call.paren_token.span);
                self.rustc(Diagnostic::new(Code::CALL, at, format!("`.{}` takes an index", call.method)));
                return None;
            }
        };
        let of = match strip(&call.receiver) {
            Expr::MethodCall(outer) => self.row_argument(outer).and_then(|row| self.rows.get(row as usize).cloned()),
            receiver => match self.place(receiver, &format!("`.{}(..)`", call.method))? {
                Place::Tensor(param) => Some((param, self.leading(receiver))),
                Place::Buffer(_) => {
                    self.syntax(
                        receiver,
                        "a row of an array is no argument",
                        "give the array, and the index beside it",
                    );
                    None
                }
            },
        };
        let (value, (param, mut indices)) = (self.expr(index)?, of?);
        let value = self.demand(value, Type::Index)?;
        let span = self.mark(index);
        let index = match self.value_binding("row", value) {
            Binding::Var(var) => self.var(var, span),
            _ => value,
        };
        indices.push(index);
        self.rows.push((param, indices));
        Some((self.rows.len() - 1) as u32)
    }

    /// The tensor of a row, and how many of its axes have an index.
    fn row(&self, row: u32) -> Option<(ParamId, usize)> {
        self.rows.get(row as usize).map(|(param, indices)| (*param, indices.len()))
    }

    /// An argument of another type than its parameter: rustc's to report.
    fn other_type(&mut self, expr: &Expr) {
        let at = self.mark(expr);
        self.rustc(Diagnostic::new(Code::TYPE, at, "mismatched types"));
    }

    /// What `f::<f16, 8>(..)` gives.
    #[allow(clippy::type_complexity)]
    fn call_generics(
        &mut self,
        definition: &Definition,
        path: &syn::ExprPath,
    ) -> Option<(Vec<(String, DtypeRef)>, Vec<(String, ExprId)>)> {
        let (mut dtypes, mut consts) = (vec![], vec![]);
        let arguments = match path.path.segments.last().map(|s| &s.arguments) {
            Some(PathArguments::AngleBracketed(arguments)) => arguments.args.iter().collect(),
            _ => vec![],
        };
        if !arguments.is_empty() && arguments.len() != definition.generics.len() {
            let at = self.mark(&path.path);
            let message = format!("{} generic arguments for {}", arguments.len(), definition.generics.len());
            self.rustc(Diagnostic::new(Code::CALL, at, message));
            return None;
        }
        for (generic, argument) in definition.generics.iter().zip(&arguments) {
            match (generic, argument) {
                (_, GenericArgument::Type(syn::Type::Infer(_))) => {}
                (Generic::Type { name, .. }, GenericArgument::Type(ty)) => {
                    dtypes.push((name.clone(), self.dtype_type(ty)?));
                }
                (Generic::Const { name }, argument) => {
                    let expr = match argument {
                        GenericArgument::Const(expr) => expr.clone(),
                        GenericArgument::Type(syn::Type::Path(path)) if path.qself.is_none() => {
                            Expr::Path(syn::ExprPath { attrs: vec![], qself: None, path: path.path.clone() })
                        }
                        _ => return None,
                    };
                    let value = self.in_place("a generic argument", |p| p.expr(&expr))?;
                    let help = "use literals, const parameters and `T::BITS`";
                    consts.push((name.clone(), self.constant(value, &format!("`{name}`"), help)?));
                }
                _ => return None,
            }
        }
        for generic in &definition.generics {
            if let Generic::Const { name } = generic
                && !consts.iter().any(|(known, _)| known == name)
            {
                let at = self.mark(&path.path);
                self.rustc(Diagnostic::new(Code::CALL, at, format!("`{name}` is not given")));
                return None;
            }
        }
        Some((dtypes, consts))
    }

    /// What the dtype parameters stand for that are not given: the dtypes of the arguments.
    fn infer_dtypes(
        &mut self,
        definition: &Definition,
        arguments: &[Argument],
        dtypes: &mut Vec<(String, DtypeRef)>,
        at: SpanId,
    ) -> Option<()> {
        for generic in &definition.generics {
            let Generic::Type { name, allowed } = generic else { continue };
            let is_it = |ty: &syn::Type| matches!(peel(ty), syn::Type::Path(path) if path.path.is_ident(name));
            let mut found = dtypes.iter().find(|(known, _)| known == name).map(|(_, dtype)| *dtype);
            // Memory has a dtype; a literal takes one.
            for values in [false, true] {
                for (param, argument) in definition.params.iter().zip(arguments) {
                    let dtype = match (&param.kind, argument) {
                        (ParameterKind::Tensor { element, .. }, Argument::Tensor(p) | Argument::Optional(p)) => {
                            is_it(element).then(|| self.kernel.place_dtype(Place::Tensor(*p)))
                        }
                        (ParameterKind::Tensor { element, .. }, Argument::Row(row)) => {
                            let of = self.row(*row).filter(|_| is_it(element));
                            of.map(|(param, _)| self.kernel.place_dtype(Place::Tensor(param)))
                        }
                        (ParameterKind::Array { element, .. }, Argument::Array(buffer, _)) => {
                            is_it(element).then(|| self.kernel.buffers[*buffer].dtype)
                        }
                        (ParameterKind::Scalar(ty), Argument::Value(value)) if values && is_it(ty) => {
                            match self.resolve(self.ty(*value)) {
                                Ty::Is(Type::Value(dtype)) => Some(dtype),
                                Ty::Slot(slot) if self.slots[slot as usize] == Slot::Float => {
                                    Some(DtypeRef::Is(tile_ir::ir::Dtype::F32))
                                }
                                _ => None,
                            }
                        }
                        _ => None,
                    };
                    found = found.or(dtype);
                }
            }
            let Some(dtype) = found else {
                self.rustc(Diagnostic::new(Code::TYPE, at, format!("type annotations needed for `{name}`")));
                return None;
            };
            if let Some(stray) = self.dtypes(dtype).into_iter().find(|d| !allowed.contains(d)) {
                let function = definition.name();
                let message = format!("`{function}` is not defined for {stray}: its `{name}` is {}", listed(allowed));
                let diagnostic = Diagnostic::new(Code::DTYPE, at, message);
                self.error(diagnostic.help("convert the arguments first: `.cast::<f32>()`"));
                return None;
            }
            if !dtypes.iter().any(|(known, _)| known == name) {
                dtypes.push((name.clone(), dtype));
            }
        }
        Some(())
    }

    /// The body with its parameters bound.
    pub(super) fn write_out(
        &mut self,
        definition: &Rc<Definition>,
        arguments: Vec<Argument>,
        dtypes: Vec<(String, DtypeRef)>,
        consts: Vec<(String, ExprId)>,
        at: SpanId,
    ) -> Called {
        let text = self.text_of(definition);
        let uses = definition.uses();
        let names = std::mem::replace(&mut self.dtype_names, dtypes);
        let scope = std::mem::take(&mut self.scope);
        let functions = std::mem::replace(&mut self.functions, uses);
        let text = std::mem::replace(&mut self.text, text);
        self.frames.push(definition.clone());
        self.nesting.push("a `#[tile_fn]`");
        for (name, value) in consts {
            self.bind(name, Binding::Value(value));
        }
        let bound = self.bind_arguments(definition, &arguments, at);
        let called = match bound {
            Some(()) => self.function_body(definition),
            None => Called::Poison,
        };
        self.nesting.pop();
        self.frames.pop();
        self.text = text;
        self.functions = functions;
        self.scope = scope;
        self.dtype_names = names;
        called
    }

    fn function_body(&mut self, definition: &Definition) -> Called {
        let block = &definition.item.block;
        let output = match &definition.item.sig.output {
            ReturnType::Type(_, ty) if !matches!(&**ty, syn::Type::Tuple(unit) if unit.elems.is_empty()) => ty,
            _ => {
                self.block_statements(block);
                return Called::Done;
            }
        };
        let Some(ty) = self.scalar_type(output) else { return Called::Poison };
        let value = match block.stmts.as_slice() {
            [syn::Stmt::Expr(value, None)] => self.expr(value),
            _ => self.statements_then_value(block),
        };
        value.and_then(|value| self.demand(value, ty)).into()
    }

    /// Binds parameters and dims; checks what rustc cannot.
    fn bind_arguments(&mut self, definition: &Definition, arguments: &[Argument], at: SpanId) -> Option<()> {
        let mut sound = true;
        for (param, argument) in definition.params.iter().zip(arguments) {
            let (element, dims) = match (&param.kind, argument) {
                (ParameterKind::Scalar(ty), Argument::Value(value)) => {
                    let ty = self.scalar_type(ty)?;
                    let value = self.demand(*value, ty)?;
                    let binding = self.value_binding(&param.name, value);
                    self.bind(param.name.clone(), binding);
                    continue;
                }
                (ParameterKind::Tensor { element, dims, .. } | ParameterKind::Array { element, dims, .. }, _) => {
                    (element, dims)
                }
                _ => return None,
            };
            let (place, leading, binding) = match *argument {
                Argument::Tensor(tensor) => (Place::Tensor(tensor), 0, Binding::Tensor(tensor)),
                Argument::Row(row) => {
                    let (tensor, leading) = self.row(row)?;
                    (Place::Tensor(tensor), leading, Binding::Row(row))
                }
                Argument::Optional(tensor) => (Place::Tensor(tensor), 0, Binding::Optional(tensor)),
                Argument::Array(array, mutable) => (Place::Buffer(array), 0, Binding::Borrowed(array, mutable)),
                Argument::Value(_) => return None,
            };
            let (wanted, found) = (self.dtype_type(element)?, self.kernel.place_dtype(place));
            if wanted != found {
                let message = format!("mismatched types: `{}`, `{}`", self.dtype_name(wanted), self.dtype_name(found));
                self.rustc(Diagnostic::new(Code::TYPE, at, message));
                return None;
            }
            let actual: Vec<ExprId> = self.place_extents(place, at).into_iter().skip(leading).collect();
            if actual.len() != dims.len() {
                let what = self.kernel.place_name(place).to_owned();
                let message = format!(
                    "`{}` of `{}` has {} dims, `{what}` has {}",
                    param.name,
                    definition.name(),
                    dims.len(),
                    actual.len()
                );
                match place {
                    // The rank of a tensor is part of its type.
                    Place::Tensor(_) => self.rustc(Diagnostic::new(Code::SHAPE, at, message)),
                    Place::Buffer(_) => self.error(Diagnostic::new(Code::SHAPE, at, message)),
                }
                return None;
            }
            for (dim, actual) in dims.iter().zip(actual) {
                sound &= self.bind_dim(definition, &param.name, dim, actual, at).is_some();
            }
            self.bind(param.name.clone(), binding);
        }
        sound.then_some(())
    }

    /// A value parameter: the argument itself where naming it costs nothing, else a variable.
    fn value_binding(&mut self, name: &str, value: ExprId) -> Binding {
        if self.is_leaf(value) || matches!(self.hoist, Hoist::Forbidden(_)) {
            return Binding::Value(value);
        }
        let span = self.kernel.exprs[value].span;
        let facts = super::Facts { loads: false, varies: false, ..self.facts(value) };
        let var = self.variable(name, self.ty(value), VarKind::Let, facts, span);
        if self.facts(value).launch {
            self.vars[var.as_u32() as usize].value = Some(value);
        }
        self.emit(StmtKind::Let { var, value: Some(value) }, span);
        Binding::Var(var)
    }

    fn is_leaf(&self, value: ExprId) -> bool {
        !self.facts(value).varies
            && matches!(
                self.kernel.exprs[value].kind,
                ExprKind::Int(_)
                    | ExprKind::Float(_)
                    | ExprKind::Bool(_)
                    | ExprKind::Const(_)
                    | ExprKind::Dim(_)
                    | ExprKind::Scalar(_)
                    | ExprKind::Bits(_)
                    | ExprKind::Special(..)
                    | ExprKind::Var(_)
            )
    }

    /// A value once more, at another place.
    pub(super) fn again(&mut self, value: ExprId, span: SpanId) -> ExprId {
        if !self.is_leaf(value) {
            return value;
        }
        self.push(self.kernel.exprs[value].kind.clone(), self.ty(value), self.facts(value), span)
    }

    /// The extents of what is passed.
    fn place_extents(&mut self, place: Place, at: SpanId) -> Vec<ExprId> {
        match place {
            Place::Buffer(buffer) => self.kernel.buffers[buffer].extents.clone(),
            Place::Tensor(param) => {
                let ParamKind::Tensor { shape, .. } = &self.kernel.params[param].kind else { return vec![] };
                let shape = shape.clone();
                shape.into_iter().map(|extent| self.extent_value(extent, at)).collect()
            }
        }
    }

    /// A tensor's extent as a value.
    pub(super) fn extent_value(&mut self, extent: Extent, at: SpanId) -> ExprId {
        match extent {
            Extent::Fixed(value) => value,
            Extent::Dim(dim) => {
                let specialised = self.kernel.specialized().contains(&dim);
                let facts = if specialised { super::Facts::CONSTANT } else { super::Facts::LAUNCH };
                self.push(ExprKind::Dim(dim), Type::Index, facts, at)
            }
        }
    }

    /// Binds a dim's name, or compares it with what it is bound to.
    fn bind_dim(
        &mut self,
        definition: &Definition,
        param: &str,
        dim: &syn::Type,
        actual: ExprId,
        at: SpanId,
    ) -> Option<()> {
        let name = match peel(dim) {
            syn::Type::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        };
        let (wanted, text) = match name.as_ref().map(|name| (name, self.lookup(name))) {
            Some((name, None)) => {
                self.bind(name.clone(), Binding::Value(actual));
                return Some(());
            }
            Some((name, Some(Binding::Value(value)))) => (value, name.clone()),
            _ => {
                let extent = self.extent(dim)?;
                (self.extent_value(extent, at), "the constant".to_owned())
            }
        };
        if self.same_expr(wanted, actual) {
            return Some(());
        }
        let function = definition.name();
        let known = |p: &Self, expr| p.kernel.const_index(expr).map(|value| format!(" = {value}")).unwrap_or_default();
        let message = format!(
            "`{text}`{} of `{function}` is not the extent{} of what is passed for `{param}`",
            known(self, wanted),
            known(self, actual)
        );
        let diagnostic = Diagnostic::new(Code::SHAPE, at, message);
        self.error(diagnostic.help("extents that a function gives one name must be written alike"));
        None
    }
}

fn listed(allowed: &[tile_ir::ir::Dtype]) -> String {
    let names: Vec<&str> = allowed.iter().map(|d| d.name()).collect();
    names.join(", ")
}
