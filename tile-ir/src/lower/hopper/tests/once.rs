//! What is filled once has no barriers for a second time.

use super::*;

/// A product of a tile that stays with the tiles of a loop, for one tile of the result or, `persistent`, for several.
fn stay(persistent: bool, columns: i64) -> Program {
    let (tiles, close) = match persistent {
        true => ("for [by] in persistent([ceil_div(M, 128)]) {", "}"),
        false => ("let [by] = blocks([ceil_div(M, 128)]);", ""),
    };
    let kernel = parsed(&format!(
        "kernel stay(
            q: &Tensor<f16, (M, K)>,
            k: &Tensor<f16, (N, K)>,
            c: &mut Tensor<f16, (M, P)>,
        ) {{
            let [t] = threads([256]);
            {tiles}
                let mut q_s = alloc_shared::<f16>([128, 64]);
                let mut k_s = alloc_shared::<f16>([{columns}, 64]);
                let mut acc = alloc_fragment::<f32>([128, {columns}]);
                fill(&mut acc, 0.0f32);
                copy(q.at([by * 128, 0]), &mut q_s);
                for step in pipelined(0..ceil_div(N, {columns}), 2) {{
                    copy(k.at([step * {columns}, 0]), &mut k_s);
                    gemm(&q_s, k_s.t(), &mut acc);
                }}
                copy(&acc, c.at_mut([by * 128, 0]));
            {close}
        }}"
    ));
    lower_bound(&crate::testing::bound(&kernel), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"))
}

/// The mbarriers' names, and how often the copy engine is waited for.
fn barriers(program: &Program) -> (Vec<&str>, usize) {
    let names = program.barriers.values().map(|array| array.name.as_str()).collect();
    (names, count(&program.body, &|op| matches!(op, OpKind::BulkWait { .. })))
}

#[test]
fn a_tile_that_stays_is_given_back_where_it_is_filled_again() {
    let (once, again) = (stay(false, 128), stay(true, 128));
    assert_eq!(barriers(&once).0, ["resident_full", "full", "empty"]);
    assert_eq!(barriers(&again).0, ["resident_full", "resident_empty", "full", "empty"]);
}

#[test]
fn a_buffer_of_the_store_is_waited_for_where_it_is_written_again() {
    // Two sub-tiles of 64 columns have a buffer each; what TMA reads at the end is waited for once.
    assert_eq!(barriers(&stay(false, 128)).1, 1);
    assert_eq!(barriers(&stay(true, 128)).1, 2);
    // Four go through two.
    assert_eq!(barriers(&stay(false, 256)).1, 2);
}
