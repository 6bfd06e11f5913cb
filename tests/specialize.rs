//! `specialize(K)`: dims that become constants when a kernel is compiled at run time.

use tile_kernel_examples::data::normal;
use tile_runtime::kernel::{Format, TensorOutput, Variant, compile, explain, prepare, show};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Problem};

/// Everything that is constant may be made of K: threads, the extent of an array, of unrolled and vectorised loops, the
/// width of what is loaded at once.
#[tile_kernel(specialize(K, max = 2))]
fn scale(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, factor: f32) {
    let width = if K % 4 == 0 { 4 } else { 1 };
    let share = ceil_div(K, 32 * width);
    let [row] = blocks([N]);
    let [tk] = threads([if K < 32 { K } else { 32 }]);
    let mut values = alloc_local::<f32>([share, width]);
    for i in unroll(0..share) {
        for v in vectorized(0..width) {
            values[[i, v]] = x.masked([row, (i * 32 + tk) * width + v]);
        }
    }
    for i in unroll(0..share) {
        for v in vectorized(0..width) {
            *y.masked_mut([row, (i * 32 + tk) * width + v]) = values[[i, v]] * factor;
        }
    }
}

fn run(device: &Device, n: usize, k: usize) -> Vec<f32> {
    let x = device.tensor(&normal::<f32>(k as u64, n * k), [n, k]).unwrap();
    let mut y = device.zeros::<f32, 2>([n, k]).unwrap();
    scale::launch(device, &x, &mut y, 3.0).unwrap_or_else(|e| panic!("{e}"));
    y.to_vec().unwrap()
}

#[test]
fn every_k_has_its_own_kernel() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        for k in [128, 1, 100, 7, 33, 1024, 128] {
            let expected: Vec<f32> = normal::<f32>(k as u64, 5 * k).iter().map(|v| v * 3.0).collect();
            assert_eq!(run(&device, 5, k), expected, "K = {k} on {device:?}");
        }
    }
}

/// Nothing is masked and every access is 16 bytes wide: a demand on K, which no `require` states.
#[tile_kernel(specialize(K))]
fn whole_rows(x: &Tensor<f16, (N, K)>, y: &mut Tensor<f16, (N, K)>, scale: &Tensor<f32, (K,)>) {
    let [row] = blocks([N]);
    let [tk] = threads([K / 8]);
    let mut values = alloc_local::<f16>([8]);
    for v in vectorized(0..8) {
        values[v] = x[[row, tk * 8 + v]];
    }
    for v in unroll(0..8) {
        values[v] = (values[v].cast::<f32>() * scale[[tk * 8 + v]]).cast::<f16>();
    }
    for v in vectorized(0..8) {
        y[[row, tk * 8 + v]] = values[v];
    }
}

fn whole(device: &Device, k: usize, scales: usize) -> Result<Vec<f16>, tile_runtime::LaunchError> {
    let x = device.tensor(&vec![f16::from_f32(2.0); 3 * k], [3, k]).unwrap();
    let scale = device.tensor(&vec![0.5f32; scales], [scales]).unwrap();
    let mut y = device.zeros::<f16, 2>([3, k]).unwrap();
    whole_rows::launch(device, &x, &mut y, &scale)?;
    Ok(y.to_vec().unwrap())
}

#[test]
fn a_demand_that_a_k_breaks_is_an_error_on_the_authors_line() {
    let device = Device::simulator();
    assert_eq!(whole(&device, 1000, 1000).unwrap(), vec![f16::from_f32(1.0); 3000]);
    let text = whole(&device, 1004, 1004).unwrap_err().to_string();
    assert!(text.contains("row 1 starts at byte 2008; 2008 % 16 = 8"), "{text}");
    assert!(text.contains("x[[row, tk * 8 + v]]") && text.contains("for K = 1004"), "{text}");
    let text = whole(&device, 16384, 16384).unwrap_err().to_string();
    assert!(text.contains("2048") && text.contains("threads([K / 8])") && text.contains("for K = 16384"), "{text}");
    // And the next launch is none the worse.
    assert!(whole(&device, 8, 8).is_ok());
}

#[test]
fn arguments_that_disagree_about_k_compile_nothing() {
    let device = Device::simulator();
    let before = whole_rows::launch_table().variants(0);
    let error = whole(&device, 2048, 2056).unwrap_err();
    assert!(matches!(error.problem(), Problem::NamedExtent { expected: 2048, found: 2056, .. }), "{error}");
    assert!(whole_rows::launch_table().variants(0) <= before.max(3), "only other tests add variants");
}

