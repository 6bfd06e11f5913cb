//! The host's memory, on a simulator: what is taken and given, what is refused, and how often a deleter is called.

use super::abi::{CPU, CUDA, DLDevice, DLPackVersion};
use super::*;
use crate::{Device, Tensor};
use half::f16;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A producer that counts how often its deleters are called.
struct Producer {
    values: Vec<f32>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn deleted(tensor: *mut DLManagedTensor) {
    // SAFETY: made by `Producer::give`.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    let counter = unsafe { Arc::from_raw(tensor.manager_ctx.cast::<AtomicUsize>()) };
    counter.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn deleted_versioned(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: made by `Producer::give_versioned`.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    let counter = unsafe { Arc::from_raw(tensor.manager_ctx.cast::<AtomicUsize>()) };
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Producer {
    fn new(shape: &[i64], strides: &[i64]) -> Producer {
        let values = (0..64).map(|i| i as f32).collect();
        Producer { values, shape: shape.into(), strides: strides.into(), deleted: Arc::default() }
    }

    fn tensor(&mut self) -> DLTensor {
        DLTensor {
            data: self.values.as_mut_ptr().cast(),
            device: DLDevice { device_type: CPU, device_id: 0 },
            ndim: self.shape.len() as i32,
            dtype: data_type(Dtype::F32),
            shape: self.shape.as_mut_ptr(),
            strides: if self.strides.is_empty() { null_mut() } else { self.strides.as_mut_ptr() },
            byte_offset: 0,
        }
    }

    fn context(&self) -> *mut c_void {
        Arc::into_raw(self.deleted.clone()).cast_mut().cast()
    }

    fn give(&mut self, change: impl FnOnce(&mut DLTensor)) -> Managed {
        let mut dl_tensor = self.tensor();
        change(&mut dl_tensor);
        let tensor = DLManagedTensor { dl_tensor, manager_ctx: self.context(), deleter: Some(deleted) };
        // SAFETY: a valid structure; the producer outlives it.
        unsafe { Managed::from_raw(Box::into_raw(Box::new(tensor))) }.unwrap()
    }

    fn give_versioned(&mut self, version: DLPackVersion, flags: u64) -> Result<Managed, Error> {
        let (dl_tensor, manager_ctx) = (self.tensor(), self.context());
        let tensor =
            DLManagedTensorVersioned { version, manager_ctx, deleter: Some(deleted_versioned), flags, dl_tensor };
        // SAFETY: as above.
        unsafe { Managed::from_raw_versioned(Box::into_raw(Box::new(tensor))) }
    }

    fn deleted(&self) -> usize {
        self.deleted.load(Ordering::Relaxed)
    }
}

fn take<const R: usize>(managed: Managed) -> Result<Tensor<f32, R>, Error> {
    // SAFETY: the producers of these tests outlive the tensors and leave their memory alone meanwhile.
    unsafe { import(&Device::simulator(), managed, None) }
}

#[test]
fn a_tensor_is_used_in_place_and_let_go_once() {
    let mut producer = Producer::new(&[2, 3], &[8, 1]);
    let managed = producer.give(|tensor| tensor.byte_offset = 4);
    let mut tensor = take::<2>(managed).unwrap();
    assert_eq!(tensor.to_vec().unwrap(), [1.0, 2.0, 3.0, 9.0, 10.0, 11.0]);
    tensor.rows_mut(1..2).unwrap().write(&[-1.0, -2.0, -3.0]).unwrap();
    assert_eq!(producer.deleted(), 0);
    drop(tensor);
    assert_eq!(producer.deleted(), 1);
    assert_eq!(producer.values[8..13], [8.0, -1.0, -2.0, -3.0, 12.0]);
    // Compact, and not taken at all.
    let compact = producer.give(|tensor| tensor.strides = null_mut());
    assert_eq!(take::<2>(compact).unwrap().strides(), [3, 1]);
    drop(producer.give(|_| {}));
    assert_eq!(producer.deleted(), 3);
}

#[test]
fn what_does_not_fit_is_refused_with_both_numbers_and_let_go() {
    let mut producer = Producer::new(&[2, 3], &[3, 1]);
    let (mut seven, mut back, mut broadcast, mut apart, mut negative) =
        ([7i64, -1], [-3i64, 1], [0i64, 1], [6i64, 2], [2i64, -3]);
    type Change<'a> = Box<dyn FnOnce(&mut DLTensor) + 'a>;
    let cases: Vec<(Change<'_>, &str)> = vec![
        (Box::new(|t| t.dtype = data_type(Dtype::F16)), "elements of f16, and f32 are expected"),
        (Box::new(|t| t.dtype.lanes = 4), "elements of f32 x 4, and f32 are expected"),
        (Box::new(|t| t.dtype.code = 9), "elements of type code 9 of 32 bits, and f32 are expected"),
        (Box::new(|t| t.ndim = 3), "3 axes, and 2 are expected"),
        (Box::new(|t| t.ndim = -1), "-1 axes, and 2 are expected"),
        (
            Box::new(|t| t.device = DLDevice { device_type: CUDA, device_id: 1 }),
            "memory of cuda:1, and of the host is expected",
        ),
        (Box::new(|t| t.device.device_type = 10), "memory of device 0 of type 10, and of the host is expected"),
        (Box::new(|t| t.shape = seven.as_mut_ptr()), "the extent of axis 1 is -1"),
        (Box::new(|t| t.strides = back.as_mut_ptr()), "the stride of axis 0 is -3"),
        (Box::new(|t| t.strides = broadcast.as_mut_ptr()), "lie 0 elements apart, and each takes 3"),
        (Box::new(|t| t.strides = apart.as_mut_ptr()), "innermost axis of shape [2, 3] lie 2 elements apart, not 1"),
        (Box::new(|t| t.shape = negative.as_mut_ptr()), "the extent of axis 1 is -3"),
        (Box::new(|t| t.shape = null_mut()), "the shape is the null pointer"),
        (Box::new(|t| t.data = null_mut()), "6 elements of memory at the null pointer"),
        (Box::new(|t| t.byte_offset = 2), "is not a multiple of 4 bytes, an element's size"),
        (Box::new(|t| t.byte_offset = u64::MAX), "too large to address"),
    ];
    let count = cases.len();
    for (change, words) in cases {
        let error = take::<2>(producer.give(change)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(producer.deleted(), count, "each is let go");
    // SAFETY: null is refused.
    assert!(unsafe { Managed::from_raw(null_mut()) }.is_err());
    let error = producer.give_versioned(DLPackVersion { major: 2, minor: 0 }, 0).unwrap_err();
    assert_eq!(error.to_string(), "a DLPack tensor: version 2.0, and 1.x is understood");
    assert_eq!(producer.deleted(), count + 1);
    // Of no elements: nothing is asked of the memory.
    let mut empty = Producer::new(&[0, 3], &[0, 0]);
    assert!(take::<2>(empty.give(|t| t.data = null_mut())).unwrap().is_empty());
}

#[test]
fn what_may_only_be_read_is_not_written() {
    let mut producer = Producer::new(&[4], &[]);
    let managed = producer.give_versioned(VERSION, READ_ONLY).unwrap();
    let mut tensor = take::<1>(managed).unwrap();
    assert!(matches!(tensor.write(&[0.0; 4]), Err(Error::ReadOnly { .. })));
    let other = Device::simulator().zeros::<f32, 1>([4]).unwrap();
    assert!(matches!(tensor.copy_from(&other), Err(Error::ReadOnly { .. })));
    assert_eq!(tensor.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    let error = export(tensor, None, false).unwrap_err();
    assert!(error.to_string().contains("may only be read"), "{error}");
    assert_eq!(producer.deleted(), 1);
    let again = take::<1>(producer.give_versioned(VERSION, READ_ONLY).unwrap()).unwrap();
    let exported = export(again, None, true).unwrap();
    assert!(exported.is_read_only());
    drop(exported);
    assert_eq!(producer.deleted(), 2);
}

#[test]
fn a_round_trip_keeps_address_shape_and_values() {
    for versioned in [false, true] {
        let device = Device::checked_simulator();
        let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f16::from_f32);
        let tensor = device.tensor(&values, [2, 3]).unwrap();
        let address = tensor.allocation().host().unwrap().start();
        let managed = export(tensor, None, versioned).unwrap();
        let described = managed.tensor();
        assert_eq!((described.data.cast(), described.ndim), (address.as_ptr(), 2));
        assert_eq!(name_of(described.dtype), "f16");
        // Through raw pointers, as a capsule does.
        let managed = match versioned {
            // SAFETY: just given.
            true => unsafe { Managed::from_raw_versioned(managed.into_raw_versioned().unwrap()) },
            // SAFETY: as above.
            false => unsafe { Managed::from_raw(managed.into_raw().unwrap()) },
        };
        // SAFETY: the memory is the tensor's own.
        let back: Tensor<f16, 2> = unsafe { import(&device, managed.unwrap(), None) }.unwrap();
        assert_eq!(back.allocation().host().unwrap().start(), address);
        assert_eq!(back.to_vec().unwrap(), values);
    }
}

#[test]
fn a_tensor_that_a_graph_keeps_is_not_given() {
    let device = Device::simulator();
    let tensor = device.tensor(&[1.0f32; 4], [4]).unwrap();
    let share = tensor.allocation().clone();
    let error = export(tensor, None, true).unwrap_err();
    assert!(error.to_string().contains("kept by a graph or a prepared launch"), "{error}");
    drop(share);
    // As a graph on a simulator keeps it.
    let tensor = device.tensor(&[1.0f32; 4], [4]).unwrap();
    let share = tensor.allocation().host().unwrap().clone();
    assert!(export(tensor, None, true).is_err());
    drop(share);
}
