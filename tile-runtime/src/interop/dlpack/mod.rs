//! Tensors of other libraries, in and out, without a copy: [DLPack](https://dmlc.github.io/dlpack/latest/).
//!
//! [`Managed`] is a tensor in DLPack's form, with the duty to let it go; [`import`] makes a [`Tensor`](crate::Tensor) of it,
//! [`export`] the reverse. Memory of a CUDA device is a tensor of that device; memory of the host is one of a simulator,
//! which uses it in place.

pub mod abi;
mod export;
mod import;

pub use export::export;
pub use import::import;

use crate::error::Error;
use abi::{
    BFLOAT, BOOL, DLDataType, DLManagedTensor, DLManagedTensorVersioned, DLTensor, FLOAT, INT, READ_ONLY, UINT, VERSION,
};
use std::ptr::NonNull;
use tile_ir::ir::{Dtype, DtypeClass, FloatFormat};

/// A tensor in DLPack's form. Whoever has it lets it go by dropping it: its deleter is called once.
#[derive(Debug)]
pub struct Managed(Raw);

#[derive(Clone, Copy, Debug)]
enum Raw {
    Plain(NonNull<DLManagedTensor>),
    Versioned(NonNull<DLManagedTensorVersioned>),
}

// SAFETY: the constructors ask that the structure may be read and let go on any thread.
unsafe impl Send for Managed {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Managed {}

impl Managed {
    /// Takes over the tensor of a `"dltensor"` capsule.
    ///
    /// # Safety
    /// A valid structure of DLPack, that nobody else lets go; its deleter may be called on any thread.
    ///
    /// # Errors
    /// A null pointer.
    pub unsafe fn from_raw(tensor: *mut DLManagedTensor) -> Result<Managed, Error> {
        NonNull::new(tensor).map(|tensor| Managed(Raw::Plain(tensor))).ok_or_else(null)
    }

    /// Takes over the tensor of a `"dltensor_versioned"` capsule.
    ///
    /// # Safety
    /// As [`Managed::from_raw`].
    ///
    /// # Errors
    /// A null pointer; another major version than 1, whose tensor is let go.
    pub unsafe fn from_raw_versioned(tensor: *mut DLManagedTensorVersioned) -> Result<Managed, Error> {
        let tensor = NonNull::new(tensor).ok_or_else(null)?;
        let managed = Managed(Raw::Versioned(tensor));
        // SAFETY: the caller vouches for the structure, whose first fields are the same in every version.
        let version = unsafe { (*tensor.as_ptr()).version };
        match version.major == VERSION.major {
            true => Ok(managed),
            false => Err(problem(format!(
                "version {}.{}, and {}.x is understood",
                version.major, version.minor, VERSION.major
            ))),
        }
    }

    /// Gives the tensor to a `"dltensor"` capsule, whose owner calls the deleter.
    ///
    /// # Errors
    /// It has the versioned form.
    pub fn into_raw(self) -> Result<*mut DLManagedTensor, Error> {
        match self.0 {
            Raw::Plain(tensor) => {
                std::mem::forget(self);
                Ok(tensor.as_ptr())
            }
            Raw::Versioned(_) => Err(problem("it has the versioned form, and the other is asked for")),
        }
    }

    /// Gives the tensor to a `"dltensor_versioned"` capsule, whose owner calls the deleter.
    ///
    /// # Errors
    /// It has the form without a version.
    pub fn into_raw_versioned(self) -> Result<*mut DLManagedTensorVersioned, Error> {
        match self.0 {
            Raw::Versioned(tensor) => {
                std::mem::forget(self);
                Ok(tensor.as_ptr())
            }
            Raw::Plain(_) => Err(problem("it has the form without a version, and the other is asked for")),
        }
    }

    /// The tensor.
    pub fn tensor(&self) -> &DLTensor {
        // SAFETY: the constructors ask for valid structures, which live until they are let go.
        unsafe {
            match self.0 {
                Raw::Plain(tensor) => &(*tensor.as_ptr()).dl_tensor,
                Raw::Versioned(tensor) => &(*tensor.as_ptr()).dl_tensor,
            }
        }
    }

    /// Whether the producer asks that it be not written. The form without a version cannot say so.
    pub fn is_read_only(&self) -> bool {
        match self.0 {
            Raw::Plain(_) => false,
            // SAFETY: as above.
            Raw::Versioned(tensor) => unsafe { (*tensor.as_ptr()).flags & READ_ONLY != 0 },
        }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: the structure is valid until its deleter is called, which happens here alone, and once.
        unsafe {
            match self.0 {
                Raw::Plain(tensor) => {
                    if let Some(deleter) = (*tensor.as_ptr()).deleter {
                        deleter(tensor.as_ptr());
                    }
                }
                Raw::Versioned(tensor) => {
                    if let Some(deleter) = (*tensor.as_ptr()).deleter {
                        deleter(tensor.as_ptr());
                    }
                }
            }
        }
    }
}

fn problem(text: impl Into<String>) -> Error {
    Error::Dlpack { problem: text.into() }
}

fn null() -> Error {
    problem("the pointer is null")
}

/// The element type as DLPack names it.
fn data_type(dtype: Dtype) -> DLDataType {
    let code = match dtype.class() {
        DtypeClass::Bool => BOOL,
        DtypeClass::Int(format) if format.signed => INT,
        DtypeClass::Int(_) => UINT,
        DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Binary32) => FLOAT,
        DtypeClass::Float(FloatFormat::Bfloat16) => BFLOAT,
    };
    DLDataType { code, bits: dtype.bits() as u8, lanes: 1 }
}

/// An element type in words.
fn name_of(DLDataType { code, bits, lanes }: DLDataType) -> String {
    let kind = match code {
        INT => "i",
        UINT => "u",
        FLOAT => "f",
        BFLOAT => "bf",
        BOOL => "bool",
        _ => return format!("type code {code} of {bits} bits"),
    };
    let one = if code == BOOL && bits == 8 { kind.to_owned() } else { format!("{kind}{bits}") };
    if lanes == 1 { one } else { format!("{one} x {lanes}") }
}

#[cfg(test)]
mod tests;
