//! The variants of a specialised kernel: for each instance and device, the prepared kernels of the dim values launched
//! most recently.
//!
//! A variant belongs to whoever launches it: one that is dropped here lives on in the launches and graphs that hold it,
//! and is unloaded with the last of them.

use super::argument::Argument;
use super::definition::Definition;
use super::prepared::Prepared;
use crate::launch_error::Problem;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tile_ir::ir::{DimId, EntityRef, Extent, Kernel, ParamKind, Specialize};

/// A prepared kernel, by whom it is kept.
#[derive(Clone)]
pub(crate) enum Shared {
    /// For the life of the process.
    Always(&'static Prepared),
    /// As long as it is among the variants, or in use.
    Counted(Arc<Prepared>),
}

impl Deref for Shared {
    type Target = Prepared;

    #[inline]
    fn deref(&self) -> &Prepared {
        match self {
            Shared::Always(prepared) => prepared,
            Shared::Counted(prepared) => prepared,
        }
    }
}

/// Where a launch finds the values of specialised dims, and how many variants of an instance a device keeps.
#[derive(Clone, Copy, Debug)]
pub struct Specialized {
    /// For each dim, in the order of `specialize(..)`: a tensor parameter and the axis that has the dim.
    pub places: &'static [(u8, u8)],
    /// The most variants of an instance on a device; beyond it, the one launched least recently is dropped.
    pub max: u32,
}

/// The values of specialised dims, in the order of `specialize(..)`; 0 beyond.
pub(crate) type DimValues = [i64; Specialize::MOST_DIMS];

impl Specialized {
    /// The values in a launch's arguments.
    #[inline]
    pub(crate) fn values(&self, def: &'static Definition, args: &[Argument<'_>]) -> Result<DimValues, Box<Problem>> {
        let mut values = [0; Specialize::MOST_DIMS];
        for (value, (param, axis)) in values.iter_mut().zip(self.places) {
            let found = match args.get(usize::from(*param)) {
                Some(Argument::Tensor(tensor)) => tensor.shape().get(usize::from(*axis)).copied(),
                _ => None,
            };
            match found {
                Some(extent) if extent as u64 <= i32::MAX as u64 => *value = extent,
                found => return Err(unfit(def, args, usize::from(*param), usize::from(*axis), found)),
            }
        }
        Ok(values)
    }
}

