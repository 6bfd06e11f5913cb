//! Blocks that meet: atomics, workspaces whose last arriver finishes the work, clusters that combine tiles and exchange arrays.

use super::{Draw, Scope};
use crate::programs::tree::*;

/// Atomics on data that adds exactly, in any order.
pub fn atomics(draw: &mut Draw) -> Program {
    let mut program = Program::new("atomics", "atomics");
    let threads = draw.pick(&[32, 64, 100, 128]);
    let n = draw.extent(threads, 4 * threads + 5);
    program.dims.push(("N".into(), n));
    program.threads.push(("t".into(), threads));
    program.blocks.push(("b".into(), Expr::ceil_div(Expr::index("N"), threads)));
    let bins = draw.pick(&[1, 4, 7, 32]);
    let size = bins.to_string();
    let ty = draw.pick(&[Ty::I32, Ty::U32, Ty::F32]);
    let x = program.tensor("x", false, ty, &["N"], Data::Integers(4));
    let keys = program.tensor("keys", false, Ty::U32, &["N"], Data::Integers(40));
    let y = program.tensor("y", true, ty, &[&size], Data::Zeros);
    let how = if ty == Ty::F32 { Combine::Sum } else { draw.pick(&[Combine::Sum, Combine::Max, Combine::Min]) };
    let constant = |name: &str, value: Expr| Stmt::Let { name: name.into(), mutable: false, value };
    program.body.push(constant("i", Expr::index("b").times(threads).plus(Expr::index("t"))));
    let mut scope = Scope::default();
    scope.index(Expr::index("t"), threads - 1);
    scope.exact(Expr::load(&x, vec![Expr::index("i")]), 4.0);
    let (value, _) = draw.exact(&scope, ty, 50.0, 2);
    let inside = Expr::index("i").below(Expr::index("N"));
    let (key, inside) = match draw.percent(50) {
        true => {
            let key = Expr::bin(Op::Rem, Expr::masked(&keys, vec![Expr::index("i")]), Expr::Lit(Ty::U32, bins as f64));
            program.body.push(constant("key", key.cast(Ty::Index)));
            (Expr::index("key"), inside)
        }
        false => (Expr::bin(Op::Rem, Expr::index("i"), Expr::Int(bins)), inside),
    };
    if draw.percent(50) {
        // In shared memory first.
        let s = program.array("s", Kind::Shared { swizzle: None }, ty, &[bins]);
        program.body.push(Stmt::Fill { array: "s".into(), value: None });
        let add = Stmt::Atomic { old: None, how, array: "s".into(), at: vec![key], value };
        program.body.push(Stmt::If { cond: inside, then: vec![add], els: vec![] });
        program.body.push(Stmt::Sync);
        let index = || vec![Expr::index("t")];
        let out = Stmt::Atomic { old: None, how, array: y.name, at: index(), value: Expr::load(&s, index()) };
        let few = Expr::index("t").below(Expr::Int(bins));
        program.body.push(Stmt::If { cond: few, then: vec![out], els: vec![] });
    } else {
        let old = draw.percent(30).then(|| "before".to_owned());
        let add = Stmt::Atomic { old, how, array: y.name, at: vec![key], value };
        program.body.push(Stmt::If { cond: inside, then: vec![add], els: vec![] });
    }
    program
}

