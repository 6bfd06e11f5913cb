//! Tile operations: the shapes of copies, and the barriers that the compiler places.

use super::*;

#[test]
fn copies() {
    let kernel = |extents: &[i64], per_thread: bool| {
        let mut b = Build::new();
        let x = b.tensor("x", Dtype::F32, &["M", "K"], false);
        let t = b.threads("t", 128);
        let s = b.shared("s", Dtype::F32, extents);
        let (row, column) = (if per_thread { b.var(t) } else { b.int(0) }, b.int(0));
        let (src, dst) = (b.tile(x, &[row, column]), b.tile(s, &[]));
        let stmt = b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None });
        (b, stmt)
    };
    let (b, stmt) = kernel(&[16, 64], false);
    let facts = clean(b).copies[&stmt].clone();
    assert_eq!(facts.extents, [16, 64]);
    assert_eq!((facts.src, facts.dst), (vec![Bound::Unproven; 2], vec![Bound::Proven; 2]));
    let (b, _) = kernel(&[16, 64], true);
    fails(
        b,
        expect![[r#"
            [TK0804] copy: the tile's coordinates differ between threads
              at: a copy to or from a shared array is one operation of the whole block
              help: use coordinates made of block indices, dims and constants, or copy into a local array
        "#]],
    );
    let mut b = Build::new();
    b.threads("t", 128);
    let a = b.shared("a", Dtype::F16, &[128, 64]);
    let s = b.shared("s", Dtype::F16, &[128, 32]);
    let (src, dst) = (b.tile(a, &[]), b.tile(s, &[]));
    b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None });
    fails(
        b,
        expect![[r#"
            [TK0102] copy: the tiles differ in shape
              at: f16[128, 64] into f16[128, 32]
              help: give both tiles the same extents
        "#]],
    );
}

#[test]
fn the_compiler_synchronises_tile_operations() {
    let mut b = Build::new();
    let x = b.tensor("x", Dtype::F32, &["K"], false);
    let k = b.dim("K");
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[128]);
    let mut wanted = Vec::new();
    b.serial("k", k, |b, i| {
        let start = b.affine(128, i, 0);
        let (src, dst) = (b.tile(x, &[start]), b.tile(s, &[]));
        wanted.push(b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None }));
        let (t_, c) = (b.var(t), b.int(64));
        let cond = b.lt(t_, c);
        // The read stands under a condition that threads do not share: the barrier goes before it.
        wanted.push(b.if_(cond, |b| {
            let at = b.affine(1, t, 1);
            let value = b.load(s, &[at]);
            b.let_("value", value);
        }));
    });
    let analysis = clean(b);
    assert_eq!(analysis.barriers_before, wanted.into_iter().collect());
}

#[test]
fn a_parallel_loop_is_one_operation() {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[512]);
    b.parallel("i", 512, |b, i| {
        let (at, to) = (b.var(i), b.var(i));
        let value = b.load(s, &[at]);
        b.store(s, &[to], value);
    });
    let at = b.affine(2, t, 0);
    let value = b.load(s, &[at]);
    let var = b.new_var("value", Type::F32, VarKind::Let);
    let read = b.stmt(StmtKind::Let { var, value: Some(value) });
    let analysis = clean(b);
    assert_eq!(analysis.barriers_before, [read].into_iter().collect());
}

#[test]
fn an_allreduce_orders_what_is_on_its_sides() {
    let mut b = Build::new();
    let t = b.threads("t", 128);
    let s = b.shared("s", Dtype::F32, &[256]);
    let (at, zero) = (b.var(t), b.float(0.0));
    b.store(s, &[at], zero);
    let one = b.float(1.0);
    b.allreduce("sum", one, t);
    let at = b.affine(1, t, 1);
    let value = b.load(s, &[at]);
    let var = b.new_var("value", Type::F32, VarKind::Let);
    let read = b.stmt(StmtKind::Let { var, value: Some(value) });
    let analysis = clean(b);
    assert_eq!(analysis.barriers_before, [read].into_iter().collect());
}
