//! Every mistake of three families in small programs: loops of one side, who does what one is to do, and which block of a cluster. The verifier
//! alone finds each but those that are listed, with the reason.

use super::{Family, mistakes, planted};
use crate::ir::{Instance, Target};
use crate::lower::lower;
use crate::lowered::Program;
use crate::verify::program::{Effort, program as verify};

/// A producer and a consumer of a ring, in a cluster of two blocks that share the tiles of `b`.
const MULTICAST: &str = "kernel gemm(
    a: &Tensor<bf16, (M, K)>,
    b: &Tensor<bf16, (N, K)>,
    c: &mut Tensor<f32, (M, N)>,
) {
    let [t] = threads([128]);
    cluster([1, 2]);
    for [bx, by] in persistent([ceil_div(N, 64), ceil_div(M, 64)]) {
        let mut a_s = alloc_shared::<bf16>([64, 64]);
        let mut b_s = alloc_shared::<bf16>([64, 64]);
        let mut acc = alloc_fragment::<f32>([64, 64]);
        fill(&mut acc, 0.0f32);
        for k in pipelined(0..ceil_div(K, 64), 2) {
            copy(a.at([by * 64, k * 64]), &mut a_s);
            copy(b.at([bx * 64, k * 64]), &mut b_s);
            gemm(&a_s, b_s.t(), &mut acc);
        }
        copy(&acc, c.at_mut([by * 64, bx * 64]));
    }
}
";

fn program(text: &str) -> Program {
    let kernel = crate::text::parse_kernel(text).unwrap_or_else(|error| panic!("{error}"));
    let program = lower(&kernel, &Instance::default(), Target::Sm90a).unwrap_or_else(|all| panic!("{all:?}"));
    verify(&program, Effort::Test).unwrap_or_else(|bug| panic!("{bug:?}"));
    program
}

/// The mistakes of a family, and what the verifier says to each.
fn found(program: &Program, family: Family) -> Vec<(String, Option<String>)> {
    let of_family = mistakes(program).into_iter().filter(|mistake| mistake.family == family);
    let found = |mistake: super::Mistake| {
        let bug = verify(&planted(program, &mistake), Effort::Test).err();
        (mistake.to_string(), bug.map(|bug| format!("{bug:?}")))
    };
    of_family.map(found).collect()
}

/// What breaks a rule of mbarriers is found before a compilation too: no kernel's author can have caused it. Made twice, an mbarrier is as it was, and
/// nobody waits for ever.
#[test]
fn misuse_of_an_mbarrier_is_found_before_a_compilation() {
    let program = program(MULTICAST);
    verify(&program, Effort::Compilation).unwrap_or_else(|bug| panic!("{bug:?}"));
    let all = mistakes(&program).into_iter();
    let twice =
        all.filter(|mistake| mistake.to_string() == "Leader: every thread does what one is to do (operation 3)");
    let found = twice.map(|mistake| verify(&planted(&program, &mistake), Effort::Compilation).err());
    let found: Vec<String> = found.map(|bug| format!("{bug:?}")).collect();
    assert!(found.iter().all(|text| text.contains("TK0402") && text.contains("is initialised twice")), "{found:#?}");
    assert_eq!(found.len(), 2);
}

/// What only the compiler writes is wrong before a compilation too: a proxy fence that is missing, a shared address that TMA does not take.
#[test]
fn a_missing_fence_and_a_refused_copy_are_found_before_a_compilation() {
    let program = program(MULTICAST);
    for (text, code, why) in [
        ("`fence proxy async` is left out", "TK0401", "with no proxy fence"),
        ("a TMA load goes 64 elements further", "TK0205", "the hardware refuses this"),
    ] {
        let all: Vec<_> = mistakes(&program).into_iter().filter(|mistake| mistake.text == text).collect();
        let found = all.iter().map(|mistake| verify(&planted(&program, mistake), Effort::Compilation).err());
        let found: Vec<String> = found.map(|bug| format!("{bug:?}")).collect();
        assert!(
            !found.is_empty() && found.iter().all(|bug| bug.contains(code) && bug.contains(why)),
            "{text}: {found:#?}"
        );
    }
}

/// All mistakes of a family in [`MULTICAST`] are found, but those with these texts, which are not found.
#[track_caller]
fn all_are_found(family: Family, least: usize, but: &[&str]) {
    let all = found(&program(MULTICAST), family);
    assert!(all.len() >= least, "{} mistakes: {all:#?}", all.len());
    for (text, bug) in all {
        assert_eq!(bug.is_none(), but.iter().any(|right| text.contains(right)), "{text}: {bug:?}");
    }
}

/// The loop that makes mbarriers, the producer's loops over tiles and steps and its last waits, the consumer's loops over tiles and steps: each a step
/// more and less.
#[test]
fn loops_of_one_side_are_as_long_as_the_other_sides() {
    all_are_found(Family::Loop, 12, &[]);
}

/// The producer may be any one of its warps.
#[test]
fn one_thread_does_what_one_is_to_do() {
    all_are_found(Family::Leader, 24, &["another warp does what one is to do (operation 14)"]);
}

/// Each of two threads arrives at one of two blocks: it does not matter which thread at which.
#[test]
fn arrivals_and_copies_go_to_their_blocks() {
    all_are_found(Family::Cluster, 8, &["an arrival goes to the next block"]);
}

/// A kernel of two blocks of which one waits for what the other stores into it: mistakes in who is which.
#[test]
fn one_block_does_what_one_is_to_do() {
    let program = program(
        "kernel sums(
    x: &Tensor<f32, (P, Q)>,
    y: &mut Tensor<f32, (P, Q)>,
) {
    let [part, b] = blocks([4, ceil_div(P, 16)]);
    let [t] = threads([64]);
    cluster([4, 1]);
    let mut tile = alloc_fragment::<f32>([16, 32]);
    copy(x.at([b * 16, part * 32]), &mut tile);
    cluster_reduce(Sum, &mut tile);
    if part == 0 {
        copy(&tile, y.at_mut([b * 16, 0]));
    }
}
",
    );
    let all = found(&program, Family::Cluster);
    assert!(all.iter().any(|(text, _)| text.contains("another block does what one is to do")), "{all:#?}");
    assert!(all.iter().any(|(text, _)| text.contains("a store into another block goes to the next")), "{all:#?}");
    assert!(all.iter().all(|(_, bug)| bug.is_some()), "{all:#?}");
}
