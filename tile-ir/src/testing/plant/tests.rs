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

#[test]
fn explore() {
    let program = program(MULTICAST);
    println!("{program}");
    for family in [Family::Loop, Family::Leader, Family::Cluster] {
        for (text, bug) in found(&program, family) {
            println!("{text}: {}", bug.unwrap_or_else(|| "NOT FOUND".to_owned()).chars().take(230).collect::<String>());
        }
    }
}
