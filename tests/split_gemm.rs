//! The bundled kernels that split K: against a product on the CPU. They stay specialised: a producer fills a ring, and
//! `wgmma` multiplies from it.

use tile_ir::ir::{Dtype, Instance, Target};
use tile_ir::lowered::{Program, RemarkKind};
use tile_kernel_examples::gemm::{Case, LAYOUTS};
use tile_kernels::gemm::exchange::gemm_exchange;
use tile_kernels::gemm::partial::gemm_partial;
use tile_kernels::gemm::split::{self, Adds, Split, gemm_cluster, gemm_slots};
use tile_kernels::gemm::{self, Gemm, Precision};
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

fn devices() -> Vec<Device> {
    let mut all = vec![Device::simulator(), Device::checked_simulator()];
    all.extend(Device::cuda(0).ok().filter(|cuda| cuda.supports(Target::Sm90a)));
    all
}

fn programs(definition: &'static Definition) -> Vec<(String, Program)> {
    let kernel = definition.kernel().unwrap();
    let bias = kernel.params.iter().find(|(_, p)| p.name == "bias").map(|(id, _)| id);
    let alike = kernel
        .instances
        .iter()
        .filter(|i| [[Dtype::Bf16; 2], [Dtype::F32; 2]].iter().any(|d| d.starts_with(&i.dtypes)));
    let lower = |instance: &Instance| {
        // With an epilogue there may be a bias; the kernel with slots has one epilogue for all.
        let with_bias = kernel.name == "gemm_cluster" && instance.consts.last() == Some(&1);
        let absent = if with_bias { vec![] } else { bias.into_iter().collect() };
        let instance = Instance { absent, ..instance.clone() };
        let program = tile_ir::lower::lower(kernel, &instance, Target::Sm90a).unwrap();
        (format!("{} {:?}", kernel.name, instance.consts), program)
    };
    alike.map(lower).collect()
}

#[test]
fn every_instance_is_specialised() {
    for definition in [
        gemm_cluster::<f16, f16>::definition(),
        gemm_slots::<f16, f16>::definition(),
        gemm_partial::<f16>::definition(),
        gemm_exchange::<f16, f16>::definition(),
    ] {
        for (name, program) in programs(definition) {
            let text = |kind| program.remarks.iter().filter(move |r| r.kind == kind).map(|r| r.text.as_str());
            assert_eq!(text(RemarkKind::Fallback).collect::<Vec<_>>(), Vec::<&str>::new(), "{name}");
            assert!(text(RemarkKind::Choice).any(|text| text.starts_with("warp specialised")), "{name}");
        }
    }
}

/// Ragged shapes, K shorter than its parts among them, by every tile in every layout that it has. The checked simulator, which goes lane by
/// lane, takes a sixth of them, other devices a third.
#[test]
fn a_cluster_adds_its_parts() {
    by_samples(Adds::Cluster, &[[13, 72, 264], [72, 136, 520], [136, 64, 8]], [6, 3], 1);
}

/// By every tile, in every layout that it has, with as many slots as one instance takes and more; slots without a step among them. The
/// checked simulator, which goes lane by lane, takes an eighth of them, other devices a quarter.
#[test]
fn the_last_arriver_adds_the_slots() {
    by_samples(Adds::LastArriver, &[[16, 72, 264], [72, 136, 1032]], [8, 4], 3);
}

/// By every tile, of operands that it divides and of others, in two and eleven parts, some without a step, and of a result whose rows begin anywhere. The
/// checked simulator, which goes lane by lane, takes a 24th of them, other devices an eighth.
#[test]
fn a_second_launch_adds_the_sums() {
    by_samples(Adds::SecondLaunch, &[[16, 72, 264], [168, 136, 520], [40, 93, 264]], [24, 8], 3);
}

/// By every tile, in every layout that it has; parts without a step among them. The checked simulator, which goes lane by lane, takes a fifth of
/// them, other devices a half.
#[test]
fn a_cluster_exchanges_its_parts() {
    by_samples(Adds::Exchange, &[[16, 72, 264], [168, 136, 1032]], [5, 2], 1);
}

/// Launches the samples of one kind of split in every layout that they have: one of so many on the checked simulator, and on other devices.
/// `apart`: how far neighbouring layouts are from each other in what is taken.
fn by_samples(adds: Adds, shapes: &[[usize; 3]], shares: [usize; 2], apart: usize) {
    for device in &devices() {
        let share = shares[usize::from(device.label() != "sim-checked")];
        for (turn, shape) in shapes.iter().enumerate() {
            for (number, (split, tf32)) in samples().filter(|(split, _)| split.adds == adds).enumerate() {
                for (place, stored) in LAYOUTS.into_iter().enumerate() {
                    if split.has(stored) && (turn + number + apart * place).is_multiple_of(share) {
                        by_split(device, (split, tf32), *shape, stored);
                    }
                }
            }
        }
    }
}

