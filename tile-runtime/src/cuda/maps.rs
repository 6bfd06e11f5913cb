//! Tensor maps: how TMA sees a launch's tensors. They are made at every launch, which costs less than
//! looking them up would (0.04 us each).

use super::context::CudaDevice;
use crate::error::Error;
use crate::kernel::{TensorRef, Values};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use tile_ir::ir::{Swizzle, TensorMapElement};
use tile_ir::lowered::{Promotion, TensorMap};

/// Most tensor maps of a kernel: they live on the stack during a launch.
pub(crate) const MOST_MAPS: usize = 8;
/// Most axes of a tensor map. Source: CUDA driver API, `cuTensorMapEncodeTiled`.
const MOST_AXES: usize = 5;

/// A map as the driver has encoded it.
pub(crate) use sys::CUtensorMap as EncodedMap;

/// The maps of one launch, in the order of the program's.
pub(crate) struct Maps {
    storage: [MaybeUninit<EncodedMap>; MOST_MAPS],
    len: usize,
}

impl Maps {
    /// The maps for these arguments.
    ///
    /// # Errors
    /// The driver refuses one: a box or a tensor that it does not take, which the launch's checks should have said.
    #[inline]
    pub fn new(cuda: &CudaDevice, maps: &[TensorMap], values: &Values<'_>) -> Result<Maps, Error> {
        let mut all = Maps { storage: [const { MaybeUninit::uninit() }; MOST_MAPS], len: 0 };
        for (map, slot) in maps.iter().zip(&mut all.storage) {
            if let Some(tensor) = values.tensor(map.tensor) {
                slot.write(encode(cuda, map, tensor)?);
                all.len += 1;
            }
        }
        Ok(all)
    }

    /// The maps.
    #[inline]
    pub fn as_slice(&self) -> &[EncodedMap] {
        // SAFETY: the first `len` are written.
        unsafe { std::slice::from_raw_parts(self.storage.as_ptr().cast(), self.len) }
    }
}

/// The map of one tensor.
fn encode(cuda: &CudaDevice, map: &TensorMap, tensor: &TensorRef<'_>) -> Result<EncodedMap, Error> {
    use sys::CUtensorMapDataType as Type;
    let ty = match tensor.dtype().info().tensor_map {
        TensorMapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorMapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorMapElement::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorMapElement::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        TensorMapElement::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorMapElement::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    };
    let swizzle = match map.swizzle {
        Swizzle::None => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let promotion = match map.promotion {
        Promotion::None => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        Promotion::B64 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        Promotion::B128 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        Promotion::B256 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    };
    let rank = tensor.shape().len().min(MOST_AXES);
    let (mut extents, mut strides, mut boxes) = ([1u64; MOST_AXES], [16u64; MOST_AXES], [1u32; MOST_AXES]);
    boxes.iter_mut().zip(&map.box_extents).for_each(|(slot, extent)| *slot = *extent);
    // No axis of a map may be empty. Instead of an empty tensor, of which a box is all zeros, TMA is given a
    // tensor of one element.
    let address = if tensor.shape().contains(&0) {
        cuda.instead_of_empty(map.stores)
    } else {
        // The driver takes the innermost axis first.
        for (axis, extent) in tensor.shape().iter().rev().enumerate().take(rank) {
            extents[axis] = *extent as u64;
        }
        let bytes = i64::from(tensor.dtype().bytes());
        for (axis, stride) in tensor.strides().iter().rev().skip(1).enumerate().take(rank.saturating_sub(1)) {
            strides[axis] = (stride * bytes).max(16) as u64;
        }
        tensor.address()
    };
    let steps = [1u32; MOST_AXES];
    let mut encoded = MaybeUninit::<EncodedMap>::uninit();
    // SAFETY: the arrays have `rank` entries and more; the map is written by the call, which reads nothing on the device.
    let code = unsafe {
        (cuda.driver.tensor_map_encode_tiled)(
            encoded.as_mut_ptr(),
            ty as i32,
            rank as u32,
            address as *mut c_void,
            extents.as_ptr(),
            strides.as_ptr(),
            boxes.as_ptr(),
            steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE as i32,
            swizzle as i32,
            promotion as i32,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE as i32,
        )
    };
    cuda.check("cuTensorMapEncodeTiled", code)?;
    // SAFETY: the call has succeeded, so the map is written.
    Ok(unsafe { encoded.assume_init() })
}
