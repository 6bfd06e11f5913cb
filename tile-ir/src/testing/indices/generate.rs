//! Random kernels of index arithmetic.

use super::Random;
use super::build::Builder;
use crate::ir::*;

/// Threads of a block.
pub(super) const THREADS: i64 = 32;
/// Constants at the edges.
const NUMBERS: [i64; 16] = [0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 1000, 65_536, 1 << 30, 2_147_483_647];

/// A kernel under construction: the builder, and what stands in scope.
struct Drawn<'r> {
    random: &'r mut Random,
    b: Builder,
    /// Index values that never change and those that are assigned.
    names: Vec<ExprId>,
    assigned: Vec<ExprId>,
    /// Elements read from tensors.
    data: Vec<ExprId>,
    /// Scalar parameters that wrap: an `i32` and a `u32`.
    wrapping: Vec<(Dtype, ExprId)>,
    /// Whether constants are mostly at powers of two, where bounds of bits and the ends of types are.
    edges: bool,
    tensors: Vec<(Place, usize)>,
    result: Vec<(Place, usize)>,
    count: u32,
}

/// A kernel.
pub(super) fn kernel(random: &mut Random) -> Kernel {
    super::build::kernel("indices", |b| {
        let mut b_own = Builder::default();
        std::mem::swap(b, &mut b_own);
        let edges = random.once_in(2);
        let mut drawn = Drawn {
            random,
            edges,
            wrapping: vec![],
            b: b_own,
            names: vec![],
            assigned: vec![],
            data: vec![],
            tensors: vec![],
            result: vec![],
            count: 0,
        };
        drawn.parameters();
        let statements = 1 + drawn.random.below(3);
        for _ in 0..statements {
            drawn.statement(2);
        }
        drawn.store();
        std::mem::swap(b, &mut drawn.b);
    })
}

