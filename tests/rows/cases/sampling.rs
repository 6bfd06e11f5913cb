//! The next token.

use super::*;
use tile_kernel_examples::data::{integers, normal};
use tile_kernel_examples::rows as reference;
use tile_kernel_examples::sampling::Row;
use tile_kernels::sampling::Sampling;

pub fn argmax<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    for shape @ [m, n] in [[0, 8], [1, 1], [3, 100], [2, 4104], [4, 8193], [1, 70000], [10, 33000]] {
        for (margins, seed) in MARGINS.into_iter().zip(0..) {
            // Numbers, many equal ones, and rows with what is no number.
            let mut logits = if seed == 1 { integers::<T>(seed, m * n, 3) } else { normal::<T>(seed, m * n) };
            if seed == 2 {
                logits.iter_mut().step_by(3).for_each(|v| *v = T::from_f32(f32::NAN));
                logits.iter_mut().skip(1).step_by(7).for_each(|v| *v = T::from_f32(f32::NEG_INFINITY));
            }
            all.extend(argmax_of(device, &logits, shape, margins));
        }
    }
    // Nothing above -inf, nothing at all, infinities.
    for row in [
        [f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY],
        [f32::NAN; 3],
        [f32::INFINITY, f32::NAN, f32::INFINITY],
        [f32::NEG_INFINITY; 3],
    ] {
        all.extend(argmax_of(device, &row.map(T::from_f32), [1, 3], MARGINS[0]));
    }
    all
}

fn argmax_of<T: Rounded>(device: &Device, logits: &[T], shape: [usize; 2], margins: [usize; 2]) -> Bits {
    let logits_device = Framed::new(device, logits, shape, margins);
    let mut tokens = device.tensor(&vec![12345u32; shape[0]], [shape[0]]).unwrap();
    tile_kernels::sampling::argmax(device, logits_device.view(), &mut tokens).unwrap();
    let tokens = tokens.to_vec().unwrap();
    assert_eq!(tokens, reference::argmax(&wide(logits), shape[1]), "{shape:?} {margins:?}");
    tokens
}

/// Temperature, top-k, top-p.
const CHOICES: [(f32, u32, f32); 12] = [
    (0.0, 5, 0.5),
    (1.0, 0, 1.0),
    (0.7, 5, 1.0),
    (1.3, 0, 0.9),
    (0.8, 50, 0.95),
    (1.0, 1, 0.5),
    (1e-3, 0, 0.1),
    (1.0, 3, 0.0),
    (2.0, 100_000, 0.99),
    (-1.0, 0, 1.0),
    (f32::NAN, 0, 1.0),
    (1e30, 7, 0.6),
];

/// As the reference chooses, wherever rounding does not decide.
pub fn sample<T: Rounded>(device: &Device) -> Bits {
    let mut all = Vec::new();
    let mut decided = 0;
    for (n, seed) in [1, 5, 100, 1000, 4104, 8193].into_iter().zip(0..) {
        let rows = CHOICES.into_iter().zip(0..).map(|((temperature, top_k, top_p), row)| {
            let mut logits = normal::<T>(seed * 100 + row, n);
            logits.iter_mut().for_each(|x| *x = T::from_f32(x.to_f32() * 3.0));
            match row % 3 {
                // Many equal ones, both zeros among them.
                1 => logits.iter_mut().for_each(|x| *x = T::from_f32(x.to_f32().round())),
                2 => {
                    logits.iter_mut().step_by(3).for_each(|x| *x = T::from_f32(f32::NEG_INFINITY));
                    logits.iter_mut().skip(1).step_by(11).for_each(|x| *x = T::from_f32(f32::NAN));
                }
                _ => {}
            }
            let seed = [seed as u32 + 7, row as u32 * 0x0100_0001];
            Row { logits: wide(&logits), temperature, top_k, top_p, seed, position: 40 + row as u32 }
        });
        let rows: Vec<Row> = rows.collect();
        let tokens = sample_rows::<T>(device, &rows);
        for (row, token) in rows.iter().zip(&tokens) {
            let (wanted, ahead) = row.sample();
            let Row { temperature, top_k, top_p, .. } = row;
            assert!(*token == wanted || ahead < 1e-4, "{n}: {temperature}, {top_k}, {top_p}: {token}, not {wanted}");
            decided += usize::from(ahead >= 1e-4);
        }
        all.extend(tokens);
    }
    assert!(decided >= 70, "{decided}");
    all
}

