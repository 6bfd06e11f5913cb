//! Work on several candidates at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `work` on each item, by at most `threads` threads; the results in the items' order. Items are taken in order; once
/// `over` says so, no further one is begun, and its result is `None`.
pub(super) fn in_parallel<I: Sync, O: Send>(
    items: &[I],
    threads: usize,
    over: impl Fn() -> bool + Sync,
    work: impl Fn(&I) -> O + Sync,
) -> Vec<Option<O>> {
    let results: Vec<Mutex<Option<O>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { break };
            // The first is always done: there must be something to choose.
            if i > 0 && over() {
                break;
            }
            *crate::lock::lock(&results[i]) = Some(work(item));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, items.len().max(1)) {
            scope.spawn(run);
        }
        run();
    });
    results.into_iter().map(|r| r.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_threads_are_bounded() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let items: Vec<u64> = (0..40).collect();
        let results = in_parallel(
            &items,
            3,
            || false,
            |i| {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(1));
                now.fetch_sub(1, Ordering::SeqCst);
                i * i
            },
        );
        assert_eq!(results, items.iter().map(|i| Some(i * i)).collect::<Vec<_>>());
        assert!(most.into_inner() <= 3);
    }

    #[test]
    fn a_spent_budget_leaves_the_first() {
        assert_eq!(in_parallel(&[7, 8, 9], 1, || true, |i| i + 1), [Some(8), None, None]);
        assert_eq!(in_parallel(&[] as &[i32], 4, || false, |i| i + 1), []);
    }
}
