//! Products whose depth is shared by several blocks: a cluster adds their tiles, or the last one adds what the others left in
//! a workspace.

use super::Draw;
use crate::programs::tree::*;

#[derive(Clone)]
struct Spec {
    ty: Ty,
    out: Ty,
    tile: [i64; 3],
    threads: i64,
    shape: [i64; 3],
    parts: i64,
    stages: Option<u32>,
    is_cluster: bool,
    /// Whether B is (N, K).
    transposed: bool,
    /// Whether parts are put aside and taken back as tiles.
    by_tiles: [bool; 2],
    panel: Option<i64>,
    generic: bool,
}

/// Tiles along each axis of the grid, at most: the extents of the counters.
const MOST_TILES: i64 = 8;

/// One of them.
pub fn generate(draw: &mut Draw) -> Program {
    let is_cluster = draw.percent(50);
    let (bm, bn, threads) = draw.pick(&[(64, 64, 128), (64, 32, 128), (32, 32, 64), (16, 64, 64), (128, 64, 256)]);
    let bk = draw.pick(&[32, 64]);
    let parts = if is_cluster { draw.pick(&[2, 4]) } else { draw.pick(&[1, 2, 3, 4]) };
    let ty = draw.pick(&[Ty::F16, Ty::Bf16]);
    let spec = Spec {
        ty,
        out: if is_cluster { draw.pick(&[ty, Ty::F32]) } else { Ty::F32 },
        tile: [bm, bn, bk],
        threads,
        shape: [draw.extent(bm, bm + 35), draw.extent(bn, bn + 29), draw.extent(bk, 230)],
        parts,
        stages: draw.percent(70).then(|| draw.pick(&[1, 2, 3])),
        is_cluster,
        transposed: draw.percent(50),
        by_tiles: [draw.percent(50), draw.percent(50)],
        panel: draw.percent(20).then_some(2),
        generic: draw.percent(30),
    };
    let mut program = build(&spec);
    let other = Spec { stages: spec.stages.map_or(Some(2), |_| None), by_tiles: spec.by_tiles.map(|b| !b), ..spec };
    program.variants.push(build(&other));
    program
}

fn build(spec: &Spec) -> Program {
    let Spec { ty, tile: [bm, bn, bk], shape: [m, n, k], parts, threads, .. } = *spec;
    let mut program = Program::new("split", "splits");
    program.agreement = Agreement::Sign;
    program.dims.extend([("M".into(), m), ("N".into(), n), ("K".into(), k)]);
    program.generic = spec.generic.then_some(ty);
    program.panel = spec.panel;
    let small = Data::Integers(3);
    let a = program.tensor("a", false, ty, &["M", "K"], small);
    let b = program.tensor("b", false, ty, if spec.transposed { &["N", "K"] } else { &["K", "N"] }, small);
    let c = program.tensor("c", true, spec.out, &["M", "N"], Data::Poison);
    let tiles = |dim: &str, tile: i64| Expr::ceil_div(Expr::index(dim), tile);
    program.blocks.extend([
        ("bx".into(), tiles("N", bn)),
        ("by".into(), tiles("M", bm)),
        ("part".into(), Expr::Int(parts)),
    ]);
    program.threads.push((if spec.is_cluster { "_" } else { "t" }.into(), threads));
    let shared = Kind::Shared { swizzle: None };
    program.array("a_s", shared.clone(), ty, &[bm, bk]);
    program.array("b_s", shared, ty, &if spec.transposed { [bn, bk] } else { [bk, bn] });
    let acc = program.array("acc", Kind::Fragment, Ty::F32, &[bm, bn]);
    let (row, col) = (Expr::index("by").times(bm), Expr::index("bx").times(bn));
    let depth = || Expr::index("k");
    let whole = |name: &str| Tile::Whole(name.into());
    let at = |array: &Array, at: Vec<Expr>| Tile::At(array.name.clone(), at);
    let copy = |from: Tile, to: Tile| Stmt::Copy { from, to, call: String::new() };
    let constant = |name: &str, value: Expr| Stmt::Let { name: name.into(), mutable: false, value };
    let second = if spec.transposed { vec![col.clone(), depth()] } else { vec![depth(), col.clone()] };
    let first = Expr::bin(Op::Mul, Expr::index("part"), Expr::index("share")).plus(Expr::index("step"));
    let product = vec![
        constant("k", first.times(bk)),
        copy(at(&a, vec![row.clone(), depth()]), whole("a_s")),
        copy(at(&b, second), whole("b_s")),
        Stmt::Gemm {
            a: ("a_s".into(), false),
            b: ("b_s".into(), spec.transposed),
            acc: "acc".into(),
            policy: None,
            clear: false,
            tf32: false,
        },
    ];
    let kind = spec.stages.map_or(Loop::Plain, |stages| Loop::Pipelined { stages, schedule: None });
    program.body = vec![
        constant("share", Expr::ceil_div(tiles("K", bk), parts)),
        Stmt::Fill { array: "acc".into(), value: None },
        Stmt::For { var: "step".into(), from: Expr::Int(0), to: Expr::index("share"), step: 1, kind, body: product },
    ];
    let target = at(&c, vec![row.clone(), col.clone()]);
    if spec.is_cluster {
        program.hopper = true;
        program.cluster = vec![1, 1, parts];
        program.body.push(Stmt::ClusterReduce { how: Combine::Sum, array: "acc".into() });
        let cond = Expr::bin(Op::Eq, Expr::index("part"), Expr::Int(0));
        program.body.push(Stmt::If { cond, then: vec![copy(whole("acc"), target)], els: vec![] });
        return program;
    }
    for (dim, tile) in [("M", bm), ("N", bn)] {
        program.options.push(format!("require(ceil_div({dim}, {tile}) <= {MOST_TILES})"));
    }
    let held = program.workspace("held", Ty::F32, &[&parts.to_string(), "M", "N"]);
    let most = MOST_TILES.to_string();
    program.workspace("arrived", Ty::U32, &[&most, &most]);
    let (i, j) = (|| Expr::index("i"), || Expr::index("j"));
    let each = |body: Vec<Stmt>| Stmt::Parallel { vars: vec!["i".into(), "j".into()], extents: vec![bm, bn], body };
    program.body.push(match spec.by_tiles[0] {
        true => copy(whole("acc"), at(&held, vec![Expr::index("part"), row.clone(), col.clone()])),
        false => {
            let place = vec![Expr::index("part"), row.clone().plus(i()), col.clone().plus(j())];
            let value = Expr::load(&acc, vec![i(), j()]);
            each(vec![Stmt::Store { array: held.name.clone(), at: place, op: None, value, masked: true }])
        }
    });
    let body = match spec.by_tiles[1] {
        true => sum_of_tiles(&mut program, &held, target, [row, col], parts),
        false => sum_of_elements(&held, &c, spec),
    };
    let at = vec![Expr::index("by"), Expr::index("bx")];
    program.body.push(Stmt::LastArriver { counter: "arrived".into(), at, count: Expr::Int(parts), body });
    program
}

