//! TEMPORARY stand-in until the parser lands.
use proc_macro2::{Span, TokenStream};
use tile_ir::diag::Diagnostic;
use tile_ir::ir::*;
pub struct Parsed {
    pub kernel: Kernel,
    pub spans: Vec<Span>,
    pub ends: Vec<Span>,
    pub diagnostics: Vec<Diagnostic>,
    pub deferred: Vec<Diagnostic>,
    pub item: Option<syn::ItemFn>,
    pub attribute: AttributeInfo,
    pub body_resolved: bool,
}
#[derive(Default)]
pub struct AttributeInfo {
    pub crate_path: Option<syn::Path>,
    pub requires: Vec<syn::Expr>,
}
pub fn kernel(attribute: TokenStream, item: TokenStream) -> Parsed {
    let _ = attribute;
    let item: Option<syn::ItemFn> = syn::parse2(item).ok();
    let mut kernel = Kernel::default();
    let mut dtypes = vec![];
    if let Some(f) = &item {
        kernel.name = f.sig.ident.to_string();
        for g in &f.sig.generics.params {
            match g {
                syn::GenericParam::Type(t) => {
                    dtypes = vec![Dtype::F16, Dtype::Bf16, Dtype::F32];
                    kernel.type_params.push(TypeParam { name: t.ident.to_string(), allowed: dtypes.clone(), span: SpanId::from_u32(0) });
                }
                syn::GenericParam::Const(c) => {
                    kernel.consts.push(ConstParam { name: c.ident.to_string(), kind: ConstKind::Usize, span: SpanId::from_u32(0) });
                }
                _ => {}
            }
        }
        for d in if dtypes.is_empty() { vec![None] } else { dtypes.into_iter().map(Some).collect() } {
            for v in if kernel.consts.is_empty() { vec![None] } else { vec![Some(1), Some(2), Some(4)] } {
                kernel.instances.push(Instance { dtypes: d.into_iter().collect(), consts: v.into_iter().collect() });
            }
        }
    }
    Parsed { kernel, spans: vec![], ends: vec![], diagnostics: vec![], deferred: vec![], item, attribute: AttributeInfo::default(), body_resolved: true }
}
