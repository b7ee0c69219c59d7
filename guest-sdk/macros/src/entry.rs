//! Expands `#[main]`, which exports `wasi:cli/run`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, ItemFn, Result, parse2};

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    if !attribute.is_empty() {
        return Err(Error::new_spanned(attribute, "#[skillhost_guest::main] takes no arguments"));
    }
    let function: ItemFn = parse2(item)?;
    let name = &function.sig.ident;
    let argument = match function.sig.inputs.len() {
        0 => None,
        1 => Some(quote!(::skillhost_guest::env::args())),
        _ => {
            let message = "main takes no parameter, or the arguments: `args: Vec<String>`";
            return Err(Error::new_spanned(&function.sig.inputs, message));
        }
    };
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    Ok(quote! {
        // Inside a block: at the root of a crate that is built as a program, as tests are, an async
        // `main` does not compile.
        #[allow(unsafe_code, reason = "exports need it")]
        const _: () = {
            #[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "called in components only"))]
            #function

            #[cfg(target_family = "wasm")]
            struct Command;

            #[cfg(target_family = "wasm")]
            impl ::skillhost_guest::__private::command::exports::wasi::cli::run::Guest for Command {
                async fn run() -> ::core::result::Result<(), ()> {
                    ::skillhost_guest::__private::run(async || #name(#argument)#wait).await
                }
            }

            #[cfg(target_family = "wasm")]
            ::skillhost_guest::__private::command::export_command!(Command);
        };

        #[cfg(not(target_family = "wasm"))]
        #[allow(dead_code, reason = "called in programs only")]
        fn #name() {
            ::core::panic!("this is a component: build it for wasm32-unknown-unknown");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: TokenStream) -> String {
        expand(TokenStream::new(), item).unwrap().to_string()
    }

    #[test]
    fn main_receives_arguments_if_it_takes_any() {
        assert!(
            expanded(quote!(
                async fn main(args: Vec<String>) {}
            ))
            .contains("main (:: skillhost_guest :: env :: args ()) . await")
        );
        assert!(
            expanded(quote!(
                async fn main() {}
            ))
            .contains("main () . await")
        );
    }

    #[test]
    fn main_need_not_be_async() {
        assert!(
            expanded(quote!(
                fn main() {}
            ))
            .contains("async || main ()) . await")
        );
    }

    #[test]
    fn two_parameters_are_refused() {
        let error = expand(
            TokenStream::new(),
            quote!(
                async fn main(a: String, b: String) {}
            ),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "main takes no parameter, or the arguments: `args: Vec<String>`"
        );
    }

    #[test]
    fn attribute_arguments_are_refused() {
        assert!(
            expand(
                quote!(flavor = "x"),
                quote!(
                    async fn main() {}
                )
            )
            .is_err()
        );
    }
}
