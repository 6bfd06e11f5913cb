//! What Python hands over: tensors as they lie in memory, scalars, a stream.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use tile_runtime::interop::{Lent, LentMut, Placement, Plain, borrow_stream, lend, lend_host, lend_host_mut, lend_mut};
use tile_runtime::prelude::*;

pub type Failure = Box<dyn std::error::Error>;

/// A tensor of other code, as it lies in memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    pub address: u64,
    /// 0 to 4: f16, bf16, f32, i32, u32.
    pub dtype: u32,
    pub rank: u32,
    pub shape: [u64; 4],
    /// In elements.
    pub strides: [u64; 4],
}

impl View {
    /// Refuses another element type or number of axes.
    pub fn check<T: Element, const R: usize>(&self) -> Result<(), String> {
        let dtype = ["f16", "bf16", "f32", "i32", "u32"].get(self.dtype as usize).copied().unwrap_or("unknown");
        let wanted = T::DTYPE.name();
        match self.rank as usize == R && dtype == wanted {
            true => Ok(()),
            false => Err(format!("it is {dtype} with {} axes, not {wanted} with {R}", self.rank)),
        }
    }
}

/// The arguments of a recipe. They are valid for the call: the contract of [`cookbook_call`].
pub struct Call<'a> {
    pub on: &'a Stream,
    pub views: &'a [View],
    pub scalars: &'a [f64],
}

impl<'a> Call<'a> {
    /// A tensor's address, where its elements are, and how many there are from the first to the last.
    fn placed<T: Element, const R: usize>(&self, at: usize) -> Result<(u64, Placement<R>, usize), Failure> {
        let view =
            self.views.get(at).ok_or_else(|| format!("tensor {at} is missing: there are {}", self.views.len()))?;
        view.check::<T, R>().map_err(|problem| format!("tensor {at}: {problem}"))?;
        let extents = |values: [u64; 4]| std::array::from_fn(|axis| values[axis] as usize);
        let (shape, strides) = (extents(view.shape), extents(view.strides));
        Ok((view.address, Placement::strided(shape, strides), span(shape, strides)))
    }

    pub fn input<T: Plain, const R: usize>(&self, at: usize) -> Result<Lent<'a, T, R>, Failure> {
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

    pub fn output<T: Plain, const R: usize>(&self, at: usize) -> Result<LentMut<'a, T, R>, Failure> {
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

    pub fn scalar(&self, at: usize) -> Result<f64, Failure> {
        self.scalars.get(at).copied().ok_or_else(|| format!("scalar {at} is missing").into())
    }
}

/// How many elements lie from the first to the last.
fn span<const R: usize>(shape: [usize; R], strides: [usize; R]) -> usize {
    let last = || shape.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride).sum::<usize>();
    if shape.contains(&0) { 0 } else { last() + 1 }
}

/// The stream of torch. Each is borrowed once: it keeps the workspaces of what is launched on it, which a graph that captured it uses.
pub fn borrowed(ordinal: usize, stream: *mut c_void) -> Result<Stream, Failure> {
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
