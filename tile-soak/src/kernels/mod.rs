//! The repository's kernels, from text to results on both simulators and on a device.
//!
//! | module | what it is |
//! |---|---|
//! | [`source`] | kernels as text, and text as tile IR |
//! | [`problem`] | extents, scalars and data for a kernel's launch |
//! | [`fit`] | what a kernel asks of its callers: counts, tables of places, extents made of others |
//! | [`launch`] | an instance bound and lowered, its launch checks, and its runs |
//! | [`device`] | the same on a device, through `tile_runtime` |
//! | [`setup`] | for a kernel of the repository: instances, problems and the results that it has |

pub mod device;
pub mod fit;
pub mod launch;
pub mod problem;
pub mod setup;
pub mod source;
