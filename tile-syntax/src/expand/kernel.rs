//! The kernel on the host: its type, its declared instances, its IR.

use super::doc;
use super::launch;
use super::signature::{Const, Signature};
use crate::parse::Parsed;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use tile_ir::diag::Code;
use tile_ir::ir::{ConstKind, DimId, Dtype, DtypeClass, EntityRef, FloatFormat, Instance, Kernel};

/// Everything the host sees of a kernel without mistakes. `own`: the kernel's name as its author wrote it.
pub(super) fn host(signature: &Signature<'_>, own: &Ident, parsed: &Parsed) -> TokenStream {
    let kernel = &parsed.kernel;
    let (runtime, at) = (&signature.runtime, signature.at);
    let declared = declared(kernel);
    let types = types(signature, own, &doc::of_kernel(signature, parsed, true));
    let instances = instances(signature, kernel, &declared);
    let launches = launch::methods(signature, &launch::Body::Launch);
    let name = kernel.name.as_str();
    let bytes = Literal::byte_string(&tile_ir::codec::encode(kernel));
    let count = kernel.instances.len();
    let value = quote_spanned! {at=>
        static DEFINITION: #runtime::kernel::Definition = #runtime::kernel::Definition::new(#name, #bytes);
        &DEFINITION
    };
    let new = match &kernel.attributes.specialize {
        None => quote!(new()),
        Some(specialize) => {
            let places = specialize.dims.iter().map(|dim| {
                let (param, axis) = place(kernel, *dim);
                quote!((#param, #axis))
            });
            let max = specialize.max;
            quote!(specialized(#runtime::kernel::Specialized { places: &[#(#places),*], max: #max }))
        }
    };
    let table = quote_spanned! {at=>
        #[doc(hidden)]
        fn launch_table() -> &'static #runtime::kernel::InstanceTable<#count> {
            static TABLE: #runtime::kernel::InstanceTable<#count> = #runtime::kernel::InstanceTable::#new;
            &TABLE
        }
    };
    let definition = definition(signature, &value, &table);
    quote!(#types #instances #launches #definition)
}

/// The first tensor parameter and axis with a dim: where a launch finds its value.
fn place(kernel: &Kernel, dim: DimId) -> (u8, u8) {
    kernel.place_of(dim).map_or((u8::MAX, 0), |(param, axis)| (param.index().min(255) as u8, axis as u8))
}

/// What the host sees of a kernel with mistakes: the same types and signatures, so that its uses are not mistakes too.
/// `unreported` is one that rustc has yet to find; where it does not, building the crate fails with it.
pub(super) fn stub(signature: &Signature<'_>, own: &Ident, parsed: &Parsed, unreported: Option<String>) -> TokenStream {
    let types = types(signature, own, &doc::of_kernel(signature, parsed, false));
    let value = match &unreported {
        Some(text) => quote!(const { ::core::panic!("{}", #text) }),
        None => quote!(::core::panic!("the kernel has mistakes")),
    };
    let launches = launch::methods(signature, &launch::Body::Stub(unreported));
    let definition = definition(signature, &value, &TokenStream::new());
    quote!(#types #launches #definition)
}

/// The struct, `GemvParams` and `GemvKernel`.
fn types(signature: &Signature<'_>, own: &Ident, text: &str) -> TokenStream {
    let Signature { name, visibility, runtime, consts, at, .. } = signature;
    let type_names = signature.type_names();
    let attributes = signature.attributes(&["doc", "cfg", "deprecated"]);
    let const_names = consts.iter().map(|c| c.name);
    let const_types = consts.iter().map(Const::ty);
    let defaults = consts.iter().map(Const::unnamed);
    let params = params_struct(signature);
    let handle = signature.derived("Kernel");
    let handle_text = format!("An instance of the kernel [`{name}`](struct@{name}), chosen at run time, on a device.");
    quote_spanned! {*at=>
        #(#attributes)*
        #[doc = #text]
        #[allow(dead_code, non_camel_case_types, non_snake_case)]
        #visibility struct #own<#(#type_names,)* #(const #const_names: #const_types = #defaults,)*> {
            _types: ::core::marker::PhantomData<fn() -> (#(#type_names,)*)>,
        }
        #params
        #[doc = #handle_text]
        #[allow(dead_code)]
        #[derive(Clone)]
        #visibility struct #handle<#(#type_names),*> {
            device: #runtime::Device,
            instance: usize,
            _types: ::core::marker::PhantomData<fn() -> (#(#type_names,)*)>,
        }
    }
}

/// `GemvParams`, where there are const parameters.
fn params_struct(signature: &Signature<'_>) -> TokenStream {
    let Signature { name, visibility, consts, at, .. } = signature;
    if consts.is_empty() {
        return TokenStream::new();
    }
    let params = signature.derived("Params");
    let text = format!("The const parameters of the kernel [`{name}`](struct@{name}).");
    let fields = consts.iter().map(|c| c.name);
    let field_texts = consts.iter().map(|c| format!("`{}` of the kernel.", c.name));
    let field_types = consts.iter().map(Const::ty);
    quote_spanned! {*at=>
        #[doc = #text]
        #[allow(dead_code, non_snake_case)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #visibility struct #params {
            #(#[doc = #field_texts] pub #fields: #field_types,)*
        }
    }
}

/// `gemv::<f16>::definition()`: the same for every instance, because a `static` in a generic function is one.
fn definition(signature: &Signature<'_>, value: &TokenStream, table: &TokenStream) -> TokenStream {
    let Signature { name, runtime, consts, at, .. } = signature;
    let type_names = signature.type_names();
    let const_names: Vec<_> = consts.iter().map(|c| c.name).collect();
    let const_types = consts.iter().map(Const::ty);
    quote_spanned! {*at=>
        #[allow(dead_code)]
        impl<#(#type_names,)* #(const #const_names: #const_types,)*> #name<#(#type_names,)* #(#const_names,)*> {
            /// The kernel as data: the same for every instance.
            pub fn definition() -> &'static #runtime::kernel::Definition {
                #value
            }
            #table
        }
    }
}

/// The trait that declared instances have, and its implementations.
fn instances(signature: &Signature<'_>, kernel: &Kernel, declared: &str) -> TokenStream {
    let Signature { name, visibility, types, consts, at, .. } = signature;
    if types.is_empty() && consts.is_empty() {
        return TokenStream::new();
    }
    let instance = signature.derived("Instance");
    let text = format!("The declared instances of the kernel [`{name}`](struct@{name}): {declared}.");
    let message = format!("[{}] kernel `{name}` has no instance `{{Self}}`", Code::INSTANCE);
    let declared = format!("declared: {declared}");
    let chosen = (!consts.is_empty()).then(|| {
        let types: Vec<String> = types.iter().map(|t| t.ident.to_string()).collect();
        let types = if types.is_empty() { String::new() } else { format!("::<{}>", types.join(", ")) };
        let params = signature.derived("Params");
        let note = format!("to choose constants at run time: `{name}{types}::instance(&device, {params} {{ .. }})`");
        quote!(note = #note,)
    });
    let impls = kernel.instances.iter().enumerate().map(|(index, values)| {
        let arguments = arguments(signature, values);
        quote_spanned! {*at=>
            #[doc(hidden)]
            impl #instance for #name<#(#arguments),*> {
                const INDEX: usize = #index;
            }
        }
    });
    quote_spanned! {*at=>
        #[doc = #text]
        #[diagnostic::on_unimplemented(message = #message, label = "no such instance", note = #declared, #chosen)]
        #visibility trait #instance {
            /// The place in the order of declaration, dtypes varying slowest.
            const INDEX: usize;
        }
        #(#impls)*
    }
}

/// `f16, 8`: an instance's generic arguments.
fn arguments(signature: &Signature<'_>, values: &Instance) -> Vec<TokenStream> {
    let runtime = &signature.runtime;
    let dtypes = values.dtypes.iter().map(|dtype| {
        let name = format_ident!("{}", dtype.name());
        match dtype.class() {
            // Not Rust's own.
            DtypeClass::Float(FloatFormat::Binary16 | FloatFormat::Bfloat16) => quote!(#runtime::dsl::#name),
            DtypeClass::Float(FloatFormat::Binary32) | DtypeClass::Int(_) | DtypeClass::Bool => {
                quote!(::core::primitive::#name)
            }
        }
    });
    let consts = signature.consts.iter().zip(&values.consts).map(|(c, &value)| {
        if c.is_bool {
            let value = value != 0;
            quote!(#value)
        } else {
            let value = Literal::u64_unsuffixed(value.unsigned_abs());
            quote!(#value)
        }
    });
    dtypes.chain(consts).collect()
}

/// The declared instances in words: "T = f16 or f32; ROWS = 1, 2 or 4".
fn declared(kernel: &Kernel) -> String {
    const MOST: usize = 12;
    let mut parts = vec![];
    for (index, parameter) in kernel.type_params.values().enumerate() {
        let values = distinct(kernel.instances.iter().filter_map(|i| i.dtypes.get(index)).map(Dtype::to_string));
        parts.push(format!("{} = {}", parameter.name, or(&values)));
    }
    let names: Vec<&str> = kernel.consts.values().map(|c| c.name.as_str()).collect();
    let tuples = distinct(kernel.instances.iter().map(|i| {
        let values: Vec<String> = kernel.consts.values().zip(&i.consts).map(|(c, v)| value(c.kind, *v)).collect();
        if values.len() == 1 { values.concat() } else { format!("({})", values.join(", ")) }
    }));
    let listed = if tuples.len() > MOST {
        format!("{}, ... ({} in all)", tuples[..MOST].join(", "), tuples.len())
    } else {
        or(&tuples)
    };
    match names.as_slice() {
        [] => {}
        [name] => parts.push(format!("{name} = {listed}")),
        names => parts.push(format!("({}) = {listed}", names.join(", "))),
    }
    parts.join("; ")
}

fn value(kind: ConstKind, value: i64) -> String {
    match kind {
        ConstKind::Usize => value.to_string(),
        ConstKind::Bool => (value != 0).to_string(),
    }
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: Vec<String> = vec![];
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

fn or(values: &[String]) -> String {
    match values {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}
