//! The recipes for Python: a library of C functions. [`cookbook_call`] launches a recipe on tensors of torch, on torch's stream,
//! without a copy. It launches kernels of `tile-kernels` too, by names such as `kernels/rms_norm`. [`cookbook_graph`] makes
//! a graph of products as `gemm`, `gemm_batched` or `gemv` of `tile_kernels` launches them. `bench/cookbook.py` and `bench/random_shapes.py` call them:
//!
//! ```text
//! cargo build --release -p tile-cookbook --example cookbook_for_python
//! python bench/cookbook.py target/release/examples/libcookbook_for_python.so
//! python bench/cookbook.py target/release/examples/libcookbook_for_python.so --cases rows
//! ```

#[macro_use]
mod floats;
mod call;
mod kernels;
mod products;
mod recipes;

use call::{Call, Failure, View, borrowed};
use products::{By, Product, Products};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use tile_runtime::prelude::*;

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The error of this thread's last call that failed; valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn cookbook_error() -> *const c_char {
    ERROR.with(|error| error.borrow().as_ptr())
}

/// Launches the recipe, or the kernel of `tile-kernels`, of this name on CUDA device `cuda`, on `stream` (null is the default stream); on the simulator where
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
        recipes::run(recipe.to_str()?, &Call { on: &on, views, scalars })
    })();
    answer(result)
}

/// 0, or 1 after noting the error.
fn answer(result: Result<(), Failure>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            say(&error.to_string());
            1
        }
    }
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    ERROR.with(|place| *place.borrow_mut() = text);
}

/// A product as C describes it.
#[repr(C)]
pub struct Asked {
    name: *const c_char,
    cuda: c_int,
    stream: *mut c_void,
    views: *const View,
    view_count: usize,
    /// Tensors of one call.
    each: usize,
    scalars: *const f64,
    scalar_count: usize,
}

/// The choices of a host entry point for a product, as lines of `us name`, in what [`cookbook_error`] tells; the first is taken by itself.
/// Returns 0, or 1 after an error.
///
/// # Safety
/// As [`cookbook_call`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cookbook_candidates(asked: *const Asked) -> c_int {
    // SAFETY: the caller's contract.
    answer(unsafe { with_product(asked, |product| product.candidates().map(|text| say(&text))) })
}

/// A graph of the product's launches, one call for every `each` tensors, in `made`: by the candidate of this number, as the entry
/// point chooses where it is -1, as its tuner does where it is less; as dependent launches where `dependent` is not 0. Returns 0, or 1 after an error.
///
/// # Safety
/// As [`cookbook_call`], for as long as the graph is; `made` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cookbook_graph(
    asked: *const Asked,
    candidate: c_int,
    dependent: c_int,
    made: *mut *mut Products,
) -> c_int {
    let make = |product: &Product<'_>| {
        let by = match usize::try_from(candidate) {
            Ok(number) => By::Number(number),
            Err(_) if candidate == -1 => By::Call,
            Err(_) => By::Tuner,
        };
        let graph = product.graph(by, dependent != 0)?;
        // SAFETY: the caller's contract.
        unsafe { *made = Box::into_raw(Box::new(graph)) };
        Ok(())
    };
    // SAFETY: the caller's contract.
    answer(unsafe { with_product(asked, make) })
}

/// Launches a graph on torch's stream.
///
/// # Safety
/// `graph` is one of [`cookbook_graph`] that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cookbook_launch(graph: *const Products, cuda: c_int, stream: *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    let graph = unsafe { &*graph };
    answer(borrowed(usize::try_from(cuda).unwrap_or(0), stream).and_then(|stream| graph.launch_on(&stream)))
}

/// Frees a graph.
///
/// # Safety
/// As [`cookbook_launch`]; it is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cookbook_free(graph: *mut Products) {
    // SAFETY: the caller's contract.
    drop(unsafe { Box::from_raw(graph) });
}

/// # Safety
/// As [`cookbook_call`].
unsafe fn with_product(
    asked: *const Asked,
    what: impl FnOnce(&Product<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's contract, of all four.
    let (asked, name, views, scalars) = unsafe {
        let asked = &*asked;
        (
            asked,
            CStr::from_ptr(asked.name),
            std::slice::from_raw_parts(asked.views, asked.view_count),
            std::slice::from_raw_parts(asked.scalars, asked.scalar_count),
        )
    };
    let device = match usize::try_from(asked.cuda) {
        Ok(ordinal) => Device::cuda(ordinal)?,
        Err(_) => return Err("products need a GPU".into()),
    };
    what(&Product { device: &device, stream: asked.stream, name: name.to_str()?, views, each: asked.each, scalars })
}
