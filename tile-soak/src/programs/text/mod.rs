//! A program as the source text that an author would write.

pub mod outlined;

use super::tree::*;
use std::fmt::Write;

/// What `#[tile_kernel(..)]` holds, and the function below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The options of the attribute.
    pub attribute: String,
    /// The function.
    pub item: String,
    /// The functions that it calls, by name.
    pub functions: Vec<(String, Source)>,
}

impl Source {
    /// All of it, as a file holds it.
    pub fn file(&self) -> String {
        let written = |name: &str, source: &Source| {
            let options = &source.attribute;
            let options = if options.is_empty() { String::new() } else { format!("({options})") };
            format!("#[{name}{options}]\n{}", source.item)
        };
        let mut text: String = self.functions.iter().map(|(_, f)| written("tile_fn", f) + "\n").collect();
        text += &written("tile_kernel", self);
        text
    }
}

/// The text of a program.
pub fn print(program: &Program) -> Source {
    let printer = Printer { program };
    let mut functions: Vec<(String, Source)> =
        program.functions.iter().map(|f| (f.name.clone(), printer.function(f))).collect();
    outlined::each(&program.body, &mut |name, body| {
        functions.push((name.into(), outlined::function(program, name, body)))
    });
    Source { attribute: printer.attribute(), item: printer.item(), functions }
}

struct Printer<'a> {
    program: &'a Program,
}

