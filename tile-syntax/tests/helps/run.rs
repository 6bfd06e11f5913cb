//! A kernel's text through the parser, the analysis and both simulators.

use proc_macro2::{TokenStream, TokenTree};
use std::sync::Arc;
use tile_ir::diag::Diagnostic;
use tile_ir::ir::Dtype;
use tile_ir::ir::{DimId, EntityRef, Extent, Kernel, ParamId, ParamKind, PrimaryMap, Source, Span, SpanId, Target};
use tile_ir::lowered::{HostValues, Program};
use tile_ir::sim::checked::CheckedOptions;
use tile_ir::sim::{Argument, Memory, ScalarValue, TensorArgument, checked, fast, numeric};

/// A message, as far as its help needs it.
#[derive(Clone, Debug)]
pub struct Said {
    pub code: String,
    pub help: String,
    /// Line from 1, and columns from 0.
    pub place: (usize, usize, usize),
    pub text: String,
}

fn said(diagnostic: &Diagnostic, source: &Source, spans: &PrimaryMap<SpanId, Span>) -> Said {
    let span = spans.get(diagnostic.primary).copied().unwrap_or_default();
    Said {
        code: diagnostic.code.to_string(),
        help: diagnostic.help.clone().unwrap_or_default(),
        place: (span.line as usize, span.column as usize - 1, span.end_column as usize - 1),
        text: diagnostic.render(source, spans),
    }
}

/// A kernel, and what is said of it while it is typed.
pub struct Read {
    pub kernel: Kernel,
    pub said: Vec<Said>,
}

pub fn read(text: &str) -> Read {
    let failed = |e| panic!("{e}:\n{text}");
    let mut tokens: Vec<TokenTree> = text.parse::<TokenStream>().unwrap_or_else(failed).into_iter().collect();
    // `#`, `[tile_kernel(..)]`, and the function.
    let item: TokenStream = tokens.split_off(2).into_iter().collect();
    let TokenTree::Group(attribute) = &tokens[1] else { panic!("an attribute: {text}") };
    let attribute = match attribute.stream().into_iter().nth(1) {
        Some(TokenTree::Group(inside)) => inside.stream(),
        _ => TokenStream::new(),
    };
    let checked = tile_syntax::check_kernel(attribute, item);
    let all = checked.diagnostics.iter().chain(&checked.deferred);
    let said = all.map(|d| said(d, &checked.kernel.source, &checked.kernel.spans)).collect();
    Read { kernel: checked.kernel, said }
}

/// An argument, made anew for each run.
#[derive(Clone, Debug)]
pub enum Arg {
    Tensor(Dtype, Vec<i64>, Vec<f32>),
    Index(i64),
}

/// A tensor of f32.
pub fn f32s<const R: usize>(shape: [i64; R], value: fn(i64) -> f32) -> Arg {
    tensor(Dtype::F32, shape, value)
}

/// A tensor of whole numbers.
pub fn tensor<const R: usize>(dtype: Dtype, shape: [i64; R], value: fn(i64) -> f32) -> Arg {
    Arg::Tensor(dtype, shape.to_vec(), (0..shape.iter().product()).map(value).collect())
}

fn bits(dtype: Dtype, value: f32) -> u32 {
    if dtype.is_float() { numeric::encode(dtype, value) } else { value as i32 as u32 }
}

fn number(dtype: Dtype, bits: u32) -> f32 {
    if dtype.is_float() { numeric::decode(dtype, bits) } else { bits as i32 as f32 }
}

pub fn arguments(args: &[Arg]) -> Vec<Argument> {
    let one = |arg: &Arg| match arg {
        Arg::Index(value) => Argument::Scalar(ScalarValue::Index(*value)),
        Arg::Tensor(dtype, shape, values) => {
            let size = dtype.bytes() as usize;
            let memory = Arc::new(Memory::zeros(values.len() * size));
            values
                .iter()
                .enumerate()
                .for_each(|(at, value)| memory.set(at * size, *dtype, bits(*dtype, *value)).unwrap());
            let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
            Argument::Tensor(TensorArgument { dtype: *dtype, memory, offset: 0, shape: shape.clone(), strides })
        }
    };
    args.iter().map(one).collect()
}

