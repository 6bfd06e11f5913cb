//! Loops that end early: `while`, `loop`, `if c { break; }`, by each thread for itself and by the block together; against the host on
//! both simulators, and on a GPU where there is one.

use tile_kernel_examples::devices::devices;
use tile_runtime::prelude::*;

/// How many steps each number takes to 1 (Collatz): every thread has a loop of its own length.
#[tile_kernel]
pub fn collatz(x: &Tensor<u32, (N,)>, steps: &mut Tensor<u32, (N,)>) {
    let [b] = blocks([ceil_div(N, 64)]);
    let [t] = threads([64]);
    let i = b * 64 + t;
    if i < N {
        let mut v = x[i];
        let mut count = 0u32;
        while v > 1 {
            if v % 2 == 0 {
                v /= 2;
            } else {
                v = 3 * v + 1;
            }
            count += 1;
        }
        steps[i] = count;
    }
}

/// A sum through shared memory in halves, as CUDA's guide writes it: the block agrees on the condition, so barriers may stand inside.
#[tile_kernel]
pub fn halves(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (B,)>) {
    let [b] = blocks([B]);
    let [t] = threads([128]);
    let mut s = alloc_shared::<f32>([128]);
    s[t] = x.masked([b * 128 + t]);
    sync_threads();
    let mut width = 64;
    while width > 0 {
        if t < width {
            s[t] += s[t + width];
        }
        sync_threads();
        width /= 2;
    }
    if t == 0 {
        y[b] = s[0];
    }
}

/// The first element of each row that is at least `key`, and how many were read.
#[tile_kernel]
pub fn first(x: &Tensor<f32, (M, N)>, at: &mut Tensor<u32, (M,)>, read: &mut Tensor<u32, (M,)>, key: f32) {
    let [b] = blocks([ceil_div(M, 32)]);
    let [t] = threads([32]);
    let row = b * 32 + t;
    if row < M {
        let mut found = u32::MAX;
        let mut count = 0u32;
        for i in 0..N {
            count += 1;
            if x[[row, i]] >= key {
                found = i as u32;
                break;
            } else if x[[row, i]] < -100.0 {
                break;
            }
            count += 1;
        }
        at[row] = found;
        read[row] = count;
    }
}

/// Newton's iteration for square roots until the whole block is near: a collective decides, and all leave together.
#[tile_kernel]
pub fn roots(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>, turns: &mut Tensor<u32, (B,)>) {
    let [b] = blocks([B]);
    let [t] = threads([64]);
    let a = max(x.masked([b * 64 + t]), 1.0);
    let mut guess = a;
    let mut count = 0u32;
    loop {
        let next = 0.5 * (guess + a / guess);
        let change = thread_allreduce(Max, abs(next - guess) / guess, t);
        guess = next;
        count += 1;
        if change < 1e-4 {
            break;
        }
        sync_threads();
    }
    *y.masked_mut([b * 64 + t]) = guess;
    if t == 0 {
        turns[b] = count;
    }
}

/// Of two breaks in an `if` and its `else`, one always leaves; and the end of a range is read once, before the loop.
#[tile_kernel]
pub fn odd_ends(y: &mut Tensor<u32, (Fixed<64>, Fixed<3>)>) {
    blocks([1]);
    let [t] = threads([64]);
    let mut end = 10 + t;
    let mut sum = 0u32;
    for i in 0..end {
        end = 2;
        if i == 7 {
            break;
        }
        sum += 1;
    }
    y[[t, 0]] = sum + end as u32;
    let mut turns = 0u32;
    loop {
        turns += 1;
        if t % 2 == 0 {
            turns += 10;
            break;
        } else {
            break;
        }
    }
    y[[t, 1]] = turns;
    // A loop that is left stands in one that goes on.
    let mut total = 0u32;
    for i in 0..3 {
        for j in (0..20).step_by(3) {
            if j > i + t {
                break;
            }
            total += 1;
        }
        total += 100;
    }
    y[[t, 2]] = total;
}

#[test]
fn every_thread_has_its_own_length() {
    let x: Vec<u32> = (0..150).map(|i| i * 7 + 1).collect();
    let steps = |mut v: u32| {
        let mut count = 0;
        while v > 1 {
            v = if v.is_multiple_of(2) { v / 2 } else { 3 * v + 1 };
            count += 1;
        }
        count
    };
    for device in devices() {
        let data = device.tensor(&x, [150]).unwrap();
        let mut found = device.zeros::<u32, 1>([150]).unwrap();
        collatz::launch(&device, &data, &mut found).unwrap();
        let wanted: Vec<u32> = x.iter().map(|v| steps(*v)).collect();
        assert_eq!(found.to_vec().unwrap(), wanted, "{device:?}");
    }
}

