//! Tiles: copies with ragged edges and starts before the tensor, element-wise work by `parallel`, reductions over an axis,
//! pipelines into shared memory and registers.

use super::{Draw, Scope};
use crate::programs::tree::*;

fn whole(name: &str) -> Tile {
    Tile::Whole(name.into())
}

fn copy(from: Tile, to: Tile) -> Stmt {
    Stmt::Copy { from, to, call: String::new() }
}

fn parallel(vars: &[&str], extents: &[i64], body: Vec<Stmt>) -> Stmt {
    Stmt::Parallel { vars: vars.iter().map(|v| (*v).into()).collect(), extents: extents.to_vec(), body }
}

fn store(array: &Array, at: Vec<Expr>, value: Expr) -> Stmt {
    Stmt::Store { array: array.name.clone(), at, op: None, value, masked: false }
}

/// Tiles that are copied, changed, reduced and stored.
pub fn copies(draw: &mut Draw) -> Program {
    let mut program = Program::new("tiles", "copies");
    let (tm, tn, threads) = draw.pick(&[
        (16, 32, 32),
        (16, 32, 64),
        (32, 32, 128),
        (8, 64, 64),
        (64, 16, 64),
        (32, 64, 128),
        (16, 16, 32),
        (64, 64, 256),
        (16, 128, 64),
    ]);
    let ty = draw.pick(&[Ty::F32, Ty::F32, Ty::F16, Ty::Bf16, Ty::I32, Ty::U32]);
    let (m, mut n) = (draw.extent(tm, 2 * tm + 9), draw.extent(tn, 2 * tn + 9));
    let shift = if draw.percent(30) { (draw.range(0, 5), draw.range(0, 9)) } else { (0, 0) };
    // Transactions of so many elements, which rows have to be made of.
    let wide = shift == (0, 0) && draw.percent(25);
    let width = wide.then(|| draw.pick(&[2, 4, 16 / ty.bytes() as i64]));
    if let Some(width) = width {
        n = (n + width - 1) / width * width;
        program.options.push(format!("require(N % {width} == 0)"));
    }
    program.dims.extend([("M".into(), m), ("N".into(), n)]);
    program.threads.push(("_".into(), threads));
    let tiles = |dim: &str, tile: i64| Expr::ceil_div(Expr::index(dim), tile);
    // Shifted tiles begin before the tensor and need one more to cover it.
    let over = |dim: &str, by: i64, tile: i64| tiles(dim, tile).plus(Expr::Int(i64::from(by > 0)));
    program.blocks.extend([("bn".into(), over("N", shift.1, tn)), ("bm".into(), over("M", shift.0, tm))]);
    // A matrix of several.
    let is_batched = draw.percent(20);
    let axes: &[&str] = if is_batched { &["B", "M", "N"] } else { &["M", "N"] };
    if is_batched {
        program.dims.push(("B".into(), draw.range(1, 3)));
        program.blocks.push(("bz".into(), Expr::index("B")));
    }
    program.tensor("x", false, ty, axes, Data::Integers(3));
    let y = program.tensor("y", true, ty, axes, Data::Poison);
    program.pitch = vec![draw.pick(&[0, 0, if wide { 16 } else { 1 }, 8]), draw.pick(&[0, 0, 8])];
    if ty.is_float() && draw.percent(30) {
        program.generic = Some(ty);
    }
    let back = |e: Expr, by: i64| if by == 0 { e } else { Expr::bin(Op::Sub, e, Expr::Int(by)) };
    let corner = || {
        let inner = [back(Expr::index("bm").times(tm), shift.0), back(Expr::index("bn").times(tn), shift.1)];
        is_batched.then(|| Expr::index("bz")).into_iter().chain(inner).collect::<Vec<Expr>>()
    };
    let scopes = [Kind::Shared { swizzle: None }, Kind::Fragment];
    let scope = if ty.is_half() || wide { scopes[0].clone() } else { draw.pick(&scopes) };
    let tile = program.array("tile", scope.clone(), ty, &[tm, tn]);
    let source = match is_batched || draw.percent(70) {
        true => Tile::At("x".into(), corner()),
        false => {
            let spans = corner().into_iter().zip([tm, tn]).map(|(at, extent)| (at.clone(), at.plus(Expr::Int(extent))));
            Tile::Span("x".into(), spans.collect())
        }
    };
    let call = width.map_or_else(String::new, |width| format!(".width({width})"));
    program.body.push(Stmt::Copy { from: source, to: whole("tile"), call });
    let limit = ty.exact().min(200.0);
    let element = || vec![Expr::index("i"), Expr::index("j")];
    let mut bound = 3.0;
    let mut current = tile;
    for step in 0..draw.range(0, 3) {
        let name = format!("t{step}");
        match draw.range(0, 4) {
            0 | 1 => {
                let mut inside = Scope::default();
                inside.exact(Expr::load(&current, element()), bound);
                inside.index(Expr::index("i"), tm - 1);
                inside.index(Expr::index("j"), tn - 1);
                let (value, most) = draw.exact(&inside, ty, limit, 3);
                program.body.push(parallel(&["i", "j"], &[tm, tn], vec![store(&current, element(), value)]));
                bound = most.max(bound);
            }
            2 if tm == tn && current.kind != Kind::Fragment => {
                let next = program.array(&name, current.kind.clone(), ty, &[tm, tn]);
                let swapped = Expr::load(&current, vec![Expr::index("j"), Expr::index("i")]);
                program.body.push(parallel(&["i", "j"], &[tm, tn], vec![store(&next, element(), swapped)]));
                current = next;
            }
            3 => {
                let kind =
                    if current.kind == Kind::Fragment || ty.is_half() { scopes[0].clone() } else { scopes[1].clone() };
                let next = program.array(&name, kind, ty, &[tm, tn]);
                program.body.push(copy(whole(&current.name), whole(&next.name)));
                current = next;
            }
            _ => {}
        }
    }
    if !is_batched && draw.percent(60) {
        // A value a row or a column of each tile: its extents are dims of their own.
        let axis = draw.range(0, 1) as usize;
        let kept = if axis == 1 { tm } else { tn };
        let how = draw.pick(&[Combine::Sum, Combine::Max, Combine::Min]);
        let long = if axis == 1 { tn } else { tm };
        let how = if bound * long as f64 > ty.exact() { Combine::Max } else { how };
        let result = program.array("kept", current.kind.clone(), ty, &[kept]);
        program.body.push(Stmt::Reduce { how, from: current.name.clone(), to: "kept".into(), axis });
        let (bm, bn) = ((m + tm - 1) / tm + i64::from(shift.0 > 0), (n + tn - 1) / tn + i64::from(shift.1 > 0));
        program.dims.extend([("GM".into(), bm), ("GN".into(), bn)]);
        let size = kept.to_string();
        program.tensor("r", true, ty, &["GM", "GN", &size], Data::Poison);
        program.pitch.push(0);
        let at = vec![Expr::index("bm"), Expr::index("bn"), Expr::index("e")];
        let value = Expr::load(&result, vec![Expr::index("e")]);
        let put = Stmt::Store { array: "r".into(), at, op: None, value, masked: true };
        program.body.push(parallel(&["e"], &[kept], vec![put]));
        if draw.percent(50) {
            // And is used with the tile again.
            let other = Expr::load(&result, vec![Expr::index(if axis == 1 { "i" } else { "j" })]);
            let value = Expr::bin(Op::Min, Expr::load(&current, element()), other);
            program.body.push(parallel(&["i", "j"], &[tm, tn], vec![store(&current, element(), value)]));
        }
    }
    program.body.push(copy(whole(&current.name), Tile::At(y.name, corner())));
    program
}

