//! Indices that are computed from data: integers of 32 bits, whose arithmetic wraps, and what is known of them
//! whatever the data.

use super::*;

/// What the access is that `body` adds to, an element of the four of `y`, computed from `key`, which is `keys[t]` of `dtype`:
/// `inside`, or what the lint says; whether it is computed in 64 bits, too.
fn access(dtype: Dtype, body: &str) -> String {
    let kernel = parsed(&format!(
        "kernel k(keys: &Tensor<{dtype}, (Fixed<32>,)>, y: &mut Tensor<f32, (Fixed<4>,)>) {{
            let [t] = threads([32]);
            let key = keys[t];
            {body}
        }}"
    ));
    let analysis = analyse(&crate::testing::bound(&kernel), Target::Sm90a);
    assert_eq!(report(&analysis.diagnostics), "");
    let bits = if analysis.wide.is_empty() { "32 bits" } else { "64 bits" };
    match analysis.lints.first() {
        None => format!("inside, {bits}"),
        Some(lint) => format!("{}, {bits}", lint.code),
    }
}

/// The access `y[index]`.
fn found(dtype: Dtype, index: &str) -> String {
    access(dtype, &format!("atomic_add(&mut y[({index}).cast::<usize>()], 1.0f32);"))
}

#[test]
fn arithmetic_by_constants_has_a_range_whatever_the_data() {
    for index in [
        "key % 4u32",
        "key % 3u32",
        "key & 3u32",
        "key & 2u32",
        "key >> 30u32",
        "key >> 31u32",
        "min(key, 3u32)",
        "key / 1073741824u32",
        // A mask on the left.
        "3u32 & key",
    ] {
        assert_eq!(found(Dtype::U32, index), "inside, 32 bits", "{index}");
    }
    // One more is outside.
    for index in ["key % 5u32", "key & 7u32", "key & 4u32", "key >> 29u32", "min(key, 4u32)", "key / 536870912u32"] {
        assert_eq!(found(Dtype::U32, index), "TK0604, 32 bits", "{index}");
    }
    // Not negative, and below.
    for index in ["key & 3i32", "key & 1i32"] {
        assert_eq!(found(Dtype::I32, index), "inside, 32 bits", "{index}");
    }
    // The remainder of a negative `i32` is negative; `i32 >> 30` is -2 to 1.
    for index in ["key % 4i32", "key >> 30i32", "min(key, 3i32)"] {
        assert_eq!(found(Dtype::I32, index), "TK0605, 32 bits", "{index}");
    }
}

#[test]
fn sums_and_products_of_what_has_a_range_have_one() {
    for dtype in [Dtype::U32, Dtype::I32] {
        let sum = |by: i64| format!("(key & 1{dtype}) + (key >> 5{dtype} & 1{dtype}) * {by}{dtype}");
        assert_eq!(found(dtype, &sum(2)), "inside, 32 bits", "{dtype}");
        assert_eq!(found(dtype, &sum(3)), "TK0604, 32 bits", "{dtype}");
    }
    assert_eq!(found(Dtype::U32, "3u32 - key % 4u32"), "inside, 32 bits");
    // 2 - 3 wraps to 2^32 - 1.
    assert_eq!(found(Dtype::U32, "2u32 - key % 4u32"), "TK0604, 64 bits");
    // Bits of two, side by side.
    assert_eq!(found(Dtype::U32, "key & 1u32 | (key >> 7u32 & 1u32) << 1u32"), "inside, 32 bits");
    assert_eq!(found(Dtype::U32, "key & 1u32 | (key >> 7u32 & 1u32) << 2u32"), "TK0604, 32 bits");
    // A choice between two.
    let chosen = found(Dtype::U32, "if key < 1000u32 { key % 4u32 } else { key >> 30u32 }");
    assert_eq!(chosen, "inside, 32 bits");
}

#[test]
fn what_wraps_is_not_known() {
    // (key + 1) % 4 is below 4; key + 1 may be 0, so (key + 1) - 1 need not be key, and key % 4 + u32::MAX is key % 4 - 1.
    assert_eq!(found(Dtype::U32, "(key + 1u32) % 4u32"), "inside, 32 bits");
    assert_eq!(found(Dtype::U32, "key * 2654435761u32 % 4u32"), "inside, 32 bits");
    assert_eq!(found(Dtype::U32, "key * 2654435761u32 % 5u32"), "TK0604, 32 bits");
    assert_eq!(found(Dtype::U32, "key % 4u32 + 4294967295u32"), "TK0604, 64 bits");
    assert_eq!(found(Dtype::U32, "(key & 1u32) * 2147483648u32"), "TK0604, 64 bits");
    // Shifts count modulo 32: `key >> 62` is `key >> 30`, `key >> 32` is `key`.
    assert_eq!(found(Dtype::U32, "key >> 32u32"), "TK0604, 64 bits");
    assert_eq!(found(Dtype::U32, "(key & 3u32) >> 33u32"), "inside, 32 bits");
    // Nothing is known of a quotient by zero.
    assert_eq!(found(Dtype::U32, "(key & 3u32) / (key >> 5u32)"), "TK0604, 64 bits");
}

/// `if key < 4 { y[key] }`, `if key >= 2 && key < 6 { y[key - 2] }`: a guard on the data says that nothing wraps.
#[test]
fn a_guard_says_that_nothing_wraps() {
    let guarded = |least: u32, end: u32, by: u32| {
        let store = format!("atomic_add(&mut y[(key - {by}u32).cast::<usize>()], 1.0f32);");
        access(Dtype::U32, &format!("if key >= {least}u32 && key < {end}u32 {{ {store} }}"))
    };
    assert_eq!(guarded(0, 4, 0), "inside, 64 bits");
    assert_eq!(guarded(2, 6, 2), "inside, 64 bits");
    assert_eq!(guarded(2, 7, 2), "TK0604, 64 bits");
    assert_eq!(guarded(1, 6, 2), "TK0604, 64 bits");
}

/// A conversion to an index first, then the remainder.
#[test]
fn a_remainder_of_what_data_says_as_an_index() {
    // The key itself may be beyond `int`.
    let found = access(Dtype::U32, "atomic_add(&mut y[key.cast::<usize>() % 4], 1.0f32);");
    assert_eq!(found, "inside, 64 bits");
}