#[test]
fn barriers_stand_in_a_uniform_while() {
    let x: Vec<f32> = (0..300).map(|i| i as f32).collect();
    for device in devices() {
        let data = device.tensor(&x, [300]).unwrap();
        let mut y = device.zeros::<f32, 1>([3]).unwrap();
        halves::launch(&device, &data, &mut y).unwrap();
        let wanted: Vec<f32> = x.chunks(128).map(|part| part.iter().sum()).collect();
        assert_eq!(y.to_vec().unwrap(), wanted, "{device:?}");
    }
}

#[test]
fn a_search_ends_where_it_finds() {
    let (m, n) = (40, 17);
    let value = |i: usize, j: usize| match (i * 13 + j * 7) % 29 {
        _ if i == 5 && j == 3 => -200.0,
        _ if i == 6 => 0.0,
        v => v as f32,
    };
    let x: Vec<f32> = (0..m * n).map(|at| value(at / n, at % n)).collect();
    for device in devices() {
        let data = device.tensor(&x, [m, n]).unwrap();
        let (mut at, mut read) = (device.zeros::<u32, 1>([m]).unwrap(), device.zeros::<u32, 1>([m]).unwrap());
        first::launch(&device, &data, &mut at, &mut read, 25.0f32).unwrap();
        let (at, read) = (at.to_vec().unwrap(), read.to_vec().unwrap());
        for i in 0..m {
            let row = &x[i * n..(i + 1) * n];
            let stop = row.iter().position(|v| *v >= 25.0 || *v < -100.0);
            let found = stop.filter(|j| row[*j] >= 25.0).map_or(u32::MAX, |j| j as u32);
            assert_eq!(at[i], found, "{device:?}: row {i}");
            assert_eq!(read[i], stop.map_or(2 * n, |j| 2 * j + 1) as u32, "{device:?}: row {i}");
        }
    }
}

#[test]
fn a_block_leaves_together() {
    let x: Vec<f32> = (0..150).map(|i| (i * i) as f32 + 1.0).collect();
    for device in devices() {
        let data = device.tensor(&x, [150]).unwrap();
        let mut y = device.zeros::<f32, 1>([150]).unwrap();
        let mut turns = device.zeros::<u32, 1>([3]).unwrap();
        roots::launch(&device, &data, &mut y, &mut turns).unwrap();
        for (found, v) in y.to_vec().unwrap().iter().zip(&x) {
            assert!((found - v.sqrt()).abs() < 1e-3 * v.sqrt(), "{device:?}: {found} of {v}");
        }
        let turns = turns.to_vec().unwrap();
        assert!(turns[0] < turns[1] && turns[1] <= turns[2], "{device:?}: {turns:?}");
    }
}

#[test]
fn ends_are_read_once_and_inner_loops_leave_themselves() {
    for device in devices() {
        let mut y = device.zeros::<u32, 2>([64, 3]).unwrap();
        odd_ends::launch(&device, &mut y).unwrap();
        let y = y.to_vec().unwrap();
        for t in 0..64 {
            let inner = |i: usize| (0..20).step_by(3).take_while(|j| *j <= i + t).count();
            let total = (0..3).map(|i| inner(i) + 100).sum::<usize>();
            let wanted = [9, if t % 2 == 0 { 11 } else { 1 }, total as u32];
            assert_eq!(y[3 * t..3 * t + 3], wanted, "{device:?}: {t}");
        }
    }
}

#[test]
fn an_endless_loop_is_reported() {
    for device in [Device::simulator(), Device::checked_simulator()] {
        let device = device.with_step_limit(100_000);
        let x = device.tensor(&[1.0f32; 32], [32]).unwrap();
        let mut y = device.zeros::<f32, 1>([32]).unwrap();
        let error = endless::launch(&device, &x, &mut y).unwrap_err().to_string();
        assert!(error.contains("100000") || error.contains("100,000"), "{error}");
    }
}

/// A loop that never ends is a report of the simulators, not a hang.
#[tile_kernel]
pub fn endless(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    blocks([1]);
    let [t] = threads([32]);
    let mut v = x.masked([t]);
    while v > 0.0 {
        v += 0.0;
    }
    *y.masked_mut([t]) = v;
}
