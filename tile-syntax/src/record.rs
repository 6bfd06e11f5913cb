//! How `cargo tile` gets at the kernels of any crate: while it has a crate checked, each kernel's expansion also writes the
//! kernel's IR to a file (`tile_ir::record`), because a kernel is data.
//!
//! What is private, in a binary, an example or a test is reached like anything else; nothing is linked, no code of the crate is
//! run, and a program that ships contains nothing for it. Nothing is written unless [`FOLDER`] is set, which `cargo tile` does for
//! the rustc that it starts.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tile_ir::codec::encode;
use tile_ir::ir::Kernel;
use tile_ir::record::{Role, entry, head, prefix};

/// The environment variable that names the folder to write to.
const FOLDER: &str = "CARGO_TILE_RECORD";

/// Writes a kernel down, if it is asked for. What cannot be written is not an error of the kernel's author: `cargo tile` finds
/// that the file is missing.
pub(crate) fn kernel(kernel: &Kernel) {
    static OPEN: Mutex<Option<File>> = Mutex::new(None);
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from).filter(|folder| folder.is_absolute()) else {
        return;
    };
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if open.is_none() {
        *open = begin(&folder).ok();
    }
    if let Some(file) = open.as_mut() {
        file.write_all(&entry(&encode(kernel))).ok();
    }
}

fn begin(folder: &Path) -> std::io::Result<File> {
    let variable = |name: &str| std::env::var(name).ok();
    let crate_name = variable("CARGO_CRATE_NAME").unwrap_or_else(|| "unknown".into());
    let binary = variable("CARGO_BIN_NAME");
    let role = match &binary {
        Some(name) => Role::Binary(name),
        // Cargo sets it for integration tests only.
        None if variable("CARGO_TARGET_TMPDIR").is_some() => Role::Test,
        None => Role::Library,
    };
    let prefix = prefix(&crate_name, role);
    let path = folder.join(format!("{prefix}{}.kernels", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(head().as_bytes())?;
    Ok(file)
}
