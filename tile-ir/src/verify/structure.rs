//! Well-formedness: what every pass relies on.

use crate::ir::parts::alike;
use crate::ir::reduction::PARTS;
use crate::ir::*;

/// Deepest nesting of expressions.
const EXPR_DEPTH: u32 = 256;
/// Deepest nesting of statements.
const STMT_DEPTH: u32 = 64;
/// Most `else if`s on the way to a statement.
const CHAIN: u32 = 256;
/// Most nodes of an expression whose shared parts are written out.
const EXPR_WEIGHT: u64 = 1 << 16;
/// Most nodes of all expressions of a kernel, written out.
const TOTAL_WEIGHT: u64 = 1 << 22;

/// Checks that a kernel is well-formed; the error says what is not.
pub fn structure(kernel: &Kernel) -> Result<(), String> {
    let mut checker = Checker {
        kernel,
        values: SecondaryMap::new(),
        exprs: vec![Mark::New; kernel.exprs.len()],
        owned: vec![false; kernel.stmts.len()],
    };
    checker.tables()?;
    checker.streams()?;
    checker.specialize()?;
    checker.launch()?;
    checker.expressions()?;
    checker.statements()?;
    checker.exits()
}

/// Progress on an expression.
#[derive(Clone, Copy)]
enum Mark {
    New,
    Open,
    Done { depth: u32, weight: u64 },
}

struct Checker<'k> {
    kernel: &'k Kernel,
    /// What an immutable variable stands for.
    values: SecondaryMap<VarId, Option<ExprId>>,
    exprs: Vec<Mark>,
    owned: Vec<bool>,
}

type Checked = Result<(), String>;

fn within<K: EntityRef + std::fmt::Display, V>(table: &PrimaryMap<K, V>, id: K) -> Checked {
    if table.is_valid(id) { Ok(()) } else { Err(format!("{id} does not exist")) }
}

fn rank(rank: usize, most: usize, what: &str) -> Checked {
    if (1..=most).contains(&rank) { Ok(()) } else { Err(format!("{what} has rank {rank}")) }
}

