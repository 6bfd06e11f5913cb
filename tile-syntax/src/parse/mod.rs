//! Rust tokens to tile IR.
//!
//! [`kernel`] reads the attribute and the item once, front to back: names are resolved and every expression is typed
//! on the way. It never stops at the first mistake. What cannot be read is *poisoned*: an expression that is `None`,
//! a name bound to [`Binding::Poison`]. Poison is silent, so that one mistake gives one diagnostic.
//!
//! A mistake has one reporter. What rustc finds in the shadow function (unknown names, type mismatches, ranks of
//! global tensors, mutability) goes to [`Parsed::deferred`] through [`Parser::rustc`] and is not shown; everything
//! else goes to [`Parsed::diagnostics`] through [`Parser::error`] or, where the shadow would be wrong as well,
//! [`Parser::unsupported`].
//!
//! | module | reads |
//! |---|---|
//! | [`attribute`] | the attribute's items: `instances`, `dtypes`, `require`, ... |
//! | [`instances`] | the value lists of `instances(..)`, evaluated for every dtype combination |
//! | [`tokens`], [`signature`] | the function; generics, parameters, dims |
//! | [`launch`] | `blocks(..)`, `threads(..)`, `alloc_*` |
//! | [`stmt`], [`branch`], [`loops`], [`leave`] | statements; loops that end early |
//! | [`expr`], [`name`], [`access`] | expressions; names and literals; element accesses |
//! | [`call`], [`effect`], [`tile`], [`gemm`] | functions: elementwise; collectives and atomics; `copy`, `fill`, `clear`; `gemm` |
//! | [`arg`] | reductions that tell where the greatest or least value is |
//! | [`types`], [`conversion`], [`constant`] | type inference; numbers of the wrong type; where a constant is demanded |
//! | [`function`], [`inline`] | `#[tile_fn]`s; a call of one, written out in its place |
//! | [`source`], [`range`] | spans and source text |
//! | [`outside`] | what is not in the language, and what to write instead |

mod access;
mod arg;
mod attribute;
mod branch;
mod call;
mod constant;
mod conversion;
mod dependent;
mod effect;
mod expr;
mod function;
mod gemm;
mod inline;
mod instances;
mod launch;
mod leave;
mod loops;
mod name;
mod outside;
mod range;
mod signature;
mod source;
mod stmt;
#[cfg(test)]
mod tests;
mod tile;
mod tokens;
mod types;

pub use function::{Origin, ParsedFunction, TileFunction, function};
pub(crate) use outside::is_function;

use function::Definition;
use proc_macro2::{Span, TokenStream};
use range::Range;
use std::rc::Rc;
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    BufferId, ConstId, DimId, DtypeRef, Expr, ExprId, ExprKind, Kernel, ParamId, SpanId, Stmt, StmtId, StmtKind, Type,
    TypeParamId, Var, VarId, VarKind,
};
use types::{Class, Slot, Ty};

/// What the tokens of one kernel say.
pub struct Parsed {
    /// The kernel. Complete only where `diagnostics` is empty and `body_resolved`.
    pub kernel: Kernel,
    /// The first token of each place, by `SpanId` index.
    pub spans: Vec<Span>,
    /// The last token of each place, by `SpanId` index: with `spans`, what `compile_error!` underlines.
    pub ends: Vec<Span>,
    /// For a place in a `#[tile_fn]` the call that wrote it out, by `SpanId` index.
    pub calls: Vec<Option<Call>>,
    /// The mistakes this crate reports: one each.
    pub diagnostics: Vec<Diagnostic>,
    /// The mistakes that rustc reports when it checks the shadow function. Not shown; where there are any and rustc
    /// accepts the shadow all the same, the two disagree, and the kernel must not run.
    pub deferred: Vec<Diagnostic>,
    /// The function as written; none where the tokens are not one.
    pub item: Option<syn::ItemFn>,
    /// What the expansion needs of the attribute.
    pub attribute: AttributeInfo,
    /// Whether the whole body was understood, so that rustc finds nothing in the shadow that is already reported.
    pub body_resolved: bool,
}

/// A call of a `#[tile_fn]`, for what is wrong in the body it wrote out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The call. Of calls in a dependency's functions the one that led there.
    pub at: SpanId,
    /// Whether the body is a dependency's.
    pub foreign: bool,
}

/// What the expansion needs of the attribute beyond what the kernel holds.
#[derive(Default)]
pub struct AttributeInfo {
    /// `crate = path`: where to find `tile_runtime`.
    pub crate_path: Option<syn::Path>,
    /// The conditions of `require(..)`, as written.
    pub requires: Vec<syn::Expr>,
}

