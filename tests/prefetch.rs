//! The first copies of a pipelined loop are issued above the wait for the previous kernel, where nothing before the loop stands in their way.

use tile_ir::ir::{Instance, Target};
use tile_kernel_examples::devices::devices;
use tile_runtime::kernel::Definition;
use tile_runtime::prelude::*;

/// `y = x w`, after which `w` is zeros: a block has 32 columns of `w`. `x` is read before the loop over `w`.
#[tile_kernel(
    instances(BEFORE in [0, 1, 2]),
    require(K > 0 && K % 8 == 0 && N % 32 == 0),
    pdl(independent = [w], trigger = AtStart)
)]
fn product_and_clear<const BEFORE: usize>(
    x: &Tensor<f32, (K,)>,
    w: &mut Tensor<f32, (K, N)>,
    y: &mut Tensor<f32, (N,)>,
) {
    let [block] = blocks([N / 32]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([8, 32]);
    let mut scale = alloc_shared::<f32>([32]);
    scale[t] = x.masked([0]) * 0.0 + 1.0;
    if BEFORE == 1 {
        sync_threads();
    }
    if BEFORE == 2 {
        w[[0, block * 32 + t]] = 1.0;
    }
    let mut sum = 0.0;
    for step in pipelined(0..K / 8, 3).schedule(Cooperative) {
        copy(w.at([step * 8, block * 32]), &mut tile);
        for row in unroll(0..8) {
            sum += tile[[row, t]] * x[step * 8 + row];
        }
    }
    y[block * 32 + t] = sum * scale[t];
    for row in 0..K {
        w[[row, block * 32 + t]] = 0.0;
    }
}

/// The lowered program of the instance.
fn lowered(definition: &'static Definition, before: i64) -> String {
    let kernel = definition.kernel().unwrap();
    let instance = kernel.instances.iter().find(|instance: &&Instance| instance.consts == [before]).unwrap();
    tile_ir::lower::lower(kernel, instance, Target::Sm90a).unwrap_or_else(|d| panic!("{d:?}")).to_string()
}

#[test]
fn copies_are_issued_above_the_wait_but_not_above_barriers() {
    let definition = product_and_clear::<0>::definition();
    let above = |before: i64| {
        let text = lowered(definition, before);
        let (wait, copy) = (text.find("wait for the previous kernel"), text.find("async copy w"));
        assert!(wait.is_some() && copy.is_some(), "{text}");
        copy < wait
    };
    assert!(above(0), "nothing stands before the loop but reads of `x` and a store to another array");
    assert!(!above(1), "a barrier stands before the loop");
    assert!(!above(2), "what is copied is written before the loop");
}

#[test]
fn results_are_those_of_the_order_in_the_text() {
    let (k, n) = (40, 64);
    let x: Vec<f32> = (0..k).map(|i| (i % 7) as f32 - 3.0).collect();
    let w: Vec<f32> = (0..k * n).map(|i| (i % 11) as f32 - 5.0).collect();
    let wanted: Vec<f32> = (0..n).map(|j| (0..k).map(|i| x[i] * w[i * n + j]).sum()).collect();
    for device in devices() {
        let x = device.tensor(&x, [k]).unwrap();
        for barrier in [false, true] {
            let mut w = device.tensor(&w, [k, n]).unwrap();
            let mut y = device.tensor(&vec![f32::NAN; n], [n]).unwrap();
            match barrier {
                false => product_and_clear::<0>::launch(&device, &x, &mut w, &mut y).unwrap(),
                true => product_and_clear::<1>::launch(&device, &x, &mut w, &mut y).unwrap(),
            }
            assert_eq!(y.to_vec().unwrap(), wanted, "{} {barrier}", device.label());
            assert!(w.to_vec().unwrap().iter().all(|w| *w == 0.0), "{} {barrier}", device.label());
        }
    }
}