/// A row's token is the same alone, at another place and beside others, however many blocks read it.
pub fn sample_alone(device: &Device) -> Bits {
    let row = |at: u32, n: usize| Row {
        logits: wide(&normal::<f32>(5, n)),
        temperature: if at == 2 { 0.0 } else { 1.0 },
        top_k: at * 10,
        top_p: 0.9,
        seed: [at, 1],
        position: 3,
    };
    let alone_as_together = |rows: &[Row]| {
        let together = sample_rows::<f32>(device, rows);
        let alone: Bits =
            rows.iter().rev().flat_map(|row| sample_rows::<f32>(device, std::slice::from_ref(row))).collect();
        assert_eq!(together, alone.iter().rev().copied().collect::<Bits>());
        together
    };
    let rows: Vec<Row> = (0..6).map(|at| row(at, 300)).collect();
    let together = alone_as_together(&rows);
    // The position alone makes other choices.
    let moved: Vec<Row> = rows.iter().cloned().map(|row| Row { position: 4, ..row }).collect();
    assert_ne!(sample_rows::<f32>(device, &moved), together);
    // Rows that 32 blocks, 4 blocks and one block read.
    let mut long: Vec<Row> = (0..9).map(|at| row(at, 4097)).collect();
    let few = alone_as_together(&long);
    long.extend((9..67).map(|at| row(at, 4097)));
    let many = sample_rows::<f32>(device, &long);
    assert_eq!(few, many[..9]);
    [together, many].concat()
}

/// Of many tokens, as many of each as its probability says, within a bound on chi-square; none that is not kept.
pub fn frequencies(device: &Device) -> Bits {
    const TOKENS: u32 = 600;
    // Equal ones at the edges of top-k and top-p: 0.5 three times, -0.25 twice.
    let logits = [1.5, -0.25, 0.5, f32::NEG_INFINITY, 0.5, -0.25, 2.0, 0.5, -3.0, 0.0, -0.0].map(f64::from);
    let cases = [(1.0, 0, 1.0, 10), (0.6, 3, 1.0, 5), (1.5, 0, 0.7, 5), (2.0, 8, 0.85, 7), (1.0, 2, 0.3, 1)];
    let mut all = Vec::new();
    for (case, (temperature, top_k, top_p, kept)) in cases.into_iter().enumerate() {
        let row = |at: u32| Row {
            logits: logits.to_vec(),
            temperature,
            top_k,
            top_p,
            // Half of the tokens by their seeds, half by their positions.
            seed: if at.is_multiple_of(2) { [at, case as u32] } else { [99, case as u32] },
            position: if at.is_multiple_of(2) { 17 } else { at },
        };
        let rows: Vec<Row> = (0..TOKENS).map(row).collect();
        let tokens = sample_rows::<f32>(device, &rows);
        let mut counts = [0u32; 11];
        tokens.iter().for_each(|token| counts[*token as usize] += 1);
        let probabilities = rows[0].probabilities();
        assert_eq!(probabilities.iter().filter(|p| **p > 0.0).count(), kept, "{probabilities:?}");
        let mut chi_square = 0.0;
        for (count, p) in counts.iter().zip(&probabilities) {
            let wanted = p * f64::from(TOKENS);
            assert!(*p > 0.0 || *count == 0, "what is not kept was chosen: {counts:?}, {probabilities:?}");
            chi_square += if *p > 0.0 { (f64::from(*count) - wanted).powi(2) / wanted } else { 0.0 };
        }
        // Of a chi-square variable with d degrees of freedom, all but one in a million are below this (Laurent, Massart).
        let (d, x) = (kept as f64 - 1.0, 14.0f64);
        assert!(chi_square <= d + 2.0 * (d * x).sqrt() + 2.0 * x, "{chi_square}: {counts:?}, {probabilities:?}");
        all.extend(tokens);
    }
    all
}

fn sample_rows<T: Rounded>(device: &Device, rows: &[Row]) -> Vec<u32> {
    let (s, n) = (rows.len(), rows[0].logits.len());
    let values: Vec<T> = rows.iter().flat_map(|row| row.logits.iter().map(|x| T::from_f32(*x as f32))).collect();
    let [temperature, top_p] = [|row: &Row| row.temperature, |row: &Row| row.top_p]
        .map(|of| device.tensor(&rows.iter().map(of).collect::<Vec<f32>>(), [s]).unwrap());
    let [top_k, positions] = [|row: &Row| row.top_k, |row: &Row| row.position]
        .map(|of| device.tensor(&rows.iter().map(of).collect::<Vec<u32>>(), [s]).unwrap());
    let seeds: Vec<u32> = rows.iter().flat_map(|row| row.seed).collect();
    let seeds = device.tensor(&seeds, [s, 2]).unwrap();
    let how = Sampling {
        temperature: temperature.view(),
        top_k: top_k.view(),
        top_p: top_p.view(),
        seeds: seeds.view(),
        positions: positions.view(),
    };
    let logits = device.tensor(&values, [s, n]).unwrap();
    let mut tokens = device.tensor(&vec![12345u32; s], [s]).unwrap();
    tile_kernels::sampling::sample(device, &logits, &how, &mut tokens).unwrap();
    tokens.to_vec().unwrap()
}
