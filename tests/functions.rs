//! `#[tile_fn]`: functions that kernels call, in this module, another and another crate, give what writing their bodies out
//! gives.

mod library {
    //! Functions of another module.
    use tile_runtime::prelude::*;

    /// A private one, which `scaled` brings along.
    #[tile_fn]
    fn twice<T: Float>(x: T) -> T {
        x + x
    }

    /// `factor x`, doubled.
    #[tile_fn(uses(twice))]
    pub fn scaled<T: Float, const FACTOR: usize>(x: T) -> f32 {
        twice(x).cast::<f32>() * (FACTOR as f32)
    }

    /// The sum of a row of a tile, in order.
    #[tile_fn]
    pub fn row_sum(tile: &SharedArray<f32, (ROWS, COLUMNS)>, row: usize) -> f32 {
        let mut sum = 0.0f32;
        if row < ROWS {
            for j in 0..COLUMNS {
                sum += tile[[row, j]];
            }
        }
        sum
    }
}

use library::scaled;
use tile_ir::emit::cuda::emit;
use tile_ir::ir::Target;
use tile_ir::lower::lower;
use tile_kernel_examples::devices::devices;
use tile_kernels::gemm::activation::{self, silu};
use tile_runtime::prelude::*;

/// Adds what may be left out, and stores; M and N are the tensor's.
#[tile_fn]
fn put<T: Float>(y: &mut Tensor<T, (M, N)>, shift: Option<&Tensor<f32, (N,)>>, i: usize, j: usize, value: f32) {
    let mut value = value;
    if let Some(b) = shift {
        value += b.masked([j]);
    }
    if i < M && j < N {
        y[[i, j]] = value.cast::<T>();
    }
}

/// Stores where there is a tensor to store to.
#[tile_fn]
fn keep(y: Option<&mut Tensor<f32, (N,)>>, i: usize, value: f32) {
    if let Some(y) = y {
        *y.masked_mut([i]) = value;
    }
}

/// Stores.
#[tile_fn]
fn store(y: &mut Tensor<f32, (N,)>, i: usize, value: f32) {
    *y.masked_mut([i]) = value;
}

/// An optional output is passed on in a loop, as it is and as the tensor that it may be.
#[tile_kernel(uses(keep, store), partial(y, z))]
pub fn kept(x: &Tensor<f32, (N,)>, y: Option<&mut Tensor<f32, (N,)>>, z: Option<&mut Tensor<f32, (N,)>>) {
    let [b] = blocks([ceil_div(N, 128)]);
    let [t] = threads([32]);
    for step in 0..4 {
        let i = b * 128 + step * 32 + t;
        let value = x.masked([i]);
        keep(y, i, value + 1.0);
        if let Some(z) = z {
            store(z, i, value + 2.0);
        }
    }
}

#[test]
fn an_optional_output_is_passed_on_in_a_loop() {
    let x: Vec<f32> = (0..150).map(|i| i as f32).collect();
    for device in devices() {
        let tx = device.tensor(&x, [150]).unwrap();
        let mut y = device.zeros::<f32, 1>([150]).unwrap();
        let mut z = device.zeros::<f32, 1>([150]).unwrap();
        kept::launch(&device, &tx, Some(&mut y), None).unwrap();
        assert_eq!(y.to_vec().unwrap(), x.iter().map(|v| v + 1.0).collect::<Vec<_>>());
        kept::launch(&device, &tx, None, Some(&mut z)).unwrap();
        assert_eq!(z.to_vec().unwrap(), x.iter().map(|v| v + 2.0).collect::<Vec<_>>());
    }
}

/// Every element of an array of a thread.
#[tile_fn]
fn add_all(values: &mut LocalArray<f32, (V,)>, x: f32) {
    for v in unroll(0..V) {
        values[v] += x;
    }
}

