//! The structures of DLPack, as `dlpack.h` 1.1 lays them out.
//!
//! The crates that have them (`dlpark` 0.10) bring a tensor model of their own and change it every few months; these five
//! structures are a stable ABI.

use std::ffi::c_void;

/// `kDLCPU`.
pub const CPU: i32 = 1;
/// `kDLCUDA`.
pub const CUDA: i32 = 2;

/// `kDLInt`.
pub const INT: u8 = 0;
/// `kDLUInt`.
pub const UINT: u8 = 1;
/// `kDLFloat`.
pub const FLOAT: u8 = 2;
/// `kDLBfloat`.
pub const BFLOAT: u8 = 4;
/// `kDLBool`.
pub const BOOL: u8 = 6;

/// The version of [`DLManagedTensorVersioned`] that is taken and given: any 1.x is taken.
pub const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
pub const READ_ONLY: u64 = 1;

/// Where a tensor's memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// [`CPU`], [`CUDA`], or another `DLDeviceType`.
    pub device_type: i32,
    /// The device's number.
    pub device_id: i32,
}

/// An element type.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// [`INT`], [`FLOAT`], or another `DLDataTypeCode`.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes of a vector; 1 for a scalar.
    pub lanes: u16,
}

/// A tensor, which owns nothing.
#[repr(C)]
#[derive(Debug)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// How many axes.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// Extents, `ndim` of them.
    pub shape: *mut i64,
    /// Distances in elements, `ndim` of them; null for a compact row-major tensor.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor and how to let it go: the capsule `"dltensor"`.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once, with the structure itself, when it is no longer used.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A version of the ABI.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// What follows has another layout where this differs.
    pub major: u32,
    /// What follows has another meaning where this is larger, in fields that may be ignored.
    pub minor: u32,
}

/// A tensor, its version, and how to let it go: the capsule `"dltensor_versioned"`.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version.
    pub version: DLPackVersion,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once, with the structure itself, when it is no longer used.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`READ_ONLY`] and others.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// `sizeof` and `offsetof` of the structures of dlpack.h 1.1, by the C ABI of 64-bit machines.
    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!((size_of::<DLDevice>(), size_of::<DLDataType>(), size_of::<DLTensor>()), (8, 4, 48));
        assert_eq!((offset_of!(DLTensor, ndim), offset_of!(DLTensor, dtype)), (16, 20));
        assert_eq!((offset_of!(DLTensor, shape), offset_of!(DLTensor, byte_offset)), (24, 40));
        assert_eq!((size_of::<DLManagedTensor>(), offset_of!(DLManagedTensor, deleter)), (64, 56));
        assert_eq!(size_of::<DLManagedTensorVersioned>(), 80);
        assert_eq!(offset_of!(DLManagedTensorVersioned, flags), 24);
        assert_eq!(offset_of!(DLManagedTensorVersioned, dl_tensor), 32);
    }
}
