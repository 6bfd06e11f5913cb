//! Every form of the tensor cores', barriers' and TMA's helpers through NVRTC to machine code. No GPU is needed.

#[path = "../../tile-ir/src/sim/checked/tests/build.rs"]
#[allow(dead_code)]
mod build;
#[path = "../../tile-ir/src/sim/checked/tests/gemm.rs"]
#[allow(dead_code)]
mod gemm;

// What the shared builders call `crate::..`.
use tile_ir::{ir, lowered, sim};

use build::{Build, F32};
use gemm::Config;
use ir::{BinaryOp, Dtype, Swizzle, Target};
use lowered::*;
use tile_runtime::nvrtc::{Nvrtc, Output, Resources, options};

const U32: ValueType = ValueType::Element(Dtype::U32);

/// Compiles a program; what it uses, and its log.
fn compile(program: &Program) -> (Resources, String) {
    let source = tile_ir::emit::cuda::emit(program);
    let nvrtc = Nvrtc::get().unwrap_or_else(|error| panic!("{error}: run `cargo xtask setup`"));
    let arguments = options(program.target.name(), false);
    let compiled = nvrtc
        .compile(&program.name, &source, &arguments, Output::Cubin)
        .unwrap_or_else(|error| panic!("{error}\n{source}"));
    let used = Resources::of(program, &compiled.log);
    let used = used.unwrap_or_else(|| panic!("the log says nothing:\n{}", compiled.log));
    for line in compiled.log.lines() {
        assert!(!line.contains("Performance Loss") && !line.contains("ignored"), "{line}\n{source}");
    }
    assert_eq!(used.spill_stores + used.spill_loads, 0, "{}\n{source}", compiled.log);
    (used, compiled.log)
}

#[test]
fn the_specialised_gemm_compiles_without_spills_and_with_the_expected_registers() {
    for (bn, stages, consumers, cluster) in [(64, 2, 1, 1), (128, 4, 2, 1), (256, 4, 2, 2), (256, 4, 2, 1)] {
        let mut program = Config { bn, stages, consumers, cluster, ..Config::SMALL }.build();
        program.name = format!("gemm_{bn}_{stages}_{consumers}_{cluster}");
        let (used, log) = compile(&program);
        // 65536 registers among the threads, as the sharing out between the roles assumes.
        let at_launch = program.launch.registers.unwrap().launch;
        if consumers == 2 {
            assert_eq!(used.registers, at_launch, "{log}");
        }
    }
}

/// One product of a warpgroup, of this form.
fn product(n: u32, dtype: Dtype, registers: bool, transposed: [bool; 2]) -> Program {
    let mut b = Build::threads(128);
    let y = b.tensor("y", Dtype::F32, 1, true);
    let operands = b.swizzled("operands", Dtype::F32, 16 * 1024);
    // Words of tf32 are f32, others hold two elements.
    let word = if dtype == Dtype::F32 { Dtype::F32 } else { Dtype::U32 };
    let (acc, words) = (b.local("acc", Dtype::F32, n / 2), b.local("words", word, 4));
    let zero = b.int(0);
    for i in 0..4 {
        let (tx, i) = (b.tx(), b.int(i));
        let word = b.cast(tx, ValueType::Element(word));
        b.store(Space::Local(words), i, word);
    }
    b.op(OpKind::WgmmaFence);
    let descriptor =
        |b: &mut Build| b.value(ValueKind::Descriptor { shared: operands, bits: 1 << 62 | 64 << 32 }, ValueType::Wide);
    let a = if registers { WgmmaOperand::Registers(words, zero) } else { WgmmaOperand::Descriptor(descriptor(&mut b)) };
    let right = descriptor(&mut b);
    let accumulate = b.bool(false);
    b.op(OpKind::Wgmma { acc, start: zero, n, rows: 64, dtype, a, b: right, accumulate, transposed });
    b.op(OpKind::WgmmaCommit);
    b.op(OpKind::WgmmaWait { pending: 0 });
    b.op(OpKind::Pin { local: acc });
    for i in 0..i64::from(n / 2) {
        let (tx, width, i) = (b.tx(), b.int((n / 2).into()), b.int(i));
        let row = b.mul(tx, width);
        let (offset, value) = (b.add(row, i), b.load(Space::Local(acc), i));
        b.store(y, offset, value);
    }
    let mut program = b.finish();
    let source = if registers { "rs" } else { "ss" };
    program.name = format!("product_{source}_{n}_{dtype}_{}{}", transposed[0] as u8, transposed[1] as u8);
    program
}

#[test]
fn every_product_of_a_warpgroup_compiles() {
    let mut forms = Vec::new();
    for n in (8..=256).step_by(8) {
        for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            for registers in [false, true] {
                for transposed in [[false, false], [false, true], [true, false], [true, true]] {
                    // Only 16-bit operands in shared memory can be stored transposed.
                    let legal = match dtype {
                        Dtype::F32 => transposed == [false, false],
                        _ => !(registers && transposed[0]),
                    };
                    // All forms at three widths, both sources at the others.
                    if legal && (matches!(n, 8 | 136 | 256) || transposed == [false, false] && dtype != Dtype::F16) {
                        forms.push((n, dtype, registers, transposed));
                    }
                }
            }
        }
    }
    assert_eq!(forms.len(), 3 * (2 * (4 + 2) + 2) + 29 * 4);
    std::thread::scope(|scope| {
        for part in 0..2 {
            let forms = &forms;
            scope.spawn(move || {
                for &(n, dtype, registers, transposed) in forms.iter().skip(part).step_by(2) {
                    compile(&product(n, dtype, registers, transposed));
                }
            });
        }
    });
}

