//! The scheduler over a fake backend.

use super::*;
use crate::fake::Fake;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

const LIMITS: Limits = Limits { max_batch: 4, max_tokens: 8, page: 4, pages: 16, max_context: 40, vocab: 50 };

fn request(prompt: &[u32], max_new: usize) -> Request {
    Request { prompt: prompt.to_vec(), max_new, sampling: Sampling::GREEDY, end: vec![0, 1] }
}

/// Steps until nothing is left to do; the answers by sequence, each with how it ended.
fn run(scheduler: &mut Scheduler, backend: &mut Fake) -> HashMap<SequenceId, (Vec<u32>, Option<Finish>)> {
    let mut answers: HashMap<SequenceId, (Vec<u32>, Option<Finish>)> = HashMap::new();
    while !scheduler.is_idle() {
        for event in scheduler.step(backend).unwrap() {
            let (tokens, finish) = answers.entry(event.id).or_default();
            assert_eq!(*finish, None, "an event after the last one");
            tokens.extend(event.token);
            *finish = event.finish;
        }
    }
    answers
}

#[test]
fn what_can_never_run_is_refused_at_once() {
    let mut scheduler = Scheduler::new(LIMITS, 2);
    assert_eq!(scheduler.submit(request(&[], 1)), Err(Refused::EmptyPrompt));
    assert_eq!(scheduler.submit(request(&[2], 0)), Err(Refused::NoAnswer));
    assert_eq!(scheduler.submit(request(&[2, 50], 1)), Err(Refused::UnknownToken { token: 50, vocab: 50 }));
    for (temperature, top_p) in [(-1.0, 1.0), (f32::INFINITY, 1.0), (f32::NAN, 1.0), (1.0, 1.5), (1.0, f32::NAN)] {
        let sampling = Sampling { temperature, top_p, ..Sampling::GREEDY };
        let refused = scheduler.submit(Request { sampling, ..request(&[2], 1) });
        assert!(matches!(refused, Err(Refused::Sampling { .. })), "{sampling:?}");
    }
    let context = Refused::Context { prompt: 2, max_new: 39, max_context: 40 };
    assert_eq!(scheduler.submit(request(&[2, 3], 39)), Err(context));
    assert!(matches!(scheduler.submit(request(&[2], usize::MAX)), Err(Refused::Context { .. })));
    let mut small = Scheduler::new(Limits { pages: 3, ..LIMITS }, 2);
    assert_eq!(small.submit(request(&[2, 3], 12)), Err(Refused::Cache { needed: 4, pages: 3 }));
    assert!(small.submit(request(&[2, 3], 11)).is_ok(), "the last token needs no place in the cache");
    assert!(scheduler.submit(request(&[2], 1)).is_ok() && scheduler.submit(request(&[2], 1)).is_ok());
    assert_eq!(scheduler.submit(request(&[2], 1)), Err(Refused::QueueFull { queue: 2 }));
}

#[test]
fn nobody_overtakes_the_head_of_the_queue() {
    let mut scheduler = Scheduler::new(Limits { pages: 6, ..LIMITS }, 9);
    let mut backend = Fake::new(Limits { pages: 6, ..LIMITS });
    let large = |first| Request { end: Vec::new(), ..request(&[first; 9], 4) };
    let first = scheduler.submit(large(2)).unwrap();
    let second = scheduler.submit(Request { end: Vec::new(), ..request(&[3; 16], 5) }).unwrap();
    let small = scheduler.submit(Request { end: Vec::new(), ..request(&[4], 1) }).unwrap();
    scheduler.step(&mut backend).unwrap();
    assert_eq!(
        scheduler.running().collect::<Vec<_>>(),
        [first],
        "three free pages would do for the third, not the second"
    );
    let answers = run(&mut scheduler, &mut backend);
    assert!([first, second, small].iter().all(|id| answers[id].1 == Some(Finish::Length)));
}

