//! Functions that become statements: collectives, atomics, barriers, `device_print`, `device_assert`.

use super::access::strip;
use super::arg::gives_two;
use super::call::{Called, Function};
use super::range::Range;
use super::types::Class;
use super::{Binding, Parser};
use syn::{Expr, ExprCall, Lit};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{
    AccessId, AtomicOp, BufferId, Dtype, ExprId, ExprKind, Place, ReduceOp, ReduceSource, Scope, ShuffleKind, StmtKind,
    TileOp, Type, VarId, VarKind, VoteKind,
};

impl Parser {
    /// A function with an effect. `used`: its value is wanted.
    pub(super) fn effect(&mut self, function: &Function<'_>, call: &ExprCall, used: bool, range: Range) -> Called {
        let arity = match function.name.as_str() {
            "sync_threads" | "sync_warp" => 0,
            "ballot" | "any" | "all" => 1,
            "warp_reduce" | "shfl_xor" | "shfl_down" | "shfl_up" | "shfl" | "device_assert" => 2,
            "atomic_add" | "atomic_max" | "atomic_min" | "last_arriver" | "cluster_reduce" | "cluster_exchange" => 2,
            "thread_allreduce" => 3,
            "device_print" => return self.print(call, range),
            name if gives_two(name) => {
                self.two_values(function, range);
                return Called::Poison;
            }
            _ => {
                self.unknown_function(call);
                return Called::Poison;
            }
        };
        if !self.arity(function, call, arity) {
            return Called::Poison;
        }
        let what = format!("`{}(..)`", function.name);
        if used && !self.may_hoist(range, &what) {
            return Called::Poison;
        }
        match function.name.as_str() {
            "sync_threads" => self.simple(StmtKind::SyncThreads, range),
            "sync_warp" => self.simple(StmtKind::SyncWarp, range),
            "ballot" => self.vote(VoteKind::Ballot, call, range).into(),
            "any" => self.vote(VoteKind::Any, call, range).into(),
            "all" => self.vote(VoteKind::All, call, range).into(),
            "shfl_xor" => self.shuffle(ShuffleKind::Xor, call, range).into(),
            "shfl_down" => self.shuffle(ShuffleKind::Down, call, range).into(),
            "shfl_up" => self.shuffle(ShuffleKind::Up, call, range).into(),
            "shfl" => self.shuffle(ShuffleKind::Lane, call, range).into(),
            "warp_reduce" => self.reduce(function, call, None, used, range),
            "thread_allreduce" => self.reduce(function, call, Some(&call.args[2]), used, range),
            "last_arriver" => self.last_arriver(call, range).into(),
            "cluster_reduce" => self.cluster_reduce(function, call, used, range),
            "cluster_exchange" => self.cluster_exchange(call, used, range),
            "atomic_add" => self.atomic(AtomicOp::Add, function, call, used, range),
            "atomic_max" => self.atomic(AtomicOp::Max, function, call, used, range),
            "atomic_min" => self.atomic(AtomicOp::Min, function, call, used, range),
            _ => self.assert(call, range),
        }
    }

    fn simple(&mut self, kind: StmtKind, range: Range) -> Called {
        let span = self.mark(range);
        self.emit(kind, span);
        Called::Done
    }

    fn vote(&mut self, kind: VoteKind, call: &ExprCall, range: Range) -> Option<ExprId> {
        let pred = self.expr(&call.args[0])?;
        let pred = self.demand(pred, Type::BOOL)?;
        let span = self.mark(range);
        let ty = if kind == VoteKind::Ballot { Type::from(Dtype::U32) } else { Type::BOOL };
        let dst = self.temporary(ty, span);
        self.emit(StmtKind::Vote { kind, pred, dst }, span);
        Some(self.var(dst, span))
    }

    fn shuffle(&mut self, kind: ShuffleKind, call: &ExprCall, range: Range) -> Option<ExprId> {
        let operands = self.operands(&[&call.args[0], &call.args[1]])?;
        let (value, lane) = (operands[0], operands[1]);
        let lane = self.demand(lane, Type::Index)?;
        self.numeric(value, "a shuffle")?;
        let span = self.mark(range);
        let dst = self.temporary(self.ty(value), span);
        self.emit(StmtKind::Shuffle { kind, value, lane, dst }, span);
        Some(self.var(dst, span))
    }

