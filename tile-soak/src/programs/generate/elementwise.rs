//! Kernels whose threads do not meet: every thread computes its elements.

use super::threads::{Body, VALUES};
use super::{Draw, Scope};
use crate::programs::tree::*;

/// One of them.
pub fn generate(draw: &mut Draw) -> Program {
    match draw.range(0, 3) {
        0 => vectorised(draw),
        1 => plane(draw),
        2 => strided(draw),
        _ => line(draw),
    }
}

fn input(draw: &mut Draw, program: &mut Program, name: &str, extents: &[&str]) -> Array {
    let ty = draw.pick(&[Ty::F32, Ty::F16, Ty::Bf16, Ty::I32, Ty::U32, Ty::F32, Ty::Bool]);
    program.tensor(name, false, ty, extents, Data::Any)
}

/// Scalars, which any expression may use.
fn scalars(draw: &mut Draw, program: &mut Program, scope: &mut Scope) {
    for i in 0..draw.range(0, 2) {
        let ty = draw.pick(&[Ty::F32, Ty::I32, Ty::U32, Ty::Index, Ty::Bool]);
        let name = format!("p{i}");
        let value = if ty == Ty::Bool { draw.range(0, 1) } else { draw.range(0, 9) };
        program.scalars.push((name.clone(), ty, value as f64));
        match ty {
            Ty::Index => scope.launch_index(Expr::Name(name, ty), value),
            ty => scope.free(Expr::Name(name, ty)),
        }
    }
}

/// The value that an output takes: free, or an inexact function of a value in its range.
fn result(draw: &mut Draw, program: &mut Program, scope: &Scope, ty: Ty) -> Expr {
    if ty != Ty::F32 || !draw.percent(12) {
        return draw.free(scope, ty, 4);
    }
    let inner = draw.free(scope, ty, 2);
    let within = |low: f64, high: f64, x: Expr| {
        let low =
            Expr::bin(Op::Max, x, if low < 0.0 { Expr::Neg(Expr::Lit(ty, -low).into()) } else { Expr::Lit(ty, low) });
        Expr::bin(Op::Min, low, Expr::Lit(ty, high))
    };
    let function = draw.pick(&[
        Fun::Exp,
        Fun::Exp2,
        Fun::Log,
        Fun::Rsqrt,
        Fun::Tanh,
        Fun::FastExp,
        Fun::FastRecip,
        Fun::Sin,
        Fun::Cos,
    ]);
    let inner = match function {
        Fun::Log | Fun::Rsqrt | Fun::FastRecip => within(0.5, 64.0, inner),
        _ => within(-4.0, 4.0, inner),
    };
    program.agreement = program.agreement.max(Agreement::Ulps(16));
    Expr::Call(function, vec![inner])
}

fn generics(draw: &mut Draw, program: &mut Program) {
    let floats: Vec<Ty> = program.tensors.iter().map(|t| t.ty).filter(|t| t.is_float()).collect();
    if !floats.is_empty() && draw.percent(25) {
        program.generic = Some(draw.pick(&floats));
    }
}

