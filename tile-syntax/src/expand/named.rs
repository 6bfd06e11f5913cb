//! Arguments by name: `gemv::<f16, 8>::launch_named(&device, GemvArgs { w: &w, x: &x, y: &mut y })`.
//!
//! A struct literal is what Rust has for named arguments: editors complete its fields, rustc names one that is missing or
//! unknown, and two of one type cannot be swapped in silence. The methods hand the fields to their positional siblings.

use super::doc;
use super::launch::{Body, scalar_bounds};
use super::signature::{Const, Param, ParamKind, Signature, camel_case};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

/// `GemvArgs` and the methods that take it.
pub(super) fn named(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let fields: Vec<Field<'_>> = fields(signature);
    if fields.is_empty() {
        return TokenStream::new();
    }
    let arguments = Arguments::new(signature, fields);
    let (structure, own, chosen, handle) =
        (arguments.structure(), arguments.launches(body), arguments.tuned(), arguments.of_handle());
    quote!(#structure #own #chosen #handle)
}

/// An argument as a field.
struct Field<'a> {
    param: &'a Param<'a>,
    /// The type parameter that a tensor's field has, because `&Tensor`, a view and what is borrowed from other code all do.
    generic: Option<Ident>,
}

fn fields<'a>(signature: &'a Signature<'_>) -> Vec<Field<'a>> {
    let mut taken: Vec<String> = signature.type_names().iter().map(ToString::to_string).collect();
    let mut field = |param: &'a Param<'a>| {
        let generic = matches!(param.kind, ParamKind::Tensor { option: None, .. }).then(|| {
            let mut name = format!("{}Tensor", camel_case(param.name));
            while taken.contains(&name) {
                name.push('_');
            }
            taken.push(name.clone());
            Ident::new(&name, signature.at)
        });
        Field { param, generic }
    };
    signature.arguments().map(&mut field).collect()
}

/// What is made of a kernel's arguments.
struct Arguments<'a> {
    signature: &'a Signature<'a>,
    fields: Vec<Field<'a>>,
    /// The struct's generic parameters: the lifetime of optional tensors, the dtypes that its fields name, the tensors' types.
    lifetime: Option<TokenStream>,
    dtypes: Vec<&'a Ident>,
}

