//! Looking at an instance by its types: `gemv::<f16, 8>::show(..)`, `gemv::<f16, 8>::explain(..)`.

use super::launch::Body;
use super::signature::{Const, Signature};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

/// `show` and `explain` of the struct.
pub(super) fn methods(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let Signature { name, runtime, consts, at, .. } = signature;
    let type_names = signature.type_names();
    let const_names: Vec<_> = consts.iter().map(|c| c.name).collect();
    let const_types = consts.iter().map(Const::ty);
    let trait_name = signature.derived("Instance");
    let generic = !type_names.is_empty() || !const_names.is_empty();
    let (bound, index) = match (body, generic) {
        (Body::Launch, true) => (quote!(where Self: #trait_name), quote!(<Self as #trait_name>::INDEX)),
        _ => (quote!(), quote!(0)),
    };
    let (show, explain) = match body {
        Body::Launch => (
            quote!(#runtime::kernel::show(
                Self::definition(),
                #runtime::kernel::Variant { instance: #index, dims, ..::core::default::Default::default() },
                target,
                format,
            )),
            quote!(#runtime::kernel::explain(Self::definition(), #index, target, machine, values)),
        ),
        Body::Stub(_) => {
            let mistakes = quote!(::core::panic!("the kernel has mistakes"));
            (mistakes.clone(), mistakes)
        }
    };
    quote_spanned! {*at=>
        #[allow(dead_code, unused_variables)]
        impl<#(#type_names,)* #(const #const_names: #const_types,)*> #name<#(#type_names,)* #(#const_names,)*> {
            /// This instance as text: tile IR, lowered program, CUDA C, PTX, machine code or resources. `dims` has a value for
            /// each dim of `specialize(..)`: `&[("K", 4096)]`; it is empty where there are none. Needs no device.
            ///
            /// # Errors
            /// The instance cannot be lowered for this target; a library or tool is missing; a specialised dim has no value.
            pub fn show(
                target: #runtime::kernel::Target,
                format: #runtime::kernel::Format,
                dims: &[(&str, i64)],
            ) -> ::core::result::Result<#runtime::kernel::Text, #runtime::Error>
            #bound
            {
                #show
            }

            /// What a launch of this instance costs on `machine`, and what bounds it. `values` are the kernel's dims by name, and
            /// those scalars whose value decides what is executed: `&[("N", 4096.0), ("K", 4096.0)]`. Needs no device.
            ///
            /// # Errors
            /// The instance cannot be lowered for this target; a dim has no value; a name is no dim and no scalar.
            pub fn explain(
                target: #runtime::kernel::Target,
                machine: &#runtime::kernel::Machine,
                values: &[(&str, f64)],
            ) -> ::core::result::Result<#runtime::kernel::Explanation, #runtime::Error>
            #bound
            {
                #explain
            }
        }
    }
}
