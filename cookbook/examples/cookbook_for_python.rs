//! The recipes for Python: a library with one C function, which launches a recipe on tensors of torch, on torch's stream,
//! without a copy. It launches the row kernels of `tile-kernels` too, by names such as `kernels/rms_norm`. `bench/cookbook.py`
//! calls it:
//!
//! ```text
//! cargo build --release -p tile-cookbook --example cookbook_for_python
//! python bench/cookbook.py target/release/examples/libcookbook_for_python.so
//! python bench/cookbook.py target/release/examples/libcookbook_for_python.so --cases rows
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use tile_cookbook::{
    argmax, attention, dropout, gather, histogram, layer_norm, rms_norm, rope, scan, segmented_sum, softmax, stencil,
    swiglu, top_k, transpose,
};
use tile_kernels::embedding::embedding;
use tile_kernels::{norm, sampling};
use tile_runtime::interop::{Lent, LentMut, Placement, Plain, borrow_stream, lend, lend_host, lend_host_mut, lend_mut};
use tile_runtime::prelude::*;

/// A tensor of other code, as it lies in memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    address: u64,
    /// 0 to 4: f16, bf16, f32, i32, u32.
    dtype: u32,
    rank: u32,
    shape: [u64; 4],
    /// In elements.
    strides: [u64; 4],
}

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The error of this thread's last call that failed; valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn cookbook_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

type Failure = Box<dyn std::error::Error>;

/// The arguments of a recipe. They are valid for the call: the contract of [`cookbook_call`].
struct Call<'a> {
    on: &'a Stream,
    views: &'a [View],
    scalars: &'a [f64],
}

impl<'a> Call<'a> {
    /// A tensor's address, where its elements are, and how many there are from the first to the last.
    fn placed<T: Element, const R: usize>(&self, at: usize) -> Result<(u64, Placement<R>, usize), Failure> {
        let view =
            self.views.get(at).ok_or_else(|| format!("tensor {at} is missing: there are {}", self.views.len()))?;
        let dtype = ["f16", "bf16", "f32", "i32", "u32"].get(view.dtype as usize).copied().unwrap_or("unknown");
        if view.rank as usize != R || dtype != T::DTYPE.name() {
            let wanted = T::DTYPE.name();
            return Err(format!("tensor {at} is {dtype} with {} axes, not {wanted} with {R}", view.rank).into());
        }
        let extents = |values: [u64; 4]| std::array::from_fn(|axis| values[axis] as usize);
        let (shape, strides) = (extents(view.shape), extents(view.strides));
        Ok((view.address, Placement::strided(shape, strides), span(shape, strides)))
    }

    fn input<T: Plain, const R: usize>(&self, at: usize) -> Result<Lent<'a, T, R>, Failure> {
        let (address, placement, span) = self.placed::<T, R>(at)?;
        Ok(if self.on.device().is_simulator() {
            // SAFETY: the elements are valid host memory that nobody writes during the call.
            let elements = unsafe { std::slice::from_raw_parts(address as *const T, span) };
            lend_host(self.on.device(), elements, placement)?
        } else {
            // SAFETY: the elements are valid memory of the device, and Python frees and writes them on this stream only.
            unsafe { lend(self.on, address, placement) }?
        })
    }

    fn output<T: Plain, const R: usize>(&self, at: usize) -> Result<LentMut<'a, T, R>, Failure> {
        let (address, placement, span) = self.placed::<T, R>(at)?;
        Ok(if self.on.device().is_simulator() {
            // SAFETY: the elements are valid host memory that nobody else uses during the call.
            let elements = unsafe { std::slice::from_raw_parts_mut(address as *mut T, span) };
            lend_host_mut(self.on.device(), elements, placement)?
        } else {
            // SAFETY: as of an input, and nobody else reads them on another stream.
            unsafe { lend_mut(self.on, address, placement) }?
        })
    }

    fn scalar(&self, at: usize) -> Result<f64, Failure> {
        self.scalars.get(at).copied().ok_or_else(|| format!("scalar {at} is missing").into())
    }
}

