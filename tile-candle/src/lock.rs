//! Ready ops' way past candle's check that all operands are on one device.
//!
//! For each operand beside the first that check takes and gives back three shares of everything that a CUDA device of candle
//! holds, 42 atomic additions, which is most of what candle's dispatch costs. What is lent is checked again anyway: memory of
//! another context is refused. So candle is shown an op of one tensor, the result that is there or, where it is to be made, the first
//! operand, and the others are locked here.
//!
//! Locks are taken in the order of the storages' addresses, which is the order in which candle takes those of an in-place op,
//! and each storage is locked once. So neither two such ops on two threads wait for each other, nor one for itself.

use crate::Lies;
use crate::op::Forward;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, CustomOp1, InplaceOp1, Layout, Result, Shape, Storage, Tensor, bail};
use parking_lot::RwLockReadGuard;

/// An operand of an op, and how it lies.
pub(crate) type Operand<'a> = (&'a Tensor, Lies<'a>);

/// The operands of an op, and the locks of their storages.
struct Others<'a, const N: usize> {
    operands: [Operand<'a>; N],
    addresses: [usize; N],
    /// The address of the storage that candle locks: the result's, or the first operand's.
    own: usize,
    /// Locks of the storages before that one.
    before: Locks<'a, N>,
}

type Locks<'a, const N: usize> = [Option<RwLockReadGuard<'a, Storage>>; N];

impl<'a, const N: usize> Others<'a, N> {
    fn beside(own: &Tensor, operands: [Operand<'a>; N]) -> Self {
        Others::with_addresses(address(own), operands, operands.map(|(tensor, _)| address(tensor)))
    }

    /// The operands but the first, which candle locks.
    fn beside_first(operands: [Operand<'a>; N]) -> Self {
        let addresses = operands.map(|(tensor, _)| address(tensor));
        Others::with_addresses(addresses.first().copied().unwrap_or_default(), operands, addresses)
    }

    fn with_addresses(own: usize, operands: [Operand<'a>; N], addresses: [usize; N]) -> Self {
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

    /// Calls `with` with each operand's storage and how it lies. No storage where it is the one that candle has locked.
    fn with<R>(&self, with: impl FnOnce([(Option<&Storage>, Lies<'_>); N]) -> R) -> R {
        let behind = self.lock(|address| address > self.own);
        with(std::array::from_fn(|i| {
            let first = self.first(i);
            (self.before[first].as_deref().or(behind[first].as_deref()), self.operands[i].1)
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
pub(crate) fn made<const N: usize>(operands: [Operand<'_>; N], op: &impl Forward<N>) -> Result<Tensor> {
    let Some((first, _)) = operands.first() else { bail!("{}: an op has an operand", op.op()) };
    first.apply_op1_no_bwd(&New { op, others: Others::beside_first(operands) })
}

struct New<'a, O, const N: usize> {
    op: &'a O,
    others: Others<'a, N>,
}

impl<O: Forward<N>, const N: usize> CustomOp1 for New<'_, O, N> {
    fn name(&self) -> &'static str {
        self.op.op()
    }

    fn cpu_fwd(&self, own: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.others.with(|operands| match all(operands.map(|(s, lies)| placed(s, Some(own), on_cpu, lies))) {
            Some(operands) => self.op.cpu_new(operands),
            None => elsewhere(self.op.op()),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, own: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.others.with(|operands| match all(operands.map(|(s, lies)| placed(s, Some(own), on_cuda, lies))) {
            Some(operands) => self.op.cuda_new(operands),
            None => elsewhere(self.op.op()),
        })
    }
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
        self.others.with(|operands| match all(operands.map(|(s, lies)| placed(s, None, on_cpu, lies))) {
            Some(operands) => self.op.cpu_into(sy, ly, operands),
            None => elsewhere(self.op.op()),
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, sy: &mut CudaStorage, ly: &Layout) -> Result<()> {
        self.others.with(|operands| match all(operands.map(|(s, lies)| placed(s, None, on_cuda, lies))) {
            Some(operands) => self.op.cuda_into(sy, ly, operands),
            None => elsewhere(self.op.op()),
        })
    }
}

/// An operand, if it is on a device of this kind: in its storage, or in the one that candle has locked.
fn placed<'s, S>(
    storage: Option<&'s Storage>,
    own: Option<&'s S>,
    kind: impl FnOnce(&'s Storage) -> Option<&'s S>,
    lies: Lies<'s>,
) -> Option<(&'s S, Lies<'s>)> {
    storage.map_or(own, kind).map(|storage| (storage, lies))
}

fn on_cpu(storage: &Storage) -> Option<&CpuStorage> {
    if let Storage::Cpu(storage) = storage { Some(storage) } else { None }
}

#[cfg(feature = "cuda")]
fn on_cuda(storage: &Storage) -> Option<&CudaStorage> {
    if let Storage::Cuda(storage) = storage { Some(storage) } else { None }
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
                let known = others.with(|all| all.map(|(storage, _)| storage.map(|s| std::ptr::from_ref(s).addr())));
                let expected = (address(a) != address(own)).then(|| address(a));
                assert_eq!(known, [expected; 2], "the one that candle locks is not given");
            }
        }
        Ok(())
    }
}
