//! An SVG text in the making: shapes with classes, whose colours for light and dark pages stand in one style sheet.

use std::fmt::Write;

/// The width of every drawing, in pixels: a column of the book.
pub const WIDTH: f64 = 720.0;

/// Where a text begins, relative to its position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// Fills `a` to `f` are tints with dark text on them, by hue: blue, orange, green, violet, yellow, grey. `ink` is the
/// text's colour, `faint` that of what is beside the point; `warn` is for what is wrong. Hues are those of Okabe and Ito, which
/// colour-blind readers tell apart.
const STYLE: &str = "
text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-size: 13px; fill: #1f2328; }
.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; font-size: 12.5px; white-space: pre; }
.small { font-size: 11.5px; } .head { font-size: 15px; font-weight: 600; } .strong { font-weight: 600; } .cell { font-size: 10.5px; }
.faint { fill: #59636e; } .bad { fill: #b3261e; } .keyword { fill: #8250df; } .name { fill: #0550ae; } .comment { fill: #59636e; }
.paper { fill: #ffffff; stroke: #d1d9e0; } .panel { fill: #f6f8fa; stroke: #d1d9e0; } .frame { fill: none; stroke: #818b98; } .empty { fill: #ffffff; stroke: #d1d9e0; }
.a { fill: #b9dcf2; stroke: #0072b2; } .b { fill: #f9d0ad; stroke: #c25400; } .c { fill: #b5e5d3; stroke: #00805c; }
.d { fill: #eccfe1; stroke: #a4508a; } .e { fill: #f8e3a3; stroke: #a87a00; } .f { fill: #e2e5e9; stroke: #818b98; } .warn { fill: #ffd7d3; stroke: #b3261e; }
.dot-a { fill: #0072b2; } .dot-b { fill: #d55e00; } .dot-c { fill: #009e73; } .dot-d { fill: #b0629a; } .dot-e { fill: #c89000; }
.hollow { fill: #ffffff; stroke: #0072b2; stroke-width: 2; }
.line { stroke: #1f2328; fill: none; } .thin { stroke: #d1d9e0; fill: none; } .axis { stroke: #59636e; fill: none; }
.roof { stroke: #1f2328; stroke-width: 2; fill: none; } .dash { stroke: #59636e; stroke-dasharray: 4 3; fill: none; }
.squiggle { stroke: #d1242f; stroke-width: 1.4; fill: none; } .head-arrow { fill: #1f2328; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .faint { fill: #a3adb8; } .bad { fill: #ff9a92; } .keyword { fill: #d2a8ff; } .name { fill: #79c0ff; } .comment { fill: #9198a1; }
.paper { fill: #161b22; stroke: #3d444d; } .panel { fill: #1f2630; stroke: #3d444d; } .frame { stroke: #7d8792; } .empty { fill: #161b22; stroke: #3d444d; }
.a { fill: #0c4a6e; stroke: #56b4e9; } .b { fill: #6b3208; stroke: #f0975a; } .c { fill: #06523d; stroke: #35c79a; }
.d { fill: #5a2a4b; stroke: #d992c0; } .e { fill: #5e4600; stroke: #e6bc3c; } .f { fill: #3a424c; stroke: #7d8792; } .warn { fill: #67201b; stroke: #ff9a92; }
.dot-a { fill: #56b4e9; } .dot-b { fill: #f0975a; } .dot-c { fill: #35c79a; } .dot-d { fill: #d992c0; } .dot-e { fill: #e6bc3c; }
.hollow { fill: #161b22; stroke: #56b4e9; }
.line { stroke: #e6edf3; } .thin { stroke: #3d444d; } .axis { stroke: #a3adb8; } .roof { stroke: #e6edf3; } .dash { stroke: #a3adb8; }
.squiggle { stroke: #ff7b72; } .head-arrow { fill: #e6edf3; }
}
";

/// A drawing in the making. Coordinates are pixels from the top left.
pub struct Canvas {
    height: f64,
    title: String,
    description: String,
    body: String,
}

impl Canvas {
    /// An empty drawing. `title` names it and `description` says what it shows to whoever cannot see it.
    pub fn new(height: f64, title: &str, description: &str) -> Canvas {
        Canvas { height, title: escape(title), description: escape(description), body: String::new() }
    }

    /// A rectangle with slightly round corners.
    pub fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, class: &str) {
        let radius = if w.min(h) < 14.0 { 0 } else { 3 };
        let at = format!("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", n(x), n(y), n(w), n(h));
        let _ = writeln!(self.body, "<rect {at} rx=\"{radius}\" class=\"{class}\"/>");
    }

    /// A text whose baseline is at `y`.
    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.body, "<text x=\"{}\" y=\"{}\"{anchor}{class}>{}</text>", n(x), n(y), escape(text));
    }

    /// A text that begins at `x`.
    pub fn left(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.text(x, y, Anchor::Start, class, text);
    }

    /// A text around `x`.
    pub fn middle(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.text(x, y, Anchor::Middle, class, text);
    }

    /// A rectangle with a text in its middle.
    pub fn label(&mut self, [x, y, w, h]: [f64; 4], class: &str, text_class: &str, text: &str) {
        self.rect(x, y, w, h, class);
        self.middle(x + w / 2.0, y + h / 2.0 + 4.5, text_class, text);
    }

    /// A straight line.
    pub fn line(&mut self, from: [f64; 2], to: [f64; 2], class: &str) {
        self.path(&[from, to], class);
    }

    /// A line through points.
    pub fn path(&mut self, points: &[[f64; 2]], class: &str) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{},{}", n(*x), n(*y))).collect();
        let _ = writeln!(self.body, "<polyline points=\"{}\" class=\"{class}\"/>", points.join(" "));
    }

    /// A line through points with a head at the last.
    pub fn arrow(&mut self, points: &[[f64; 2]]) {
        self.path(points, "line");
        if let [.., from, to] = points {
            let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
            let length = dx.hypot(dy).max(1e-9);
            let (ux, uy) = (dx / length, dy / length);
            let back = [to[0] - 8.0 * ux, to[1] - 8.0 * uy];
            self.polygon(
                &[*to, [back[0] - 3.5 * uy, back[1] + 3.5 * ux], [back[0] + 3.5 * uy, back[1] - 3.5 * ux]],
                "head-arrow",
            );
        }
    }

    /// A filled shape.
    pub fn polygon(&mut self, points: &[[f64; 2]], class: &str) {
        let points: Vec<String> = points.iter().map(|[x, y]| format!("{},{}", n(*x), n(*y))).collect();
        let _ = writeln!(self.body, "<polygon points=\"{}\" class=\"{class}\"/>", points.join(" "));
    }

    /// A disc.
    pub fn circle(&mut self, x: f64, y: f64, radius: f64, class: &str) {
        let _ = writeln!(self.body, "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{class}\"/>", n(x), n(y), n(radius));
    }

    /// A wavy line below a text, as editors mark an error.
    pub fn squiggle(&mut self, x: f64, y: f64, w: f64) {
        let steps = (w / 3.0).round().max(2.0) as usize;
        let point = |i: usize| [x + w * i as f64 / steps as f64, y + if i.is_multiple_of(2) { 1.5 } else { -1.5 }];
        self.path(&(0..=steps).map(point).collect::<Vec<_>>(), "squiggle");
    }

    /// The SVG text.
    pub fn finish(self) -> String {
        let Canvas { height, title, description, body } = self;
        let size = format!("width=\"{WIDTH}\" height=\"{0}\" viewBox=\"0 0 {WIDTH} {0}\"", n(height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} role=\"img\" aria-labelledby=\"title desc\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"desc\">{description}</desc>\n\
             <style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\" class=\"paper\"/>\n{body}</svg>\n",
            n(WIDTH - 1.0),
            n(height - 1.0)
        )
    }
}

/// A number with at most two digits after the point.
fn n(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_texts_are_escaped() {
        assert_eq!([n(1.0), n(0.126), n(-0.001)], ["1", "0.13", "0"]);
        let mut canvas = Canvas::new(10.0, "a & b", "x < y");
        canvas.left(0.0, 5.0, "", "f::<f16>");
        let text = canvas.finish();
        assert!(text.contains("a &amp; b") && text.contains("x &lt; y") && text.contains("f::&lt;f16&gt;"), "{text}");
    }
}
