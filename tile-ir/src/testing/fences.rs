//! Proxy fences that make nothing visible: no path leads to them from a thread's own store to shared memory, without another one between. What a
//! thread has only read, copies and products that it lets start afterwards may overwrite without a fence.

use crate::ir::AccessMode;
use crate::lowered::*;

/// Whether a proxy fence has nothing to make visible, on every path.
pub(super) fn shows_nothing(program: &Program, fence: &OpKind) -> bool {
    let mut walk = Walk { fence, shows: false };
    walk.ops(&program.body, false);
    !walk.shows
}

struct Walk<'p> {
    /// By its address, so that another one is not it.
    fence: &'p OpKind,
    shows: bool,
}

impl Walk<'_> {
    /// Operations in their order: whether the thread may have stored something since its last proxy fence, before them and after.
    fn ops(&mut self, ops: &[Op], mut stored: bool) -> bool {
        for op in ops {
            let kind = &op.kind;
            self.shows |= std::ptr::eq(kind, self.fence) && stored;
            let stores = |part: &Part<'_>| matches!(part, Part::Memory(memory, access, _) if *access != AccessMode::Read && matches!(memory.space, Space::Shared(_)));
            // What copies bring is there when they have been waited for.
            stored |= matches!(kind, OpKind::AsyncWait { .. } | OpKind::AsyncArrive { .. });
            stored |= kind.parts().iter().any(stores);
            if *kind == OpKind::FenceProxyAsync {
                stored = false;
            } else if let OpKind::If { then, otherwise, .. } = kind {
                stored = self.ops(then, stored) | self.ops(otherwise, stored);
            } else if let OpKind::For { body, .. } = kind {
                // An iteration comes after another one too.
                let after = stored | self.ops(body, stored);
                stored = after | self.ops(body, after);
            }
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::plant::{fences_nothing, mistakes};

    /// The second of three fences in a loop has a store before it, the first one the fence of the iteration before, and the third one the second.
    #[test]
    fn a_fence_is_for_what_was_stored_since_the_last_one() {
        let text = "program turns for sm_90a
dims N
parameters
    x: wide = address of x
    N: index = dim N
tensors
    x: f32 (N,) of argument 0
launch
    blocks [1, 1, 1]
    threads [32, 1, 1]
shared: 128 bytes
    xs: f32[32] at byte 0, aligned to 16
body
    shared xs
    for turn: index in 0..N step 1 {
        fence proxy async
        barrier
        if turn < 4 {
            xs[thread.x] = x[turn]
        }
        fence proxy async
        barrier
        fence proxy async
    }
";
        let program = crate::text::parse_program(text).unwrap_or_else(|error| panic!("{error}"));
        let fences = mistakes(&program).into_iter().filter(|m| m.text.starts_with("`fence proxy async`"));
        let nothing: Vec<bool> = fences.map(|mistake| fences_nothing(&program, &mistake)).collect();
        assert_eq!(nothing, [true, false, true]);
    }
}