pub struct Values<'a>(pub &'a Kernel, pub &'a [Argument]);

impl HostValues for Values<'_> {
    fn dim(&self, dim: DimId) -> i64 {
        let of = |(id, param): (ParamId, &tile_ir::ir::Param)| match (&param.kind, &self.1[id.index()]) {
            (ParamKind::Tensor { shape, .. }, Argument::Tensor(tensor)) => {
                let axis = shape.iter().position(|e| matches!(e, Extent::Dim(d) if *d == dim))?;
                Some(tensor.shape[axis])
            }
            _ => None,
        };
        self.0.params.iter().find_map(of).unwrap_or(0)
    }

    fn stride(&self, tensor: ParamId, axis: u8) -> i64 {
        match &self.1[tensor.index()] {
            Argument::Tensor(tensor) => tensor.strides[usize::from(axis)],
            _ => 0,
        }
    }

    fn scalar(&self, param: ParamId) -> i64 {
        match &self.1[param.index()] {
            Argument::Scalar(value) => value.host_number(),
            _ => 0,
        }
    }

    fn address(&self, _: ParamId) -> u64 {
        0
    }

    fn capacity(&self) -> i64 {
        4
    }
}

/// The program of the first instance, in the widest alignment class that the launch's checks allow; what is said where there is none.
fn lower(kernel: &Kernel, target: Target, args: &[Argument]) -> Result<Program, Said> {
    let mut instance = kernel.instances.first().expect("an instance").clone();
    let values = Values(kernel, args);
    loop {
        let lowered = tile_ir::lower::lower(kernel, &instance, target)
            .map_err(|all| said(&all[0], &kernel.source, &kernel.spans))?;
        let unheld = lowered.launch.checks.iter().find(|c| c.holds.evaluate(&values).is_none_or(|v| v == 0));
        let Some(check) = unheld else { return Ok(lowered) };
        let class = check.request.and_then(|side| instance.class.lesser(side));
        instance.class =
            class.unwrap_or_else(|| panic!("the launch of `{}` is refused: {:?}", kernel.name, check.kind));
    }
}

/// What the compiler or the checked simulator says of a launch.
pub fn said_while_running(kernel: &Kernel, args: &[Arg]) -> Option<Said> {
    for target in kernel.targets.iter() {
        let given = arguments(args);
        let program = match lower(kernel, *target, &given) {
            Ok(program) => program,
            Err(said) => return Some(said),
        };
        for seed in 1..3 {
            let options = CheckedOptions { seed, step_limit: 4_000_000, ..CheckedOptions::default() };
            let report = checked::run(&program, &arguments(args), &options).expect("it runs");
            if let Some(first) = report.diagnostics.first() {
                return Some(said(first, &program.source, &program.spans));
            }
        }
    }
    None
}

/// What the executors make of a launch without a mistake.
pub fn results(kernel: &Kernel, args: &[Arg]) -> Vec<(String, Vec<f32>)> {
    let mut all = vec![];
    let given = arguments(args);
    let bound = tile_ir::lower::bind(kernel, &kernel.instances[0]).expect("it binds");
    fast::run(&bound, &given).expect("it runs");
    all.push(("the fast simulator".to_owned(), output(kernel, &given)));
    for target in kernel.targets.iter() {
        let given = arguments(args);
        let program = lower(kernel, *target, &given).unwrap_or_else(|said| panic!("{}", said.text));
        checked::run(&program, &given, &CheckedOptions::default()).expect("it runs");
        all.push((format!("the checked simulator, {target}"), output(kernel, &given)));
    }
    all
}

/// The first tensor that the kernel may write.
fn output(kernel: &Kernel, args: &[Argument]) -> Vec<f32> {
    let is_output = |param: &tile_ir::ir::Param| matches!(param.kind, ParamKind::Tensor { mutable: true, .. });
    let (id, _) = kernel.params.iter().find(|(_, param)| is_output(param)).expect("an output");
    let Argument::Tensor(tensor) = &args[id.index()] else { panic!("a tensor") };
    let (count, size) = (tensor.shape.iter().product::<i64>() as usize, tensor.dtype.bytes() as usize);
    (0..count).map(|at| number(tensor.dtype, tensor.memory.get(at * size, tensor.dtype).unwrap())).collect()
}
