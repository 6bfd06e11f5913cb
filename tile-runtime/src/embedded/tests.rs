use super::*;
use tile_ir::ir::Target;

fn key(source: &str) -> Key {
    Key::new(&[("source", source)], None)
}

/// An item whose code is that of `source`, as an export by some compiler has it.
fn item(kernel: &str, instance: &str, architecture: &str, source: &str) -> (Item, Vec<u8>) {
    let key = Key::new(&[("source", source)], Some("13.0 build 1".into()));
    let entry = Entry { code: format!("code of {source}").into(), log: "log".into() };
    let item = Item {
        kernel: kernel.into(),
        instance: instance.into(),
        chosen: Chosen::default(),
        target: Target::Sm90a,
        architecture: architecture.into(),
        compiler: "13.0 build 1".into(),
        bytes: entry.code.len() as u64,
        hash: key.prefix(),
    };
    (item, entry.encode(&key.preimage()))
}

fn bytes() -> Vec<u8> {
    bundle::of(vec![
        item("gemv", "<f16>", "sm_90a", "old"),
        item("gemv", "<f32>", "sm_80", "f32"),
        item("add", "", "sm_80", "add"),
    ])
    .to_bytes()
}

/// What the bundle has of `kernel` for keys of (architecture, source).
fn look(kernel: &str, instance: &str, keys: &[(&str, &str)]) -> Found {
    let bytes = bytes();
    let keys: Vec<(String, Key)> = keys.iter().map(|(arch, source)| ((*arch).to_owned(), key(source))).collect();
    find_in(&bundle::parse(&bytes).unwrap(), kernel, instance, || keys)
}

#[test]
fn code_is_found_by_what_it_was_made_of_whatever_compiled_it() {
    let Found::Code(entry) = look("gemv", "<f16>", &[("sm_90a", "old")]) else { panic!() };
    assert_eq!(entry.code, b"code of old");
    // The first of several architectures that is there.
    let Found::Code(entry) = look("gemv", "<f32>", &[("sm_89", "f32 for 89"), ("sm_80", "f32")]) else { panic!() };
    assert_eq!(entry.code, b"code of f32");
}

#[test]
fn another_version_is_named_with_the_programs() {
    let Found::Not(Why::Version { embedded, program }) = look("gemv", "<f16>", &[("sm_90a", "new")]) else { panic!() };
    assert_eq!((embedded.as_str(), program.as_str()), (&key("old").prefix()[..12], &key("new").prefix()[..12]));
    let text = Why::Version { embedded: embedded.clone(), program: program.clone() }.to_string();
    assert!(text.contains(&embedded) && text.contains(&program), "{text}");
}

#[test]
fn what_is_not_embedded_is_no_other_version() {
    let there = |found| match found {
        Found::Not(Why::Missing(there)) => there,
        other => panic!("{other:?}"),
    };
    assert_eq!(there(look("gemv", "<bf16>", &[("sm_90a", "new")])), ["<f16> for sm_90a", "<f32> for sm_80"]);
    assert_eq!(there(look("gemv", "<f16>", &[("sm_80", "new")])).len(), 2, "not for this architecture");
    assert_eq!(there(look("mul", "", &[("sm_80", "mul")])), [] as [&str; 0]);
    assert!(matches!(find_in(&[], "gemv", "<f16>", Vec::new), Found::NoBundles));
}

#[test]
fn every_truncation_and_every_flipped_bit_of_a_bundle_is_an_error() {
    let whole = bytes();
    assert_eq!(bundle::parse(&whole).unwrap().len(), 3);
    for length in 0..whole.len() {
        assert!(bundle::parse(&whole[..length]).is_err(), "{length}");
    }
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(bundle::parse(&damaged).is_err(), "bit {bit}");
    }
}
