//! Statements that are written as calls: tile operations, what threads do together, and messages.

use super::{Named, Parser};
use crate::ir::*;
use crate::text::Tightness;
use crate::text::parse::cursor::Parsed;

const REDUCTIONS: [(&str, ReduceOp); 3] = [("Sum", ReduceOp::Sum), ("Max", ReduceOp::Max), ("Min", ReduceOp::Min)];
const SHUFFLES: [ShuffleKind; 4] = [ShuffleKind::Xor, ShuffleKind::Down, ShuffleKind::Up, ShuffleKind::Lane];
const ORDERS: [(&str, Evict); 3] = [("First", Evict::First), ("Normal", Evict::Normal), ("Last", Evict::Last)];

/// A call that has a result, which is a statement all the same: it has effects, or threads compute it together.
pub(super) enum Collective {
    Reduce { op: ReduceOp, src: ReduceSource, axis: Option<VarId>, ty: Type },
    Shuffle { kind: ShuffleKind, value: ExprId, lane: ExprId, ty: Type },
    Vote { kind: VoteKind, pred: ExprId },
    Atomic { op: AtomicOp, access: AccessId, value: ExprId, ty: Type },
    LastArriver { access: AccessId, count: ExprId },
}

impl Collective {
    /// The type of its result.
    pub(super) fn ty(&self) -> Type {
        match self {
            Collective::Reduce { ty, .. } | Collective::Shuffle { ty, .. } | Collective::Atomic { ty, .. } => *ty,
            Collective::Vote { kind: VoteKind::Ballot, .. } => Dtype::U32.into(),
            Collective::Vote { .. } | Collective::LastArriver { .. } => Type::BOOL,
        }
    }
}

impl<'t> Parser<'t> {
    /// The statement of a collective whose result `dst` takes.
    pub(super) fn with_result(&self, place: usize, call: Collective, dst: Option<VarId>) -> Parsed<StmtKind> {
        Ok(match (call, dst) {
            (Collective::Reduce { op, src: src @ ReduceSource::Local(_), axis, .. }, None) => {
                StmtKind::Reduce { op, src, dst, axis }
            }
            (Collective::Reduce { op, src: src @ ReduceSource::Value(_), axis, .. }, Some(_)) => {
                StmtKind::Reduce { op, src, dst, axis }
            }
            (Collective::Atomic { op, access, value, .. }, dst) => StmtKind::Atomic { op, access, value, dst },
            (Collective::Shuffle { kind, value, lane, .. }, Some(dst)) => StmtKind::Shuffle { kind, value, lane, dst },
            (Collective::Vote { kind, pred }, Some(dst)) => StmtKind::Vote { kind, pred, dst },
            (Collective::LastArriver { access, count }, Some(dst)) => StmtKind::LastArriver { access, count, dst },
            (Collective::Reduce { .. }, Some(_)) => {
                return Err(self.cursor.error_at(place, "a reduced array has no other result"));
            }
            (_, None) => return Err(self.cursor.error_at(place, "the result of this must be given to a variable")),
        })
    }