#[tile_kernel(instances(F in [3, 5]), uses(scaled, put, library::row_sum, add_all))]
pub fn called<T: Float, const F: usize>(
    x: &Tensor<T, (M, N)>,
    y: &mut Tensor<T, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
) {
    let [bm] = blocks([ceil_div(M, 8)]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([8, 32]);
    let mut pair = alloc_local::<f32>([2]);
    clear(&mut pair);
    for r in 0..8 {
        tile[[r, t]] = scaled::<T, F>(x.masked([bm * 8 + r, t])) + scaled::<T, 2>(x.masked([bm * 8 + r, t]));
    }
    sync_threads();
    add_all(&mut pair, library::row_sum(&tile, t));
    for r in 0..8 {
        let value = tile[[r, t]] + pair[1] + scaled::<_, 1>(1.0);
        put(y, bias, bm * 8 + r, t, value);
    }
}

/// `called` with its functions' bodies in place.
#[tile_kernel(instances(F in [3, 5]))]
pub fn written_out<T: Float, const F: usize>(
    x: &Tensor<T, (M, N)>,
    y: &mut Tensor<T, (M, N)>,
    bias: Option<&Tensor<f32, (N,)>>,
) {
    let [bm] = blocks([ceil_div(M, 8)]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([8, 32]);
    for r in 0..8 {
        let v = x.masked([bm * 8 + r, t]);
        let double = v + v;
        let w = x.masked([bm * 8 + r, t]);
        let again = w + w;
        tile[[r, t]] = double.cast::<f32>() * (F as f32) + again.cast::<f32>() * 2.0;
    }
    sync_threads();
    let mut sum = 0.0f32;
    if t < 8 {
        for j in 0..32 {
            sum += tile[[t, j]];
        }
    }
    for r in 0..8 {
        let mut value = tile[[r, t]] + sum + 2.0;
        if let Some(b) = bias {
            value += b.masked([t]);
        }
        if bm * 8 + r < M && t < N {
            y[[bm * 8 + r, t]] = value.cast::<T>();
        }
    }
}

/// A call inside `&&`, an arm of `if` and an argument of another call: single expressions may stand anywhere.
#[tile_fn]
fn is_small(x: f32) -> bool {
    abs(x) < 0.5
}

#[tile_kernel(uses(is_small, library::scaled), partial(y))]
pub fn nested(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    let v = x.masked([i]);
    if i < N && !is_small(v) {
        y[i] = if is_small(v / 2.0) { 1.0 } else { library::scaled::<f32, 1>(library::scaled::<f32, 1>(v)) };
    }
}

/// Calls another crate's functions, by their paths and by a name of its own.
#[tile_kernel(uses(tile_kernels::gemm::activation::relu, activation::gelu, silu, gated, rt::user::quartered))]
pub fn activations(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (K, N)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    let v = x.masked([i]);
    *y.masked_mut([0, i]) = tile_kernels::gemm::activation::relu(v);
    let gelu = activation::gelu(v);
    *y.masked_mut([1, i]) = gelu;
    *y.masked_mut([2, i]) = silu(v);
    let product = gated(v, 0.5);
    *y.masked_mut([3, i]) = product;
    *y.masked_mut([4, i]) = rt::user::quartered(v);
    let halved = if t < 16 { gated(v, 0.5) } else { v };
    *y.masked_mut([5, i]) = halved;
}

/// `activations` with the bodies in place.
#[tile_kernel]
pub fn activations_written_out(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (K, N)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    let v = x.masked([i]);
    *y.masked_mut([0, i]) = max(v, 0.0);
    let inner = 1.595_769_1 * (v + 0.044_715 * v * v * v);
    let gelu = v * fast::recip(1.0 + fast::exp(-inner));
    *y.masked_mut([1, i]) = gelu;
    *y.masked_mut([2, i]) = v * fast::recip(1.0 + fast::exp(-v));
    let gate = v * fast::recip(1.0 + fast::exp(-v));
    let product = gate * 0.5;
    *y.masked_mut([3, i]) = product;
    *y.masked_mut([4, i]) = v * 0.25;
    let halved = if t < 16 {
        let gate = v * fast::recip(1.0 + fast::exp(-v));
        gate * 0.5
    } else {
        v
    };
    *y.masked_mut([5, i]) = halved;
}

/// What a matrix and its copy have in common, where the copy's axes may be exchanged.
// ANCHOR: agree
#[tile_fn]
fn agree<T: Float, const EXCHANGED: bool>(x: &Tensor<T, (X0, X1)>, y: &Tensor<T, (M, N)>) -> bool {
    (EXCHANGED || X0 == M) && (EXCHANGED || X1 == N) && (!EXCHANGED || X0 == N) && (!EXCHANGED || X1 == M)
}
// ANCHOR_END: agree

#[tile_kernel(instances(EXCHANGED in [false, true]), uses(agree), require(agree::<f32, EXCHANGED>(x, y)))]
pub fn copied<const EXCHANGED: bool>(x: &Tensor<f32, (X0, X1)>, y: &mut Tensor<f32, (M, N)>) {
    let [i, b] = blocks([M, ceil_div(N, 32)]);
    let [t] = threads([32]);
    let j = b * 32 + t;
    if j < N {
        y[[i, j]] = if EXCHANGED { x[[j, i]] } else { x[[i, j]] };
    }
}

/// Between a kernel and another crate's function: the kernel above stands before it, and does not name what it calls.
// ANCHOR: gated
#[tile_fn(uses(tile_kernels::gemm::activation::silu))]
pub fn gated(x: f32, up: f32) -> f32 {
    let gate = tile_kernels::gemm::activation::silu(x);
    gate * up
}
// ANCHOR_END: gated

/// The runtime by another path than `tile_runtime`.
mod rt {
    pub use tile_runtime::*;

    pub mod user {
        use super::tile_fn;

        #[tile_fn(crate = super)]
        pub fn quartered(x: f32) -> f32 {
            x * 0.25
        }
    }
}

/// One name in several modules, made by a macro that writes it itself, and in the body of a function.
mod of_one_name {
    macro_rules! module {
        ($module:ident, $name:ident) => {
            pub mod $module {
                #[tile_runtime::tile_fn]
                pub fn one(x: f32) -> f32 {
                    x + 1.0
                }

                #[tile_runtime::tile_fn(uses(one))]
                pub fn $name(x: f32) -> f32 {
                    one(x) + 4.0
                }
            }
        };
    }
    module!(first, five);
    module!(second, five);

    pub mod third {
        #[tile_runtime::tile_fn]
        pub fn one(x: f32) -> f32 {
            x + 3.0
        }
    }
}

#[test]
fn a_called_function_is_its_body() {
    let (m, n) = (13, 30);
    let x: Vec<f16> = (0..m * n).map(|i| f16::from_f32((i as f32 * 0.37).sin())).collect();
    let bias: Vec<f32> = (0..n).map(|i| i as f32 / 8.0).collect();
    for device in devices() {
        let (x, bias) = (device.tensor(&x, [m, n]).unwrap(), device.tensor(&bias, [n]).unwrap());
        for bias in [None, Some(&bias)] {
            let mut expected = device.zeros::<f16, 2>([m, n]).unwrap();
            let mut found = device.zeros::<f16, 2>([m, n]).unwrap();
            written_out::<f16, 3>::launch(&device, &x, &mut expected, bias).unwrap();
            called::<f16, 3>::launch(&device, &x, &mut found, bias).unwrap();
            assert_eq!(found.to_vec().unwrap(), expected.to_vec().unwrap());
            let first = found.to_vec().unwrap();
            called::<f16, 5>::launch(&device, &x, &mut found, bias).unwrap();
            assert_ne!(found.to_vec().unwrap(), first, "F reaches the function");
        }
    }
}

/// Adds a row of a matrix to a vector.
#[tile_fn]
fn add_row(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, i: usize) {
    if i < N {
        y[i] += x[i];
    }
}

/// Adds all rows of a matrix but the first to the vector in its first row: rows of rows.
#[tile_fn(uses(add_row))]
fn add_rows(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N,)>, i: usize) {
    for row in 1..M {
        add_row(x.row(row), y, i);
    }
}

/// The first elements of a matrix, as a tile.
#[tile_fn]
fn load_tile(x: &Tensor<f32, (M, N)>, tile: &mut SharedArray<f32, (R, C)>) {
    copy(x.at([0, 0]), tile);
}

/// A tile to the first elements of a matrix.
#[tile_fn]
fn store_tile(tile: &SharedArray<f32, (R, C)>, y: &mut Tensor<f32, (M, N)>) {
    copy(tile, y.tile_mut([0..R, 0..C]));
}

/// A matrix of each batch by copies, and the sums of its rows, `z[b] = x[b, 0] + x[b, 1] + ..`.
#[tile_kernel(uses(add_rows, load_tile, store_tile), partial(z))]
pub fn rows_of_batches(x: &Tensor<f32, (B, M, N)>, y: &mut Tensor<f32, (B, M, N)>, z: &mut Tensor<f32, (B, N)>) {
    let [b] = blocks([B]);
    let [t] = threads([32]);
    let mut tile = alloc_shared::<f32>([4, 32]);
    load_tile(x.row(b), &mut tile);
    sync_threads();
    store_tile(&tile, y.row_mut(b));
    if t < N {
        z[[b, t]] = x.masked([b, 0, t]);
    }
    add_rows(x.row(b), z.row_mut(b), t);
}

/// A row of a tensor, and a row of that, stand for a tensor of fewer axes: element by element, masked and as a tile.
#[test]
fn a_row_of_a_tensor_is_an_argument() {
    let [b, m, n] = [3, 4, 20];
    let x: Vec<f32> = (0..b * m * n).map(|i| (i * 7 % 23) as f32).collect();
    for device in devices() {
        let dx = device.tensor(&x, [b, m, n]).unwrap();
        let mut y = device.zeros::<f32, 3>([b, m, n]).unwrap();
        let mut z = device.zeros::<f32, 2>([b, n]).unwrap();
        rows_of_batches::launch(&device, &dx, &mut y, &mut z).unwrap();
        assert_eq!(y.to_vec().unwrap(), x);
        let sums = (0..b * n).map(|i| (0..m).map(|row| x[(i / n * m + row) * n + i % n]).sum::<f32>());
        assert_eq!(z.to_vec().unwrap(), sums.collect::<Vec<_>>());
    }
}

#[test]
fn a_function_of_one_expression_may_stand_anywhere() {
    let x = [0.25f32, 0.75, 2.0, -3.0];
    for device in devices() {
        let x = device.tensor(&x, [4]).unwrap();
        let mut y = device.zeros::<f32, 1>([4]).unwrap();
        nested::launch(&device, &x, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [0.0, 1.0, 8.0, -12.0]);
    }
}

/// Kernels share what they require as a function. Each of its conditions is promised and checked by itself: no access of
/// `copied` has a guard but the author's, and a launch names the condition that does not hold.
#[test]
fn a_function_may_be_required() {
    let kernel = copied::<false>::definition().kernel().unwrap();
    let texts: Vec<&str> = kernel.requires.iter().map(|r| r.text.as_str()).collect();
    assert_eq!(
        texts,
        ["EXCHANGED || X0 == M", "EXCHANGED || X1 == N", "!EXCHANGED || X0 == N", "!EXCHANGED || X1 == M"]
    );
    for instance in &kernel.instances {
        let program = lower(kernel, instance, Target::Sm80).unwrap();
        let guards: Vec<&str> =
            program.remarks.iter().map(|r| r.text.as_str()).filter(|r| r.contains("guard")).collect();
        assert_eq!(guards, [""; 0]);
    }
    for device in devices() {
        let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).unwrap();
        let mut same = device.zeros::<f32, 2>([2, 3]).unwrap();
        let mut exchanged = device.zeros::<f32, 2>([3, 2]).unwrap();
        copied::<false>::launch(&device, &x, &mut same).unwrap();
        assert_eq!(same.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        copied::<true>::launch(&device, &x, &mut exchanged).unwrap();
        assert_eq!(exchanged.to_vec().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let mut longer = device.zeros::<f32, 2>([2, 4]).unwrap();
        let error = copied::<false>::launch(&device, &x, &mut longer).unwrap_err().to_string();
        assert!(error.contains("breaks `require(EXCHANGED || X1 == N)`") && error.contains("X1 = 3, N = 4"), "{error}");
    }
}

/// A report made when the kernel runs shows the function's line, in its file.
#[test]
fn a_report_shows_the_functions_line() {
    let definition = nested::definition();
    let kernel = definition.kernel().unwrap();
    assert_eq!(kernel.source.functions.len(), 3, "`scaled` brings `twice`");
    for text in &kernel.source.functions {
        assert!(text.file.ends_with("functions.rs"), "{}", text.file);
    }
    let all: Vec<&str> = kernel.source.functions.iter().flat_map(|t| &t.lines).map(String::as_str).collect();
    assert!(all.iter().any(|line| line.trim() == "abs(x) < 0.5"), "{all:#?}");
}

#[test]
fn another_crates_functions_are_their_bodies() {
    let x: Vec<f32> = (0..50).map(|i| (i as f32 - 25.0) / 4.0).collect();
    for device in devices() {
        let x = device.tensor(&x, [50]).unwrap();
        let mut found = device.zeros::<f32, 2>([6, 50]).unwrap();
        let mut expected = device.zeros::<f32, 2>([6, 50]).unwrap();
        activations::launch(&device, &x, &mut found).unwrap();
        activations_written_out::launch(&device, &x, &mut expected).unwrap();
        let (found, expected) = (found.to_vec().unwrap(), expected.to_vec().unwrap());
        assert_eq!(found, expected);
        let exact =
            |x: f32| [x.max(0.0), x / (1.0 + (-1.595_769 * (x + 0.044_715 * x * x * x)).exp()), x / (1.0 + (-x).exp())];
        for (i, x) in (0..50).map(|i| (i, (i as f32 - 25.0) / 4.0)) {
            for (row, exact) in exact(x).into_iter().enumerate() {
                assert!((found[row * 50 + i] - exact).abs() < 1e-5, "{row} of {x}: {} {exact}", found[row * 50 + i]);
            }
        }
    }
}

/// What a function is made of is nothing that the crate it comes from has to be asked for when the kernel is compiled.
#[test]
fn another_crates_functions_leave_no_trace_in_cuda() {
    let (called, written) = (activations::definition().kernel().unwrap(), activations_written_out::definition());
    let written = written.kernel().unwrap();
    for target in Target::ALL {
        let text = |kernel: &tile_ir::ir::Kernel| emit(&lower(kernel, &kernel.instances[0], target).unwrap());
        let called = text(called).replace("activations", "activations_written_out");
        assert_eq!(called, text(written), "{target:?}");
    }
}

#[test]
fn functions_of_one_name_are_told_apart() {
    #[tile_fn]
    pub fn one(x: f32) -> f32 {
        x + 4.0
    }
    #[tile_kernel(uses(
        of_one_name::first::one,
        of_one_name::second::one,
        of_one_name::third::one,
        one,
        of_one_name::first::five,
        of_one_name::second::five
    ))]
    pub fn ones(y: &mut Tensor<f32, (N,)>) {
        let [_b] = blocks([1]);
        let [_t] = threads([1]);
        *y.masked_mut([0]) = of_one_name::first::one(0.0);
        *y.masked_mut([1]) = of_one_name::second::one(1.0);
        *y.masked_mut([2]) = of_one_name::third::one(0.0);
        *y.masked_mut([3]) = one(0.0);
        *y.masked_mut([4]) = of_one_name::first::five(0.0) + of_one_name::second::five(0.0);
    }
    for device in devices() {
        let mut y = device.zeros::<f32, 1>([5]).unwrap();
        ones::launch(&device, &mut y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.0, 2.0, 3.0, 4.0, 10.0]);
    }
}

