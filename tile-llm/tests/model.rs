//! The forward pass on the simulators, and on a GPU if there is one: against the reference in f64, and what holds bit for bit.

use tile_llm::config::{Architecture, FloatType};
use tile_llm::model::{Model, Options};
use tile_llm::reference::Reference;
use tile_llm::{Backend, Limits, ModelConfig, Part, Sampling, Weights};
use tile_runtime::{Device, bf16};

const LIMITS: Limits = Limits { max_batch: 4, max_tokens: 24, page: 64, pages: 12, max_context: 192, vocab: 259 };
const OPTIONS: Options = Options { limits: LIMITS, graphs: false, invariant: false };

/// The configuration `tiny`, as a Qwen3 or a Llama model.
fn config(architecture: Architecture) -> ModelConfig {
    let tiny = ModelConfig::named("tiny").unwrap();
    ModelConfig { architecture, tie_word_embeddings: architecture == Architecture::Qwen3, ..tiny }
}

fn model(device: &Device, config: &ModelConfig, options: Options) -> Model<f32> {
    Model::load(device, config, &Weights::random(config, 7), options).unwrap()
}

/// Tokens that look like nothing.
fn tokens(count: usize, seed: usize) -> Vec<u32> {
    (0..count).map(|i| ((i + seed) * 7919 % 257) as u32).collect()
}

/// Sequences run to their ends, all in the same steps: each with its prompt, its pages, and how many tokens are drawn.
fn generate(
    model: &mut Model<f32>,
    prompts: &[(Vec<u32>, Vec<u32>)],
    steps: usize,
    sampling: Sampling,
) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = prompts.iter().map(|(prompt, _)| prompt.clone()).collect();
    let mut done = vec![0; prompts.len()];
    for step in 0..steps {
        let parts: Vec<Part<'_>> = all
            .iter()
            .zip(&done)
            .zip(prompts)
            .map(|((tokens, done), (_, pages))| Part {
                tokens: &tokens[*done..],
                position: *done,
                pages,
                sampling,
                sample: true,
            })
            .collect();
        let next = model.step(&parts).unwrap_or_else(|error| panic!("step {step}: {error}"));
        for ((tokens, done), next) in all.iter_mut().zip(&mut done).zip(next) {
            *done = tokens.len();
            tokens.push(next.unwrap());
        }
    }
    all
}

fn agrees(device: &Device, architecture: Architecture, count: usize) {
    let config = config(architecture);
    let tokens = tokens(count, 3);
    // The last third as decode steps.
    let prompt = count - count / 3;
    let wanted = Reference::load(&config, &Weights::random(&config, 7)).unwrap().logits(&tokens).unwrap();
    let found = model(device, &config, OPTIONS).logits(&tokens, prompt).unwrap();
    let wanted: Vec<f64> = wanted.into_iter().flatten().collect();
    assert_eq!(found.len(), wanted.len());
    let largest = wanted.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        let error = (f64::from(*found) - wanted).abs();
        assert!(error <= 2e-5 * largest, "{} {architecture:?}: logit {at}: {found} {wanted}", device.label());
    }
}

/// The fast simulator, and the GPU.
fn devices() -> Vec<Device> {
    let mut all = vec![Device::simulator()];
    match Device::cuda(0) {
        Ok(device) => all.push(device),
        Err(error) => eprintln!("SKIPPED on a GPU: {error}"),
    }
    all
}

#[test]
fn logits_are_those_of_the_reference() {
    for device in devices() {
        for architecture in [Architecture::Qwen3, Architecture::Llama] {
            agrees(&device, architecture, 70);
        }
    }
}