/// Where the second launch would be refused, because the bias is too short, a call has no choice of two launches, and fails.
#[test]
fn what_will_be_refused_launches_nothing() {
    let device = Device::simulator();
    let (m, n, k) = (160, 1144, 11_752);
    let (a, b) = (device.zeros::<bf16, 2>([m, k]).unwrap(), device.zeros::<bf16, 2>([n, k]).unwrap());
    let mut c = device.zeros::<bf16, 2>([m, n]).unwrap();
    let taken = |options: &Gemm<'_, bf16>, c: &mut Tensor<bf16, 2>| {
        gemm::candidates(&device, &a, &b, c, options)
            .into_iter()
            .filter_map(|(choice, _)| choice.split)
            .collect::<Vec<_>>()
    };
    let adds = |splits: &[Split]| splits.iter().any(|split| split.adds == Adds::SecondLaunch);
    assert!(adds(&taken(&Gemm::nt(), &mut c)));
    let short = device.zeros::<bf16, 1>([n - 8]).unwrap();
    let options = Gemm { bias: Some(&short), ..Gemm::nt() };
    assert!(!adds(&taken(&options, &mut c)));
    assert!(gemm::gemm(&device, &a, &b, &mut c, &options).is_err());
}

/// Every split of elements of 16 bits, and of f32 as tf32.
fn samples() -> impl Iterator<Item = (Split, bool)> {
    [false, true].into_iter().flat_map(|tf32| Split::samples(tf32).map(move |split| (split, tf32)))
}

/// A launch gives the product of the CPU, twice: counters are 0 again.
fn by_split(device: &Device, (split, tf32): (Split, bool), shape: [usize; 3], stored: [bool; 2]) {
    for _ in 0..2 {
        let checked = match tf32 {
            true => Case::<f32, f32>::new(shape, stored, [0; 3])
                .check(device, Precision::Tf32, |a, b, c, options| split::launch(device, split, a, b, c, options)),
            false => {
                Case::<bf16, f32>::new(shape, stored, [0; 3])
                    .check(device, Precision::Full, |a, b, c, options| split::launch(device, split, a, b, c, options))
            }
        };
        checked.unwrap_or_else(|wrong| panic!("{split:?}: {wrong}"));
    }
}

/// What `explain` says of an instance for 128, 4096, 7168, with K in so many slots.
fn explained(definition: &'static Definition, name: &str, slots: f64) -> tile_ir::explain::Report {
    use tile_ir::explain::{Machine, Shape, explain};
    let (_, program) = programs(definition).into_iter().find(|(found, _)| found == name).unwrap();
    let values =
        [("M", 128.0), ("N", 4096.0), ("K", 7168.0), ("A0", 128.0), ("A1", 7168.0), ("B0", 4096.0), ("B1", 7168.0)];
    let values = values.into_iter().chain([("alpha", 1.0), ("beta", 0.0), ("activation", 0.0), ("slots", slots)]);
    let known =
        |name: &str| program.dims.iter().any(|dim| dim == name) || program.params.iter().any(|p| p.name == name);
    let values: Vec<_> = values.filter(|(name, _)| known(name)).collect();
    let shape = Shape::dense(&program, &values).unwrap();
    explain(&program, &shape, &Machine::H200, None).unwrap()
}

/// What `explain` counts: every operand once a tile, the result once, and the sums that cross the cluster.
#[test]
fn explained_traffic() {
    use tile_ir::explain::AccessKind;
    let report =
        explained(gemm_cluster::<f16, f16>::definition(), "gemm_cluster [64, 64, 64, 12, 128, 2, 0, 1, 0]", 1.0);
    let text = report.to_string();
    let tensor = |name: &str| report.tensors.iter().find(|t| t.name == name).unwrap();
    // Two rows of 64 tiles.
    let (m, n, k) = (128.0, 4096.0, 7168.0);
    assert_eq!(tensor("a").reads, 64.0 * m * k * 2.0, "{text}");
    assert_eq!(tensor("b").reads, 2.0 * n * k * 2.0, "{text}");
    assert_eq!(tensor("c").writes, m * n * 2.0, "{text}");
    let inbox = report.accesses.iter().filter(|a| a.place.contains("acc_inbox"));
    let bytes = |kind| inbox.clone().filter(|a| a.kind == kind).map(|a| a.requests * 32.0 * f64::from(a.width)).sum();
    let (sent, taken): (f64, f64) = (bytes(AccessKind::Store), bytes(AccessKind::Load));
    assert_eq!([sent, taken], [m * n * 4.0; 2], "{text}");
    assert!(text.contains("through distributed shared memory"), "{text}");
}