#[tile_kernel(specialize(K), require(K % 64 == 0))]
fn contracted(x: &Tensor<f32, (K,)>, y: &mut Tensor<f32, (K,)>) {
    let [_block] = blocks([1]);
    let [tk] = threads([64]);
    for i in unroll(0..K / 64) {
        y[i * 64 + tk] = x[i * 64 + tk];
    }
}

#[test]
fn a_broken_require_names_the_value() {
    let device = Device::simulator();
    let x = device.tensor(&vec![1.0f32; 100], [100]).unwrap();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    let text = contracted::launch(&device, &x, &mut y).unwrap_err().to_string();
    assert!(text.contains("`require(K % 64 == 0)` does not hold for K = 100"), "{text}");
}

/// A kernel of its own, so that no other test launches it.
#[tile_kernel(specialize(K, max = 2))]
fn fill_one(y: &mut Tensor<f32, (K,)>) {
    let [_block] = blocks([1]);
    let [_t] = threads([1]);
    for i in 0..K {
        y[i] = 1.0;
    }
}

#[test]
fn the_variant_launched_least_recently_is_dropped() {
    let device = Device::simulator();
    let prepared = |k: i64| {
        let which = Variant { instance: 0, dims: &[("K", k)], ..Variant::default() };
        prepare(fill_one::definition(), fill_one::launch_table(), which, &device).unwrap()
    };
    let launched = |k: usize| {
        let mut y = device.zeros::<f32, 1>([k]).unwrap();
        fill_one::launch(&device, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), vec![1.0; k]);
    };
    let (one, two) = (prepared(1), prepared(2));
    launched(1);
    launched(3); // drops 2
    assert_eq!(fill_one::launch_table().variants(0), 2);
    assert!(std::ptr::eq(one.program(), prepared(1).program()));
    assert!(!std::ptr::eq(two.program(), prepared(2).program()), "2 is made anew");
    // What holds a variant may go on launching it.
    let mut y = device.zeros::<f32, 1>([2]).unwrap();
    two.launch(&mut [TensorOutput::<f32, 1>::argument(&mut &mut y)]).unwrap();
    assert_eq!(y.to_vec().unwrap(), [1.0, 1.0]);
    // But for its own K only.
    let mut y = device.zeros::<f32, 1>([5]).unwrap();
    let error = two.launch(&mut [TensorOutput::<f32, 1>::argument(&mut &mut y)]).unwrap_err();
    assert!(matches!(error.problem(), Problem::Specialized { expected: 2, found: 5, .. }), "{error}");
    for k in 1..40 {
        launched(k);
        assert!(fill_one::launch_table().variants(0) <= 2);
    }
}

#[test]
fn a_graph_keeps_the_variants_that_it_launches() {
    let device = Device::simulator();
    let x = device.tensor(&[1.0f32, 2.0], [1, 2]).unwrap();
    let mut y = device.zeros::<f32, 2>([1, 2]).unwrap();
    let graph = device
        .capture(|stream| {
            scale::launch(stream, &x, &mut y, 2.0)?;
            Ok(())
        })
        .unwrap();
    (40..44).for_each(|k| drop(run(&device, 1, k)));
    graph.launch().unwrap();
    assert_eq!(y.to_vec().unwrap(), [2.0, 4.0]);
}

#[test]
fn tools_take_the_dims() {
    use tile_ir::explain::Machine;
    use tile_ir::ir::Target;
    let def = scale::definition();
    let which = |dims| Variant { instance: 0, dims, ..Variant::default() };
    let text = show(def, which(&[("K", 4096)]), Target::Sm90a, Format::Cuda).unwrap();
    assert!(text.contains("scale_K4096") && !text.contains("int K"), "K is no parameter:\n{text}");
    let text = show(def, which(&[("K", 4096)]), Target::Sm90a, Format::Tile).unwrap();
    assert!(text.contains("#[specialize(K = 4096, max = 2)]"), "{text}");
    assert_eq!(scale::show(Target::Sm90a, Format::Tile, &[("K", 4096)]).unwrap(), text);
    assert!(matches!(scale::show(Target::Sm90a, Format::Tile, &[]), Err(Error::Dims { .. })));
    for dims in [&[][..], &[("N", 1)], &[("K", 1), ("N", 1)], &[("K", 1), ("K", 2)]] {
        let error = show(def, which(dims), Target::Sm90a, Format::Tile).unwrap_err();
        assert!(matches!(error, Error::Dims { .. }), "{error}");
    }
    let error = compile(def, 0, Target::Sm90a).unwrap_err().to_string();
    assert_eq!(error, "kernel `scale` is specialised by K; given: none");
    let values = [("N", 64.0), ("K", 4096.0), ("factor", 2.0)];
    let report = explain(def, 0, Target::Sm90a, &Machine::H200, &values).unwrap();
    assert!(report.to_string().contains("K = 4096"), "{report}");
}
