//! Products of tiles: loops along K, pipelined or not, on tensor cores, by warpgroups with roles, or by multiply-adds.
//!
//! Operands are small integers, so that every partial sum is one below 2^24, and a result has one value.

use super::Draw;
use crate::programs::tree::*;

/// What a product is made of.
#[derive(Clone)]
struct Spec {
    ty: Ty,
    /// What the operands are in memory: a load converts what differs from `ty`.
    stored: [Ty; 2],
    out: Ty,
    tile: [i64; 3],
    shape: [i64; 3],
    /// Whether A is (K, M), B is (N, K).
    transposed: [bool; 2],
    threads: i64,
    stages: Option<u32>,
    schedule: Option<&'static str>,
    policy: Option<&'static str>,
    swizzle: Option<&'static str>,
    tma: bool,
    tf32: bool,
    panel: Option<i64>,
    cluster: Vec<i64>,
    grid: Grid,
    epilogue: Epilogue,
    side: Side,
    /// Whether the grid is as many tiles as the side tensor has, rather than computed from the result's extents.
    given: bool,
    generic: bool,
    pitch: [i64; 3],
    /// How far left of its place the result's tile begins, and the operands' with it.
    consts: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Grid {
    Blocks,
    Persistent(&'static str),
}

#[derive(Clone, Copy, PartialEq)]
enum Epilogue {
    /// The sum as it is.
    Plain,
    /// Scaled, with a row added.
    Bias,
    /// Through a shared array.
    Shared,
    /// Transposed.
    Transposed,
    /// The largest of each row besides.
    RowMax,
}

/// What a block does besides: effects that must happen once a tile of the author's grid.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Nothing,
    /// Counts its tile.
    Count,
    /// Stores a row of its own.
    Row,
}

/// A product; clusters and persistent grids are a family of their own.
pub fn generate(draw: &mut Draw) -> Program {
    let mut spec = draw_spec(draw);
    if draw.percent(25) {
        spec.side = draw.pick(&[Side::Count, Side::Row]);
    }
    finish(draw, spec, "products")
}

/// A product on warpgroups, with a producer: tiles that qualify for roles.
pub fn specialised(draw: &mut Draw) -> Program {
    let mut spec = draw_roles(draw);
    if draw.percent(30) {
        spec.side = draw.pick(&[Side::Count, Side::Row]);
    }
    finish(draw, spec, "specialisation")
}

/// Grids of tiles that clusters, panels and persistent blocks walk.
pub fn grids(draw: &mut Draw) -> Program {
    let mut spec = draw_roles(draw);
    let persistent = draw.percent(60);
    if persistent {
        spec.grid = Grid::Persistent(draw.pick(&["", "", ".contiguous()", ".per_sm(1)"]));
    }
    // Two warpgroups take turns: a tile each, of blocks that walk the grid in steps.
    if matches!(spec.grid, Grid::Persistent("" | ".per_sm(1)")) && spec.threads == 128 && draw.percent(50) {
        spec.schedule = Some("PingPong");
    }
    spec.side = draw.pick(&[Side::Nothing, Side::Count, Side::Row]);
    if draw.percent(60) {
        spec.cluster = draw.pick(&[vec![1, 2], vec![2, 1], vec![2, 1], vec![1, 2], vec![2, 2]]);
    }
    if draw.percent(60) {
        spec.panel = Some(draw.pick(&[1, 2, 3, 8]));
    }
    // More tiles, so that their number is no multiple of anything.
    let [bm, bn, _] = spec.tile;
    spec.shape[0] = draw.extent(bm, 5 * bm.min(64) + 7);
    spec.shape[1] = draw.extent(bn, 2 * bn + 9);
    finish(draw, spec, "grids")
}

fn finish(draw: &mut Draw, spec: Spec, family: &'static str) -> Program {
    let mut program = build(&spec, family);
    let mut other = spec.clone();
    match draw.range(0, 4) {
        0 => other.stages = spec.stages.map(|s| if s > 2 { s - 1 } else { s + 1 }),
        1 => other.policy = draw.pick(&[None, Some("FullRow"), Some("FullCol")]),
        2 => other.panel = if spec.panel.is_some() { None } else { Some(2) },
        3 => other.tma = !spec.tma,
        _ => other.tile[2] = if spec.tile[2] == 32 { 64 } else { 32 },
    }
    // A warp grid of another policy may not divide the tile.
    let warps = other.threads / 32;
    if other.policy.is_some() && other.tile[0] / 16 < warps
        || other.policy == Some("FullCol") && other.tile[1] / 8 < warps
    {
        other.policy = None;
    }
    if other.swizzle.is_some() {
        other.swizzle = None;
    }
    program.variants.push(build(&other, family));
    program
}

fn draw_spec(draw: &mut Draw) -> Spec {
    let ty = draw.pick(&[Ty::F16, Ty::Bf16, Ty::F16, Ty::F32]);
    let (bm, bn, warps) = draw.pick(&[
        (16, 16, 1),
        (32, 32, 1),
        (32, 32, 2),
        (32, 32, 4),
        (64, 32, 4),
        (64, 64, 4),
        (64, 64, 8),
        (16, 64, 2),
        (64, 16, 2),
        (128, 64, 4),
        (48, 48, 1),
        (32, 64, 2),
    ]);
    let bk = draw.pick(&[16, 32, 64]);
    let transposed = [draw.percent(25), draw.percent(50)];
    let stages = draw.percent(65).then(|| draw.pick(&[1, 2, 3, 4]));
    let tf32 = ty == Ty::F32 && draw.percent(50);
    // Multiply-adds are simulated one by one.
    let (bm, bn, warps, bk) = match ty == Ty::F32 && !tf32 {
        true => draw.pick(&[(16, 16, 1, 16), (32, 16, 1, 16), (32, 32, 4, 16), (16, 32, 2, 32)]),
        false => (bm, bn, warps, bk),
    };
    Spec {
        ty,
        stored: [ty; 2],
        out: if draw.percent(50) { Ty::F32 } else { ty },
        tile: [bm, bn, bk],
        shape: [draw.extent(bm, bm + bm.min(32) + 3), draw.extent(bn, bn + bn.min(48) + 5), draw.extent(bk, 100)],
        transposed,
        threads: warps * 32,
        stages,
        schedule: None,
        policy: None,
        swizzle: None,
        tma: true,
        tf32,
        panel: draw.percent(30).then(|| draw.pick(&[1, 2, 4])),
        cluster: Vec::new(),
        grid: Grid::Blocks,
        epilogue: draw.pick(&[
            Epilogue::Plain,
            Epilogue::Plain,
            Epilogue::Bias,
            Epilogue::Shared,
            Epilogue::Transposed,
            Epilogue::RowMax,
        ]),
        side: Side::Nothing,
        given: draw.percent(60),
        generic: draw.percent(40),
        pitch: [draw.pick(&[0, 0, 0, 8, 1]), draw.pick(&[0, 0, 8, 2]), draw.pick(&[0, 0, 8, 1])],
        consts: draw.percent(30),
    }
}

fn draw_roles(draw: &mut Draw) -> Spec {
    let mut spec = draw_spec(draw);
    spec.ty = draw.pick(&[Ty::F16, Ty::Bf16]);
    spec.tf32 = false;
    spec.out = draw.pick(&[spec.ty, spec.ty, Ty::F32]);
    let (bm, bn, threads) = draw.pick(&[
        (64, 64, 128),
        (64, 128, 128),
        (128, 64, 128),
        (128, 64, 256),
        (128, 128, 256),
        (64, 32, 128),
        (64, 16, 128),
        (128, 32, 256),
    ]);
    spec.tile = [bm, bn, 64];
    spec.threads = threads;
    spec.stages = Some(draw.pick(&[2, 3, 4]));
    spec.schedule = draw.pick(&[None, None, Some("Cooperative")]);
    spec.shape = [draw.extent(bm, bm + 35), draw.extent(bn, bn + 41), draw.extent(64, 180)];
    // Rows of 16 bytes, which TMA asks for; else a lesser class is run.
    if draw.percent(75) {
        for (axis, extent) in spec.shape.iter_mut().enumerate() {
            let is_row = match axis {
                0 => spec.transposed[0] || spec.epilogue == Epilogue::Transposed,
                1 => true,
                _ => !spec.transposed[0] || spec.transposed[1],
            };
            if is_row {
                *extent = (*extent + 7) / 8 * 8;
            }
        }
        spec.pitch = [0, 8, 0];
    }
    spec.stored = [spec.ty; 2];
    if draw.percent(25) {
        spec.stored[draw.range(0, 1) as usize] = Ty::F32;
    }
    spec
}

fn build(spec: &Spec, family: &'static str) -> Program {
    let Spec { ty, out, tile: [bm, bn, bk], shape: [m, n, k], .. } = *spec;
    let mut program = Program::new("product", family);
    program.agreement = Agreement::Sign;
    program.dims.extend([("M".into(), m), ("N".into(), n), ("K".into(), k)]);
    // Products of tf32 of which a side is wide enough for 16 bits have no other demands.
    let small = Data::Integers(3);
    let a =
        program.tensor("a", false, spec.stored[0], if spec.transposed[0] { &["K", "M"] } else { &["M", "K"] }, small);
    let b =
        program.tensor("b", false, spec.stored[1], if spec.transposed[1] { &["N", "K"] } else { &["K", "N"] }, small);
    program.pitch.copy_from_slice(&spec.pitch[..2]);
    let transposed = spec.epilogue == Epilogue::Transposed;
    let bias =
        (spec.epilogue == Epilogue::Bias).then(|| program.tensor("bias", false, Ty::F32, &["N"], Data::Integers(5)));
    let c = program.tensor("c", true, out, if transposed { &["N", "M"] } else { &["M", "N"] }, Data::Poison);
    if let Some(last) = program.pitch.last_mut() {
        *last = spec.pitch[2];
    }
    let tiles = |dim: &str, tile: i64| Expr::ceil_div(Expr::index(dim), tile);
    let (across, down) = ((n + bn - 1) / bn, (m + bm - 1) / bm);
    let row_max = (spec.epilogue == Epilogue::RowMax).then(|| {
        program.dims.push(("G".into(), across));
        program.tensor("most", true, Ty::F32, &["M", "G"], Data::Poison)
    });
    let side = match spec.side {
        Side::Nothing => None,
        Side::Count => {
            program.dims.extend([("TM".into(), down), ("TN".into(), across)]);
            Some(program.tensor("counts", true, Ty::I32, &["TM", "TN"], Data::Zeros))
        }
        Side::Row => {
            program.dims.extend([("TM".into(), down), ("TN".into(), across)]);
            Some(program.tensor("marks", true, Ty::F32, &["TM", "TN"], Data::Poison))
        }
    };
    if spec.epilogue == Epilogue::Bias {
        program.scalars.push(("alpha".into(), Ty::F32, 2.0));
    }
    if spec.generic {
        program.generic = Some(ty);
    }
    if spec.consts {
        program.consts.extend([("BM".into(), bm)]);
        if bn != bm {
            program.consts.push(("BN".into(), bn));
        }
    }
    if !spec.cluster.is_empty() {
        program.hopper = true;
        program.cluster = spec.cluster.clone();
    }
    program.panel = spec.panel;
    let uses_thread = spec.side != Side::Nothing;
    program.threads.push((if uses_thread { "t" } else { "_" }.into(), spec.threads));
    // A grid of the side tensor's own extents: what it stores is proven in bounds, and stays without guards.
    let given = spec.given && spec.side != Side::Nothing;
    let grid = match given {
        true => [Expr::index("TN"), Expr::index("TM")],
        false => [tiles("N", bn), tiles("M", bm)],
    };
    if spec.grid == Grid::Blocks {
        program.blocks.extend(["bx".to_owned(), "by".to_owned()].into_iter().zip(grid.clone()));
    }
    let shared = |p: &mut Program, name: &str, rows: i64, cols: i64| {
        p.array(name, Kind::Shared { swizzle: spec.swizzle }, ty, &[rows, cols])
    };
    let (a_rows, a_cols) = if spec.transposed[0] { (bk, bm) } else { (bm, bk) };
    let (b_rows, b_cols) = if spec.transposed[1] { (bn, bk) } else { (bk, bn) };
    shared(&mut program, "a_s", a_rows, a_cols);
    shared(&mut program, "b_s", b_rows, b_cols);
    program.array("acc", Kind::Fragment, Ty::F32, &[bm, bn]);
    let (row, col) = (Expr::index("by").times(bm), Expr::index("bx").times(bn));
    let depth = Expr::index("k").times(bk);
    let at = |array: &Array, swap: bool, x: &Expr, y: &Expr| {
        Tile::At(array.name.clone(), if swap { vec![y.clone(), x.clone()] } else { vec![x.clone(), y.clone()] })
    };
    let call = if spec.tma { String::new() } else { ".tma(false)".to_owned() };
    let whole = |name: &str| Tile::Whole(name.into());
    let product = vec![
        Stmt::Copy { from: at(&a, spec.transposed[0], &row, &depth), to: whole("a_s"), call: call.clone() },
        Stmt::Copy { from: at(&b, spec.transposed[1], &depth, &col), to: whole("b_s"), call },
        Stmt::Gemm {
            a: ("a_s".into(), spec.transposed[0]),
            b: ("b_s".into(), spec.transposed[1]),
            acc: "acc".into(),
            policy: spec.policy,
            clear: false,
            tf32: spec.tf32,
        },
    ];
    let kind = spec.stages.map_or(Loop::Plain, |stages| Loop::Pipelined { stages, schedule: spec.schedule });
    let mut body = vec![
        Stmt::Fill { array: "acc".into(), value: None },
        Stmt::For { var: "k".into(), from: Expr::Int(0), to: tiles("K", bk), step: 1, kind, body: product },
    ];
    let element = || vec![Expr::index("i"), Expr::index("j")];
    let acc = program.arrays[2].clone();
    let target = at(&c, transposed, &row, &col);
    let each = |body: Vec<Stmt>| Stmt::Parallel { vars: vec!["i".into(), "j".into()], extents: vec![bm, bn], body };
    match spec.epilogue {
        Epilogue::Plain => body.push(Stmt::Copy { from: whole("acc"), to: target, call: String::new() }),
        Epilogue::Transposed => {
            body.push(Stmt::Copy { from: Tile::Transposed("acc".into()), to: target, call: String::new() });
        }
        Epilogue::Bias => {
            let row = bias.as_ref().map(|bias| Expr::masked(bias, vec![col.clone().plus(Expr::index("j"))]));
            let scaled = Expr::bin(Op::Mul, Expr::load(&acc, element()), Expr::Name("alpha".into(), Ty::F32));
            let value = row.map_or(scaled.clone(), |row| scaled.plus(row));
            body.push(each(vec![Stmt::Store { array: "acc".into(), at: element(), op: None, value, masked: false }]));
            body.push(Stmt::Copy { from: whole("acc"), to: target, call: String::new() });
        }
        Epilogue::Shared => {
            program.array("out", Kind::Shared { swizzle: None }, Ty::F32, &[bm, bn]);
            body.push(Stmt::Copy { from: whole("acc"), to: whole("out"), call: String::new() });
            body.push(Stmt::Copy { from: whole("out"), to: target, call: String::new() });
        }
        Epilogue::RowMax => {
            program.array("rows", Kind::Fragment, Ty::F32, &[bm]);
            body.push(Stmt::Reduce { how: Combine::Max, from: "acc".into(), to: "rows".into(), axis: 1 });
            if let Some(most) = &row_max {
                let rows = Expr::load(&program.arrays[3], vec![Expr::index("i")]);
                let at = vec![row.clone().plus(Expr::index("i")), Expr::index("bx")];
                let store = Stmt::Store { array: most.name.clone(), at, op: None, value: rows, masked: true };
                body.push(Stmt::Parallel { vars: vec!["i".into()], extents: vec![bm], body: vec![store] });
            }
            body.push(Stmt::Copy { from: whole("acc"), to: target, call: String::new() });
        }
    }
    if let Some(side) = side {
        let at = vec![Expr::index("by"), Expr::index("bx")];
        let first = Expr::bin(Op::Eq, Expr::index("t"), Expr::Int(0));
        let stmt = match spec.side {
            Side::Count => {
                Stmt::Atomic { old: None, how: Combine::Sum, array: side.name, at, value: Expr::Lit(Ty::I32, 1.0) }
            }
            _ => {
                let value = Expr::index("by").times(3).plus(Expr::index("bx")).cast(Ty::F32);
                Stmt::Store { array: side.name, at, op: None, value, masked: !given }
            }
        };
        // The grid covers exactly the tiles, which the counters' extents do not say.
        let inside = Expr::index("by").below(Expr::index("TM")).and(Expr::index("bx").below(Expr::index("TN")));
        let stmt = match spec.side {
            Side::Count if !given => Stmt::If { cond: first.and(inside), then: vec![stmt], els: vec![] },
            _ => Stmt::If { cond: first, then: vec![stmt], els: vec![] },
        };
        body.push(stmt);
    }
    // More shared memory than sm_80 has.
    let shared = program.arrays.iter().filter(|a| matches!(a.kind, Kind::Shared { .. }));
    let bytes = |a: &Array| program.shape(a).iter().product::<i64>() * a.ty.bytes() as i64;
    let ring = i64::from(spec.stages.unwrap_or(1));
    let all: i64 = shared.map(|a| bytes(a) * if a.name == "out" { 1 } else { ring }).sum();
    program.hopper |= all > 160_000;
    program.body = match spec.grid {
        Grid::Blocks => body,
        Grid::Persistent(call) => {
            let vars = vec!["bx".into(), "by".into()];
            vec![Stmt::Persistent { vars, extents: grid.to_vec(), call, body }]
        }
    };
    program
}
