//! Kernels as text, read.

mod chains;
mod errors;
mod forms;
mod fuzz;
mod ladder;

use super::Parsed;
use proc_macro2::{TokenStream, TokenTree};
use std::fmt::Write;
use tile_ir::ir::*;

/// A kernel that calls no functions.
fn kernel(attribute: TokenStream, item: TokenStream) -> Parsed {
    super::kernel(attribute, item, std::rc::Rc::new([]))
}

/// Reads the text of a kernel, attribute included.
fn parse(text: &str) -> Parsed {
    let tokens: TokenStream = text.parse().expect("the test's text is made of tokens");
    let (attribute, item) = split(tokens);
    kernel(attribute, item)
}

/// Takes `#[tile_kernel(..)]` off a function.
fn split(tokens: TokenStream) -> (TokenStream, TokenStream) {
    let (mut attribute, mut item) = (TokenStream::new(), TokenStream::new());
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(hash) = &token
            && hash.as_char() == '#'
            && let Some(TokenTree::Group(group)) = tokens.peek()
        {
            let mut inner = group.stream().into_iter();
            if matches!(inner.next(), Some(TokenTree::Ident(name)) if name == "tile_kernel") {
                if let Some(TokenTree::Group(list)) = inner.next() {
                    attribute = list.stream();
                }
                tokens.next();
                continue;
            }
        }
        item.extend([token]);
    }
    (attribute, item)
}

/// A kernel that must be right.
fn valid(text: &str) -> Kernel {
    let parsed = parse(text);
    let said: Vec<String> = parsed.diagnostics.iter().map(|d| d.compiler_text(&parsed.kernel)).collect();
    assert!(said.is_empty(), "{}", said.join("\n"));
    let deferred: Vec<String> = parsed.deferred.iter().map(|d| d.compiler_text(&parsed.kernel)).collect();
    assert!(parsed.body_resolved, "{}", deferred.join("\n"));
    parsed.kernel
}

/// A kernel over `x: &Tensor<f32, (K,)>`, `w: (N, K)`, `y: &mut (N,)`, with one thread axis `t` of 128 and one block
/// axis `b`, around some statements.
fn around(body: &str) -> String {
    format!(
        "#[tile_kernel()]\nfn k(x: &Tensor<f32, (K,)>, w: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N,)>, n: usize) {{\n\
         let [b] = blocks([ceil_div(N, 128)]);\nlet [t] = threads([128]);\n{body}\n}}"
    )
}

/// The statements of a body after the binding of blocks and threads.
fn body(text: &str) -> String {
    print(&valid(&around(text)))
}

/// A kernel's body as text: for these tests only.
fn print(kernel: &Kernel) -> String {
    let mut text = String::new();
    Printer { kernel }.block(&kernel.body, 0, &mut text);
    text
}

struct Printer<'a> {
    kernel: &'a Kernel,
}

