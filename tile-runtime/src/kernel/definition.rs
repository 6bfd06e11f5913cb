//! A kernel as expansion leaves it in the program, and its table of prepared instances.

use super::prepared::Prepared;
use super::variants::{Specialized, Variants};
use crate::error::Error;
use std::fmt;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};
use tile_ir::codec::{self, DecodeError};
use tile_ir::ir::{Class, ConstKind, Dtype, Instance, Kernel};

/// One kernel: its name and its tile IR. Expansion makes one `static` a kernel.
pub struct Definition {
    name: &'static str,
    ir: &'static [u8],
    kernel: OnceLock<Result<Kernel, DecodeError>>,
    /// Places of the instances, in the order of their dtypes and constants.
    sorted: OnceLock<Vec<u32>>,
}

impl Definition {
    /// A kernel encoded by `tile_ir::codec::encode`.
    pub const fn new(name: &'static str, ir: &'static [u8]) -> Self {
        Definition { name, ir, kernel: OnceLock::new(), sorted: OnceLock::new() }
    }

    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The kernel's encoded tile IR.
    pub fn bytes(&self) -> &'static [u8] {
        self.ir
    }

    /// The kernel's tile IR, decoded at the first call.
    ///
    /// # Errors
    /// The bytes were made by another version of this crate.
    pub fn kernel(&'static self) -> Result<&'static Kernel, Error> {
        let decoded = self.kernel.get_or_init(|| codec::decode(self.ir));
        decoded.as_ref().map_err(|source| Error::Decode { kernel: self.name.into(), source: source.clone() })
    }

    /// Instance `index` of the kernel.
    pub(crate) fn instance(&'static self, index: usize) -> Result<(&'static Kernel, &'static Instance), Error> {
        let kernel = self.kernel()?;
        let instance = kernel.instances.get(index).ok_or_else(|| Error::Instance {
            kernel: self.name.into(),
            asked: format!("number {index}"),
            declared: format!("{} instances", kernel.instances.len()),
        })?;
        Ok((kernel, instance))
    }

    /// The place of the instance with these dtypes, and these constants in the order of their declaration.
    fn place(&'static self, kernel: &'static Kernel, dtypes: &[Dtype], consts: &[(&str, i64)]) -> Option<usize> {
        let sorted = self.sorted.get_or_init(|| {
            let mut places: Vec<u32> = (0..kernel.instances.len() as u32).collect();
            let key = |place: u32| kernel.instances.get(place as usize).map(|i| (&i.dtypes, &i.consts));
            places.sort_by(|a, b| key(*a).cmp(&key(*b)));
            places
        });
        let of = |instance: &Instance| {
            let values = instance.consts.iter().copied().cmp(consts.iter().map(|(_, value)| *value));
            instance.dtypes[..].cmp(dtypes).then(values)
        };
        let found = sorted.binary_search_by(|place| {
            let instance = kernel.instances.get(*place as usize);
            instance.map_or(std::cmp::Ordering::Less, of)
        });
        found.ok().and_then(|at| sorted.get(at)).map(|place| *place as usize)
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Definition({})", self.name)
    }
}

/// An instance as an author writes it: `<f16> ROWS = 8`, with its specialised dims after it.
pub fn instance_text(kernel: &Kernel, instance: &Instance) -> String {
    let dtypes = instance.dtypes.iter().map(|d| d.name().to_string()).collect();
    let consts = instance.consts.iter().zip(kernel.consts.values()).map(|(value, param)| match param.kind {
        ConstKind::Bool => format!("{} = {}", param.name, *value != 0),
        ConstKind::Usize => format!("{} = {value}", param.name),
    });
    let parts: Vec<String> = std::iter::once::<Vec<String>>(dtypes)
        .filter(|d| !d.is_empty())
        .map(|d| format!("<{}>", d.join(", ")))
        .chain(std::iter::once(consts.collect::<Vec<_>>().join(", ")).filter(|c| !c.is_empty()))
        .collect();
    let dims = instance.dims.iter().map(|(dim, value)| {
        let name = kernel.dims.get(*dim).map_or("?", |d| d.name.as_str());
        format!("{name} = {value}")
    });
    let class = (!instance.class.is_widest()).then(|| format!("where {}", instance.class));
    let parts: Vec<String> = parts.into_iter().chain(dims).chain(class).collect();
    if parts.is_empty() { "the only one".into() } else { parts.join(" ") }
}