/// Sums of parts that blocks leave in a workspace; the last one of a row adds them up.
pub fn workspaces(draw: &mut Draw) -> Program {
    let mut program = Program::new("workspaces", "workspaces");
    let threads = draw.pick(&[32, 64, 128]);
    let parts = draw.pick(&[1, 2, 3, 5, 8]);
    let (m, k) = (draw.range(1, 5), draw.extent(threads * parts, 700));
    program.dims.extend([("M".into(), m), ("K".into(), k)]);
    program.threads.push(("t".into(), threads));
    program.blocks.extend([("s".into(), Expr::Int(parts)), ("row".into(), Expr::index("M"))]);
    let x = program.tensor("x", false, Ty::F32, &["M", "K"], Data::Integers(3));
    let y = program.tensor("y", true, Ty::F32, &["M"], Data::Poison);
    let held = program.workspace("held", Ty::F32, &["M", &parts.to_string()]);
    program.workspace("arrived", Ty::U32, &["M"]);
    let (row, s, t) = (|| Expr::index("row"), || Expr::index("s"), || Expr::index("t"));
    let float = |name: &str| Expr::Name(name.into(), Ty::F32);
    let zero = |name: &str| Stmt::Let { name: name.into(), mutable: true, value: Expr::Lit(Ty::F32, 0.0) };
    let add = |name: &str, value: Expr| Stmt::Assign { name: name.into(), op: Some(Op::Add), value };
    let first = || Expr::bin(Op::Eq, t(), Expr::Int(0));
    program.body = vec![
        zero("sum"),
        Stmt::For {
            var: "i".into(),
            from: s().times(threads).plus(t()),
            to: Expr::index("K"),
            step: threads * parts,
            kind: Loop::Plain,
            body: vec![add("sum", Expr::load(&x, vec![row(), Expr::index("i")]))],
        },
        Stmt::AllReduce { name: "part".into(), how: Combine::Sum, value: float("sum"), axis: "t".into() },
        Stmt::If {
            cond: first(),
            then: vec![Stmt::Store {
                array: "held".into(),
                at: vec![row(), s()],
                op: None,
                value: float("part"),
                masked: false,
            }],
            els: vec![],
        },
        Stmt::LastArriver {
            counter: "arrived".into(),
            at: vec![row()],
            count: Expr::Int(parts),
            body: vec![
                zero("total"),
                Stmt::For {
                    var: "p".into(),
                    from: Expr::Int(0),
                    to: Expr::Int(parts),
                    step: 1,
                    kind: Loop::Plain,
                    body: vec![add("total", Expr::load(&held, vec![row(), Expr::index("p")]))],
                },
                Stmt::If {
                    cond: first(),
                    then: vec![Stmt::Store {
                        array: y.name,
                        at: vec![row()],
                        op: None,
                        value: float("total"),
                        masked: false,
                    }],
                    els: vec![],
                },
            ],
        },
    ];
    program
}

/// A tile a block, combined over the blocks of a cluster.
pub fn clusters(draw: &mut Draw) -> Program {
    let mut program = Program::new("clusters", "clusters");
    let (tm, tn, threads) = draw.pick(&[(16, 32, 128), (32, 32, 128), (16, 16, 64), (64, 32, 128)]);
    let blocks = draw.pick(&[2, 4]);
    let m = draw.extent(tm, 3 * tm + 3);
    let n = blocks * tn - draw.range(0, tn - 1);
    program.hopper = true;
    program.dims.extend([("M".into(), m), ("N".into(), n)]);
    program.threads.push(("_".into(), threads));
    program.blocks.extend([("b".into(), Expr::ceil_div(Expr::index("M"), tm)), ("part".into(), Expr::Int(blocks))]);
    program.cluster = vec![1, blocks];
    let x = program.tensor("x", false, Ty::F32, &["M", "N"], Data::Integers(3));
    let y = program.tensor("y", true, Ty::F32, &["M", &tn.to_string()], Data::Poison);
    let tile = program.array("tile", Kind::Fragment, Ty::F32, &[tm, tn]);
    let row = Expr::index("b").times(tm);
    let corner = vec![row.clone(), Expr::index("part").times(tn)];
    program.body.push(Stmt::Copy {
        from: Tile::At(x.name, corner),
        to: Tile::Whole("tile".into()),
        call: String::new(),
    });
    let element = || vec![Expr::index("i"), Expr::index("j")];
    let mut scope = Scope::default();
    scope.exact(Expr::load(&tile, element()), 3.0);
    scope.index(Expr::index("j"), tn - 1);
    let (value, _) = draw.exact(&scope, Ty::F32, 100.0, 2);
    let change = Stmt::Store { array: "tile".into(), at: element(), op: None, value, masked: false };
    program.body.push(Stmt::Parallel { vars: vec!["i".into(), "j".into()], extents: vec![tm, tn], body: vec![change] });
    let how = draw.pick(&[Combine::Sum, Combine::Max, Combine::Min]);
    program.body.push(Stmt::ClusterReduce { how, array: "tile".into() });
    let target = Tile::At(y.name, vec![row, Expr::Int(0)]);
    program.body.push(Stmt::If {
        cond: Expr::bin(Op::Eq, Expr::index("part"), Expr::Int(0)),
        then: vec![Stmt::Copy { from: Tile::Whole("tile".into()), to: target, call: String::new() }],
        els: vec![],
    });
    program
}