/// Reads one kernel: the tokens inside `#[tile_kernel(..)]`, and the function, with the `#[tile_fn]`s that the attribute
/// names. Takes any tokens.
pub fn kernel(attribute: TokenStream, item: TokenStream, functions: Rc<[Rc<TileFunction>]>) -> Parsed {
    let mut parser = Parser { functions, ..Parser::default() };
    parser.kernel.source = source::source(&[&attribute, &item]);
    let function = parser.function(item);
    let mut entries = parser.attribute(attribute);
    if let Some(function) = &function {
        parser.root = Some(function.sig.fn_token.span);
        parser.signature(function, &entries);
        parser.instances(&entries);
        parser.specialize(&mut entries);
        parser.requires(&mut entries);
        parser.streams(&mut entries);
        parser.partial(&mut entries);
        parser.independent(&mut entries);
        parser.body(function);
    }
    parser.finish(function, entries.info)
}

/// A name's meaning.
#[derive(Clone, Copy, Debug)]
enum Binding {
    Var(VarId),
    Buffer(BufferId),
    Tensor(ParamId),
    /// A row of a tensor of the caller's, for a `#[tile_fn]`: its number in `Parser::rows`.
    Row(u32),
    /// An optional tensor, which `if let Some(t)` makes a tensor of.
    Optional(ParamId),
    Scalar(ParamId),
    Dim(DimId),
    Const(ConstId),
    /// What a `#[tile_fn]`'s parameter stands for: a value of its caller's.
    Value(ExprId),
    /// An array of the caller's that a `#[tile_fn]` takes by reference; whether by `&mut`.
    Borrowed(BufferId, bool),
    /// Bound by something that was already reported.
    Poison,
}

/// What is known about an expression's or a variable's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// Made of literals, const parameters and specialised dims.
    constant: bool,
    /// Made of constants, dims and scalar parameters: known before the launch.
    launch: bool,
    /// Reads memory.
    loads: bool,
    /// Reads a variable that may be assigned.
    varies: bool,
}

impl Facts {
    const CONSTANT: Facts = Facts { constant: true, launch: true, loads: false, varies: false };
    const LAUNCH: Facts = Facts { constant: false, ..Facts::CONSTANT };
    const FIXED: Facts = Facts { launch: false, ..Facts::LAUNCH };
    const VARIES: Facts = Facts { varies: true, ..Facts::FIXED };

    fn and(self, other: Facts) -> Facts {
        Facts {
            constant: self.constant && other.constant,
            launch: self.launch && other.launch,
            loads: self.loads || other.loads,
            varies: self.varies || other.varies,
        }
    }
}

