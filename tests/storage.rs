//! Elements that are for storage, `u8`: loaded, stored, copied, compared and cast, on both simulators beside plain Rust, and on a
//! GPU where there is one.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// `y = (x - 128) s`, as quantised weights are read: `VEC` bytes at a time, written as floats `OUT` at a time.
#[tile_kernel(instances((VEC, OUT) in [(16, 4), (4, 4), (2, 2), (1, 1)]), require(N % VEC == 0))]
pub fn dequantize<const VEC: usize, const OUT: usize>(x: &Tensor<u8, (M, N)>, y: &mut Tensor<f32, (M, N)>, s: f32) {
    let [row, block] = blocks([M, ceil_div(N, 32 * VEC)]);
    let [t] = threads([32]);
    let first = (block * 32 + t) * VEC;
    let mut bytes = alloc_local::<u8>([VEC]);
    let mut values = alloc_local::<f32>([VEC]);
    for v in vectorized(0..VEC) {
        bytes[v] = x.masked([row, first + v]);
    }
    for v in unroll(0..VEC) {
        values[v] = (bytes[v] as f32 - 128.0) * s;
    }
    for part in unroll(0..VEC / OUT) {
        for v in vectorized(0..OUT) {
            *y.masked_mut([row, first + part * OUT + v]) = values[part * OUT + v];
        }
    }
}

/// `y = round(x s) + 128`, saturated: what is below gives 0, what is above 255, NaN 0.
#[tile_kernel(dtypes(T in [f16, bf16, f32]))]
pub fn quantize<T: Float>(x: &Tensor<T, (N,)>, y: &mut Tensor<u8, (N,)>, s: f32) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    if i < N {
        y[i] = (round_ties_even(x[i].cast::<f32>() * s) + 128.0) as u8;
    }
}

/// Through shared memory and back, as tiles and, transposed, an element at a time.
#[tile_kernel]
pub fn through_shared(x: &Tensor<u8, (M, N)>, y: &mut Tensor<u8, (M, N)>, turned: &mut Tensor<u8, (N, M)>) {
    let [bn, bm] = blocks([ceil_div(N, 64), ceil_div(M, 16)]);
    let [t] = threads([64]);
    let mut tile = alloc_shared::<u8>([16, 64]);
    copy(x.at([bm * 16, bn * 64]), &mut tile);
    copy(&tile, y.at_mut([bm * 16, bn * 64]));
    for row in 0..16 {
        *turned.masked_mut([bn * 64 + t, bm * 16 + row]) = tile[[row, t]];
    }
}

/// Sums of rows of bytes that are loaded ahead, by `cp.async` or in bulk, and converted as they are read.
#[tile_kernel]
pub fn sums(x: &Tensor<u8, (M, K)>, y: &mut Tensor<f32, (M,)>) {
    let [block] = blocks([ceil_div(M, 4)]);
    let [lane, row] = threads([32, 4]);
    let mut tile = alloc_shared::<u8>([4, 1024]);
    let mut sum = 0.0f32;
    for k in pipelined(0..ceil_div(K, 1024), 3) {
        copy(x.at([block * 4, k * 1024]), &mut tile);
        for part in 0..32 {
            sum += tile[[row, part * 32 + lane]] as f32;
        }
    }
    let sum = thread_allreduce(Sum, sum, lane);
    if lane == 0 {
        *y.masked_mut([block * 4 + row]) = sum;
    }
}

/// `c = a b^T` of weights that are bytes: loaded as they are, converted by the threads that multiply.
#[tile_kernel]
pub fn weights_of_bytes(a: &Tensor<f16, (M, K)>, b: &Tensor<u8, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let [j, i] = blocks([ceil_div(N, 64), ceil_div(M, 64)]);
    threads([128]);
    let mut a_s = alloc_shared::<f16>([64, 64]);
    let mut b_s = alloc_shared::<f16>([64, 64]);
    let mut acc = alloc_fragment::<f32>([64, 64]);
    clear(&mut acc);
    for k in pipelined(0..ceil_div(K, 64), 3) {
        copy(a.at([i * 64, k * 64]), &mut a_s);
        copy(b.at([j * 64, k * 64]), &mut b_s);
        gemm(&a_s, b_s.t(), &mut acc);
    }
    copy(&acc, c.at_mut([i * 64, j * 64]));
}

/// One shared array into another, of bytes into floats and back into bytes, in pieces of 16 bytes where rows have them.
#[tile_kernel(instances(COLUMNS in [64, 24]))]
pub fn between_shared<const COLUMNS: usize>(x: &Tensor<u8, (M, N)>, y: &mut Tensor<u8, (M, N)>) {
    let [j, i] = blocks([ceil_div(N, COLUMNS), ceil_div(M, 16)]);
    threads([64]);
    let mut bytes = alloc_shared::<u8>([16, COLUMNS]);
    let mut floats = alloc_shared::<f32>([16, COLUMNS]);
    let mut halves = alloc_shared::<f16>([16, COLUMNS]);
    let mut again = alloc_shared::<f16>([16, COLUMNS]);
    copy(x.at([i * 16, j * COLUMNS]), &mut bytes);
    copy(&bytes, &mut floats);
    copy(&floats, &mut halves);
    copy(&halves, &mut again);
    copy(&again, &mut bytes);
    copy(&bytes, y.at_mut([i * 16, j * COLUMNS]));
}

