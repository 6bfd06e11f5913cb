//! Loads ahead into shared memory: who synchronises them, who may come by, how they are copied, what they take.

use super::*;

#[test]
fn single_elements_need_no_barrier_of_the_author() {
    for stages in 1..=3 {
        let kernel = format!(
            "kernel k(w: &Tensor<f32, (N, K)>) {{
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f32>([64]);
                for c in pipelined(0..K, {stages}) {{
                    ws[t] = w.masked([0, c + t]);
                    let mut value = ws[63 - t];
                }}
            }}"
        );
        let analysis = clean(&kernel);
        assert!(analysis.barriers_before.is_empty(), "the pipeline places its own");
        let forms: Vec<_> = analysis.shared_loads.values().cloned().collect();
        assert_eq!(forms, [SharedLoad::Asynchronous { width: 1 }]);
    }
}

/// A kernel whose loop's loads are at places that are read from `table`, which `fill` fills and `more`, at the body's end, may change.
fn by_table(fill: &str, more: &str) -> String {
    format!(
        "kernel k(w: &Tensor<f32, (P, K)>, places: &Tensor<u32, (Fixed<64>,)>) {{
            let [row] = blocks([4]);
            let [t] = threads([64]);
            let mut ws = alloc_shared::<f32>([64]);
            let mut table = alloc_shared::<u32>([64]);
            {fill}
            for c in pipelined(0..64, 3) {{
                let place: usize = table[c].cast::<usize>();
                ws[t] = w.masked([place, t]);
                let mut value: f32 = ws[63 - t];
                {more}
            }}
        }}"
    )
}

#[test]
fn addresses_may_come_from_a_shared_array() {
    let analysis = clean(&by_table("table[t] = places[t]; sync_threads();", ""));
    let forms: Vec<_> = analysis.shared_loads.values().cloned().collect();
    assert_eq!(forms, [SharedLoad::Asynchronous { width: 1 }], "they are loads, and ahead");
    assert!(analysis.barriers_before.is_empty(), "the author's barrier is enough");
    // What a `parallel` loop has filled is ordered by the compiler, once.
    let analysis = clean(&by_table("for [i] in parallel([64]) { table[i] = places[i]; }", ""));
    assert_eq!(analysis.barriers_before.len(), 1);
}

