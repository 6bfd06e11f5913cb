//! `cargo xtask setup`: what the examples and tests need that cargo does not fetch, in the user's own folder.
//!
//! ```text
//! nvrtc/<version>/nvidia/cu13/lib/libnvrtc.so.13    the compiler of the emitted CUDA C, two versions
//! nvdisasm/<version>/nvidia/cu13/bin/nvdisasm       shows the machine code in a cubin
//! ```
//!
//! The folder is `tile-kernels` in `XDG_DATA_HOME` or `~/.local/share`. Programs look there for their compiler, which is code
//! that runs as whoever runs them, so it has mode 700 and is refused, here as there, where somebody else could have written
//! (`tile-runtime/src/trust.rs`). What an earlier `setup` has left in the repository's `target` is copied, not fetched again.

use crate::process::say;
use crate::trust;
use crate::wheel::Wheel;
use anyhow::{Result, anyhow, bail};
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
    let own = match own_folder() {
        Some(folder) => trust::prepare(&folder)
            .map_err(|problem| anyhow!("{} cannot hold what programs run: {problem}", folder.display()))?,
        None => {
            say("neither XDG_DATA_HOME nor HOME is set: programs find what is in target/ by TILE_NVRTC only");
            root.join("target")
        }
    };
    let scratch = own.join("unfinished");
    let [nvrtc, newer] = &NVRTC;
    let place = |kind: &str, wheel: &Wheel| {
        let place = Path::new(kind).join(wheel.version);
        wheel.provide(&own.join(&place), &root.join("target").join(&place), &scratch)
    };
    let tools = Tools { nvrtc: place("nvrtc", nvrtc)?, nvdisasm: place("nvdisasm", &NVDISASM)? };
    place("nvrtc", newer)?;
    std::fs::remove_dir(&scratch).ok();
    let versions = format!("NVRTC {} and {}, nvdisasm {}", nvrtc.version, newer.version, NVDISASM.version);
    say(format!("{versions}: in {}", own.display()));
    Ok(tools)
}

/// Where programs look: `tile_runtime::library::own_folder`, which this program is built without.
fn own_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("tile-kernels"))
}