impl Checker<'_> {
    /// An optional tensor that a launch leaves out may be named.
    fn streams(&self) -> Checked {
        for &param in &self.kernel.attributes.stream {
            within(&self.kernel.params, param)?;
            if !matches!(self.kernel.params[param].kind, ParamKind::Tensor { .. } | ParamKind::Absent) {
                return Err(format!("{param} is streamed and is not a tensor"));
            }
        }
        for &param in &self.kernel.attributes.partial {
            within(&self.kernel.params, param)?;
            if !matches!(self.kernel.params[param].kind, ParamKind::Tensor { mutable: true, .. } | ParamKind::Absent) {
                return Err(format!("{param} is partial and is not a tensor that may be written"));
            }
        }
        for &param in self.kernel.attributes.dependent.iter().flat_map(|dependent| &dependent.independent) {
            within(&self.kernel.params, param)?;
            if !matches!(self.kernel.params[param].kind, ParamKind::Tensor { .. } | ParamKind::Absent) {
                return Err(format!("{param} is independent and is not a tensor"));
            }
        }
        Ok(())
    }

    fn specialize(&self) -> Checked {
        let Some(Specialize { dims, max, span }) = &self.kernel.attributes.specialize else { return Ok(()) };
        self.span(*span)?;
        if dims.is_empty() || dims.len() > Specialize::MOST_DIMS || *max == 0 {
            return Err(format!("{} dims are specialised, of which {max} variants are kept", dims.len()));
        }
        for (at, dim) in dims.iter().enumerate() {
            within(&self.kernel.dims, *dim)?;
            let extent =
                |p: &Param| matches!(&p.kind, ParamKind::Tensor { shape, .. } if shape.contains(&Extent::Dim(*dim)));
            if dims[..at].contains(dim) || !self.kernel.params.values().any(extent) {
                return Err(format!("{dim} is specialised and is no tensor's extent, or is specialised twice"));
            }
        }
        Ok(())
    }

    fn span(&self, span: SpanId) -> Checked {
        within(&self.kernel.spans, span)
    }

    fn dtype(&self, dtype: DtypeRef) -> Checked {
        match dtype {
            DtypeRef::Is(_) => Ok(()),
            DtypeRef::Param(param) => within(&self.kernel.type_params, param),
        }
    }

    fn ty(&self, ty: Type) -> Checked {
        match ty {
            Type::Index => Ok(()),
            Type::Value(dtype) => self.dtype(dtype),
        }
    }

    fn expr(&self, expr: ExprId) -> Checked {
        within(&self.kernel.exprs, expr)
    }

    fn place(&self, place: Place) -> Result<usize, String> {
        match place {
            Place::Tensor(param) => {
                within(&self.kernel.params, param)?;
                match &self.kernel.params[param].kind {
                    ParamKind::Tensor { shape, .. } => Ok(shape.len()),
                    ParamKind::Scalar { .. } | ParamKind::Absent => {
                        Err(format!("{param} is accessed but is no tensor"))
                    }
                }
            }
            Place::Buffer(buffer) => {
                within(&self.kernel.buffers, buffer)?;
                Ok(self.kernel.buffers[buffer].extents.len())
            }
        }
    }

    fn writable(&self, place: Place) -> Checked {
        match place {
            Place::Tensor(param) => match self.kernel.params[param].kind {
                ParamKind::Tensor { mutable: true, .. } => Ok(()),
                _ => Err(format!("{param} is written but is not `&mut`")),
            },
            Place::Buffer(_) => Ok(()),
        }
    }

    fn tables(&mut self) -> Checked {
        let kernel = self.kernel;
        for param in kernel.type_params.values() {
            self.span(param.span)?;
        }
        for param in kernel.consts.values() {
            self.span(param.span)?;
        }
        for dim in kernel.dims.values() {
            self.span(dim.span)?;
            if dim.value.is_some_and(|value| !(0..=i64::from(i32::MAX)).contains(&value)) {
                return Err(format!("the dim {} is out of range", dim.name));
            }
        }
        for (id, param) in kernel.params.iter() {
            self.span(param.span)?;
            match &param.kind {
                ParamKind::Tensor { dtype, shape, .. } => {
                    self.dtype(*dtype)?;
                    rank(shape.len(), MOST_TENSOR_AXES, &id.to_string())?;
                    for extent in shape {
                        match extent {
                            Extent::Dim(dim) => within(&kernel.dims, *dim)?,
                            Extent::Fixed(expr) => self.expr(*expr)?,
                        }
                    }
                }
                ParamKind::Scalar { ty } => self.ty(*ty)?,
                ParamKind::Absent => {}
            }
        }
        for instance in &kernel.instances {
            if instance.dtypes.len() != kernel.type_params.len() || instance.consts.len() != kernel.consts.len() {
                return Err("an instance has the wrong number of parameters".into());
            }
            for (dim, value) in &instance.dims {
                within(&kernel.dims, *dim)?;
                if !(0..=i64::from(i32::MAX)).contains(value) {
                    return Err(format!("{dim} is {value} in an instance"));
                }
            }
            if !instance.absent.is_empty() {
                return Err("a declared instance leaves out a parameter".into());
            }
            if !instance.class.is_widest() {
                return Err("a declared instance has a lesser alignment class".into());
            }
            let allowed = kernel.type_params.values().zip(&instance.dtypes).all(|(p, d)| p.allowed.contains(d));
            if !allowed || instance.consts.iter().any(|c| !(-LARGEST_LITERAL..=LARGEST_LITERAL).contains(c)) {
                return Err("an instance's parameter is out of range".into());
            }
        }
        for require in &kernel.requires {
            self.span(require.span)?;
            self.expr(require.cond)?;
        }
        for var in kernel.vars.values() {
            self.span(var.span)?;
            self.ty(var.ty)?;
        }
        for (id, buffer) in kernel.buffers.iter() {
            self.span(buffer.span)?;
            self.dtype(buffer.dtype)?;
            rank(buffer.extents.len(), MOST_ARRAY_AXES, &id.to_string())?;
            buffer.extents.iter().try_for_each(|e| self.expr(*e))?;
        }
        for (id, access) in kernel.accesses.iter() {
            self.span(access.span)?;
            let rank = self.place(access.place)?;
            if access.indices.len() != rank {
                return Err(format!("{id} has {} indices for {rank} axes", access.indices.len()));
            }
            access.indices.iter().try_for_each(|e| self.expr(*e))?;
        }
        Ok(())
    }

    fn launch(&self) -> Checked {
        let kernel = self.kernel;
        for (axes, is_grid) in [(&kernel.grid, true), (&kernel.threads, false)] {
            if axes.len() > 3 {
                return Err("more than 3 grid or thread axes".into());
            }
            for (at, axis) in axes.iter().enumerate() {
                self.span(axis.span)?;
                self.expr(axis.extent)?;
                within(&kernel.vars, axis.var)?;
                let wanted = if is_grid { VarKind::Block(at as u8) } else { VarKind::Thread(at as u8) };
                if kernel.vars[axis.var].kind != wanted {
                    return Err(format!("{} is not bound to its axis", axis.var));
                }
            }
        }
        if kernel.cluster.len() > 3 {
            return Err("more than 3 cluster axes".into());
        }
        kernel.cluster.iter().chain(&kernel.swizzle).try_for_each(|e| self.expr(*e))?;
        // A binding without an axis would have no value.
        for (id, var) in kernel.vars.iter() {
            let bound = match var.kind {
                VarKind::Block(at) => kernel.grid.get(usize::from(at)).is_some_and(|a| a.var == id),
                VarKind::Thread(at) => kernel.threads.get(usize::from(at)).is_some_and(|a| a.var == id),
                _ => true,
            };
            if !bound {
                return Err(format!("{id} is bound to no axis"));
            }
        }
        Ok(())
    }

    /// Ids and arities of every expression, then that there is no cycle, also through immutable variables.
    fn expressions(&mut self) -> Checked {
        let kernel = self.kernel;
        for (id, expr) in kernel.exprs.iter() {
            self.span(expr.span)?;
            self.ty(expr.ty)?;
            match &expr.kind {
                ExprKind::Int(value) if !(-LARGEST_LITERAL..=LARGEST_LITERAL).contains(value) => {
                    return Err(format!("{id} is a literal out of range"));
                }
                ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) => {}
                ExprKind::Dim(dim) => within(&kernel.dims, *dim)?,
                ExprKind::Const(c) => within(&kernel.consts, *c)?,
                ExprKind::Bits(dtype) | ExprKind::Special(dtype, _) => self.dtype(*dtype)?,
                ExprKind::Scalar(param) => {
                    within(&kernel.params, *param)?;
                    if !matches!(kernel.params[*param].kind, ParamKind::Scalar { .. }) {
                        return Err(format!("{param} is read as a scalar but is a tensor"));
                    }
                }
                ExprKind::Var(var) => within(&kernel.vars, *var)?,
                ExprKind::Math(function, args) if args.len() != function.arity() => {
                    return Err(format!("{} with {} operands", function.name(), args.len()));
                }
                ExprKind::Cast(ty, _) => self.ty(*ty)?,
                ExprKind::Load(access) => within(&kernel.accesses, *access)?,
                ExprKind::Present(param) => {
                    within(&kernel.params, *param)?;
                    if !matches!(kernel.params[*param].kind, ParamKind::Tensor { optional: true, .. }) {
                        return Err(format!("{param} is asked for but is not optional"));
                    }
                }
                _ => {}
            }
            operands(kernel, &expr.kind).into_iter().try_for_each(|e| self.expr(e))?;
        }
        for stmt in kernel.stmts.values() {
            let StmtKind::Let { var, value: Some(value) } = stmt.kind else { continue };
            within(&kernel.vars, var)?;
            self.expr(value)?;
            if kernel.vars[var].kind == VarKind::Let && self.values[var].replace(value).is_some() {
                return Err(format!("{var} has two values"));
            }
        }
        let mut total = 0u64;
        for root in kernel.exprs.keys() {
            total = total.saturating_add(self.measure(root)?.1);
            if total > TOTAL_WEIGHT.saturating_add(64 * kernel.exprs.len() as u64) {
                return Err("the expressions are too large when written out".into());
            }
        }
        Ok(())
    }

    /// Depth and weight of an expression, depth first without recursion.
    fn measure(&mut self, root: ExprId) -> Result<(u32, u64), String> {
        let kernel = self.kernel;
        let mut stack = vec![root];
        while let Some(&expr) = stack.last() {
            if let Mark::Done { .. } = self.exprs[expr.index()] {
                stack.pop();
                continue;
            }
            let kind = &kernel.exprs[expr].kind;
            let mut below = operands(kernel, kind);
            // Passes look through immutable variables of the types that constants have.
            if let ExprKind::Var(var) = kind
                && let Some(value) = self.values[*var]
                && matches!(kernel.vars[*var].ty, Type::Index | Type::BOOL)
            {
                below.push(value);
            }
            self.exprs[expr.index()] = Mark::Open;
            let (mut depth, mut weight, mut waiting) = (0, 1u64, false);
            for next in below {
                match self.exprs[next.index()] {
                    Mark::Done { depth: d, weight: w } => (depth, weight) = (depth.max(d), weight.saturating_add(w)),
                    Mark::New => {
                        stack.push(next);
                        waiting = true;
                    }
                    Mark::Open => return Err(format!("{next} contains itself")),
                }
            }
            if waiting {
                continue;
            }
            if depth >= EXPR_DEPTH || weight > EXPR_WEIGHT {
                return Err(format!("{expr} is too deep or too large"));
            }
            self.exprs[expr.index()] = Mark::Done { depth: depth + 1, weight };
            stack.pop();
        }
        match self.exprs[root.index()] {
            Mark::Done { depth, weight } => Ok((depth, weight)),
            _ => Err(format!("{root} contains itself")),
        }
    }

    fn statements(&mut self) -> Checked {
        let kernel = self.kernel;
        for stmt in kernel.stmts.values() {
            self.span(stmt.span)?;
            self.statement(&stmt.kind)?;
        }
        // Ownership from the body, which also bounds the depth.
        let mut stack: Vec<(StmtId, u32, u32)> = kernel.body.iter().map(|s| (*s, 1, 0)).collect();
        while let Some((stmt, depth, chain)) = stack.pop() {
            within(&kernel.stmts, stmt)?;
            if std::mem::replace(&mut self.owned[stmt.index()], true) {
                return Err(format!("{stmt} stands in two places"));
            }
            if depth > STMT_DEPTH || chain > CHAIN {
                return Err(format!("{stmt} is nested too deeply"));
            }
            let kind = &kernel.stmts[stmt].kind;
            let is_if = |s: &StmtId| matches!(kernel.stmts.get(*s).map(|s| &s.kind), Some(StmtKind::If { .. }));
            if let StmtKind::If { then, otherwise, .. } = kind
                && let [next] = otherwise[..]
                && is_if(&next)
            {
                // `else if` is as deep as the `if`.
                stack.push((next, depth, chain + 1));
                stack.extend(then.iter().map(|s| (*s, depth + 1, chain)));
            } else {
                stack.extend(kind.bodies().into_iter().flatten().map(|s| (*s, depth + 1, chain)));
            }
        }
        Ok(())
    }

    /// Where a loop is left: its index is given its end less one, as the last statement of the iteration, in the body of this
    /// serial loop or in an `if` of it.
    fn exits(&self) -> Checked {
        let kernel = self.kernel;
        let mut expected = vec![false; kernel.stmts.len()];
        for stmt in kernel.stmts.values() {
            let StmtKind::For { var, end, kind: LoopKind::Serial { .. }, body, .. } = &stmt.kind else { continue };
            let mut last: Vec<StmtId> = body.last().copied().into_iter().collect();
            while let Some(stmt) = last.pop() {
                let kind = &kernel.stmts[stmt].kind;
                if let StmtKind::If { then, otherwise, .. } = kind {
                    last.extend(then.last().into_iter().chain(otherwise.last()));
                } else if let StmtKind::Assign { var: assigned, value } = kind
                    && assigned == var
                {
                    expected[stmt.index()] = self.is_last(*end, *value);
                }
            }
        }
        for (id, stmt) in kernel.stmts.iter() {
            if let StmtKind::Assign { var, .. } = stmt.kind
                && kernel.vars[var].kind == VarKind::Loop
                && !expected[id.index()]
            {
                return Err(format!("{id} assigns the index of a loop that it does not leave"));
            }
        }
        Ok(())
    }

    /// Whether a value is `end - 1`, or in a bound kernel the literal that it is.
    fn is_last(&self, end: ExprId, value: ExprId) -> bool {
        let kernel = self.kernel;
        match (&kernel.exprs[value].kind, kernel.const_index(end)) {
            (ExprKind::Int(value), Some(end)) => end.checked_sub(1) == Some(*value),
            (ExprKind::Binary(BinaryOp::Sub, from, one), _) => {
                kernel.const_index(*one) == Some(1) && alike(kernel, *from, end)
            }
            _ => false,
        }
    }

    fn assignable(&self, var: VarId) -> Checked {
        within(&self.kernel.vars, var)?;
        match self.kernel.vars[var].kind {
            VarKind::Mut => Ok(()),
            VarKind::Let if self.values[var].is_none() => Ok(()),
            _ => Err(format!("{var} is assigned but is not `mut`")),
        }
    }

    fn of_kind(&self, var: VarId, kind: VarKind) -> Checked {
        within(&self.kernel.vars, var)?;
        if self.kernel.vars[var].kind == kind { Ok(()) } else { Err(format!("{var} is bound by the wrong construct")) }
    }

    fn tile(&self, tile: &TileRef) -> Checked {
        self.span(tile.span)?;
        let rank = self.place(tile.place)?;
        for list in [&tile.start, &tile.extents] {
            if !list.is_empty() && list.len() != rank {
                return Err(format!("a tile has {} coordinates for {rank} axes", list.len()));
            }
            list.iter().try_for_each(|e| self.expr(*e))?;
        }
        Ok(())
    }

    fn matrix(&self, buffer: BufferId) -> Checked {
        within(&self.kernel.buffers, buffer)?;
        match self.kernel.buffers[buffer].extents.len() {
            2 => Ok(()),
            rank => Err(format!("{buffer} is a matrix of rank {rank}")),
        }
    }

    fn statement(&self, kind: &StmtKind) -> Checked {
        let mut found = Ok(());
        kind.each_part(&mut |part| {
            if found.is_ok() {
                found = self.part(kind, part);
            }
        });
        found?;
        self.shape(kind)
    }

    /// What holds for a part of any statement.
    fn part(&self, kind: &StmtKind, part: StmtPart<'_>) -> Checked {
        let kernel = self.kernel;
        match part {
            StmtPart::Value(expr) | StmtPart::Constant(expr) => self.expr(expr),
            StmtPart::Element(access, touch) => {
                within(&kernel.accesses, access)?;
                if touch.writes() { self.writable(kernel.accesses[access].place) } else { Ok(()) }
            }
            StmtPart::Tile(tile, touch) => {
                self.tile(tile)?;
                if touch.writes() { self.writable(tile.place) } else { Ok(()) }
            }
            StmtPart::Array(buffer, _) => within(&kernel.buffers, buffer),
            StmtPart::Binds(var) if kind.is_loop() => self.of_kind(var, VarKind::Loop),
            StmtPart::Binds(var) => {
                within(&kernel.vars, var)?;
                match kernel.vars[var].kind {
                    VarKind::Let | VarKind::Mut => Ok(()),
                    VarKind::Loop | VarKind::Block(_) | VarKind::Thread(_) => {
                        Err(format!("{var} is bound by the wrong construct"))
                    }
                }
            }
            // A loop's index: `exits` has looked where it stands and what it is given.
            StmtPart::Sets(var) => {
                within(&kernel.vars, var)?;
                let leaves = matches!(kind, StmtKind::Assign { .. }) && kernel.vars[var].kind == VarKind::Loop;
                if leaves { Ok(()) } else { self.assignable(var) }
            }
            StmtPart::Body(body) => body.iter().try_for_each(|s| within(&kernel.stmts, *s)),
            StmtPart::Report | StmtPart::BlockCollective | StmtPart::WarpCollective => Ok(()),
            StmtPart::BlockBarrier | StmtPart::WarpBarrier => Ok(()),
        }
    }

    /// What holds for the parts of one kind of statement together, each of which is in order.
    fn shape(&self, kind: &StmtKind) -> Checked {
        let kernel = self.kernel;
        if let StmtKind::Alloc { buffer } = kind {
            within(&kernel.buffers, *buffer)?;
        }
        if let StmtKind::Parallel { vars, extents, .. } = kind {
            rank(vars.len(), MOST_ARRAY_AXES, "a `parallel` loop")?;
            if vars.len() != extents.len() {
                return Err("a `parallel` loop has not one extent an index".into());
            }
        }
        if let StmtKind::Persistent { vars, extents, contiguous, counter, .. } = kind {
            rank(vars.len(), 3, "a `persistent` loop")?;
            if vars.len() != extents.len() {
                return Err("a `persistent` loop has not one extent an index".into());
            }
            if *contiguous && counter.is_some() {
                return Err("tiles that are counted do not follow each other".into());
            }
            if counter.is_some_and(|access| !self.is_counter(access)) {
                return Err("tiles are counted in an element of a u32 tensor".into());
            }
        }
        if let StmtKind::Tile(TileOp::Gemm { a, b, acc, .. }) = kind {
            for matrix in [a, b] {
                self.span(matrix.span)?;
                self.matrix(matrix.buffer)?;
            }
            self.matrix(*acc)?;
        }
        if let StmtKind::Tile(TileOp::ReduceTile { src, dst, axis, .. }) = kind {
            self.matrix(*src)?;
            let result = &kernel.buffers[*dst];
            // What binding makes of rows that a loop adds up.
            let parts = result.extents.get(1).and_then(|extent| kernel.const_index(*extent));
            let parts = parts == Some(PARTS.into()) && result.scope == Scope::Fragment && *axis == 1;
            let one = result.extents.len() == 1 && *axis < 2;
            if !(one || parts && result.extents.len() == 2) {
                return Err(
                    "a `reduce` is over axis 0 or 1 of two, into an array of one or of a row's four parts".into()
                );
            }
        }
        if let StmtKind::Tile(TileOp::ClusterReduce { tile, .. }) = kind
            && kernel.buffers[*tile].scope != Scope::Fragment
        {
            return Err("a cluster reduces a fragment".into());
        }
        if let StmtKind::Tile(TileOp::ClusterExchange { src, dst }) = kind
            && (src == dst || [src, dst].iter().any(|b| kernel.buffers[**b].scope != Scope::Shared))
        {
            return Err("a cluster exchanges the parts of two shared arrays".into());
        }
        if let StmtKind::Reduce { src, dst, axis, .. } = kind {
            if matches!(src, ReduceSource::Value(_)) && dst.is_none() {
                return Err("a reduction of a value has no result".into());
            }
            axis.iter().try_for_each(|v| within(&kernel.vars, *v))?;
        }
        if let StmtKind::LastArriver { access, .. } = kind
            && !self.is_counter(*access)
        {
            return Err("a block arrives at an element of a u32 tensor".into());
        }
        Ok(())
    }

    /// Whether blocks may count at an element: one of a u32 tensor, which is there.
    fn is_counter(&self, access: AccessId) -> bool {
        let access = &self.kernel.accesses[access];
        let counts = self.kernel.place_dtype(access.place) == DtypeRef::Is(Dtype::U32);
        matches!(access.place, Place::Tensor(_)) && !access.masked && counts
    }
}

/// The expressions an expression is made of; of a load, its indices (none if the access does not exist).
fn operands(kernel: &Kernel, kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => vec![*a],
        ExprKind::Binary(_, a, b) => vec![*a, *b],
        ExprKind::Math(_, args) => args.clone(),
        ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => vec![*a, *b, *c],
        ExprKind::Load(access) => kernel.accesses.get(*access).map(|a| a.indices.clone()).unwrap_or_default(),
        _ => vec![],
    }
}
