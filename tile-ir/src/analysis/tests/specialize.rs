//! `specialize`: what waits for a dim's value, what does not, and what the value makes of the kernel.

use super::*;
use crate::lower::{bind, lower};
use crate::lowered::{CheckKind, ParameterKind};

/// The GEMV without its `require`, specialised by K.
fn specialised() -> Kernel {
    parsed(&format!("#[specialize(K, max = 4)] {}", GEMV.trim()))
}

fn with(kernel: &Kernel, value: i64) -> Instance {
    kernel.instances[0].with_dims(vec![(kernel.specialized()[0], value)])
}

#[test]
fn a_demand_on_the_dim_waits_for_its_value() {
    assert!(!check(&parsed(GEMV)).is_empty(), "without `specialize` it is an error at expansion");
    let kernel = specialised();
    assert_eq!(report(&check(&kernel)), "");
    lower(&kernel, &with(&kernel, 1024), Target::Sm90a).unwrap();
    let diagnostics = lower(&kernel, &with(&kernel, 1004), Target::Sm90a).unwrap_err();
    let text = report(&diagnostics);
    assert!(
        text.contains("[TK0201]")
            && text.contains("row stride is 1004 elements")
            && text.contains("note: for K = 1004"),
        "{text}"
    );
}

#[test]
fn a_mistake_that_is_none_of_the_dims_does_not_wait() {
    let mistake = "let mut late = alloc_local::<f32>([4]); let value = late[4]; let [bn]";
    let kernel = format!("#[specialize(K, max = 4)] {}", GEMV.trim().replacen("let [bn]", mistake, 1));
    let text = report(&check(&parsed(&kernel)));
    assert!(text.contains("[TK0301]") && text.contains("`late` has 4 elements"), "{text}");
}

#[test]
fn the_value_is_a_constant_of_the_program() {
    let kernel = specialised();
    let instance = with(&kernel, 1024);
    let bound = bind(&kernel, &instance).unwrap();
    assert!(!bound.exprs.values().any(|e| e.kind == ExprKind::Dim(kernel.specialized()[0])));
    assert!(bound.name.ends_with("_K1024"), "{}", bound.name);
    let analysis = analyse(&bound, Target::Sm90a);
    let program = lower(&kernel, &instance, Target::Sm90a).unwrap();
    let dims = program.params.iter().filter(|p| matches!(p.kind, ParameterKind::Dim(_)));
    assert_eq!(dims.map(|p| p.name.as_str()).collect::<Vec<_>>(), ["N"]);
    let compiled_for = |c: &crate::lowered::Check| matches!(c.kind, CheckKind::Specialized { value: 1024, .. });
    assert!(program.launch.checks.iter().any(compiled_for));
    // 1024 is a whole number of steps, 1032 is not: of the accesses that K bounds, more are proven.
    let proven = |analysis: &Analysis| analysis.bounds.values().flatten().filter(|b| **b == Bound::Proven).count();
    let ragged = bind(&kernel, &with(&kernel, 1032)).unwrap();
    assert!(proven(&analysis) > proven(&analyse(&ragged, Target::Sm90a)));
}

#[test]
fn every_specialised_dim_needs_a_value_and_no_other_takes_one() {
    let kernel = specialised();
    let n = kernel.dims.iter().find(|(_, d)| d.name == "N").unwrap().0;
    let none = report(&bind(&kernel, &kernel.instances[0]).unwrap_err());
    assert!(none.contains("`K`, and this instance gives it no value"), "{none}");
    let mut other = with(&kernel, 8);
    other.dims.push((n, 4));
    assert!(report(&bind(&kernel, &other).unwrap_err()).contains("N = 4 specialises nothing"));
    assert!(report(&bind(&kernel, &with(&kernel, -1)).unwrap_err()).contains("K = -1 specialises nothing"));
}

#[test]
fn extents_may_be_made_of_a_specialised_dim() {
    let kernel = |specialise: &str| {
        parsed(&format!(
            "{specialise} kernel k(x: &Tensor<f32, (K,)>) {{
                let [t] = threads([32]);
                let mut values = alloc_local::<f32>([K / 32]);
                for i in unroll(0..K / 32) {{
                    values[i] = x[32 * i + t];
                }}
            }}"
        ))
    };
    let text = report(&check(&kernel("")));
    assert!(text.contains("an extent of `values` must be a constant"), "{text}");
    let kernel = kernel("#[specialize(K, max = 1)]");
    let said = check(&kernel);
    assert!(said.iter().all(|d| d.code == crate::diag::Code::UNUSED), "nothing reads `values`: {}", report(&said));
    let bound = bind(&kernel, &with(&kernel, 256)).unwrap();
    assert_eq!(bound.buffer_extents(BufferId::from_u32(0)), [8]);
    let analysis = analyse(&bound, Target::Sm90a);
    assert_eq!(report(&analysis.diagnostics), "");
    assert!(analysis.bounds.values().flatten().all(|b| *b == Bound::Proven), "{:?}", analysis.bounds);
    let none = lower(&kernel, &with(&kernel, 0), Target::Sm90a);
    assert!(none.is_err_and(|all| report(&all).contains("for K = 0")));
}

#[test]
fn what_is_specialised_is_a_tensors_extent_and_listed_once() {
    let damaged = |change: fn(&mut Specialize)| {
        let mut kernel = specialised();
        change(kernel.attributes.specialize.as_mut().unwrap());
        crate::codec::decode(&crate::codec::encode(&kernel))
    };
    assert!(damaged(|_| {}).is_ok_and(|kernel| kernel == specialised()));
    assert!(damaged(|s| s.dims.push(s.dims[0])).is_err());
    assert!(damaged(|s| s.dims = vec![]).is_err());
    assert!(damaged(|s| s.dims = vec![DimId::from_u32(99)]).is_err());
    assert!(damaged(|s| s.max = 0).is_err());
}