    /// Collectives exchange numbers of an element type.
    pub(super) fn numeric(&mut self, value: ExprId, what: &str) -> Option<()> {
        let ty = self.ty(value);
        self.exchanged(ty);
        let (class, span) = (self.class(ty), self.kernel.exprs[value].span);
        let help = match class {
            Class::Index => "convert it first: `v as u32`",
            Class::Bool => "use `any`, `all` or `ballot`",
            Class::Storage => "cast to u32 or f32 first",
            Class::Int | Class::Float | Class::Mixed | Class::Unknown => return Some(()),
        };
        let message = format!("{what} of {} is not in the language", self.ty_name(ty));
        self.unsupported(Diagnostic::new(Code::DTYPE, span, message).help(help));
        None
    }

    fn reduce(
        &mut self,
        function: &Function<'_>,
        call: &ExprCall,
        axis: Option<&Expr>,
        used: bool,
        range: Range,
    ) -> Called {
        let op = self.reduce_op(function, &call.args[0]);
        if let Some((array, mutable)) = self.borrowed(&call.args[1])
            && axis.is_some()
        {
            let buffer = self.local_array(function, array, mutable, Range::from(&call.args[1]));
            let axis = axis.map(|axis| self.thread_axis(function, axis));
            if used {
                let at = self.mark(range);
                let message = format!("`{}` of an array replaces its elements and gives no value", function.name);
                self.unsupported(Diagnostic::new(Code::PLACEMENT, at, message).help("make it a statement of its own"));
                return Called::Poison;
            }
            let (Some(op), Some(buffer), Some(Some(axis))) = (op, buffer, axis) else { return Called::Poison };
            let span = self.mark(range);
            self.emit(StmtKind::Reduce { op, src: ReduceSource::Local(buffer), dst: None, axis: Some(axis) }, span);
            return Called::Done;
        }
        let value = self.expr(&call.args[1]);
        let axis = axis.map(|axis| self.thread_axis(function, axis));
        let value = value.filter(|&value| self.numeric(value, "a reduction").is_some());
        let (Some(op), Some(value), None | Some(Some(_))) = (op, value, axis) else { return Called::Poison };
        let span = self.mark(range);
        let dst = self.temporary(self.ty(value), span);
        let src = ReduceSource::Value(value);
        self.emit(StmtKind::Reduce { op, src, dst: Some(dst), axis: axis.flatten() }, span);
        Called::Value(self.var(dst, span))
    }

