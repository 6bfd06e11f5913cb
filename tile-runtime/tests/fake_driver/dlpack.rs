//! Tensors of other libraries on a device: in which order they are used, and when they are let go.

use super::lent::{begin, end, ordered, untracked};
use super::{X, lines, scale};
use cudarc::driver::{CudaSlice, CudaStream};
use std::ffi::c_void;
use std::sync::Arc;
use tile_runtime::interop::borrow_cudarc_stream;
use tile_runtime::interop::dlpack::abi::{CUDA, DLDataType, DLDevice, DLManagedTensor, DLTensor, FLOAT};
use tile_runtime::interop::dlpack::{Managed, export, import};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Tensor};

/// What a producer's structure refers to: a slice of cudarc, freed when it is let go.
struct Produced {
    _slice: CudaSlice<f32>,
    shape: [i64; 2],
}

unsafe extern "C" fn let_go(tensor: *mut DLManagedTensor) {
    // SAFETY: made by `produce`, and called once.
    unsafe { drop(Box::from_raw(Box::from_raw(tensor).manager_ctx.cast::<Produced>())) };
}

/// Two rows of three on the first device, as a library that allocates on `stream` gives them.
fn produce(stream: &Arc<CudaStream>) -> Managed {
    use cudarc::driver::DevicePtr;
    let slice = stream.clone_htod(&X).unwrap();
    let data = slice.device_ptr(stream).0 as usize as *mut c_void;
    let produced = Box::into_raw(Box::new(Produced { _slice: slice, shape: [2, 3] }));
    let dl_tensor = DLTensor {
        data,
        device: DLDevice { device_type: CUDA, device_id: 0 },
        ndim: 2,
        dtype: DLDataType { code: FLOAT, bits: 32, lanes: 1 },
        // SAFETY: just made.
        shape: unsafe { &raw mut (*produced).shape }.cast(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let tensor = DLManagedTensor { dl_tensor, manager_ctx: produced.cast(), deleter: Some(let_go) };
    // SAFETY: a valid structure.
    unsafe { Managed::from_raw(Box::into_raw(Box::new(tensor))) }.unwrap()
}

#[test]
fn tensors_of_other_libraries_are_ordered_and_let_go_once() {
    let Some(log) = ordered("dlpack::child_dlpack") else { return };
    assert_eq!(lines(&log, "free").len(), lines(&log, "alloc").len(), "{log}");
    // What belongs to a borrowed stream is one call a launch, and let go without a wait.
    let marks: Vec<usize> = log.match_indices("\nstream ").map(|(at, _)| at + 1).collect();
    let [from, to] = marks[marks.len() - 2..] else { panic!("{log}") };
    let between: Vec<&str> = log[from..to].lines().skip(1).filter(|l| !l.starts_with("free")).collect();
    assert_eq!(between.len(), 1, "{between:?}");
}

#[test]
#[ignore = "run by tensors_of_other_libraries_are_ordered_and_let_go_once"]
fn child_dlpack() {
    let device = Device::cuda(0).unwrap();
    let (context, producer) = untracked();
    let own = device.stream().unwrap();
    let raw: *mut c_void = producer.cu_stream().cast();
    // On streams of ours: after the producer's, kept by a graph and a prepared launch, let go after them all.
    // SAFETY: the producer's stream; nobody else uses the memory.
    let x: Tensor<f32, 2> = unsafe { import(&device, produce(&producer), Some(raw)) }.unwrap();
    let mut y = device.zeros::<f32, 2>([2, 3]).unwrap();
    scale::launch(&own, &x, &mut y, 2.0).unwrap();
    let graph = device.capture(|stream| Ok(scale::launch(stream, &x, &mut y, 3.0)?)).unwrap();
    let prepared = scale::prepare(&own, &x, &mut y, 4.0).unwrap();
    drop(x);
    graph.launch().unwrap();
    prepared.launch().unwrap();
    drop((graph, prepared));
    assert_eq!(y.to_vec().unwrap(), X.map(|v| 4.0 * v));
    // To a consumer's stream, and to whoever waits for the host.
    let stream = borrow_cudarc_stream(&device, &producer).unwrap();
    scale::launch(&own, &device.tensor(&X, [2, 3]).unwrap(), &mut y, 5.0).unwrap();
    drop(export(y, Some(&stream), false).unwrap());
    let z = device.tensor(&X, [2, 3]).unwrap();
    drop(export(z, None, true).unwrap());
    // What belongs to a borrowed stream, captured too.
    {
        // SAFETY: as above.
        let (x, mut y): (Tensor<f32, 2>, Tensor<f32, 2>) = unsafe {
            (import(&stream, produce(&producer), None).unwrap(), import(&stream, produce(&producer), None).unwrap())
        };
        assert!(scale::launch(&device, &x, &mut y, 1.0).is_err(), "its stream's alone");
        begin(&producer);
        scale::launch(&stream, &x, &mut y, 2.0).unwrap();
        let refused = export(device.zeros::<f32, 1>([4]).unwrap(), Some(&stream), false);
        assert!(matches!(refused, Err(Error::Capture { .. })), "{refused:?}");
        // SAFETY: as above.
        let joined = unsafe { import::<f32, 2>(&device, produce(&context.new_stream().unwrap()), Some(raw)) };
        assert!(matches!(joined, Err(Error::ForeignStream { .. })), "{joined:?}");
        let graph = end(&producer);
        graph.launch().unwrap();
        let _mark = context.new_stream().unwrap();
        scale::launch(&stream, &x, &mut y, 2.0).unwrap();
        drop((x, y));
        let _mark = context.new_stream().unwrap();
    }
    let wrong = DLDevice { device_type: CUDA, device_id: 1 };
    let managed = produce(&producer).into_raw().unwrap();
    // SAFETY: a valid structure, whose device is changed.
    let error = unsafe {
        (*managed).dl_tensor.device = wrong;
        import::<f32, 2>(&device, Managed::from_raw(managed).unwrap(), None).unwrap_err()
    };
    assert!(error.to_string().contains("memory of cuda:1, and of cuda:0 is expected"), "{error}");
}
