//! Alignment classes: what a launch found of the rows that `copy` moves without a demand of its author.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The bytes of one access that rows are made of: every row begins at a multiple of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Width {
    /// 16 bytes: what TMA and the widest accesses take.
    #[default]
    Sixteen,
    /// 8 bytes.
    Eight,
    /// 4 bytes: the least that is copied asynchronously.
    Four,
    /// An element, wherever it lies.
    Element,
}

impl Width {
    /// The bytes; 0 where it is an element, whose size depends on its dtype.
    pub const fn bytes(self) -> u32 {
        match self {
            Width::Sixteen => 16,
            Width::Eight => 8,
            Width::Four => 4,
            Width::Element => 0,
        }
    }

    /// The next lesser one.
    pub const fn lesser(self) -> Option<Width> {
        match self {
            Width::Sixteen => Some(Width::Eight),
            Width::Eight => Some(Width::Four),
            Width::Four => Some(Width::Element),
            Width::Element => None,
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Width::Element => f.write_str("an element"),
            width => write!(f, "{} bytes", width.bytes()),
        }
    }
}

/// Which side of a kernel's copies a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Side {
    /// Tensors that are read.
    Reads,
    /// Tensors that are written.
    Writes,
}

/// An alignment class: how wide the pieces are that the rows of tensors are moved in, where a `copy` only requests it.
/// One kernel has a cubin for each class that launches need; a launch takes the widest that its tensors allow.
///
/// The widest, [`Class::default`], is what a kernel is compiled for unless a launch says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Class {
    /// Of tensors that are read.
    pub reads: Width,
    /// Of tensors that are written.
    pub writes: Width,
}

impl Class {
    /// Rows that are made of 16 bytes on both sides.
    pub const WIDEST: Class = Class { reads: Width::Sixteen, writes: Width::Sixteen };

    /// Whether it is the widest class.
    pub fn is_widest(self) -> bool {
        self == Class::WIDEST
    }

    /// The class that asks less of one side.
    pub fn lesser(self, side: Side) -> Option<Class> {
        Some(match side {
            Side::Reads => Class { reads: self.reads.lesser()?, ..self },
            Side::Writes => Class { writes: self.writes.lesser()?, ..self },
        })
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reads, self.writes) {
            (reads, Width::Sixteen) => write!(f, "rows are read by {reads}"),
            (Width::Sixteen, writes) => write!(f, "rows are written by {writes}"),
            (reads, writes) => write!(f, "rows are read by {reads} and written by {writes}"),
        }
    }
}