    /// A call with a result, if one is next.
    pub(super) fn collective(&mut self) -> Parsed<Option<Collective>> {
        let crate::text::parse::lex::TokenKind::Name(name) = *self.cursor.peek() else { return Ok(None) };
        if !self.cursor.is_at(1, "(") {
            return Ok(None);
        }
        let shuffle = SHUFFLES.into_iter().find(|kind| kind.name() == name);
        let vote = match name {
            "ballot" => Some(VoteKind::Ballot),
            "any" => Some(VoteKind::Any),
            "all" => Some(VoteKind::All),
            _ => None,
        };
        let atomic = match name {
            "atomic_add" => Some(AtomicOp::Add),
            "atomic_max" => Some(AtomicOp::Max),
            "atomic_min" => Some(AtomicOp::Min),
            _ => None,
        };
        let other = matches!(name, "thread_allreduce" | "warp_reduce" | "last_arriver");
        if shuffle.is_none() && vote.is_none() && atomic.is_none() && !other {
            return Ok(None);
        }
        self.cursor.next();
        self.cursor.expect("(")?;
        let call = if let Some(kind) = shuffle {
            let value = self.expr()?;
            self.cursor.expect(",")?;
            let place = self.cursor.place();
            let lane = self.expr()?;
            let ty = self.ty_of(lane);
            if ty != Type::Index && !ty.dtype().is_some_and(Dtype::is_int) {
                let message = format!("a {} is a whole number, not {}", kind.operand(), self.shown(ty));
                return Err(self.cursor.error_at(place, message));
            }
            Collective::Shuffle { kind, value, lane, ty: self.ty_of(value) }
        } else if let Some(kind) = vote {
            Collective::Vote { kind, pred: self.expr_of(Type::BOOL)? }
        } else if let Some(op) = atomic {
            let access = self.element()?;
            self.cursor.expect(",")?;
            let ty = Type::Value(self.kernel.place_dtype(self.kernel.accesses[access].place));
            Collective::Atomic { op, access, value: self.expr_of(ty)?, ty }
        } else if name == "last_arriver" {
            let access = self.element()?;
            self.cursor.expect(",")?;
            Collective::LastArriver { access, count: self.index()? }
        } else {
            self.reduction(name == "thread_allreduce")?
        };
        self.cursor.expect(")")?;
        Ok(Some(call))
    }

    /// `&mut x[i]`, `x.masked_mut([i])`
    pub(super) fn element(&mut self) -> Parsed<AccessId> {
        let masked = if self.cursor.eat("&") {
            self.cursor.expect_word("mut")?;
            ""
        } else {
            "masked_mut"
        };
        let place = self.cursor.place();
        self.access(place, masked)
    }

    /// `Sum, value, axis` or `Sum, &mut array, axis`; without an axis of a warp.
    fn reduction(&mut self, has_axis: bool) -> Parsed<Collective> {
        let op = self.one_of("a reduction", &REDUCTIONS)?;
        self.cursor.expect(",")?;
        let (src, ty) = if self.cursor.eat("&") {
            self.cursor.expect_word("mut")?;
            let buffer = self.buffer()?;
            (ReduceSource::Local(buffer), Type::Value(self.kernel.buffers[buffer].dtype))
        } else {
            let value = self.expr()?;
            (ReduceSource::Value(value), self.ty_of(value))
        };
        let mut axis = None;
        if has_axis {
            self.cursor.expect(",")?;
            let place = self.cursor.place();
            axis = match self.known()? {
                (_, Named::Var(var)) => Some(var),
                (name, _) => return Err(self.cursor.error_at(place, format!("`{name}` is no thread axis"))),
            };
        }
        Ok(Collective::Reduce { op, src, axis, ty })
    }

