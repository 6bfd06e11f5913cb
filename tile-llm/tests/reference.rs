//! The reference forward pass beside transformers, and as a backend.

use tile_llm::reference::{Reference, ReferenceBackend};
use tile_llm::scheduler::{Request, Scheduler};
use tile_llm::{Backend, Limits, ModelConfig, Part, Sampling, Weights};

fn reference(name: &str) -> Reference {
    let config = ModelConfig::named(name).unwrap();
    Reference::load(&config, &Weights::random(&config, 0)).unwrap()
}

fn tokens() -> Vec<u32> {
    (0..40).map(|i| (7 * i * i + 13 * i + 5) % 259).collect()
}

/// The first logits at some positions, as transformers 5.23 gives them on the CPU in float64 (its norms and its RoPE are
/// float32 even then) for `tile-llm write-random NAME`.
#[test]
fn logits_are_those_of_transformers() {
    let tiny = [
        (0, [-0.0167552, -0.0741129, -0.3152651, -0.0065566, 0.0027906, 0.0602009]),
        (1, [-0.0088095, -0.1250557, -0.3567503, -0.059377, -0.0240553, 0.0481561]),
        (20, [-0.0528715, -0.1042376, -0.1074901, -0.0152675, 0.0885037, -0.3191146]),
        (39, [0.0592996, -0.2563038, 0.1424192, -0.1335765, -0.1396377, -0.2744408]),
    ];
    let llama = [
        (0, [-1.705444, -0.4883069, -0.5904748, -0.7566401, 1.9783299, -0.4274536]),
        (1, [-1.5082761, -1.6279195, -0.6414165, -0.0421201, 1.2247643, -1.0671822]),
        (20, [0.8685297, -0.6194506, -1.0835436, 1.4754949, 0.3296672, -0.5485772]),
        (39, [-0.4069113, -1.0207257, 0.579197, 0.4738529, 0.1713687, -0.3917879]),
    ];
    for (name, expected) in [("tiny", tiny), ("tiny-llama", llama)] {
        let logits = reference(name).logits(&tokens()).unwrap();
        for (position, row) in expected {
            for (found, expected) in logits[position].iter().zip(row) {
                assert!((found - expected).abs() < 1e-5, "{name}, position {position}: {found}, not {expected}");
            }
        }
        let last = reference(name).last_logits(&tokens()).unwrap();
        assert_eq!(Some(&last), logits.last());
    }
}

/// Sequences in one batch, prompts in pieces, pages out of order: as each alone and whole.
#[test]
fn batches_change_nothing() {
    let limits = Limits { max_batch: 3, max_tokens: 7, page: 4, pages: 40, max_context: 64, vocab: 259 };
    let prompts = [&tokens()[..17], &tokens()[3..4], &tokens()[5..11]];
    let sampling = |seed| Sampling { temperature: 0.8, top_k: 50, top_p: 0.95, seed };
    let mut alone = Vec::new();
    for (seed, prompt) in prompts.iter().enumerate() {
        let mut backend = ReferenceBackend::new(reference("tiny"), Limits { max_tokens: 64, ..limits });
        let pages: Vec<u32> = (0..16).collect();
        let mut all = prompt.to_vec();
        let mut from = 0;
        while all.len() < prompt.len() + 6 {
            let (tokens, position) = (&all[from..], from);
            let part = Part { tokens, position, pages: &pages, sampling: sampling(seed as u64), sample: true };
            from = all.len();
            all.push(backend.step(&[part]).unwrap()[0].unwrap());
        }
        alone.push(all.split_off(prompt.len()));
    }
    let mut backend = ReferenceBackend::new(reference("tiny"), limits);
    let mut scheduler = Scheduler::new(limits, 3);
    let ids: Vec<_> = (0..3)
        .map(|at| {
            let (prompt, sampling) = (prompts[at].to_vec(), sampling(at as u64));
            scheduler.submit(Request { prompt, max_new: 6, sampling, end: Vec::new() }).unwrap()
        })
        .collect();
    let mut together = vec![Vec::new(); 3];
    while !scheduler.is_idle() {
        for event in scheduler.step(&mut backend).unwrap() {
            together[ids.iter().position(|&id| id == event.id).unwrap()].extend(event.token);
        }
    }
    assert_eq!(together, alone);
    let outside = Part { tokens: &[1], position: 8, pages: &[0, 1], sampling: Sampling::GREEDY, sample: true };
    assert!(backend.step(&[outside]).unwrap_err().to_string().contains("2 pages of 4 tokens"));
}
