//! Code-generation targets. What is known of one stands in one table, [`Target::info`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// A code-generation target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Target {
    /// Ampere and later, in the common subset.
    Sm80,
    /// Hopper, with its architecture-specific instructions.
    Sm90a,
}

/// Everything that the compiler and the runtime know of a target: one row of the table [`Target::info`].
///
/// Other code asks for what it needs, `target.info().wgmma`; it does not compare targets. A target is added by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetInfo {
    /// The name, as NVRTC's `--gpu-architecture` takes it.
    pub name: &'static str,
    /// The name of the compute capability, without the letter of an architecture-specific target.
    pub capability_name: &'static str,
    /// The least compute capability, major and minor, of a device that runs it.
    pub capability: (u32, u32),
    /// Whether it runs on that compute capability alone: its instructions are of no other architecture. Otherwise NVRTC compiles it
    /// for the device's own architecture, of the same or a later capability.
    pub exact: bool,
    /// Most bytes of shared memory a block may use.
    /// Source: CUDA C++ Programming Guide, compute capabilities: 163 KiB and 227 KiB.
    pub max_shared_bytes: u32,
    /// Copies of boxes (TMA, `cp.async.bulk.tensor`) and of rows (`cp.async.bulk`), with mbarriers that count their bytes.
    pub bulk_copies: bool,
    /// Products of warpgroups (`wgmma.mma_async`), and registers moved between warpgroups (`setmaxnreg`).
    pub wgmma: bool,
    /// Clusters of blocks, and their distributed shared memory.
    pub clusters: bool,
    /// Whether a kernel may start before the previous one of its stream is done (`griddepcontrol`).
    pub dependent_launch: bool,
}

impl Target {
    /// Every target, in order of declaration: each can do what those before it can.
    pub const ALL: [Target; 2] = [Target::Sm80, Target::Sm90a];

    /// The table of targets.
    pub const fn info(self) -> &'static TargetInfo {
        match self {
            Target::Sm80 => &TargetInfo {
                name: "sm_80",
                capability_name: "sm_80",
                capability: (8, 0),
                exact: false,
                max_shared_bytes: 163 << 10,
                bulk_copies: false,
                wgmma: false,
                clusters: false,
                dependent_launch: false,
            },
            Target::Sm90a => &TargetInfo {
                name: "sm_90a",
                capability_name: "sm_90",
                capability: (9, 0),
                exact: true,
                max_shared_bytes: 227 << 10,
                bulk_copies: true,
                wgmma: true,
                clusters: true,
                dependent_launch: true,
            },
        }
    }

    /// The name, as NVRTC's `--gpu-architecture` takes it.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The targets, the one that can do most first.
    pub fn best_first() -> impl Iterator<Item = Target> {
        Target::ALL.into_iter().rev()
    }

    /// Whether a device of this compute capability runs what is compiled for it.
    pub const fn runs_on(self, (major, minor): (u32, u32)) -> bool {
        let TargetInfo { capability: (least, least_minor), exact, .. } = *self.info();
        if exact {
            major == least && minor == least_minor
        } else {
            major > least || major == least && minor >= least_minor
        }
    }

    /// Whether a kernel may start before the previous one of its stream is done (`griddepcontrol`, from sm_90 on).
    pub const fn has_dependent_launch(self) -> bool {
        self.info().dependent_launch
    }

    /// Most bytes of shared memory a block may use.
    pub const fn max_shared_bytes(self) -> u32 {
        self.info().max_shared_bytes
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table's `match` is exhaustive, the list is not: a target beyond the last one listed would be decoded.
    #[test]
    fn every_target_is_listed() {
        for (at, target) in Target::ALL.into_iter().enumerate() {
            assert_eq!(postcard::from_bytes::<Target>(&[at as u8]), Ok(target));
        }
        postcard::from_bytes::<Target>(&[Target::ALL.len() as u8]).unwrap_err();
    }

    #[test]
    fn what_is_of_one_architecture_runs_on_no_other() {
        let on = |capability| Target::best_first().filter(|t| t.runs_on(capability)).collect::<Vec<_>>();
        assert_eq!(on((7, 5)), []);
        assert_eq!(on((8, 0)), [Target::Sm80]);
        assert_eq!(on((8, 9)), [Target::Sm80]);
        assert_eq!(on((9, 0)), [Target::Sm90a, Target::Sm80]);
        assert_eq!(on((10, 0)), [Target::Sm80]);
    }
}
