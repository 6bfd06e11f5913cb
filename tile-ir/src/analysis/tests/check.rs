//! `check`: over all instances, with the lints that the author turned on.

use super::*;

#[test]
fn check_names_the_failing_instance() {
    expect![[r#"
        [TK0301] shared index out of bounds
          at: reaches 63 at t = 63 (thread 63); `s` has 32 elements
          note: for ROWS = 32 (2 of 3 instances fail here)
    "#]]
    .assert_eq(&report(&check(&parsed(
        r"
            #[instances((ROWS,) in [(32,), (64,), (48,)])]
            kernel k<const ROWS: usize>(
            ) {
                let [t] = threads([64]);
                let mut s = alloc_shared::<f32>([ROWS]);
                s[t] = 0.0f32;
            }
        ",
    ))));
}

#[test]
fn bank_conflicts_are_looked_for_where_asked() {
    let kernel = |columns: i64, level: &str| {
        parsed(&format!(
            "#[lints(TK0601 = {level:?})] kernel k() {{
                let [tx] = threads([32]);
                let mut s = alloc_shared::<f32>([32, {columns}]);
                fill(&mut s, 0.0f32);
                let value = s[[tx, 0]];
            }}"
        ))
    };
    assert_eq!(check(&kernel(33, "deny")), []);
    assert_eq!(check(&kernel(32, "off")), []);
    expect![[r#"
        [TK0601] 32-way bank conflict on `s`: 32 wavefronts, ideal 1
          at: lanes 0 and 1 are in different words of bank 0
          help: pad the rows of `s` to 33 elements
    "#]]
    .assert_eq(&report(&check(&kernel(32, "deny"))));
}
