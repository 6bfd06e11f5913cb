//! A generated program, on its tree: statements go, loops get shorter, expressions become their parts, extents 1.
//!
//! What remains must be a program: the reference has to have a result for it.

use crate::programs::execute::Failed;
use crate::programs::tree::{Expr, Kind, Loop, Program, Stmt, Ty};

/// The smallest program found that `fails` as the first did, within this many tries. `fails` gives nothing for one that does
/// not fail or that is no program.
pub fn shrink(program: &Program, failed: &Failed, tries: usize, fails: impl Fn(&Program) -> Option<Failed>) -> Program {
    let alike = |found: &Failed| found.class == failed.class && code(&found.detail) == code(&failed.detail);
    let mut program = Program { variants: Vec::new(), ..program.clone() };
    let mut left = tries;
    loop {
        let mut taken = false;
        let mut at = 0;
        while let Some(smaller) = smaller(&program).into_iter().nth(at) {
            if left == 0 {
                return program;
            }
            left -= 1;
            if fails(&smaller).as_ref().is_some_and(alike) {
                program = smaller;
                taken = true;
            } else {
                at += 1;
            }
        }
        if !taken {
            return program;
        }
    }
}

/// The code that a report names: `TK0303`.
pub fn code(detail: &str) -> Option<&str> {
    let at = detail.find("TK0")?;
    detail.get(at..at + 6)
}

/// Programs that are smaller by one step.
fn smaller(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let with = |change: &dyn Fn(&mut Program)| {
        let mut changed = program.clone();
        change(&mut changed);
        changed
    };
    let count = count_statements(&program.body);
    // A later statement first: it is needed by less.
    for number in (0..count).rev() {
        for how in [Change::Delete, Change::Unwrap, Change::Else, Change::Once, Change::Plain] {
            let mut changed = program.clone();
            let mut next = 0;
            if change(&mut changed.body, number, &mut next, how) {
                all.push(changed);
            }
        }
    }
    for (name, value) in &program.dims {
        for less in [1, value / 2, value - 1] {
            if less >= 1 && less < *value {
                all.push(with(&|p| p.dims.iter_mut().filter(|(n, _)| n == name).for_each(|(_, v)| *v = less)));
            }
        }
    }
    all.push(with(&|p| p.generic = None));
    all.push(with(&written_out));
    all.push(with(&|p| p.specialized.clear()));
    all.push(with(&|p| p.optional.clear()));
    all.push(with(&|p| {
        p.cluster.clear();
        p.hopper = false;
    }));
    all.push(with(&|p| p.consts.clear()));
    all.push(with(&|p| p.panel = None));
    all.push(with(&|p| p.pitch.fill(0)));
    all.push(with(&|p| p.options.clear()));
    for number in 0..program.arrays.len() {
        let swizzled = matches!(program.arrays[number].kind, Kind::Shared { swizzle: Some(_) });
        if swizzled {
            all.push(with(&|p| p.arrays[number].kind = Kind::Shared { swizzle: None }));
        }
        all.push(with(&|p| drop(p.arrays.remove(number))));
    }
    for number in 0..program.tensors.len() {
        all.push(with(&|p| {
            p.tensors.remove(number);
            p.data.remove(number);
            if number < p.pitch.len() {
                p.pitch.remove(number);
            }
        }));
    }
    for number in 0..program.scalars.len() {
        all.push(with(&|p| drop(p.scalars.remove(number))));
    }
    let expressions = walk_expressions(&mut program.clone(), usize::MAX, 0);
    for number in 0..expressions {
        for how in 0..5 {
            let mut changed = program.clone();
            walk_expressions(&mut changed, number, how);
            all.push(changed);
        }
    }
    all.retain(|p| p != program);
    all
}

/// Every function's value in place of its calls.
fn written_out(program: &mut Program) {
    let functions = std::mem::take(&mut program.functions);
    let mut replace = |e: &mut Expr| {
        let Expr::Apply { function, args, .. } = e else { return };
        let Some(function) = functions.iter().find(|f| f.name == *function) else { return };
        let args = std::mem::take(args);
        let mut value = function.value.clone();
        value.visit_mut(&mut |part| {
            let Expr::Name(name, _) = part else { return };
            let given = function.params.iter().zip(&args).find(|((param, _), _)| param == name);
            if let Some((_, arg)) = given {
                *part = arg.clone();
            }
        });
        *e = value;
    };
    program.body.iter_mut().for_each(|stmt| in_statement(stmt, &mut replace));
}

fn count_statements(body: &[Stmt]) -> usize {
    body.iter().map(|s| 1 + s.bodies().into_iter().map(|b| count_statements(b)).sum::<usize>()).sum()
}

/// What becomes of a statement.
#[derive(Clone, Copy)]
enum Change {
    Delete,
    /// What it holds takes its place.
    Unwrap,
    /// What its `else` holds does.
    Else,
    /// A loop runs once.
    Once,
    /// A loop is a plain one, a copy has no further demands.
    Plain,
}