/// Every cast and comparison, `T` being what a byte is widened to.
#[tile_kernel(dtypes(T in [u8, i32, f16]))]
pub fn casts<T: Value>(
    x: &Tensor<u8, (N,)>,
    n: &Tensor<i32, (N,)>,
    table: &Tensor<f32, (Fixed<256>,)>,
    bytes: &mut Tensor<u8, (Fixed<5>, N)>,
    words: &mut Tensor<u32, (Fixed<2>, N)>,
    floats: &mut Tensor<f32, (Fixed<2>, N)>,
    generic: &mut Tensor<T, (N,)>,
    least: u8,
) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let i = b * 32 + t;
    if i < N {
        let byte = x[i];
        bytes[[0, i]] = n[i] as u8;
        bytes[[1, i]] = n[i] as u32 as u8;
        bytes[[2, i]] = i as u8;
        bytes[[3, i]] = if byte < least { least } else { byte };
        bytes[[4, i]] = if byte == 7 { 200u8 } else { u8::MAX };
        words[[0, i]] = byte as u32 * 3;
        words[[1, i]] = (byte as i32 - 300) as u32;
        floats[[0, i]] = table[byte as usize];
        floats[[1, i]] = byte.cast::<bf16>().cast::<f32>();
        generic[i] = byte.cast::<T>();
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 37 + i / 256) as u8).collect()
}

#[test]
fn bytes_are_dequantized_in_vectors() {
    for (m, n, vec) in [(3, 1040, 16), (1, 16, 16), (5, 36, 4), (2, 130, 2), (4, 77, 1)] {
        let x = bytes(m * n);
        let wanted: Vec<f32> = x.iter().map(|byte| (f32::from(*byte) - 128.0) * 0.37).collect();
        for device in devices() {
            let data = device.tensor(&x, [m, n]).unwrap();
            let mut y = device.zeros::<f32, 2>([m, n]).unwrap();
            let params = DequantizeParams { VEC: vec, OUT: vec.min(4) };
            dequantize::instance(&device, params).unwrap().launch(&data, &mut y, 0.37).unwrap();
            assert_eq!(y.to_vec().unwrap(), wanted, "{device:?}: {m} x {n} by {vec}");
        }
    }
}

/// The numbers around every byte, what is far outside, infinities and NaN.
fn floats() -> Vec<f32> {
    let mut all: Vec<f32> = (-600..600).map(|i| i as f32 * 0.25).collect();
    all.extend([-0.0, 1e9, -1e9, 3.4e38, -3.4e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN]);
    all
}

macro_rules! quantized {
    ($($ty:ty = $from:expr, $to:expr;)*) => {$(
        let x: Vec<$ty> = floats().into_iter().map($from).collect();
        // Rust's `as` saturates too.
        let wanted: Vec<u8> = x.iter().map(|x| (($to)(*x) * 1.5f32).round_ties_even() + 128.0).map(|x| x as u8).collect();
        assert!([0, 255].iter().all(|end| wanted.contains(end)));
        for device in devices() {
            let data = device.tensor(&x, [x.len()]).unwrap();
            let mut y = device.zeros::<u8, 1>([x.len()]).unwrap();
            quantize::<$ty>::launch(&device, &data, &mut y, 1.5).unwrap();
            assert_eq!(y.to_vec().unwrap(), wanted, "{device:?}");
        }
    )*};
}

#[test]
fn floats_are_quantized_with_saturation() {
    quantized! {
        f32 = |x| x, |x: f32| x;
        f16 = f16::from_f32, f16::to_f32;
        bf16 = bf16::from_f32, bf16::to_f32;
    }
}

#[test]
fn tiles_of_bytes_go_through_shared_memory() {
    // Rows that begin at multiples of 16, 4 and 1 bytes.
    for (m, n) in [(16, 64), (33, 208), (17, 100), (5, 67), (1, 1)] {
        let x = bytes(m * n);
        let across: Vec<u8> = (0..n).flat_map(|j| (0..m).map(|i| x[i * n + j]).collect::<Vec<_>>()).collect();
        for device in devices() {
            let data = device.tensor(&x, [m, n]).unwrap();
            let [mut y, mut turned] = [[m, n], [n, m]].map(|shape| device.zeros::<u8, 2>(shape).unwrap());
            through_shared::launch(&device, &data, &mut y, &mut turned).unwrap();
            assert_eq!(y.to_vec().unwrap(), x, "{device:?}: {m} x {n}");
            assert_eq!(turned.to_vec().unwrap(), across, "{device:?}: {m} x {n}, transposed");
        }
    }
}

