//! Statements of one thread: variables, arrays of its own, branches and loops.

use super::{Draw, Scope};
use crate::programs::tree::*;

/// The variables and arrays that statements may change.
#[derive(Default)]
pub struct Body {
    variables: Vec<(String, Ty)>,
    locals: Vec<(Array, i64)>,
    /// How many names there are.
    names: usize,
}

/// The types of values.
pub const VALUES: [Ty; 5] = [Ty::I32, Ty::U32, Ty::F16, Ty::Bf16, Ty::F32];

impl Body {
    /// Some variables, and arrays whose elements are all set.
    pub fn declare(&mut self, draw: &mut Draw, program: &mut Program, scope: &mut Scope) -> Vec<Stmt> {
        let mut body = Vec::new();
        for _ in 0..draw.range(0, 2) {
            let ty = draw.pick(&VALUES);
            let value = draw.free(scope, ty, 1);
            let name = self.name("v");
            // Of the kernel's type, so that a literal there is not another's.
            body.push(Stmt::Let { name: name.clone(), mutable: true, value });
            scope.free(Expr::Name(name.clone(), ty));
            self.variables.push((name, ty));
        }
        for _ in 0..draw.range(0, 1) {
            let ty = draw.pick(&VALUES);
            let len = draw.pick(&[1, 2, 3, 4, 8]);
            let name = self.name("l");
            let array = program.array(&name, Kind::Local, ty, &[len]);
            let value = match draw.percent(40) {
                true => None,
                false => Some(draw.literal(ty)),
            };
            body.push(Stmt::Fill { array: name, value });
            scope.free(Expr::load(&array, vec![Expr::Int(draw.range(0, len - 1))]));
            self.locals.push((array, len));
        }
        body
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    /// Some statements. What they declare stays inside.
    pub fn statements(&mut self, draw: &mut Draw, scope: &Scope, depth: u32, count: i64) -> (Vec<Stmt>, Scope) {
        let mut scope = scope.clone();
        let mut body = Vec::new();
        for _ in 0..count {
            match draw.range(0, 9) {
                0..=2 => {
                    let ty = draw.pick(&VALUES);
                    let value = draw.free(&scope, ty, 3);
                    let name = self.name("c");
                    body.push(Stmt::Let { name: name.clone(), mutable: false, value });
                    scope.free(Expr::Name(name, ty));
                }
                3 => {
                    let (value, most) = draw.index(&scope, 3);
                    // Of constants it is one, and takes part as any index.
                    let name = self.name("i");
                    match scope.is_bounded(&value) {
                        true => scope.index(Expr::index(&name), most),
                        false => scope.launch_index(Expr::index(&name), most),
                    }
                    body.push(Stmt::Let { name, mutable: false, value });
                }
                4 | 5 if !self.variables.is_empty() => {
                    let (name, ty) = draw.pick(&self.variables);
                    let op = draw.pick(&[None, Some(Op::Add), Some(Op::Sub), Some(Op::Mul)]);
                    body.push(Stmt::Assign { name, op, value: draw.free(&scope, ty, 2) });
                }
                6 if !self.locals.is_empty() => {
                    let (array, len) = draw.pick(&self.locals);
                    let (index, most) = draw.index(&scope, 2);
                    let at = if most < len && scope.is_bounded(&index) {
                        index
                    } else {
                        Expr::bin(Op::Rem, index, Expr::Int(len))
                    };
                    let op = draw.pick(&[None, None, Some(Op::Add)]);
                    let value = draw.free(&scope, array.ty, 2);
                    body.push(Stmt::Store { array: array.name, at: vec![at], op, value, masked: false });
                }
                7 | 8 if depth > 0 => {
                    let cond = draw.condition(&scope, 2);
                    let count = draw.range(1, 2);
                    let (then, _) = self.statements(draw, &scope, depth - 1, count);
                    let els = match draw.percent(50) {
                        true => self.statements(draw, &scope, depth - 1, 1).0,
                        false => Vec::new(),
                    };
                    body.push(Stmt::If { cond, then, els });
                }
                9 if depth > 0 => body.push(self.repeat(draw, &scope, depth - 1)),
                _ => {}
            }
        }
        (body, scope)
    }

    fn repeat(&mut self, draw: &mut Draw, scope: &Scope, depth: u32) -> Stmt {
        let var = self.name("k");
        let (from, step) = (draw.range(0, 2), draw.pick(&[1, 1, 1, 2, 3]));
        let to = from + draw.range(1, 6);
        let mut inside = scope.clone();
        inside.index(Expr::index(&var), to);
        let kind = match draw.range(0, 4) {
            0 | 1 => Loop::Plain,
            2 => Loop::Partly(2),
            _ => Loop::Unroll,
        };
        // A bound that threads have of their own, where the loop is one at run time.
        let end = match (kind == Loop::Unroll, draw.percent(30)) {
            (false, true) => Expr::bin(Op::Min, draw.index(scope, 1).0, Expr::Int(to)),
            _ => Expr::Int(to),
        };
        let count = draw.range(1, 2);
        let (body, _) = self.statements(draw, &inside, depth, count);
        Stmt::For { var, from: Expr::Int(from), to: end, step, kind, body }
    }
}
