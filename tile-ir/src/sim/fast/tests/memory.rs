use super::*;
use crate::ir::*;
use crate::testing::parsed;

#[test]
fn tensors_are_guarded() {
    // Plain and masked accesses alike: beyond the end reads 0, writes nothing. Before the start a plain one is a mistake.
    for masked in [false, true] {
        let store = if masked { "*y.masked_mut([tx]) = x.masked([tx - 2]);" } else { "y[tx] = x[tx - 2];" };
        let built = parsed(&format!(
            "kernel k(x: &Tensor<f32, (N,)>, y: &mut Tensor<f32, (N,)>) {{
                let [bx] = blocks([1]);
                let [tx] = threads([8]);
                {store}
            }}"
        ));
        let args = [tensor(Dtype::F32, &[5], &[1.0, 2.0, 3.0, 4.0, 5.0]), zeros(Dtype::F32, &[5])];
        match run(&crate::testing::bound(&built), &args) {
            Ok(_) if masked => assert_eq!(values(&args[1]), [0.0, 0.0, 1.0, 2.0, 3.0]),
            Err(SimError::Fault(fault)) if !masked => {
                assert_eq!(fault.diagnostic.code, crate::diag::Code::INDEX_OVERFLOW);
                assert_eq!(fault.diagnostic.message, "index is negative: -2 on axis 0");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn views_have_pitch_and_offset() {
    let built = parsed(
        r"
            kernel transpose(
                x: &Tensor<bf16, (M, N)>,
                y: &mut Tensor<f32, (N, M)>,
            ) {
                let [bx] = blocks([M]);
                let [tx] = threads([4]);
                y[[tx, bx]] = x[[bx, tx]].cast::<f32>();
            }
        ",
    );
    let Argument::Tensor(mut view) = tensor(Dtype::Bf16, &[4, 8], &ramp(32)) else { unreachable!() };
    // Rows 1 and 2, columns 3..6, of a 4 x 8 matrix.
    (view.shape, view.strides, view.offset) = (vec![2, 3], vec![8, 1], 11 * 2);
    let args = [Argument::Tensor(view), zeros(Dtype::F32, &[3, 2])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [11.0, 19.0, 12.0, 20.0, 13.0, 21.0]);
}

#[test]
fn shared_memory_goes_between_threads() {
    let built = parsed(
        r"
            kernel reverse(
                x: &mut Tensor<i32, (N,)>,
            ) {
                let [bx] = blocks([1]);
                let [tx] = threads([6]);
                let mut s = alloc_shared::<i32>([3, 2]);
                s[[tx / 2, tx % 2]] = x[tx];
                sync_threads();
                x[tx] = s[[(5 - tx) / 2, (5 - tx) % 2]];
            }
        ",
    );
    let args = [tensor(Dtype::I32, &[6], &ramp(6))];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn local_arrays_are_each_threads_own() {
    // h[i] = 10 tx + i; y[tx] = h[tx % 3], an index that differs between threads.
    let built = parsed(
        r"
            kernel local(
                y: &mut Tensor<f16, (N,)>,
            ) {
                let [bx] = blocks([1]);
                let [tx] = threads([5]);
                let mut h = alloc_local::<f16>([3]);
                for i in 0..3 {
                    h[i] = (tx * 10 + i).cast::<f16>();
                }
                h[tx % 3] = h[tx % 3] + h[tx % 3];
                y[tx] = h[tx % 3];
            }
        ",
    );
    let args = [zeros(Dtype::F16, &[5])];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [0.0, 22.0, 44.0, 60.0, 82.0]);
}

#[test]
fn a_local_store_under_a_condition_keeps_the_others() {
    let built = parsed(
        r"
            kernel local(
                y: &mut Tensor<f32, (N,)>,
            ) {
                let [bx] = blocks([1]);
                let [tx] = threads([4]);
                let mut h = alloc_local::<f32>([1]);
                fill(&mut h, 7.0f32);
                if tx < 2 {
                    h[0] = tx.cast::<f32>();
                }
                y[tx] = h[0];
            }
        ",
    );
    let args = [zeros(Dtype::F32, &[4])];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [0.0, 1.0, 7.0, 7.0]);
}

#[test]
fn copies_clip_at_the_edge_and_convert() {
    // Each block copies a 2 x 4 tile to shared memory and back, as f32 to bf16 to f16.
    let built = parsed(
        r"
            kernel copy(
                x: &Tensor<f32, (M, N)>,
                y: &mut Tensor<f16, (M, N)>,
            ) {
                let [bx, by] = blocks([ceil_div(N, 4), ceil_div(M, 2)]);
                let [tx] = threads([3]);
                let mut s = alloc_shared::<bf16>([2, 4]);
                copy(x.at([by * 2, bx * 4]), &mut s);
                if tx == 0 {
                    s[[0, 3]] = 100.0bf16;
                }
                copy(&s, y.at_mut([by * 2, bx * 4]));
            }
        ",
    );
    let args = [tensor(Dtype::F32, &[3, 5], &ramp(15)), zeros(Dtype::F16, &[3, 5])];
    ok(&built, &args);
    let expected = [0.0, 1.0, 2.0, 100.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 100.0, 14.0];
    assert_eq!(values(&args[1]), expected);
}

#[test]
fn copies_between_ranks_and_to_each_thread() {
    // A row of a matrix into a per-thread array, and back one element on.
    let built = parsed(
        r"
            kernel rows(
                x: &Tensor<i32, (M, N)>,
                y: &mut Tensor<i32, (M, N)>,
            ) {
                let [bx] = blocks([1]);
                let [tx] = threads([2]);
                let mut h = alloc_local::<i32>([3]);
                copy(x.at([tx, 0]), &mut h);
                copy(&h, y.at_mut([tx, 1]));
            }
        ",
    );
    let args = [tensor(Dtype::I32, &[2, 3], &ramp(6)), zeros(Dtype::I32, &[2, 3])];
    ok(&built, &args);
    assert_eq!(values(&args[1]), [0.0, 0.0, 1.0, 0.0, 3.0, 4.0]);
}

#[test]
fn fill_and_parallel_loops() {
    // 10 elements over 4 threads: each once, the last round partly.
    let built = parsed(
        r"
            kernel parallel(
                y: &mut Tensor<u32, (M, N)>,
            ) {
                let [bx] = blocks([1]);
                let [tx] = threads([4]);
                let mut s = alloc_shared::<u32>([2, 5]);
                fill(&mut s, 3u32);
                for [i, j] in parallel([2, 5]) {
                    s[[i, j]] = s[[i, j]] + (i * 10 + j).cast::<u32>();
                }
                for [i, j] in parallel([2, 5]) {
                    y[[i, j]] = s[[i, j]];
                }
            }
        ",
    );
    let args = [zeros(Dtype::U32, &[2, 5])];
    ok(&built, &args);
    assert_eq!(values(&args[0]), [3.0, 4.0, 5.0, 6.0, 7.0, 13.0, 14.0, 15.0, 16.0, 17.0]);
}

#[test]
fn nan_is_stored_as_one_value() {
    let built = parsed(
        r"
            kernel nan(
                x: &Tensor<f16, (N,)>,
                y: &mut Tensor<f16, (N,)>,
            ) {
                let [bx] = blocks([1]);
                let [tx] = threads([2]);
                y[tx] = -x[tx];
            }
        ",
    );
    let x = zeros(Dtype::F16, &[2]);
    let Argument::Tensor(t) = &x else { unreachable!() };
    t.memory.store(0, Dtype::F16, 0xfe01);
    let args = [x, zeros(Dtype::F16, &[2])];
    ok(&built, &args);
    let Argument::Tensor(y) = &args[1] else { unreachable!() };
    assert_eq!([y.memory.load(0, Dtype::F16), y.memory.load(2, Dtype::F16)], [0x7fff, 0x8000]);
}
