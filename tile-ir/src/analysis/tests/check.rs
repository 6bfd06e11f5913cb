//! `check`: over all instances, with the lints that the author turned on.

use super::*;

#[test]
fn check_names_the_failing_instance() {
    let mut b = Build::new();
    let span = b.k.spans.push(Span::default());
    let rows = b.k.consts.push(ConstParam { name: "ROWS".into(), kind: ConstKind::Usize, span });
    let t = b.threads("t", 64);
    let extent = b.expr(ExprKind::Const(rows), Type::Index);
    let place = b.shared("s", Dtype::F32, &[1]);
    let Place::Buffer(buffer) = place else { unreachable!() };
    b.k.buffers[buffer].extents = vec![extent];
    let at = b.var(t);
    let zero = b.float(0.0);
    b.store(place, &[at], zero);
    b.k.instances = [32, 64, 48]
        .map(|c| Instance { dtypes: vec![], consts: vec![c], dims: vec![], absent: vec![], class: Class::WIDEST })
        .to_vec();
    expect![[r#"
        [TK0301] shared index out of bounds
          at: reaches 63 at t = 63 (thread 63); `s` has 32 elements
          note: for ROWS = 32 (2 of 3 instances fail here)
    "#]]
    .assert_eq(&report(&check(&b.done())));
}

#[test]
fn bank_conflicts_are_looked_for_where_asked() {
    let kernel = |columns: i64, level: &str| {
        let mut b = Build::new();
        let tx = b.threads("tx", 32);
        let s = b.shared("s", Dtype::F32, &[32, columns]);
        b.k.attributes.lints.push(("TK0601".into(), level.into()));
        b.clear(s);
        let (row, column) = (b.var(tx), b.int(0));
        let value = b.load(s, &[row, column]);
        b.let_("value", value);
        b.done()
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
