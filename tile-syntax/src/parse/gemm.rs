//! Products of tiles: `gemm(&a, b.t(), &mut acc)`, with `.policy(..)`, `.clear()`, `.tf32()` and `.grouped()`.

use super::Parser;
use super::access::strip;
use super::range::Range;
use syn::{Expr, ExprCall, ExprMethodCall};
use tile_ir::diag::{Code, Diagnostic};
use tile_ir::ir::{BufferId, MatrixRef, Place, Precision, StmtKind, TileOp, WarpPolicy};

/// What is said after a `gemm(..)`.
#[derive(Default)]
struct GemmOptions {
    policy: WarpPolicy,
    clear: bool,
    precision: Precision,
    grouped: bool,
}

impl Parser {
    /// `gemm(..)` as a statement, with the methods after it, outermost first.
    pub(super) fn gemm(&mut self, call: &ExprCall, methods: &[&ExprMethodCall], range: Range) {
        let options = self.gemm_options(methods);
        if call.args.len() != 3 {
            let at = self.mark(call.paren_token.span);
            let message = format!("`gemm` takes 3 arguments, {} given", call.args.len());
            return self.rustc(Diagnostic::new(Code::CALL, at, message).help("gemm(&a_s, b_s.t(), &mut acc);"));
        }
        let a = self.matrix(&call.args[0], "left");
        let b = self.matrix(&call.args[1], "right");
        let acc = self.accumulator(&call.args[2]);
        let (Some(a), Some(b), Some(acc), Some(options)) = (a, b, acc, options) else { return };
        let span = self.mark(range);
        let GemmOptions { policy, clear, precision, grouped } = options;
        self.emit(StmtKind::Tile(TileOp::Gemm { a, b, acc, policy, clear, precision, grouped }), span);
    }

    fn gemm_options(&mut self, methods: &[&ExprMethodCall]) -> Option<GemmOptions> {
        let (mut options, mut sound) = (GemmOptions::default(), true);
        for call in methods.iter().rev() {
            let name = call.method.to_string();
            match (name.as_str(), call.args.len()) {
                ("clear", 0) => options.clear = true,
                ("tf32", 0) => options.precision = Precision::Tf32,
                ("grouped", 0) => options.grouped = true,
                ("policy", 1) => {
                    let names = [
                        ("Square", WarpPolicy::Square),
                        ("FullRow", WarpPolicy::FullRow),
                        ("FullCol", WarpPolicy::FullCol),
                    ];
                    match self.word(&call.args[0], &names, "the policy of a `gemm`") {
                        Some(found) => options.policy = found,
                        None => sound = false,
                    }
                }
                ("clear" | "policy" | "tf32" | "grouped", found) => {
                    let at = self.mark(call.paren_token.span);
                    let wanted = if name == "policy" { "1 argument" } else { "no arguments" };
                    let message = format!("`.{name}` takes {wanted}, {found} given");
                    self.rustc(Diagnostic::new(Code::CALL, at, message));
                    sound = false;
                }
                _ => {
                    let message = format!("`.{name}(..)` of a `gemm` is not in the language");
                    let help = "a `gemm` has `.policy(FullRow)`, `.clear()`, `.tf32()` and `.grouped()`";
                    self.syntax(call.method.span(), message, help);
                    sound = false;
                }
            }
        }
        sound.then_some(options)
    }

    /// `&a_s`, `b_s.t()`.
    fn matrix(&mut self, argument: &Expr, side: &str) -> Option<MatrixRef> {
        let argument = strip(argument);
        let span = self.mark(argument);
        let (array, transposed) = match argument {
            Expr::Reference(reference) if reference.mutability.is_none() => (&*reference.expr, false),
            Expr::MethodCall(call) if call.method == "t" && call.args.is_empty() => (&*call.receiver, true),
            Expr::Path(_) if self.borrowed(argument).is_some() => (argument, false),
            Expr::Path(_) => {
                // By value where a reference is wanted: rustc reports it.
                let buffer = self.matrix_array(argument)?;
                let name = self.kernel.buffers[buffer].name.clone();
                let diagnostic = Diagnostic::new(Code::TYPE, span, format!("`gemm` takes `{name}` by reference"));
                self.rustc(diagnostic.help(format!("write `&{name}`")));
                return None;
            }
            other => {
                let message = format!("this is not the {side} operand of a `gemm`");
                self.syntax(other, message, "write `&a_s`, or `a_s.t()` where the array holds the transpose");
                return None;
            }
        };
        let buffer = self.matrix_array(array)?;
        Some(MatrixRef { buffer, transposed, span })
    }

    fn accumulator(&mut self, argument: &Expr) -> Option<BufferId> {
        let Some((array, true)) = self.borrowed(argument) else {
            let at = self.mark(argument);
            let array = match strip(argument) {
                Expr::Reference(reference) => strip(&reference.expr),
                other => other,
            };
            let name = match array {
                Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
                _ => None,
            };
            let help = format!("write `&mut {}`", name.as_deref().unwrap_or("acc"));
            self.rustc(Diagnostic::new(Code::TYPE, at, "`gemm` takes its sum by `&mut`").help(help));
            return None;
        };
        let buffer = self.matrix_array(array)?;
        self.check_writable(Place::Buffer(buffer), array);
        Some(buffer)
    }

    /// An array of rank 2.
    fn matrix_array(&mut self, expr: &Expr) -> Option<BufferId> {
        let buffer = match self.place(expr, "`gemm`")? {
            Place::Buffer(buffer) => buffer,
            Place::Tensor(param) => {
                let at = self.mark(expr);
                let name = self.kernel.params[param].name.clone();
                let message = format!("`gemm` multiplies arrays of the kernel; `{name}` is a tensor");
                let help = format!("copy a tile of it first: `copy({name}.at([i, k]), &mut tile);`");
                self.unsupported(Diagnostic::new(Code::CALL, at, message).help(help));
                return None;
            }
        };
        let rank = self.kernel.buffers[buffer].extents.len();
        if rank != 2 {
            let (name, declared) = (self.kernel.buffers[buffer].name.clone(), self.kernel.buffers[buffer].span);
            let at = self.mark(expr);
            let axes = if rank == 1 { "axis" } else { "axes" };
            let message = format!("`gemm` multiplies matrices: `{name}` has {rank} {axes}, not 2");
            self.error(Diagnostic::new(Code::SHAPE, at, message).label(declared, "declared here"));
            return None;
        }
        Some(buffer)
    }

    /// One of a few names that are an option's values.
    pub(super) fn word<T: Copy>(&mut self, argument: &Expr, words: &[(&str, T)], what: &str) -> Option<T> {
        let name = match strip(argument) {
            Expr::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
            _ => None,
        };
        let found = words.iter().find(|(word, _)| name.as_deref() == Some(*word));
        if found.is_none() {
            let list: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            let at = self.mark(argument);
            let diagnostic = Diagnostic::new(Code::CALL, at, format!("{what} is one of {}", list.join(", ")));
            self.unsupported(diagnostic.help(format!("write `{}`", words[0].0)));
        }
        found.map(|(_, value)| *value)
    }
}
