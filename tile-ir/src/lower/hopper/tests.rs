//! The roles that kernels are split into.

use crate::emit::cuda::emit;
use crate::ir::*;
use crate::lower::lower_bound;
use crate::lowered::visit::count;
use crate::lowered::{OpKind, Program};
use crate::testing::parsed;

mod clusters;
mod copied;
mod once;
mod rows;
mod skinny;
mod tf32;

/// What a test varies of a GEMM.
#[derive(Clone, Copy, Debug)]
struct Gemm {
    tile: [i64; 3],
    stages: i64,
    threads: i64,
    cluster: [i64; 2],
    persistent: bool,
    /// Whether a, b are stored transposed: `[K, M]`, `[K, N]`.
    stored: [bool; 2],
    schedule: Schedule,
    dtype: Dtype,
    out: Dtype,
    /// Whether it may begin before the previous kernel is done, which does not write `b`.
    dependent: bool,
    /// Whether the result is doubled, element by element.
    doubled: bool,
    /// What is multiplied of f32.
    precision: Precision,
}

const COOPERATIVE: Gemm = Gemm {
    tile: [128, 256, 64],
    stages: 4,
    threads: 256,
    cluster: [1, 2],
    persistent: true,
    stored: [false, true],
    schedule: Schedule::Auto,
    dtype: Dtype::Bf16,
    out: Dtype::Bf16,
    dependent: false,
    doubled: false,
    precision: Precision::Full,
};

fn gemm(g: &Gemm) -> Kernel {
    let [bm, bn, bk] = g.tile;
    let Gemm { dtype, out, threads, stages, cluster: [x, y], .. } = g;
    let pick = |first: bool, a: &'static str, b: &'static str| if first { a } else { b };
    let [a_t, b_t] = g.stored;
    let (a_shape, a_at) = (pick(a_t, "K, M", "M, K"), pick(a_t, "depth, row", "row, depth"));
    let (b_shape, b_at) = (pick(b_t, "N, K", "K, N"), pick(b_t, "col, depth", "depth, col"));
    let (a_tile, a_operand) = if a_t { ([bk, bm], "a_s.t()") } else { ([bm, bk], "&a_s") };
    let (b_tile, b_operand) = if b_t { ([bn, bk], "b_s.t()") } else { ([bk, bn], "&b_s") };
    let doubled = format!("for [i, j] in parallel([{bm}, {bn}]) {{ acc[[i, j]] = acc[[i, j]] + acc[[i, j]]; }}");
    let grid = format!("[ceil_div(N, {bn}), ceil_div(M, {bm})]");
    let (tiles, close) = match g.persistent {
        true => (format!("for [bx, by] in persistent({grid}) {{"), "}"),
        false => (format!("let [bx, by] = blocks({grid});"), ""),
    };
    let schedule = match g.schedule {
        Schedule::Auto => "",
        Schedule::Cooperative => ".schedule(Cooperative)",
        Schedule::PingPong => ".schedule(PingPong)",
        Schedule::Rolled => ".schedule(Rolled)",
    };
    parsed(&format!(
        "{dependent}
        kernel gemm(
            a: &Tensor<{dtype}, ({a_shape})>,
            b: &Tensor<{dtype}, ({b_shape})>,
            c: &mut Tensor<{out}, (M, N)>,
        ) {{
            let [t] = threads([{threads}]);
            {cluster}
            use_swizzle(8);
            {tiles}
                let mut a_s = alloc_shared::<{dtype}>({a_tile:?});
                let mut b_s = alloc_shared::<{dtype}>({b_tile:?});
                let mut acc = alloc_fragment::<f32>([{bm}, {bn}]);
                fill(&mut acc, 0.0f32);
                for k in pipelined(0..ceil_div(K, {bk}), {stages}){schedule} {{
                    copy(a.at([{a_at}]), &mut a_s);
                    copy(b.at([{b_at}]), &mut b_s);
                    gemm({a_operand}, {b_operand}, &mut acc){precision};
                }}
                {doubled}
                copy(&acc, c.at_mut([by * {bm}, bx * {bn}]));
            {close}
        }}",
        dependent = pick(g.dependent, "#[pdl(independent = [b])]", ""),
        cluster = if g.cluster == [1, 1] { String::new() } else { format!("cluster([{x}, {y}]);") },
        a_at = a_at.replace("row", &format!("by * {bm}")).replace("depth", &format!("k * {bk}")),
        b_at = b_at.replace("col", &format!("bx * {bn}")).replace("depth", &format!("k * {bk}")),
        precision = pick(g.precision == Precision::Tf32, ".tf32()", ""),
        doubled = if g.doubled { doubled.as_str() } else { "" },
    ))
}

