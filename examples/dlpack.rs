//! Tensors of Python in and out of kernels, without a copy: a library with C functions that take and give DLPack's structures.
//! `bench/dlpack.py` calls it, with torch (or numpy, on the simulator) as the other side:
//!
//! ```text
//! cargo build --release --example dlpack
//! python bench/dlpack.py target/release/examples/libdlpack.so
//! ```
//!
//! Every function returns 0, or 1 after an error that [`dlpack_error`] tells.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use tile_runtime::interop::borrow_stream;
use tile_runtime::interop::dlpack::abi::{DLManagedTensor, DLManagedTensorVersioned};
use tile_runtime::interop::dlpack::{Managed, export, import};
use tile_runtime::prelude::*;
use tile_runtime::{Error, Stream, Tensor};

/// y = alpha x.
#[tile_kernel]
pub fn scale(x: &Tensor<f32, (N, K)>, y: &mut Tensor<f32, (N, K)>, alpha: f32) {
    let [b] = blocks([N]);
    let [t] = threads([128]);
    for k in (0..K).step_by(128) {
        if k + t < K {
            y[[b, k + t]] = alpha * x[[b, k + t]];
        }
    }
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The error of this thread's last call that failed.
#[unsafe(no_mangle)]
pub extern "C" fn dlpack_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

fn answer(result: Result<(), Box<dyn std::error::Error>>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
            ERROR.with(|place| *place.borrow_mut() = text);
            1
        }
    }
}

/// A tensor in one of DLPack's two forms; null where it has the other.
#[repr(C)]
pub struct Form {
    plain: *mut DLManagedTensor,
    versioned: *mut DLManagedTensorVersioned,
}

/// # Safety
/// One of the two is a valid structure, which nobody else lets go.
unsafe fn managed(form: &Form) -> Result<Managed, Error> {
    // SAFETY: the caller's contract.
    match form.versioned.is_null() {
        // SAFETY: the caller hands over what its producer made, of this form.
        true => unsafe { Managed::from_raw(form.plain) },
        // SAFETY: as above, of the other form.
        false => unsafe { Managed::from_raw_versioned(form.versioned) },
    }
}

/// The device that `cuda` numbers, a negative number being the simulator, and its stream of this handle, borrowed: Python
/// keeps it.
fn place(cuda: c_int, stream: *mut c_void) -> Result<(Device, Option<Stream>), Error> {
    let Ok(ordinal) = usize::try_from(cuda) else { return Ok((Device::simulator(), None)) };
    let device = Device::cuda(ordinal)?;
    // SAFETY: torch's current stream, which torch keeps for the life of the process; null is the default stream.
    let stream = unsafe { borrow_stream(&device, stream, Arc::new(())) }?;
    Ok((device, Some(stream)))
}

/// y = alpha x in a tensor of ours, which is given back in `y`, in the form that `x` has. `x` is let go.
///
/// # Safety
/// `x` holds a valid tensor that this call takes over; `stream` is a stream of the device, on which `x` was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlpack_scale(cuda: c_int, stream: *mut c_void, x: &Form, alpha: f32, y: &mut Form) -> c_int {
    answer((|| {
        // SAFETY: the caller's contract.
        let managed = unsafe { managed(x) }?;
        let (device, stream) = place(cuda, stream)?;
        let versioned = !x.versioned.is_null();
        *y = Form { plain: null_mut(), versioned: null_mut() };
        // SAFETY: the caller's contract; Python has queued what writes `x` on this stream, and reuses it there.
        let input: Tensor<f32, 2> = unsafe {
            match &stream {
                Some(stream) => import(stream, managed, None),
                None => import(&device, managed, None),
            }
        }?;
        let mut output = device.zeros::<f32, 2>(input.shape())?;
        match &stream {
            Some(stream) => scale::launch(stream, &input, &mut output, alpha)?,
            None => scale::launch(&device, &input, &mut output, alpha)?,
        }
        let output = export(output, stream.as_ref(), versioned)?;
        match versioned {
            true => y.versioned = output.into_raw_versioned()?,
            false => y.plain = output.into_raw()?,
        }
        Ok(())
    })())
}

/// y = alpha x, both of Python, in place; both are let go.
///
/// # Safety
/// As [`dlpack_scale`], of both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlpack_scale_into(cuda: c_int, stream: *mut c_void, x: &Form, alpha: f32, y: &Form) -> c_int {
    answer((|| {
        // SAFETY: the caller's contract.
        let (x, y) = unsafe { (managed(x), managed(y)) };
        let (x, y) = (x?, y?);
        let (device, stream) = place(cuda, stream)?;
        match &stream {
            Some(stream) => {
                // SAFETY: as in `dlpack_scale`.
                let (x, mut y): (Tensor<f32, 2>, Tensor<f32, 2>) =
                    unsafe { (import(stream, x, None)?, import(stream, y, None)?) };
                scale::launch(stream, &x, &mut y, alpha)?;
            }
            None => {
                // SAFETY: as in `dlpack_scale`.
                let (x, mut y): (Tensor<f32, 2>, Tensor<f32, 2>) =
                    unsafe { (import(&device, x, None)?, import(&device, y, None)?) };
                scale::launch(&device, &x, &mut y, alpha)?;
            }
        }
        Ok(())
    })())
}
