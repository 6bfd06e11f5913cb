//! Loops of one side of a protocol: a producer's or a consumer's, the one that makes a ring's mbarriers, the one that waits at the end until all
//! stages have been given back.

use crate::lowered::visit::{any, count};
use crate::lowered::*;

/// Whether a loop of one side more or less is a mistake of the protocol: it makes mbarriers, or it uses some that are also used outside of it.
/// A loop with all uses of its mbarriers inside goes round as often for everybody.
pub(super) fn is_of_one_side(program: &Program, body: &[Op]) -> bool {
    let makes = |kind: &OpKind| matches!(kind, OpKind::BarrierInit { .. });
    let uses = |array: BarrierId| {
        move |kind: &OpKind| {
            !makes(kind) && kind.parts().iter().any(|part| matches!(part, Part::Barrier(b) if b.array == array))
        }
    };
    let is_divided = |array: BarrierId| {
        let here = count(body, &uses(array));
        here > 0 && here < count(&program.body, &uses(array))
    };
    any(body, &makes) || program.barriers.keys().any(is_divided)
}