    /// `reduce(Sum, &tile, &mut rows, 1)`.
    pub(super) fn reduce_tile(&mut self, function: &Function<'_>, call: &ExprCall, range: Range) -> Called {
        if !self.arity(function, call, 4) {
            return Called::Poison;
        }
        let op = self.reduce_op(function, &call.args[0]);
        let src = self.tile_array(&call.args[1], 2, "`reduce` combines", "alloc_fragment::<f32>([64, 64])");
        let dst = self.tile_array(&call.args[2], 1, "`reduce` gives", "alloc_fragment::<f32>([64])");
        let axis = match strip(&call.args[3]) {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(axis) => axis.base10_parse::<u8>().ok().filter(|axis| *axis < 2),
                _ => None,
            },
            _ => None,
        };
        let Some(axis) = axis else {
            let at = self.mark(&call.args[3]);
            let diagnostic = Diagnostic::new(Code::CALL, at, "the axis of `reduce` is 0 or 1");
            self.unsupported(
                diagnostic.help("1 combines every row, 0 every column: `reduce(Sum, &tile, &mut rows, 1)`"),
            );
            return Called::Poison;
        };
        let (Some(op), Some(src), Some(dst)) = (op, src, dst) else { return Called::Poison };
        self.simple(StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis }), range)
    }

    /// An array of the block, by reference, of `rank` axes.
    fn tile_array(&mut self, expr: &Expr, rank: usize, what: &str, example: &str) -> Option<tile_ir::ir::BufferId> {
        let Some((array, mutable)) = self.borrowed(expr) else {
            let at = self.mark(expr);
            self.rustc(Diagnostic::new(Code::TYPE, at, "`reduce` takes arrays by reference"));
            return None;
        };
        let place = self.place(array, "`reduce`")?;
        let Place::Buffer(buffer) = place else {
            // No tensor is an array of the block.
            let at = self.mark(expr);
            self.rustc(Diagnostic::new(Code::TYPE, at, "`reduce` takes arrays of the block"));
            return None;
        };
        if rank == 1 && mutable {
            self.check_writable(place, array);
        }
        let (found, declared) = (self.kernel.buffers[buffer].extents.len(), self.kernel.buffers[buffer].span);
        if found != rank {
            let axes = |n: usize| if n == 1 { "1 axis".to_owned() } else { format!("{n} axes") };
            let (at, name) = (self.mark(expr), self.kernel.buffers[buffer].name.clone());
            let message = format!("{what} an array of {}, `{name}` has {}", axes(rank), axes(found));
            let diagnostic = Diagnostic::new(Code::SHAPE, at, message).label(declared, "declared here");
            self.error(diagnostic.help(format!("allocate it as `{example}`")));
            return None;
        }
        Some(buffer)
    }

    fn reduce_op(&mut self, function: &Function<'_>, expr: &Expr) -> Option<ReduceOp> {
        let name = match strip(expr) {
            Expr::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
            _ => None,
        };
        match name.as_deref() {
            Some("Sum") => Some(ReduceOp::Sum),
            Some("Max") => Some(ReduceOp::Max),
            Some("Min") => Some(ReduceOp::Min),
            Some(name) if matches!(self.lookup(name), Some(Binding::Poison)) => None,
            _ => {
                let at = self.mark(expr);
                let message = format!("`{}` needs its operator as the first argument", function.name);
                self.unsupported(Diagnostic::new(Code::CALL, at, message).help("write `Sum`, `Max` or `Min`"));
                None
            }
        }
    }

    /// The axis argument: the binding of a thread axis, itself.
    pub(super) fn thread_axis(&mut self, function: &Function<'_>, expr: &Expr) -> Option<VarId> {
        let name = match strip(expr) {
            Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
            _ => None,
        };
        let binding = name.as_ref().and_then(|name| self.lookup(name));
        match binding {
            Some(Binding::Var(var)) if matches!(self.kernel.vars[var].kind, VarKind::Thread(_)) => return Some(var),
            Some(Binding::Value(value)) => {
                if let ExprKind::Var(var) = self.kernel.exprs[value].kind
                    && matches!(self.kernel.vars[var].kind, VarKind::Thread(_))
                {
                    return Some(var);
                }
            }
            Some(Binding::Poison) => return None,
            None if name.is_some() => {
                self.expr(expr);
                return None;
            }
            _ => {}
        }
        let at = self.mark(expr);
        let message = format!("the last argument of `{}` is not a thread index", function.name);
        let axes: Vec<_> = self.kernel.threads.iter().map(|axis| axis.var).collect();
        let names: Vec<String> = axes.iter().map(|&var| format!("`{}`", self.kernel.vars[var].name)).collect();
        let mut diagnostic = Diagnostic::new(Code::CALL, at, message);
        if let (Some(name), Some(Binding::Var(var))) = (&name, binding) {
            diagnostic = diagnostic.label(self.kernel.vars[var].span, format!("`{name}` is bound here"));
        }
        diagnostic = match names.as_slice() {
            [] => diagnostic.help("bind the thread indices first: `let [tx] = threads([128]);`"),
            names => diagnostic.help(format!("it is the binding itself, one of {}", names.join(", "))),
        };
        self.error(diagnostic);
        None
    }

    fn local_array(
        &mut self,
        function: &Function<'_>,
        array: &Expr,
        mutable: bool,
        at: Range,
    ) -> Option<tile_ir::ir::BufferId> {
        let place = self.place(array, "a reduction")?;
        let (kind, declared) = match place {
            Place::Buffer(buffer) if self.kernel.buffers[buffer].scope == Scope::Local => {
                if !mutable {
                    let at = self.mark(at);
                    self.rustc(Diagnostic::new(Code::TYPE, at, "the array is replaced: pass `&mut`"));
                    return None;
                }
                self.check_writable(place, array);
                return Some(buffer);
            }
            Place::Buffer(buffer) => ("a shared array", self.kernel.buffers[buffer].span),
            Place::Tensor(param) => ("a tensor", self.kernel.params[param].span),
        };
        let name = self.kernel.place_name(place).to_owned();
        let at = self.mark(at);
        let message = format!("`{}` takes a value or a per-thread array; `{name}` is {kind}", function.name);
        let diagnostic = Diagnostic::new(Code::CALL, at, message).label(declared, "declared here");
        self.unsupported(diagnostic.help("declare it with `alloc_local`"));
        None
    }

    /// `cluster_reduce(Sum, &mut acc)`.
    fn cluster_reduce(&mut self, function: &Function<'_>, call: &ExprCall, used: bool, range: Range) -> Called {
        let op = self.reduce_op(function, &call.args[0]);
        let Some((array, mutable)) = self.borrowed(&call.args[1]) else {
            let at = self.mark(&call.args[1]);
            let message = "`cluster_reduce` takes its tile by `&mut`";
            self.rustc(Diagnostic::new(Code::TYPE, at, message).help("cluster_reduce(Sum, &mut acc);"));
            return Called::Poison;
        };
        if !mutable {
            let at = self.mark(&call.args[1]);
            self.rustc(Diagnostic::new(Code::TYPE, at, "the tile is replaced: pass `&mut`"));
            return Called::Poison;
        }
        if used {
            let at = self.mark(range);
            let message = "`cluster_reduce` replaces its tile and gives no value";
            self.unsupported(Diagnostic::new(Code::PLACEMENT, at, message).help("make it a statement of its own"));
            return Called::Poison;
        }
        let Some(place) = self.place(array, "a reduction") else { return Called::Poison };
        let (kind, declared) = match place {
            Place::Buffer(buffer) => match self.kernel.buffers[buffer].scope {
                Scope::Fragment => {
                    self.check_writable(place, array);
                    let Some(op) = op else { return Called::Poison };
                    return self.simple(StmtKind::Tile(TileOp::ClusterReduce { op, tile: buffer }), range);
                }
                Scope::Shared => ("a shared array", self.kernel.buffers[buffer].span),
                Scope::Local => ("a per-thread array", self.kernel.buffers[buffer].span),
            },
            Place::Tensor(param) => ("a tensor", self.kernel.params[param].span),
        };
        let name = self.kernel.place_name(place).to_owned();
        let at = self.mark(&call.args[1]);
        let message = format!("`cluster_reduce` combines fragments; `{name}` is {kind}");
        let diagnostic = Diagnostic::new(Code::CALL, at, message).label(declared, "declared here");
        self.unsupported(diagnostic.help("declare it with `alloc_fragment`"));
        Called::Poison
    }

    /// `cluster_exchange(&mine, &mut theirs)`.
    fn cluster_exchange(&mut self, call: &ExprCall, used: bool, range: Range) -> Called {
        if used {
            let at = self.mark(range);
            let message = "`cluster_exchange` fills an array and gives no value";
            self.unsupported(Diagnostic::new(Code::PLACEMENT, at, message).help("make it a statement of its own"));
            return Called::Poison;
        }
        let [src, dst] = [(0, false), (1, true)].map(|(n, mutable)| self.exchanged_array(&call.args[n], mutable));
        let (Some(src), Some(dst)) = (src, dst) else { return Called::Poison };
        if src == dst {
            let at = self.mark(&call.args[1]);
            let message = "`cluster_exchange` receives what it sends";
            let help = "receive into another array: a block may get its parts before it has sent its own";
            self.rustc(Diagnostic::new(Code::CALL, at, message).help(help));
            return Called::Poison;
        }
        self.simple(StmtKind::Tile(TileOp::ClusterExchange { src, dst }), range)
    }

    /// What `cluster_exchange` sends, or by `&mut` receives: a shared array.
    fn exchanged_array(&mut self, argument: &Expr, receives: bool) -> Option<BufferId> {
        let Some((array, mutable)) = self.borrowed(argument).filter(|(_, mutable)| *mutable || !receives) else {
            let at = self.mark(argument);
            let message = "`cluster_exchange` takes what it sends by `&`, and what it receives by `&mut`";
            self.rustc(Diagnostic::new(Code::TYPE, at, message).help("cluster_exchange(&mine, &mut theirs);"));
            return None;
        };
        let place = self.place(array, "an exchange")?;
        let (kind, declared) = match place {
            Place::Buffer(buffer) => match self.kernel.buffers[buffer].scope {
                Scope::Shared => {
                    if mutable {
                        self.check_writable(place, array);
                    }
                    return Some(buffer);
                }
                Scope::Fragment => ("a fragment", self.kernel.buffers[buffer].span),
                Scope::Local => ("a per-thread array", self.kernel.buffers[buffer].span),
            },
            Place::Tensor(param) => ("a tensor", self.kernel.params[param].span),
        };
        let name = self.kernel.place_name(place).to_owned();
        let at = self.mark(argument);
        let message = format!("`cluster_exchange` exchanges shared arrays; `{name}` is {kind}");
        let diagnostic = Diagnostic::new(Code::CALL, at, message).label(declared, "declared here");
        self.unsupported(diagnostic.help("declare it with `alloc_shared`"));
        None
    }

    /// `last_arriver(&mut sem[t], n)`.
    fn last_arriver(&mut self, call: &ExprCall, range: Range) -> Option<ExprId> {
        let count = self.expr(&call.args[1]);
        let from = self.block.len();
        let access = self.counter(&call.args[0], "`last_arriver`", "blocks", "last_arriver(&mut sem[tile], splits)");
        let mut count = [count];
        self.spill(&mut count, from);
        let (access, count) = (access?, count[0]?);
        let count = self.demand(count, Type::Index)?;
        let span = self.mark(range);
        let dst = self.temporary(Type::BOOL, span);
        self.emit(StmtKind::LastArriver { access, count, dst }, span);
        Some(self.var(dst, span))
    }

    /// `&mut sem[t]`, in which `name` counts `what`; `help` is a call of it.
    pub(super) fn counter(&mut self, argument: &Expr, name: &str, what: &str, help: &str) -> Option<AccessId> {
        let access = match strip(argument) {
            Expr::Reference(reference) if matches!(strip(&reference.expr), Expr::Index(_)) => {
                if reference.mutability.is_none() {
                    let at = self.mark(reference.and_token.span);
                    self.rustc(Diagnostic::new(Code::TYPE, at, format!("{name} counts: pass `&mut`")));
                }
                self.element_place(&reference.expr)?
            }
            other => {
                let at = self.mark(other);
                let message = format!("{name} takes its counter, an element of a u32 tensor, by `&mut`");
                self.unsupported(Diagnostic::new(Code::CALL, at, message).help(help));
                return None;
            }
        };
        let place = self.kernel.accesses[access].place;
        if let Place::Buffer(buffer) = place {
            let (at, declared) = (self.kernel.accesses[access].span, self.kernel.buffers[buffer].span);
            let message = format!("{name} counts {what}: its counter is in global memory");
            let diagnostic = Diagnostic::new(Code::CALL, at, message).label(declared, "an array of one block");
            self.error(diagnostic.help("pass a tensor of zeros, `sem: &mut Tensor<u32, (T,)>`"));
            return None;
        }
        self.check_writable(place, argument);
        if self.kernel.place_dtype(place) != tile_ir::ir::DtypeRef::Is(Dtype::U32) {
            let at = self.mark(argument);
            self.rustc(Diagnostic::new(Code::TYPE, at, "the counter is a u32"));
            return None;
        }
        Some(access)
    }

    fn atomic(&mut self, op: AtomicOp, function: &Function<'_>, call: &ExprCall, used: bool, range: Range) -> Called {
        // The value is read before the place, as the shadow does.
        let value = self.expr(&call.args[1]);
        let name = &function.name;
        let from = self.block.len();
        let target = match strip(&call.args[0]) {
            Expr::Reference(reference) => {
                if reference.mutability.is_none() {
                    let at = self.mark(reference.and_token.span);
                    self.rustc(Diagnostic::new(Code::TYPE, at, "an atomic writes its place: pass `&mut`"));
                }
                match strip(&reference.expr) {
                    Expr::Index(_) | Expr::Unary(_) => self.element_place(&reference.expr),
                    other => {
                        let at = self.mark(other);
                        let message = format!("`{name}` takes an element of a tensor or shared array");
                        self.unsupported(
                            Diagnostic::new(Code::CALL, at, message).help(format!("{name}(&mut s[i], v)")),
                        );
                        None
                    }
                }
            }
            Expr::MethodCall(masked) if masked.method == "masked_mut" => self.masked(masked),
            other => {
                let at = self.mark(other);
                let message = format!("`{name}` takes the place it changes by `&mut`");
                self.unsupported(Diagnostic::new(Code::CALL, at, message).help(format!("{name}(&mut s[i], v)")));
                None
            }
        };
        let mut value = [value];
        self.spill(&mut value, from);
        let (Some(access), [Some(value)]) = (target, value) else { return Called::Poison };
        let place = self.kernel.accesses[access].place;
        let (dtype, place_name) = (self.kernel.place_dtype(place), self.kernel.place_name(place).to_owned());
        if let Place::Buffer(buffer) = place
            && self.kernel.buffers[buffer].scope == Scope::Local
        {
            let at = self.kernel.accesses[access].span;
            let declared = self.kernel.buffers[buffer].span;
            let message = format!("`{name}` on `{place_name}`, which every thread has for itself");
            let diagnostic = Diagnostic::new(Code::CALL, at, message).label(declared, "a per-thread array");
            self.error(diagnostic.help(format!("write `{place_name}[..] += v`, or declare it with `alloc_shared`")));
            return Called::Poison;
        }
        if !self.kernel.accesses[access].masked {
            self.check_writable(place, &call.args[0]);
        }
        let unfit: Vec<&str> = self.dtypes(dtype).into_iter().filter(|&d| !op.supports(d)).map(Dtype::name).collect();
        if let Some(first) = unfit.first() {
            let at = self.kernel.accesses[access].span;
            let supported = if op == AtomicOp::Add { "f32, i32 and u32" } else { "i32 and u32" };
            let message =
                format!("`{name}` does not exist for {first}: `{place_name}` holds `{}`", self.dtype_name(dtype));
            let diagnostic = Diagnostic::new(Code::DTYPE, at, message).note(format!("it exists for {supported}"));
            self.unsupported(diagnostic.help(format!("accumulate in an array of one of {supported}")));
            return Called::Poison;
        }
        if self.demand(value, Type::Value(dtype)).is_none() {
            return Called::Poison;
        }
        let span = self.mark(range);
        let dst = used.then(|| self.temporary(Type::Value(dtype), span));
        self.emit(StmtKind::Atomic { op, access, value, dst }, span);
        dst.map_or(Called::Done, |dst| Called::Value(self.var(dst, span)))
    }

    /// `device_print("i = {}, v = {}", i, v)`.
    fn print(&mut self, call: &ExprCall, range: Range) -> Called {
        const HELP: &str = "device_print(\"i = {}, v = {}\", i, v);";
        let format = self.text(call.args.first(), call, HELP);
        let values: Vec<&Expr> = call.args.iter().skip(1).collect();
        let args = self.operands(&values);
        let (Some(format), Some(args)) = (format, args) else { return Called::Poison };
        match placeholders(&format) {
            Some(found) if found == args.len() => {}
            found => {
                let at = self.mark(&call.args[0]);
                let message = match found {
                    Some(found) => format!("the text has {found} `{{}}` for {} values", args.len()),
                    None => "a value's place in the text is written `{}`".to_owned(),
                };
                self.error(Diagnostic::new(Code::CALL, at, message).help(HELP));
                return Called::Poison;
            }
        }
        self.simple(StmtKind::Print { format, args }, range)
    }

    fn assert(&mut self, call: &ExprCall, range: Range) -> Called {
        let cond = self.expr(&call.args[0]).and_then(|cond| self.demand(cond, Type::BOOL));
        let message = self.text(Some(&call.args[1]), call, "device_assert(i < n, \"i is in range\");");
        let (Some(cond), Some(message)) = (cond, message) else { return Called::Poison };
        self.simple(StmtKind::Assert { cond, message }, range)
    }

    fn text(&mut self, argument: Option<&Expr>, call: &ExprCall, help: &str) -> Option<String> {
        let literal = match argument.map(strip) {
            Some(Expr::Lit(literal)) => match &literal.lit {
                Lit::Str(text) => return Some(text.value()),
                _ => argument,
            },
            other => other,
        };
        let at = match literal {
            Some(expr) => self.mark(expr),
            None => self.mark(call.paren_token.span),
        };
        let diagnostic = Diagnostic::new(Code::CALL, at, "a text in quotes is needed here");
        self.unsupported(diagnostic.help(help));
        None
    }
}

/// How many `{}` a text has; none if it has any other placeholder.
fn placeholders(format: &str) -> Option<usize> {
    let (mut count, mut rest) = (0, format.chars().peekable());
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('{', Some('{')) | ('}', Some('}')) => {
                rest.next();
            }
            ('{', Some('}')) => {
                rest.next();
                count += 1;
            }
            ('{' | '}', _) => return None,
            _ => {}
        }
    }
    Some(count)
}