/// Sums along K of tiles that a pipelined loop loads ahead.
pub fn pipelines(draw: &mut Draw) -> Program {
    if draw.percent(50) { rows(draw) } else { planes(draw) }
}

fn kind(draw: &mut Draw) -> Loop {
    match draw.percent(85) {
        true => Loop::Pipelined { stages: draw.pick(&[1, 2, 2, 3, 4]), schedule: None },
        false => Loop::Plain,
    }
}

/// A tile an iteration, added up element by element.
fn planes(draw: &mut Draw) -> Program {
    let mut program = Program::new("planes", "pipelines");
    let (tm, tk, threads) =
        draw.pick(&[(8, 32, 32), (16, 32, 64), (32, 16, 128), (4, 128, 64), (2, 256, 64), (4, 512, 128)]);
    let ty = draw.pick(&[Ty::F32, Ty::F16, Ty::Bf16]);
    let (m, k) = (draw.extent(tm, 2 * tm + 3), draw.extent(tk, 4 * tk + 3));
    program.dims.extend([("M".into(), m), ("K".into(), k)]);
    program.threads.push(("_".into(), threads));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("M"), tm)));
    let x = program.tensor("x", false, ty, &["M", "K"], Data::Integers(2));
    program.pitch = vec![draw.pick(&[0, 0, 8, 2, 1])];
    let width = tk.to_string();
    let y = program.tensor("y", true, Ty::F32, &["M", &width], Data::Poison);
    program.generic = draw.percent(30).then_some(ty).filter(|t| *t != Ty::F32);
    let tile = program.array("tile", Kind::Shared { swizzle: None }, ty, &[tm, tk]);
    let sum = program.array("sum", Kind::Shared { swizzle: None }, Ty::F32, &[tm, tk]);
    let element = || vec![Expr::index("i"), Expr::index("j")];
    let row = Expr::index("b").times(tm);
    let mut scope = Scope::default();
    scope.exact(Expr::load(&tile, element()).cast(Ty::F32), 2.0);
    scope.index(Expr::index("j"), tk - 1);
    let (value, _) = draw.exact(&scope, Ty::F32, 60.0, 2);
    let add = Stmt::Store { array: sum.name.clone(), at: element(), op: Some(Op::Add), value, masked: false };
    let load = copy(Tile::At(x.name, vec![row.clone(), Expr::index("k").times(tk)]), whole("tile"));
    program.body = vec![
        Stmt::Fill { array: "sum".into(), value: None },
        Stmt::For {
            var: "k".into(),
            from: Expr::Int(0),
            to: Expr::ceil_div(Expr::index("K"), tk),
            step: 1,
            kind: kind(draw),
            body: vec![load, parallel(&["i", "j"], &[tm, tk], vec![add])],
        },
        copy(whole("sum"), Tile::At(y.name, vec![row, Expr::Int(0)])),
    ];
    program
}

