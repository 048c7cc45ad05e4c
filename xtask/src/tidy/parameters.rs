//! A tuple parameter such as `(a, b): (A, B)` only dodges the limit of parameters.

use syn::visit::Visit;
use syn::{FnArg, Pat, Signature};

use super::sources::Source;

pub(crate) fn check(source: &Source) -> Vec<String> {
    let mut visitor = Visitor::default();
    if let Ok(file) = syn::parse_file(source.text()) {
        visitor.visit_file(&file);
    }
    let path = source.path();
    let names = visitor.functions.into_iter();
    names
        .map(|name| format!("{path}: `{name}` has a tuple parameter; use a named struct"))
        .collect()
}

#[derive(Default)]
struct Visitor {
    functions: Vec<String>,
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        let is_tuple = |input: &FnArg| matches!(input, FnArg::Typed(typed) if matches!(*typed.pat, Pat::Tuple(_)));
        if signature.inputs.iter().any(is_tuple) {
            self.functions.push(signature.ident.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_parameter_of_a_function_is_found_and_one_of_a_closure_is_not() {
        let text = "fn a((b, c): (u8, u8)) {} fn d(e: u8) { let f = |(g, h): (u8, u8)| g + h; }";
        let found = check(&Source::new("x.rs", text));
        assert_eq!(
            found,
            ["x.rs: `a` has a tuple parameter; use a named struct"]
        );
    }
}