fn lowered(g: &Gemm) -> Program {
    lower_bound(&crate::testing::bound(&gemm(g)), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"))
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
    // As many blocks as the device holds, whose roles both go from tile to tile.
    assert!(format!("{:?}", program.launch.grid).contains("Capacity"), "{:?}", program.launch.grid);
    let tile_loop = |op: &OpKind| matches!(op, OpKind::For { reg, .. } if program.regs[*reg].name.starts_with("tile"));
    assert_eq!(count(&program.body, &tile_loop), 2);
}

/// Where all threads of a block do the same, a block has one tile, and what was asked of several is said to be without effect.
#[test]
fn without_roles_there_are_no_turns() {
    let mut kernel = gemm(&Gemm { cluster: [1, 1], tile: [128, 128, 64], ..COOPERATIVE });
    let said = |kernel: &Kernel, target: Target| {
        let program = lower_bound(&crate::testing::bound(kernel), target).unwrap_or_else(|all| panic!("{all:#?}"));
        program.remarks.iter().filter(|r| r.text.contains("a block takes one tile")).count()
    };
    assert_eq!(said(&kernel, Target::Sm80), 0);
    let one = kernel.exprs.iter().find(|(_, e)| e.kind == ExprKind::Int(1)).map(|(id, _)| id);
    for stmt in kernel.stmts.values_mut() {
        if let StmtKind::Persistent { per_sm, contiguous, .. } = &mut stmt.kind {
            (*per_sm, *contiguous) = (one, true);
        }
    }
    assert_eq!(said(&kernel, Target::Sm80), 2);
    assert_eq!(said(&kernel, Target::Sm90a), 0);
}

/// What a copy says about the second-level cache reaches TMA: loads, shared ones too, and stores.
#[test]
fn evictions_are_hints_of_the_copy_engine() {
    let with = |order: Option<Evict>| {
        let mut kernel = gemm(&COOPERATIVE);
        for stmt in kernel.stmts.values_mut() {
            if let StmtKind::Tile(TileOp::Copy { evict, .. }) = &mut stmt.kind {
                *evict = order.map(|otherwise| Eviction { cases: Vec::new(), otherwise });
            }
        }
        lower_bound(&crate::testing::bound(&kernel), Target::Sm90a).unwrap_or_else(|all| panic!("{all:#?}"))
    };
    let plain = emit(&with(None));
    assert_eq!(emit(&with(Some(Evict::Normal))), plain, "as anything else is no hint");
    assert!(!plain.contains("cache_hint"), "{plain}");
    for (order, policy) in [(Evict::First, "0x12f0000000000000ull"), (Evict::Last, "0x14f0000000000000ull")] {
        let program = with(Some(order));
        let cuda = emit(&program);
        assert_eq!(cuda.matches(policy).count(), 3, "a, b and c:\n{cuda}");
        assert_eq!(cuda.matches("L2::cache_hint").count(), 3, "a load, one to many, a store:\n{cuda}");
        assert_eq!(program.to_string().matches(&format!(", evict {order:?}")).count(), 3);
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

/// An operand whose rows run across K and are no whole 64 bytes is fetched in boxes of 64 bytes all the same, into slots that are as much wider.
#[test]
fn slots_are_padded_to_boxes_of_two_sectors() {
    for (stored, tile, cols) in [([true, true], [64, 144, 64], 144), ([false, false], [64, 144, 64], 160)] {
        let program = lowered(&Gemm { stored, cluster: [1, 1], tile, stages: 3, threads: 128, ..COOPERATIVE });
        let b = program.shared.values().find(|array| array.name == "b_s").unwrap();
        assert_eq!(b.len, 3 * 64 * cols, "{stored:?}");
        let map =
            program.tensor_maps.values().find(|map| map.tensor.index() == 1 && map.box_extents.len() == 2).unwrap();
        let (swizzle, extents) = if stored[1] { (Swizzle::B128, [64, 144]) } else { (Swizzle::B64, [32, 64]) };
        assert_eq!((map.swizzle, map.box_extents.as_slice()), (swizzle, &extents[..]), "{stored:?}");
        assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { n: 144, .. })), 4, "{stored:?}");
    }
}

/// Where slots leave no room for sub-tiles of whole lines, stores are made by narrower ones.
#[test]
fn stores_take_what_slots_leave() {
    let staging = |tile, stages| {
        let program = lowered(&Gemm { cluster: [1, 1], tile, stages, ..COOPERATIVE });
        assert!(program.shared_bytes <= Target::Sm90a.max_shared_bytes(), "{}", program.shared_bytes);
        assert!(count(&program.body, &|op| matches!(op, OpKind::TensorStore { .. })) > 0, "{program}");
        program.shared.values().find(|array| array.name == "staging").unwrap().len
    };
    assert_eq!(staging([256, 128, 64], 4), 2 * 2 * 64 * 64);
    assert_eq!(staging([256, 160, 64], 4), 2 * 2 * 64 * 32);
}