/// A report shows the lines of another crate too.
#[test]
fn a_report_shows_another_crates_line() {
    let source = &activations::definition().kernel().unwrap().source;
    assert!(source.file.ends_with("functions.rs"), "{}", source.file);
    let theirs: Vec<_> = source.functions.iter().filter(|text| text.file.ends_with("activation.rs")).collect();
    let lines: Vec<&str> = theirs.iter().flat_map(|text| &text.lines).map(|line| line.trim()).collect();
    for line in ["max(x, 0.0)", "x * fast::recip(1.0 + fast::exp(-x))"] {
        assert!(lines.contains(&line), "{line} in {lines:#?}");
    }
}

/// An array that a function is given may be filled again in every iteration of a loop of it.
#[test]
fn a_parameter_is_borrowed_for_each_call() {
    /// The sum of every 32nd element from `t` on, through the caller's array.
    #[tile_fn]
    fn sum_through(x: &Tensor<f32, (N,)>, tile: &mut SharedArray<f32, (W,)>, t: usize) -> f32 {
        let mut sum = 0.0f32;
        for step in 0..ceil_div(N, W) {
            copy(x.at([step * W]), tile);
            sync_threads();
            sum += tile[t];
            sync_threads();
        }
        sum
    }
    #[tile_kernel(uses(sum_through))]
    pub fn sums(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (Fixed<32>,)>) {
        let [_b] = blocks([1]);
        let [t] = threads([32]);
        let mut tile = alloc_shared::<f32>([32]);
        y[t] = sum_through(x, &mut tile, t);
    }
    for device in devices() {
        let x: Vec<f32> = (0..100).map(|i| i as f32).collect();
        let x = device.tensor(&x, [100]).unwrap();
        let mut y = device.zeros::<f32, 1>([32]).unwrap();
        sums::launch(&device, &x, &mut y).unwrap();
        let wanted: Vec<f32> = (0..32).map(|t| (t..100).step_by(32).map(|i| i as f32).sum()).collect();
        assert_eq!(y.to_vec().unwrap(), wanted);
    }
}