/// A thread an element, or a few neighbouring ones.
fn line(draw: &mut Draw) -> Program {
    let mut program = Program::new("line", "elementwise");
    let threads = draw.pick(&[1, 7, 32, 33, 64, 96, 100, 128, 256]);
    let each = draw.pick(&[1, 1, 1, 2, 3, 4]);
    let n = draw.extent(threads * each, 700);
    program.dims.push(("N".into(), n));
    program.threads.push(("t".into(), threads));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("N"), threads * each)));
    let mut inputs: Vec<Array> = Vec::new();
    for name in ["x", "w"].iter().take(draw.range(1, 2) as usize) {
        inputs.push(input(draw, &mut program, name, &["N"]));
    }
    let ty = draw.pick(&VALUES);
    let y = program.tensor("y", true, ty, &["N"], Data::Poison);
    generics(draw, &mut program);
    let mut scope = Scope::default();
    scalars(draw, &mut program, &mut scope);
    scope.index(Expr::index("t"), threads - 1);
    scope.launch_index(Expr::index("b"), n);
    scope.launch_index(Expr::index("N"), n);
    let mut body = Body::default();
    let first = Expr::index("b").times(threads * each).plus(Expr::index("t").times(each));
    let i = if each == 1 { first.clone() } else { first.plus(Expr::index("e")) };
    let mut inner = vec![Stmt::Let { name: "i".into(), mutable: false, value: i }];
    scope.launch_index(Expr::index("i"), n + threads * each);
    let guarded = draw.percent(50);
    for x in &inputs {
        let near = match guarded && draw.percent(70) {
            true => Expr::load(x, vec![Expr::index("i")]),
            false => Expr::masked(x, vec![Expr::index("i")]),
        };
        scope.free(near);
        if draw.percent(50) {
            let (at, _) = draw.index(&scope, 3);
            scope.free(Expr::masked(x, vec![at]));
        }
    }
    // Where the loads are plain they stand under the guard, with everything that uses them.
    let mut work = body.declare(draw, &mut program, &mut scope);
    let fills: Vec<Stmt> = work.extract_if(.., |s| matches!(s, Stmt::Fill { .. })).collect();
    let count = draw.range(0, 4);
    let (statements, scope) = body.statements(draw, &scope, 2, count);
    work.extend(statements);
    let value = result(draw, &mut program, &scope, y.ty);
    let at = vec![Expr::index("i")];
    let inside = Expr::index("i").below(Expr::index("N"));
    match (guarded, draw.percent(50)) {
        (false, true) => {
            work.push(Stmt::Store { array: y.name, at, op: None, value, masked: true });
            inner.extend(work);
        }
        (false, false) => {
            work.push(Stmt::If {
                cond: inside,
                then: vec![Stmt::Store { array: y.name, at, op: None, value, masked: false }],
                els: vec![],
            });
            inner.extend(work);
        }
        (true, _) => {
            work.push(Stmt::Store { array: y.name, at, op: None, value, masked: false });
            inner.push(Stmt::If { cond: inside, then: work, els: vec![] });
        }
    }
    program.body.extend(fills);
    match each {
        1 => program.body.extend(inner),
        _ => {
            let kind = draw.pick(&[Loop::Plain, Loop::Unroll, Loop::Partly(2)]);
            program.body.push(Stmt::For {
                var: "e".into(),
                from: Expr::Int(0),
                to: Expr::Int(each),
                step: 1,
                kind,
                body: inner,
            });
        }
    }
    program
}

/// A matrix, element by element, with rows further apart than they are long.
fn plane(draw: &mut Draw) -> Program {
    let mut program = Program::new("plane", "elementwise");
    let (tx, ty) = draw.pick(&[(32, 1), (32, 4), (16, 4), (8, 8), (5, 3), (64, 2), (1, 32)]);
    let (m, n) = (draw.extent(ty, 40), draw.extent(tx, 150));
    program.dims.extend([("M".into(), m), ("N".into(), n)]);
    program.threads.extend([("tx".into(), tx), ("ty".into(), ty)]);
    let tiles = |dim: &str, tile: i64| Expr::ceil_div(Expr::index(dim), tile);
    program.blocks.extend([("bx".into(), tiles("N", tx)), ("by".into(), tiles("M", ty))]);
    let x = input(draw, &mut program, "x", &["M", "N"]);
    let row = input(draw, &mut program, "v", &["N"]);
    let out = draw.pick(&VALUES);
    let y = program.tensor("y", true, out, &["M", "N"], Data::Poison);
    program.pitch =
        program.tensors.iter().map(|t| if t.extents.len() == 2 { draw.pick(&[0, 0, 1, 8]) } else { 0 }).collect();
    generics(draw, &mut program);
    let mut scope = Scope::default();
    scalars(draw, &mut program, &mut scope);
    let index = |block: &str, thread: &str, tile: i64| Expr::index(block).times(tile).plus(Expr::index(thread));
    program.body.push(Stmt::Let { name: "row".into(), mutable: false, value: index("by", "ty", ty) });
    program.body.push(Stmt::Let { name: "col".into(), mutable: false, value: index("bx", "tx", tx) });
    for (name, most) in [("row", m + ty), ("col", n + tx), ("M", m), ("N", n)] {
        scope.launch_index(Expr::index(name), most);
    }
    scope.index(Expr::index("tx"), tx - 1);
    let (r, c) = (Expr::index("row"), Expr::index("col"));
    let inside = r.clone().below(Expr::index("M")).and(c.clone().below(Expr::index("N")));
    scope.free(Expr::load(&x, vec![r.clone(), c.clone()]));
    scope.free(Expr::load(&row, vec![c.clone()]));
    let (i, j) = (draw.index(&scope, 2).0, draw.index(&scope, 2).0);
    scope.free(Expr::masked(&x, vec![i, j]));
    let mut body = Body::default();
    let mut work = body.declare(draw, &mut program, &mut scope);
    program.body.extend(work.extract_if(.., |s| matches!(s, Stmt::Fill { .. })));
    let count = draw.range(0, 3);
    let (statements, scope) = body.statements(draw, &scope, 2, count);
    work.extend(statements);
    let value = result(draw, &mut program, &scope, y.ty);
    work.push(Stmt::Store { array: y.name, at: vec![r, c], op: None, value, masked: false });
    program.body.push(Stmt::If { cond: inside, then: work, els: vec![] });
    program
}

