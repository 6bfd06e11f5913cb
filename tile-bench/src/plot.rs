//! A report as a picture: percent of the measured roofline against size.
//!
//! Text is drawn with a font that is part of the program, so a machine without fonts draws the same picture.

use crate::BenchError;
use crate::report::Report;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::Path;
use std::sync::OnceLock;

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 600);
const FONT: &str = "sans-serif";

/// A line of the plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The group, as in `ours f16`.
    pub name: String,
    /// Bytes that a call moves, and percent of the roofline that the group's best reaches.
    pub points: Vec<(f64, f64)>,
}

/// The lines of a report's rows of one operation: one a group and element type. Empty without a ceiling.
///
/// The roofline is the longer of the time in which the ceiling moves the bytes and that of the operations at the peak, where
/// one is given.
pub fn series(report: &Report, op: &str) -> Vec<Series> {
    let Some(ceiling) = &report.ceiling else { return Vec::new() };
    let mut found: Vec<Series> = Vec::new();
    for row in report.rows.iter().filter(|row| row.title.op == op) {
        for group in row.groups() {
            let Some(best) = row.best(group) else { continue };
            let name = format!("{group} {}", row.title.dtype);
            let point = (row.bytes as f64, 100.0 * ceiling.least_us(row.bytes, row.flops) / best.burst_us.median);
            match found.iter_mut().find(|s| s.name == name) {
                Some(series) => series.points.push(point),
                None => found.push(Series { name, points: vec![point] }),
            }
        }
    }
    for series in &mut found {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    found
}

/// The picture of one operation as SVG.
///
/// # Errors
/// There is nothing to draw.
pub fn svg(report: &Report, op: &str) -> Result<String, BenchError> {
    let mut text = String::new();
    draw(report, op, SVGBackend::with_string(&mut text, SIZE).into_drawing_area())?;
    Ok(text)
}

/// Writes the picture of one operation as SVG or PNG, as the file's name ends.
///
/// # Errors
/// There is nothing to draw; the name ends otherwise; the file cannot be written.
pub fn write(report: &Report, op: &str, path: &Path) -> Result<(), BenchError> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("svg") => {
            std::fs::write(path, svg(report, op)?).map_err(|source| BenchError::File { path: path.to_owned(), source })
        }
        Some("png") => draw(report, op, BitMapBackend::new(path, SIZE).into_drawing_area()),
        _ => Err(BenchError::Plot(format!("{} ends neither in .svg nor in .png", path.display()))),
    }
}

fn register() -> Result<(), BenchError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let good = DONE.get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if *good { Ok(()) } else { Err(BenchError::Plot("the font is damaged".into())) }
}

fn draw<B: DrawingBackend>(report: &Report, op: &str, area: DrawingArea<B, Shift>) -> Result<(), BenchError> {
    register()?;
    let lines = series(report, op);
    let points = || lines.iter().flat_map(|s| &s.points);
    let (least, most) = points().fold((f64::INFINITY, 0.0f64), |(l, m), p| (l.min(p.0), m.max(p.0)));
    if !(least > 0.0 && least.is_finite()) {
        return Err(BenchError::Plot(format!("the report has no row of {op}, or no ceiling")));
    }
    let highest = points().fold(100.0f64, |h, p| h.max(p.1));
    let problem = |e: DrawingAreaErrorKind<B::ErrorType>| BenchError::Plot(e.to_string());
    let text = |size: u32| (FONT, size).into_font();

    area.fill(&WHITE).map_err(problem)?;
    // The device's name alone: with what stands in its brackets the caption would not fit.
    let device = report.device.split(" (").next().unwrap_or_default();
    let ceiling = report.ceiling.as_ref().and_then(|ceiling| ceiling.peak_tflops);
    let roofline = ceiling
        .map_or("the measured read ceiling".into(), |peak| format!("the roofline (measured reads, {peak:.0} TFLOP/s)"));
    let caption = format!("{op}: percent of {roofline}, cold L2, {device}");
    let mut chart = ChartBuilder::on(&area)
        .caption(caption, text(15))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((least / 1.3..most * 1.3).log_scale(), 0.0..(highest * 1.05))
        .map_err(problem)?;
    chart
        .configure_mesh()
        .x_desc("bytes a call must move")
        .y_desc("% of the ceiling")
        .x_label_formatter(&|bytes| human(*bytes))
        .y_label_formatter(&|percent| format!("{percent:.0}"))
        .label_style(text(13))
        .axis_desc_style(text(14))
        .light_line_style(WHITE.mix(0.0))
        .draw()
        .map_err(problem)?;
    chart.draw_series(LineSeries::new([(least / 1.3, 100.0), (most * 1.3, 100.0)], BLACK.mix(0.4))).map_err(problem)?;
    for (index, line) in lines.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        let style = ShapeStyle { color: color.to_rgba(), filled: true, stroke_width: 2 };
        chart
            .draw_series(LineSeries::new(line.points.clone(), style))
            .map_err(problem)?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(line.points.iter().map(|p| Circle::new(*p, 4, style))).map_err(problem)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(text(13))
        .draw()
        .map_err(problem)?;
    area.present().map_err(problem)
}

