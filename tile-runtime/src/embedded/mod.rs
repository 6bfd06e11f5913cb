//! Kernels compiled ahead of time and built into the program: it then runs on a machine without NVRTC.
//!
//! A [`Bundle`] holds the machine code of chosen instances, for chosen targets and alignment classes. `cargo tile export`
//! writes one; so can a build script, by [`Bundle::add`]. [`embed!`](crate::embed) includes it and makes it known:
//!
//! ```ignore
//! fn main() -> Result<(), tile_runtime::Error> {
//!     tile_runtime::embed!("kernels.tkb")?; // in the folder of Cargo.toml
//!     ..
//! }
//! ```
//!
//! From then on what a launch needs is looked for in the bundles first, then in the cache, and only then compiled: where a
//! bundle has it, NVRTC is not even looked for.
//!
//! # Versions
//!
//! Embedded code is used only where it is what the program itself would compile: the CUDA C, the symbol, the architecture and
//! the options are compared whole. Which NVRTC compiled it makes no difference. The first twelve digits of the hash of these are
//! the *version* of a kernel. Where a bundle has the kernel, instance and architecture in another version, because the kernel was edited
//! or this crate was updated after the export, it is not used, and one line on standard error names both versions. The kernel is
//! then taken from the cache or compiled; where there is no NVRTC either, the launch fails with
//! [`Error::NotEmbedded`], which names both versions too. `cargo tile export --check` finds stale
//! bundles without a GPU.
//!
//! With `TILE_LINEINFO=1` bundles are not used: their code has no line information.

mod bundle;
#[cfg(test)]
mod tests;

pub use bundle::{Bundle, Chosen, Item};

use crate::cache::{Entry, Key};
use crate::error::Error;
use bundle::Parsed;
use std::sync::{PoisonError, RwLock};

/// What the program has made known, in that order.
static KNOWN: RwLock<Vec<Parsed<'static>>> = RwLock::new(Vec::new());

/// Includes a bundle, given by its path from the folder of the crate's `Cargo.toml`, and makes it known: what
/// [`embedded::add`](crate::embedded::add) returns. Call it before the first launch, once.
#[macro_export]
macro_rules! embed {
    ($path:literal) => {
        $crate::embedded::add(::core::include_bytes!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/", $path)))
    };
}

/// Makes a bundle known to every launch of this process from now on. Returns how many kernels it holds.
///
/// # Errors
/// [`Error::Embedded`]: the bytes are damaged or no bundle, or of another version of the format.
pub fn add(bundle: &'static [u8]) -> Result<usize, Error> {
    let parsed = bundle::parse(bundle)?;
    let count = parsed.len();
    KNOWN.write().unwrap_or_else(PoisonError::into_inner).extend(parsed);
    Ok(count)
}

/// The kernels that are known, in the order in which they were made known.
pub fn items() -> Vec<Item> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).iter().map(|known| known.item.clone()).collect()
}

/// What the bundles have of a kernel.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its code.
    Code(Entry),
    /// Nothing that can be used, and why not.
    Not(Why),
    /// There are no bundles.
    NoBundles,
}

/// Why nothing embedded can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is of another version.
    Version {
        /// The version that is embedded.
        embedded: String,
        /// The program's.
        program: String,
    },
    /// Its code does not pass its checksum.
    Damaged,
    /// This instance is not there, or not for this architecture; what there is of the kernel.
    Missing(Vec<String>),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Version { embedded, program } => {
                write!(f, "it was embedded in version {embedded}, the program's is version {program}")
            }
            Why::Damaged => write!(f, "its embedded code is damaged"),
            Why::Missing(there) if there.is_empty() => write!(f, "nothing of this kernel is embedded"),
            Why::Missing(there) => write!(f, "embedded of this kernel: {}", there.join("; ")),
        }
    }
}

/// Looks for the code of an instance: `keys` gives the architectures whose code the device runs, best first, each with the key of
/// its code. They are hashes of the source, made only where there are bundles.
pub(crate) fn find(kernel: &str, instance: &str, keys: impl FnOnce() -> Vec<(String, Key)>) -> Found {
    find_in(&KNOWN.read().unwrap_or_else(PoisonError::into_inner), kernel, instance, keys)
}

fn find_in(known: &[Parsed<'_>], kernel: &str, instance: &str, keys: impl FnOnce() -> Vec<(String, Key)>) -> Found {
    if known.is_empty() {
        return Found::NoBundles;
    }
    let keys = keys();
    for (_, key) in &keys {
        if let Some(found) = known.iter().find(|known| known.item.hash == key.prefix()) {
            return found.entry(key).map_or(Found::Not(Why::Damaged), Found::Code);
        }
    }
    let this = || known.iter().filter(|known| known.item.kernel == kernel);
    let stale = keys.iter().find_map(|(architecture, key)| {
        let same = |item: &Item| item.instance == instance && item.architecture == *architecture;
        let stale = this().find(|known| same(&known.item))?;
        Some(Why::Version { embedded: stale.item.version().into(), program: bundle::version(&key.prefix()).into() })
    });
    Found::Not(stale.unwrap_or_else(|| {
        Why::Missing(this().map(|known| format!("{} for {}", known.item.instance, known.item.architecture)).collect())
    }))
}