#[test]
fn addresses_from_a_shared_array_are_there_before_the_loop() {
    fails(
        &by_table("table[t] = places[t];", ""),
        expect![[r#"
        [TK0401] data race on shared `table`
          at: thread 0 writes table[0] (line 6), thread 1 reads table[0] (line 8), no barrier between
          label: thread 0 writes it here
          help: insert `sync_threads();` before line 7
    "#]],
    );
}

#[test]
fn an_array_that_the_loop_writes_gives_no_addresses_ahead() {
    let analysis = run(&by_table(
        "table[t] = places[t]; sync_threads();",
        "sync_threads(); table[t] = c.cast::<u32>(); sync_threads();",
    ));
    assert!(analysis.shared_loads.is_empty(), "nothing is loaded ahead");
}

#[test]
fn two_threads_may_not_load_the_same_element() {
    fails(
        r"
            kernel k(
                w: &Tensor<f32, (N, K)>,
            ) {
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f32>([64]);
                for c in pipelined(0..K, 2) {
                    ws[t / 2] = w.masked([0, c]);
                    let mut value: f32 = ws[63 - t];
                }
            }
        ",
        expect![[r#"
            [TK0401] data race on shared `ws`
              at: threads 0 and 1 both write ws[0]
              help: give each thread its own element, or use an atomic
        "#]],
    );
}

#[test]
fn every_thread_comes_by_equally_often() {
    fails(
        r"
            kernel k(
                w: &Tensor<f32, (K,)>,
            ) {
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f32>([64]);
                for c in pipelined(0..t, 2) {
                    ws[t] = w.masked([c]);
                    let mut value: f32 = ws[t];
                }
            }
        ",
        expect![[r#"
            [TK0402] threads may disagree on the number of iterations
              at: each iteration of a pipelined loop with loads into shared memory has a barrier of the compiler's
              help: give every thread the same number of iterations, and guard the work inside with an `if`
        "#]],
    );
}

#[test]
fn two_bytes_are_no_asynchronous_copy() {
    let analysis = clean(
        r#"
            #[lints(TK0603 = "warn")]
            kernel k(
                w: &Tensor<f16, (N, K)>,
            ) {
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f16>([64]);
                for c in pipelined(0..K, 2) {
                    ws[t] = w.masked([0, c + t]);
                    let mut value: f16 = ws[63 - t];
                }
            }
        "#,
    );
    expect![[r#"
        [TK0603] this load is not asynchronous: it waits for its data when it is issued
          at: it copies an element of f16 at a time, 2 bytes; an asynchronous copy has 4, 8 or 16
          label: the pipelined loop
          help: copy 4, 8 or 16 bytes at a time, of one type: in `vectorized`, or with `.width(n)`
    "#]]
    .assert_eq(&report(&analysis.lints));
    assert!(
        run(r"
            kernel k(
                w: &Tensor<f16, (N, K)>,
            ) {
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f16>([64]);
                for c in pipelined(0..K, 2) {
                    ws[t] = w.masked([0, c + t]);
                    let mut value: f16 = ws[63 - t];
                }
            }
        ")
        .lints
        .is_empty(),
        "off unless asked for"
    );
}

#[test]
fn a_conversion_is_no_asynchronous_copy() {
    let analysis = clean(
        r"
            kernel k(
                w: &Tensor<f32, (N, K)>,
            ) {
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f32>([64]);
                for c in pipelined(0..K, 2) {
                    ws[t] = w.masked([0, c]).cast::<i32>().cast::<f32>();
                    let mut value: f32 = ws[63 - t];
                }
            }
        ",
    );
    let why: Vec<_> = analysis.shared_loads.values().collect();
    assert!(matches!(&why[..], [SharedLoad::Synchronous { why }] if why.contains("converted to f32")), "{why:?}");
}

#[test]
fn stages_count_towards_the_budget() {
    clean(
        r"
            kernel k(
                w: &Tensor<f32, (N, K)>,
            ) {
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f32>([16384]);
                for c in pipelined(0..K, 3) {
                    ws[t] = w.masked([0, c + t]);
                    let mut value: f32 = ws[63 - t];
                }
            }
        ",
    );
    fails(
        r"
            kernel k(
                w: &Tensor<f32, (N, K)>,
            ) {
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f32>([16384]);
                for c in pipelined(0..K, 4) {
                    ws[t] = w.masked([0, c + t]);
                    let mut value: f32 = ws[63 - t];
                }
            }
        ",
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
    let tile = |require: &str| {
        clean(&format!(
            "{require} kernel k(w: &Tensor<f16, (N, K)>) {{
                let [row] = blocks([N]);
                let [t] = threads([64]);
                let mut ws = alloc_shared::<f16>([64]);
                for c in pipelined(0..K, 2) {{
                    copy(w.at([0, 64 * c]), &mut ws);
                    let mut value = ws[63 - t];
                }}
            }}"
        ))
    };
    let analysis = tile("#[require(K % 8 == 0)]");
    let forms: Vec<_> = analysis.shared_loads.values().cloned().collect();
    assert_eq!(forms, [SharedLoad::Asynchronous { width: 8 }]);
    let needs: Vec<_> = analysis.launch_needs.iter().map(|n| (n.align_bytes, n.stride_multiple.clone())).collect();
    assert_eq!(needs, [(16, vec![8, 1])]);
    let analysis = tile("");
    assert!(analysis.launch_needs.is_empty(), "what is not known is not demanded");
    assert!(matches!(analysis.shared_loads.values().next(), Some(SharedLoad::Synchronous { .. })));
}
