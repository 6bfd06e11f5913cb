//! The drawings that are committed are the ones that the code makes.

use std::collections::BTreeSet;
use std::fs;

#[test]
fn the_committed_drawings_are_what_is_drawn() {
    let root = book_drawings::root();
    let folder = book_drawings::folder(&root);
    let drawings = book_drawings::all(&root).unwrap();
    for drawing in &drawings {
        let committed = fs::read_to_string(folder.join(drawing.name)).unwrap_or_default();
        assert!(committed == drawing.svg, "{} is not what is drawn: `cargo xtask book` draws it anew", drawing.name);
    }
    let expected: BTreeSet<String> = drawings.iter().map(|drawing| drawing.name.to_owned()).collect();
    let found = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(found.collect::<BTreeSet<_>>(), expected, "{} holds drawings and nothing else", folder.display());
}

/// A reader who cannot see a drawing hears what it shows; one who can reads every label.
#[test]
fn every_drawing_is_described_and_readable() {
    for drawing in book_drawings::all(&book_drawings::root()).unwrap() {
        for part in ["<title ", "<desc ", "role=\"img\"", "prefers-color-scheme: dark"] {
            assert!(drawing.svg.contains(part), "{} has no `{part}`", drawing.name);
        }
        assert!(drawing.svg.contains("viewBox=\"0 0 720 "), "{} is not made for a width of 720 pixels", drawing.name);
    }
}