/// Vectors: whole transactions into registers, arithmetic an element at a time, whole transactions back.
fn vectorised(draw: &mut Draw) -> Program {
    let mut program = Program::new("vectors", "elementwise");
    let from = draw.pick(&VALUES);
    let to = draw.pick(&VALUES);
    let widest = 16 / from.bytes().max(to.bytes()) as i64;
    let width = if draw.percent(60) { widest } else { draw.pick(&[2, widest]) };
    let threads = draw.pick(&[32, 64, 96, 128]);
    let n = (draw.extent(threads * width, 1500) / width).max(1) * width;
    program.dims.push(("N".into(), n));
    program.threads.push(("t".into(), threads));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("N"), threads * width)));
    program.options.push(format!("require(N % {width} == 0)"));
    let is_const = draw.percent(30);
    if is_const {
        program.consts.push(("V".into(), width));
    }
    let x = program.tensor("x", false, from, &["N"], Data::Any);
    let y = program.tensor("y", true, to, &["N"], Data::Poison);
    generics(draw, &mut program);
    let (xs, ys) = (program.array("xs", Kind::Local, from, &[width]), program.array("ys", Kind::Local, to, &[width]));
    let mut scope = Scope::default();
    scalars(draw, &mut program, &mut scope);
    scope.index(Expr::index("t"), threads - 1);
    let first = Expr::index("b").times(threads * width).plus(Expr::index("t").times(width));
    program.body.push(Stmt::Let { name: "first".into(), mutable: false, value: first });
    let v = || Expr::index("v");
    let at = || vec![Expr::index("first").plus(v())];
    let each = |kind: Loop, body: Vec<Stmt>| Stmt::For {
        var: "v".into(),
        from: Expr::Int(0),
        to: if is_const { Expr::index("V") } else { Expr::Int(width) },
        step: 1,
        kind,
        body,
    };
    let store = |array: &Array, at: Vec<Expr>, value: Expr, masked: bool| Stmt::Store {
        array: array.name.clone(),
        at,
        op: None,
        value,
        masked,
    };
    program.body.push(each(Loop::Vectorized, vec![store(&xs, vec![v()], Expr::masked(&x, at()), false)]));
    let mut inner = scope.clone();
    inner.index(v(), width - 1);
    inner.free(Expr::load(&xs, vec![v()]));
    inner.free(Expr::load(&xs, vec![Expr::Int(draw.range(0, width - 1))]));
    let mut body = Body::default();
    let mut work = body.declare(draw, &mut program, &mut inner);
    program.body.extend(work.extract_if(.., |s| matches!(s, Stmt::Fill { .. })));
    let count = draw.range(0, 2);
    let (statements, inner) = body.statements(draw, &inner, 1, count);
    work.extend(statements);
    let value = result(draw, &mut program, &inner, to);
    work.push(store(&ys, vec![v()], value, false));
    program.body.push(each(Loop::Unroll, work));
    let plain = draw.percent(40);
    let back = each(Loop::Vectorized, vec![store(&y, at(), Expr::load(&ys, vec![v()]), !plain)]);
    program.body.push(match plain {
        true => Stmt::If { cond: Expr::index("first").below(Expr::index("N")), then: vec![back], els: vec![] },
        false => back,
    });
    program
}

/// A fixed grid whose threads take element after element.
fn strided(draw: &mut Draw) -> Program {
    let mut program = Program::new("strides", "elementwise");
    let threads = draw.pick(&[32, 48, 64, 128]);
    let blocks = draw.range(1, 3);
    let n = draw.extent(threads * blocks, 900);
    program.dims.push(("N".into(), n));
    program.threads.push(("t".into(), threads));
    program.blocks.push(("b".into(), Expr::Int(blocks)));
    let x = input(draw, &mut program, "x", &["N"]);
    let out = draw.pick(&VALUES);
    let y = program.tensor("y", true, out, &["N"], Data::Poison);
    generics(draw, &mut program);
    let mut scope = Scope::default();
    scalars(draw, &mut program, &mut scope);
    let mut body = Body::default();
    let declared = body.declare(draw, &mut program, &mut scope);
    program.body.extend(declared);
    scope.launch_index(Expr::index("i"), n);
    scope.index(Expr::index("b"), blocks);
    scope.free(Expr::load(&x, vec![Expr::index("i")]));
    let count = draw.range(0, 3);
    let (mut work, scope) = body.statements(draw, &scope, 1, count);
    let value = result(draw, &mut program, &scope, y.ty);
    work.push(Stmt::Store { array: y.name, at: vec![Expr::index("i")], op: None, value, masked: false });
    program.body.push(Stmt::For {
        var: "i".into(),
        from: Expr::index("b").times(threads).plus(Expr::index("t")),
        to: Expr::index("N"),
        step: threads * blocks,
        kind: Loop::Plain,
        body: work,
    });
    program
}
