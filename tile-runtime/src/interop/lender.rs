//! Memory of one stream of cudarc, lent to launch after launch.

use super::cudarc::{CudaMemory, CudaMemoryMut, borrow_cudarc_stream, event_of, lend_cudarc, lend_cudarc_mut};
use super::lent::{Lent, LentMut, Owned, on_stream};
use super::placement::Placement;
use crate::allocation::Allocation;
use crate::device::Device;
use crate::element::Element;
use crate::error::Error;
use crate::stream::Stream;
use crate::tensor::Tensor;
use cudarc::driver::CudaStream;
use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::Arc;

/// Most lent tensors whose parts are kept.
const SPARES: usize = 16;

/// A borrowed stream of cudarc that lends the stream's memory to many short launches.
///
/// [`lend_cudarc`] allocates on the host for each tensor. A lender keeps what a lent tensor is made of when it is given back
/// ([`take_back`](CudaLender::take_back)), and makes the next one of it, so that lending and launching allocate nothing. What is
/// not given back is dropped as ever.
pub struct CudaLender {
    owner: Arc<CudaStream>,
    stream: Stream,
    /// What was given back.
    spares: RefCell<Vec<Arc<Allocation>>>,
}

impl CudaLender {
    /// Borrows a stream: see [`borrow_cudarc_stream`].
    ///
    /// # Errors
    /// As [`borrow_cudarc_stream`].
    pub fn new(device: &Device, stream: &Arc<CudaStream>) -> Result<CudaLender, Error> {
        let (owner, stream) = (stream.clone(), borrow_cudarc_stream(device, stream)?);
        Ok(CudaLender { owner, stream, spares: RefCell::default() })
    }

    /// The stream as cudarc knows it.
    pub fn owner(&self) -> &Arc<CudaStream> {
        &self.owner
    }

    /// The stream, to launch on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// A slice or view, to be read by launches on the stream: see [`lend_cudarc`].
    ///
    /// # Errors
    /// As [`lend_cudarc`].
    pub fn lend<'a, T: Element, const R: usize>(
        &self,
        memory: &'a impl CudaMemory<T>,
        placement: impl Into<Placement<R>>,
    ) -> Result<Lent<'a, T, R>, Error> {
        if !self.is_order_enough(memory.stream()) {
            return lend_cudarc(&self.stream, memory, placement);
        }
        let (address, guard) = memory.device_ptr(&self.owner);
        event_of(guard);
        self.over(address, memory.len(), placement.into(), false).map(Lent::over)
    }

    /// A slice or view, to be read and written by launches on the stream: see [`lend_cudarc_mut`].
    ///
    /// # Errors
    /// As [`lend_cudarc_mut`].
    pub fn lend_mut<'a, T: Element, const R: usize>(
        &self,
        memory: &'a mut impl CudaMemoryMut<T>,
        placement: impl Into<Placement<R>>,
    ) -> Result<LentMut<'a, T, R>, Error> {
        if !self.is_order_enough(memory.stream()) {
            return lend_cudarc_mut(&self.stream, memory, placement);
        }
        let len = memory.len();
        let (address, guard) = memory.device_ptr_mut(&self.owner);
        event_of(guard);
        self.over(address, len, placement.into(), true).map(LentMut::over)
    }

    /// Whether the stream's order is all that uses of a slice of stream `own` need: the slice is of this very stream, and cudarc
    /// orders no streams by events.
    #[inline]
    fn is_order_enough(&self, own: &Arc<CudaStream>) -> bool {
        Arc::ptr_eq(own, &self.owner) && !own.context().is_managing_stream_synchronization()
    }

    #[inline]
    fn over<T: Element, const R: usize>(
        &self,
        address: u64,
        len: usize,
        placement: Placement<R>,
        writable: bool,
    ) -> Result<Tensor<T, R>, Error> {
        let spare = self.spares.borrow_mut().pop();
        if let Some(mut spare) = spare
            && let Some(memory) = Arc::get_mut(&mut spare)
            && let Some(bytes) = len.checked_mul(size_of::<T>())
            && address.is_multiple_of(size_of::<T>() as u64)
        {
            let layout = placement.layout(len)?;
            memory.lend_again(address, bytes, writable);
            return Ok(Tensor::from_parts(spare, layout));
        }
        on_stream(&self.stream, (address, Some(len)), placement, Owned { event: null_mut(), writable })
    }

    /// Keeps what a tensor was made of for the next one that is lent.
    pub fn take_back<T: Element, const R: usize>(&self, lent: Lent<'_, T, R>) {
        self.keep(lent.tensor.into_allocation());
    }

    /// [`take_back`](Self::take_back) of a tensor that was lent to be written.
    pub fn take_back_mut<T: Element, const R: usize>(&self, lent: LentMut<'_, T, R>) {
        self.keep(lent.tensor.into_allocation());
    }

    #[inline]
    fn keep(&self, lent: Arc<Allocation>) {
        let of = lent.only_on().and_then(|on| on.keeps.as_ref());
        let is_ours = of.zip(self.stream.foreign()).is_some_and(|(of, own)| Arc::ptr_eq(of, own));
        let mut spares = self.spares.borrow_mut();
        if is_ours && spares.len() < SPARES {
            spares.push(lent);
        }
    }
}
