//! `#[main]`: exports `wasi:cli/run`.

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
            let message = "main takes the arguments, `args: Vec<String>`, or nothing";
            return Err(Error::new_spanned(&function.sig.inputs, message));
        }
    };
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    Ok(quote! {
        // Not at the root of the crate, where an async `main` is refused wherever the crate is
        // built as a program (tests).
        #[allow(unsafe_code, reason = "exports are")]
        const _: () = {
            #[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "only components run it"))]
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
        #[allow(dead_code, reason = "only programs have one")]
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
    fn main_gets_the_arguments_where_it_takes_any() {
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
        assert_eq!(error.to_string(), "main takes the arguments, `args: Vec<String>`, or nothing");
    }

    #[test]
    fn arguments_of_the_attribute_are_refused() {
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