    /// A statement that is a call.
    pub(super) fn call_statement(&mut self, name: &str) -> Parsed<StmtKind> {
        let place = self.cursor.place();
        if let Some(collective) = self.collective()? {
            return self.with_result(place, collective, None);
        }
        self.cursor.next();
        self.cursor.expect("(")?;
        match name {
            "copy" => return self.copy(),
            "gemm" => return self.gemm(),
            _ => {}
        }
        let kind = match name {
            "fill" => {
                let buffer = self.array("&", true)?;
                self.cursor.expect(",")?;
                let value = self.expr_of(Type::Value(self.kernel.buffers[buffer].dtype))?;
                StmtKind::Tile(TileOp::Fill { buffer, value })
            }
            "clamp" => {
                let tile = self.array("&", true)?;
                let ty = Type::Value(self.kernel.buffers[tile].dtype);
                if self.kernel.buffers[tile].scope != Scope::Fragment || ty == Type::BOOL {
                    return Err(self.cursor.error("`clamp` takes a fragment of numbers"));
                }
                self.cursor.expect(",")?;
                let low = self.expr_of(ty)?;
                self.cursor.expect(",")?;
                StmtKind::Tile(TileOp::Clamp { tile, low, high: self.expr_of(ty)? })
            }
            "reduce" => {
                let op = self.one_of("a reduction", &REDUCTIONS)?;
                self.cursor.expect(",")?;
                let src = self.array("&", false)?;
                self.cursor.expect(",")?;
                let dst = self.array("&", true)?;
                self.cursor.expect(",")?;
                StmtKind::Tile(TileOp::ReduceTile { op, src, dst, axis: self.cursor.integer_of()? })
            }
            "cluster_reduce" => {
                let op = self.one_of("a reduction", &REDUCTIONS)?;
                self.cursor.expect(",")?;
                StmtKind::Tile(TileOp::ClusterReduce { op, tile: self.array("&", true)? })
            }
            "cluster_exchange" => {
                let src = self.array("&", false)?;
                self.cursor.expect(",")?;
                StmtKind::Tile(TileOp::ClusterExchange { src, dst: self.array("&", true)? })
            }
            "sync_threads" => StmtKind::SyncThreads,
            "sync_warp" => StmtKind::SyncWarp,
            "device_print" => {
                let format = self.cursor.text()?;
                let mut args = Vec::new();
                while self.cursor.eat(",") {
                    args.push(self.expr()?);
                }
                StmtKind::Print { format, args }
            }
            "device_assert" => {
                let cond = self.expr_of(Type::BOOL)?;
                self.cursor.expect(",")?;
                StmtKind::Assert { cond, message: self.cursor.text()? }
            }
            _ => return Err(self.cursor.error_at(place, format!("there is no statement `{name}(..)`"))),
        };
        self.cursor.expect(")")?;
        Ok(kind)
    }

    /// `&a`, `&mut a`
    fn array(&mut self, reference: &'static str, mutable: bool) -> Parsed<BufferId> {
        self.cursor.expect(reference)?;
        if mutable {
            self.cursor.expect_word("mut")?;
        }
        self.buffer()
    }

    /// What follows `copy(`.
    fn copy(&mut self) -> Parsed<StmtKind> {
        let src = self.tile(false)?;
        self.cursor.expect(",")?;
        let dst = self.tile(true)?;
        self.cursor.expect(")")?;
        let (mut width, mut tma, mut evict) = (None, true, None);
        while self.cursor.eat(".") {
            match self.cursor.name()? {
                "width" if width.is_none() => width = Some(self.one_index()?),
                "tma" if tma => {
                    self.cursor.expect("(")?;
                    self.cursor.expect_word("false")?;
                    self.cursor.expect(")")?;
                    tma = false;
                }
                "evict" if evict.is_none() => evict = Some(self.eviction()?),
                method => return Err(self.cursor.error(format!("`copy` has no `.{method}` here"))),
            }
        }
        Ok(StmtKind::Tile(TileOp::Copy { src, dst, width, tma, evict }))
    }

    /// `(First)`, `(if wide { First } else { Normal })`
    fn eviction(&mut self) -> Parsed<Eviction> {
        self.cursor.expect("(")?;
        let mut cases = Vec::new();
        while self.cursor.eat_word("if") {
            let cond = self.expr_of(Type::BOOL)?;
            self.cursor.expect("{")?;
            cases.push((cond, self.one_of("when it is evicted", &ORDERS)?));
            self.cursor.expect("}")?;
            self.cursor.expect_word("else")?;
        }
        if !cases.is_empty() {
            self.cursor.expect("{")?;
        }
        let otherwise = self.one_of("when it is evicted", &ORDERS)?;
        if !cases.is_empty() {
            self.cursor.expect("}")?;
        }
        self.cursor.expect(")")?;
        Ok(Eviction { cases, otherwise })
    }