/// Where statements made from an expression (collectives, atomics, blocks) may go.
#[derive(Clone, Copy)]
enum Hoist {
    /// Before the statement being read.
    Allowed,
    /// Nowhere: the expression is not always evaluated, or stands outside a body. Says where it is.
    Forbidden(&'static str),
}

/// What is around a place of its own.
struct Outer {
    names: usize,
    block: Vec<StmtId>,
    hoist: Hoist,
}

/// The state of reading one kernel.
struct Parser {
    kernel: Kernel,
    spans: Vec<Span>,
    ends: Vec<Span>,
    calls: Vec<Option<Call>>,
    diagnostics: Vec<Diagnostic>,
    deferred: Vec<Diagnostic>,
    resolved: bool,
    /// Names, innermost last.
    scope: Vec<(String, Binding)>,
    /// The rows of tensors that `#[tile_fn]`s were given: the tensor, and indices of its first axes.
    rows: Vec<(ParamId, Vec<ExprId>)>,
    /// Statements of the block being read.
    block: Vec<StmtId>,
    /// How many blocks of loops and conditionals are open around it, each with what it is.
    nesting: Vec<&'static str>,
    /// Of each expression.
    facts: Vec<Facts>,
    /// Of each expression.
    tys: Vec<Ty>,
    /// Of each variable: its type, its facts, and the value it always has.
    vars: Vec<VarState>,
    /// Types to be inferred.
    slots: Vec<Slot>,
    /// Loop indices whose type is checked once everything is inferred.
    indices: Vec<VarId>,
    hoist: Hoist,
    depth: u32,
    /// The loop that a `break` leaves, where one may stand.
    leave: Option<leave::Leave>,
    /// Links of the chains being read, operators and `else if`s.
    chained: u32,
    /// Reading the attribute or the signature, which rustc does not check for us.
    outside_body: bool,
    blocks_at: Option<SpanId>,
    threads_at: Option<SpanId>,
    /// `persistent(..)`, which stands where `blocks(..)` would.
    persistent_at: Option<SpanId>,
    cluster_at: Option<SpanId>,
    swizzle_at: Option<SpanId>,
    /// Arrays declared `let mut`.
    mutable_buffers: Vec<BufferId>,
    /// Const parameters that were reported: their values are not asked for.
    unfit_consts: Vec<ConstId>,
    /// The `#[tile_fn]`s that may be called by what is being read.
    functions: Rc<[Rc<TileFunction>]>,
    /// The `#[tile_fn]`s being written out, innermost last.
    frames: Vec<Rc<Definition>>,
    /// The call of the innermost one.
    call: Option<Call>,
    /// How many expressions functions that are written out have made.
    written: usize,
    /// What the innermost one's dtype parameters stand for.
    dtype_names: Vec<(String, DtypeRef)>,
    /// The text that tokens being read belong to, as `Span::text` counts.
    text: u32,
    /// A token of the kernel: what a function's tokens are seen from, so that rustc does not tell how they got here.
    root: Option<Span>,
}

#[derive(Clone, Copy)]
struct VarState {
    ty: Ty,
    facts: Facts,
    value: Option<ExprId>,
    /// May be assigned: `let mut`, or declared without a value.
    assignable: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            kernel: Kernel::default(),
            spans: vec![],
            ends: vec![],
            calls: vec![],
            diagnostics: vec![],
            deferred: vec![],
            resolved: true,
            scope: vec![],
            rows: vec![],
            block: vec![],
            nesting: vec![],
            facts: vec![],
            tys: vec![],
            vars: vec![],
            slots: vec![],
            indices: vec![],
            hoist: Hoist::Forbidden("here"),
            depth: 0,
            leave: None,
            chained: 0,
            outside_body: true,
            blocks_at: None,
            threads_at: None,
            persistent_at: None,
            cluster_at: None,
            swizzle_at: None,
            mutable_buffers: vec![],
            unfit_consts: vec![],
            functions: Rc::new([]),
            frames: vec![],
            written: 0,
            call: None,
            dtype_names: vec![],
            text: 0,
            root: None,
        }
    }
}

// Places and mistakes.
impl Parser {
    /// The place of a range of tokens.
    fn mark(&mut self, range: impl Into<Range>) -> SpanId {
        let range = range.into();
        let seen = |span: Span| match self.root {
            Some(root) if self.text != 0 => span.resolved_at(root),
            _ => span,
        };
        self.spans.push(seen(range.first));
        self.ends.push(seen(range.last));
        self.calls.push(self.call);
        self.kernel.spans.push(tile_ir::ir::Span { text: self.text, ..source::position(range) })
    }

    /// Reports a mistake in a kernel whose shadow rustc accepts.
    fn error(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports a mistake that rustc might see as well: the shadow body is then not shown to it.
    fn unsupported(&mut self, diagnostic: Diagnostic) {
        self.resolved = false;
        self.diagnostics.push(diagnostic);
    }

    /// Notes a mistake that rustc reports, except where rustc sees nothing: outside the body.
    fn rustc(&mut self, diagnostic: Diagnostic) {
        self.resolved = false;
        if self.outside_body {
            self.diagnostics.push(diagnostic);
        } else {
            self.deferred.push(diagnostic);
        }
    }

    /// Something outside the language at `range`.
    fn syntax(&mut self, range: impl Into<Range>, message: impl Into<String>, help: &str) {
        let at = self.mark(range);
        let mut diagnostic = Diagnostic::new(Code::SYNTAX, at, message);
        if !help.is_empty() {
            diagnostic = diagnostic.help(help);
        }
        self.unsupported(diagnostic);
    }
}

// The tables.
impl Parser {
    fn push(&mut self, kind: ExprKind, ty: impl Into<Ty>, facts: Facts, span: SpanId) -> ExprId {
        self.facts.push(facts);
        self.tys.push(ty.into());
        self.written += usize::from(!self.frames.is_empty());
        // The type is written by `finish`, when everything is inferred.
        self.kernel.exprs.push(Expr { kind, ty: Type::Index, span })
    }

    fn facts(&self, expr: ExprId) -> Facts {
        self.facts[expr.as_u32() as usize]
    }

    fn ty(&self, expr: ExprId) -> Ty {
        self.tys[expr.as_u32() as usize]
    }

    fn int(&mut self, value: i64, span: SpanId) -> ExprId {
        self.push(ExprKind::Int(value), Type::Index, Facts::CONSTANT, span)
    }

