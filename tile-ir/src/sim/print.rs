//! What `device_print` prints.

use super::ScalarValue;
use crate::ir::DtypeClass;
use crate::sim::numeric;
use std::fmt;

/// A line printed by a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedLine {
    /// The block, x y z.
    pub block: [u32; 3],
    /// The thread, x y z.
    pub thread: [u32; 3],
    /// The text.
    pub text: String,
}

impl fmt::Display for PrintedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ScalarValue {
    /// As Rust's `{}` prints the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ScalarValue::Index(value) => value.fmt(f),
            ScalarValue::Element(dtype, bits) => match dtype.class() {
                DtypeClass::Bool => (bits != 0).fmt(f),
                DtypeClass::Int(format) => numeric::extend(format, bits).fmt(f),
                DtypeClass::Float(_) => numeric::decode(dtype, bits).fmt(f),
            },
        }
    }
}

/// `format` with each `{}` replaced by the next value; `{{` and `}}` are braces. Values beyond the last `{}` are
/// appended, so that nothing is lost.
pub fn printed_line(format: &str, values: &[ScalarValue]) -> String {
    let mut text = String::with_capacity(format.len() + 8 * values.len());
    let mut values = values.iter();
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        text += &rest[..at];
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{}") {
            text += &values.next().map_or_else(|| "{}".to_owned(), ToString::to_string);
            rest = after;
        } else {
            text += &rest[..1];
            rest = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")).unwrap_or(&rest[1..]);
        }
    }
    text += rest;
    for value in values {
        text += &format!(" {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Dtype;

    #[test]
    fn placeholders_and_braces() {
        let values = [ScalarValue::Index(3), ScalarValue::Element(Dtype::F16, 0x3e00)];
        assert_eq!(printed_line("a{{}} = {}, {}", &values), "a{} = 3, 1.5");
        assert_eq!(printed_line("{}", &values), "3 1.5");
        assert_eq!(printed_line("{} {} {}", &values), "3 1.5 {}");
        assert_eq!(printed_line("é}", &[]), "é}");
    }
}
