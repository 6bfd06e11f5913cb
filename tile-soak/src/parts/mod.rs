//! The parts of the soak.

pub mod cache;
mod histories;
mod launches;

use crate::part::Part;

/// Every part, in the order of the book's table.
pub fn all() -> &'static [&'static dyn Part] {
    &[&cache::Kills, &cache::Damage, &launches::Launches, &histories::Histories]
}

/// The part of this name.
pub fn named(name: &str) -> Option<&'static dyn Part> {
    all().iter().copied().find(|part| part.name() == name)
}