/// Parts of an array of each block, exchanged over the blocks of a cluster; each adds up what it gets, or stores it.
pub fn exchanges(draw: &mut Draw) -> Program {
    let mut program = Program::new("exchanges", "exchanges");
    let threads = draw.pick(&[64, 128, 256, 100]);
    let blocks = draw.pick(&[1, 2, 4, 8]);
    // Of a part, outermost first.
    let axes = match draw.range(0, 4) {
        0 => vec![],
        1 => vec![draw.range(1, threads / blocks)],
        2 | 3 => vec![draw.pick(&[4, 8, 16, 32]).min(threads / blocks)],
        _ => vec![draw.range(1, 3), draw.range(1, 4)],
    };
    let part: i64 = axes.iter().product();
    let all = blocks * part;
    let m = draw.range(1, 4);
    program.hopper = true;
    program.dims.extend([("M".into(), m), ("N".into(), blocks * all - draw.range(0, all - 1))]);
    program.threads.push(("t".into(), threads));
    let grid = [("part".to_owned(), Expr::Int(blocks)), ("b".to_owned(), Expr::index("M"))];
    program.blocks.extend(grid);
    program.cluster = vec![blocks, 1];
    if draw.percent(40) {
        program.blocks.reverse();
        program.cluster.reverse();
    }
    let ty = draw.pick(&[Ty::F32, Ty::F32, Ty::I32, Ty::U32]);
    let x = program.tensor("x", false, ty, &["M", "N"], Data::Integers(3));
    let extents: Vec<i64> = [blocks].into_iter().chain(axes.iter().copied()).collect();
    program.array("mine", Kind::Shared { swizzle: None }, ty, &extents);
    let theirs = program.array("theirs", Kind::Shared { swizzle: None }, ty, &extents);
    let (t, rank, row) = (|| Expr::index("t"), || Expr::index("part"), || Expr::index("b"));
    let over = |op: Op, a: Expr, n: i64| if n == 1 && op == Op::Div { a } else { Expr::bin(op, a, Expr::Int(n)) };
    // Where element `n` of a part is.
    let inside = |n: Expr| -> Vec<Expr> {
        match axes[..] {
            [] => vec![],
            [_] => vec![n],
            [_, last] => vec![over(Op::Div, n.clone(), last), over(Op::Rem, n, last)],
            _ => unreachable!("a part has up to two axes"),
        }
    };
    let own = |at: Expr| -> Vec<Expr> {
        let first = over(Op::Div, at.clone(), part);
        [first].into_iter().chain(inside(over(Op::Rem, at, part))).collect()
    };
    let mut scope = Scope::default();
    scope.exact(Expr::masked(&x, vec![row(), rank().times(all).plus(t())]), 3.0);
    scope.index(t(), threads - 1);
    let (value, _) = draw.exact(&scope, ty, 100.0, 2);
    let store = |array: &str, at: Vec<Expr>, value: Expr| Stmt::Store {
        array: array.into(),
        at,
        op: None,
        value,
        masked: false,
    };
    let few = |count: i64, then: Vec<Stmt>| Stmt::If { cond: t().below(Expr::Int(count)), then, els: vec![] };
    program.body.push(few(all, vec![store("mine", own(t()), value)]));
    program.body.push(Stmt::ClusterExchange { from: "mine".into(), to: "theirs".into() });
    if draw.percent(50) {
        let y = program.tensor("y", true, ty, &["M", &(blocks * all).to_string()], Data::Poison);
        let at = vec![row(), rank().times(all).plus(t())];
        program.body.push(few(all, vec![store(&y.name, at, Expr::load(&theirs, own(t())))]));
        return program;
    }
    let y = program.tensor("y", true, ty, &["M", &all.to_string()], Data::Poison);
    let total = || Expr::Name("total".into(), ty);
    let from = |sender: Expr| Expr::load(&theirs, [sender].into_iter().chain(inside(t())).collect());
    let add = Stmt::Assign { name: "total".into(), op: Some(Op::Add), value: from(Expr::index("s")) };
    let sum = vec![
        Stmt::Let { name: "total".into(), mutable: true, value: Expr::Lit(ty, 0.0) },
        Stmt::For {
            var: "s".into(),
            from: Expr::Int(0),
            to: Expr::Int(blocks),
            step: 1,
            kind: Loop::Plain,
            body: vec![add],
        },
        store(&y.name, vec![row(), rank().times(part).plus(t())], total()),
    ];
    program.body.push(few(part, sum));
    program
}
