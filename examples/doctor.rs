//! What this machine has for tile kernels, and what to do next: `cargo tile doctor`, without installing it.
//!
//! ```console
//! $ cargo run --example doctor
//! ```

#[path = "../cargo-tile/src/doctor.rs"]
mod doctor;

fn main() {
    doctor::run("cargo xtask");
}