impl Printer<'_> {
    fn block(&self, stmts: &[StmtId], depth: usize, text: &mut String) {
        for &stmt in stmts {
            write!(text, "{:1$}", "", depth * 2).unwrap();
            self.stmt(stmt, depth, text);
        }
    }

    fn var(&self, var: VarId) -> &str {
        &self.kernel.vars[var].name
    }

    fn ty(&self, ty: Type) -> String {
        match ty {
            Type::Index => "usize".to_owned(),
            Type::Value(DtypeRef::Is(dtype)) => dtype.to_string(),
            Type::Value(DtypeRef::Param(param)) => self.kernel.type_params[param].name.clone(),
        }
    }

    fn stmt(&self, stmt: StmtId, depth: usize, text: &mut String) {
        let e = |expr: ExprId| self.expr(expr);
        let list = |exprs: &[ExprId]| exprs.iter().map(|&x| e(x)).collect::<Vec<_>>().join(", ");
        let tile = |tile: &TileRef| {
            let name = self.kernel.place_name(tile.place);
            format!("{name}@[{}]x[{}]", list(&tile.start), list(&tile.extents))
        };
        match &self.kernel.stmts[stmt].kind {
            StmtKind::Let { var, value } => {
                let (word, ty) = match self.kernel.vars[*var].kind {
                    VarKind::Mut => ("let mut", self.ty(self.kernel.vars[*var].ty)),
                    _ => ("let", self.ty(self.kernel.vars[*var].ty)),
                };
                match value {
                    Some(value) => writeln!(text, "{word} {}: {ty} = {}", self.var(*var), e(*value)).unwrap(),
                    None => writeln!(text, "{word} {}: {ty}", self.var(*var)).unwrap(),
                }
            }
            StmtKind::Alloc { buffer } => {
                let b = &self.kernel.buffers[*buffer];
                let dtype = self.ty(Type::Value(b.dtype));
                writeln!(text, "{:?} {}: {dtype}[{}]", b.scope, b.name, list(&b.extents)).unwrap();
            }
            StmtKind::Assign { var, value } => writeln!(text, "{} = {}", self.var(*var), e(*value)).unwrap(),
            StmtKind::Store { access, value } => writeln!(text, "{} = {}", self.access(*access), e(*value)).unwrap(),
            StmtKind::If { cond, then, otherwise } => {
                writeln!(text, "if {}", e(*cond)).unwrap();
                self.block(then, depth + 1, text);
                if !otherwise.is_empty() {
                    writeln!(text, "{:1$}else", "", depth * 2).unwrap();
                    self.block(otherwise, depth + 1, text);
                }
            }
            StmtKind::For { var, start, end, step, kind, body } => {
                let kind = match kind {
                    LoopKind::Serial { unroll: None } => "serial".to_owned(),
                    LoopKind::Serial { unroll: Some(n) } => format!("serial.unroll({})", e(*n)),
                    LoopKind::Unroll => "unroll".to_owned(),
                    LoopKind::Vectorized => "vectorized".to_owned(),
                    LoopKind::Pipelined { stages, schedule: Schedule::Auto } => format!("pipelined({})", e(*stages)),
                    LoopKind::Pipelined { stages, schedule } => format!("pipelined({}) {schedule:?}", e(*stages)),
                };
                writeln!(text, "for {} in {}..{} by {} {kind}", self.var(*var), e(*start), e(*end), e(*step)).unwrap();
                self.block(body, depth + 1, text);
            }
            StmtKind::Parallel { vars, extents, body } => {
                let vars: Vec<&str> = vars.iter().map(|&v| self.var(v)).collect();
                writeln!(text, "for [{}] in parallel [{}]", vars.join(", "), list(extents)).unwrap();
                self.block(body, depth + 1, text);
            }
            StmtKind::Tile(TileOp::Copy { src, dst, width, tma, evict }) => {
                let width = width.map(|w| format!(" width {}", e(w))).unwrap_or_default();
                let tma = if *tma { "" } else { " no tma" };
                let evict = evict.as_ref().map(|eviction| {
                    let cases = eviction.cases.iter().map(|(cond, order)| format!("{} {order:?} ", e(*cond)));
                    format!(" evict {}{:?}", cases.collect::<String>(), eviction.otherwise)
                });
                let evict = evict.unwrap_or_default();
                writeln!(text, "copy {} -> {}{width}{tma}{evict}", tile(src), tile(dst)).unwrap();
            }
            StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, clear, precision, grouped }) => {
                let name = |buffer: BufferId| &self.kernel.buffers[buffer].name;
                let matrix = |m: &MatrixRef| format!("{}{}", name(m.buffer), if m.transposed { ".t" } else { "" });
                let clear = if *clear { " clear" } else { "" };
                let precision = if *precision == Precision::Tf32 { " tf32" } else { "" };
                let grouped = if *grouped { " grouped" } else { "" };
                let (a, b, acc) = (matrix(a), matrix(b), name(*acc));
                writeln!(text, "gemm {a} {b} {acc} {policy:?}{clear}{precision}{grouped}").unwrap();
            }
            StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body } => {
                let vars: Vec<&str> = vars.iter().map(|&v| self.var(v)).collect();
                let per_sm = per_sm.map(|n| format!(" per_sm {}", e(n))).unwrap_or_default();
                let order = if *contiguous { " contiguous" } else { "" };
                let place = |access: AccessId| self.kernel.place_name(self.kernel.accesses[access].place);
                let counter = counter.map(|access| format!(" counted in {}", place(access))).unwrap_or_default();
                let (vars, extents) = (vars.join(", "), list(extents));
                writeln!(text, "for [{vars}] in persistent [{extents}]{per_sm}{order}{counter}").unwrap();
                self.block(body, depth + 1, text);
            }
            StmtKind::Tile(TileOp::Clamp { tile, low, high }) => {
                let name = &self.kernel.buffers[*tile].name;
                writeln!(text, "clamp {name} {} {}", e(*low), e(*high)).unwrap();
            }
            StmtKind::Tile(TileOp::Fill { buffer, value }) => {
                writeln!(text, "fill {} {}", self.kernel.buffers[*buffer].name, e(*value)).unwrap();
            }
            StmtKind::LastArriver { access, count, dst } => {
                let place = self.kernel.place_name(self.kernel.accesses[*access].place);
                writeln!(text, "{} = last arriver at {place} of {}", self.var(*dst), e(*count)).unwrap();
            }
            StmtKind::Tile(TileOp::ClusterReduce { op, tile }) => {
                writeln!(text, "cluster reduce {op:?} {}", self.kernel.buffers[*tile].name).unwrap();
            }
            StmtKind::Tile(TileOp::ClusterExchange { src, dst }) => {
                let [src, dst] = [src, dst].map(|b| &self.kernel.buffers[*b].name);
                writeln!(text, "cluster exchange {src} -> {dst}").unwrap();
            }
            StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis }) => {
                let [src, dst] = [src, dst].map(|b| &self.kernel.buffers[*b].name);
                writeln!(text, "reduce {op:?} {src} -> {dst} axis {axis}").unwrap();
            }
            StmtKind::Reduce { op, src, dst, axis } => {
                let src = match src {
                    ReduceSource::Value(value) => e(*value),
                    ReduceSource::Local(buffer) => format!("&mut {}", self.kernel.buffers[*buffer].name),
                };
                let dst = dst.map(|d| format!("{} = ", self.var(d))).unwrap_or_default();
                let axis = axis.map_or("warp", |a| self.var(a));
                writeln!(text, "{dst}reduce {op:?} {src} over {axis}").unwrap();
            }
            StmtKind::Shuffle { kind, value, lane, dst } => {
                writeln!(text, "{} = shuffle {kind:?} {} {}", self.var(*dst), e(*value), e(*lane)).unwrap();
            }
            StmtKind::Vote { kind, pred, dst } => {
                writeln!(text, "{} = vote {kind:?} {}", self.var(*dst), e(*pred)).unwrap();
            }
            StmtKind::Atomic { op, access, value, dst } => {
                let dst = dst.map(|d| format!("{} = ", self.var(d))).unwrap_or_default();
                writeln!(text, "{dst}atomic {op:?} {} {}", self.access(*access), e(*value)).unwrap();
            }
            StmtKind::SyncThreads => writeln!(text, "sync_threads").unwrap(),
            StmtKind::SyncWarp => writeln!(text, "sync_warp").unwrap(),
            StmtKind::Print { format, args } => writeln!(text, "print {format:?} {}", list(args)).unwrap(),
            StmtKind::Assert { cond, message } => writeln!(text, "assert {} {message:?}", e(*cond)).unwrap(),
        }
    }

    fn access(&self, access: AccessId) -> String {
        let access = &self.kernel.accesses[access];
        let indices: Vec<String> = access.indices.iter().map(|&i| self.expr(i)).collect();
        let masked = if access.masked { "?" } else { "" };
        format!("{}[{}]{masked}", self.kernel.place_name(access.place), indices.join(", "))
    }

    fn expr(&self, expr: ExprId) -> String {
        let expr = &self.kernel.exprs[expr];
        let e = |expr: ExprId| self.expr(expr);
        match &expr.kind {
            ExprKind::Int(value) => match expr.ty {
                Type::Index => value.to_string(),
                ty => format!("{value}{}", self.ty(ty)),
            },
            ExprKind::Float(value) => format!("{value:?}{}", self.ty(expr.ty)),
            ExprKind::Bool(value) => value.to_string(),
            ExprKind::Dim(dim) => self.kernel.dims[*dim].name.clone(),
            ExprKind::Const(constant) => self.kernel.consts[*constant].name.clone(),
            ExprKind::Bits(dtype) => format!("{}::BITS", self.ty(Type::Value(*dtype))),
            ExprKind::Special(dtype, value) => format!("{}::{value:?}", self.ty(Type::Value(*dtype))),
            ExprKind::Scalar(param) => self.kernel.params[*param].name.clone(),
            ExprKind::Var(var) => self.var(*var).to_owned(),
            ExprKind::Unary(op, a) => format!("{op:?}({})", e(*a)),
            ExprKind::Binary(op, a, b) => format!("({} {} {})", e(*a), op.symbol(), e(*b)),
            ExprKind::Math(f, operands) => {
                let operands: Vec<String> = operands.iter().map(|&x| e(x)).collect();
                format!("{}({})", f.name(), operands.join(", "))
            }
            ExprKind::Select(c, a, b) => format!("select({}, {}, {})", e(*c), e(*a), e(*b)),
            ExprKind::If(c, a, b) => format!("(if {} {{ {} }} else {{ {} }})", e(*c), e(*a), e(*b)),
            ExprKind::Cast(ty, a) => format!("{}({})", self.ty(*ty), e(*a)),
            ExprKind::Load(access) => self.access(*access),
            ExprKind::Present(param) => format!("present({})", self.kernel.params[*param].name),
        }
    }
}
