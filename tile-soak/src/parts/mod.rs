//! The parts of the soak.

pub mod cache;
mod histories;
mod indices;
mod launches;
pub mod lowered;
pub mod mutants;
pub mod programs;
pub mod shapes;
pub mod times;

use crate::part::Part;

/// Every part, in the order of the book's table.
pub fn all() -> &'static [&'static dyn Part] {
    // One a line, so that parts are added without touching each other.
    const ALL: &[&dyn Part] = &[
        &mutants::Mutants,
        &programs::Programs,
        &lowered::Lowered,
        &shapes::Shapes,
        &times::Times,
        &cache::Kills,
        &cache::Damage,
        &launches::Launches,
        &histories::Histories,
        &indices::Indices,
    ];
    ALL
}

/// The part of this name.
pub fn named(name: &str) -> Option<&'static dyn Part> {
    all().iter().copied().find(|part| part.name() == name)
}