/// How many elements lie from the first to the last.
fn span<const R: usize>(shape: [usize; R], strides: [usize; R]) -> usize {
    let last = || shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride).sum::<usize>();
    if shape.contains(&0) { 0 } else { last() + 1 }
}

/// A recipe for the float type that tensor 0 has.
macro_rules! floats {
    ($call:ident, |$T:ident| $body:expr) => {
        match $call.views.first().map(|view| view.dtype) {
            Some(0) => {
                type $T = f16;
                $body
            }
            Some(1) => {
                type $T = bf16;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}

fn run(recipe: &str, call: &Call<'_>) -> Result<(), Failure> {
    let on = call.on;
    match recipe {
        "argmax" => floats!(call, |T| argmax::argmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "attention" if call.views.first().is_some_and(|view| view.dtype == 0) => attention_of::<f16>(call)?,
        "attention" => attention_of::<bf16>(call)?,
        "dropout" => floats!(call, |T| dropout::dropout(
            on,
            &call.input::<T, 1>(0)?,
            &mut call.output(1)?,
            call.scalar(0)?,
            call.scalar(1)? as u64,
            call.scalar(2)? as u32,
        ))?,
        "gather" => {
            floats!(call, |T| gather::gather(on, &call.input::<T, 2>(0)?, &call.input(1)?, &mut call.output(2)?))?
        }
        "histogram" => histogram::histogram(on, &call.input(0)?, &mut call.output(1)?)?,
        "layer_norm" => floats!(call, |T| layer_norm::layer_norm(
            on,
            &call.input::<T, 2>(0)?,
            &mut call.output(1)?,
            &call.input(2)?,
            &call.input(3)?,
            &mut call.output(4)?,
            call.scalar(0)? as f32,
        ))?,
        "rms_norm" => floats!(call, |T| rms_norm::rms_norm(
            on,
            &call.input::<T, 2>(0)?,
            &mut call.output(1)?,
            &call.input(2)?,
            &mut call.output(3)?,
            call.scalar(0)? as f32,
        ))?,
        "rope" => floats!(call, |T| rope::rope(
            on,
            &call.input::<T, 3>(0)?,
            &call.input(1)?,
            &call.input(2)?,
            &call.input(3)?,
            &mut call.output(4)?,
        ))?,
        "scan" if call.views.first().is_some_and(|view| view.dtype == 3) => scan_of::<i32>(call)?,
        "scan" => scan_of::<f32>(call)?,
        "segmented_sum" => {
            segmented_sum::segmented_sum::<f32>(on, &call.input(0)?, &call.input(1)?, &mut call.output(2)?)?
        }
        "softmax" => floats!(call, |T| softmax::softmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "stencil" => stencil::stencil(on, &call.input(0)?, &call.input(1)?, &mut call.output(2)?)?,
        "swiglu" => floats!(call, |T| swiglu::swiglu(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "top_k" => top_k::top_k(on, &call.input(0)?, &mut call.output(1)?, &mut call.output(2)?)?,
        "transpose" => floats!(call, |T| transpose::transpose(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        _ => match recipe.strip_prefix("kernels/") {
            Some(kernel) => run_kernel(kernel, call)?,
            None => return Err(format!("there is no recipe `{recipe}`").into()),
        },
    }
    Ok(())
}

/// Runs a row kernel of `tile-kernels` for Python: tensors and scalars are those of its host entry point.
fn run_kernel(kernel: &str, call: &Call<'_>) -> Result<(), Failure> {
    let on = call.on;
    match kernel {
        "add_rms_norm" => floats!(call, |T| norm::add_rms_norm(
            on,
            &call.input::<T, 2>(0)?,
            &mut call.output(1)?,
            &call.input(2)?,
            &mut call.output(3)?,
            call.scalar(0)? as f32,
        ))?,
        "argmax" => floats!(call, |T| sampling::argmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        "embedding" => {
            floats!(call, |T| embedding(on, &call.input::<T, 2>(0)?, &call.input(1)?, &mut call.output(2)?))?
        }
        "layer_norm" => floats!(call, |T| norm::layer_norm(
            on,
            &call.input::<T, 2>(0)?,
            &call.input(1)?,
            &call.input(2)?,
            &mut call.output(3)?,
            call.scalar(0)? as f32,
        ))?,
        "rms_norm" => floats!(call, |T| norm::rms_norm(
            on,
            &call.input::<T, 2>(0)?,
            &call.input(1)?,
            &mut call.output(2)?,
            call.scalar(0)? as f32,
        ))?,
        "softmax" => {
            floats!(call, |T| tile_kernels::softmax::softmax(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?
        }
        "swiglu" => floats!(call, |T| tile_kernels::swiglu::swiglu(on, &call.input::<T, 2>(0)?, &mut call.output(1)?))?,
        _ => return Err(format!("there is no row kernel `{kernel}`").into()),
    }
    Ok(())
}

fn attention_of<T: Half + Plain>(call: &Call<'_>) -> Result<(), Failure> {
    let (q, k, v) = (call.input::<T, 3>(0)?, call.input(1)?, call.input(2)?);
    Ok(attention::attention(call.on, &q, &k, &v, &mut call.output(3)?)?)
}

fn scan_of<T: Number + Plain>(call: &Call<'_>) -> Result<(), Failure> {
    let (x, mut sums) = (call.input::<T, 1>(0)?, call.output::<T, 1>(1)?);
    Ok(scan::scan(call.on, x.view(), sums.view_mut(), &mut call.output(2)?)?)
}

/// The stream of torch. Each is borrowed once: it keeps the workspaces of what is launched on it, which a graph that captured it uses.
fn borrowed(ordinal: usize, stream: *mut c_void) -> Result<Stream, Failure> {
    static STREAMS: Mutex<BTreeMap<(usize, usize), Stream>> = Mutex::new(BTreeMap::new());
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match streams.entry((ordinal, stream.addr())) {
        Entry::Occupied(known) => known.get().clone(),
        Entry::Vacant(new) => {
            // SAFETY: torch keeps its streams for the life of the process.
            let stream = unsafe { borrow_stream(&Device::cuda(ordinal)?, stream, Arc::new(())) }?;
            new.insert(stream).clone()
        }
    })
}

/// Launches the recipe, or the row kernel, of this name on CUDA device `cuda`, on `stream` (null is the default stream); on the simulator where
/// `cuda` is negative. Tensors and scalars are those of the recipe's host function, in its order. Returns 0, or 1 after an
/// error that [`cookbook_error`] tells.
///
/// # Safety
/// `recipe` is a C string; `views` and `scalars` point to as many as are said. Every tensor is valid memory of the device,
/// which is written, read elsewhere and freed in the stream's order only; on the simulator, memory of the host that nobody
/// else uses during the call. Outputs overlap no other tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cookbook_call(
    recipe: *const c_char,
    cuda: c_int,
    stream: *mut c_void,
    views: *const View,
    view_count: usize,
    scalars: *const f64,
    scalar_count: usize,
) -> c_int {
    let result = (|| {
        // SAFETY: the caller's contract, of all three.
        let (recipe, views, scalars) = unsafe {
            (
                CStr::from_ptr(recipe),
                std::slice::from_raw_parts(views, view_count),
                std::slice::from_raw_parts(scalars, scalar_count),
            )
        };
        let on = match usize::try_from(cuda) {
            Ok(ordinal) => borrowed(ordinal, stream)?,
            Err(_) => Device::simulator().stream()?,
        };
        run(recipe.to_str()?, &Call { on: &on, views, scalars })
    })();
    match result {
        Ok(()) => 0,
        Err(error) => {
            let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
            ERROR.with(|place| *place.borrow_mut() = text);
            1
        }
    }
}
