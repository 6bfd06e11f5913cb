//! One mistake a code, for the codes that no compiler can report: each function makes the mistake and returns what is
//! said about it. The pages of the diagnostics show these kernels and these messages.

use tile_runtime::prelude::*;

/// What is said about a mistake that shows when a kernel is launched or runs.
fn said(outcome: Result<(), LaunchError>) -> String {
    outcome.expect_err("this mistake was not noticed").to_string()
}

// ANCHOR: TK0303
#[tile_kernel(lints(TK0605 = "off"))]
pub fn shifted(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, by: usize) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        y[i] = x[i - by];
    }
}
// ANCHOR_END: TK0303

/// A negative index.
pub fn tk0303() -> String {
    let device = Device::checked_simulator();
    let x = device.tensor(&[1.0f32; 100], [100]).unwrap();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    said(shifted::launch(&device, &x, &mut y, 1usize))
}

// ANCHOR: TK0304
#[tile_kernel]
pub fn tail(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<128>,)>) {
    blocks([1]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    if t < N {
        s[t] = x[t];
    }
    sync_threads();
    y[t] = s[127 - t];
}
// ANCHOR_END: TK0304

/// An element that nobody wrote.
pub fn tk0304() -> String {
    let device = Device::checked_simulator();
    let x = device.tensor(&[1.0f32; 100], [100]).unwrap();
    let mut y = device.zeros::<f32, 1>([128]).unwrap();
    said(tail::launch(&device, &x, &mut y))
}

// ANCHOR: vectors
#[tile_kernel(require(N % 4 == 0))]
pub fn doubled(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([32]);
    let first = b * 128 + t * 4;
    let mut v = alloc_local::<f32>([4]);
    for i in vectorized(0..4) {
        v[i] = x.masked([first + i]);
    }
    for i in unroll(0..4) {
        v[i] += v[i];
    }
    for i in vectorized(0..4) {
        *y.masked_mut([first + i]) = v[i];
    }
}
// ANCHOR_END: vectors

/// A shape that breaks a requirement.
pub fn tk0702() -> String {
    let device = Device::simulator();
    // ANCHOR: TK0702
    let x = device.tensor(&[1.0f32; 101], [101]).unwrap();
    let mut y = device.zeros::<f32, 1>([101]).unwrap();
    let outcome = doubled::launch(&device, &x, &mut y);
    // ANCHOR_END: TK0702
    said(outcome)
}

/// A view that starts off the vector.
pub fn tk0703() -> String {
    let device = Device::simulator();
    // ANCHOR: TK0703
    let x = device.tensor(&[1.0f32; 104], [104]).unwrap();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    let outcome = doubled::launch(&device, x.rows(1..101).unwrap(), &mut y);
    // ANCHOR_END: TK0703
    said(outcome)
}

/// A tensor of another device.
pub fn tk0704() -> String {
    // ANCHOR: TK0704
    let (device, another) = (Device::simulator(), Device::checked_simulator());
    let x = another.tensor(&[1.0f32; 100], [100]).unwrap();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    let outcome = doubled::launch(&device, &x, &mut y);
    // ANCHOR_END: TK0704
    said(outcome)
}

// ANCHOR: TK0705
#[tile_kernel]
pub fn columns(y: &mut Tensor<f32, (N,)>) {
    let [_, b] = blocks([1, N]);
    let [t] = threads([1]);
    if t == 0 {
        y[b] = 1.0;
    }
}
// ANCHOR_END: TK0705

/// A grid that is too long on its second axis.
pub fn tk0705() -> String {
    let device = Device::simulator();
    let mut y = device.zeros::<f32, 1>([100_000]).unwrap();
    said(columns::launch(&device, &mut y))
}

// ANCHOR: TK0706
#[tile_kernel(instances(THREADS in [128, 256]))]
pub fn filled<T: Float, const THREADS: usize>(y: &mut Tensor<T, (N,)>) {
    let [b] = blocks([ceil_div(N, THREADS)]);
    let [t] = threads([THREADS]);
    *y.masked_mut([b * THREADS + t]) = T::ONE;
}

/// Chooses the instance by a value.
pub fn fill(device: &Device, threads: usize, y: &mut Tensor<f32, 1>) -> Result<(), Error> {
    filled::<f32>::instance(device, FilledParams { THREADS: threads })?.launch(y)?;
    Ok(())
}
// ANCHOR_END: TK0706

/// An instance that is not declared.
pub fn tk0706() -> String {
    let device = Device::simulator();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    fill(&device, 128, &mut y).unwrap();
    fill(&device, 96, &mut y).expect_err("96 is not declared").to_string()
}

// ANCHOR: TK0901
#[tile_kernel]
pub fn roots(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([128]);
    let i = b * 128 + t;
    if i < N {
        device_assert(x[i] >= 0.0, "only roots of what is not negative");
        y[i] = sqrt(x[i]);
    }
}
// ANCHOR_END: TK0901

/// An assertion that fails for one element.
pub fn tk0901() -> String {
    let device = Device::checked_simulator();
    let mut values = [1.0f32; 100];
    values[7] = -1.0;
    let x = device.tensor(&values, [100]).unwrap();
    let mut y = device.zeros::<f32, 1>([100]).unwrap();
    said(roots::launch(&device, &x, &mut y))
}

// ANCHOR: TK0307
#[tile_kernel]
pub fn whole_blocks(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N / 128]);
    let [t] = threads([128]);
    y[b * 128 + t] = 2.0 * x[b * 128 + t];
}
// ANCHOR_END: TK0307

/// A grid that leaves the last elements out.
pub fn tk0307() -> String {
    let device = Device::checked_simulator();
    let x = device.tensor(&[1.0f32; 300], [300]).unwrap();
    let mut y = device.zeros::<f32, 1>([300]).unwrap();
    said(whole_blocks::launch(&device, &x, &mut y))
}
