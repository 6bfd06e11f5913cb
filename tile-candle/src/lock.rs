//! Ready ops' way past candle's check that all operands are on one device.
//!
//! For each operand beside the first that check takes and gives back three shares of everything that a CUDA device of candle
//! holds, 42 atomic additions, which is most of what candle's dispatch costs. What is lent is checked again anyway: memory of
//! another context is refused. So candle is shown an op in place of one tensor, the result, and the operands are locked here.
//!
//! Locks are taken in the order of the storages' addresses, which is the order in which candle takes those of an in-place op,
//! and each storage is locked once. So neither two such ops on two threads wait for each other, nor one for itself.

use crate::Lies;
use crate::op::Forward;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use parking_lot::RwLockReadGuard;

/// An operand of an op, and how it lies.
pub(crate) type Operand<'a> = (&'a Tensor, Lies<'a>);

/// The operands of an op, and the locks of their storages.
struct Others<'a, const N: usize> {
    operands: [Operand<'a>; N],
    addresses: [usize; N],
    /// The address of the result's storage, which candle locks.
    own: usize,
    /// Locks of the storages before that one.
    before: Locks<'a, N>,
}

type Locks<'a, const N: usize> = [Option<RwLockReadGuard<'a, Storage>>; N];

impl<'a, const N: usize> Others<'a, N> {
    fn beside(own: &Tensor, operands: [Operand<'a>; N]) -> Self {
        let (own, addresses) = (address(own), operands.map(|(tensor, _)| address(tensor)));
        let mut others = Others { operands, addresses, own, before: [const { None }; N] };
        others.before = others.lock(|address| address < own);
        others
    }

    /// Locks storages of these addresses, each for the first operand that has it.
    fn lock(&self, which: impl Fn(usize) -> bool) -> Locks<'a, N> {
        let mut order: [usize; N] = std::array::from_fn(|i| i);
        order.sort_unstable_by_key(|i| self.addresses[*i]);
        let mut locks = [const { None }; N];
        for i in order {
            if which(self.addresses[i]) && self.first(i) == i {
                locks[i] = Some(self.operands[i].0.storage_and_layout().0);
            }
        }
        locks
    }

    /// The first operand with this one's storage.
    fn first(&self, operand: usize) -> usize {
        (0..operand).find(|i| self.addresses[*i] == self.addresses[operand]).unwrap_or(operand)
    }

    /// Calls `with` with each operand's storage and how it lies. Nothing where an operand is in the storage that candle has locked.
    fn with<R>(&self, with: impl FnOnce([Option<(&Storage, Lies<'_>)>; N]) -> R) -> R {
        let behind = self.lock(|address| address > self.own);
        with(std::array::from_fn(|i| {
            let first = self.first(i);
            let storage = self.before[first].as_deref().or(behind[first].as_deref());
            storage.map(|storage| (storage, self.operands[i].1))
        }))
    }
}

/// The address of a tensor's storage.
fn address(tensor: &Tensor) -> usize {
    std::ptr::from_ref::<Storage>(&tensor.storage_and_layout().0).addr()
}

/// `op` of these operands, into `result`.
pub(crate) fn in_place<const N: usize>(
    result: &Tensor,
    operands: [Operand<'_>; N],
    op: &impl Forward<N>,
) -> Result<()> {
    let others = Others::beside(result, operands);
    if others.addresses.contains(&others.own) {
        bail!("{}: the result shares its storage with an operand", op.op());
    }
    result.inplace_op1(&InPlace { op, others })
}

/// `op` of these operands, one at least, into a new tensor.
pub(crate) fn made<const N: usize, O: Forward<N>>(operands: [Operand<'_>; N], op: &O) -> Result<Tensor> {
    let Some((beside, _)) = operands.first() else { bail!("{}: an op has an operand", op.op()) };
    let (shape, device) = (op.shape(operands.map(|(_, lies)| lies))?, beside.device());
    let result = match device.is_cuda() && op.whole() {
        // SAFETY: the launch writes every element before anybody reads one, on the device's stream, in whose order candle uses
        // the tensor too; where it fails, nobody gets the tensor.
        true => unsafe { Tensor::empty(shape, O::RESULT, device) },
        false => Tensor::zeros(shape, O::RESULT, device),
    }?;
    in_place(&result, operands, op)?;
    Ok(result)
}

struct InPlace<'a, O, const N: usize> {
    op: &'a O,
    others: Others<'a, N>,
}

impl<O: Forward<N>, const N: usize> InplaceOp1 for InPlace<'_, O, N> {
    fn name(&self) -> &'static str {
        self.op.op()
    }

    fn cpu_fwd(&self, sy: &mut CpuStorage, ly: &Layout) -> Result<()> {
        self.others.with(|operands| match all(operands.map(|operand| cpu(operand?))) {
            Some(operands) => self.op.cpu_into(sy, ly, operands),
            None => elsewhere(self.op.op()),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, sy: &mut CudaStorage, ly: &Layout) -> Result<()> {
        self.others.with(|operands| match all(operands.map(|operand| cuda(operand?))) {
            Some(operands) => self.op.cuda_into(sy, ly, operands),
            None => elsewhere(self.op.op()),
        })
    }
}

/// An operand on the CPU, if it is there.
fn cpu<'s>((storage, lies): (&'s Storage, Lies<'s>)) -> Option<(&'s CpuStorage, Lies<'s>)> {
    match storage {
        Storage::Cpu(storage) => Some((storage, lies)),
        _ => None,
    }
}

/// An operand on a CUDA device, if it is there.
#[cfg(feature = "cuda")]
fn cuda<'s>((storage, lies): (&'s Storage, Lies<'s>)) -> Option<(&'s CudaStorage, Lies<'s>)> {
    match storage {
        Storage::Cuda(storage) => Some((storage, lies)),
        _ => None,
    }
}

/// Every value, if none is missing.
fn all<V: Copy, const N: usize>(values: [Option<V>; N]) -> Option<[V; N]> {
    let some = values.iter().flatten().next().copied()?;
    values.iter().all(Option::is_some).then(|| values.map(|value| value.unwrap_or(some)))
}

/// The error of operands on devices of several kinds.
fn elsewhere<T>(op: &str) -> Result<T> {
    bail!("{op}: the tensors are on different devices")
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};

    #[test]
    fn storages_are_locked_once_in_the_order_of_their_addresses() -> Result<()> {
        let tensors: Vec<Tensor> =
            (0..4).map(|_| Tensor::zeros((2, 2), DType::F32, &Device::Cpu)).collect::<Result<_>>()?;
        for own in &tensors {
            for a in &tensors {
                let part = a.get(1)?;
                let others = Others::beside(own, [(a, a.layout().into()), (&part, part.layout().into())]);
                // Before candle locks its own, those at lower addresses, and a storage for the first operand that has it.
                let locked = others.before.each_ref().map(Option::is_some);
                assert_eq!(locked, [address(a) < address(own), false]);
                let known = others.with(|all| all.map(|operand| operand.map(|(s, _)| std::ptr::from_ref(s).addr())));
                let expected = (address(a) != address(own)).then(|| address(a));
                assert_eq!(known, [expected; 2], "the one that candle locks is not given");
            }
        }
        Ok(())
    }
}