/// The index of the instance with these dtypes and constants, given by name in any order.
///
/// # Errors
/// There is none; the error lists the declared tuples for these dtypes, or all where the dtypes are the problem.
pub fn instance_index(def: &'static Definition, dtypes: &[Dtype], consts: &[(&str, i64)]) -> Result<usize, Error> {
    let kernel = def.kernel()?;
    let is_in_order = consts.len() == kernel.consts.len()
        && kernel.consts.values().zip(consts).all(|(param, (name, _))| param.name == **name);
    let found = if is_in_order {
        def.place(kernel, dtypes, consts)
    } else {
        let given = |name: &str| consts.iter().find(|(given, _)| *given == name).copied();
        let wanted: Option<Vec<(&str, i64)>> = kernel.consts.values().map(|param| given(&param.name)).collect();
        wanted.and_then(|consts| def.place(kernel, dtypes, &consts))
    };
    found.ok_or_else(|| {
        let asked =
            Instance { dtypes: dtypes.to_vec(), consts: vec![], dims: vec![], absent: vec![], class: Class::WIDEST };
        let named: Vec<String> = consts.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let asked = [instance_text(kernel, &asked), named.join(", ")].map(|t| t.replace("the only one", ""));
        let same: Vec<&Instance> = kernel.instances.iter().filter(|i| i.dtypes == dtypes).collect();
        let listed = if same.is_empty() { kernel.instances.iter().collect() } else { same };
        let mut declared: Vec<String> = listed.iter().take(40).map(|i| instance_text(kernel, i)).collect();
        if listed.len() > declared.len() {
            declared.push(format!("and {} more", listed.len() - declared.len()));
        }
        let asked = asked.iter().map(|t| t.trim()).filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" ");
        Error::Instance { kernel: def.name.into(), asked, declared: declared.join("; ") }
    })
}

/// The prepared records of a kernel's `N` declared instances: one list an instance, one record a device. Expansion makes
/// one `static` a kernel. A record is never removed, so finding one takes no lock; the variants of a specialised kernel
/// are.
pub struct InstanceTable<const N: usize> {
    first: [AtomicPtr<Prepared>; N],
    specialized: Option<Specialized>,
    variants: [Variants; N],
}

impl<const N: usize> InstanceTable<N> {
    /// An empty table.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self::with(None)
    }

    /// An empty table of a kernel with `specialize(..)`.
    pub const fn specialized(specialized: Specialized) -> Self {
        Self::with(Some(specialized))
    }

    const fn with(specialized: Option<Specialized>) -> Self {
        let first = [const { AtomicPtr::new(null_mut()) }; N];
        InstanceTable { first, specialized, variants: [const { Variants::new() }; N] }
    }

    /// How many variants of an instance are kept, over all devices: 0 where the kernel has no `specialize(..)`.
    pub fn variants(&self, instance: usize) -> usize {
        self.variants.get(instance).map_or(0, Variants::count)
    }

    #[inline]
    pub(crate) fn specialization(&'static self) -> Option<&'static Specialized> {
        self.specialized.as_ref()
    }

    #[inline]
    pub(crate) fn variants_of(&'static self, instance: usize) -> Option<&'static Variants> {
        self.variants.get(instance)
    }

    /// The record of an instance on the device with this slot, without the parameters whose bit is set in `absent`.
    #[inline]
    pub(crate) fn find(&'static self, instance: usize, slot: u32, absent: u64) -> Option<&'static Prepared> {
        let mut next = self.first.get(instance)?.load(Ordering::Acquire);
        // SAFETY: null or a record that was leaked before it was published.
        while let Some(prepared) = unsafe { next.as_ref::<'static>() } {
            if prepared.slot == slot && prepared.absent == absent {
                return Some(prepared);
            }
            next = prepared.next.load(Ordering::Acquire);
        }
        None
    }

    /// Publishes a record, unless another thread has been faster: then that one is used.
    pub(crate) fn insert(&'static self, instance: usize, prepared: Prepared) -> Option<&'static Prepared> {
        let first = self.first.get(instance)?;
        let (slot, absent) = (prepared.slot, prepared.absent);
        let new: &'static Prepared = Box::leak(Box::new(prepared));
        loop {
            let head = first.load(Ordering::Acquire);
            if let Some(existing) = self.find(instance, slot, absent) {
                return Some(existing);
            }
            new.next.store(head, Ordering::Relaxed);
            let pointer = std::ptr::from_ref(new).cast_mut();
            if first.compare_exchange(head, pointer, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Some(new);
            }
        }
    }
}
