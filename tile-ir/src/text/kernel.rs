//! A kernel as text: its head, then its statements.

use super::expr::alternatives;
use super::names::Names;
use super::{Lines, Tightness, commas, tuple};
use crate::ir::parts::parts;
use crate::ir::{
    AtomicOp, Axis, BinaryOp, ConstKind, Dependent, Dim, DimId, Eviction, ExprId, ExprKind, Extent, Kernel, LoopKind,
    MatrixRef, ParamId, ParamKind, Precision, ReduceOp, ReduceSource, Schedule, Scope, StmtId, StmtKind,
    SwizzleRequest, TileOp, TileRef, Trigger, VarId, VarKind, VoteKind, WarpPolicy, Width,
};
use std::fmt;

impl fmt::Display for Kernel {
    /// The kernel as its author would write it, constants and types spelled out; ends with a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { kernel: self, names: Names::default(), lines: Lines::default() };
        printer.kernel();
        f.write_str(&printer.lines.text)
    }
}

/// An expression of a kernel as its author wrote it, for diagnostics.
///
/// It is printed of the kernel, where values that a binding gave stand for their names; but a conversion is written in two ways, or in
/// none where the compiler added it, and an expression with one is quoted from the author's own text, if that is known.
pub(crate) fn written(kernel: &Kernel, expr: ExprId) -> String {
    let mut converts = false;
    parts(kernel, expr, &mut |kind| converts |= matches!(kind, ExprKind::Cast(..)));
    let quoted = || kernel.source.text_at(*kernel.spans.get(kernel.exprs[expr].span)?);
    match converts.then(quoted).flatten() {
        Some(text) => text,
        None => Printer { kernel, names: Names::of_author(kernel), lines: Lines::default() }.expr(expr),
    }
}

pub(super) struct Printer<'k> {
    pub(super) kernel: &'k Kernel,
    pub(super) names: Names,
    lines: Lines,
}

/// A line of the body that describes the launch. It stands before the first statement that can follow it: its extents may be
/// made of constants that the body declares.
#[derive(Clone, Copy)]
enum LaunchLine {
    Blocks,
    Threads,
    Cluster,
    Swizzle,
}

impl LaunchLine {
    const ALL: [LaunchLine; 4] = [LaunchLine::Blocks, LaunchLine::Threads, LaunchLine::Cluster, LaunchLine::Swizzle];

    fn stands(self, kernel: &Kernel) -> bool {
        match self {
            LaunchLine::Blocks => !kernel.grid.is_empty() || kernel.persistent().is_none(),
            LaunchLine::Threads => true,
            LaunchLine::Cluster => !kernel.cluster.is_empty(),
            LaunchLine::Swizzle => kernel.swizzle.is_some(),
        }
    }

    fn extents(self, kernel: &Kernel) -> Vec<ExprId> {
        match self {
            LaunchLine::Blocks => kernel.grid.iter().map(|axis| axis.extent).collect(),
            LaunchLine::Threads => kernel.threads.iter().map(|axis| axis.extent).collect(),
            LaunchLine::Cluster => kernel.cluster.clone(),
            LaunchLine::Swizzle => kernel.swizzle.into_iter().collect(),
        }
    }
}

