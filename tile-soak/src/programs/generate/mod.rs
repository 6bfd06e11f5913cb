//! Programs of each family, drawn from a seed.

mod blocks;
mod chains;
mod collectives;
mod draw;
mod elementwise;
mod expr;
mod forms;
mod products;
mod splits;
mod threads;
mod tiles;

pub use draw::Draw;
pub use expr::Scope;

use super::tree::Program;

/// A family: its name, how many of a hundred programs are its, and what draws one.
pub type Family = (&'static str, u32, fn(&mut Draw) -> Program);

/// The families.
pub const FAMILIES: [Family; 13] = [
    ("elementwise", 30, elementwise::generate),
    ("collectives", 14, collectives::generate),
    ("copies", 13, tiles::copies),
    ("pipelines", 10, tiles::pipelines),
    ("products", 5, products::generate),
    ("specialisation", 4, products::specialised),
    ("grids", 4, products::grids),
    ("atomics", 5, blocks::atomics),
    ("workspaces", 4, blocks::workspaces),
    ("clusters", 3, blocks::clusters),
    ("exchanges", 2, blocks::exchanges),
    ("chains", 3, chains::generate),
    ("splits", 3, splits::generate),
];

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut draw = Draw::new(seed);
    let mut rest = draw.range(0, 99) as u32;
    for (_, share, generate) in FAMILIES {
        match rest.checked_sub(share) {
            Some(left) => rest = left,
            None => {
                let program = generate(&mut draw);
                return forms::vary(&mut draw, program);
            }
        }
    }
    elementwise::generate(&mut draw)
}

/// A program of one family.
pub fn of_family(name: &str, seed: u64) -> Option<Program> {
    let (_, _, generate) = FAMILIES.iter().find(|(n, ..)| *n == name)?;
    let mut draw = Draw::new(seed);
    let program = generate(&mut draw);
    Some(forms::vary(&mut draw, program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::text::print;

    /// What book/src/soak.md says is generated.
    const FORMS: [&str; 40] = [
        "#[tile_fn",
        "uses(",
        "specialize(",
        "pdl(",
        "stream(",
        "require(",
        "instances(",
        "dtypes(",
        "Option<",
        "if let Some(",
        "Workspace<",
        "persistent(",
        "cluster([",
        "use_swizzle(",
        "cluster_reduce(",
        "cluster_exchange(",
        "last_arriver(",
        "pipelined(",
        "schedule(",
        "vectorized(",
        "unroll(",
        "step_by(",
        "parallel(",
        ".width(",
        "PingPong",
        ".swizzle(B128)",
        "use_swizzle(panel)",
        ".tma(false)",
        ".policy(",
        ".clear()",
        ".tf32()",
        "reduce(",
        "thread_allreduce(",
        "warp_reduce(",
        "shfl_",
        "ballot(",
        "atomic_max(",
        ".tile([",
        ".t()",
        ".masked_mut(",
    ];

    #[test]
    fn every_form_comes_up() {
        let texts: Vec<String> = (0..2000).map(|seed| print(&program(seed)).file()).collect();
        for form in FORMS {
            let count = texts.iter().filter(|text| text.contains(form)).count();
            assert!(count >= 8, "{form} is in {count} of {}", texts.len());
        }
    }
}
