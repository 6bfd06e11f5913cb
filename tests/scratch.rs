use tile_runtime::prelude::*;
#[tile_kernel(instances(ROWS in [1, 2, 4]))]
pub fn gemv<T: Float, const ROWS: usize>(x: &Tensor<T, (K,)>, w: &Tensor<T, (N, K)>, y: &mut Tensor<T, (N,)>, alpha: f32) {
    let [bn] = blocks([N]);
    let [t, u] = threads([32, ROWS]);
    let s = alloc_shared::<f32>([32]);
    s[t] += s[t + 1] * w[u];
    atomic_add(&mut s[t], s[t + 1]);
    let z = w.masked([bn]);
    x[0] = z;
    y[bn] = foo(z);
    copy(w.at([0, 0]), s.at([0]));
    let q: T = alpha * z;
    device_print("{} {}", t, alpha);
    for i in parallel([3, 4]) { s[i] = 1; }
}
fn f(device: &Device, x: &Tensor<f16, 1>, w: &Tensor<f16, 2>, y: &mut Tensor<f16, 1>) {
    let _ = gemv::<f16, 3>::launch(device, x, w, &mut *y, 1.0);
    let _ = gemv::<f16, 4>::launch(device, w, w, &mut *y, 1.0);
    let _ = gemv::<f16, 4>::launch(device, x, w, x, 1.0);
    let _ = gemv::<f16, 4>::launch(device, x, w, y);
    let _ = gemv::<f32, 4>::launch(device, x, w, y, 1.0);
    let _ = gemv::<f64, 4>::launch(device, x, w, y, 1.0);
    let _ = gemv::<f16, 4>::launch(x, w, y, 1.0);
    let _ = gemv::<f16>::launch(device, x, w, &mut *y, 1.0);
    let _ = gemv::<f16>::instance(device, 3);
    let _ = gemv::<f64>::instance(device, GemvParams { ROWS: 3});
}
