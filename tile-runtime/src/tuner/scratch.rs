//! Copies of a call's tensors.

use crate::allocation::Allocation;
use crate::device::Device;
use crate::error::Error;
use crate::kernel::{Argument, Dtype, TensorRef};
use crate::layout::Rows;
use std::sync::Arc;

/// The tensors that stand in for a call's own: `None` where the caller's is used.
pub(super) struct Scratch {
    pub tensors: Vec<Option<Owned>>,
}

/// A tensor of ours.
pub(super) struct Owned {
    memory: Arc<Allocation>,
    /// Bytes before the first element: what keeps the alignment of the caller's.
    offset: u64,
    pub dtype: Dtype,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// Addresses keep their remainder by this: no vector access is wider, and no sector.
const ALIGNMENT: u64 = 256;

impl Owned {
    fn view(&self) -> TensorRef<'_> {
        TensorRef::over(&self.memory, self.offset, self.dtype, &self.shape, &self.strides)
    }

    /// Elements from the first to one past the last, gaps included.
    pub fn elements(&self) -> usize {
        (self.view().bytes() / u64::from(self.dtype.bytes())) as usize
    }

    /// What the memory holds from the first element to the last, gaps included.
    pub fn read_memory(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.view().bytes() as usize];
        self.memory.download(&mut bytes, &row(self.offset, self.view().bytes()), 1)?;
        Ok(bytes)
    }

    fn write_memory(&self, bytes: &[u8]) -> Result<(), Error> {
        self.memory.upload(bytes, &row(self.offset, bytes.len() as u64), 1)
    }
}

/// `bytes` bytes from `offset`.
fn row(offset: u64, bytes: u64) -> Rows {
    let width = bytes as usize;
    Rows { width, rows: 1, pitch: width, starts: vec![offset as usize] }
}

impl Scratch {
    /// Copies of those arguments that `copied` names: as the caller's in shape, strides, alignment and content.
    pub fn copy(device: &Device, args: &[Argument<'_>], copied: impl Fn(usize) -> bool) -> Result<Scratch, Error> {
        let one = |(i, arg): (usize, &Argument<'_>)| match arg {
            Argument::Tensor(tensor) if copied(i) => {
                let offset = tensor.address() % ALIGNMENT;
                let memory = Arc::new(Allocation::new(device.state, (offset + tensor.bytes()) as usize, false)?);
                let (to, from) = (row(offset, tensor.bytes()), row(tensor.offset(), tensor.bytes()));
                if tensor.bytes() > 0 {
                    Allocation::copy(&memory, &to, tensor.allocation(), &from, 1)?;
                }
                let (shape, strides) = (tensor.shape().to_vec(), tensor.strides().to_vec());
                Ok(Some(Owned { memory, offset, dtype: tensor.dtype(), shape, strides }))
            }
            _ => Ok(None),
        };
        Ok(Scratch { tensors: args.iter().enumerate().map(one).collect::<Result<_, Error>>()? })
    }

    /// Dense copies of the first `shapes` elements on each axis.
    pub fn corner(device: &Device, args: &[Argument<'_>], shapes: &[Vec<i64>]) -> Result<Scratch, Error> {
        let one = |(arg, shape): (&Argument<'_>, &Vec<i64>)| match arg {
            Argument::Tensor(tensor) => {
                let part =
                    TensorRef::over(tensor.allocation(), tensor.offset(), tensor.dtype(), shape, tensor.strides());
                Owned::dense(device, tensor.dtype(), shape, &part.read()?).map(Some)
            }
            Argument::Scalar(_) | Argument::Absent => Ok(None),
        };
        Ok(Scratch { tensors: args.iter().zip(shapes).map(one).collect::<Result<_, Error>>()? })
    }

    /// Dense copies on another device.
    pub fn to_device(&self, device: &Device) -> Result<Scratch, Error> {
        let one = |owned: &Option<Owned>| match owned {
            Some(owned) => Owned::dense(device, owned.dtype, &owned.shape, &owned.view().read()?).map(Some),
            None => Ok(None),
        };
        Ok(Scratch { tensors: self.tensors.iter().map(one).collect::<Result<_, Error>>()? })
    }

    /// The call with these tensors instead of the caller's.
    pub fn args<'s>(&'s self, args: &'s [Argument<'s>]) -> Vec<Argument<'s>> {
        let one = |(arg, owned): (&Argument<'s>, &'s Option<Owned>)| match owned {
            Some(owned) => Argument::Tensor(owned.view()),
            None => *arg,
        };
        args.iter().zip(&self.tensors).map(one).collect()
    }

    /// Gives the tensors this content, gaps included; where there is none they are left.
    pub fn restore(&self, content: &[Option<Vec<u8>>]) -> Result<(), Error> {
        for (owned, bytes) in self.tensors.iter().zip(content) {
            if let (Some(owned), Some(bytes)) = (owned, bytes) {
                owned.write_memory(bytes)?;
            }
        }
        Ok(())
    }

    /// The elements of the written tensors, packed.
    pub fn read(&self, writes: &[bool]) -> Result<Vec<Vec<u8>>, Error> {
        let written = self.tensors.iter().zip(writes).filter(|(_, writes)| **writes);
        written.filter_map(|(owned, _)| owned.as_ref()).map(|owned| owned.view().read()).collect()
    }

    /// Bytes of all of its tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().flatten().map(|owned| owned.view().bytes()).sum()
    }

    /// Bytes of the tensors among a call's arguments.
    pub fn bytes_of(args: &[Argument<'_>]) -> u64 {
        let bytes = |arg: &Argument<'_>| match arg {
            Argument::Tensor(tensor) => tensor.bytes(),
            Argument::Scalar(_) | Argument::Absent => 0,
        };
        args.iter().map(bytes).sum()
    }
}

impl Owned {
    /// A dense tensor with this packed content.
    fn dense(device: &Device, dtype: Dtype, shape: &[i64], bytes: &[u8]) -> Result<Owned, Error> {
        let mut strides = vec![1; shape.len()];
        for axis in (0..shape.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * shape[axis + 1].max(1);
        }
        let memory = Arc::new(Allocation::new(device.state, bytes.len(), false)?);
        let owned = Owned { memory, offset: 0, dtype, shape: shape.to_vec(), strides };
        owned.write_memory(bytes)?;
        Ok(owned)
    }
}
