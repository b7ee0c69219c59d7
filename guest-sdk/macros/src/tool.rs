//! Expands `#[tool]`: adds a type with the name of the function, which implements `Tool`. Types and
//! functions have separate namespaces, so `tools![convert]` finds the type by the function's path.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::Parser;
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, ItemFn, Lit, LitStr, Meta, Result, ReturnType, parse2,
};

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = parse2(item)?;
    let ident = &function.sig.ident;
    let name = match parse_name(attribute)? {
        Some(name) => name,
        None => LitStr::new(ident.to_string().trim_start_matches("r#"), ident.span()),
    };
    check_name(&name)?;
    let description = description(&function.attrs);
    if description.is_empty() {
        let message =
            "a tool needs a doc comment, which says what the tool does and when to use it";
        return Err(Error::new_spanned(&function.sig.ident, message));
    }
    let (Some(FnArg::Typed(input)), 1) = (function.sig.inputs.first(), function.sig.inputs.len())
    else {
        let message =
            "a tool takes one parameter: a struct that implements `Deserialize` and `JsonSchema`";
        return Err(Error::new_spanned(&function.sig, message));
    };
    let input = &input.ty;
    let ReturnType::Type(_, result) = &function.sig.output else {
        return Err(Error::new_spanned(
            &function.sig,
            "a tool returns a `Result` of an output and an error that implements `Display`",
        ));
    };
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    let visibility = &function.vis;
    let parameter = format_ident!("input");
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, reason = "named like the function")]
        #visibility struct #ident {}

        impl ::skillhost_guest::__private::Tool for #ident {
            const NAME: &'static str = #name;
            const DESCRIPTION: &'static str = #description;
            type Input = #input;
            type Output = <#result as ::skillhost_guest::__private::ToolResult>::Output;
            type Error = <#result as ::skillhost_guest::__private::ToolResult>::Error;

            async fn call(#parameter: Self::Input) -> ::core::result::Result<Self::Output, Self::Error> {
                #ident(#parameter)#wait
            }
        }
    })
}

/// Parses `name = "..."`, or nothing.
fn parse_name(attribute: TokenStream) -> Result<Option<LitStr>> {
    let mut name = None;
    let parser = syn::meta::parser(|meta| {
        if !meta.path.is_ident("name") {
            return Err(meta.error("unknown argument: expected `name = \"...\"`"));
        }
        name = Some(meta.value()?.parse()?);
        Ok(())
    });
    parser.parse2(attribute)?;
    Ok(name)
}

/// Checks a name against the rule of `wit/skill.wit`.
fn check_name(name: &LitStr) -> Result<()> {
    let value = name.value();
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
    };
    if (1..=64).contains(&value.len()) && value.bytes().all(allowed) {
        return Ok(());
    }
    Err(Error::new(
        name.span(),
        format!(
            "`{value}` is not a valid tool name: use 1 to 64 characters of a-z, 0-9, `_` and `-`"
        ),
    ))
}

/// Returns the doc comment, without the space at the start of each line.
fn description(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned()).collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(attribute: TokenStream, item: TokenStream) -> String {
        expand(attribute, item).unwrap_err().to_string()
    }

    #[test]
    fn attribute_name_overrides_function_name() {
        let function = quote!(
            /// Converts.
            async fn to_json(input: Input) -> Result<Output> {}
        );
        assert!(expand(quote!(), function.clone()).unwrap().to_string().contains(r#"= "to_json""#));
        assert!(
            expand(quote!(name = "to-json"), function.clone())
                .unwrap()
                .to_string()
                .contains(r#"= "to-json""#)
        );
        assert_eq!(
            error(quote!(name = "To JSON"), function.clone()),
            "`To JSON` is not a valid tool name: use 1 to 64 characters of a-z, 0-9, `_` and `-`"
        );
        assert_eq!(
            error(quote!(title = "x"), function),
            "unknown argument: expected `name = \"...\"`"
        );
    }

    #[test]
    fn doc_comment_becomes_the_description() {
        let function: ItemFn = syn::parse_quote!(
            /// Converts a document.
            ///
            /// Use it when:
            ///   - asked to
            #[must_use]
            async fn convert(input: Input) -> Result<Output> {}
        );
        assert_eq!(
            description(&function.attrs),
            "Converts a document.\n\nUse it when:\n  - asked to"
        );
    }

    #[test]
    fn missing_doc_comment_is_refused() {
        assert!(
            error(
                quote!(),
                quote!(
                    async fn convert(input: Input) -> Result<Output> {}
                )
            )
            .starts_with("a tool needs a doc comment")
        );
    }

    #[test]
    fn wrong_signatures_are_refused() {
        let two = quote!(
            /// Adds.
            async fn add(a: u32, b: u32) -> Result<u32> {}
        );
        assert!(error(quote!(), two).starts_with("a tool takes one parameter"));
        let nothing = quote!(
            /// Adds.
            async fn add(input: Sum) {}
        );
        assert!(error(quote!(), nothing).starts_with("a tool returns a `Result`"));
    }
}