#[test]
fn weights_of_bytes_are_multiplied_by_tensor_cores() {
    // Rows of whole 16-byte chunks, as TMA takes them, and others.
    for (m, n, k) in [(64, 64, 64), (70, 100, 208), (3, 8, 400), (65, 130, 72), (5, 7, 33)] {
        let a: Vec<f16> = (0..m * k).map(|i| f16::from_f32((i * 7 % 5) as f32 - 2.0)).collect();
        let b = bytes(n * k);
        let dot =
            |i: usize, j: usize| -> f32 { (0..k).map(|at| a[i * k + at].to_f32() * f32::from(b[j * k + at])).sum() };
        let wanted: Vec<f32> = (0..m * n).map(|at| dot(at / n, at % n)).collect();
        for device in devices() {
            let (a, b) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [n, k]).unwrap());
            let mut c = device.tensor(&vec![f32::NAN; m * n], [m, n]).unwrap();
            weights_of_bytes::launch(&device, &a, &b, &mut c).unwrap();
            assert_eq!(c.to_vec().unwrap(), wanted, "{device:?}: {m} x {n} x {k}");
        }
    }
    let kernel = weights_of_bytes::definition().kernel().unwrap();
    let program = tile_ir::lower::lower(kernel, &kernel.instances[0], tile_ir::ir::Target::Sm90a).unwrap();
    assert!(
        program.remarks.iter().any(|r| r.text.contains("is loaded as it is in memory, u8")),
        "{:?}",
        program.remarks
    );
}

#[test]
fn tiles_of_bytes_are_converted_between_shared_arrays() {
    for columns in [64, 24] {
        for (m, n) in [(16, columns), (33, 2 * columns + 7)] {
            let x = bytes(m * n);
            for device in devices() {
                let data = device.tensor(&x, [m, n]).unwrap();
                let mut y = device.zeros::<u8, 2>([m, n]).unwrap();
                let params = BetweenSharedParams { COLUMNS: columns };
                between_shared::instance(&device, params).unwrap().launch(&data, &mut y).unwrap();
                assert_eq!(y.to_vec().unwrap(), x, "{device:?}: {m} x {n}, {columns} columns");
            }
        }
    }
}

#[test]
fn rows_of_bytes_are_loaded_ahead() {
    for (m, k) in [(4, 4096), (6, 1040), (3, 2052), (5, 1029)] {
        let x = bytes(m * k);
        // Exact: sums of bytes stay below 2^24.
        let wanted: Vec<f32> = x.chunks(k).map(|row| row.iter().map(|byte| f32::from(*byte)).sum()).collect();
        for device in devices() {
            let data = device.tensor(&x, [m, k]).unwrap();
            let mut y = device.zeros::<f32, 1>([m]).unwrap();
            sums::launch(&device, &data, &mut y).unwrap();
            assert_eq!(y.to_vec().unwrap(), wanted, "{device:?}: {m} x {k}");
        }
    }
}

macro_rules! cast {
    ($($ty:ty = $from:expr;)*) => {$(
        let count = 300;
        let x = bytes(count);
        let n: Vec<i32> = (0..count as i32).map(|i| (i - 150) * 7_000_003).collect();
        let table: Vec<f32> = (0..256).map(|i| i as f32 * 0.5).collect();
        let least = 100u8;
        let mut wanted: Vec<u8> = n.iter().map(|n| *n as u8).collect();
        wanted.extend_from_within(..);
        wanted.extend((0..count).map(|i| i as u8));
        wanted.extend(x.iter().map(|byte| (*byte).max(least)));
        wanted.extend(x.iter().map(|byte| if *byte == 7 { 200 } else { 255 }));
        for device in devices() {
            let (dx, dn) = (device.tensor(&x, [count]).unwrap(), device.tensor(&n, [count]).unwrap());
            let table = device.tensor(&table, [256]).unwrap();
            let mut found = device.zeros::<u8, 2>([5, count]).unwrap();
            let mut words = device.zeros::<u32, 2>([2, count]).unwrap();
            let mut floats = device.zeros::<f32, 2>([2, count]).unwrap();
            let mut generic = device.zeros::<$ty, 1>([count]).unwrap();
            casts::<$ty>::launch(&device, &dx, &dn, &table, &mut found, &mut words, &mut floats, &mut generic, least).unwrap();
            let name = format!("{device:?}");
            assert_eq!(found.to_vec().unwrap(), wanted, "{name}");
            let (words, floats) = (words.to_vec().unwrap(), floats.to_vec().unwrap());
            for (i, byte) in x.iter().enumerate() {
                assert_eq!(words[i], u32::from(*byte) * 3, "{name}");
                assert_eq!(words[count + i], (i32::from(*byte) - 300) as u32, "{name}");
                assert_eq!(floats[i], f32::from(*byte) * 0.5, "{name}");
                assert_eq!(floats[count + i], bf16::from_f32(f32::from(*byte)).to_f32(), "{name}");
            }
            let generic_wanted: Vec<$ty> = x.iter().map(|byte| ($from)(*byte)).collect();
            assert_eq!(generic.to_vec().unwrap(), generic_wanted, "{name}");
        }
    )*};
}

#[test]
fn casts_are_those_of_rust() {
    cast! {
        u8 = |byte| byte;
        i32 = i32::from;
        f16 = |byte: u8| f16::from_f32(f32::from(byte));
    }
}