/// Changes the statement of this number, counted from `next`; whether it could be.
fn change(body: &mut Vec<Stmt>, number: usize, next: &mut usize, how: Change) -> bool {
    for at in 0..body.len() {
        if *next == number {
            *next += 1;
            return change_one(body, at, how);
        }
        *next += 1;
        for inner in body[at].bodies_mut() {
            if change(inner, number, next, how) {
                return true;
            }
        }
        if *next > number {
            return false;
        }
    }
    false
}

fn change_one(body: &mut Vec<Stmt>, at: usize, how: Change) -> bool {
    match (how, &mut body[at]) {
        (Change::Delete, _) => drop(body.remove(at)),
        (Change::Unwrap, Stmt::If { then, .. } | Stmt::IfGiven { then, .. }) => {
            let then = std::mem::take(then);
            body.splice(at..=at, then);
        }
        (Change::Unwrap, Stmt::Outlined { body: inner, .. }) => {
            let inner = std::mem::take(inner);
            body.splice(at..=at, inner);
        }
        (Change::Else, Stmt::If { els, .. } | Stmt::IfGiven { els, .. }) => {
            let els = std::mem::take(els);
            body.splice(at..=at, els);
        }
        (Change::Once, Stmt::For { from, to, .. }) => {
            let once = from.clone().plus(Expr::Int(1));
            let once = if let Expr::Int(first) = from { Expr::Int(*first + 1) } else { once };
            if *to == once {
                return false;
            }
            *to = once;
        }
        (Change::Plain, Stmt::For { kind, .. }) if *kind != Loop::Plain => *kind = Loop::Plain,
        (Change::Plain, Stmt::Copy { call, .. }) if !call.is_empty() => call.clear(),
        _ => return false,
    }
    true
}

/// Visits every expression of the body; the one of this number is replaced by its part `how`. How many there are.
fn walk_expressions(program: &mut Program, number: usize, how: usize) -> usize {
    let mut next = 0;
    for stmt in &mut program.body {
        in_statement(stmt, &mut |e| {
            if next == number {
                replace(e, how);
            }
            next += 1;
        });
    }
    next
}

/// Visits every expression of a body, outer ones first; tiles have none.
pub fn each_expression(body: &mut [Stmt], f: &mut dyn FnMut(&mut Expr)) {
    body.iter_mut().for_each(|stmt| in_statement(stmt, f));
}

fn in_statement(stmt: &mut Stmt, f: &mut dyn FnMut(&mut Expr)) {
    match stmt {
        Stmt::Let { value, .. }
        | Stmt::Assign { value, .. }
        | Stmt::AllReduce { value, .. }
        | Stmt::WarpReduce { value, .. }
        | Stmt::Warp { value, .. }
        | Stmt::Fill { value: Some(value), .. } => value.visit_mut(f),
        Stmt::Store { at, value, .. } | Stmt::Atomic { at, value, .. } => {
            at.iter_mut().for_each(|e| e.visit_mut(f));
            value.visit_mut(f);
        }
        Stmt::If { cond, .. } => cond.visit_mut(f),
        Stmt::For { from, to, .. } => [from, to].into_iter().for_each(|e| e.visit_mut(f)),
        _ => {}
    }
    for body in stmt.bodies_mut() {
        body.iter_mut().for_each(|s| in_statement(s, f));
    }
}

/// An expression becomes a part of its type, or a literal.
fn replace(expr: &mut Expr, how: usize) {
    let ty = expr.ty();
    let parts: Vec<Expr> = match expr {
        Expr::Bin(_, a, b) => vec![(**a).clone(), (**b).clone()],
        Expr::Neg(x) | Expr::Not(x) | Expr::Cast(_, x) => vec![(**x).clone()],
        Expr::Choose { a, b, .. } => vec![(**a).clone(), (**b).clone()],
        Expr::Call(_, args) | Expr::Apply { args, .. } => args.clone(),
        _ => Vec::new(),
    };
    let literal = |value: f64| if ty == Ty::Index { Expr::Int(value as i64) } else { Expr::Lit(ty, value) };
    let new = match how {
        0 => Some(literal(0.0)),
        1 => Some(literal(1.0)),
        n => parts.into_iter().filter(|p| p.ty() == ty).nth(n - 2),
    };
    // A literal stays what it is, else there would be no end.
    let is_literal = matches!(expr, Expr::Int(_) | Expr::Lit(..));
    let is_less = |new: &Expr| match (&*expr, new) {
        (Expr::Int(old), Expr::Int(new)) => new < old,
        (Expr::Lit(_, old), Expr::Lit(_, new)) => new < old,
        _ => !is_literal,
    };
    if let Some(new) = new.filter(is_less) {
        *expr = new;
    }
}
