//! Arguments of a launch by their names: they reach the parameters of those names, in whatever order they are written, with
//! every kind of parameter and in every form of launch.

use tile_runtime::kernel::LaunchOn;
use tile_runtime::prelude::*;
use tile_runtime::{Error, LaunchError};

/// Two tensors of one type: swapped in a positional call, nothing would say so.
#[tile_kernel]
pub fn scale_and_shift(
    x: &Tensor<f32, (N,)>,
    gamma: &Tensor<f32, (N,)>,
    beta: &Tensor<f32, (N,)>,
    y: &mut Tensor<f32, (N,)>,
) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        y[i] = x[i] * gamma[i] + beta[i];
    }
}

/// A dtype that only a scalar and an optional tensor name, and a constant.
#[tile_kernel(instances(WIDTH in [32, 64]), dtypes(T in [f16, f32]), partial(y))]
pub fn biased<T: Float, const WIDTH: usize>(
    x: &Tensor<T, (N,)>,
    bias: Option<&Tensor<T, (N,)>>,
    y: &mut Tensor<T, (N,)>,
    scale: T,
    first: usize,
) {
    let [b] = blocks([ceil_div(N, WIDTH)]);
    let [t] = threads([WIDTH]);
    let i = b * WIDTH + t;
    if i < N && i >= first {
        let mut v = x[i].cast::<f32>() * scale.cast::<f32>();
        if let Some(bias) = bias {
            v += bias[i].cast::<f32>();
        }
        y[i] = v.cast::<T>();
    }
}

fn simulators() -> [Device; 2] {
    [Device::simulator(), Device::checked_simulator()]
}

fn scaled(on: &impl LaunchOn) -> Result<Vec<f32>, Error> {
    let device = on.device();
    let x = device.tensor(&[1.0, 2.0, 3.0], [3])?;
    let gamma = device.tensor(&[10.0, 10.0, 10.0], [3])?;
    let beta = device.tensor(&[0.5, 0.25, 0.125], [3])?;
    let mut y = device.zeros::<f32, 1>([3])?;
    scale_and_shift::launch_named(on, ScaleAndShiftArgs { y: &mut y, beta: &beta, gamma: &gamma, x: &x })?;
    y.to_vec()
}

#[test]
fn each_argument_reaches_its_parameter() {
    for device in simulators() {
        assert_eq!(scaled(&device).unwrap(), [10.5, 20.25, 30.125]);
        assert_eq!(scaled(&device.stream().unwrap()).unwrap(), [10.5, 20.25, 30.125]);
    }
}

#[test]
fn every_form_of_launch_takes_names() {
    for device in simulators() {
        let all = device.tensor(&[0.0f32, 1.0, 2.0, 3.0], [4]).unwrap();
        let bias = device.tensor(&[100.0f32, 200.0], [2]).unwrap();
        let mut out = device.zeros::<f32, 1>([4]).unwrap();
        // Views, an optional tensor that is there, scalars.
        let x = all.rows(1..3).unwrap();
        let y = out.rows_mut(1..3).unwrap();
        let args = BiasedArgs { x, bias: Some(&bias), y, scale: 2.0, first: 0 };
        biased::<f32, 32>::launch_named(&device, args).unwrap();
        assert_eq!(out.to_vec().unwrap(), [0.0, 102.0, 204.0, 0.0]);

        // One that is left out; an instance that is chosen when the program runs.
        let kernel = biased::<f32>::instance(&device, BiasedParams { WIDTH: 64 }).unwrap();
        kernel.launch_named(BiasedArgs { x: &all, bias: None, y: &mut out, scale: 3.0, first: 2 }).unwrap();
        assert_eq!(out.to_vec().unwrap(), [0.0, 102.0, 6.0, 9.0]);
        let stream = device.stream().unwrap();
        let args = BiasedArgs { x: &all, bias: None, y: &mut out, scale: 1.0, first: 0 };
        kernel.launch_on_named(&stream, args).unwrap();
        assert_eq!(out.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0]);

        // Kept, and tuned.
        let args = BiasedArgs { x: &all, bias: None, y: &mut out, scale: 5.0, first: 0 };
        let again = biased::<f32, 64>::prepare_named(&device, args).unwrap();
        again.launch().unwrap();
        assert_eq!(out.to_vec().unwrap(), [0.0, 5.0, 10.0, 15.0]);
        let bias = device.zeros::<f32, 1>([4]).unwrap();
        let args = BiasedArgs { x: &all, bias: Some(&bias), y: &mut out, scale: 1.0, first: 0 };
        assert_eq!(biased::<f32>::tuned_named(&device, args).unwrap().device(), &device);
    }
}

#[test]
fn an_error_names_the_argument_and_the_callers_line() {
    let device = Device::simulator();
    let (x, short) = (device.zeros::<f32, 1>([4]).unwrap(), device.zeros::<f32, 1>([3]).unwrap());
    let mut y = device.zeros::<f32, 1>([4]).unwrap();
    let args = ScaleAndShiftArgs { x: &x, gamma: &x, beta: &short, y: &mut y };
    let (line, launched) = (line!(), scale_and_shift::launch_named(&device, args));
    let error: LaunchError = launched.unwrap_err();
    assert_eq!((error.location().file(), error.location().line()), (file!(), line));
    assert!(error.to_string().contains("N = 4 (`x`, axis 0) and N = 3 (`beta`, axis 0)"), "{error}");
}
