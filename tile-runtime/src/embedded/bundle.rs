//! Bundles as bytes: made, read and compared.
//!
//! ```text
//! magic "TILEPACK" | format, u8 | BLAKE3 of all the rest | number of items, u32
//! item: length, u32 | what it is, JSON | length, u64 | an entry of the cache, with its whole key
//! ```

use crate::cache::{Entry, Key};
use crate::error::Error;
use crate::kernel::{Definition, Target, Variant};
use crate::kernel::{code_for_bundle, instance_text, key_for_bundle, slot};
use serde::{Deserialize, Serialize};
use tile_ir::ir::{Class, Dtype, Instance};

const MAGIC: &[u8; 8] = b"TILEPACK";
const FORMAT: u8 = 1;
const HEADER: usize = MAGIC.len() + 1 + 32;

/// One kernel of a bundle, without its code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// The kernel's name.
    pub kernel: String,
    /// The instance as an author writes it, with specialised dims, alignment class and tensors that are left out.
    pub instance: String,
    /// What was asked for.
    pub chosen: Chosen,
    /// The target that it was lowered for.
    pub target: Target,
    /// What it was compiled for: `sm_90a`.
    pub architecture: String,
    /// The NVRTC that compiled it, in words; empty where the cache had it and there was no NVRTC.
    pub compiler: String,
    /// Bytes of machine code.
    pub bytes: u64,
    /// The hash of all that the code depends on but the compiler.
    pub hash: String,
}

/// An instance as a bundle remembers it, to be found again in a kernel whose instances have changed places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// One dtype a type parameter.
    pub dtypes: Vec<Dtype>,
    /// One value a const parameter; a bool is 0 or 1.
    pub consts: Vec<i64>,
    /// The values of specialised dims, by name.
    pub dims: Vec<(String, i64)>,
    /// The alignment class.
    pub class: Class,
    /// The optional tensors that it leaves out.
    pub absent: Vec<String>,
}

impl Chosen {
    /// Calls `f` with this instance of a kernel.
    fn with<R>(&self, def: &'static Definition, f: impl FnOnce(Variant<'_>) -> Result<R, Error>) -> Result<R, Error> {
        let kernel = def.kernel()?;
        let same = |instance: &Instance| instance.dtypes == self.dtypes && instance.consts == self.consts;
        let instance = kernel.instances.iter().position(same).ok_or_else(|| Error::Instance {
            kernel: def.name().into(),
            asked: instance_text(
                kernel,
                &Instance { dtypes: self.dtypes.clone(), consts: self.consts.clone(), ..Instance::default() },
            ),
            declared: format!("{} others", kernel.instances.len()),
        })?;
        let dims: Vec<(&str, i64)> = self.dims.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let absent: Vec<&str> = self.absent.iter().map(String::as_str).collect();
        f(Variant { instance, dims: &dims, class: self.class, absent: &absent })
    }
}

impl Item {
    /// The hash of what the kernel is now: [`Item::hash`], where the item is not stale. Nothing is compiled.
    ///
    /// # Errors
    /// The kernel has no such instance any more, or it cannot be lowered.
    pub fn current(&self, def: &'static Definition) -> Result<String, Error> {
        let key = self.chosen.with(def, |which| key_for_bundle(def, which, self.target, &self.architecture))?;
        Ok(key.prefix())
    }

    /// The version of the kernel that it was made of: the first twelve digits of [`Item::hash`].
    pub fn version(&self) -> &str {
        version(&self.hash)
    }
}

