//! Threads that meet: reductions over threads and warps, shuffles, votes, values handed on through shared memory.
//!
//! What is added is small integers, so the order of a sum does not show.

use super::{Draw, Scope};
use crate::programs::tree::*;

/// One of them.
pub fn generate(draw: &mut Draw) -> Program {
    let mut program = Program::new("collectives", "collectives");
    let shape: Vec<i64> = draw.pick(&[
        vec![32],
        vec![64],
        vec![96],
        vec![128],
        vec![256],
        vec![32, 4],
        vec![8, 8],
        vec![16, 4],
        vec![4, 32],
        vec![24],
        vec![7, 5],
        vec![48],
        vec![2, 3, 16],
    ]);
    let count: i64 = shape.iter().product();
    let whole_warps = count % 32 == 0;
    let names = ["tx", "ty", "tz"];
    let mut linear = Expr::index("tx");
    let mut stride = 1;
    for (axis, extent) in shape.iter().enumerate() {
        program.threads.push((names[axis].into(), *extent));
        if axis > 0 {
            linear = linear.plus(Expr::index(names[axis]).times(stride));
        }
        stride *= extent;
    }
    let ty = draw.pick(&[Ty::F32, Ty::F32, Ty::I32, Ty::U32, Ty::F16, Ty::Bf16]);
    let n = draw.extent(count, 3 * count + 10);
    program.dims.push(("N".into(), n));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("N"), count)));
    let most = if ty == Ty::Bf16 { 1 } else { 2 };
    let x = program.tensor("x", false, ty, &["N"], Data::Integers(most));
    let y = program.tensor("y", true, ty, &["N"], Data::Poison);
    if ty.is_float() && draw.percent(30) {
        program.generic = Some(ty);
    }
    let mut scope = Scope::default();
    for (axis, extent) in shape.iter().enumerate() {
        scope.index(Expr::index(names[axis]), extent - 1);
    }
    scope.index(Expr::index("b"), n);
    let constant = |name: &str, value: Expr| Stmt::Let { name: name.into(), mutable: false, value };
    program.body.push(constant("lane", linear));
    program.body.push(constant("i", Expr::index("b").times(count).plus(Expr::index("lane"))));
    program.body.push(constant("own", Expr::masked(&x, vec![Expr::index("i")])));
    scope.index(Expr::index("lane"), count - 1);
    scope.exact(Expr::Name("own".into(), ty), most as f64);
    let limit = ty.exact().min(1.0e6);
    let mut exchange = None;
    for step in 0..draw.range(1, 5) {
        let name = format!("r{step}");
        let how = draw.pick(&[Combine::Sum, Combine::Sum, Combine::Max, Combine::Min]);
        match draw.range(0, 6) {
            0 => {
                let (axis, extent) = draw.pick(&program.threads);
                let room = if how == Combine::Sum { limit / extent as f64 } else { limit };
                if room < 1.0 {
                    continue;
                }
                let (value, bound) = draw.exact(&scope, ty, room.floor(), 2);
                let bound = if how == Combine::Sum { bound * extent as f64 } else { bound };
                program.body.push(Stmt::AllReduce { name: name.clone(), how, value, axis });
                scope.exact(Expr::Name(name, ty), bound);
            }
            1 => {
                let (axis, extent) = draw.pick(&program.threads);
                let len = draw.pick(&[1, 2, 4, 5]);
                let room = (limit / extent as f64).floor();
                if room < 1.0 {
                    continue;
                }
                let local = program.array(&name, Kind::Local, ty, &[len]);
                let mut inside = scope.clone();
                inside.index(Expr::index("e"), len - 1);
                let (value, bound) = draw.exact(&inside, ty, room, 2);
                let store =
                    Stmt::Store { array: name.clone(), at: vec![Expr::index("e")], op: None, value, masked: false };
                program.body.push(Stmt::For {
                    var: "e".into(),
                    from: Expr::Int(0),
                    to: Expr::Int(len),
                    step: 1,
                    kind: Loop::Unroll,
                    body: vec![store],
                });
                program.body.push(Stmt::AllReduceLocal { how, array: name, axis });
                scope.exact(Expr::load(&local, vec![Expr::Int(draw.range(0, len - 1))]), bound * extent as f64);
            }
            2 if whole_warps => {
                let room = if how == Combine::Sum { limit / 32.0 } else { limit };
                if room < 1.0 {
                    continue;
                }
                let (value, bound) = draw.exact(&scope, ty, room.floor(), 2);
                program.body.push(Stmt::WarpReduce { name: name.clone(), how, value });
                scope.exact(Expr::Name(name, ty), if how == Combine::Sum { bound * 32.0 } else { bound });
            }
            3 if whole_warps => {
                let (value, bound) = draw.exact(&scope, ty, limit, 2);
                let by = draw.range(1, 31) as u32;
                let ask = draw.pick(&[Ask::Xor(by), Ask::Down(by), Ask::Up(by), Ask::Lane(by)]);
                program.body.push(Stmt::Warp { name: name.clone(), ask, value });
                scope.exact(Expr::Name(name, ty), bound);
            }
            4 if whole_warps => {
                let ask = draw.pick(&[Ask::Any, Ask::All, Ask::Ballot]);
                let value = draw.condition(&scope, 2);
                program.body.push(Stmt::Warp { name: name.clone(), ask, value });
                scope.free(Expr::Name(name, if ask == Ask::Ballot { Ty::U32 } else { Ty::Bool }));
            }
            5 => {
                let (value, bound) = draw.exact(&scope, ty, limit, 2);
                let shared =
                    exchange.get_or_insert_with(|| program.array("s", Kind::Shared { swizzle: None }, ty, &[count]));
                let own = vec![Expr::index("lane")];
                program.body.push(Stmt::Store { array: "s".into(), at: own, op: None, value, masked: false });
                program.body.push(Stmt::Sync);
                let lane = || Expr::index("lane");
                let last = Expr::Int(count - 1);
                let other = match draw.range(0, 3) {
                    0 => Expr::bin(Op::Rem, lane().plus(Expr::Int(draw.range(1, count))), Expr::Int(count)),
                    1 => Expr::bin(Op::Sub, last, lane()),
                    2 => Expr::bin(Op::Div, lane(), Expr::Int(draw.range(1, 4))),
                    _ => Expr::Int(draw.range(0, count - 1)),
                };
                program.body.push(constant(&name, Expr::load(shared, vec![other])));
                program.body.push(Stmt::Sync);
                scope.exact(Expr::Name(name, ty), bound);
            }
            _ => {
                let (value, bound) = draw.exact(&scope, ty, limit, 3);
                // An expression of literals alone would be a constant, which has no type of its own.
                program.body.push(constant(&name, value));
                scope.exact(Expr::Name(name, ty), bound);
            }
        }
    }
    let (value, _) = draw.exact(&scope, ty, limit, 3);
    let last = scope.values.last().map(|(e, _)| e.clone()).filter(|e| e.ty() == ty);
    // What was computed last is seen in the result.
    let value = match last {
        Some(last) => Expr::bin(draw.pick(&[Op::Add, Op::Max]), value, last),
        None => value,
    };
    let at = vec![Expr::index("i")];
    program.body.push(Stmt::If {
        cond: Expr::index("i").below(Expr::index("N")),
        then: vec![Stmt::Store { array: y.name, at, op: None, value, masked: false }],
        els: vec![],
    });
    program
}
