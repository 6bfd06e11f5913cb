//! Element types as the host sees them.

use crate::error::Error;
use half::{bf16, f16};
use tile_ir::ir::Dtype;

mod sealed {
    pub trait Sealed {}
}

/// A type that tensors hold: `f16`, `bf16`, `f32`, `i32`, `u32`, `u8`, `bool`.
///
/// A `bool` is one byte on the device; any nonzero byte read back is `true`.
pub trait Element: sealed::Sealed + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: Dtype;

    /// The value with these bits (zero-extended).
    fn from_bits(bits: u32) -> Self;

    /// The value's bits, zero-extended.
    fn to_bits(self) -> u32;
}

macro_rules! elements {
    ($($ty:ty = $dtype:ident, $bits:ident => $from:expr, $value:ident => $to:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: Dtype = Dtype::$dtype;
            fn from_bits($bits: u32) -> Self {
                $from
            }
            fn to_bits(self) -> u32 {
                let $value = self;
                $to
            }
        }
    )*};
}

elements! {
    f16 = F16, bits => f16::from_bits(bits as u16), value => u32::from(value.to_bits());
    bf16 = Bf16, bits => bf16::from_bits(bits as u16), value => u32::from(value.to_bits());
    f32 = F32, bits => f32::from_bits(bits), value => f32::to_bits(value);
    i32 = I32, bits => bits as i32, value => value as u32;
    u32 = U32, bits => bits, value => value;
    u8 = U8, bits => bits as u8, value => value.into();
    bool = Bool, bits => bits & 0xff != 0, value => u32::from(value);
}

/// A slice's bytes as they stand on the device.
pub(crate) fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: every element type is plain data without padding, and any bytes are valid `u8`s.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// `len` values, all the same, where the host has room for them.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, Error> {
    let mut values = Vec::new();
    let room = values.try_reserve_exact(len);
    room.map_err(|_| Error::host_out_of_memory("the host", len.saturating_mul(size_of::<T>())))?;
    values.resize(len, value);
    Ok(values)
}

/// A vector filled by `read`, which must fill every byte it is given.
pub(crate) fn from_bytes<T: Element>(
    len: usize,
    read: impl FnOnce(&mut [u8]) -> Result<(), Error>,
) -> Result<Vec<T>, Error> {
    if T::DTYPE == Dtype::Bool {
        // A byte other than 0 and 1 is not a `bool` to Rust.
        let mut bytes = filled(0u8, len)?;
        read(&mut bytes)?;
        return Ok(bytes.into_iter().map(|b| T::from_bits(u32::from(b))).collect());
    }
    let mut values = filled(T::default(), len)?;
    // SAFETY: plain data without padding; every bit pattern is a value, `bool` being excluded above.
    let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast::<u8>(), len * size_of::<T>()) };
    read(bytes)?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_on_host_and_device_agree() {
        assert_eq!(size_of::<f16>(), f16::DTYPE.bytes() as usize);
        assert_eq!(size_of::<bf16>(), bf16::DTYPE.bytes() as usize);
        assert_eq!(size_of::<bool>(), bool::DTYPE.bytes() as usize);
        assert_eq!(size_of::<f32>(), f32::DTYPE.bytes() as usize);
    }

    #[test]
    fn bytes_round_trip_and_a_strange_bool_is_true() {
        let values = [f16::ONE, f16::NEG_INFINITY];
        let bytes = as_bytes(&values).to_vec();
        let back: Vec<f16> = from_bytes(2, |b| {
            b.copy_from_slice(&bytes);
            Ok(())
        })
        .unwrap();
        assert_eq!(back, values);
        let flags: Vec<bool> = from_bytes(3, |b| {
            b.copy_from_slice(&[0, 1, 7]);
            Ok(())
        })
        .unwrap();
        assert_eq!(flags, [false, true, true]);
    }
}