/// The first twelve digits of a hash.
pub(super) fn version(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// Kernels to be embedded.
#[derive(Clone, Debug, Default)]
pub struct Bundle {
    items: Vec<(Item, Vec<u8>)>,
}

impl Bundle {
    /// A bundle without kernels.
    pub fn new() -> Bundle {
        Bundle::default()
    }

    /// Adds an instance for a target: compiled, or taken from the cache. One that is already there is replaced. A program
    /// launches the widest alignment class that its tensors allow, so tensors of other alignments need their classes too.
    ///
    /// `architecture` is what NVRTC compiles for; `None` is the target's name. Code for `sm_80` runs on devices of compute
    /// capability 8.0, 8.6 and 8.9; name `sm_89` to have the kernel compiled for such a device, as a launch would. A kernel that is declared for
    /// `sm_80` alone is compiled for `sm_90` on Hopper.
    ///
    /// # Errors
    /// The instance cannot be lowered for this target; NVRTC is missing or refuses the architecture.
    pub fn add<'a>(
        &mut self,
        def: &'static Definition,
        which: impl Into<Variant<'a>>,
        target: Target,
        architecture: Option<&str>,
    ) -> Result<&Item, Error> {
        let which = which.into();
        let architecture = architecture.unwrap_or(target.name());
        let (kernel, instance) = which.instance(def)?;
        let (key, entry) = code_for_bundle(def, which, target, architecture)?;
        let item = Item {
            kernel: def.name().into(),
            instance: slot(kernel, &instance),
            chosen: Chosen {
                dtypes: instance.dtypes.clone(),
                consts: instance.consts.clone(),
                dims: which.dims.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
                class: which.class,
                absent: which.absent.iter().map(|name| (*name).to_owned()).collect(),
            },
            target,
            architecture: architecture.into(),
            compiler: key.compiler().unwrap_or_default().into(),
            bytes: entry.code.len() as u64,
            hash: key.prefix(),
        };
        let same = |other: &Item| {
            (&other.kernel, &other.instance, &other.architecture) == (&item.kernel, &item.instance, &item.architecture)
        };
        self.items.retain(|(other, _)| !same(other));
        self.items.push((item, entry.encode(&key.preimage())));
        let last = self.items.last().map(|(item, _)| item);
        last.ok_or_else(|| Error::Embedded { problem: "the bundle is empty".into() })
    }

    /// Adds what `item`, of another bundle, is of this kernel now.
    ///
    /// # Errors
    /// As [`Bundle::add`]; the kernel has no such instance any more.
    pub fn add_again(&mut self, def: &'static Definition, item: &Item) -> Result<(), Error> {
        let add = |which: Variant<'_>| self.add(def, which, item.target, Some(&item.architecture)).map(|_| ());
        item.chosen.with(def, add)
    }

    /// The kernels, in order.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.iter().map(|(item, _)| item)
    }

    /// The bundle as [`add`](super::add) takes it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body = (self.items.len() as u32).to_le_bytes().to_vec();
        for (item, entry) in &self.items {
            // Strings and numbers: there is nothing that JSON could refuse.
            let head = serde_json::to_vec(item).unwrap_or_default();
            body.extend((head.len() as u32).to_le_bytes());
            body.extend(head);
            body.extend((entry.len() as u64).to_le_bytes());
            body.extend(entry);
        }
        [MAGIC.as_slice(), &[FORMAT], blake3::hash(&body).as_bytes(), &body].concat()
    }

    /// Reads a bundle.
    ///
    /// # Errors
    /// [`Error::Embedded`]: the bytes are damaged or no bundle, or of another version of the format.
    pub fn read(bytes: &[u8]) -> Result<Bundle, Error> {
        let parsed = parse(bytes)?;
        Ok(Bundle { items: parsed.into_iter().map(|p| (p.item, p.entry.to_vec())).collect() })
    }
}

/// An item of a bundle that is read in place.
pub(super) struct Parsed<'b> {
    pub item: Item,
    entry: &'b [u8],
}

impl Parsed<'_> {
    /// Its code, if it is undamaged and that of `key`.
    pub fn entry(&self, key: &Key) -> Option<Entry> {
        Entry::decode(self.entry, |stored| key.matches(stored)).ok()
    }
}

/// The items of a bundle.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Parsed<'_>>, Error> {
    let wrong = |problem: &str| Error::Embedded { problem: problem.into() };
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("this is no bundle of kernels"))?;
    let format = rest.first().copied().ok_or_else(|| wrong("the bundle is cut short"))?;
    if format != FORMAT {
        return Err(Error::Embedded {
            problem: format!("the bundle has format {format}, this program reads format {FORMAT}; export it again"),
        });
    }
    let (header, body) = bytes.split_at_checked(HEADER).ok_or_else(|| wrong("the bundle is cut short"))?;
    if blake3::hash(body).as_bytes() != &header[HEADER - 32..] {
        return Err(wrong("the bundle is damaged: its checksum is wrong"));
    }
    let mut rest = body;
    let mut items = Vec::new();
    let count = take(&mut rest, 4).map(number).ok_or_else(|| wrong("the bundle is cut short"))?;
    for _ in 0..count {
        let head = take(&mut rest, 4).map(number).and_then(|length| take(&mut rest, length));
        let head = head.ok_or_else(|| wrong("the bundle is cut short"))?;
        let item = serde_json::from_slice(head).map_err(|e| wrong(&format!("an item cannot be read: {e}")))?;
        let entry = take(&mut rest, 8).map(number).and_then(|length| take(&mut rest, length));
        items.push(Parsed { item, entry: entry.ok_or_else(|| wrong("the bundle is cut short"))? });
    }
    if !rest.is_empty() {
        return Err(wrong("the bundle is longer than it says"));
    }
    Ok(items)
}

/// The next bytes.
fn take<'b>(rest: &mut &'b [u8], length: u64) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = left;
    Some(taken)
}

/// A number, the lowest byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A bundle of these items and their entries.
#[cfg(test)]
pub(super) fn of(items: Vec<(Item, Vec<u8>)>) -> Bundle {
    Bundle { items }
}