impl<'a> Arguments<'a> {
    fn new(signature: &'a Signature<'a>, fields: Vec<Field<'a>>) -> Arguments<'a> {
        let is_optional = |f: &Field<'_>| matches!(f.param.kind, ParamKind::Tensor { option: Some(_), .. });
        let lifetime = fields.iter().any(is_optional).then(|| quote!('a));
        let named = |dtype: &&Ident| {
            fields.iter().any(|f| match f.param.kind {
                ParamKind::Scalar { ty } => is(ty, dtype),
                ParamKind::Tensor { element, option: Some(_), .. } => is(element, dtype),
                ParamKind::Tensor { .. } => false,
            })
        };
        let dtypes = signature.type_names().into_iter().filter(named).collect();
        Arguments { signature, fields, lifetime, dtypes }
    }

    fn name(&self) -> Ident {
        self.signature.derived("Args")
    }

    fn generics(&self) -> impl Iterator<Item = &Ident> {
        self.fields.iter().filter_map(|field| field.generic.as_ref())
    }

    /// `GemvArgs<'a, T, WTensor, XTensor, YTensor>`.
    fn ty(&self) -> TokenStream {
        let (name, lifetime, dtypes, generics) = (self.name(), self.lifetime.iter(), &self.dtypes, self.generics());
        quote!(#name<#(#lifetime,)* #(#dtypes,)* #(#generics,)*>)
    }

    fn names(&self) -> Vec<&Ident> {
        self.fields.iter().map(|field| field.param.name).collect()
    }

    fn structure(&self) -> TokenStream {
        let Signature { name, visibility, runtime, at, .. } = self.signature;
        let text = format!(
            "The arguments of the kernel [`{name}`](struct@{name}) by their names: for `{name}::launch_named` and its like."
        );
        let attributes = self.signature.attributes(&["cfg"]);
        let structure = self.name();
        let (lifetime, dtypes, generics) = (self.lifetime.iter(), &self.dtypes, self.generics());
        let fields = self.fields.iter().map(|field| {
            let (name, written) = (field.param.name, doc::of_param(&field.param.kind));
            let text = format!("`{written}` of the kernel.");
            let ty = match (&field.generic, &field.param.kind) {
                (Some(generic), _) => generic.to_token_stream(),
                (None, ParamKind::Scalar { ty }) => ty.to_token_stream(),
                (None, ParamKind::Tensor { element, rank, mutable, .. }) => {
                    let mutable = mutable.then(|| quote!(mut));
                    quote!(::core::option::Option<&'a #mutable #runtime::Tensor<#element, #rank>>)
                }
            };
            quote!(#[doc = #text] pub #name: #ty)
        });
        quote_spanned! {*at=>
            #(#attributes)*
            #[doc = #text]
            #[allow(dead_code, non_snake_case, non_camel_case_types)]
            #visibility struct #structure<#(#lifetime,)* #(#dtypes,)* #(#generics,)*> {
                #(#fields,)*
            }
        }
    }

    /// What the tensors' types have to be.
    fn bounds(&self) -> TokenStream {
        let runtime = &self.signature.runtime;
        let tensors = self.fields.iter().filter_map(|field| {
            let generic = field.generic.as_ref()?;
            match field.param.kind {
                ParamKind::Tensor { element, rank, mutable: false, .. } => {
                    Some(quote!(#generic: #runtime::kernel::TensorInput<#element, #rank>,))
                }
                ParamKind::Tensor { element, rank, mutable: true, .. } => {
                    Some(quote!(#generic: #runtime::kernel::TensorOutput<#element, #rank>,))
                }
                ParamKind::Scalar { .. } => None,
            }
        });
        let scalars = scalar_bounds(self.signature);
        quote!(#(#tensors)* #scalars)
    }

    /// `launch_named` and `prepare_named` of the kernel's own type.
    fn launches(&self, body: &Body) -> TokenStream {
        let Signature { name, runtime, consts, at, .. } = self.signature;
        let type_names = self.signature.type_names();
        let const_names: Vec<_> = consts.iter().map(|c| c.name).collect();
        let const_types = consts.iter().map(Const::ty);
        let trait_name = self.signature.derived("Instance");
        let generic = !type_names.is_empty() || !const_names.is_empty();
        let bound = (matches!(body, Body::Launch) && generic).then(|| quote!(Self: #trait_name,));
        let (on, args) = (self.signature.local("on"), self.signature.local("args"));
        let (ty, bounds, names) = (self.ty(), self.bounds(), self.names());
        let (lifetime, generics): (Vec<_>, Vec<_>) = (self.lifetime.iter().collect(), self.generics().collect());
        let text = format!("As `launch`, with the arguments by their names: `{} {{ .. }}`.", self.name());
        quote_spanned! {*at=>
            #[allow(dead_code, non_snake_case, non_camel_case_types)]
            impl<#(#type_names,)* #(const #const_names: #const_types,)*> #name<#(#type_names,)* #(#const_names,)*> {
                #[doc = #text]
                ///
                /// # Errors
                /// As `launch`.
                #[track_caller]
                pub fn launch_named<#(#lifetime,)* #(#generics,)*>(
                    #on: &impl #runtime::kernel::LaunchOn,
                    #args: #ty,
                ) -> ::core::result::Result<(), #runtime::LaunchError>
                where
                    #bound
                    #bounds
                {
                    Self::launch(#on, #(#args.#names,)*)
                }

                /// As `prepare`, with the arguments by their names.
                ///
                /// # Errors
                /// As `prepare`.
                #[track_caller]
                pub fn prepare_named<#(#lifetime,)* #(#generics,)*>(
                    #on: &impl #runtime::kernel::LaunchOn,
                    #args: #ty,
                ) -> ::core::result::Result<#runtime::kernel::PreparedLaunch, #runtime::LaunchError>
                where
                    #bound
                    #bounds
                {
                    Self::prepare(#on, #(#args.#names,)*)
                }
            }
        }
    }

    /// `tuned_named`.
    fn tuned(&self) -> TokenStream {
        let Signature { name, runtime, consts, at, .. } = self.signature;
        let type_names = self.signature.type_names();
        let unnamed = consts.iter().map(Const::unnamed);
        let kernel = self.signature.derived("Kernel");
        let (device, args) = (self.signature.local("device"), self.signature.local("args"));
        let (ty, bounds, names) = (self.ty(), self.bounds(), self.names());
        let (lifetime, generics) = (self.lifetime.iter(), self.generics());
        quote_spanned! {*at=>
            #[allow(dead_code, non_snake_case, non_camel_case_types)]
            impl<#(#type_names,)*> #name<#(#type_names,)* #(#unnamed,)*> {
                /// As `tuned`, with the arguments by their names.
                ///
                /// # Errors
                /// As `tuned`.
                #[track_caller]
                pub fn tuned_named<#(#lifetime,)* #(#generics,)*>(
                    #device: &#runtime::Device,
                    #args: #ty,
                ) -> ::core::result::Result<#kernel<#(#type_names),*>, #runtime::Error>
                where
                    #(#type_names: #runtime::kernel::Element,)*
                    #bounds
                {
                    Self::tuned(#device, #(#args.#names,)*)
                }
            }
        }
    }

    /// `launch_named` and `launch_on_named` of `GemvKernel`.
    fn of_handle(&self) -> TokenStream {
        let Signature { runtime, at, .. } = self.signature;
        let type_names = self.signature.type_names();
        let handle = self.signature.derived("Kernel");
        let (on, args) = (self.signature.local("on"), self.signature.local("args"));
        let (ty, bounds, names) = (self.ty(), self.bounds(), self.names());
        let (lifetime, generics): (Vec<_>, Vec<_>) = (self.lifetime.iter().collect(), self.generics().collect());
        quote_spanned! {*at=>
            #[allow(dead_code, non_snake_case, non_camel_case_types)]
            impl<#(#type_names,)*> #handle<#(#type_names),*> {
                /// As `launch`, with the arguments by their names.
                ///
                /// # Errors
                /// As the kernel's own `launch`.
                #[track_caller]
                pub fn launch_named<#(#lifetime,)* #(#generics,)*>(
                    &self,
                    #args: #ty,
                ) -> ::core::result::Result<(), #runtime::LaunchError>
                where
                    #bounds
                {
                    self.launch(#(#args.#names,)*)
                }

                /// As `launch_on`, with the arguments by their names.
                ///
                /// # Errors
                /// As the kernel's own `launch`.
                #[track_caller]
                pub fn launch_on_named<#(#lifetime,)* #(#generics,)*>(
                    &self,
                    #on: &impl #runtime::kernel::LaunchOn,
                    #args: #ty,
                ) -> ::core::result::Result<(), #runtime::LaunchError>
                where
                    #bounds
                {
                    self.launch_on(#on, #(#args.#names,)*)
                }
            }
        }
    }
}

/// Whether a type is this parameter.
fn is(ty: &syn::Type, name: &Ident) -> bool {
    matches!(ty, syn::Type::Path(path) if path.path.is_ident(name))
}
