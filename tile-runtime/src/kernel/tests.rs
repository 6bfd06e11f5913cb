//! Launches of a kernel built by hand, on the simulators; bad launches of every kind.

mod bad_launches;
mod sample;

use super::{
    Argument, Format, InstanceTable, LaunchOn, ScalarInput, TensorInput, TensorOutput, instance_index, launch, prepare,
    show,
};
use crate::nvrtc::Nvrtc;
use crate::{Device, Error, LaunchError, Problem, Tensor, f16};
use sample::{INSTANCES, definition};
use tile_ir::ir::{Dtype, Target};

/// The launch surface that expansion would make.
#[track_caller]
fn scale(
    on: &impl LaunchOn,
    instance: usize,
    x: impl TensorInput<f32, 2>,
    v: impl TensorInput<f32, 1>,
    mut y: impl TensorOutput<f32, 2>,
    alpha: f32,
    n: usize,
) -> Result<(), LaunchError> {
    let args = &mut [x.argument(), v.argument(), y.argument(), alpha.scalar(), n.scalar()];
    launch(definition(), table(), instance, on, args)
}

fn table() -> &'static InstanceTable<INSTANCES> {
    static TABLE: InstanceTable<INSTANCES> = InstanceTable::new();
    &TABLE
}

fn inputs(device: &Device, n: usize, k: usize) -> (Tensor<f32, 2>, Tensor<f32, 1>, Tensor<f32, 2>) {
    let x: Vec<f32> = (0..n * k).map(|i| i as f32).collect();
    let v: Vec<f32> = (0..k).map(|i| 1.0 + i as f32).collect();
    (device.tensor(&x, [n, k]).unwrap(), device.tensor(&v, [k]).unwrap(), device.zeros([n, k]).unwrap())
}

fn expected(n: usize, k: usize, alpha: f32) -> Vec<f32> {
    (0..n * k).map(|i| i as f32 * (1.0 + (i % k) as f32) * alpha).collect()
}

#[test]
fn both_simulators_compute_every_instance() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        for instance in 0..2 {
            let (x, v, mut y) = inputs(&device, 3, 40);
            scale(&device, instance, &x, &v, &mut y, 0.5, 3).unwrap();
            assert_eq!(y.to_vec().unwrap(), expected(3, 40, 0.5), "{device:?} {instance}");
        }
    }
}

#[test]
fn views_with_a_pitch_are_launched_on() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        let (x, v, _) = inputs(&device, 4, 16);
        let mut wide = device.zeros::<f32, 2>([4, 24]).unwrap();
        scale(&device, 0, x.rows(1..3).unwrap(), &v, wide.slice_mut([2..4, 8..24]).unwrap(), 1.0, 2).unwrap();
        let all = expected(4, 16, 1.0);
        assert_eq!(wide.slice([2..4, 8..24]).unwrap().to_vec().unwrap(), all[16..48]);
        assert_eq!(wide.slice([0..4, 0..8]).unwrap().to_vec().unwrap(), [0.0; 32]);
        assert_eq!(wide.rows(0..2).unwrap().to_vec().unwrap(), [0.0; 48]);
    }
}

#[test]
fn an_empty_grid_launches_nothing_and_is_no_error() {
    let device = Device::simulator();
    let (x, v, mut y) = inputs(&device, 0, 8);
    scale(&device, 0, &x, &v, &mut y, 1.0, 0).unwrap();
}

#[test]
fn a_graph_keeps_its_tensors_and_runs_again() {
    let device = Device::simulator();
    let (x, v, mut y) = inputs(&device, 2, 8);
    let mut z = device.zeros::<f32, 2>([2, 8]).unwrap();
    let graph = device
        .capture(|stream| {
            scale(stream, 0, &x, &v, &mut y, 2.0, 2)?;
            scale(stream, 0, &y, &v, &mut z, 1.0, 2)?;
            Ok(())
        })
        .unwrap();
    assert_eq!(y.to_vec().unwrap(), [0.0; 16], "capturing runs nothing");
    drop(x);
    graph.launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), expected(2, 8, 2.0));
    assert!(z.to_vec().unwrap()[15] > 0.0);
    y.write(&[0.0; 16]).unwrap();
    graph.launch_on(&device.stream().unwrap()).unwrap();
    assert_eq!(y.to_vec().unwrap(), expected(2, 8, 2.0));
    let other = Device::checked_simulator().stream().unwrap();
    assert!(matches!(graph.launch_on(&other), Err(Error::DifferentDevices { .. })));
}

#[test]
fn prepared_instances_are_shared_between_threads() {
    static TABLE: InstanceTable<INSTANCES> = InstanceTable::new();
    let device = Device::simulator();
    let programs: Vec<usize> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| std::ptr::from_ref(prepare(definition(), &TABLE, 1, &device).unwrap().program()).addr())
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(programs.iter().all(|p| *p == programs[0]));
    let checked = prepare(definition(), &TABLE, 1, &Device::checked_simulator()).unwrap();
    assert_ne!(std::ptr::from_ref(checked.program()).addr(), programs[0], "one record a device");
    assert_eq!(checked.instance(), "<f32> W = 64");
}

