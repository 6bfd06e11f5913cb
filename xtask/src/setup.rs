//! `cargo xtask setup`: what the tests need that cargo does not fetch.
//!
//! ```text
//! target/nvrtc/<version>/nvidia/cu13/lib/libnvrtc.so.13    the compiler of the emitted CUDA C, two versions
//! target/nvdisasm/<version>/nvidia/cu13/bin/nvdisasm       shows the machine code in a cubin
//! ```

use crate::process::say;
use crate::wheel::Wheel;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// NVRTC as the tests use it: the version the project is measured with first, then a newer one.
const NVRTC: [Wheel; 2] = [
    Wheel {
        name: "nvidia-cuda-nvrtc",
        version: "13.0.88",
        sha256: [
            "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
            "d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
        ],
        contains: "nvidia/cu13/lib/libnvrtc.so.13",
    },
    Wheel {
        name: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        sha256: [
            "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
            "36e4fa2a8ada293f5693d308e531c196ab6f91cf7a0ff479bf96a537d43a6096",
        ],
        contains: "nvidia/cu13/lib/libnvrtc.so.13",
    },
];

const NVDISASM: Wheel = Wheel {
    name: "nvidia-cuda-nvdisasm",
    version: "13.5.37",
    sha256: [
        "d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca",
        "a3a8248074edb9fba63b74c38a5416b712a91ab09e70b8ab37186c3d293fc605",
    ],
    contains: "nvidia/cu13/bin/nvdisasm",
};

/// Where things are after `setup`.
pub struct Tools {
    /// The library of the default NVRTC: what `TILE_NVRTC` is set to.
    pub nvrtc: PathBuf,
    /// The disassembler: what `TILE_NVDISASM` is set to.
    pub nvdisasm: PathBuf,
}

/// Fetches what is missing. Needs no network where nothing is.
pub fn run(root: &Path) -> Result<Tools> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        bail!(
            "the NVRTC that this fetches exists for Linux on x86-64 and aarch64, not for {} on {}.\n\
             Kernels run here on the simulator; to compile them, set TILE_NVRTC to an NVRTC library.",
            std::env::consts::OS,
            std::env::consts::ARCH
        );
    }
    // The runtime looks for `target/nvrtc` from the current folder upward, so these stay in the repository's `target`
    // whatever CARGO_TARGET_DIR says.
    let target = root.join("target");
    let scratch = target.join("xtask");
    let [nvrtc, newer] = &NVRTC;
    let place = |kind: &str, wheel: &Wheel| wheel.provide(&target.join(kind).join(wheel.version), &scratch);
    let tools = Tools { nvrtc: place("nvrtc", nvrtc)?, nvdisasm: place("nvdisasm", &NVDISASM)? };
    place("nvrtc", newer)?;
    std::fs::remove_dir(&scratch).ok();
    say(format!("NVRTC {} and {}, nvdisasm {}: in target/", nvrtc.version, newer.version, NVDISASM.version));
    Ok(tools)
}
