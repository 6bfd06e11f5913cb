//! Programs of each family, drawn from a seed.

mod blocks;
mod collectives;
mod draw;
mod elementwise;
mod expr;
mod products;
mod threads;
mod tiles;

pub use draw::Draw;
pub use expr::Scope;

use super::tree::Program;

/// A family: its name, how many of a hundred programs are its, and what draws one.
pub type Family = (&'static str, u32, fn(&mut Draw) -> Program);

/// The families.
pub const FAMILIES: [Family; 10] = [
    ("elementwise", 36, elementwise::generate),
    ("collectives", 16, collectives::generate),
    ("copies", 13, tiles::copies),
    ("pipelines", 10, tiles::pipelines),
    ("products", 5, products::generate),
    ("specialisation", 4, products::specialised),
    ("grids", 4, products::grids),
    ("atomics", 5, blocks::atomics),
    ("workspaces", 4, blocks::workspaces),
    ("clusters", 3, blocks::clusters),
];

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut draw = Draw::new(seed);
    let mut rest = draw.range(0, 99) as u32;
    for (_, share, generate) in FAMILIES {
        match rest.checked_sub(share) {
            Some(left) => rest = left,
            None => return generate(&mut draw),
        }
    }
    elementwise::generate(&mut draw)
}

/// A program of one family.
pub fn of_family(name: &str, seed: u64) -> Option<Program> {
    let (_, _, generate) = FAMILIES.iter().find(|(n, ..)| *n == name)?;
    Some(generate(&mut Draw::new(seed)))
}
