//! Writes the drawings to `book/src/drawings`; `cargo xtask book` calls it.

use anyhow::{Context, Result};
use std::fs;

fn main() -> Result<()> {
    let root = book_drawings::root();
    let folder = book_drawings::folder(&root);
    fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mut changed = 0;
    for drawing in book_drawings::all(&root)? {
        let path = folder.join(drawing.name);
        if fs::read_to_string(&path).is_ok_and(|text| text == drawing.svg) {
            continue;
        }
        fs::write(&path, &drawing.svg).with_context(|| format!("could not write {}", path.display()))?;
        println!("drawn: book/src/drawings/{}", drawing.name);
        changed += 1;
    }
    if changed == 0 {
        println!("every drawing is as it was");
    }
    Ok(())
}
