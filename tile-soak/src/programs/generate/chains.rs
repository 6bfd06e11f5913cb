//! Two products in one loop: what is between them stays in registers, is reduced over rows and rounded to 16 bits.
//!
//! Operands and what is between the products are small integers, so every sum is exact.

use super::Draw;
use crate::programs::tree::*;

/// What becomes of the first product before it is an operand of the second.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    /// It is clamped.
    Clamped,
    /// The largest of its row is taken from it.
    Largest,
    /// It is clamped, and its rows' sums are a result too.
    Sums(Adding),
}

/// How a step's sums of rows are added to the total.
#[derive(Clone, Copy, PartialEq)]
enum Adding {
    /// As they are.
    Plain,
    /// To half of the total.
    ToHalf,
    /// To the total times a fragment of rows, which holds halves.
    ToHalves,
    /// As they are, in steps of which some are left out.
    Sometimes,
    /// As they are; what the total is by then is taken from the rows before they are multiplied, and limited.
    AndRead,
}

#[derive(Clone)]
struct Spec {
    ty: Ty,
    out: Ty,
    /// Rows, columns of the first product, its depth, columns of the second.
    tile: [i64; 4],
    threads: i64,
    shape: [i64; 2],
    stages: Option<u32>,
    schedule: Option<&'static str>,
    tma: bool,
    between: Between,
    /// Whether columns beyond the tensor are set.
    masked: bool,
    /// Whether the second product's operand is a shared array, which a `copy` rounds into.
    in_shared: bool,
    generic: bool,
}

/// One of them.
pub fn generate(draw: &mut Draw) -> Program {
    let (tile, threads) = draw.pick(&[
        ([64, 64, 64, 64], 128),
        ([64, 32, 64, 64], 128),
        ([64, 64, 64, 32], 128),
        ([128, 64, 64, 64], 256),
        ([16, 16, 16, 16], 32),
        ([32, 32, 32, 32], 64),
        ([16, 32, 64, 16], 32),
        ([64, 16, 32, 64], 128),
    ]);
    let [bm, bn, ..] = tile;
    let ty = draw.pick(&[Ty::F16, Ty::Bf16]);
    let spec = Spec {
        ty,
        out: draw.pick(&[ty, Ty::F32, Ty::F32]),
        tile,
        threads,
        shape: [draw.extent(bm, bm + bm.min(40) + 3), draw.extent(bn, 2 * bn + 21)],
        stages: draw.percent(85).then(|| draw.pick(&[1, 2, 2, 3])),
        schedule: draw.pick(&[None, None, Some("Cooperative")]),
        tma: draw.percent(85),
        between: match draw.pick(&[Between::Clamped, Between::Largest, Between::Sums(Adding::Plain)]) {
            Between::Sums(_) => Between::Sums(draw.pick(&[
                Adding::Plain,
                Adding::ToHalf,
                Adding::ToHalves,
                Adding::Sometimes,
                Adding::AndRead,
            ])),
            other @ (Between::Clamped | Between::Largest) => other,
        },
        masked: draw.percent(60),
        in_shared: draw.percent(30),
        generic: draw.percent(40),
    };
    let mut program = build(&spec);
    let other = Spec {
        stages: spec.stages.map(|s| if s > 1 { s - 1 } else { 2 }),
        tma: !spec.tma,
        in_shared: !spec.in_shared,
        ..spec.clone()
    };
    program.variants.push(build(&other));
    program
}