#[test]
fn instances_are_found_by_name_and_the_error_lists_them() {
    let index = |dtype, consts: &[(&str, i64)]| instance_index(definition(), &[dtype], consts);
    assert_eq!(index(Dtype::F32, &[("W", 64)]).unwrap(), 1);
    assert_eq!(index(Dtype::F16, &[("W", 32)]).unwrap(), 2);
    let error = index(Dtype::F16, &[("W", 48)]).unwrap_err().to_string();
    assert_eq!(error, "[TK0706] kernel `scale` has no instance <f16> W = 48; declared: <f16> W = 32; <f16> W = 64");
    let error = index(Dtype::I32, &[("W", 32)]).unwrap_err().to_string();
    assert!(error.contains("<f32> W = 32; <f32> W = 64; <f16> W = 32"), "{error}");
    assert!(index(Dtype::F32, &[]).is_err());
    let device = Device::simulator();
    let (x, v, mut y) = inputs(&device, 1, 8);
    let error = scale(&device, 99, &x, &v, &mut y, 1.0, 1).unwrap_err();
    assert!(matches!(error.problem(), Problem::Prepare(Error::Instance { .. })), "{error}");
}

#[test]
fn bytes_that_are_no_kernel_are_an_error() {
    static BROKEN: super::Definition = super::Definition::new("broken", b"TKIR\xff rest");
    let error = BROKEN.kernel().unwrap_err();
    assert!(error.to_string().starts_with("kernel `broken`: the kernel was encoded in format 255"), "{error}");
}

#[test]
fn every_instance_becomes_a_cubin() {
    if let Err(error) = Nvrtc::get() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    for target in Target::ALL {
        for instance in 0..INSTANCES {
            let tile = show(definition(), instance, target, Format::Tile).unwrap();
            assert!(tile.contains("scale"), "{tile}");
            let lowered = show(definition(), instance, target, Format::Lowered).unwrap();
            assert!(lowered.contains(target.name()), "{lowered}");
            let cuda = show(definition(), instance, target, Format::Cuda).unwrap();
            assert!(cuda.contains("extern \"C\""), "{cuda}");
            let ptx = show(definition(), instance, target, Format::Ptx).unwrap();
            assert!(ptx.contains(&format!(".target {}", target.name())), "{ptx}");
            let resources = show(definition(), instance, target, Format::Resources).unwrap();
            assert!(resources.contains("no spills"), "{resources}");
        }
    }
}

#[test]
fn machine_code_is_shown_where_there_is_a_disassembler() {
    match show(definition(), 0, Target::Sm90a, Format::Sass) {
        Ok(text) => assert!(text.contains("EXIT"), "{text}"),
        Err(error) => {
            assert!(matches!(error, Error::Library(_)), "{error}");
            eprintln!("SKIPPED: {error}");
        }
    }
}

#[test]
fn half_precision_instances_run_too() {
    let device = Device::simulator();
    let x: Vec<f16> = (0..16).map(|i| f16::from_f32(i as f32)).collect();
    let (x, v) = (device.tensor(&x, [2, 8]).unwrap(), device.tensor(&[2.0f32; 8], [8]).unwrap());
    let y = device.zeros::<f16, 2>([2, 8]).unwrap();
    let args = &mut [
        Argument::Tensor(x.erased()),
        Argument::Tensor(v.erased()),
        Argument::Tensor(y.erased()),
        0.5f32.scalar(),
        2usize.scalar(),
    ];
    launch(definition(), table(), 2, &device, args).unwrap();
    assert_eq!(y.to_vec().unwrap(), x.to_vec().unwrap());
}

/// Prints what the checks cost: `cargo test --release -p tile-runtime -- --ignored checks_cost --nocapture`.
#[test]
#[ignore = "a measurement"]
fn checks_cost() {
    let device = Device::simulator();
    let (x, v, mut y) = inputs(&device, 2, 8);
    scale(&device, 0, &x, &v, &mut y, 1.0, 2).unwrap();
    let prepared =
        super::prepared::prepared(definition(), table(), 0, super::prepared::Chosen::default(), &device).unwrap();
    let (x, mut y) = (&x, &mut y);
    let start = std::time::Instant::now();
    let rounds = 1_000_000;
    for _ in 0..rounds {
        let args = [
            TensorInput::<f32, 2>::argument(&x),
            Argument::Tensor(v.erased()),
            TensorOutput::<f32, 2>::argument(&mut y),
            1.0f32.scalar(),
            2usize.scalar(),
        ];
        let checked = prepared.plan.check(device.state, std::hint::black_box(&args));
        assert!(std::hint::black_box(checked.is_ok()));
    }
    println!("{:.0} ns a launch", start.elapsed().as_nanos() as f64 / f64::from(rounds));
}