impl Drawn<'_> {
    fn parameters(&mut self) {
        let b = &mut self.b;
        let (n, k, m) = (b.dim("N"), b.dim("K"), b.dim("M"));
        for (name, dtype) in [("u", Dtype::U32), ("i", Dtype::I32), ("f", Dtype::F32)] {
            let place = b.tensor(name, dtype, &[n]);
            self.tensors.push((place, 1));
        }
        let (a, c, s) = (b.scalar("a", Type::Index), b.scalar("c", Type::Index), b.scalar("s", Type::Index));
        self.wrapping =
            [("p", Dtype::I32), ("q", Dtype::U32)].map(|(name, dtype)| (dtype, b.scalar(name, dtype))).into();
        self.result = vec![(b.tensor_mut("y", Dtype::F32, &[k]), 1), (b.tensor_mut("z", Dtype::F32, &[m, k]), 2)];
        let by = b.int(THREADS);
        let grid = match self.random.below(3) {
            0 => b.binary(BinaryOp::CeilDiv, n, by),
            1 => a,
            _ => m,
        };
        let [block] = b.blocks([("b", grid)]);
        let [thread] = b.threads([("t", THREADS)]);
        self.names = vec![n, k, m, a, c, s, block, thread, thread];
    }

    fn named(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}{}", self.count)
    }

    fn int(&mut self) -> ExprId {
        let number =
            if self.edges && !self.random.once_in(3) { edge(self.random, 32) } else { self.random.of(&NUMBERS) };
        self.b.int(number)
    }

    /// An `i32` or a `u32` that is computed, and may wrap.
    fn element(&mut self, dtype: Dtype, parameter: ExprId, depth: u32) -> ExprId {
        use BinaryOp::*;
        if depth == 0 || self.random.once_in(5) {
            let data: Vec<ExprId> = self.data.iter().copied().filter(|d| self.b.ty(*d) == dtype.into()).collect();
            return match self.random.below(3) {
                0 => {
                    let number = edge(self.random, 31).min(i64::from(i32::MAX));
                    self.b.int_of(dtype, number)
                }
                1 if !data.is_empty() => self.random.of(&data),
                _ => parameter,
            };
        }
        let op = self.random.of(&[Add, Sub, Mul, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr, Div, Rem]);
        let left = self.element(dtype, parameter, depth - 1);
        let right = match op {
            Shl | Shr | Div | Rem => {
                let number = self.random.of(&[1i64, 2, 5, 16, 31]);
                self.b.int_of(dtype, number)
            }
            _ => self.element(dtype, parameter, depth - 1),
        };
        self.b.binary(op, left, right)
    }

    fn leaf(&mut self) -> ExprId {
        match self.random.below(9) {
            0 | 1 => self.int(),
            8 if self.random.once_in(2) => {
                let (dtype, parameter) = self.random.of(&self.wrapping);
                let value = self.element(dtype, parameter, 2);
                self.b.cast(Type::Index, value)
            }
            2 if !self.data.is_empty() => {
                let value = self.of_data();
                self.b.cast(Type::Index, value)
            }
            3 if !self.assigned.is_empty() => self.random.of(&self.assigned),
            _ => self.random.of(&self.names),
        }
    }

    /// What a kernel computes of its data before that is an index: integers of 32 bits, which wrap.
    fn of_data(&mut self) -> ExprId {
        use BinaryOp::*;
        let mut value = self.random.of(&self.data);
        let Some(dtype) = self.b.ty(value).dtype().filter(|dtype| dtype.is_int()) else { return value };
        for _ in 0..self.random.below(4) {
            let op = self.random.of(&[Add, Sub, Mul, Div, Rem, Rem, Min, Max, BitAnd, BitAnd, BitOr, BitXor, Shl, Shr]);
            let right = match op {
                Div | Rem => self.random.of(&[1i64, 2, 3, 4, 7, 32, 100, 65_536]),
                Shl | Shr => self.random.of(&[0i64, 1, 2, 20, 28, 30, 31, 32, 33]),
                _ => self.random.of(&NUMBERS),
            };
            let mut right = self.b.int_of(dtype, right);
            let other = self.random.of(&self.data);
            if !matches!(op, Div | Rem) && self.b.ty(other).dtype() == Some(dtype) && self.random.once_in(4) {
                right = other;
            }
            let (left, right) = if op == BitAnd && self.random.once_in(2) { (right, value) } else { (value, right) };
            value = self.b.binary(op, left, right);
        }
        value
    }

    /// Something from 1 on, mostly.
    fn positive(&mut self, depth: u32) -> ExprId {
        let one = self.b.int(1);
        match self.random.below(4) {
            0 => {
                let value = self.expr(depth);
                self.b.binary(BinaryOp::Max, value, one)
            }
            1 => self.random.of(&self.names),
            _ => {
                let number = self.random.of(&[1i64, 2, 3, 4, 7, 32, 100, 65_536]);
                self.b.int(number)
            }
        }
    }

    fn expr(&mut self, depth: u32) -> ExprId {
        use BinaryOp::*;
        if depth == 0 || self.random.once_in(6) {
            return self.leaf();
        }
        let op = self.random.of(&[
            Add, Add, Add, Sub, Sub, Mul, Mul, Mul, Div, Rem, Rem, CeilDiv, Min, Max, BitAnd, BitOr, BitXor, Shl, Shr,
        ]);
        if self.random.once_in(10) {
            let cond = self.condition(depth - 1);
            let (a, b) = (self.expr(depth - 1), self.expr(depth - 1));
            return if self.random.once_in(2) { self.b.lazy_if(cond, a, b) } else { self.b.select(cond, a, b) };
        }
        let left = self.expr(depth - 1);
        let right = match op {
            Div | Rem | CeilDiv => self.positive(depth - 1),
            Shl | Shr => self.shift(depth - 1),
            _ => self.expr(depth - 1),
        };
        self.b.binary(op, left, right)
    }

    fn shift(&mut self, depth: u32) -> ExprId {
        let most = self.b.int(31);
        match self.random.below(5) {
            0 => {
                let value = self.expr(depth);
                self.b.binary(BinaryOp::BitAnd, value, most)
            }
            1 => {
                let value = self.random.of(&self.names);
                self.b.binary(BinaryOp::Min, value, most)
            }
            2 => self.random.of(&self.names),
            _ => {
                let number = self.random.of(&[0i64, 1, 2, 5, 20, 30, 31]);
                self.b.int(number)
            }
        }
    }

    fn condition(&mut self, depth: u32) -> ExprId {
        use BinaryOp::*;
        let op = self.random.of(&[Lt, Lt, Le, Gt, Ge, Eq, Ne]);
        if !self.data.is_empty() && self.random.once_in(3) {
            let value = self.of_data();
            if let Some(dtype) = self.b.ty(value).dtype().filter(|dtype| dtype.is_int()) {
                let number = self.random.of(&NUMBERS);
                let number = self.b.int_of(dtype, number);
                return self.b.binary(op, value, number);
            }
        }
        let (a, b) = (self.expr(depth), self.expr(depth));
        let cond = self.b.binary(op, a, b);
        if self.random.once_in(4) {
            let (a, b) = (self.expr(depth), self.expr(depth));
            let other = self.b.binary(Lt, a, b);
            let joined = self.random.of(&[And, Or]);
            return self.b.binary(joined, cond, other);
        }
        cond
    }

    fn statement(&mut self, depth: u32) {
        match self.random.below(10) {
            0 | 1 => self.read(),
            2 | 3 => {
                let name = self.named("x");
                if !self.data.is_empty() && self.random.once_in(3) {
                    let value = self.of_data();
                    let value = self.b.bind(&name, value);
                    return self.data.push(value);
                }
                let value = self.expr(2);
                let value = self.b.bind(&name, value);
                self.names.push(value);
            }
            4 => {
                let (value, name) = (self.expr(2), self.named("m"));
                let value = self.b.bind_mut(&name, value);
                self.assigned.push(value);
            }
            5 if !self.assigned.is_empty() => self.assign(),
            6 if depth > 0 => {
                let cond = self.condition(1);
                let then = self.inside(depth - 1, None);
                let otherwise = if self.random.once_in(2) { self.inside(depth - 1, None) } else { vec![] };
                self.b.stmt(StmtKind::If { cond, then, otherwise });
            }
            7 | 8 if depth > 0 => self.for_loop(depth - 1),
            _ => self.store(),
        }
    }

    fn assign(&mut self) {
        let var = self.random.of(&self.assigned);
        let value = match self.random.below(4) {
            0 => self.expr(2),
            1 => {
                let (value, by) = (self.expr(1), self.positive(1));
                let sum = self.b.binary(BinaryOp::Add, var, value);
                self.b.binary(BinaryOp::Rem, sum, by)
            }
            _ => {
                let by = self.expr(1);
                let op = self.random.of(&[BinaryOp::Add, BinaryOp::Add, BinaryOp::Sub]);
                self.b.binary(op, var, by)
            }
        };
        self.b.assign(var, value);
    }

    fn read(&mut self) {
        let (place, _) = self.random.of(&self.tensors);
        let index = self.expr(2);
        let value = if self.random.once_in(2) { self.b.load(place, &[index]) } else { self.b.masked(place, &[index]) };
        let name = self.named("d");
        let value = self.b.bind(&name, value);
        self.data.push(value);
    }

    fn store(&mut self) {
        let (place, rank) = self.random.of(&self.result);
        let indices: Vec<ExprId> = (0..rank).map(|_| self.expr(2)).collect();
        let stored = self.expr(1);
        let value = self.b.cast(Dtype::F32, stored);
        let masked = self.random.once_in(3);
        let guard = self.random.below(3);
        // Atomic, so that threads do not race: the oracle is about where, not about when.
        let store = |b: &mut Builder| {
            let access = b.access(place, &indices, masked);
            b.stmt(StmtKind::Atomic { op: AtomicOp::Add, access, value, dst: None });
        };
        // The author's guard: above, or on both sides.
        if masked || guard == 0 {
            return store(&mut self.b);
        }
        let extents: Vec<ExprId> = if rank == 1 { vec![self.names[1]] } else { vec![self.names[2], self.names[1]] };
        let mut cond = None;
        let tests: Vec<ExprId> = indices
            .iter()
            .zip(extents)
            .flat_map(|(index, extent)| {
                let above = self.b.lt(*index, extent);
                let zero = self.b.int(0);
                let below = self.b.binary(BinaryOp::Ge, *index, zero);
                if guard == 1 { vec![above] } else { vec![above, below] }
            })
            .collect();
        for test in tests {
            cond = Some(cond.map_or(test, |all| self.b.binary(BinaryOp::And, all, test)));
        }
        if let Some(cond) = cond {
            self.b.when(cond, store);
        }
    }

    fn for_loop(&mut self, depth: u32) {
        let start = self.expr(2);
        let step = if self.random.once_in(2) { self.b.int(1) } else { self.positive(1) };
        // Few iterations, mostly: a long loop is cut.
        let end = if self.random.once_in(3) {
            self.expr(2)
        } else {
            let few = self.b.int(3);
            let length = self.b.binary(BinaryOp::Mul, few, step);
            let end = self.b.binary(BinaryOp::Add, start, length);
            if self.random.once_in(2) {
                let most = self.expr(1);
                self.b.binary(BinaryOp::Min, end, most)
            } else {
                end
            }
        };
        let name = self.named("l");
        let (var, index) = self.b.declared(&name, VarKind::Loop);
        let body = self.inside(depth, Some(index));
        let kind = LoopKind::Serial { unroll: None };
        self.b.stmt(StmtKind::For { var, start, end, step, kind, body });
    }

    /// Statements with a scope of their own.
    fn inside(&mut self, depth: u32, index: Option<ExprId>) -> Vec<StmtId> {
        let scope = (self.names.len(), self.assigned.len(), self.data.len());
        self.names.extend(index);
        self.names.extend(index);
        self.b.enter();
        for _ in 0..1 + self.random.below(2) {
            self.statement(depth);
        }
        let body = self.b.leave();
        self.names.truncate(scope.0);
        self.assigned.truncate(scope.1);
        self.data.truncate(scope.2);
        body
    }
}

/// A number at a power of two up to that of `most`, or a little below 2^31.
pub(super) fn edge(random: &mut Random, most: u64) -> i64 {
    if random.once_in(8) {
        return i64::from(i32::MAX) - random.below(64) as i64;
    }
    let power = 1i64 << (2 + random.below(most - 1));
    power + random.of(&[-2, -1, -1, 0, 0, 0, 1])
}
