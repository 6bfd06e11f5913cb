//! Rows that a warp of the producer copies ahead of the work on a product.

use crate::ir::Target;
use crate::lower::lower_bound;
use crate::lowered::visit::{count, each};
use crate::lowered::{OpKind, Program, Unroll};
use crate::testing::parsed;
use crate::verify::program::{Effort, program as verify};

/// A product of 128 x 128 x 64 a step whose elements are multiplied by `scale`; `indices` stand at the loop's beginning.
fn scaled(indices: &str, scale: &str) -> Program {
    lowered(&text(indices, scale))
}

/// What a kernel is lowered to, which breaks no rule.
fn lowered(text: &str) -> Program {
    let program =
        lower_bound(&crate::testing::bound(&parsed(text)), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"));
    if let Err(bug) = verify(&program, Effort::Test) {
        panic!("{bug:?}\n{program}");
    }
    program
}

fn text(indices: &str, scale: &str) -> String {
    format!(
        "kernel scaled(
            a: &Tensor<bf16, (M, K)>,
            b: &Tensor<bf16, (N, K)>,
            scales: &Tensor<f32, (STEPS, M)>,
            narrow: &Tensor<bf16, (STEPS, M)>,
            across: &Tensor<f32, (M, STEPS)>,
            groups: &mut Tensor<u32, (STEPS,)>,
            c: &mut Tensor<bf16, (M, N)>,
        ) {{
            let [j, i] = blocks([ceil_div(N, 128), ceil_div(M, 128)]);
            let [t] = threads([256]);
            let mut a_s = alloc_shared::<bf16>([128, 64]);
            let mut b_s = alloc_shared::<bf16>([128, 64]);
            let mut part = alloc_fragment::<f32>([128, 128]);
            let mut acc = alloc_fragment::<f32>([128, 128]);
            fill(&mut acc, 0.0f32);
            for k in pipelined(0..ceil_div(K, 64), 4) {{
                copy(a.at([i * 128, k * 64]), &mut a_s);
                copy(b.at([j * 128, k * 64]), &mut b_s);
                {indices}
                gemm(&a_s, b_s.t(), &mut part).clear();
                for [row, col] in parallel([128, 128]) {{
                    acc[[row, col]] = acc[[row, col]] + part[[row, col]] * {scale};
                }}
            }}
            copy(&acc, c.at_mut([i * 128, j * 128]));
        }}"
    )
}

/// How many copies each lane makes of a step's rows, for each row load that is copied.
fn copies(program: &Program) -> Vec<i64> {
    let mut all = Vec::new();
    each(&program.body, &mut |op| {
        if let OpKind::For { end, unroll: Unroll::Full, body, .. } = &op.kind
            && body.iter().any(|op| matches!(op.kind, OpKind::AsyncCopy { .. }))
        {
            all.extend(program.values[*end].kind.as_int());
        }
    });
    let arrivals = count(&program.body, &|op| matches!(op, OpKind::AsyncArrive { .. }));
    assert_eq!(arrivals, usize::from(!all.is_empty()), "{program}");
    all
}

#[test]
fn rows_of_a_step_are_copied_by_the_producer() {
    let program = scaled("", "scales.masked([k, i * 128 + row])");
    assert_eq!(copies(&program), [4], "128 rows by 32 lanes");
    let mut inits = Vec::new();
    each(&program.body, &mut |op| {
        if let OpKind::BarrierInit { barrier, arrivals } = &op.kind {
            inits.push((&program.barriers[barrier.array].name[..], *arrivals));
        }
    });
    // The thread that loads tiles and the lanes fill a slot, warps of two warpgroups give it back.
    assert_eq!(inits, [("full", 33), ("empty", 8)]);
    let rows = program.shared.values().find(|array| array.name == "scales_rows").expect("slots");
    assert_eq!((rows.slots, rows.len), (4, 512));
    // An index that loads of tiles have no use for is found all the same, and so are rows that are apart in memory.
    assert_eq!(copies(&scaled("let group: usize = k / 2;", "scales.masked([group, i * 128 + row])")), [4]);
    assert_eq!(copies(&scaled("", "across.masked([i * 128 + row, k])")), [4]);
    let two = "scales.masked([k, i * 128 + row]) * across.masked([i * 128 + row, k])";
    assert_eq!(copies(&scaled("", two)), [4, 4], "of two tensors, in one slot");
}

/// Elements of less than 4 bytes, rows that every step reads, or an address that the producer does not find: consumers load them themselves.
#[test]
fn other_rows_are_left_to_the_consumers() {
    let scales = [
        "narrow.masked([k, row + i * 128]).cast::<f32>()",
        "scales.masked([0, i * 128 + row])",
        "scales.masked([k, j * 128 + col])",
    ];
    for scale in scales {
        assert_eq!(copies(&scaled("", scale)), [0; 0], "{scale}");
    }
    let written = "let group: usize = groups.masked([k]).cast::<usize>();";
    assert_eq!(copies(&scaled(written, "scales.masked([group, i * 128 + row])")), [0; 0], "{written}");
}

/// Wherever such a loop stands: in a loop over tiles, without stages, with the next product behind the work, in a kernel that waits for another.
#[test]
fn rows_are_copied_wherever_the_loop_stands() {
    let text = text("", "scales.masked([k, i * 128 + row])");
    let stages = "pipelined(0..ceil_div(K, 64), 4)";
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    let cooperative = with(stages, &format!("{stages}.schedule(Cooperative)"));
    assert_eq!(copies(&lowered(&cooperative)), [4]);
    assert_eq!(copies(&lowered(&with(stages, "0..ceil_div(K, 64)"))), [4], "four slots that nobody asked for");
    assert_eq!(copies(&lowered(&format!("#[pdl(independent = [b])]\n{text}"))), [4]);
    let grid = "let [j, i] = blocks([ceil_div(N, 128), ceil_div(M, 128)]);";
    let fill = "fill(&mut acc, 0.0f32);";
    let tiles = with(grid, "")
        .replace(fill, &format!("for [j, i] in persistent([ceil_div(N, 128), ceil_div(M, 128)]) {{ {fill}"));
    assert_eq!(copies(&lowered(&format!("{tiles} }}"))), [4]);
}

/// Where shared memory has no room for the rows beside the tiles' slots, consumers load them themselves.
#[test]
fn rows_without_room_are_left_to_the_consumers() {
    let text = text("", "scales.masked([k, i * 128 + row])").replace("64), 4)", "64), 6)");
    assert_eq!(copies(&lowered(&text)), [0; 0]);
}
