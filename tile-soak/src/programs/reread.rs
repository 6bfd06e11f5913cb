//! A random program's kernel is what is read of its text.

use super::execute::{instance, parse};
use super::{generate, text};
use tile_ir::testing::text::round_trip;

#[test]
fn kernels_of_random_programs_read_back() {
    for seed in 0..300 {
        let program = generate::program(seed);
        let found = parse(&text::print(&program)).and_then(|kernel| Ok((instance(&program, &kernel)?, kernel)));
        let (instance, kernel) = found.unwrap_or_else(|e| panic!("{seed} {}: {}", program.family, e.detail));
        if let Err(difference) = round_trip(&kernel, &[instance]) {
            panic!("{seed} {}: {difference}", program.family);
        }
    }
}