#[test]
fn prompts_fill_what_the_answers_leave_of_a_step() {
    let mut scheduler = Scheduler::new(LIMITS, 9);
    let mut backend = Fake::new(LIMITS);
    scheduler.submit(Request { end: Vec::new(), ..request(&[2; 3], 9) }).unwrap();
    scheduler.submit(Request { end: Vec::new(), ..request(&[3; 18], 9) }).unwrap();
    let mut loads = Vec::new();
    for _ in 0..4 {
        scheduler.step(&mut backend).unwrap();
        let Load { sequences, prompt_tokens, new_tokens } = scheduler.load();
        loads.push((sequences, prompt_tokens, new_tokens));
    }
    // 3 + 5 of 18 tokens; 1 + 7; 1 + 6, the last of the prompt; 1 + 1.
    assert_eq!(loads, [(2, 8, 1), (2, 7, 1), (2, 6, 2), (2, 0, 2)]);
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let mut scheduler = Scheduler::new(LIMITS, 9);
    let mut backend = Fake::new(LIMITS).failing_at(2);
    let prompt = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    let id = scheduler.submit(Request { end: Vec::new(), ..request(&prompt, 6) }).unwrap();
    let mut answer = Vec::new();
    let mut failures = 0;
    while !scheduler.is_idle() {
        match scheduler.step(&mut backend) {
            Ok(events) => answer.extend(events.iter().filter(|event| event.id == id).filter_map(|event| event.token)),
            Err(_) => failures += 1,
        }
    }
    assert_eq!((failures, answer), (1, Fake::answer(&LIMITS, &prompt, 6, &[])));
}

/// Random arrivals, lengths, limits and cancels: every sequence gets what it gets alone, in the order of the queue, and at the
/// end every page is free.
#[test]
fn each_sequence_gets_what_it_gets_alone() {
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let limits = Limits {
            max_batch: random.random_range(1..6),
            max_tokens: random.random_range(1..12),
            page: random.random_range(1..6),
            pages: random.random_range(8..30),
            max_context: 40,
            vocab: random.random_range(3..60),
        };
        let (mut scheduler, mut backend) = (Scheduler::new(limits, 8), Fake::new(limits));
        let mut asked: HashMap<SequenceId, Request> = HashMap::new();
        let mut got: HashMap<SequenceId, (Vec<u32>, Option<Finish>)> = HashMap::new();
        let mut cancelled = Vec::new();
        let mut seen: Vec<SequenceId> = Vec::new();
        for round in 0.. {
            if round < 60 && random.random_bool(0.4) {
                let prompt: Vec<u32> =
                    (0..random.random_range(1..20)).map(|_| random.random_range(0..limits.vocab as u32)).collect();
                let request = request(&prompt, random.random_range(1..20));
                if let Ok(id) = scheduler.submit(request.clone()) {
                    asked.insert(id, request);
                }
            }
            if random.random_bool(0.1)
                && let Some(&id) = asked.keys().min_by_key(|id| (id.0 * 7919 + seed) % 31)
                && scheduler.cancel(id)
            {
                cancelled.push(id);
            }
            for event in scheduler.step(&mut backend).unwrap() {
                assert!(!cancelled.contains(&event.id), "seed {seed}: an event of a cancelled sequence");
                let (tokens, finish) = got.entry(event.id).or_default();
                assert_eq!(*finish, None, "seed {seed}: an event after the last one");
                tokens.extend(event.token);
                *finish = event.finish;
            }
            let new: Vec<SequenceId> = scheduler.running().filter(|id| !seen.contains(id)).collect();
            assert!(new.iter().all(|id| Some(id) > seen.iter().max()), "seed {seed}: admitted out of order");
            seen.extend(new);
            if round >= 60 && scheduler.is_idle() {
                break;
            }
        }
        assert_eq!(scheduler.free_pages(), limits.pages, "seed {seed}: pages leaked");
        for (id, Request { prompt, max_new, end, .. }) in asked {
            let alone = Fake::answer(&limits, &prompt, max_new, &end);
            let (tokens, finish) = got.remove(&id).unwrap_or_default();
            if cancelled.contains(&id) {
                assert!(alone.starts_with(&tokens), "seed {seed}: {id:?}");
            } else {
                let expected = if alone.len() == max_new { Finish::Length } else { Finish::End };
                assert_eq!((tokens, finish), (alone, Some(expected)), "seed {seed}: {id:?}");
            }
        }
    }
}
