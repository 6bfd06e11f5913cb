//! Products of random shapes, as called: the best peer's time relative to ours over the size of the product.

use crate::canvas::{Anchor, Canvas};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;

/// What `bench/random_shapes.py --called` wrote, of every family.
const FILE: &str = "gemm-every-family-21f8419e-called-h200.json";

/// The plot's area.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 696.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 404.0;
/// Ends of the axes: operations, and the best peer's time over ours.
const X: (f64, f64) = (1e2, 1e13);
const Y: (f64, f64) = (0.45, 5.0);

/// Kinds of operands: the name in the legend, and its dot.
const KINDS: [(&str, &str); 5] = [
    ("16 bits, aligned", "dot-a"),
    ("16 bits, not aligned", "dot-b"),
    ("f32", "dot-c"),
    ("tf32", "dot-d"),
    ("matrix times vector", "dot-e"),
];

fn x(operations: f64) -> f64 {
    LEFT + (operations / X.0).ln() / (X.1 / X.0).ln() * (RIGHT - LEFT)
}

fn y(ratio: f64) -> f64 {
    BOTTOM - (ratio / Y.0).ln() / (Y.1 / Y.0).ln() * (BOTTOM - TOP)
}

/// A measured product.
struct Product {
    /// Its number in [`KINDS`].
    kind: usize,
    operations: f64,
    ratio: f64,
}

impl Product {
    fn of(row: &Value) -> Result<Product> {
        let text = |name: &str| row[name].as_str().with_context(|| format!("{FILE}: a row has no `{name}`"));
        let size = |name: &str| row[name].as_u64().map(|size| size as f64);
        let family = text("family")?;
        let kind = match (family, text("dtype")?) {
            ("gemv" | "gemv-odd", _) => 4,
            (_, "f32") => 2,
            (_, "tf32") => 3,
            ("odd" | "batched-odd", _) => 1,
            _ => 0,
        };
        let (n, k) = size("n").zip(size("k")).with_context(|| format!("{FILE}: a row has no `n` and `k`"))?;
        let operations = 2.0 * size("m").unwrap_or(1.0) * n * k * size("batches").unwrap_or(1.0);
        let times = row["us"].as_object().with_context(|| format!("{FILE}: a row has no `us`"))?;
        let ours = times.get("called plain").and_then(Value::as_f64).context("a row without ours")?;
        let peers = times.iter().filter(|(name, _)| !name.starts_with("called")).filter_map(|(_, us)| us.as_f64());
        let best = peers.min_by(f64::total_cmp).context("a row without peers")?;
        Ok(Product { kind, operations, ratio: best / ours })
    }
}

/// The drawing.
///
/// # Errors
/// The file of measurements is missing or has other fields.
pub fn draw(root: &Path) -> Result<Canvas> {
    let path = root.join("bench/results").join(FILE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let report: Value = serde_json::from_str(&text).with_context(|| format!("{FILE} is no JSON"))?;
    let rows = report["rows"].as_object().with_context(|| format!("{FILE} has no rows"))?;
    let products: Vec<Product> = rows.values().map(Product::of).collect::<Result<_>>()?;
    ensure!(!products.is_empty(), "{FILE} has no rows");

    let mut spoken = String::new();
    for (kind, (name, _)) in KINDS.iter().enumerate() {
        let ratios: Vec<f64> = products.iter().filter(|p| p.kind == kind).map(|p| p.ratio).collect();
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        spoken += &format!(" {name}: {} products, {mean:.2} in geometric mean, {least:.2} at least.", ratios.len());
    }
    let title = "Products of random shapes on one NVIDIA H200: the best peer's time relative to ours, as called";
    let mut c = Canvas::new(462.0, title, &format!("Above 1, ours is faster. Both axes are logarithmic.{spoken}"));
    c.left(16.0, 26.0, "strong", title);
    let mut at = 16.0;
    for (name, dot) in KINDS {
        c.circle(at + 6.0, 46.0, 4.0, dot);
        c.left(at + 16.0, 50.5, "small", name);
        at += 36.0 + 6.4 * name.len() as f64;
    }
    c.left(
        16.0,
        TOP - 12.0,
        "small faint",
        "faster than the best of cuBLAS and eight heuristics of cuBLASLt: above the line at 1",
    );
    for ratio in [0.5, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0, 4.0] {
        let is_ours = ratio == 1.0;
        c.line([LEFT, y(ratio)], [RIGHT, y(ratio)], if is_ours { "roof" } else { "thin" });
        c.text(
            LEFT - 6.0,
            y(ratio) + 4.0,
            Anchor::End,
            if is_ours { "cell strong" } else { "cell" },
            &format!("{ratio}"),
        );
    }
    for exponent in (3..=12).step_by(3) {
        let at = x(10f64.powi(exponent));
        c.line([at, TOP], [at, BOTTOM], "thin");
        c.middle(at, BOTTOM + 16.0, "cell", &format!("1e{exponent}"));
    }
    c.text(RIGHT, BOTTOM + 36.0, Anchor::End, "small faint", "operations of the product, a multiply-add being two");
    c.left(16.0, BOTTOM + 36.0, "small faint", "plain launches, caches cold, medians, in one process");
    for product in &products {
        let (ratio, operations) = (product.ratio.clamp(Y.0, Y.1), product.operations.clamp(X.0, X.1));
        c.circle(x(operations), y(ratio), 3.0, KINDS[product.kind].1);
    }
    Ok(c)
}