/// What is wrong with the argument that gives a specialised dim its value.
#[cold]
fn unfit(
    def: &'static Definition,
    args: &[Argument<'_>],
    param: usize,
    axis: usize,
    found: Option<i64>,
) -> Box<Problem> {
    let kernel = match def.kernel() {
        Ok(kernel) => kernel,
        Err(error) => return Box::new(Problem::Prepare(error)),
    };
    let declared = kernel.params.values().nth(param);
    let argument = declared.map_or_else(String::new, |p| p.name.clone());
    let expected = match declared.map(|p| &p.kind) {
        Some(ParamKind::Tensor { shape, .. }) => shape.len(),
        _ => 0,
    };
    Box::new(match (found, args.get(param)) {
        _ if args.len() != kernel.params.len() => {
            Problem::ArgumentCount { expected: kernel.params.len(), found: args.len() }
        }
        (Some(found @ ..0), _) => Problem::NegativeExtent { argument, axis, found },
        (Some(found), _) => Problem::ExtentRange { argument, axis, found },
        (None, Some(Argument::Tensor(tensor))) => Problem::Rank { argument, expected, found: tensor.shape().len() },
        (None, other) => Problem::Kind {
            argument,
            expected: format!("a tensor with {expected} axes"),
            found: other.map_or_else(String::new, Argument::describe),
        },
    })
}

/// Refuses arguments that disagree about a specialised dim before a variant is compiled for one of them.
pub(crate) fn agree(
    kernel: &Kernel,
    specialized: &Specialized,
    values: &DimValues,
    args: &[Argument<'_>],
) -> Result<(), Problem> {
    for ((dim, (first, first_axis)), value) in kernel.specialized().iter().zip(specialized.places).zip(values) {
        for (param, argument) in kernel.params.values().zip(args) {
            let (ParamKind::Tensor { shape, .. }, Argument::Tensor(tensor)) = (&param.kind, argument) else { continue };
            for (axis, (extent, found)) in shape.iter().zip(tensor.shape()).enumerate() {
                if *extent == Extent::Dim(*dim) && found != value {
                    let first = kernel.params.values().nth(usize::from(*first));
                    return Err(Problem::NamedExtent {
                        dim: kernel.dims[*dim].name.clone(),
                        first: first.map_or_else(String::new, |p| p.name.clone()),
                        first_axis: usize::from(*first_axis),
                        expected: *value,
                        argument: param.name.clone(),
                        axis,
                        found: *found,
                    });
                }
            }
        }
    }
    Ok(())
}

/// The dims of a kernel's `specialize(..)` with these values.
pub(crate) fn dims(kernel: &Kernel, values: &DimValues) -> Vec<(DimId, i64)> {
    kernel.specialized().iter().copied().zip(values.iter().copied()).collect()
}

/// The values of these dims as a key, in the order of `specialize(..)`.
pub(crate) fn key(kernel: &Kernel, dims: &[(DimId, i64)]) -> DimValues {
    let mut values = [0; Specialize::MOST_DIMS];
    for (value, dim) in values.iter_mut().zip(kernel.specialized()) {
        *value = dims.iter().find(|(d, _)| d.index() == dim.index()).map_or(0, |(_, v)| *v);
    }
    values
}

/// The variants of one instance, on all devices.
pub(crate) struct Variants {
    kept: RwLock<Vec<Variant>>,
    /// Counts launches: what was launched when.
    clock: AtomicU64,
}

struct Variant {
    slot: u32,
    values: DimValues,
    /// The clock at its latest launch.
    used: AtomicU64,
    prepared: Arc<Prepared>,
}

impl Variants {
    pub const fn new() -> Variants {
        Variants { kept: RwLock::new(Vec::new()), clock: AtomicU64::new(0) }
    }

    /// The variant for these values on the device with this slot, without the parameters of `absent`: a shared lock, and a short scan.
    #[inline]
    pub fn find(&self, slot: u32, absent: u64, values: &DimValues) -> Option<Arc<Prepared>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        let variant = kept.iter().find(|v| v.values == *values && v.slot == slot && v.prepared.absent == absent)?;
        variant.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(Arc::clone(&variant.prepared))
    }

    /// Keeps a variant, unless another thread has been faster: then that one is used. Beyond `max` on its device, the
    /// one launched least recently is dropped.
    pub fn insert(&self, values: &DimValues, prepared: Prepared, max: u32) -> Arc<Prepared> {
        let slot = prepared.slot;
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(faster) =
            kept.iter().find(|v| v.values == *values && v.slot == slot && v.prepared.absent == prepared.absent)
        {
            return Arc::clone(&faster.prepared);
        }
        let mut dropped = None;
        let here = |kept: &[Variant]| kept.iter().filter(|v| v.slot == slot).count();
        if here(&kept) >= max.max(1) as usize {
            let oldest = kept.iter().enumerate().filter(|(_, v)| v.slot == slot);
            let oldest = oldest.min_by_key(|(_, v)| v.used.load(Ordering::Relaxed)).map(|(at, _)| at);
            dropped = oldest.map(|at| kept.swap_remove(at));
        }
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        let prepared = Arc::new(prepared);
        kept.push(Variant { slot, values: *values, used, prepared: Arc::clone(&prepared) });
        drop(kept);
        // Unloading waits for the device: without the lock.
        drop(dropped);
        prepared
    }

    /// How many are kept.
    pub fn count(&self) -> usize {
        self.kept.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}