/// Every part's tile is loaded and added.
fn sum_of_tiles(program: &mut Program, held: &Array, target: Tile, [row, col]: [Expr; 2], parts: i64) -> Vec<Stmt> {
    let acc = program.arrays[2].clone();
    let extents = program.shape(&acc);
    let other = program.array("other", Kind::Fragment, Ty::F32, &extents);
    let element = || vec![Expr::index("i"), Expr::index("j")];
    let value = Expr::load(&other, element());
    let add = Stmt::Store { array: acc.name.clone(), at: element(), op: Some(Op::Add), value, masked: false };
    let whole = |name: &str| Tile::Whole(name.into());
    let copy = |from: Tile, to: Tile| Stmt::Copy { from, to, call: String::new() };
    let body = vec![
        copy(Tile::At(held.name.clone(), vec![Expr::index("s"), row, col]), whole("other")),
        Stmt::Parallel { vars: vec!["i".into(), "j".into()], extents, body: vec![add] },
    ];
    vec![
        Stmt::Fill { array: acc.name, value: None },
        Stmt::For { var: "s".into(), from: Expr::Int(0), to: Expr::Int(parts), step: 1, kind: Loop::Plain, body },
        copy(whole("acc"), target),
    ]
}

/// Every thread adds the parts of its elements.
fn sum_of_elements(held: &Array, c: &Array, spec: &Spec) -> Vec<Stmt> {
    let [bm, bn, _] = spec.tile;
    let number = || Expr::index("e").times(spec.threads).plus(Expr::index("t"));
    let row = Expr::bin(Op::Div, number(), Expr::Int(bn));
    let col = Expr::bin(Op::Rem, number(), Expr::Int(bn));
    let constant = |name: &str, value: Expr| Stmt::Let { name: name.into(), mutable: false, value };
    let (i, j) = (|| Expr::index("i"), || Expr::index("j"));
    let total = Expr::load(held, vec![Expr::index("s"), i(), j()]);
    let inside = i().below(Expr::index("M")).and(j().below(Expr::index("N")));
    let work = vec![
        Stmt::Let { name: "sum".into(), mutable: true, value: Expr::Lit(Ty::F32, 0.0) },
        Stmt::For {
            var: "s".into(),
            from: Expr::Int(0),
            to: Expr::Int(spec.parts),
            step: 1,
            kind: Loop::Plain,
            body: vec![Stmt::Assign { name: "sum".into(), op: Some(Op::Add), value: total }],
        },
        Stmt::Store {
            array: c.name.clone(),
            at: vec![i(), j()],
            op: None,
            value: Expr::Name("sum".into(), Ty::F32),
            masked: false,
        },
    ];
    vec![Stmt::For {
        var: "e".into(),
        from: Expr::Int(0),
        to: Expr::Int(bm * bn / spec.threads),
        step: 1,
        kind: Loop::Plain,
        body: vec![
            constant("i", Expr::index("by").times(bm).plus(row)),
            constant("j", Expr::index("bx").times(bn).plus(col)),
            Stmt::If { cond: inside, then: work, els: vec![] },
        ],
    }]
}
