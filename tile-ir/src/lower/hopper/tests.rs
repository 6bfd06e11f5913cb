//! The roles that kernels are split into.

use crate::emit::cuda::emit;
use crate::ir::*;
use crate::lower::lower_bound;
use crate::lowered::{OpKind, Program};
use crate::testing::{Builder, kernel};

/// What a test varies of a GEMM.
struct Gemm {
    tile: [i64; 3],
    stages: i64,
    threads: i64,
    cluster: [i64; 2],
    persistent: bool,
    /// Whether a, b are stored transposed: `[K, M]`, `[K, N]`.
    stored: [bool; 2],
    dtype: Dtype,
    out: Dtype,
}

const COOPERATIVE: Gemm = Gemm {
    tile: [128, 256, 64],
    stages: 4,
    threads: 256,
    cluster: [1, 2],
    persistent: true,
    stored: [false, true],
    dtype: Dtype::Bf16,
    out: Dtype::Bf16,
};

fn gemm(g: &Gemm) -> Kernel {
    let [bm, bn, bk] = g.tile;
    kernel("gemm", |b| {
        let [m, n, k] = ["M", "N", "K"].map(|d| b.dim(d));
        let a = b.tensor("a", g.dtype, &if g.stored[0] { [k, m] } else { [m, k] });
        let w = b.tensor("b", g.dtype, &if g.stored[1] { [n, k] } else { [k, n] });
        let c = b.tensor_mut("c", g.out, &[m, n]);
        let [tm, tn, tk] = [(m, bm), (n, bn), (k, bk)].map(|(extent, tile)| {
            let tile = b.int(tile);
            b.binary(BinaryOp::CeilDiv, extent, tile)
        });
        b.kernel.swizzle = Some(b.int(8));
        if g.cluster != [1, 1] {
            b.kernel.cluster = g.cluster.map(|n| b.int(n)).to_vec();
        }
        b.threads([("t", g.threads)]);
        let body = |b: &mut Builder, bx: ExprId, by: ExprId| {
            let a_s = b.buffer("a_s", Scope::Shared, g.dtype, &if g.stored[0] { [bk, bm] } else { [bm, bk] });
            let b_s = b.buffer("b_s", Scope::Shared, g.dtype, &if g.stored[1] { [bn, bk] } else { [bk, bn] });
            let acc = b.buffer("acc", Scope::Fragment, Dtype::F32, &[bm, bn]);
            let [Place::Buffer(a_buffer), Place::Buffer(b_buffer), Place::Buffer(acc_buffer)] = [a_s, b_s, acc] else {
                unreachable!()
            };
            let zero = b.float(Dtype::F32, 0.0);
            b.stmt(StmtKind::Fill { buffer: acc_buffer, value: zero });
            let stages = b.int(g.stages);
            let kind = LoopKind::Pipelined { stages, schedule: Schedule::Auto };
            let bounds = [b.int(0), tk, b.int(1)];
            let zero = b.int(0);
            b.for_each("k", kind, bounds, |b, ki| {
                let row = b.scaled(by, bm, zero);
                let col = b.scaled(bx, bn, zero);
                let depth = b.scaled(ki, bk, zero);
                let from = b.tile(a, &if g.stored[0] { [depth, row] } else { [row, depth] }, &[]);
                let to = b.tile(a_s, &[], &[]);
                b.copy(from, to);
                let from = b.tile(w, &if g.stored[1] { [col, depth] } else { [depth, col] }, &[]);
                let to = b.tile(b_s, &[], &[]);
                b.copy(from, to);
                let span = SpanId::from_u32(0);
                b.stmt(StmtKind::Gemm {
                    a: MatrixRef { buffer: a_buffer, transposed: g.stored[0], span },
                    b: MatrixRef { buffer: b_buffer, transposed: g.stored[1], span },
                    acc: acc_buffer,
                    policy: WarpPolicy::Square,
                    clear: false,
                });
            });
            let row = b.scaled(by, bm, zero);
            let col = b.scaled(bx, bn, zero);
            let from = b.tile(acc, &[], &[]);
            let to = b.tile(c, &[row, col], &[]);
            b.copy(from, to);
        };
        if g.persistent {
            b.persistent([("bx", tn), ("by", tm)], |b, [bx, by]| body(b, bx, by));
        } else {
            let [bx, by] = b.blocks([("bx", tn), ("by", tm)]);
            body(b, bx, by);
        }
    })
}

fn lowered(g: &Gemm) -> Program {
    lower_bound(&gemm(g), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"))
}

fn count(ops: &[crate::lowered::Op], is: &impl Fn(&OpKind) -> bool) -> usize {
    ops.iter()
        .map(|op| {
            let inner = match &op.kind {
                OpKind::If { then, otherwise, .. } => count(then, is) + count(otherwise, is),
                OpKind::For { body, .. } => count(body, is),
                _ => 0,
            };
            inner + usize::from(is(&op.kind))
        })
        .sum()
}

#[test]
fn a_cooperative_gemm_has_a_ring_and_two_consumers() {
    let program = lowered(&COOPERATIVE);
    assert_eq!(program.launch.threads, [384, 1, 1]);
    assert_eq!(program.launch.cluster, [2, 1, 1]);
    let registers = program.launch.registers.unwrap();
    assert_eq!((registers.launch, registers.producer, registers.consumer), (168, 40, 232));
    // Four steps of 16 along K.
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { n: 256, .. })), 4);
    // b is the same for the blocks of the cluster, which lie above one another.
    let multicast = |op: &OpKind| matches!(op, OpKind::TensorLoad { multicast: Some(_), .. });
    assert_eq!(count(&program.body, &multicast), 1);
    assert!(program.shared_bytes <= Target::Sm90a.max_shared_bytes(), "{}", program.shared_bytes);
    if let Ok(path) = std::env::var("TILE_TEST_CUDA") {
        std::fs::write(path, emit(&program)).unwrap();
    }
}

#[test]
fn every_layout_of_the_operands_is_specialised() {
    for stored in [[false, true], [false, false], [true, true], [true, false]] {
        for cluster in [[1, 1], [1, 2], [2, 1]] {
            let g = Gemm { stored, cluster, tile: [128, 128, 64], stages: 5, ..COOPERATIVE };
            let program = lowered(&g);
            let transposed = [stored[0], !stored[1]];
            let wgmma = |op: &OpKind| matches!(op, OpKind::Wgmma { transposed: t, .. } if *t == transposed);
            assert_eq!(count(&program.body, &wgmma), 4, "{stored:?} {cluster:?}");
        }
    }
}
