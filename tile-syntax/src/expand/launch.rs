//! The launch surface: `gemv::<f16, 8>::launch(..)`, `gemv::<f16>::instance(..)` and the handle's `launch`.

use super::signature::{Const, Param, ParamKind, Signature};
use super::{look, named};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

/// What the methods do.
pub(super) enum Body {
    /// They launch.
    Launch,
    /// They do not compile: the kernel has mistakes. The text is of one that nobody has reported yet.
    Stub(Option<String>),
}

impl Const<'_> {
    /// `usize` or `bool`.
    pub(super) fn ty(&self) -> TokenStream {
        if self.is_bool { quote!(::core::primitive::bool) } else { quote!(::core::primitive::usize) }
    }

    /// The value a constant has where a path leaves it out: no instance is declared with it. A literal, because rustdoc shows
    /// the source text of anything else, which is the attribute; one that 32-bit platforms have too.
    pub(super) fn unnamed(&self) -> TokenStream {
        if self.is_bool { quote!(false) } else { quote!(4294967295) }
    }
}

/// The methods of the struct and of the handle.
pub(super) fn methods(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let launch = launch(signature, body);
    let instance = instance(signature, body);
    let tuned = tuned(signature, body);
    let handle = handle(signature, body);
    let named = named::named(signature, body);
    let look = look::methods(signature, body);
    quote!(#launch #instance #tuned #handle #named #look)
}

/// `gemv::<f16, 8>::launch(on, x, w, y)`.
fn launch(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let Signature { name, runtime, consts, at, .. } = signature;
    let type_names = signature.type_names();
    let const_names: Vec<_> = consts.iter().map(|c| c.name).collect();
    let const_types = consts.iter().map(Const::ty);
    let on = signature.local("on");
    let parameters = parameters(signature);
    let trait_name = signature.derived("Instance");
    let generic = !type_names.is_empty() || !const_names.is_empty();
    let (bound, index) = match (body, generic) {
        (Body::Launch, true) => (quote!(Self: #trait_name,), quote!(<Self as #trait_name>::INDEX)),
        _ => (quote!(), quote!(0)),
    };
    let scalars = scalar_bounds(signature);
    let prepare = run(signature, body, &quote!(prepare_launch), &on, &index);
    let class = run(signature, body, &quote!(class), &on, &index);
    let run = run(signature, body, &quote!(launch), &on, &index);
    let text = format!("Launches `{name}` on a device (its own stream) or on a stream.");
    quote_spanned! {*at=>
        #[allow(clippy::too_many_arguments, dead_code, non_snake_case, unused_mut)]
        impl<#(#type_names,)* #(const #const_names: #const_types,)*> #name<#(#type_names,)* #(#const_names,)*> {
            #[doc = #text]
            ///
            /// # Errors
            /// Everything is checked before anything is launched: extents, strides, alignment, overlap, the kernel's
            /// `require`s and the device's limits. A failed launch launches nothing.
            #[track_caller]
            pub fn launch(
                #on: &impl #runtime::kernel::LaunchOn,
                #(#parameters,)*
            ) -> ::core::result::Result<(), #runtime::LaunchError>
            where
                #bound
                #scalars
            {
                #run
            }

            /// A launch with these arguments, checked once, to be made again and again.
            ///
            /// # Errors
            /// As `launch`; memory that is borrowed from other code.
            #[track_caller]
            pub fn prepare(
                #on: &impl #runtime::kernel::LaunchOn,
                #(#parameters,)*
            ) -> ::core::result::Result<#runtime::kernel::PreparedLaunch, #runtime::LaunchError>
            where
                #bound
                #scalars
            {
                #prepare
            }

            /// The alignment class that a launch with these arguments takes: the widest whose contract holds. Nothing is
            /// compiled or launched.
            ///
            /// # Errors
            /// What the launch would fail with before it runs.
            #[track_caller]
            pub fn class(
                #on: &impl #runtime::kernel::LaunchOn,
                #(#parameters,)*
            ) -> ::core::result::Result<#runtime::kernel::Class, #runtime::LaunchError>
            where
                #bound
                #scalars
            {
                #class
            }
        }
    }
}

/// `gemv::<f16>::instance(&device, GemvParams { ROWS })`.
fn instance(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let Signature { name, runtime, consts, at, .. } = signature;
    let type_names = signature.type_names();
    let unnamed = consts.iter().map(Const::unnamed);
    let handle = signature.derived("Kernel");
    let (device, params) = (signature.local("device"), signature.local("params"));
    let params_type = signature.derived("Params");
    let parameter = (!consts.is_empty()).then(|| quote!(#params: #params_type));
    let run = match body {
        Body::Stub(_) => quote!(::core::panic!("the kernel has mistakes")),
        Body::Launch => {
            let const_names = consts.iter().map(|c| c.name);
            let const_texts = consts.iter().map(|c| c.name.to_string());
            quote_spanned! {*at=>
                let instance = #runtime::kernel::instance_index(
                    Self::definition(),
                    &[#(<#type_names as #runtime::kernel::Element>::DTYPE),*],
                    &[#((#const_texts, #params.#const_names as i64)),*],
                )?;
                ::core::result::Result::Ok(#handle {
                    device: ::core::clone::Clone::clone(#device),
                    instance,
                    _types: ::core::marker::PhantomData,
                })
            }
        }
    };
    quote_spanned! {*at=>
        #[allow(dead_code, unused_variables)]
        impl<#(#type_names,)*> #name<#(#type_names,)* #(#unnamed,)*> {
            /// The instance with these constants, on `device`.
            ///
            /// # Errors
            /// Where no such instance is declared; the error lists those that are.
            pub fn instance(
                #device: &#runtime::Device,
                #parameter
            ) -> ::core::result::Result<#handle<#(#type_names),*>, #runtime::Error>
            where
                #(#type_names: #runtime::kernel::Element,)*
            {
                #run
            }
        }
    }
}

/// `gemv::<f16>::tuned(&device, x, w, y)`, and the same with options and a report.
fn tuned(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let Signature { name, runtime, consts, at, .. } = signature;
    let type_names = signature.type_names();
    let unnamed = consts.iter().map(Const::unnamed);
    let handle = signature.derived("Kernel");
    let (device, options) = (signature.local("device"), signature.local("options"));
    let parameters = parameters(signature);
    let names: Vec<_> = signature.arguments().map(|p| p.name).collect();
    let scalars = scalar_bounds(signature);
    let run = match body {
        Body::Stub(_) => quote!(let _ = (#(&#names,)*); ::core::panic!("the kernel has mistakes")),
        Body::Launch => {
            let arguments = signature.arguments().map(|p| argument(signature, p));
            quote_spanned! {*at=>
                let (instance, report) = #runtime::tuner::tune(
                    Self::definition(),
                    Self::launch_table(),
                    &[#(<#type_names as #runtime::kernel::Element>::DTYPE),*],
                    #device,
                    #options,
                    &mut [#(#arguments),*],
                )?;
                let kernel = #handle {
                    device: ::core::clone::Clone::clone(#device),
                    instance,
                    _types: ::core::marker::PhantomData,
                };
                ::core::result::Result::Ok((kernel, report))
            }
        }
    };
    let text = format!("The fastest declared instance of `{name}` for these arguments on a device, measured once.");
    quote_spanned! {*at=>
        #[allow(clippy::too_many_arguments, dead_code, non_snake_case, unused_mut, unused_variables)]
        impl<#(#type_names,)*> #name<#(#type_names,)* #(#unnamed,)*> {
            #[doc = #text]
            /// The outputs are not written; on a simulator nothing is measured.
            ///
            /// # Errors
            /// No instance may be launched with these arguments, or none works; the device has failed.
            #[track_caller]
            pub fn tuned(
                #device: &#runtime::Device,
                #(#parameters,)*
            ) -> ::core::result::Result<#handle<#(#type_names),*>, #runtime::Error>
            where
                #(#type_names: #runtime::kernel::Element,)*
                #scalars
            {
                let (kernel, _) = Self::tuned_with(
                    #device, &::core::default::Default::default(), #(#names),*
                )?;
                ::core::result::Result::Ok(kernel)
            }

            /// As `tuned`, with options, and with the report of every candidate.
            ///
            /// # Errors
            /// As `tuned`.
            #[track_caller]
            pub fn tuned_with(
                #device: &#runtime::Device,
                #options: &#runtime::tuner::TuneOptions,
                #(#parameters,)*
            ) -> ::core::result::Result<
                (#handle<#(#type_names),*>, #runtime::tuner::TuneReport), #runtime::Error,
            >
            where
                #(#type_names: #runtime::kernel::Element,)*
                #scalars
            {
                #run
            }
        }
    }
}

/// The methods of `GemvKernel`.
fn handle(signature: &Signature<'_>, body: &Body) -> TokenStream {
    let Signature { runtime, at, .. } = signature;
    let type_names = signature.type_names();
    let handle = signature.derived("Kernel");
    let parameters = parameters(signature);
    let on = signature.local("on");
    let scalars = scalar_bounds(signature);
    let index = quote!(self.instance);
    let run_on = run(signature, body, &quote!(launch), &on, &index);
    let run_device = run(signature, body, &quote!(launch), &quote!(&self.device), &index);
    let prepare_on = run(signature, body, &quote!(prepare_launch), &on, &index);
    let class = run(signature, body, &quote!(class), &quote!(&self.device), &index);
    quote_spanned! {*at=>
        #[allow(clippy::too_many_arguments, dead_code, non_snake_case, unused_mut)]
        impl<#(#type_names,)*> #handle<#(#type_names),*> {
            /// Launches on the device that the instance was made for.
            ///
            /// # Errors
            /// As the kernel's own `launch`.
            #[track_caller]
            pub fn launch(&self, #(#parameters,)*) -> ::core::result::Result<(), #runtime::LaunchError>
            where
                #scalars
            {
                #run_device
            }

            /// Launches on another device or on a stream.
            ///
            /// # Errors
            /// As the kernel's own `launch`.
            #[track_caller]
            pub fn launch_on(
                &self,
                #on: &impl #runtime::kernel::LaunchOn,
                #(#parameters,)*
            ) -> ::core::result::Result<(), #runtime::LaunchError>
            where
                #scalars
            {
                #run_on
            }

            /// A launch on a device or on a stream, checked once, to be made again and again.
            ///
            /// # Errors
            /// As the kernel's own `prepare`.
            #[track_caller]
            pub fn prepare(
                &self,
                #on: &impl #runtime::kernel::LaunchOn,
                #(#parameters,)*
            ) -> ::core::result::Result<#runtime::kernel::PreparedLaunch, #runtime::LaunchError>
            where
                #scalars
            {
                #prepare_on
            }

            /// The alignment class that a launch with these arguments takes on the device of the instance.
            ///
            /// # Errors
            /// As the kernel's own `class`.
            #[track_caller]
            pub fn class(
                &self,
                #(#parameters,)*
            ) -> ::core::result::Result<#runtime::kernel::Class, #runtime::LaunchError>
            where
                #scalars
            {
                #class
            }

            /// Which declared instance this is, in order of declaration, dtypes varying slowest.
            pub fn index(&self) -> usize {
                self.instance
            }

            /// The device.
            pub fn device(&self) -> &#runtime::Device {
                &self.device
            }
        }
    }
}

/// The body of a launch, or of what `function` of the runtime's `kernel` makes of it, of instance `index` on `on`.
fn run(
    signature: &Signature<'_>,
    body: &Body,
    function: &TokenStream,
    on: &impl ToTokens,
    index: &TokenStream,
) -> TokenStream {
    let Signature { name, runtime, consts, at, .. } = signature;
    let (type_names, unnamed) = (signature.type_names(), consts.iter().map(Const::unnamed));
    let kernel = quote_spanned!(*at=> #name::<#(#type_names,)* #(#unnamed,)*>);
    let names = signature.arguments().map(|p| p.name);
    match body {
        Body::Launch => {
            let arguments = signature.arguments().map(|p| argument(signature, p));
            quote_spanned! {*at=>
                #runtime::kernel::#function(
                    #kernel::definition(), #kernel::launch_table(), #index, #on, &mut [#(#arguments),*],
                )
            }
        }
        Body::Stub(None) => quote_spanned! {*at=>
            let _ = (#(&#names,)*);
            ::core::panic!("the kernel has mistakes")
        },
        Body::Stub(Some(text)) => quote_spanned! {*at=>
            let _ = (#(&#names,)*);
            const { ::core::panic!("{}", #text) }
        },
    }
}

/// A parameter as an argument of the type-erased launch.
fn argument(signature: &Signature<'_>, param: &Param<'_>) -> TokenStream {
    let (name, runtime) = (param.name, &signature.runtime);
    match param.kind {
        ParamKind::Tensor { element, rank, option: Some(_), mutable: false, .. } => {
            quote!(#runtime::kernel::optional::<#element, #rank>(#name))
        }
        ParamKind::Tensor { element, rank, option: Some(_), mutable: true, .. } => {
            quote!(#runtime::kernel::optional_mut::<#element, #rank>(&#name))
        }
        ParamKind::Tensor { element, rank, mutable: false, .. } => {
            quote!(#runtime::kernel::TensorInput::<#element, #rank>::argument(&#name))
        }
        ParamKind::Tensor { element, rank, mutable: true, .. } => {
            quote!(#runtime::kernel::TensorOutput::<#element, #rank>::argument(&mut #name))
        }
        ParamKind::Scalar { .. } => quote!(#runtime::kernel::ScalarInput::scalar(&#name)),
    }
}

/// `x: impl TensorInput<T, 1>`, ...
fn parameters(signature: &Signature<'_>) -> Vec<TokenStream> {
    let runtime = &signature.runtime;
    let parameter = |param: &Param<'_>| {
        let name = param.name;
        let at = name.span();
        match param.kind {
            ParamKind::Tensor { element, rank, option: Some(_), mutable, .. } => {
                let mutable = mutable.then(|| quote!(mut));
                quote_spanned!(at=> #name: ::core::option::Option<&#mutable #runtime::Tensor<#element, #rank>>)
            }
            ParamKind::Tensor { element, rank, mutable: false, .. } => {
                quote_spanned!(at=> #name: impl #runtime::kernel::TensorInput<#element, #rank>)
            }
            ParamKind::Tensor { element, rank, mutable: true, .. } => {
                quote_spanned!(at=> mut #name: impl #runtime::kernel::TensorOutput<#element, #rank>)
            }
            ParamKind::Scalar { ty } => quote_spanned!(at=> #name: #ty),
        }
    };
    signature.arguments().map(parameter).collect()
}

/// `T: ScalarInput`, for a dtype parameter that is a scalar's type; `T: Element` for an optional tensor's.
pub(super) fn scalar_bounds(signature: &Signature<'_>) -> TokenStream {
    let runtime = &signature.runtime;
    let is_scalar = |name: &Ident| {
        signature.params.iter().any(|p| match p.kind {
            ParamKind::Scalar { ty: syn::Type::Path(path) } => path.path.is_ident(name),
            _ => false,
        })
    };
    // An optional tensor is given as it is, so its element type has to be one.
    let is_optional = |name: &Ident| {
        signature.params.iter().any(|p| match &p.kind {
            ParamKind::Tensor { element: syn::Type::Path(path), option: Some(_), .. } => path.path.is_ident(name),
            _ => false,
        })
    };
    let types = signature.type_names().into_iter().filter(|name| is_scalar(name));
    let elements = signature.type_names().into_iter().filter(|name| is_optional(name));
    quote!(#(#types: #runtime::kernel::ScalarInput,)* #(#elements: #runtime::Element,)*)
}
