//! Kernels whose mistake only an execution shows, and whose results are right by luck: elements of a `parallel` loop that meet
//! though one thread does them all, shuffles by more lanes than there are, counters that a launch leaves behind. The checked
//! simulator finds each, and says nothing of the same kernel with the right number.

use tile_runtime::prelude::*;

/// What the checked simulator, or the launch, says.
fn said(result: Result<(), LaunchError>) -> String {
    result.map_or_else(|error| error.to_string(), |()| String::new())
}

fn device() -> Device {
    Device::checked_simulator()
}

/// With 16 threads, elements below one another belong to one thread: no two threads meet.
#[tile_kernel]
pub fn rows_meet(x: &Tensor<f32, (Fixed<16>, Fixed<32>)>, y: &mut Tensor<f32, (Fixed<16>, Fixed<32>)>, by: usize) {
    blocks([1]);
    threads([16]);
    for [i, j] in parallel([16, 32]) {
        *y.masked_mut([i * by, j]) = x[[i, j]];
    }
}

/// An element reads the one below it, which is or is not already stored.
#[tile_kernel]
pub fn neighbours(x: &Tensor<f32, (Fixed<16>, Fixed<32>)>, y: &mut Tensor<f32, (Fixed<16>, Fixed<32>)>, by: usize) {
    blocks([1]);
    threads([16]);
    let mut s = alloc_shared::<f32>([16, 32]);
    copy(x, &mut s);
    for [i, j] in parallel([16, 32]) {
        let below = s[[(i + by) % 16, j]];
        s[[i, j]] = below;
    }
    copy(&s, y);
}

/// Reads rows that other elements write, in a fragment of which each thread holds several elements.
#[tile_kernel]
pub fn fragment_meets(x: &Tensor<f32, (Fixed<64>, Fixed<64>)>, y: &mut Tensor<f32, (Fixed<64>, Fixed<64>)>, by: usize) {
    blocks([1]);
    threads([32]);
    let mut f = alloc_fragment::<f32>([64, 64]);
    copy(x, &mut f);
    for [i, j] in parallel([64, 64]) {
        *y.masked_mut([i, j / 2 * 2 + j % 2 * by]) = f[[i, j]];
    }
}

/// A mask from memory.
#[tile_kernel]
pub fn mask_of_data(x: &Tensor<u32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let v = shfl_xor((b * 32 + t) as f32, x[0] as usize);
    *y.masked_mut([b * 32 + t]) = v;
}

/// A mask that the launch knows.
#[tile_kernel]
pub fn mask_of_launch(y: &mut Tensor<f32, (N,)>, mask: usize) {
    let [b] = blocks([ceil_div(N, 32)]);
    let [t] = threads([32]);
    let v = shfl_xor((b * 32 + t) as f32, mask);
    *y.masked_mut([b * 32 + t]) = v;
}

/// Of four blocks, `come` arrive.
#[tile_kernel]
pub fn some_arrive(y: &mut Tensor<f32, (N,)>, arrived: &mut Tensor<u32, (Fixed<1>,)>, come: usize) {
    let [b] = blocks([4]);
    let [t] = threads([32]);
    if b < come {
        if last_arriver(&mut arrived[0], 4) {
            if t < N {
                y[t] = 1.0;
            }
        }
    }
}

/// As many are awaited as the launch says.
#[tile_kernel]
pub fn count_of_launch(y: &mut Tensor<f32, (N,)>, arrived: &mut Tensor<u32, (N,)>, count: usize) {
    let [_slot, b] = blocks([4, N]);
    let [t] = threads([32]);
    if last_arriver(&mut arrived[b], count) {
        if t == 0 {
            y[b] = 1.0;
        }
    }
}

fn square(extent: [usize; 2]) -> (Tensor<f32, 2>, Tensor<f32, 2>) {
    let host: Vec<f32> = (0..extent[0] * extent[1]).map(|i| i as f32).collect();
    (device().tensor(&host, extent).unwrap(), device().zeros::<f32, 2>(extent).unwrap())
}

#[test]
fn elements_that_one_thread_does_still_meet() {
    let (x, mut y) = square([16, 32]);
    let report = said(rows_meet::launch(&device(), &x, &mut y, 0));
    assert!(report.contains("TK0401") && report.contains("two elements of a `parallel` loop meet in `y`"), "{report}");
    assert_eq!(said(rows_meet::launch(&device(), &x, &mut y, 1)), "");
}