impl Printer<'_> {
    fn attribute(&self) -> String {
        let program = self.program;
        let mut options = Vec::new();
        if !program.consts.is_empty() {
            let names: Vec<&str> = program.consts.iter().map(|(n, _)| n.as_str()).collect();
            let values: Vec<String> = program.consts.iter().map(|(_, v)| v.to_string()).collect();
            options.push(match (names.as_slice(), values.as_slice()) {
                ([name], [value]) => format!("instances({name} = {value})"),
                _ => format!("instances(({}) in [({})])", names.join(", "), values.join(", ")),
            });
        }
        if let Some(ty) = program.generic {
            options.push(format!("dtypes(T in [{}])", ty.name()));
        }
        if !program.specialized.is_empty() {
            options.push(format!("specialize({})", program.specialized.join(", ")));
        }
        let mut names: Vec<&str> = program.functions.iter().map(|f| f.name.as_str()).collect();
        outlined::each(&program.body, &mut |name, _| names.push(name));
        if !names.is_empty() {
            options.push(format!("uses({})", names.join(", ")));
        }
        if program.hopper {
            options.push("targets(sm_90a)".into());
        }
        options.extend(program.options.iter().cloned());
        // Statements are drawn without asking who reads what they compute.
        options.push("lints(TK0608 = \"off\")".into());
        options.join(", ")
    }

    fn item(&self) -> String {
        let program = self.program;
        let mut generics: Vec<String> = program.generic.iter().map(|_| "T".to_owned()).collect();
        generics.extend(program.consts.iter().map(|(name, _)| format!("const {name}: usize")));
        let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let mut text = format!("pub fn {}{generics}(\n", program.name);
        let (spaces, tensors): (Vec<&Array>, Vec<&Array>) =
            program.tensors.iter().partition(|t| t.kind == Kind::Workspace);
        for tensor in tensors {
            let mutable = if tensor.kind == (Kind::Tensor { mutable: true }) { "mut " } else { "" };
            let ty = format!("&{mutable}Tensor<{}>", self.tensor_type(tensor));
            let _ = match program.optional.iter().any(|(name, _)| *name == tensor.name) {
                true => writeln!(text, "    {}: Option<{ty}>,", tensor.name),
                false => writeln!(text, "    {}: {ty},", tensor.name),
            };
        }
        for (name, ty, _) in &program.scalars {
            let _ = writeln!(text, "    {name}: {},", self.ty(*ty));
        }
        for space in spaces {
            let _ = writeln!(text, "    {}: &mut Workspace<{}>,", space.name, self.tensor_type(space));
        }
        text.push_str(") {\n");
        let mut lines = Lines { printer: self, text, depth: 1, is_function: false };
        lines.launch();
        lines.statements(&program.body);
        lines.text.push_str("}\n");
        lines.text
    }

    /// A function, which has the kernel's `T` where it speaks of the type.
    fn function(&self, function: &Function) -> Source {
        let params: Vec<String> =
            function.params.iter().map(|(name, ty)| format!("{name}: {}", self.ty(*ty))).collect();
        let (generics, attribute) = match self.program.generic {
            Some(ty) if is_about(function, ty) => ("<T: Float>", format!("dtypes(T in [{}])", ty.name())),
            _ => ("", String::new()),
        };
        let value = self.expr(&function.value);
        let body = if function.has_statement { format!("let r = {value};\n    r") } else { value };
        let (name, ty) = (&function.name, self.ty(function.value.ty()));
        let item = format!("fn {name}{generics}({}) -> {ty} {{\n    {body}\n}}\n", params.join(", "));
        Source { attribute, item, functions: Vec::new() }
    }

    fn ty(&self, ty: Ty) -> &'static str {
        if self.program.generic == Some(ty) { "T" } else { ty.name() }
    }

    /// `f32, (N, Fixed<4>)`
    fn tensor_type(&self, tensor: &Array) -> String {
        let extent = |e: &Extent| match e {
            Extent::Dim(name) => name.clone(),
            Extent::Fixed(value) => format!("Fixed<{value}>"),
        };
        let extents: Vec<String> = tensor.extents.iter().map(extent).collect();
        let comma = if extents.len() == 1 { "," } else { "" };
        format!("{}, ({}{comma})", self.ty(tensor.ty), extents.join(", "))
    }

    fn expr(&self, expr: &Expr) -> String {
        self.within(expr, 0)
    }

    /// The text, in parentheses where it binds weaker than its surroundings.
    fn within(&self, expr: &Expr, outer: u8) -> String {
        let (text, own) = match expr {
            Expr::Int(value) if *value < 0 => (value.to_string(), 11),
            Expr::Int(value) => (value.to_string(), 13),
            Expr::Lit(ty, value) => (self.literal(*ty, *value), if *value < 0.0 { 11 } else { 13 }),
            Expr::Name(name, _) => (name.clone(), 13),
            Expr::Load { array, at, masked, .. } => (self.load(array, at, *masked), 13),
            Expr::Bin(op @ (Op::Min | Op::Max | Op::CeilDiv), a, b) => {
                (format!("{}({}, {})", op.symbol(), self.expr(a), self.expr(b)), 13)
            }
            Expr::Bin(op, a, b) => {
                let own = precedence(*op);
                // Comparisons do not chain; on the right everything of the same strength is in parentheses.
                let left = if op.is_condition() && !matches!(op, Op::And | Op::Or) { own + 1 } else { own };
                (format!("{} {} {}", self.within(a, left), op.symbol(), self.within(b, own + 1)), own)
            }
            Expr::Neg(x) => (format!("-{}", self.within(x, 12)), 11),
            Expr::Not(x) => (format!("!{}", self.within(x, 12)), 11),
            Expr::Call(function, args) => {
                let args: Vec<String> = args.iter().map(|a| self.expr(a)).collect();
                (format!("{}({})", function.name(), args.join(", ")), 13)
            }
            Expr::Choose { lazy: true, c, a, b } => {
                (format!("if {} {{ {} }} else {{ {} }}", self.expr(c), self.expr(a), self.expr(b)), 0)
            }
            Expr::Choose { lazy: false, c, a, b } => {
                (format!("select({}, {}, {})", self.expr(c), self.expr(a), self.expr(b)), 13)
            }
            // A literal in front of a method needs its type, which an index has by its place only.
            // In front of `<` a type would begin a list of generics.
            Expr::Cast(ty, x) if x.ty() == Ty::Index && self.is_primitive(*ty) => {
                (format!("({} as {})", self.within(x, 10), ty.name()), 13)
            }
            Expr::Cast(ty, x) if x.ty() == Ty::Index => {
                (format!("({} as f32).cast::<{}>()", self.within(x, 10), self.ty(*ty)), 13)
            }
            Expr::Cast(ty, x) => (format!("{}.cast::<{}>()", self.within(x, 12), self.ty(*ty)), 13),
            Expr::Apply { function, args, .. } => {
                let found = self.program.functions.iter().find(|f| f.name == *function);
                let is_generic = found.zip(self.program.generic).is_some_and(|(f, ty)| is_about(f, ty));
                let args: Vec<String> = args.iter().map(|a| self.expr(a)).collect();
                (format!("{function}{}({})", if is_generic { "::<T>" } else { "" }, args.join(", ")), 13)
            }
        };
        if own < outer { format!("({text})") } else { text }
    }

    /// Whether Rust's `as` knows the type.
    fn is_primitive(&self, ty: Ty) -> bool {
        !ty.is_half() && self.program.generic != Some(ty)
    }

    fn literal(&self, ty: Ty, value: f64) -> String {
        match ty {
            Ty::Bool => (value != 0.0).to_string(),
            Ty::I32 | Ty::U32 => format!("{}{}", value as i64, ty.name()),
            Ty::Index => (value as i64).to_string(),
            Ty::F32 if self.program.generic != Some(Ty::F32) => format!("{value:?}f32"),
            float => format!("lit::<{}>({value:?})", self.ty(float)),
        }
    }

    fn load(&self, array: &str, at: &[Expr], masked: bool) -> String {
        let at: Vec<String> = at.iter().map(|e| self.expr(e)).collect();
        let at = at.join(", ");
        match (masked, at.contains(", ") && self.rank(array) > 1) {
            (true, _) => format!("{array}.masked([{at}])"),
            (false, true) => format!("{array}[[{at}]]"),
            (false, false) => format!("{array}[{at}]"),
        }
    }

    fn rank(&self, array: &str) -> usize {
        let all = self.program.tensors.iter().chain(&self.program.arrays);
        all.into_iter().find(|a| a.name == array).map_or(1, |a| a.extents.len())
    }
}

