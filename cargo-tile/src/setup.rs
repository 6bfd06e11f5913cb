//! `cargo tile setup`, and in the repository `cargo xtask setup`: what kernels need that cargo does not fetch, in the user's own
//! folder.
//!
//! ```text
//! nvrtc/<version>/nvidia/cu13/lib/libnvrtc.so.13    the compiler of the emitted CUDA C; for the repository's tests two versions
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

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)]
pub enum Wanted {
    /// A crate with kernels: the compiler that the project is measured with, and the disassembler.
    Kernels,
    /// The repository's tests: a newer compiler too.
    Tests,
}

/// Where things are after `setup`.
#[allow(dead_code)]
pub struct Tools {
    /// The library of the default NVRTC: what `TILE_NVRTC` is set to.
    pub nvrtc: PathBuf,
    /// The disassembler: what `TILE_NVDISASM` is set to.
    pub nvdisasm: PathBuf,
}

/// Fetches what is missing. Needs no network where nothing is, or where `earlier`, a folder of the same layout, has it.
pub fn run(wanted: Wanted, earlier: Option<&Path>) -> Result<Tools> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        bail!(
            "the NVRTC that this fetches exists for Linux on x86-64 and aarch64, not for {} on {}.\n\
             Kernels run here on the simulator; to compile them, set TILE_NVRTC to an NVRTC library.",
            std::env::consts::OS,
            std::env::consts::ARCH
        );
    }
    let own = match (own_folder(), earlier) {
        (Some(folder), _) => trust::prepare(&folder)
            .map_err(|problem| anyhow!("{} cannot hold what programs run: {problem}", folder.display()))?,
        (None, Some(earlier)) => {
            say(format!(
                "neither XDG_DATA_HOME nor HOME is set: programs find what is in {} by TILE_NVRTC only",
                earlier.display()
            ));
            earlier.to_owned()
        }
        (None, None) => bail!("neither XDG_DATA_HOME nor HOME is set: there is no folder to put NVRTC into"),
    };
    let scratch = own.join("unfinished");
    let [nvrtc, newer] = &NVRTC;
    let place = |kind: &str, wheel: &Wheel| {
        let place = Path::new(kind).join(wheel.version);
        wheel.provide(&own.join(&place), earlier.map(|folder| folder.join(&place)).as_deref(), &scratch)
    };
    let tools = Tools { nvrtc: place("nvrtc", nvrtc)?, nvdisasm: place("nvdisasm", &NVDISASM)? };
    let mut versions = format!("NVRTC {}", nvrtc.version);
    if wanted == Wanted::Tests {
        place("nvrtc", newer)?;
        versions += &format!(" and {}", newer.version);
    }
    std::fs::remove_dir(&scratch).ok();
    say(format!("{versions}, nvdisasm {}: in {}", NVDISASM.version, own.display()));
    Ok(tools)
}

/// Where programs look: what `tile_runtime::library::own_folder` is; `xtask` is built without it.
fn own_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("tile-kernels"))
}
