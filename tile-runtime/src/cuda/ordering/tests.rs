//! The rule against a model of streams: the uses that any program makes, from several threads, are ordered.

use super::{Streams, Use, lock};
use std::sync::{Barrier, Mutex};

/// One use of the memory; the streams it had to wait for.
fn act(streams: &mut Streams, stream: u8, how: Use) -> Vec<u8> {
    let mut waits = Vec::new();
    let waited = streams.settle(stream, how, |earlier| {
        waits.push(earlier);
        Ok(())
    });
    waited.expect("nothing fails");
    waits
}

fn written_by(writer: u8) -> Streams {
    Streams { writer, readers: 0 }
}

#[test]
fn one_stream_never_waits() {
    let mut streams = written_by(0);
    for how in [Use::Read, Use::Write, Use::Read, Use::Read, Use::Write] {
        assert_eq!(act(&mut streams, 0, how), [0u8; 0]);
    }
}

#[test]
fn readers_wait_for_the_writer_and_writers_for_everybody() {
    let mut streams = written_by(0);
    assert_eq!(act(&mut streams, 1, Use::Read), [0]);
    assert_eq!(act(&mut streams, 1, Use::Read), [0u8; 0], "it has waited");
    assert_eq!(act(&mut streams, 2, Use::Read), [0]);
    assert_eq!(act(&mut streams, 1, Use::Write), [0, 2]);
    assert_eq!(act(&mut streams, 1, Use::Read), [0u8; 0]);
    assert_eq!(act(&mut streams, 2, Use::Read), [1]);
    assert_eq!(act(&mut streams, 63, Use::Write), [1, 2]);
}

#[test]
fn what_could_not_be_ordered_is_not_recorded() {
    let mut streams = written_by(3);
    let refused = || crate::Error::DeviceName { value: "a failure".into() };
    assert!(streams.settle(5, Use::Write, |_| Err(refused())).is_err());
    assert_eq!(act(&mut streams, 5, Use::Read), [3], "the writer is still the old one");
}

fn random(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

/// What a driver would see, in the order of its calls.
#[derive(Clone, Copy, Debug)]
enum Call {
    /// Stream `.0` waits for everything queued on stream `.1` so far.
    Wait(usize, usize),
    /// Work that uses memory is queued on a stream.
    Work(usize, usize, Use),
}

/// Every read comes after the latest write that was queued before it, and every write after everything.
fn assert_ordered(calls: &[Call], streams: usize, memories: usize) {
    // known[s][t]: how many works of stream t are done before whatever is queued on stream s from now.
    let mut known = vec![vec![0usize; streams]; streams];
    let mut queued = vec![0usize; streams];
    // Of each memory, the uses so far: stream, number on it, whether it wrote.
    let mut uses: Vec<Vec<(usize, usize, bool)>> = vec![vec![]; memories];
    for (at, call) in calls.iter().enumerate() {
        match *call {
            Call::Wait(later, earlier) => {
                let mut learnt = known[earlier].clone();
                learnt[earlier] = queued[earlier];
                known[later].iter_mut().zip(learnt).for_each(|(k, l)| *k = (*k).max(l));
            }
            Call::Work(stream, memory, how) => {
                let write = how == Use::Write;
                for (other, number, wrote) in &uses[memory] {
                    let before = *other == stream || known[stream][*other] >= *number;
                    assert!(before || !(write || *wrote), "call {at}, {call:?}, is not after {other}:{number}");
                }
                queued[stream] += 1;
                uses[memory].push((stream, queued[stream], write));
            }
        }
    }
}

/// What is queued by works that use random memories on random streams, from several threads that hold the locks as
/// [`super::hold`] does. `held` false: only for the decision.
fn history(seed: u64, threads: usize, works: usize, held: bool) -> Vec<Call> {
    const STREAMS: usize = 4;
    const MEMORIES: usize = 3;
    let usages: Vec<Mutex<Streams>> = (0..MEMORIES).map(|_| Mutex::new(written_by(0))).collect();
    let calls = Mutex::new(Vec::new());
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (usages, calls, start) = (&usages, &calls, &start);
            scope.spawn(move || {
                let mut seed = seed.wrapping_mul(977).wrapping_add(thread as u64);
                start.wait();
                for _ in 0..works {
                    let stream = random(&mut seed) % STREAMS;
                    let wanted = 1 + random(&mut seed) % ((1 << MEMORIES) - 1);
                    let writes = random(&mut seed);
                    let mut locks = Vec::new();
                    // In the order of their places, each once.
                    for memory in (0..MEMORIES).filter(|m| wanted >> m & 1 == 1) {
                        let how = if writes >> memory & 3 == 0 { Use::Write } else { Use::Read };
                        let mut streams = lock(&usages[memory]);
                        for earlier in act(&mut streams, stream as u8, how) {
                            lock(calls).push(Call::Wait(stream, usize::from(earlier)));
                        }
                        locks.push((memory, how, held.then_some(streams)));
                    }
                    // Somewhere between the decision and the call of the driver.
                    if random(&mut seed).is_multiple_of(3) {
                        std::thread::yield_now();
                    }
                    let mut calls = lock(calls);
                    calls.extend(locks.iter().map(|(memory, how, _)| Call::Work(stream, *memory, *how)));
                }
            });
        }
    });
    calls.into_inner().expect("no thread has panicked")
}

/// How many histories, times what `TILE_SOAK` asks for.
fn histories(few: u64) -> u64 {
    few * std::env::var("TILE_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn any_history_of_one_thread_is_ordered() {
    for seed in 0..histories(500) {
        assert_ordered(&history(seed, 1, 40, true), 4, 3);
    }
}

#[test]
fn any_history_of_several_threads_is_ordered() {
    for seed in 0..histories(150) {
        assert_ordered(&history(seed, 4, 60, true), 4, 3);
    }
}

/// The model does find it where the lock is not held until the work is queued: the rule is needed.
#[test]
fn a_decision_without_the_lock_is_found_out() {
    let wrong = |seed| {
        let calls = history(seed, 4, 60, false);
        std::panic::catch_unwind(|| assert_ordered(&calls, 4, 3)).is_err()
    };
    assert!((0..200).any(wrong));
}