impl Printer<'_> {
    fn kernel(&mut self) {
        let kernel = self.kernel;
        self.names.open();
        for name in kernel.dims.values().map(|d| &d.name).chain(kernel.consts.values().map(|c| &c.name)) {
            self.names.reserve(name);
        }
        for param in kernel.params.values() {
            self.names.reserve(&param.name);
        }
        self.attributes();
        let generics = kernel.type_params.values().map(|t| format!("{}: {}", t.name, alternatives(&t.allowed)));
        let consts = kernel.consts.values().map(|c| {
            let kind = if c.kind == ConstKind::Bool { "bool" } else { "usize" };
            format!("const {}: {kind}", c.name)
        });
        let generics = commas(generics.chain(consts));
        let generics = if generics.is_empty() { generics } else { format!("<{generics}>") };
        self.lines.line(format!("kernel {}{generics}(", kernel.name));
        self.lines.depth += 1;
        for param in kernel.params.values() {
            let ty = match &param.kind {
                ParamKind::Absent => "absent".to_owned(),
                ParamKind::Tensor { dtype, shape, mutable, optional } => {
                    let reference = if *mutable { "&mut " } else { "&" };
                    let extents = shape.iter().map(|extent| match extent {
                        Extent::Dim(dim) => self.dim(*dim),
                        Extent::Fixed(expr) => match kernel.exprs.get(*expr).map(|e| &e.kind) {
                            Some(ExprKind::Int(0..) | ExprKind::Const(_)) | None => {
                                format!("Fixed<{}>", self.expr(*expr))
                            }
                            _ => format!("Fixed<{{ {} }}>", self.expr(*expr)),
                        },
                    });
                    let tensor = format!("{reference}Tensor<{}, {}>", self.dtype(*dtype), tuple(extents));
                    if *optional { format!("Option<{tensor}>") } else { tensor }
                }
                ParamKind::Scalar { ty } => self.ty(*ty),
            };
            self.lines.line(format!("{}: {ty},", param.name));
        }
        self.lines.depth -= 1;
        self.lines.line(") {");
        self.lines.depth += 1;
        let mut launch: Vec<_> = LaunchLine::ALL.into_iter().filter(|line| line.stands(kernel)).collect();
        for stmt in &kernel.body {
            self.launch(&mut launch, false);
            self.statement(*stmt);
        }
        self.launch(&mut launch, true);
        self.lines.depth -= 1;
        self.lines.line("}");
        self.names.close();
    }

    /// Prints the lines of the launch whose extents are made of variables that are declared by now, or all.
    fn launch(&mut self, lines: &mut Vec<LaunchLine>, all: bool) {
        let kernel = self.kernel;
        lines.retain(|line| {
            let extents = line.extents(kernel);
            let ready = all || extents.iter().all(|extent| self.is_declared(*extent));
            match line {
                _ if !ready => {}
                LaunchLine::Blocks => self.axes("blocks", &kernel.grid),
                LaunchLine::Threads => self.axes("threads", &kernel.threads),
                LaunchLine::Cluster => self.lines.line(format!("cluster([{}]);", self.exprs(&extents))),
                LaunchLine::Swizzle => self.lines.line(format!("use_swizzle({});", self.exprs(&extents))),
            }
            !ready
        });
    }

    /// Whether every variable of an expression of constants has been declared.
    fn is_declared(&self, expr: ExprId) -> bool {
        match self.kernel.exprs.get(expr).map(|e| &e.kind) {
            Some(ExprKind::Var(var)) => self.names.var(*var).is_some(),
            Some(ExprKind::Unary(_, a) | ExprKind::Cast(_, a)) => self.is_declared(*a),
            Some(ExprKind::Binary(_, a, b)) => self.is_declared(*a) && self.is_declared(*b),
            Some(ExprKind::Math(_, args)) => args.iter().all(|a| self.is_declared(*a)),
            Some(ExprKind::Select(a, b, c) | ExprKind::If(a, b, c)) => {
                [a, b, c].into_iter().all(|e| self.is_declared(*e))
            }
            _ => true,
        }
    }

    fn attributes(&mut self) {
        let kernel = self.kernel;
        if !kernel.type_params.is_empty() || !kernel.consts.is_empty() {
            let names = kernel.type_params.values().map(|t| t.name.clone());
            let names = tuple(names.chain(kernel.consts.values().map(|c| c.name.clone())));
            let value = |(value, declared): (&i64, ConstKind)| match declared {
                ConstKind::Bool => (*value != 0).to_string(),
                ConstKind::Usize => value.to_string(),
            };
            let kinds = || kernel.consts.values().map(|c| c.kind);
            let instance = |i: &crate::ir::Instance| {
                let dtypes = i.dtypes.iter().map(|d| d.name().to_owned());
                tuple(dtypes.chain(i.consts.iter().zip(kinds()).map(value)))
            };
            let instances = commas(kernel.instances.iter().map(instance));
            self.lines.line(format!("#[instances({names} in [{instances}])]"));
        }
        for require in &kernel.requires {
            let cond = self.expr(require.cond);
            self.lines.line(format!("#[require({cond})]"));
        }
        if !kernel.targets.is_empty() {
            let targets = commas(kernel.targets.iter().map(|t| t.name().to_owned()));
            self.lines.line(format!("#[targets({targets})]"));
        }
        if !kernel.class.is_widest() {
            let width = |width: Width| match width {
                Width::Element => "element".to_owned(),
                Width::Sixteen | Width::Eight | Width::Four => width.bytes().to_string(),
            };
            let (reads, writes) = (width(kernel.class.reads), width(kernel.class.writes));
            self.lines.line(format!("#[aligned(reads = {reads}, writes = {writes})]"));
        }
        if let Some(blocks) = kernel.attributes.min_blocks {
            self.lines.line(format!("#[min_blocks({blocks})]"));
        }
        if !kernel.attributes.stream.is_empty() {
            let name = |id: &ParamId| kernel.params.get(*id).map_or_else(|| format!("?{id}"), |p| p.name.clone());
            self.lines.line(format!("#[stream({})]", commas(kernel.attributes.stream.iter().map(name))));
        }
        if !kernel.attributes.partial.is_empty() {
            let name = |id: &ParamId| kernel.params.get(*id).map_or_else(|| format!("?{id}"), |p| p.name.clone());
            self.lines.line(format!("#[partial({})]", commas(kernel.attributes.partial.iter().map(name))));
        }
        if !kernel.attributes.workspaces.is_empty() {
            let name = |p: &ParamId| kernel.params[*p].name.clone();
            self.lines.line(format!("#[workspaces({})]", commas(kernel.attributes.workspaces.iter().map(name))));
        }
        if let Some(specialize) = &kernel.attributes.specialize {
            let name = |id: &DimId| match kernel.dims.get(*id) {
                Some(Dim { name, value: Some(value), .. }) => format!("{name} = {value}"),
                Some(dim) => dim.name.clone(),
                None => format!("?{id}"),
            };
            let dims = commas(specialize.dims.iter().map(name));
            self.lines.line(format!("#[specialize({dims}, max = {})]", specialize.max));
        }
        if let Some(Dependent { independent, trigger }) = &kernel.attributes.dependent {
            let name = |id: &ParamId| kernel.params.get(*id).map_or_else(|| format!("?{id}"), |p| p.name.clone());
            let trigger = match trigger {
                Trigger::AfterWait => "",
                Trigger::AtStart => ", trigger = AtStart",
            };
            self.lines.line(format!("#[pdl(independent = [{}]{trigger})]", commas(independent.iter().map(name))));
        }
        for (code, level) in &kernel.attributes.lints {
            self.lines.line(format!("#[lints({code} = {level:?})]"));
        }
    }

    fn axes(&mut self, call: &str, axes: &[Axis]) {
        let extents = commas(axes.iter().map(|a| self.expr(a.extent)));
        let names: Vec<_> = axes.iter().map(|a| self.declare(a.var)).collect();
        self.lines.line(format!("let [{}] = {call}([{extents}]);", commas(names)));
    }

    fn declare(&mut self, var: VarId) -> String {
        let name = self.kernel.vars.get(var).map_or("", |v| v.name.as_str());
        self.names.declare(var, name)
    }

    /// A variable's name; one that is used outside its scope shows its id.
    pub(super) fn var(&self, var: VarId) -> String {
        self.names.var(var).map_or_else(|| format!("?{var}"), str::to_owned)
    }

    fn statements(&mut self, stmts: &[StmtId]) {
        stmts.iter().for_each(|s| self.statement(*s));
    }

    fn nested(&mut self, stmts: &[StmtId]) {
        self.names.open();
        self.lines.depth += 1;
        self.statements(stmts);
        self.lines.depth -= 1;
        self.names.close();
    }

    fn statement(&mut self, id: StmtId) {
        let Some(stmt) = self.kernel.stmts.get(id) else { return self.lines.line(format!("?{id};")) };
        match &stmt.kind {
            StmtKind::Let { var, value } => {
                // The value does not see the name.
                let value = value.map(|v| format!(" = {}", self.expr(v))).unwrap_or_default();
                let binding = self.binding(*var);
                self.lines.line(format!("{binding}{value};"));
            }
            StmtKind::Alloc { buffer } => {
                let Some(declared) = self.kernel.buffers.get(*buffer) else {
                    return self.lines.line(format!("alloc ?{buffer};"));
                };
                let call = match declared.scope {
                    Scope::Shared => "alloc_shared",
                    Scope::Local => "alloc_local",
                    Scope::Fragment => "alloc_fragment",
                };
                let (dtype, extents) = (self.dtype(declared.dtype), self.exprs(&declared.extents));
                let swizzle = match declared.swizzle {
                    SwizzleRequest::Auto => String::new(),
                    SwizzleRequest::Exactly(swizzle) => format!(".swizzle({})", swizzle.name()),
                };
                let name = self.names.declare_buffer(*buffer, &declared.name);
                self.lines.line(format!("let mut {name} = {call}::<{dtype}>([{extents}]){swizzle};"));
            }
            StmtKind::Assign { var, .. } if self.kernel.vars[*var].kind == VarKind::Loop => {
                self.lines.line("break;");
            }
            StmtKind::Assign { var, value } => {
                let text = format!("{} = {};", self.var(*var), self.expr(*value));
                self.lines.line(text);
            }
            StmtKind::Store { access, value } => {
                let text = format!("{} = {};", self.access(*access, true), self.expr(*value));
                self.lines.line(text);
            }
            StmtKind::If { cond, then, otherwise } => self.branches(*cond, then, otherwise),
            StmtKind::For { var, start, end, step, kind, body } => {
                let mut range = format!("{}..{}", self.expr(*start), self.expr(*end));
                range = match kind {
                    LoopKind::Serial { .. } => range,
                    LoopKind::Unroll => format!("unroll({range})"),
                    LoopKind::Vectorized => format!("vectorized({range})"),
                    LoopKind::Pipelined { stages, schedule } => {
                        let schedule = match schedule {
                            Schedule::Auto => "",
                            Schedule::Cooperative => ".schedule(Cooperative)",
                            Schedule::PingPong => ".schedule(PingPong)",
                            Schedule::Rolled => ".schedule(Rolled)",
                        };
                        format!("pipelined({range}, {}){schedule}", self.expr(*stages))
                    }
                };
                let one = matches!(self.kernel.exprs.get(*step).map(|e| &e.kind), Some(ExprKind::Int(1)));
                let serial = matches!(kind, LoopKind::Serial { .. });
                if serial && (!one || matches!(kind, LoopKind::Serial { unroll: Some(_) })) {
                    range = format!("({range})");
                }
                if !one {
                    range += &format!(".step_by({})", self.expr(*step));
                }
                if let LoopKind::Serial { unroll: Some(factor) } = kind {
                    range += &format!(".unroll({})", self.expr(*factor));
                }
                self.names.open();
                let name = self.declare(*var);
                self.lines.line(format!("for {name} in {range} {{"));
                self.nested(body);
                self.names.close();
                self.lines.line("}");
            }
            StmtKind::Parallel { vars, extents, body } => {
                let extents = self.exprs(extents);
                self.names.open();
                let names: Vec<_> = vars.iter().map(|v| self.declare(*v)).collect();
                self.lines.line(format!("for [{}] in parallel([{extents}]) {{", commas(names)));
                self.nested(body);
                self.names.close();
                self.lines.line("}");
            }
            StmtKind::Tile(TileOp::Copy { src, dst, width, tma, evict }) => {
                let width = width.map(|w| format!(".width({})", self.expr(w))).unwrap_or_default();
                let tma = if *tma { "" } else { ".tma(false)" };
                let evict = evict.as_ref().map(|eviction| self.eviction(eviction)).unwrap_or_default();
                let text = format!("copy({}, {}){width}{tma}{evict};", self.tile(src, false), self.tile(dst, true));
                self.lines.line(text);
            }
            StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, clear, precision, grouped }) => {
                let policy = match policy {
                    WarpPolicy::Square => "",
                    WarpPolicy::FullRow => ".policy(FullRow)",
                    WarpPolicy::FullCol => ".policy(FullCol)",
                };
                let clear = if *clear { ".clear()" } else { "" };
                let precision = match precision {
                    Precision::Full => "",
                    Precision::Tf32 => ".tf32()",
                };
                let grouped = if *grouped { ".grouped()" } else { "" };
                let acc = self.place(crate::ir::Place::Buffer(*acc));
                let (a, b) = (self.matrix(a), self.matrix(b));
                self.lines.line(format!("gemm({a}, {b}, &mut {acc}){policy}{clear}{precision}{grouped};"));
            }
            StmtKind::Persistent { vars, extents, per_sm, contiguous, counter, body } => {
                let per_sm = per_sm.map(|n| format!(".per_sm({})", self.expr(n))).unwrap_or_default();
                let contiguous = if *contiguous { ".contiguous()" } else { "" };
                let counter = counter.map(|access| format!(".counter(&mut {})", self.access(access, true)));
                let (extents, counter) = (self.exprs(extents), counter.unwrap_or_default());
                self.names.open();
                let names: Vec<_> = vars.iter().map(|v| self.declare(*v)).collect();
                let names = commas(names);
                self.lines.line(format!("for [{names}] in persistent([{extents}]){per_sm}{contiguous}{counter} {{"));
                self.nested(body);
                self.names.close();
                self.lines.line("}");
            }
            StmtKind::Tile(TileOp::Fill { buffer, value }) => {
                let place = self.place(crate::ir::Place::Buffer(*buffer));
                let text = format!("fill(&mut {place}, {});", self.expr(*value));
                self.lines.line(text);
            }
            StmtKind::Tile(TileOp::Clamp { tile, low, high }) => {
                let place = self.place(crate::ir::Place::Buffer(*tile));
                let text = format!("clamp(&mut {place}, {}, {});", self.expr(*low), self.expr(*high));
                self.lines.line(text);
            }
            StmtKind::Reduce { op, src, dst, axis } => {
                let op = match op {
                    ReduceOp::Sum => "Sum",
                    ReduceOp::Max => "Max",
                    ReduceOp::Min => "Min",
                };
                let source = match src {
                    ReduceSource::Value(value) => self.expr(*value),
                    ReduceSource::Local(buffer) => format!("&mut {}", self.place(crate::ir::Place::Buffer(*buffer))),
                };
                let call = match axis {
                    Some(axis) => format!("thread_allreduce({op}, {source}, {})", self.var(*axis)),
                    None => format!("warp_reduce({op}, {source})"),
                };
                self.result(*dst, call);
            }
            StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis }) => {
                let op = match op {
                    ReduceOp::Sum => "Sum",
                    ReduceOp::Max => "Max",
                    ReduceOp::Min => "Min",
                };
                let [src, dst] = [src, dst].map(|b| self.place(crate::ir::Place::Buffer(*b)));
                self.lines.line(format!("reduce({op}, &{src}, &mut {dst}, {axis});"));
            }
            StmtKind::Shuffle { kind, value, lane, dst } => {
                let name = kind.name();
                self.result(Some(*dst), format!("{name}({}, {})", self.expr(*value), self.expr(*lane)));
            }
            StmtKind::Vote { kind, pred, dst } => {
                let name = match kind {
                    VoteKind::Ballot => "ballot",
                    VoteKind::Any => "any",
                    VoteKind::All => "all",
                };
                self.result(Some(*dst), format!("{name}({})", self.expr(*pred)));
            }
            StmtKind::Tile(TileOp::ClusterReduce { op, tile }) => {
                let op = match op {
                    ReduceOp::Sum => "Sum",
                    ReduceOp::Max => "Max",
                    ReduceOp::Min => "Min",
                };
                let tile = self.place(crate::ir::Place::Buffer(*tile));
                self.lines.line(format!("cluster_reduce({op}, &mut {tile});"));
            }
            StmtKind::Tile(TileOp::ClusterExchange { src, dst }) => {
                let [src, dst] = [src, dst].map(|b| self.place(crate::ir::Place::Buffer(*b)));
                self.lines.line(format!("cluster_exchange(&{src}, &mut {dst});"));
            }
            StmtKind::LastArriver { access, count, dst } => {
                let call = format!("last_arriver(&mut {}, {})", self.access(*access, true), self.expr(*count));
                self.result(Some(*dst), call);
            }
            StmtKind::Atomic { op, access, value, dst } => {
                let name = match op {
                    AtomicOp::Add => "atomic_add",
                    AtomicOp::Max => "atomic_max",
                    AtomicOp::Min => "atomic_min",
                };
                let element = self.access(*access, true);
                // A masked element is a place already: `*x.masked_mut(..)`.
                let element = element.strip_prefix('*').map_or_else(|| format!("&mut {element}"), str::to_owned);
                self.result(*dst, format!("{name}({element}, {})", self.expr(*value)));
            }
            StmtKind::SyncThreads => self.lines.line("sync_threads();"),
            StmtKind::SyncWarp => self.lines.line("sync_warp();"),
            StmtKind::Print { format, args } => {
                let args: String = args.iter().map(|a| format!(", {}", self.expr(*a))).collect();
                self.lines.line(format!("device_print({format:?}{args});"));
            }
            StmtKind::Assert { cond, message } => {
                let text = format!("device_assert({}, {message:?});", self.expr(*cond));
                self.lines.line(text);
            }
        }
    }

    /// An `if` with all its `else if`s: there may be more of them than blocks nest.
    fn branches(&mut self, cond: ExprId, then: &[StmtId], otherwise: &[StmtId]) {
        let kernel = self.kernel;
        self.lines.line(format!("if {} {{", self.expr(cond)));
        self.nested(then);
        let mut rest = otherwise;
        while let [next] = rest
            && let Some(StmtKind::If { cond, then, otherwise }) = kernel.stmts.get(*next).map(|s| &s.kind)
        {
            self.lines.line(format!("}} else if {} {{", self.expr(*cond)));
            self.nested(then);
            rest = otherwise;
        }
        if !rest.is_empty() {
            self.lines.line("} else {");
            self.nested(rest);
        }
        self.lines.line("}");
    }

    /// `let v: ty`, `let mut v: ty`.
    fn binding(&mut self, var: VarId) -> String {
        let mutable = matches!(self.kernel.vars.get(var).map(|v| v.kind), Some(VarKind::Mut));
        let ty = self.kernel.vars.get(var).map_or_else(|| "?".to_owned(), |v| self.ty(v.ty));
        let name = self.declare(var);
        format!("let {}{name}: {ty}", if mutable { "mut " } else { "" })
    }

    /// A call that may give a variable its value, declaring it where nothing has yet.
    fn result(&mut self, dst: Option<VarId>, call: String) {
        let left = match dst {
            None => String::new(),
            Some(var) if self.names.var(var).is_some() => format!("{} = ", self.var(var)),
            Some(var) => format!("{} = ", self.binding(var)),
        };
        self.lines.line(format!("{left}{call};"));
    }

    /// `&a`, `a.t()`.
    fn matrix(&self, matrix: &MatrixRef) -> String {
        let place = self.place(crate::ir::Place::Buffer(matrix.buffer));
        if matrix.transposed { format!("{place}.t()") } else { format!("&{place}") }
    }

    /// `.evict(First)`, `.evict(if wide { First } else { Normal })`.
    fn eviction(&self, eviction: &Eviction) -> String {
        let mut text = String::from(".evict(");
        for (cond, order) in &eviction.cases {
            text += &format!("if {} {{ {order:?} }} else ", self.expr(*cond));
        }
        let otherwise = format!("{:?}", eviction.otherwise);
        text + &if eviction.cases.is_empty() { otherwise } else { format!("{{ {otherwise} }}") } + ")"
    }

    /// `&x`, `x.at([..])`, `x.tile([0..n, 8..24, a..a + n])`, `x.t()`.
    fn tile(&self, tile: &TileRef, mutable: bool) -> String {
        let place = self.place(tile.place);
        let suffix = if mutable { "_mut" } else { "" };
        if tile.transposed {
            return format!("{place}.t()");
        }
        if tile.start.is_empty() {
            return format!("&{}{place}", if mutable { "mut " } else { "" });
        }
        if tile.extents.is_empty() {
            return format!("{place}.at{suffix}([{}])", self.exprs(&tile.start));
        }
        let ranges = tile.start.iter().zip(&tile.extents).map(|(start, extent)| {
            // The start is read again where it is repeated.
            let sum = Tightness::of(BinaryOp::Add);
            let (text, length) = (self.expr_at_least(*start, sum), self.expr_at_least(*extent, sum.next()));
            let known = [start, extent].map(|e| self.kernel.exprs.get(*e).map(|e| &e.kind));
            match known {
                [Some(ExprKind::Int(0)), _] => format!("0..{}", self.expr(*extent)),
                [Some(ExprKind::Int(start)), Some(ExprKind::Int(extent @ 0..))]
                    if start.checked_add(*extent).is_some() =>
                {
                    format!("{start}..{}", start.saturating_add(*extent))
                }
                _ => format!("{text}..{text} + {length}"),
            }
        });
        format!("{place}.tile{suffix}([{}])", commas(ranges))
    }
}