/// Each of four blocks puts its sum aside, and the last one reads all four and stores the result: once a tile.
#[test]
fn explained_traffic_of_slots() {
    let report = explained(gemm_slots::<f16, f16>::definition(), "gemm_slots [64, 64, 64, 12, 128, 8, 0, 1]", 4.0);
    let traffic = |name| report.tensors.iter().find(|t| t.name == name).map(|t| (t.reads, t.writes));
    let (m, n, k, slots) = (128.0, 4096.0, 7168.0, 4.0);
    assert_eq!(traffic("a"), Some((64.0 * m * k * 2.0, 0.0)), "{report}");
    assert_eq!(traffic("partial"), Some((slots * m * n * 4.0, slots * m * n * 4.0)), "{report}");
    assert_eq!(traffic("c"), Some((0.0, m * n * 2.0)), "{report}");
    // Two rows of 64 tiles: an addition a cluster, and the last one sets the counter back.
    let counted = (slots + 1.0) * 128.0 * 4.0;
    assert_eq!(traffic("arrived"), Some((counted, counted)), "{report}");
    // The sums of the slots meet in the last arriver.
    let twice = explained(gemm_slots::<f16, f16>::definition(), "gemm_slots [64, 64, 64, 12, 128, 8, 0, 1]", 8.0);
    assert_eq!(twice.roofline.flops - report.roofline.flops, slots * m * n, "{report}");
    assert!(report.undecided.is_empty(), "{report}");
}

/// What the last arriver reads is ordered by a barrier of all that compute before the block arrives, and by the arrival.
#[test]
fn planted_mistakes_are_found() {
    use std::sync::Arc;
    use tile_ir::ir::Dtype;
    use tile_ir::lowered::visit::each_list_mut;
    use tile_ir::lowered::{Op, OpKind};
    use tile_ir::sim::checked::{CheckedOptions, run};
    use tile_ir::sim::{Argument, Memory, ScalarValue, TensorArgument};

    let reports = |program: &Program| -> String {
        let tensor = |shape: &[i64], dtype: Dtype| {
            let count: i64 = shape.iter().product();
            let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
            let memory = Arc::new(Memory::zeros(count as usize * dtype.bytes() as usize));
            Argument::Tensor(TensorArgument { dtype, memory, offset: 0, shape: shape.to_vec(), strides })
        };
        let number = |value: f32| Argument::Scalar(ScalarValue::Element(Dtype::F32, value.to_bits()));
        let args = [
            tensor(&[64, 256], Dtype::Bf16),
            tensor(&[64, 256], Dtype::Bf16),
            tensor(&[64, 64], Dtype::Bf16),
            Argument::Absent,
            number(1.0),
            number(0.0),
            Argument::Scalar(ScalarValue::Element(Dtype::U32, 0)),
            Argument::Scalar(ScalarValue::Index(2)),
            tensor(&[8, 64, 64], Dtype::F32),
            tensor(&[128, 128], Dtype::U32),
        ];
        let report = run(program, &args, &CheckedOptions::default()).unwrap();
        report.diagnostics.iter().map(|d| format!("{}: {}\n", d.code, d.message)).collect()
    };
    let all = programs(gemm_slots::<f16, f16>::definition());
    let (_, program) = all.into_iter().find(|(name, _)| name == "gemm_slots [64, 64, 64, 12, 128, 8, 0, 1]").unwrap();
    assert_eq!(reports(&program), "");

    let mut relaxed = program.clone();
    each_list_mut(&mut relaxed.body, &mut |ops| {
        for op in ops {
            if let OpKind::Atomic { ordered, .. } = &mut op.kind {
                *ordered = false;
            }
        }
    });
    assert!(reports(&relaxed).contains("TK0405"), "{}", reports(&relaxed));

    let arrives = |op: &Op| match &op.kind {
        OpKind::If { then, .. } => then.iter().any(|op| matches!(op.kind, OpKind::Atomic { ordered: true, .. })),
        _ => false,
    };
    let mut hasty = program.clone();
    let mut removed = 0;
    each_list_mut(&mut hasty.body, &mut |ops| {
        if let Some(at) = ops.iter().position(arrives) {
            let barrier = ops[..at].iter().rposition(|op| matches!(op.kind, OpKind::NamedBarrier { .. })).unwrap();
            ops.remove(barrier);
            removed += 1;
        }
    });
    assert_eq!(removed, 1);
    assert!(reports(&hasty).contains("TK0405"), "{}", reports(&hasty));
}
