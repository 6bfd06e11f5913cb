//! Operations with those inside them: the one place that knows which operations have bodies.

use super::{Op, OpKind};

impl OpKind {
    /// The lists of operations inside: both sides of a conditional, the body of a loop.
    pub fn bodies(&self) -> [&[Op]; 2] {
        match self {
            OpKind::If { then, otherwise, .. } => [then, otherwise],
            OpKind::For { body, .. } => [body, &[]],
            _ => [&[], &[]],
        }
    }

    fn bodies_mut(&mut self) -> [Option<&mut Vec<Op>>; 2] {
        match self {
            OpKind::If { then, otherwise, .. } => [Some(then), Some(otherwise)],
            OpKind::For { body, .. } => [Some(body), None],
            _ => [None, None],
        }
    }
}

/// `f` for every operation, an outer one before those inside it.
pub fn each(ops: &[Op], f: &mut impl FnMut(&Op)) {
    for op in ops {
        f(op);
        op.kind.bodies().into_iter().for_each(|body| each(body, f));
    }
}

/// The same, to change them.
pub fn each_mut(ops: &mut [Op], f: &mut impl FnMut(&mut Op)) {
    for op in ops {
        f(op);
        op.kind.bodies_mut().into_iter().flatten().for_each(|body| each_mut(body, f));
    }
}

/// `f` for every list of operations, an outer one before those inside it: to insert and remove.
pub fn each_list_mut(ops: &mut Vec<Op>, f: &mut impl FnMut(&mut Vec<Op>)) {
    f(ops);
    for op in ops {
        op.kind.bodies_mut().into_iter().flatten().for_each(|body| each_list_mut(body, f));
    }
}

/// Whether there is such an operation.
pub fn any(ops: &[Op], is: &impl Fn(&OpKind) -> bool) -> bool {
    ops.iter().any(|op| is(&op.kind) || op.kind.bodies().into_iter().any(|body| any(body, is)))
}

/// How many there are.
pub fn count(ops: &[Op], is: &impl Fn(&OpKind) -> bool) -> usize {
    let mut found = 0;
    each(ops, &mut |op| found += usize::from(is(&op.kind)));
    found
}