#[test]
fn an_element_that_reads_what_another_stores_is_reported() {
    let (x, mut y) = square([16, 32]);
    let report = said(neighbours::launch(&device(), &x, &mut y, 1));
    assert!(report.contains("TK0401") && report.contains("s[[i, j]]"), "{report}");
    assert_eq!(said(neighbours::launch(&device(), &x, &mut y, 0)), "");
}

#[test]
fn elements_of_a_fragment_meet_too() {
    let (x, mut y) = square([64, 64]);
    let report = said(fragment_meets::launch(&device(), &x, &mut y, 0));
    assert!(report.contains("TK0401"), "{report}");
    assert_eq!(said(fragment_meets::launch(&device(), &x, &mut y, 1)), "");
}

#[test]
fn a_shuffle_by_more_lanes_than_a_warp_has_is_reported() {
    let mut y = device().zeros::<f32, 1>([64]).unwrap();
    let mask = |mask: u32| device().tensor(&[mask; 64], [64]).unwrap();
    let report = said(mask_of_data::launch(&device(), &mask(33), &mut y));
    assert!(report.contains("TK0205") && report.contains("exchanges by 33"), "{report}");
    assert_eq!(said(mask_of_data::launch(&device(), &mask(31), &mut y)), "");
    let report = said(mask_of_launch::launch(&device(), &mut y, 33));
    assert!(report.contains("TK0702") && report.contains("33"), "{report}");
    assert_eq!(said(mask_of_launch::launch(&device(), &mut y, 1)), "");
}

/// What the hardware does with a mask of more than five bits, on every executor: it looks at five of them.
#[test]
fn executors_agree_on_five_bits_of_a_mask() {
    let fast = Device::simulator();
    let [mut five, mut one] = [0, 1].map(|_| fast.zeros::<f32, 1>([32]).unwrap());
    mask_of_data::launch(&fast, &fast.tensor(&[33u32; 32], [32]).unwrap(), &mut five).unwrap();
    mask_of_data::launch(&fast, &fast.tensor(&[1u32; 32], [32]).unwrap(), &mut one).unwrap();
    assert_eq!(five.to_vec().unwrap(), one.to_vec().unwrap());
}

#[test]
fn a_counter_that_is_left_is_reported() {
    let mut y = device().zeros::<f32, 1>([32]).unwrap();
    let counter = || device().zeros::<u32, 1>([1]).unwrap();
    let report = said(some_arrive::launch(&device(), &mut y, &mut counter(), 3));
    assert!(report.contains("TK0408") && report.contains("is 3 when the launch ends"), "{report}");
    assert_eq!(said(some_arrive::launch(&device(), &mut y, &mut counter(), 4)), "");
}

#[test]
fn a_count_that_is_not_the_number_of_blocks_is_refused_at_the_launch() {
    for device in [device(), Device::simulator()] {
        let (mut y, mut arrived) = (device.zeros::<f32, 1>([8]).unwrap(), device.zeros::<u32, 1>([8]).unwrap());
        let report = said(count_of_launch::launch(&device, &mut y, &mut arrived, 5));
        assert!(report.contains("TK0702") && report.contains("last_arriver"), "{report}");
        assert_eq!(said(count_of_launch::launch(&device, &mut y, &mut arrived, 4)), "");
    }
}

/// Whole blocks of 128 elements: the rest is left as it was, and where there is no whole block so is everything.
#[tile_kernel]
pub fn whole_blocks(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {
    let [b] = blocks([N / 128]);
    let [t] = threads([128]);
    y[b * 128 + t] = 2.0 * x[b * 128 + t];
}

#[test]
fn a_grid_without_blocks_leaves_its_output_unwritten() {
    let device = device();
    let on = |n: usize| (device.zeros::<f32, 1>([n]).unwrap(), device.zeros::<f32, 1>([n]).unwrap());
    let (x, mut y) = on(100);
    let text = said(whole_blocks::launch(&device, &x, &mut y));
    assert!(text.contains("TK0307") && text.contains("no thread wrote to `y`"), "{text}");
    let text = said(whole_blocks::prepare(&device, &x, &mut y).unwrap().launch());
    assert!(text.contains("TK0307"), "{text}");
    let (x, mut y) = on(256);
    assert_eq!(said(whole_blocks::launch(&device, &x, &mut y)), "");
    let (x, mut y) = on(0);
    assert_eq!(said(whole_blocks::launch(&device, &x, &mut y)), "", "nothing is to be written");
    // The fast simulator reports no effects: there, as on a device, nothing happens.
    let fast = Device::simulator();
    let (x, mut y) = (fast.zeros::<f32, 1>([100]).unwrap(), fast.zeros::<f32, 1>([100]).unwrap());
    assert_eq!(said(whole_blocks::launch(&fast, &x, &mut y)), "");
}