    fn emit(&mut self, kind: StmtKind, span: SpanId) -> StmtId {
        let stmt = self.kernel.stmts.push(Stmt { kind, span });
        self.block.push(stmt);
        stmt
    }

    fn variable(&mut self, name: &str, ty: impl Into<Ty>, kind: VarKind, facts: Facts, span: SpanId) -> VarId {
        self.vars.push(VarState { ty: ty.into(), facts, value: None, assignable: false });
        self.kernel.vars.push(Var { name: name.to_owned(), ty: Type::Index, kind, span })
    }

    fn var(&mut self, var: VarId, span: SpanId) -> ExprId {
        let state = self.vars[var.as_u32() as usize];
        self.push(ExprKind::Var(var), state.ty, state.facts, span)
    }

    /// A variable for the result of a statement made from an expression.
    fn temporary(&mut self, ty: impl Into<Ty>, span: SpanId) -> VarId {
        let name = format!("_t{}", self.vars.len());
        self.variable(&name, ty, VarKind::Let, Facts::FIXED, span)
    }

    fn bind(&mut self, name: String, binding: Binding) {
        self.scope.push((name, binding));
    }

    fn lookup(&self, name: &str) -> Option<Binding> {
        self.scope.iter().rev().find(|(n, _)| n == name).map(|&(_, binding)| binding)
    }

    /// What a name stands for among dtypes: a dtype parameter, or in a `#[tile_fn]` what its own stands for.
    fn dtype_param(&self, name: &str) -> Option<DtypeRef> {
        if self.frames.is_empty() {
            return self.type_param(name).map(DtypeRef::Param);
        }
        self.dtype_names.iter().find(|(n, _)| n == name).map(|(_, dtype)| *dtype)
    }

    fn type_param(&self, name: &str) -> Option<TypeParamId> {
        self.kernel.type_params.iter().find(|(_, p)| p.name == name).map(|(id, _)| id)
    }

    /// Reads in a place of its own: names and statements end with it. Returns the statements.
    fn nested(&mut self, what: &'static str, read: impl FnOnce(&mut Self)) -> Vec<StmtId> {
        let outer = self.enter(what);
        read(self);
        self.leave(outer)
    }

    /// Begins a place of its own; [`Parser::leave`] ends it.
    fn enter(&mut self, what: &'static str) -> Outer {
        self.nesting.push(what);
        Outer {
            names: self.scope.len(),
            block: std::mem::take(&mut self.block),
            hoist: std::mem::replace(&mut self.hoist, Hoist::Allowed),
        }
    }

    /// Ends a place of its own. Returns its statements.
    fn leave(&mut self, outer: Outer) -> Vec<StmtId> {
        self.nesting.pop();
        self.hoist = outer.hoist;
        self.scope.truncate(outer.names);
        std::mem::replace(&mut self.block, outer.block)
    }

    /// Reads an expression from which no statement may be made.
    fn in_place<R>(&mut self, place: &'static str, read: impl FnOnce(&mut Self) -> R) -> R {
        let hoist = std::mem::replace(&mut self.hoist, Hoist::Forbidden(place));
        let result = read(self);
        self.hoist = hoist;
        result
    }

    /// Writes the inferred types down.
    fn finish(mut self, item: Option<syn::ItemFn>, attribute: AttributeInfo) -> Parsed {
        self.outside_body = false;
        self.check_indices();
        for index in 0..self.tys.len() {
            let id = ExprId::from_u32(index as u32);
            let span = self.kernel.exprs[id].span;
            let ty = self.settle(self.tys[index], span);
            self.kernel.exprs[id].ty = ty;
            match self.kernel.exprs[id].kind {
                ExprKind::Cast(_, value) => self.kernel.exprs[id].kind = ExprKind::Cast(ty, value),
                // `lit(2.0)` of a type that may be an integer.
                ExprKind::Float(_) if self.class(Ty::Is(ty)) != Class::Float => {
                    let literal = Expr { ty: Type::F32, ..self.kernel.exprs[id].clone() };
                    let literal = self.kernel.exprs.push(literal);
                    self.kernel.exprs[id].kind = ExprKind::Cast(ty, literal);
                }
                _ => {}
            }
        }
        for index in 0..self.vars.len() {
            let id = VarId::from_u32(index as u32);
            let span = self.kernel.vars[id].span;
            self.kernel.vars[id].ty = self.settle(self.vars[index].ty, span);
        }
        Parsed {
            kernel: self.kernel,
            spans: self.spans,
            ends: self.ends,
            calls: self.calls,
            diagnostics: self.diagnostics,
            deferred: self.deferred,
            item,
            attribute,
            body_resolved: self.resolved,
        }
    }
}
