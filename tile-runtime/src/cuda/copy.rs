//! Copies into, out of and within a device's memory, and filling it with a byte: what is queued on a stream whose order the
//! caller has settled ([`super::ordering`]).

use super::context::{CudaDevice, StreamSlot};
use super::driver::Pointer;
use crate::error::Error;
use crate::layout::Rows;
use cudarc::driver::sys;

impl CudaDevice {
    /// Fills `bytes` bytes from `address` on with `byte`.
    ///
    /// # Safety
    /// The range is allocated, and this use of it is ordered on `stream`.
    pub unsafe fn fill(&self, stream: &StreamSlot, address: Pointer, bytes: usize, byte: u8) -> Result<(), Error> {
        // SAFETY: the caller's contract.
        let code = unsafe { (self.driver.memset_d8_async)(address, byte, bytes, stream.enter().stream()) };
        self.check("cuMemsetD8Async", code)
    }

    /// Copies packed `bytes` into rows of elements of `size` bytes. Waits until `bytes` may be reused.
    ///
    /// # Safety
    /// The rows lie inside memory that is allocated from `address` on, and this use of it is ordered on `stream`.
    pub unsafe fn upload(
        &self,
        stream: &StreamSlot,
        address: Pointer,
        bytes: &[u8],
        rows: &Rows,
        size: usize,
    ) -> Result<(), Error> {
        let entry = stream.enter();
        let width = rows.width * size;
        for (start, bytes) in rows.starts.iter().zip(bytes.chunks_exact(width * rows.rows)) {
            let to = address + (start * size) as u64;
            // SAFETY: the caller's contract; pageable host memory is copied before the call returns.
            unsafe {
                if rows.rows == 1 {
                    let code = (self.driver.memcpy_htod_async)(to, bytes.as_ptr().cast(), width, entry.stream());
                    self.check("cuMemcpyHtoDAsync", code)?;
                } else {
                    let mut copy = copy_2d(width, rows.rows);
                    copy.srcMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
                    (copy.srcHost, copy.srcPitch) = (bytes.as_ptr().cast(), width);
                    (copy.dstDevice, copy.dstPitch) = (to, rows.pitch * size);
                    self.check("cuMemcpy2DAsync", (self.driver.memcpy_2d_async)(&copy, entry.stream()))?;
                    // The two-dimensional copy promises nothing about when the source may be reused.
                    self.synchronize(stream)?;
                }
            }
        }
        Ok(())
    }

    /// Queues the copies of rows of elements of `size` bytes into packed `bytes`. Where it fails nothing is queued any more.
    ///
    /// # Safety
    /// The rows lie inside memory that is allocated from `address` on, this use of it is ordered on `stream`, and `bytes` is
    /// neither read nor let go before the stream has been synchronised.
    pub unsafe fn download(
        &self,
        stream: &StreamSlot,
        bytes: &mut [u8],
        address: Pointer,
        rows: &Rows,
        size: usize,
    ) -> Result<(), Error> {
        let entry = stream.enter();
        let width = rows.width * size;
        for (start, bytes) in rows.starts.iter().zip(bytes.chunks_exact_mut(width * rows.rows)) {
            let from = address + (start * size) as u64;
            // SAFETY: the caller's contract; after a failure the stream is synchronised here.
            let code = unsafe {
                if rows.rows == 1 {
                    (self.driver.memcpy_dtoh_async)(bytes.as_mut_ptr().cast(), from, width, entry.stream())
                } else {
                    let mut copy = copy_2d(width, rows.rows);
                    (copy.srcDevice, copy.srcPitch) = (from, rows.pitch * size);
                    copy.dstMemoryType = sys::CUmemorytype::CU_MEMORYTYPE_HOST;
                    (copy.dstHost, copy.dstPitch) = (bytes.as_mut_ptr().cast(), width);
                    (self.driver.memcpy_2d_async)(&copy, entry.stream())
                }
            };
            if let Err(error) = self.check("cuMemcpyDtoHAsync", code) {
                self.synchronize(stream).ok();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Queues the copy of rows of one memory into rows of another, of the same number of elements of `size` bytes.
    ///
    /// # Safety
    /// Each side's rows lie inside memory that is allocated from its address on, and both uses are ordered on `stream`.
    pub unsafe fn copy(
        &self,
        stream: &StreamSlot,
        (target, to): (Pointer, &Rows),
        (source, from): (Pointer, &Rows),
        size: usize,
    ) -> Result<(), Error> {
        let entry = stream.enter();
        // The side with more rows gives the shape; the other is contiguous, or has the same.
        let (width, rows) = if to.width < from.width { (to.width, to) } else { (from.width, from) };
        let spread = |side: &Rows| -> Vec<usize> {
            if side.width == width {
                side.starts.clone()
            } else {
                (0..rows.starts.len()).map(|i| side.starts[0] + i * width * rows.rows).collect()
            }
        };
        let pitch = |side: &Rows| if side.width == width { side.pitch } else { width };
        for (to_start, from_start) in spread(to).into_iter().zip(spread(from)) {
            let mut copy = copy_2d(width * size, rows.rows);
            copy.srcDevice = source + (from_start * size) as u64;
            copy.dstDevice = target + (to_start * size) as u64;
            (copy.srcPitch, copy.dstPitch) = (pitch(from) * size, pitch(to) * size);
            if copy.WidthInBytes == 0 || copy.Height == 0 {
                continue;
            }
            // SAFETY: the caller's contract.
            let code = unsafe {
                if rows.rows == 1 {
                    let (to, from, bytes) = (copy.dstDevice, copy.srcDevice, copy.WidthInBytes);
                    (self.driver.memcpy_dtod_async)(to, from, bytes, entry.stream())
                } else {
                    (self.driver.memcpy_2d_async)(&copy, entry.stream())
                }
            };
            self.check("cuMemcpy2DAsync", code)?;
        }
        Ok(())
    }
}

/// A copy between two places of device memory; a host side is set by the caller.
fn copy_2d(width: usize, height: usize) -> sys::CUDA_MEMCPY2D {
    sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: std::ptr::null(),
        srcDevice: 0,
        srcArray: std::ptr::null_mut(),
        srcPitch: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: 0,
        dstArray: std::ptr::null_mut(),
        dstPitch: 0,
        WidthInBytes: width,
        Height: height,
    }
}