fn build(spec: &Spec) -> Program {
    let Spec { ty, tile: [bm, bn, depth, columns], shape: [m, n], between, .. } = *spec;
    let mut program = Program::new("chain", "chains");
    program.agreement = Agreement::Sign;
    program.dims.extend([("M".into(), m), ("N".into(), n)]);
    program.generic = spec.generic.then_some(ty);
    let small = Data::Integers(2);
    let (inner, outer) = (depth.to_string(), columns.to_string());
    let q = program.tensor("q", false, ty, &["M", &inner], small);
    let k = program.tensor("k", false, ty, &["N", &inner], small);
    let v = program.tensor("v", false, ty, &["N", &outer], small);
    let y = program.tensor("y", true, spec.out, &["M", &outer], Data::Poison);
    let sums = matches!(between, Between::Sums(_)).then(|| program.tensor("sums", true, Ty::F32, &["M"], Data::Poison));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("M"), bm)));
    program.threads.push(("_".into(), spec.threads));
    let shared = Kind::Shared { swizzle: None };
    program.array("q_s", shared.clone(), ty, &[bm, depth]);
    program.array("k_s", shared.clone(), ty, &[bn, depth]);
    program.array("v_s", shared.clone(), ty, &[bn, columns]);
    let scores = program.array("scores", Kind::Fragment, Ty::F32, &[bm, bn]);
    let kind = if spec.in_shared { shared } else { Kind::Fragment };
    let weights = program.array("weights", kind, ty, &[bm, bn]);
    program.array("acc", Kind::Fragment, Ty::F32, &[bm, columns]);
    // A fragment of one axis that nobody uses has no layout.
    let here = Array::new("here", Kind::Fragment, Ty::F32, &[bm]);
    if between != Between::Clamped {
        program.arrays.push(here.clone());
    }
    let whole = |name: &str| Tile::Whole(name.into());
    let at = |array: &Array, row: Expr| Tile::At(array.name.clone(), vec![row, Expr::Int(0)]);
    let copy = |from: Tile, to: Tile| Stmt::Copy { from, to, call: String::new() };
    let call = if spec.tma { String::new() } else { ".tma(false)".to_owned() };
    let load = |array: &Array, to: &str| Stmt::Copy {
        from: at(array, Expr::index("step").times(bn)),
        to: whole(to),
        call: call.clone(),
    };
    let (i, j) = (|| Expr::index("i"), || Expr::index("j"));
    let element = || vec![i(), j()];
    let each = |body: Vec<Stmt>| Stmt::Parallel { vars: vec!["i".into(), "j".into()], extents: vec![bm, bn], body };
    let store = |array: &Array, at: Vec<Expr>, op: Option<Op>, value: Expr| Stmt::Store {
        array: array.name.clone(),
        at,
        op,
        value,
        masked: false,
    };
    let literal = |value: f64| Expr::Lit(Ty::F32, value);
    let score = || Expr::load(&scores, element());
    let mut body = vec![load(&k, "k_s"), load(&v, "v_s")];
    body.push(Stmt::Gemm {
        a: ("q_s".into(), false),
        b: ("k_s".into(), true),
        acc: "scores".into(),
        policy: Some("FullRow"),
        clear: true,
        tf32: false,
    });
    if spec.masked {
        // What is multiplied with rows of zeros does not show, but in sums and largest ones.
        let beyond = Expr::bin(Op::Ge, Expr::index("step").times(bn).plus(j()), Expr::index("N"));
        let set = store(&scores, element(), None, literal(2.0));
        let inner = each(vec![Stmt::If { cond: beyond, then: vec![set], els: vec![] }]);
        let last = Expr::bin(Op::Gt, Expr::index("step").times(bn).plus(Expr::Int(bn)), Expr::index("N"));
        body.push(Stmt::If { cond: last, then: vec![inner], els: vec![] });
    }
    let least = || Expr::Neg(Expr::Lit(Ty::F32, 3.0).into());
    match between {
        Between::Clamped | Between::Sums(_) => {
            let value = Expr::bin(Op::Max, Expr::bin(Op::Min, score(), literal(3.0)), least());
            body.push(each(vec![store(&scores, element(), None, value)]));
        }
        Between::Largest => {
            body.push(Stmt::Reduce { how: Combine::Max, from: "scores".into(), to: "here".into(), axis: 1 });
            let lower = Expr::bin(Op::Sub, score(), Expr::load(&here, vec![i()]));
            body.push(each(vec![store(&scores, element(), None, Expr::bin(Op::Max, lower, least()))]));
        }
    }
    let rows = |body: Vec<Stmt>| Stmt::Parallel { vars: vec!["i".into()], extents: vec![bm], body };
    let mut after = Vec::new();
    let mut before = vec![Stmt::Fill { array: "acc".into(), value: None }];
    if let (Some(sums), Between::Sums(adding)) = (&sums, between) {
        let total = program.array("total", Kind::Fragment, Ty::F32, &[bm]);
        before.push(Stmt::Fill { array: "total".into(), value: Some(literal(1.0)) });
        let reduce = Stmt::Reduce { how: Combine::Sum, from: "scores".into(), to: "here".into(), axis: 1 };
        let (held, added) = (|| Expr::load(&total, vec![i()]), Expr::load(&here, vec![i()]));
        let scaled = |factor: Expr| Expr::bin(Op::Add, Expr::bin(Op::Mul, held(), factor), added.clone());
        let add = |value: Expr| rows(vec![store(&total, vec![i()], None, value)]);
        match adding {
            Adding::Plain => body.extend([reduce, rows(vec![store(&total, vec![i()], Some(Op::Add), added.clone())])]),
            Adding::ToHalf => body.extend([reduce, add(scaled(literal(0.5)))]),
            Adding::ToHalves => {
                let halves = program.array("halves", Kind::Fragment, Ty::F32, &[bm]);
                before.push(Stmt::Fill { array: "halves".into(), value: Some(literal(0.5)) });
                body.extend([reduce, add(scaled(Expr::load(&halves, vec![i()])))]);
            }
            Adding::Sometimes => {
                let later = Expr::bin(Op::Gt, Expr::index("step"), Expr::Int(0));
                let then = vec![reduce, add(Expr::bin(Op::Add, held(), added.clone()))];
                body.push(Stmt::If { cond: later, then, els: vec![] });
            }
            Adding::AndRead => {
                body.extend([reduce, add(Expr::bin(Op::Add, held(), added.clone()))]);
                let lower = Expr::bin(Op::Sub, score(), held());
                let limited = Expr::bin(Op::Max, Expr::bin(Op::Min, lower, literal(3.0)), least());
                body.push(each(vec![store(&scores, element(), None, limited)]));
            }
        }
        let row = Expr::index("b").times(bm).plus(i());
        let value = Expr::load(&total, vec![i()]);
        let put = Stmt::Store { array: sums.name.clone(), at: vec![row], op: None, value, masked: true };
        after.push(rows(vec![put]));
    }
    body.push(match spec.in_shared {
        true => copy(whole("scores"), whole("weights")),
        false => each(vec![store(&weights, element(), None, score().cast(ty))]),
    });
    body.push(Stmt::Gemm {
        a: ("weights".into(), false),
        b: ("v_s".into(), false),
        acc: "acc".into(),
        policy: None,
        clear: false,
        tf32: false,
    });
    before.push(copy(at(&q, Expr::index("b").times(bm)), whole("q_s")));
    let kind = spec.stages.map_or(Loop::Plain, |stages| Loop::Pipelined { stages, schedule: spec.schedule });
    let to = Expr::ceil_div(Expr::index("N"), bn);
    before.push(Stmt::For { var: "step".into(), from: Expr::Int(0), to, step: 1, kind, body });
    after.push(copy(whole("acc"), at(&y, Expr::index("b").times(bm))));
    program.body = [before, after].concat();
    program
}
