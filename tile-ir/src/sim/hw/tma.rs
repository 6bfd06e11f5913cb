//! `cp.async.bulk.tensor` in tiled mode: boxes of a tensor to shared memory and back.
//!
//! A box is written to shared memory with its innermost axis first and no gaps; the swizzle then permutes bits of the
//! byte address. Elements of a box outside the tensor read as 0 and are not written. (PTX ISA, "Tensors"; CUDA driver
//! API, `cuTensorMapEncodeTiled`.)

use super::{HwError, SwizzleMode};

/// The fields of a tensor map that decide where bytes go. All begin with the innermost axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_bytes: u32,
    /// Where the tensor begins in global memory.
    pub address: u64,
    /// Elements along each axis.
    pub dims: Vec<u64>,
    /// Bytes between neighbours along each axis but the innermost.
    pub strides: Vec<u64>,
    /// Elements of a box along each axis.
    pub box_dims: Vec<u32>,
    /// The swizzle.
    pub swizzle: SwizzleMode,
}

/// Which way a box goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a tensor to shared memory.
    Load,
    /// From shared memory to a tensor.
    Store,
}

/// Where one element of a box is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// In global memory; `None` outside the tensor.
    pub global: Option<u64>,
    /// In shared memory.
    pub shared: u32,
}

