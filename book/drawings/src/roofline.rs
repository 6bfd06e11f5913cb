//! The roofline of an H200 with the bundled kernels on it: peaks from `tile_ir::explain::Machine`, times from `bench/results`.

use crate::canvas::{Anchor, Canvas};
use crate::results::{Row, read};
use anyhow::{Context, Result};
use std::path::Path;
use tile_ir::explain::Machine;

const H200: Machine = Machine::H200;
/// The plot's area.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 696.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = 372.0;
/// Ends of the axes: FLOP/B and TFLOP/s.
const X: (f64, f64) = (0.5, 8192.0);
const Y: (f64, f64) = (0.5, 2000.0);

fn x(intensity: f64) -> f64 {
    LEFT + (intensity / X.0).ln() / (X.1 / X.0).ln() * (RIGHT - LEFT)
}

fn y(tflops: f64) -> f64 {
    BOTTOM - (tflops / Y.0).ln() / (Y.1 / Y.0).ln() * (BOTTOM - TOP)
}

/// The drawing.
///
/// # Errors
/// A file of measurements is missing or has other fields.
pub fn draw(root: &Path) -> Result<Canvas> {
    let gemv = read(root, "gemv-h200.json", "bf16")?;
    let gemm = read(root, "gemm-h200.json", "bf16")?;
    let point = |row: &Row| -> Result<(f64, f64)> {
        let us = row.us("ours").context("a row without ours")?;
        Ok((row.flops / row.bytes, row.flops / us * 1e-6))
    };
    let peak = H200.half_flops;
    let crossover = H200.crossover(peak);
    let mut spoken = String::new();
    for row in gemv.iter().chain(&gemm) {
        let (intensity, tflops) = point(row)?;
        let kind = if row.m.is_some() { "GEMM" } else { "GEMV" };
        spoken += &format!(" {kind} {}: {intensity:.1} FLOP/B, {tflops:.1} TFLOP/s.", row.shape());
    }
    let description = format!(
        "Operations a second over operations per byte, both logarithmic. A slanted line is the memory's {:.1} TB/s, a level one the tensor cores' dense \
         {:.0} TFLOP/s in bf16; they meet at {crossover:.0} FLOP/B.{spoken}",
        H200.bandwidth * 1e-12,
        peak * 1e-12
    );
    let mut c = Canvas::new(436.0, "Roofline of an H200 with the bundled kernels", &description);
    c.left(16.0, 26.0, "strong", "Roofline of an H200 (SXM), bf16, with the bundled kernels as measured");
    c.left(16.0, 46.0, "small faint", "TFLOP/s");
    for exponent in 0..4 {
        for digit in [1.0, 2.0, 5.0] {
            let value = digit * 10f64.powi(exponent);
            if (Y.0..=Y.1).contains(&value) {
                c.line([LEFT, y(value)], [RIGHT, y(value)], "thin");
                c.text(LEFT - 6.0, y(value) + 4.0, Anchor::End, "cell", &format!("{value}"));
            }
        }
    }
    for exponent in 0..14 {
        let value = f64::from(1 << exponent);
        if (X.0..=X.1).contains(&value) {
            c.line([x(value), TOP], [x(value), BOTTOM], "thin");
            c.middle(x(value), BOTTOM + 16.0, "cell", &format!("{value}"));
        }
    }
    c.text(RIGHT, BOTTOM + 36.0, Anchor::End, "small faint", "arithmetic intensity: FLOP per byte that must move");

    let slope = |intensity: f64| intensity * H200.bandwidth * 1e-12;
    c.path(&[[x(X.0), y(slope(X.0))], [x(crossover), y(peak * 1e-12)], [x(X.1), y(peak * 1e-12)]], "roof");
    c.left(
        x(crossover) + 6.0,
        y(peak * 1e-12) - 8.0,
        "small",
        &format!("tensor cores, dense: {:.0} TFLOP/s", peak * 1e-12),
    );
    c.text(x(12.0), y(slope(19.0)), Anchor::End, "small", &format!("memory: {:.1} TB/s", H200.bandwidth * 1e-12));
    let cores = H200.f32_flops;
    c.path(&[[x(H200.crossover(cores)), y(cores * 1e-12)], [x(X.1), y(cores * 1e-12)]], "dash");
    c.text(
        RIGHT - 4.0,
        y(cores * 1e-12) - 6.0,
        Anchor::End,
        "small faint",
        &format!("CUDA cores, f32: {:.0} TFLOP/s", cores * 1e-12),
    );
    c.line([x(crossover), y(peak * 1e-12)], [x(crossover), BOTTOM], "dash");
    c.text(x(crossover) - 6.0, BOTTOM - 8.0, Anchor::End, "small faint", "memory bound");
    c.left(x(crossover) + 6.0, BOTTOM - 8.0, "small faint", &format!("compute bound, from {crossover:.0} FLOP/B"));

    for row in &gemv {
        let (intensity, tflops) = point(row)?;
        c.circle(x(intensity), y(tflops), 4.5, "dot-b");
    }
    for row in &gemm {
        let (intensity, tflops) = point(row)?;
        c.circle(x(intensity), y(tflops), 4.5, "dot-a");
    }
    // Names of some: the smallest and largest GEMV, and products that do not crowd one another.
    let name = |c: &mut Canvas, row: &Row, dx: f64, dy: f64, anchor: Anchor| -> Result<()> {
        let (intensity, tflops) = point(row)?;
        c.text(x(intensity) + dx, y(tflops) + dy, anchor, "cell", &row.shape());
        Ok(())
    };
    for row in gemv.iter().filter(|row| row.n == 1024) {
        name(&mut c, row, 9.0, 4.0, Anchor::Start)?;
    }
    for row in gemv.iter().filter(|row| row.n == 57344) {
        name(&mut c, row, 9.0, 4.0, Anchor::Start)?;
    }
    for row in &gemm {
        match row.m {
            Some(16 | 64) => name(&mut c, row, 9.0, 10.0, Anchor::Start)?,
            Some(128) => name(&mut c, row, -24.0, -10.0, Anchor::End)?,
            Some(1024) => name(&mut c, row, 2.0, 18.0, Anchor::Start)?,
            Some(16384) => name(&mut c, row, 6.0, 18.0, Anchor::End)?,
            _ => {}
        }
    }
    let legend = BOTTOM + 40.0;
    c.circle(24.0, legend + 8.0, 4.5, "dot-b");
    c.left(34.0, legend + 12.0, "small", "GEMV, six shapes");
    c.circle(154.0, legend + 8.0, 4.5, "dot-a");
    c.left(164.0, legend + 12.0, "small", "GEMM, twelve shapes");
    Ok(c)
}
