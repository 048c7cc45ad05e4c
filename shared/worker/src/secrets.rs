//! Secrets of a node, which definitions of tools name.
//!
//! Owns where they come from. They are read at each call, and never stored, shown or logged.

use holdpoint_contracts::secret::{SecretPart, find_references};
use holdpoint_ids::Workspace;

use crate::redaction::{Redaction, SECRET};
use crate::tool::ToolFailure;

/// Prefix of the variables with secrets. A command inherits none of them.
const VARIABLE: &str = "HOLDPOINT_SECRET_";

/// Who has written a definition, and so which secrets it may name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DefinedBy<'a> {
    /// The owner of this node, in its tools file.
    Node,
    /// An operator of a workspace. The node works for all workspaces, so a secret is given to one by name.
    Operator(&'a Workspace),
}

/// Resolves the references in a text, and hides the secrets from then on.
pub(crate) fn resolve(
    text: &str,
    by: DefinedBy<'_>,
    redaction: &mut Redaction,
) -> Result<String, ToolFailure> {
    resolve_from(text, by, redaction, |name| std::env::var(name).ok())
}

fn resolve_from(
    text: &str,
    by: DefinedBy<'_>,
    redaction: &mut Redaction,
    find: impl Fn(&str) -> Option<String>,
) -> Result<String, ToolFailure> {
    let parts = find_references(text).map_err(|error| {
        ToolFailure::new(
            "invalid_args",
            format!("The tool is defined wrongly: {error}."),
        )
    })?;
    let mut resolved = String::with_capacity(text.len());
    for part in parts {
        match part {
            SecretPart::Literal(literal) => resolved.push_str(literal),
            SecretPart::Secret(name) => {
                let variable = variable(name, by);
                let value = find(&variable).filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| unknown(name, &variable))?;
                resolved.push_str(&value);
                redaction.add(&value, SECRET);
            }
        }
    }
    Ok(resolved)
}

fn variable(name: &str, by: DefinedBy<'_>) -> String {
    match by {
        DefinedBy::Node => format!("{VARIABLE}{name}"),
        DefinedBy::Operator(workspace) => format!("{VARIABLE}{name}__{workspace}"),
    }
}

fn unknown(name: &str, variable: &str) -> ToolFailure {
    ToolFailure::new(
        "unknown_secret",
        format!("The node has no secret {name}. Set {variable} in its environment."),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Gate: a secret is resolved where the tool runs, and an unknown name fails the step.
    #[test]
    fn a_secret_is_resolved_and_never_shown() {
        let workspace: Workspace = "acme".parse().unwrap();
        let find = |name: &str| {
            let value = match name {
                "HOLDPOINT_SECRET_CRM_KEY" => "k-123",
                "HOLDPOINT_SECRET_CRM_KEY__acme" => "acme-9",
                "HOLDPOINT_SECRET_EMPTY" => "",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let mut secrets = Redaction::default();
        let mut resolve = |text, by| resolve_from(text, by, &mut secrets, find);
        let text = "Bearer {{ secret.CRM_KEY }}";
        assert_eq!(resolve(text, DefinedBy::Node).unwrap(), "Bearer k-123");
        let by = DefinedBy::Operator(&workspace);
        assert_eq!(resolve(text, by).unwrap(), "Bearer acme-9");
        // Stored before there were secrets.
        let old = resolve("{{ order }} {{", by).unwrap();
        assert_eq!(old, "{{ order }} {{");
        let other: Workspace = "other".parse().unwrap();
        for (text, by) in [
            ("{{ secret.EMPTY }}", DefinedBy::Node),
            ("{{ secret.OTHER }}", DefinedBy::Node),
            (text, DefinedBy::Operator(&other)),
        ] {
            let failure = resolve(text, by).unwrap_err();
            assert_eq!(failure.code, "unknown_secret", "{text}");
        }
        let mut shown = json!({ "k-123": ["Bearer acme-9", 1] });
        secrets.hide_in(&mut shown);
        assert_eq!(shown, json!({ "[secret]": ["Bearer [secret]", 1] }));
    }
}
