//! Loads ahead into shared memory: who synchronises them, who may come by, how they are copied, what they take.

use super::*;

/// Rows of `w` summed through a shared array of `width` elements in `stages`; `fill` builds the loads of iteration `c`
/// by thread `t`, into the array given last. Then the rest reads another thread's element.
fn staged(
    dtype: Dtype,
    [threads, width, stages]: [i64; 3],
    fill: impl FnOnce(&mut Build, Place, Place, VarId, VarId),
) -> Build {
    let mut b = Build::new();
    let w = b.tensor("w", dtype, &["N", "K"], false);
    let n = b.dim("N");
    let row = b.blocks("row", n);
    let t = b.threads("t", threads);
    let ws = b.shared("ws", dtype, &[width]);
    let (zero, trips, stages) = (b.int(0), b.dim("K"), b.int(stages));
    b.for_("c", zero, trips, LoopKind::Pipelined { stages, schedule: Schedule::Auto }, |b, c| {
        let _ = row;
        fill(b, w, ws, c, t);
        let (last, t_) = (b.int(threads - 1), b.var(t));
        let other = b.bin(BinaryOp::Sub, last, t_);
        let value = b.load(ws, &[other]);
        b.let_mut("value", value);
    });
    b
}

fn own(b: &mut Build, w: Place, ws: Place, c: VarId, t: VarId) {
    let (row, at, to) = (b.int(0), b.var(c), b.var(t));
    let column = b.add(at, to);
    let value = b.masked(w, &[row, column]);
    let to = b.var(t);
    b.store(ws, &[to], value);
}

#[test]
fn single_elements_need_no_barrier_of_the_author() {
    for stages in 1..=3 {
        let analysis = clean(staged(Dtype::F32, [64, 64, stages], own));
        assert!(analysis.barriers_before.is_empty(), "the pipeline places its own");
        let forms: Vec<_> = analysis.shared_loads.values().cloned().collect();
        assert_eq!(forms, [SharedLoad::Asynchronous { width: 1 }]);
    }
}

#[test]
fn two_threads_may_not_load_the_same_element() {
    let same = |b: &mut Build, w: Place, ws: Place, c: VarId, t: VarId| {
        let (row, column) = (b.int(0), b.var(c));
        let value = b.masked(w, &[row, column]);
        let (t, two) = (b.var(t), b.int(2));
        let to = b.bin(BinaryOp::Div, t, two);
        b.store(ws, &[to], value);
    };
    fails(
        staged(Dtype::F32, [64, 64, 2], same),
        expect![[r#"
            [TK0401] data race on shared `ws`
              at: threads 0 and 1 both write ws[0]
              help: give each thread its own element, or use an atomic
        "#]],
    );
}

#[test]
fn every_thread_comes_by_equally_often() {
    let mut b = Build::new();
    let w = b.tensor("w", Dtype::F32, &["K"], false);
    let t = b.threads("t", 64);
    let ws = b.shared("ws", Dtype::F32, &[64]);
    let (zero, end, stages) = (b.int(0), b.var(t), b.int(2));
    b.for_("c", zero, end, LoopKind::Pipelined { stages, schedule: Schedule::Auto }, |b, c| {
        let at = b.var(c);
        let value = b.masked(w, &[at]);
        let to = b.var(t);
        b.store(ws, &[to], value);
        let to = b.var(t);
        let value = b.load(ws, &[to]);
        b.let_mut("value", value);
    });
    fails(
        b,
        expect![[r#"
            [TK0402] threads may disagree on the number of iterations
              at: each iteration of a pipelined loop with loads into shared memory has a barrier of the compiler's
              help: give every thread the same number of iterations, and guard the work inside with an `if`
        "#]],
    );
}

#[test]
fn two_bytes_are_no_asynchronous_copy() {
    let mut b = staged(Dtype::F16, [64, 64, 2], own);
    b.k.attributes.lints = vec![("TK0603".into(), "warn".into())];
    let analysis = clean(b);
    expect![[r#"
        [TK0603] this load is not asynchronous: it waits for its data when it is issued
          at: it copies an element of f16 at a time, 2 bytes; an asynchronous copy has 4, 8 or 16
          label: the pipelined loop
          help: copy 4, 8 or 16 bytes at a time, of one type: in `vectorized`, or with `.width(n)`
    "#]]
    .assert_eq(&report(&analysis.lints));
    assert!(run(staged(Dtype::F16, [64, 64, 2], own)).lints.is_empty(), "off unless asked for");
}

#[test]
fn a_conversion_is_no_asynchronous_copy() {
    let converted = |b: &mut Build, w: Place, ws: Place, c: VarId, t: VarId| {
        let (row, column) = (b.int(0), b.var(c));
        let value = b.masked(w, &[row, column]);
        let ty = Type::Value(DtypeRef::Is(Dtype::I32));
        let value = b.expr(ExprKind::Cast(ty, value), ty);
        let ty = Type::Value(DtypeRef::Is(Dtype::F32));
        let value = b.expr(ExprKind::Cast(ty, value), ty);
        let to = b.var(t);
        b.store(ws, &[to], value);
    };
    let analysis = clean(staged(Dtype::F32, [64, 64, 2], converted));
    let why: Vec<_> = analysis.shared_loads.values().collect();
    assert!(matches!(&why[..], [SharedLoad::Synchronous { why }] if why.contains("converted to f32")), "{why:?}");
}

#[test]
fn stages_count_towards_the_budget() {
    clean(staged(Dtype::F32, [64, 16_384, 3], own));
    fails(
        staged(Dtype::F32, [64, 16_384, 4], own),
        expect![[r#"
            [TK0501] kernel needs 262,144 bytes of shared memory; sm_90 allows 232,448
              at: ws f32[16384] x 4 stages: 262,144
              label: 4 stages of 65,536 bytes each
              help: use 3 stages, or smaller arrays
        "#]],
    );
}

#[test]
fn a_tile_loaded_ahead_states_its_alignment() {
    let tile = |aligned: bool| {
        let mut b = staged(Dtype::F16, [64, 64, 2], |b, w, ws, c, _| {
            let (row, column) = (b.int(0), b.affine(64, c, 0));
            let (src, dst) = (b.tile(w, &[row, column]), b.tile(ws, &[]));
            b.stmt(StmtKind::Copy { src, dst, width: None, tma: true, evict: None });
        });
        if aligned {
            b.require_multiple("K", 8);
        }
        clean(b)
    };
    let analysis = tile(true);
    let forms: Vec<_> = analysis.shared_loads.values().cloned().collect();
    assert_eq!(forms, [SharedLoad::Asynchronous { width: 8 }]);
    let needs: Vec<_> = analysis.launch_needs.iter().map(|n| (n.align_bytes, n.stride_multiple.clone())).collect();
    assert_eq!(needs, [(16, vec![8, 1])]);
    let analysis = tile(false);
    assert!(analysis.launch_needs.is_empty(), "what is not known is not demanded");
    assert!(matches!(analysis.shared_loads.values().next(), Some(SharedLoad::Synchronous { .. })));
}