    /// `&x`, `x.at([..])`, `x.tile([a..b, ..])`, `x.t()`; with `mut` where it is written.
    fn tile(&mut self, mutable: bool) -> Parsed<TileRef> {
        let start_place = self.cursor.place();
        let (at, tile) = if mutable { ("at_mut", "tile_mut") } else { ("at", "tile") };
        let (mut start, mut extents, mut transposed) = (vec![], vec![], false);
        let place = if self.cursor.eat("&") {
            if mutable {
                self.cursor.expect_word("mut")?;
            }
            self.place()?
        } else {
            let place = self.place()?;
            self.cursor.expect(".")?;
            if self.cursor.eat_word("t") {
                self.cursor.expect("(")?;
                transposed = true;
            } else if self.cursor.eat_word(at) {
                self.cursor.expect("(")?;
                start = self.indices()?;
            } else {
                self.cursor.expect_word(tile)?;
                self.cursor.expect("(")?;
                self.cursor.expect("[")?;
                while !self.cursor.eat("]") {
                    let (first, extent) = self.tile_range()?;
                    start.push(first);
                    extents.push(extent);
                    self.cursor.separator("]")?;
                }
            }
            self.cursor.expect(")")?;
            place
        };
        Ok(TileRef { place, start, extents, transposed, span: self.span(start_place) })
    }

    /// `0..n`, `8..24` and `a..a + n`: the first index and the extent.
    fn tile_range(&mut self) -> Parsed<(ExprId, ExprId)> {
        let place = self.cursor.place();
        let sum = Tightness::of(BinaryOp::Add);
        let start = self.expr_at_least(sum)?;
        self.typed(place, start, Type::Index)?;
        let end_of_start = self.cursor.place();
        self.cursor.expect("..")?;
        let at = self.cursor.place();
        let length = end_of_start - place;
        let repeated = (0..length).all(|token| self.cursor.same(place + token, at + token));
        let first = self.kernel.const_index(start);
        if first == Some(0) {
            return Ok((start, self.index()?));
        }
        if !repeated || !self.cursor.is_at(length, "+") {
            if let Some(first) = first {
                let end = self.index()?;
                return match self.kernel.const_index(end).filter(|last| *last >= first) {
                    Some(last) => Ok((start, self.push(at, ExprKind::Int(last - first), Type::Index))),
                    None => Err(self.cursor.error_at(at, "a tile from a number ends at a number that is not less")),
                };
            }
            let start = self.cursor.slice(place, end_of_start);
            return Err(self.cursor.error_at(at, format!("a tile ends an extent after its start: `{start} + n`")));
        }
        self.cursor.seek(at + length + 1);
        let extent_place = self.cursor.place();
        let extent = self.expr_at_least(sum.next())?;
        self.typed(extent_place, extent, Type::Index)?;
        Ok((start, extent))
    }

    /// What follows `gemm(`.
    fn gemm(&mut self) -> Parsed<StmtKind> {
        let a = self.matrix()?;
        self.cursor.expect(",")?;
        let b = self.matrix()?;
        self.cursor.expect(",")?;
        let acc = self.array("&", true)?;
        self.cursor.expect(")")?;
        let (mut policy, mut clear, mut grouped) = (WarpPolicy::Square, false, false);
        let mut precision = Precision::Full;
        while self.cursor.eat(".") {
            let method = self.cursor.name()?;
            self.cursor.expect("(")?;
            match method {
                "policy" => {
                    let policies = [("FullRow", WarpPolicy::FullRow), ("FullCol", WarpPolicy::FullCol)];
                    policy = self.one_of("how warps divide the tile", &policies)?;
                }
                "clear" => clear = true,
                "tf32" => precision = Precision::Tf32,
                "grouped" => grouped = true,
                _ => return Err(self.cursor.error(format!("`gemm` has no `.{method}`"))),
            }
            self.cursor.expect(")")?;
        }
        Ok(StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, clear, precision, grouped }))
    }

    /// `&a`, `a.t()`
    fn matrix(&mut self) -> Parsed<MatrixRef> {
        let place = self.cursor.place();
        let borrowed = self.cursor.eat("&");
        let buffer = self.buffer()?;
        if !borrowed {
            self.cursor.expect(".")?;
            self.cursor.expect_word("t")?;
            self.cursor.expect("(")?;
            self.cursor.expect(")")?;
        }
        Ok(MatrixRef { buffer, transposed: !borrowed, span: self.span(place) })
    }
}
