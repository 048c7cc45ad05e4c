//! References to secrets in the definitions of tools: `{{ secret.NAME }}`.
//!
//! Only the reference is stored, sent and shown. The node that runs the tool resolves it.

/// Longest name of a secret, in characters.
pub const SECRET_NAME_MAX: usize = 64;

/// What is wrong with a reference. It quotes nothing, because the text may be a secret.
pub const REFERENCE_ERROR: &str = "a `{{` must begin a reference such as `{{ secret.CRM_KEY }}`, with a name of capital letters, digits and single `_` that does not end with `_`";

/// Why an address is refused: servers and proxies log addresses.
pub const ADDRESS_ERROR: &str = "`http.url` cannot contain a secret; use a header";

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
/// [`REFERENCE_ERROR`], also for a `{{` that begins no reference.
pub fn read_references(text: &str) -> Result<Vec<SecretPart<'_>>, &'static str> {
    let parts = find_references(text)?;
    let is_open =
        |part: &SecretPart<'_>| matches!(part, SecretPart::Literal(it) if it.contains("{{"));
    if parts.iter().any(is_open) {
        return Err(REFERENCE_ERROR);
    }
    Ok(parts)
}

/// Cuts a text at its references. Any other `{{` is literal text, as in definitions that are older than secrets.
///
/// # Errors
/// [`REFERENCE_ERROR`].
pub fn find_references(text: &str) -> Result<Vec<SecretPart<'_>>, &'static str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some((literal, after)) = next_reference(rest) {
        let (inside, tail) = after.split_once("}}").ok_or(REFERENCE_ERROR)?;
        let name = inside.trim().strip_prefix("secret.");
        let name = name
            .filter(|name| is_secret_name(name))
            .ok_or(REFERENCE_ERROR)?;
        parts.push(SecretPart::Literal(literal));
        parts.push(SecretPart::Secret(name));
        rest = tail;
    }
    parts.push(SecretPart::Literal(rest));
    parts.retain(|part| *part != SecretPart::Literal(""));
    Ok(parts)
}

/// The text before the next reference, and what follows its `{{`.
fn next_reference(text: &str) -> Option<(&str, &str)> {
    let mut starts = text.match_indices("{{").map(|(at, _)| text.split_at(at));
    starts.find_map(|(literal, from)| {
        let after = from.strip_prefix("{{")?;
        let is_reference = after.trim_start().starts_with("secret.");
        is_reference.then_some((literal, after))
    })
}

/// Whether it is 1 to 64 capital letters, digits and single `_`, without one at the end. Two `_` separate the name from
/// a workspace in the environment of a node.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
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