/// A prompt that is long enough for the kernel of prompts, in two pieces, then decode steps, in bf16: as near to the reference as
/// rounding every layer's values lets it be.
#[test]
fn bf16_is_near_the_reference() {
    let config = ModelConfig { dtype: FloatType::Bf16, ..config(Architecture::Qwen3) };
    let weights = Weights::random(&config, 7);
    let tokens = tokens(60, 3);
    let wanted = Reference::load(&config, &weights).unwrap().logits(&tokens).unwrap();
    let wanted: Vec<f64> = wanted.into_iter().flatten().collect();
    let largest = wanted.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    for device in devices() {
        let limits = Limits { max_batch: 40, max_tokens: 40, page: 128, ..LIMITS };
        let mut model = Model::<bf16>::load(&device, &config, &weights, Options { limits, ..OPTIONS }).unwrap();
        let found = model.logits(&tokens, 57).unwrap();
        let error = found.iter().zip(&wanted).map(|(found, wanted)| (f64::from(*found) - wanted).abs());
        let error = error.fold(0.0, f64::max);
        assert!(error <= 0.03 * largest, "{}: {error} of {largest}", device.label());
    }
}

#[test]
fn the_checked_simulator_finds_nothing() {
    agrees(&Device::checked_simulator(), Architecture::Qwen3, 5);
}

#[test]
fn pages_and_graphs_change_no_bit() {
    devices().iter().for_each(pages_and_graphs);
}

fn pages_and_graphs(device: &Device) {
    let config = config(Architecture::Qwen3);
    let prompts = |pages: [[u32; 3]; 2]| [(tokens(9, 1), pages[0].to_vec()), (tokens(14, 2), pages[1].to_vec())];
    let run = |graphs: bool, prepared: bool, pages: [[u32; 3]; 2]| {
        let mut model = model(device, &config, Options { graphs, ..OPTIONS });
        if prepared {
            model.prepare().unwrap();
        }
        generate(&mut model, &prompts(pages), 6, Sampling { temperature: 1.0, top_k: 40, top_p: 0.95, seed: 11 })
    };
    let plain = run(false, false, [[0, 1, 2], [3, 4, 5]]);
    assert_eq!(plain, run(false, false, [[10, 2, 7], [0, 11, 5]]), "other pages");
    assert_eq!(plain, run(true, false, [[0, 1, 2], [3, 4, 5]]), "captured steps");
    assert_eq!(plain, run(true, true, [[0, 1, 2], [3, 4, 5]]), "steps captured before the first one");
}

#[test]
fn a_batch_gives_each_sequence_what_it_gets_alone() {
    devices().iter().for_each(batch_and_alone);
}

fn batch_and_alone(device: &Device) {
    let config = config(Architecture::Llama);
    let prompts = [(tokens(3, 5), vec![0, 1, 2]), (tokens(11, 6), vec![3, 4, 5]), (tokens(7, 9), vec![8, 7, 6])];
    let options = Options { invariant: true, ..OPTIONS };
    let together = generate(&mut model(device, &config, options), &prompts, 4, Sampling::GREEDY);
    for (prompt, together) in prompts.iter().zip(&together) {
        let alone = generate(&mut model(device, &config, options), std::slice::from_ref(prompt), 4, Sampling::GREEDY);
        assert_eq!(alone[0], *together);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::simulator();
    let config = config(Architecture::Qwen3);
    let load = |config: &ModelConfig, limits: Limits| {
        Model::<f32>::load(&device, config, &Weights::random(config, 7), Options { limits, ..OPTIONS })
            .err()
            .unwrap()
            .to_string()
    };
    assert!(load(&config, Limits { page: 40, ..LIMITS }).contains("pages of 40 tokens"));
    assert!(load(&config, Limits { vocab: 300, ..LIMITS }).contains("300"));
    assert!(load(&ModelConfig { head_dim: 32, ..config.clone() }, LIMITS).contains("head_dim"));
    let mut model = model(&device, &config, OPTIONS);
    let part = |tokens, pages| Part { tokens, position: 0, pages, sampling: Sampling::GREEDY, sample: true };
    for (tokens, pages) in [(&[1, 2][..], &[][..]), (&[300], &[0]), (&[1], &[12]), (&[], &[0])] {
        let error = model.step(&[part(tokens, pages)]).unwrap_err().to_string();
        assert!(error.starts_with("step: part 0"), "{error}");
    }
}
