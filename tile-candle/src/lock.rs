//! Ready ops' way past candle's check that all operands are on one device.
//!
//! For each operand beside the first that check takes and gives back three shares of everything that a CUDA device of candle
//! holds, 42 atomic additions, which is most of what candle's dispatch costs. What is lent is checked again anyway: memory of
//! another context is refused. So candle is shown an op of one tensor, and the other operands are locked here.
//!
//! Locks are taken in the order of the storages' addresses, which is the order in which candle takes those of an in-place op,
//! and each storage is locked once. So neither two such ops on two threads wait for each other, nor one for itself.

use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, InplaceOp1, InplaceOp3, Layout, Result, Shape, Storage, Tensor, bail,
};
use parking_lot::RwLockReadGuard;

/// The operands of an op beside the one that candle knows of, and how they lie.
struct Others<'a, const N: usize> {
    operands: [(&'a Tensor, &'a Layout); N],
    addresses: [usize; N],
    /// The address of the storage that candle locks.
    own: usize,
    /// Locks of the storages before that one.
    before: Locks<'a, N>,
}

type Locks<'a, const N: usize> = [Option<RwLockReadGuard<'a, Storage>>; N];

impl<'a, const N: usize> Others<'a, N> {
    fn beside(own: &Tensor, operands: [(&'a Tensor, &'a Layout); N]) -> Self {
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

    /// Calls `with` with each operand's storage, `None` where it is the one that candle has locked.
    fn with<R>(&self, with: impl FnOnce([Option<&Storage>; N]) -> R) -> R {
        let behind = self.lock(|address| address > self.own);
        with(std::array::from_fn(|i| {
            let first = self.first(i);
            self.before[first].as_deref().or(behind[first].as_deref())
        }))
    }
}

/// The address of a tensor's storage.
fn address(tensor: &Tensor) -> usize {
    std::ptr::from_ref::<Storage>(&tensor.storage_and_layout().0).addr()
}

/// `op` in place, of `result` and two operands.
pub(crate) fn in_place<C: InplaceOp3>(result: &Tensor, operands: [(&Tensor, &Layout); 2], op: &C) -> Result<()> {
    let others = Others::beside(result, operands);
    if others.addresses.contains(&others.own) {
        bail!("{}: the result shares its storage with an operand", op.name());
    }
    result.inplace_op1(&InPlace { op, others })
}

struct InPlace<'a, C> {
    op: &'a C,
    others: Others<'a, 2>,
}

impl<C: InplaceOp3> InplaceOp1 for InPlace<'_, C> {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn cpu_fwd(&self, sy: &mut CpuStorage, ly: &Layout) -> Result<()> {
        let [(_, la), (_, lb)] = self.others.operands;
        self.others.with(|storages| match storages {
            [Some(Storage::Cpu(sa)), Some(Storage::Cpu(sb))] => self.op.cpu_fwd(sy, ly, sa, la, sb, lb),
            _ => elsewhere(self.op.name()),
        })
    }

    fn cuda_fwd(&self, sy: &mut CudaStorage, ly: &Layout) -> Result<()> {
        let [(_, la), (_, lb)] = self.others.operands;
        self.others.with(|storages| match storages {
            [Some(Storage::Cuda(sa)), Some(Storage::Cuda(sb))] => self.op.cuda_fwd(sy, ly, sa, la, sb, lb),
            _ => elsewhere(self.op.name()),
        })
    }
}

/// `op` of two operands, to a new tensor.
pub(crate) fn made<C: CustomOp2>([a, b]: [(&Tensor, &Layout); 2], op: &C) -> Result<Tensor> {
    a.0.apply_op1_no_bwd(&Made { op, layout: a.1, others: Others::beside(a.0, [b]) })
}

struct Made<'a, C> {
    op: &'a C,
    /// How the first operand lies.
    layout: &'a Layout,
    others: Others<'a, 1>,
}

impl<C: CustomOp2> CustomOp1 for Made<'_, C> {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    fn cpu_fwd(&self, sa: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        let [(_, lb)] = self.others.operands;
        self.others.with(|storages| match storages {
            [None] => self.op.cpu_fwd(sa, self.layout, sa, lb),
            [Some(Storage::Cpu(sb))] => self.op.cpu_fwd(sa, self.layout, sb, lb),
            _ => elsewhere(self.op.name()),
        })
    }

    fn cuda_fwd(&self, sa: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        let [(_, lb)] = self.others.operands;
        self.others.with(|storages| match storages {
            [None] => self.op.cuda_fwd(sa, self.layout, sa, lb),
            [Some(Storage::Cuda(sb))] => self.op.cuda_fwd(sa, self.layout, sb, lb),
            _ => elsewhere(self.op.name()),
        })
    }
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
                let others = Others::beside(own, [(a, a.layout()), (&part, part.layout())]);
                // Before candle locks its own, those at lower addresses, and a storage for the first operand that has it.
                let locked = others.before.each_ref().map(Option::is_some);
                assert_eq!(locked, [address(a) < address(own), false]);
                let known = others.with(|storages| storages.map(|s| s.map(|s| std::ptr::from_ref(s).addr())));
                let expected = (address(a) != address(own)).then(|| address(a));
                assert_eq!(known, [expected; 2], "the one that candle locks is its own to give");
            }
        }
        Ok(())
    }
}