/// Rows, a few threads each: elements ahead in registers, tiles ahead in shared memory.
fn rows(draw: &mut Draw) -> Program {
    let mut program = Program::new("rows", "pipelines");
    let ty = draw.pick(&[Ty::F32, Ty::F16, Ty::Bf16]);
    let width = (16 / ty.bytes()) as i64;
    let (across, down) = draw.pick(&[(32, 1), (32, 2), (32, 4), (16, 4), (64, 2), (128, 1)]);
    let step = across * width;
    let aligned = draw.percent(70);
    let (m, mut k) = (draw.extent(down, 3 * down + 2), draw.extent(step, 3 * step + 9));
    if aligned {
        k = (k + width - 1) / width * width;
        program.options.push(format!("require(K % {width} == 0)"));
    }
    program.dims.extend([("M".into(), m), ("K".into(), k)]);
    program.threads.extend([("tk".into(), across), ("tn".into(), down)]);
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("M"), down)));
    let x = program.tensor("x", false, ty, &["K"], Data::Integers(2));
    let w = program.tensor("w", false, ty, &["M", "K"], Data::Integers(2));
    let y = program.tensor("y", true, Ty::F32, &["M"], Data::Poison);
    program.generic = draw.percent(30).then_some(ty).filter(|t| *t != Ty::F32);
    let in_shared = draw.percent(60);
    let xs = program.array("xs", Kind::Local, ty, &[width]);
    let ws = program.array("ws", Kind::Local, ty, &[width]);
    let constant = |name: &str, value: Expr| Stmt::Let { name: name.into(), mutable: false, value };
    program.body.push(constant("row", Expr::index("b").times(down).plus(Expr::index("tn"))));
    program.body.push(Stmt::Let { name: "acc".into(), mutable: true, value: Expr::Lit(Ty::F32, 0.0) });
    let v = || Expr::index("v");
    let each = |kind: Loop, body: Vec<Stmt>| Stmt::For {
        var: "v".into(),
        from: Expr::Int(0),
        to: Expr::Int(width),
        step: 1,
        kind,
        body,
    };
    let loads = if aligned { Loop::Vectorized } else { Loop::Unroll };
    let column = || Expr::index("k").times(step).plus(Expr::index("tk").times(width)).plus(v());
    let mut body = Vec::new();
    if in_shared {
        let tile = program.array("tile", Kind::Shared { swizzle: None }, ty, &[down, step]);
        let at = vec![Expr::index("b").times(down), Expr::index("k").times(step)];
        body.push(copy(Tile::At(w.name.clone(), at), whole("tile")));
        body.push(each(loads.clone(), vec![store(&xs, vec![v()], Expr::masked(&x, vec![column()]))]));
        let own = vec![Expr::index("tn"), Expr::index("tk").times(width).plus(v())];
        body.push(each(Loop::Vectorized, vec![store(&ws, vec![v()], Expr::load(&tile, own))]));
    } else {
        body.push(each(
            loads,
            vec![
                store(&xs, vec![v()], Expr::masked(&x, vec![column()])),
                store(&ws, vec![v()], Expr::masked(&w, vec![Expr::index("row"), column()])),
            ],
        ));
    }
    let product =
        Expr::bin(Op::Mul, Expr::load(&xs, vec![v()]).cast(Ty::F32), Expr::load(&ws, vec![v()]).cast(Ty::F32));
    body.push(each(Loop::Unroll, vec![Stmt::Assign { name: "acc".into(), op: Some(Op::Add), value: product }]));
    program.body.push(Stmt::For {
        var: "k".into(),
        from: Expr::Int(0),
        to: Expr::ceil_div(Expr::index("K"), step),
        step: 1,
        kind: kind(draw),
        body,
    });
    let value = Expr::Name("acc".into(), Ty::F32);
    program.body.push(Stmt::AllReduce { name: "sum".into(), how: Combine::Sum, value, axis: "tk".into() });
    let first = Expr::bin(Op::Eq, Expr::index("tk"), Expr::Int(0));
    program.body.push(Stmt::If {
        cond: first.and(Expr::index("row").below(Expr::index("M"))),
        then: vec![store(&y, vec![Expr::index("row")], Expr::Name("sum".into(), Ty::F32))],
        els: vec![],
    });
    program
}