/// Whether a function speaks of a type.
fn is_about(function: &Function, ty: Ty) -> bool {
    let mut found = function.params.iter().any(|(_, t)| *t == ty);
    function.value.visit(&mut |e| found |= e.ty() == ty);
    found
}

/// How strongly an operator binds, as in Rust.
fn precedence(op: Op) -> u8 {
    match op {
        Op::Or => 1,
        Op::And => 2,
        Op::Lt | Op::Le | Op::Gt | Op::Ge | Op::Eq | Op::Ne => 3,
        Op::BitOr => 4,
        Op::BitXor => 5,
        Op::BitAnd => 6,
        Op::Shl | Op::Shr => 7,
        Op::Add | Op::Sub => 8,
        Op::Mul | Op::Div | Op::Rem => 9,
        Op::Min | Op::Max | Op::CeilDiv => 13,
    }
}

struct Lines<'a> {
    printer: &'a Printer<'a>,
    text: String,
    depth: usize,
    /// Whether these are of a function, where arrays are references.
    is_function: bool,
}

impl Lines<'_> {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{:indent$}{line}", "", indent = 4 * self.depth);
    }

    fn launch(&mut self) {
        let program = self.printer.program;
        if !program.blocks.is_empty() {
            let names: Vec<&str> = program.blocks.iter().map(|(n, _)| n.as_str()).collect();
            let extents: Vec<String> = program.blocks.iter().map(|(_, e)| self.printer.expr(e)).collect();
            let left =
                if names.iter().all(|n| *n == "_") { String::new() } else { format!("let [{}] = ", names.join(", ")) };
            self.line(&format!("{left}blocks([{}]);", extents.join(", ")));
        }
        let names: Vec<&str> = program.threads.iter().map(|(n, _)| n.as_str()).collect();
        let extents: Vec<String> = program.threads.iter().map(|(_, n)| n.to_string()).collect();
        let left =
            if names.iter().all(|n| *n == "_") { String::new() } else { format!("let [{}] = ", names.join(", ")) };
        self.line(&format!("{left}threads([{}]);", extents.join(", ")));
        if !program.cluster.is_empty() {
            let extents: Vec<String> = program.cluster.iter().map(i64::to_string).collect();
            self.line(&format!("cluster([{}]);", extents.join(", ")));
        }
        if let Some(panel) = program.panel {
            let scalar = program.scalars.iter().any(|(name, ..)| name == "panel");
            self.line(&format!("use_swizzle({});", if scalar { "panel".to_owned() } else { panel.to_string() }));
        }
        for array in &program.arrays {
            let extents: Vec<String> = program.shape(array).iter().map(|e| self.extent(*e)).collect();
            let (function, after) = match &array.kind {
                Kind::Shared { swizzle } => ("alloc_shared", swizzle.map(|s| format!(".swizzle({s})"))),
                Kind::Local => ("alloc_local", None),
                Kind::Fragment | Kind::Tensor { .. } | Kind::Workspace => ("alloc_fragment", None),
            };
            let ty = self.printer.ty(array.ty);
            let after = after.unwrap_or_default();
            self.line(&format!("let mut {} = {function}::<{ty}>([{}]){after};", array.name, extents.join(", ")));
        }
    }

    /// An extent, by the name of a constant parameter or specialised dim that has this value.
    fn extent(&self, value: i64) -> String {
        let known = self.printer.program.consts.iter().find(|(_, v)| *v == value);
        let program = self.printer.program;
        let dims = program.dims.iter().filter(|(name, _)| program.specialized.contains(name));
        let known = known.or_else(|| dims.clone().find(|(_, v)| *v == value && value > 1));
        known.map_or_else(|| value.to_string(), |(name, _)| name.clone())
    }

    fn block(&mut self, head: &str, body: &[Stmt]) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        self.statements(body);
        self.depth -= 1;
        self.line("}");
    }

    fn statements(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.statement(stmt);
        }
    }

    fn place(&self, array: &str, at: &[Expr]) -> String {
        self.printer.load(array, at, false)
    }

    fn statement(&mut self, stmt: &Stmt) {
        let printer = self.printer;
        let expr = |e: &Expr| printer.expr(e);
        match stmt {
            Stmt::Let { name, mutable, value } => {
                let keyword = if *mutable { "let mut" } else { "let" };
                self.line(&format!("{keyword} {name} = {};", expr(value)));
            }
            Stmt::Assign { name, op, value } => {
                let op = op.map_or("", Op::symbol);
                self.line(&format!("{name} {op}= {};", expr(value)));
            }
            Stmt::Store { array, at, op, value, masked } => {
                let at: Vec<Expr> = at.clone();
                let op = op.map_or("", Op::symbol);
                let place = match masked {
                    true => format!("*{array}.masked_mut([{}])", at.iter().map(expr).collect::<Vec<_>>().join(", ")),
                    false => self.place(array, &at),
                };
                self.line(&format!("{place} {op}= {};", expr(value)));
            }
            Stmt::If { cond, then, els } => {
                self.line(&format!("if {} {{", expr(cond)));
                self.depth += 1;
                self.statements(then);
                self.depth -= 1;
                if !els.is_empty() {
                    self.line("} else {");
                    self.depth += 1;
                    self.statements(els);
                    self.depth -= 1;
                }
                self.line("}");
            }
            Stmt::IfGiven { tensor, then, els } => {
                self.line(&format!("if let Some({tensor}) = {tensor} {{"));
                self.depth += 1;
                self.statements(then);
                self.depth -= 1;
                self.block("} else", els);
            }
            Stmt::For { var, from, to, step, kind, body } => {
                let range = format!("{}..{}", printer.within(from, 8), printer.within(to, 8));
                let head = match (kind, step) {
                    (Loop::Plain, 1) => range,
                    (Loop::Plain, step) => format!("({range}).step_by({step})"),
                    (Loop::Partly(n), 1) => format!("serial({range}).unroll({n})"),
                    (Loop::Partly(n), step) => format!("serial({range}).step_by({step}).unroll({n})"),
                    (Loop::Unroll, 1) => format!("unroll({range})"),
                    (Loop::Unroll, step) => format!("unroll({range}).step_by({step})"),
                    (Loop::Vectorized, _) => format!("vectorized({range})"),
                    (Loop::Pipelined { stages, schedule: None }, _) => format!("pipelined({range}, {stages})"),
                    (Loop::Pipelined { stages, schedule: Some(name) }, _) => {
                        format!("pipelined({range}, {stages}).schedule({name})")
                    }
                };
                self.block(&format!("for {var} in {head}"), body);
            }
            Stmt::Parallel { vars, extents, body } => {
                let extents: Vec<String> = extents.iter().map(|e| self.extent(*e)).collect();
                self.block(&format!("for [{}] in parallel([{}])", vars.join(", "), extents.join(", ")), body);
            }
            Stmt::Persistent { vars, extents, call, body } => {
                let extents: Vec<String> = extents.iter().map(expr).collect();
                self.block(&format!("for [{}] in persistent([{}]){call}", vars.join(", "), extents.join(", ")), body);
            }
            Stmt::Copy { from, to, call } => {
                let (from, to) = (self.tile(from, false), self.tile(to, true));
                self.line(&format!("copy({from}, {to}){call};"));
            }
            Stmt::Fill { array, value: None } => self.line(&format!("clear({});", self.whole(array, true))),
            Stmt::Fill { array, value: Some(value) } => {
                self.line(&format!("fill({}, {});", self.whole(array, true), expr(value)));
            }
            Stmt::Gemm { a, b, acc, policy, clear, tf32 } => {
                let operand =
                    |(name, t): &(String, bool)| if *t { format!("{name}.t()") } else { self.whole(name, false) };
                let policy = policy.map(|p| format!(".policy({p})")).unwrap_or_default();
                let clear = if *clear { ".clear()" } else { "" };
                let tf32 = if *tf32 { ".tf32()" } else { "" };
                let acc = self.whole(acc, true);
                self.line(&format!("gemm({}, {}, {acc}){policy}{clear}{tf32};", operand(a), operand(b)));
            }
            Stmt::Reduce { how, from, to, axis } => {
                let (from, to) = (self.whole(from, false), self.whole(to, true));
                self.line(&format!("reduce({}, {from}, {to}, {axis});", how.name()));
            }
            Stmt::Sync => self.line("sync_threads();"),
            Stmt::SyncWarp => self.line("sync_warp();"),
            Stmt::AllReduce { name, how, value, axis } => {
                self.line(&format!("let {name} = thread_allreduce({}, {}, {axis});", how.name(), expr(value)));
            }
            Stmt::AllReduceLocal { how, array, axis } => {
                self.line(&format!("thread_allreduce({}, &mut {array}, {axis});", how.name()));
            }
            Stmt::WarpReduce { name, how, value } => {
                self.line(&format!("let {name} = warp_reduce({}, {});", how.name(), expr(value)));
            }
            Stmt::Warp { name, ask, value } => {
                let value = expr(value);
                let call = match ask {
                    Ask::Xor(mask) => format!("shfl_xor({value}, {mask})"),
                    Ask::Down(by) => format!("shfl_down({value}, {by})"),
                    Ask::Up(by) => format!("shfl_up({value}, {by})"),
                    Ask::Lane(lane) => format!("shfl({value}, {lane})"),
                    Ask::Ballot => format!("ballot({value})"),
                    Ask::Any => format!("any({value})"),
                    Ask::All => format!("all({value})"),
                };
                self.line(&format!("let {name} = {call};"));
            }
            Stmt::Atomic { old, how, array, at, value } => {
                let function = match how {
                    Combine::Sum => "atomic_add",
                    Combine::Max => "atomic_max",
                    Combine::Min => "atomic_min",
                };
                let left = old.as_ref().map(|name| format!("let {name} = ")).unwrap_or_default();
                self.line(&format!("{left}{function}(&mut {}, {});", self.place(array, at), expr(value)));
            }
            Stmt::LastArriver { counter, at, count, body } => {
                self.block(&format!("if last_arriver(&mut {}, {})", self.place(counter, at), expr(count)), body);
            }
            Stmt::Outlined { name, body } => self.line(&outlined::call(printer.program, name, body)),
            Stmt::ClusterReduce { how, array } => {
                self.line(&format!("cluster_reduce({}, &mut {array});", how.name()));
            }
            Stmt::ClusterExchange { from, to } => self.line(&format!("cluster_exchange(&{from}, &mut {to});")),
        }
    }

    /// An array as an argument of a statement.
    fn whole(&self, name: &str, mutable: bool) -> String {
        match (self.is_function, mutable) {
            (true, _) => name.to_owned(),
            (false, true) => format!("&mut {name}"),
            (false, false) => format!("&{name}"),
        }
    }

    fn tile(&self, tile: &Tile, to: bool) -> String {
        let printer = self.printer;
        match (tile, to) {
            (Tile::Whole(name), to) => self.whole(name, to),
            (Tile::At(name, at), _) => {
                let at: Vec<String> = at.iter().map(|e| printer.expr(e)).collect();
                format!("{name}.at{}([{}])", if to { "_mut" } else { "" }, at.join(", "))
            }
            (Tile::Span(name, spans), _) => {
                let spans = spans.iter().map(|(a, b)| format!("{}..{}", printer.within(a, 8), printer.within(b, 8)));
                let spans: Vec<String> = spans.collect();
                format!("{name}.tile{}([{}])", if to { "_mut" } else { "" }, spans.join(", "))
            }
            (Tile::Transposed(name), _) => format!("{name}.t()"),
        }
    }
}
