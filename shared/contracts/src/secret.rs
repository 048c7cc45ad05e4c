//! References to secrets in the definitions of tools: `{{ secret.NAME }}`.
//!
//! Only the reference is stored, sent and shown. The node that runs the tool resolves it.

/// Longest name of a secret, in characters.
pub const SECRET_NAME_MAX: usize = 64;

/// What is wrong with a reference. It quotes nothing, because the text may be a secret.
pub const REFERENCE_ERROR: &str = "a `{{` must begin a reference such as `{{ secret.CRM_KEY }}`, with a name of capital letters, digits and single `_`";

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPart<'t> {
    Literal(&'t str),
    /// The name of a secret.
    Secret(&'t str),
}

/// Cuts a text at its references.
///
/// # Errors
/// [`REFERENCE_ERROR`].
pub fn read_references(text: &str) -> Result<Vec<SecretPart<'_>>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once("{{") {
        let (inside, tail) = after.split_once("}}").ok_or(REFERENCE_ERROR)?;
        let name = inside.trim().strip_prefix("secret.");
        let name = name.filter(|name| is_name(name)).ok_or(REFERENCE_ERROR)?;
        parts.push(SecretPart::Literal(literal));
        parts.push(SecretPart::Secret(name));
        rest = tail;
    }
    parts.push(SecretPart::Literal(rest));
    parts.retain(|part| *part != SecretPart::Literal(""));
    Ok(parts)
}

/// Two `_` separate the name from a workspace in the environment of a node.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (1..=SECRET_NAME_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.contains("__")
        && !name.ends_with('_')
}

#[cfg(test)]
mod tests {
    use super::SecretPart::{Literal, Secret};
    use super::*;

    #[test]
    fn references_are_read() {
        for (text, parts) in [
            (
                "Bearer {{ secret.CRM_KEY }}",
                vec![Literal("Bearer "), Secret("CRM_KEY")],
            ),
            (
                "{{secret.A}}{{secret.B2}}!",
                vec![Secret("A"), Secret("B2"), Literal("!")],
            ),
            ("plain } {", vec![Literal("plain } {")]),
            ("", Vec::new()),
        ] {
            assert_eq!(read_references(text), Ok(parts), "{text}");
        }
        let long = format!("{{{{secret.{}}}}}", "A".repeat(SECRET_NAME_MAX + 1));
        for wrong in [
            "{{ secret.A",
            "{{ input.a }}",
            "{{ secret.a }}",
            "{{ secret. }}",
            "{{ secret.A__B }}",
            "{{ secret.A_ }}",
            "{{ secret.A }} {{",
            long.as_str(),
        ] {
            assert_eq!(read_references(wrong), Err(REFERENCE_ERROR), "{wrong}");
        }
    }
}