impl TensorMap {
    /// Refuses what `cuTensorMapEncodeTiled` refuses.
    ///
    /// # Errors
    /// Ranks beyond 5, addresses and strides that are not multiples of 16, boxes beyond 256 elements or wider than the
    /// swizzle. A swizzled box that is narrower is refused too: the manual does not say where its rows go.
    pub fn check(&self) -> Result<(), HwError> {
        let illegal = |what, value: u64, allowed| Err(HwError::Illegal { what, value, allowed });
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) {
            return illegal("rank", rank as u64, "1 to 5");
        }
        if self.strides.len() + 1 != rank || self.box_dims.len() != rank {
            return illegal("length of strides or box", self.strides.len() as u64, "as the rank");
        }
        if !matches!(self.element_bytes, 1 | 2 | 4 | 8) {
            return illegal("bytes of an element", self.element_bytes.into(), "1, 2, 4 or 8");
        }
        let aligned = |what, address: u64| {
            let multiple = 16;
            if address.is_multiple_of(multiple) { Ok(()) } else { Err(HwError::Misaligned { what, address, multiple }) }
        };
        aligned("address of a tensor", self.address)?;
        self.strides.iter().try_for_each(|stride| aligned("stride of a tensor", *stride))?;
        if let Some(&wrong) = self.strides.iter().find(|stride| **stride >= 1 << 40) {
            return illegal("stride of a tensor", wrong, "less than 2^40");
        }
        if let Some(&wrong) = self.dims.iter().find(|extent| !(1..=1 << 32).contains(*extent)) {
            return illegal("extent of a tensor", wrong, "1 to 2^32");
        }
        if let Some(&wrong) = self.box_dims.iter().find(|extent| !(1..=256).contains(*extent)) {
            return illegal("extent of a box", wrong.into(), "1 to 256");
        }
        let inner = self.box_dims[0] * self.element_bytes;
        aligned("inner bytes of a box", inner.into())?;
        if self.swizzle != SwizzleMode::None && inner != self.swizzle.bytes() {
            return illegal("inner bytes of a swizzled box", inner.into(), "the swizzle's bytes");
        }
        Ok(())
    }

    /// Where the elements of the box at `coordinates` (innermost first) are, when its image in shared memory is at
    /// `shared`.
    ///
    /// # Errors
    /// As [`TensorMap::check`]; coordinates of another rank; `shared` not a multiple of 128; an innermost coordinate that is not
    /// a multiple of 16 bytes; a coordinate below 0 of a store. The last two are illegal instructions on an H200, which no
    /// manual says; a load may begin below 0.
    pub fn placements(
        &self,
        coordinates: &[i64],
        shared: u32,
        direction: Direction,
    ) -> Result<Vec<Placement>, HwError> {
        self.check()?;
        if coordinates.len() != self.dims.len() {
            let value = coordinates.len() as u64;
            return Err(HwError::Illegal { what: "number of coordinates", value, allowed: "the rank" });
        }
        let start = coordinates[0] * i64::from(self.element_bytes);
        if start % 16 != 0 {
            return Err(HwError::Coordinate { what: "innermost, in bytes", value: start, allowed: "a multiple of 16" });
        }
        if let (Direction::Store, Some(&value)) = (direction, coordinates.iter().find(|at| **at < 0)) {
            return Err(HwError::Coordinate { what: "of a store", value, allowed: "not below 0" });
        }
        if !shared.is_multiple_of(128) {
            let (what, address) = ("shared address of a box", shared.into());
            return Err(HwError::Misaligned { what, address, multiple: 128 });
        }
        let elements: u32 = self.box_dims.iter().product();
        let mut found = Vec::with_capacity(elements as usize);
        for index in 0..elements {
            let (mut rest, mut global) = (index, Some(self.address));
            for (axis, &extent) in self.box_dims.iter().enumerate() {
                let at = coordinates[axis] + i64::from(rest % extent);
                rest /= extent;
                let stride = if axis == 0 { self.element_bytes.into() } else { self.strides[axis - 1] };
                let inside = u64::try_from(at).ok().filter(|at| *at < self.dims[axis]);
                global = global.zip(inside).map(|(address, at)| address + at * stride);
            }
            let shared = self.swizzle.physical(shared + index * self.element_bytes);
            found.push(Placement { global, shared });
        }
        Ok(found)
    }

    /// Bytes that a load of one box reports to its barrier: all of them, also those outside the tensor.
    pub fn box_bytes(&self) -> u32 {
        self.box_dims.iter().product::<u32>() * self.element_bytes
    }

    /// Global to shared. Returns the bytes it reports.
    ///
    /// # Errors
    /// As [`TensorMap::placements`]; bytes outside either memory.
    pub fn load(&self, global: &[u8], at: &[i64], shared: &mut [u8], destination: u32) -> Result<u32, HwError> {
        let size = self.element_bytes as usize;
        for placement in self.placements(at, destination, Direction::Load)? {
            let target = slice_mut(shared, placement.shared.into(), size)?;
            match placement.global {
                Some(address) => target.copy_from_slice(slice(global, address, size)?),
                None => target.fill(0),
            }
        }
        Ok(self.box_bytes())
    }

    /// Shared to global.
    ///
    /// # Errors
    /// As [`TensorMap::load`].
    pub fn store(&self, global: &mut [u8], at: &[i64], shared: &[u8], source: u32) -> Result<(), HwError> {
        let size = self.element_bytes as usize;
        for placement in self.placements(at, source, Direction::Store)? {
            if let Some(address) = placement.global {
                slice_mut(global, address, size)?.copy_from_slice(slice(shared, placement.shared.into(), size)?);
            }
        }
        Ok(())
    }
}

fn outside(bytes: usize, address: u64, size: usize) -> HwError {
    HwError::OutOfBounds { address, bytes: size as u64, size: bytes as u64 }
}

fn slice(bytes: &[u8], address: u64, size: usize) -> Result<&[u8], HwError> {
    let start = usize::try_from(address).map_err(|_| outside(bytes.len(), address, size))?;
    let end = start.checked_add(size).ok_or_else(|| outside(bytes.len(), address, size))?;
    bytes.get(start..end).ok_or_else(|| outside(bytes.len(), address, size))
}

fn slice_mut(bytes: &mut [u8], address: u64, size: usize) -> Result<&mut [u8], HwError> {
    let length = bytes.len();
    let start = usize::try_from(address).map_err(|_| outside(length, address, size))?;
    let end = start.checked_add(size).ok_or_else(|| outside(length, address, size))?;
    bytes.get_mut(start..end).ok_or_else(|| outside(length, address, size))
}