#[test]
fn ping_pong_has_two_tiles_at_once() {
    let g = Gemm {
        tile: [128, 128, 64],
        stages: 6,
        threads: 128,
        cluster: [1, 1],
        schedule: Schedule::PingPong,
        ..COOPERATIVE
    };
    let program = lowered(&g);
    assert_eq!(program.launch.threads, [384, 1, 1]);
    // A slot is read by one warpgroup: two blocks of 64 rows each.
    assert_eq!(count(&program.body, &|op| matches!(op, OpKind::Wgmma { n: 128, .. })), 8);
    let empty = |op: &OpKind| matches!(op, OpKind::BarrierInit { arrivals: 1, .. });
    assert_eq!(count(&program.body, &empty), 2);
}

/// Writes the CUDA C of variants to a folder, to be compiled and measured by hand:
/// `TILE_VARIANTS=DIR cargo test -p tile-ir --lib -- --ignored variants`.
#[test]
#[ignore = "writes files"]
fn variants() {
    let Ok(folder) = std::env::var("TILE_VARIANTS") else { return };
    let cooperative = |tile, stages, cluster| Gemm { tile, stages, cluster, ..COOPERATIVE };
    let single = |tile, stages| Gemm { tile, stages, threads: 128, cluster: [1, 1], ..COOPERATIVE };
    let turns = |tile, stages, cluster| Gemm {
        tile,
        stages,
        threads: 128,
        cluster,
        schedule: Schedule::PingPong,
        ..COOPERATIVE
    };
    let mut list = vec![
        cooperative([128, 256, 64], 4, [1, 1]),
        cooperative([128, 256, 64], 4, [1, 2]),
        cooperative([128, 256, 64], 4, [2, 1]),
        cooperative([128, 256, 64], 3, [1, 2]),
        cooperative([128, 224, 64], 4, [1, 1]),
        cooperative([128, 192, 64], 4, [1, 2]),
        cooperative([128, 128, 64], 6, [1, 1]),
        cooperative([256, 128, 64], 4, [2, 1]),
        single([64, 128, 64], 8),
        single([64, 256, 64], 4),
        single([64, 64, 64], 10),
        single([128, 64, 64], 8),
        turns([128, 128, 64], 6, [1, 1]),
        turns([128, 128, 64], 6, [1, 2]),
        turns([64, 256, 64], 4, [1, 1]),
        turns([64, 224, 64], 5, [1, 1]),
        single([8, 56, 128], 13),
        single([16, 56, 128], 12),
        single([16, 32, 128], 18),
        single([32, 32, 128], 13),
        single([64, 144, 64], 7),
        single([64, 64, 128], 6),
        Gemm { dependent: true, ..single([16, 56, 128], 12) },
        Gemm { dependent: true, doubled: true, ..single([8, 56, 128], 12) },
        Gemm { dependent: true, ..single([64, 144, 64], 7) },
        Gemm { dependent: true, ..cooperative([128, 256, 64], 4, [1, 2]) },
        Gemm { dependent: true, ..turns([128, 128, 64], 6, [1, 1]) },
    ];
    for stored in [[false, false], [true, true], [true, false]] {
        list.push(Gemm { stored, ..cooperative([128, 256, 64], 4, [1, 2]) });
        list.push(Gemm { stored, ..turns([128, 128, 64], 6, [1, 1]) });
    }
    for g in list {
        let program = lowered(&g);
        let [bm, bn, bk] = g.tile;
        let pp = if g.schedule == Schedule::PingPong { "pp" } else { "" };
        let stored = g.stored.map(|t| if t { "t" } else { "n" }).concat();
        let [cx, cy] = g.cluster;
        let pdl = if g.dependent { "_pdl" } else { "" };
        let name = format!("{bm}x{bn}x{bk}{pp}_s{}_c{cx}{cy}_{stored}{pdl}", g.stages);
        let maps: Vec<String> = program
            .tensor_maps
            .values()
            .map(|m| {
                format!(
                    "{{\"map\": {{\"tensor\": \"{}\", \"box\": {:?}, \"swizzle\": \"{}\", \"promotion\": \"B128\"}}}}",
                    ["a", "b", "c"][m.tensor.index()],
                    m.box_extents,
                    m.swizzle.name()
                )
            })
            .collect();
        let record = format!(
            "{{\"name\": \"{name}\", \"tile\": [{bm}, {bn}], \"cluster\": [{cx}, {cy}], \"threads\": {}, \"shared\": {}, \"stored\": \"{stored}\", \"maps\": [{}]}}",
            program.launch.threads[0],
            program.shared_bytes,
            maps.join(", ")
        );
        std::fs::write(format!("{folder}/{name}.cu"), emit(&program)).unwrap();
        std::fs::write(format!("{folder}/{name}.json"), record).unwrap();
    }
}