#[test]
fn every_operation_of_sm_80_compiles_there() {
    let mut b = Build::threads(64);
    b.program.target = Target::Sm80;
    let y = b.tensor("y", Dtype::F32, 1, true);
    let tile = b.shared("tile", Dtype::F16, 64 * 32);
    let (words, acc) = (b.local("words", Dtype::U32, 8), b.local("acc", Dtype::F32, 4));
    let floats = b.local("floats", Dtype::F32, 8);
    let (lane, warp) = (b.special(Special::Lane), b.special(Special::Warp));
    let (eight, zero, four) = (b.int(8), b.int(0), b.int(4));
    for i in 0..8 {
        let (tx, i) = (b.tx(), b.int(i));
        let (word, float) = (b.cast(tx, U32), b.cast(tx, F32));
        b.store(Space::Local(words), i, word);
        b.store(Space::Local(floats), i, float);
    }
    for i in 0..4 {
        let (i, value) = (b.int(i), b.float(0.0));
        b.store(Space::Local(acc), i, value);
    }
    let row = b.mul(lane, eight);
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let memory = b.at(tile, row);
            b.op(OpKind::LoadMatrix { local: words, start: four, memory, count, transposed });
        }
    }
    for atom in
        [MmaAtom::M16n8k16 { dtype: Dtype::F16 }, MmaAtom::M16n8k16 { dtype: Dtype::Bf16 }, MmaAtom::M16n8k8Tf32]
    {
        b.op(OpKind::Mma { atom, acc: (acc, zero), a: (words, zero), b: (words, four) });
    }
    b.op(OpKind::Mma { atom: MmaAtom::M16n8k8Tf32, acc: (acc, zero), a: (floats, zero), b: (floats, four) });
    let (low, high) = (b.load(Space::Local(acc), zero), b.float(1.0));
    let mut sum = b.cast(warp, F32);
    for dtype in [Dtype::F16, Dtype::Bf16] {
        let word = b.value(ValueKind::Pack(dtype, low, high), U32);
        for half in [false, true] {
            let part = b.value(ValueKind::Unpack(dtype, word, half), F32);
            sum = b.add(sum, part);
        }
    }
    let (tx, grid) = (b.tx(), b.special(Special::Grid(0)));
    let blocks = b.cast(grid, F32);
    let sum = b.binary(BinaryOp::Mul, sum, blocks);
    b.store(y, tx, sum);
    compile(&b.finish());
}

#[test]
fn every_copy_and_barrier_of_sm_90_compiles_there() {
    let mut b = Build::threads(128);
    b.program.launch.cluster = [2, 1, 1];
    b.program.launch.min_blocks = Some(1);
    let flat = b.tensor("flat", Dtype::F32, 1, false);
    let mut maps = Vec::new();
    for rank in 1..=5 {
        let tensor = b.tensor(&format!("t{rank}"), Dtype::F32, rank, true);
        maps.push(b.map(&format!("t{rank}_map"), tensor, &vec![4; rank], Swizzle::None));
    }
    let tile = b.swizzled("tile", Dtype::F32, 4096);
    let full = b.barriers("full", 2);
    let zero = b.int(0);
    let barrier = b.barrier_at(full, 1);
    b.op(OpKind::BarrierInit { barrier, arrivals: 2 });
    b.op(OpKind::FenceBarrierInit);
    b.op(OpKind::ClusterBarrier { relaxed: true });
    b.op(OpKind::ClusterBarrier { relaxed: false });
    let rank = b.special(Special::ClusterRank);
    b.op(OpKind::BarrierArrive { barrier, cta: None });
    b.op(OpKind::BarrierArrive { barrier, cta: Some(rank) });
    let bytes = b.int(64);
    b.op(OpKind::BarrierExpect { barrier, bytes });
    b.op(OpKind::SetRegisters { count: 64, increase: false });
    for (map, rank) in maps.iter().zip(1..) {
        for multicast in [None, Some(b.int(3))] {
            for evict in [None, Some(ir::Evict::First), Some(ir::Evict::Normal)] {
                let coordinates = vec![zero; rank];
                let (map, shared, offset) = (*map, tile, zero);
                b.op(OpKind::TensorLoad { map, coordinates, shared, offset, barrier, multicast, evict });
            }
        }
        b.op(OpKind::TensorStore {
            map: *map,
            coordinates: vec![zero; rank],
            shared: tile,
            offset: zero,
            evict: None,
            adds: false,
        });
        b.op(OpKind::PrefetchMap { map: *map });
    }
    let memory = b.at(flat, zero);
    b.op(OpKind::AsyncArrive { barrier });
    b.op(OpKind::BulkLoad { memory, shared: tile, offset: zero, bytes, barrier, evict: None });
    b.op(OpKind::BarrierWait { barrier, parity: zero });
    let words = b.local("words", Dtype::U32, 4);
    for i in 0..4 {
        let (tx, i) = (b.tx(), b.int(i));
        let word = b.cast(tx, U32);
        b.store(Space::Local(words), i, word);
    }
    let (lane, four) = (b.special(Special::Lane), b.int(4));
    let row = b.mul(lane, four);
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let memory = b.at(Space::Shared(tile), row);
            b.op(OpKind::StoreMatrix { memory, local: words, start: zero, count, transposed });
        }
    }
    b.op(OpKind::FenceProxyAsync);
    b.op(OpKind::BulkCommit);
    b.op(OpKind::BulkWait { pending: 1, read: true });
    b.op(OpKind::BulkWait { pending: 0, read: false });
    b.op(OpKind::NamedBarrier { id: 1, threads: 128, arrive: true });
    b.op(OpKind::NamedBarrier { id: 1, threads: 128, arrive: false });
    compile(&b.finish());
}