/// Colours that colour-blind readers tell apart (Okabe and Ito).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// Bytes in the largest decimal unit: the ticks of the axis are powers of ten.
fn human(bytes: f64) -> String {
    let units = ["B", "kB", "MB", "GB"];
    let power = ((bytes.max(1.0).log10() / 3.0).floor() as usize).min(units.len() - 1);
    let number = format!("{:.2}", bytes / 1000f64.powi(power as i32));
    format!("{} {}", number.trim_end_matches('0').trim_end_matches('.'), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn a_series_is_the_share_of_the_ceiling() {
        let found = series(&report(), "gemv");
        assert_eq!(found.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["ours f16", "cublas f16"]);
        // 2 MiB in 2 us is 1.049 TB/s of 4.6.
        let (bytes, percent) = found[0].points[0];
        assert_eq!(bytes, 2097152.0);
        assert!((percent - 22.795).abs() < 1e-2, "{percent}");
        assert!(found.iter().all(|s| s.points.len() == 3 && s.points.windows(2).all(|p| p[0].0 < p[1].0)));
        assert_eq!(series(&report(), "gemm"), []);
    }

    #[test]
    fn the_svg_is_well_formed_and_names_what_it_shows() {
        let text = svg(&report(), "gemv").unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for wanted in ["ours f16", "cublas f16", "% of the ceiling", "10 MB"] {
            assert!(text.contains(wanted), "no `{wanted}` in the picture");
        }
        // Every element that is opened is closed.
        let count = |what: &str| text.matches(what).count();
        assert_eq!(count("<text"), count("</text>"));
        assert!(count("<circle") >= 6 && count("<polyline") >= 2);
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn the_png_is_one() {
        let path = std::env::temp_dir().join(format!("tile-bench-plot-{}.png", std::process::id()));
        write(&report(), "gemv", &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes[..8], *b"\x89PNG\r\n\x1a\n");
        let size = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((size(16), size(20)), SIZE);
        assert_eq!(bytes[bytes.len() - 8..bytes.len() - 4], *b"IEND");
        assert!(bytes.len() > 8000, "{} bytes: an empty picture", bytes.len());
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert!(matches!(svg(&report(), "gemm"), Err(BenchError::Plot(_))));
        let without = Report { ceiling: None, ..report() };
        assert!(matches!(svg(&without, "gemv"), Err(BenchError::Plot(_))));
        assert!(matches!(write(&report(), "gemv", Path::new("/tmp/x.gif")), Err(BenchError::Plot(_))));
    }

    #[test]
    fn what_arithmetic_binds_is_a_share_of_the_peak() {
        let mut report = report();
        // As if a call did 4000 operations a byte.
        report.rows.iter_mut().for_each(|row| row.flops = row.bytes * 4000);
        let peak = report.ceiling.clone().map(|c| crate::ceiling::Ceiling { peak_tflops: Some(1000.0), ..c });
        report.ceiling = peak;
        // 8.39 GFLOP in 2 us is 4194 TFLOP/s.
        let (_, percent) = series(&report, "gemv")[0].points[0];
        assert!((percent - 419.43).abs() < 1e-1, "{percent}");
    }
}
