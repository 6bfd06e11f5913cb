//! Each peer's time beside ours, a line a shape: dots right of the line at 1 are slower than our fastest instance.

use crate::canvas::{Anchor, Canvas};
use crate::results::{Row, read};
use anyhow::{Context, Result};
use std::path::Path;

/// A contender: its name in the JSON, in the legend, and its dot.
type Contender = (&'static str, &'static str, &'static str);

const LEFT: f64 = 190.0;
const RIGHT: f64 = 668.0;
const HIGH: f64 = 23.0;

/// The GEMV's chart, bf16.
///
/// # Errors
/// `bench/results/gemv-h200.json` is missing or has other fields.
pub fn gemv(root: &Path) -> Result<Canvas> {
    let mut rows = read(root, "gemv-h200.json", "bf16")?;
    rows.sort_by_key(|row| row.n * row.k);
    let peers = [
        ("cutile", "cuTile", "dot-c"),
        ("triton", "Triton", "dot-b"),
        ("cublas", "cuBLAS", "dot-d"),
        ("default", "ours, chosen by default", "hollow"),
    ];
    chart(
        "GEMV, bf16, y = W x, on one NVIDIA H200: time of each relative to our fastest instance",
        "N x K",
        &rows,
        &peers,
        (0.95, 1.5),
    )
}

/// The GEMM's chart, bf16.
///
/// # Errors
/// `bench/results/gemm-h200.json` is missing or has other fields.
pub fn gemm(root: &Path) -> Result<Canvas> {
    let rows = read(root, "gemm-h200.json", "bf16")?;
    let peers = [
        ("cutile", "cuTile", "dot-c"),
        ("triton", "Triton", "dot-b"),
        ("cublas", "cuBLAS", "dot-d"),
        ("cublaslt", "cuBLASLt, best heuristic", "dot-e"),
        ("default", "ours, chosen by default", "hollow"),
    ];
    chart(
        "GEMM, bf16, C = A B^T, on one NVIDIA H200: time of each relative to our fastest instance",
        "M, N, K",
        &rows,
        &peers,
        (0.95, 1.4),
    )
}

fn chart(title: &str, shape: &str, rows: &[Row], peers: &[Contender], (least, most): (f64, f64)) -> Result<Canvas> {
    let x = |ratio: f64| LEFT + (ratio - least) / (most - least) * (RIGHT - LEFT);
    let top = 84.0;
    let bottom = top + HIGH * rows.len() as f64;
    let mut spoken = String::new();
    let mut lines = Vec::new();
    for row in rows {
        let ours = row.us("ours").context("a row without ours")?;
        let found: Vec<(&Contender, f64)> =
            peers.iter().filter_map(|peer| Some((peer, row.us(peer.0)? / ours))).collect();
        let said: Vec<String> = found.iter().map(|(peer, ratio)| format!("{} {ratio:.3}", peer.1)).collect();
        spoken += &format!(" {}: {}.", row.shape(), said.join(", "));
        lines.push((row, ours, found));
    }
    let mut c = Canvas::new(
        bottom + 52.0,
        title,
        &format!("Times relative to our fastest instance; above 1 is slower than ours.{spoken}"),
    );
    c.left(16.0, 26.0, "strong", title);
    let mut at = 16.0;
    for (_, name, dot) in peers {
        c.circle(at + 6.0, 46.0, 5.0, dot);
        c.left(at + 16.0, 50.5, "small", name);
        at += 34.0 + 6.4 * name.len() as f64;
    }
    c.text(LEFT - 62.0, top - 8.0, Anchor::End, "small faint", shape);
    c.text(LEFT - 8.0, top - 8.0, Anchor::End, "small faint", "ours, us");

    let mut tick = least;
    while tick < most + 1e-9 {
        let is_ours = (tick - 1.0).abs() < 1e-9;
        c.line([x(tick), top - 2.0], [x(tick), bottom], if is_ours { "roof" } else { "thin" });
        c.middle(x(tick), bottom + 17.0, if is_ours { "small strong" } else { "small" }, &format!("{tick:.2}"));
        tick += 0.05;
    }
    c.text(RIGHT, bottom + 38.0, Anchor::End, "small faint", "slower than ours: to the right");
    c.left(16.0, bottom + 38.0, "small faint", "cold L2; medians of 15 rounds in random order, in one process");
    for (index, (row, ours, found)) in lines.iter().enumerate() {
        let y = top + HIGH * (index as f64 + 0.5);
        c.text(LEFT - 62.0, y + 4.0, Anchor::End, "cell", &row.shape());
        c.text(LEFT - 8.0, y + 4.0, Anchor::End, "cell faint", &microseconds(*ours));
        // What is off the scale stands at its end, with its number.
        let mut beyond: Vec<(&str, f64)> = Vec::new();
        for (place, (peer, ratio)) in found.iter().enumerate() {
            let apart = (place as f64 - (found.len() - 1) as f64 / 2.0) * 2.8;
            match *ratio <= most {
                true => c.circle(x(*ratio), y + apart, if peer.2 == "hollow" { 4.0 } else { 5.0 }, peer.2),
                false => beyond.push((peer.2, *ratio)),
            }
        }
        beyond.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (place, (dot, ratio)) in beyond.iter().rev().enumerate() {
            let x = RIGHT + 16.0 - 44.0 * place as f64;
            c.polygon(&[[x - 4.0, y - 5.0], [x + 5.0, y], [x - 4.0, y + 5.0]], dot);
            c.left(x + 8.0, y + 4.0, "cell", &format!("{ratio:.2}"));
        }
    }
    Ok(c)
}

/// A time with three digits or more, as it is read aloud.
fn microseconds(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2}"),
        us if us < 1000.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}
