//! Secrets of a node, which definitions of tools name.
//!
//! Owns where they come from and that no result or error shows them. They are read at each call, and never stored or
//! logged.

use holdpoint_contracts::secret::{SecretPart, read_references};
use holdpoint_ids::Workspace;
use serde_json::Value;

use crate::tool::ToolFailure;

/// Prefix of the variables with secrets. A command inherits none of them.
const VARIABLE: &str = "HOLDPOINT_SECRET_";

/// Replaces a secret in results and errors.
const HIDDEN: &str = "[secret]";

/// Who has written a definition, and so which secrets it may name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DefinedBy<'a> {
    /// The owner of this node, in its tools file.
    Node,
    /// An operator of a workspace. The node works for all workspaces, so a secret is given to one by name.
    Operator(&'a Workspace),
}

/// The secrets of one call.
#[derive(Default)]
pub(crate) struct CallSecrets {
    values: Vec<String>,
}

impl CallSecrets {
    /// Resolves the references in a text.
    pub(crate) fn resolve(&mut self, text: &str, by: DefinedBy<'_>) -> Result<String, ToolFailure> {
        self.resolve_from(text, by, |name| std::env::var(name).ok())
    }

    fn resolve_from(
        &mut self,
        text: &str,
        by: DefinedBy<'_>,
        find: impl Fn(&str) -> Option<String>,
    ) -> Result<String, ToolFailure> {
        let parts = read_references(text).map_err(|error| {
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
                    self.values.push(value);
                }
            }
        }
        Ok(resolved)
    }

    /// A text without the secrets.
    pub(crate) fn hide(&self, text: &str) -> String {
        let values = self.values.iter();
        values.fold(text.to_owned(), |text, value| text.replace(value, HIDDEN))
    }

    /// Replaces the secrets in all texts and names of a value.
    pub(crate) fn hide_in(&self, value: &mut Value) {
        if self.values.is_empty() {
            return;
        }
        match value {
            Value::String(text) => *text = self.hide(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(fields) => {
                let shown = std::mem::take(fields).into_iter().map(|(name, mut field)| {
                    self.hide_in(&mut field);
                    (self.hide(&name), field)
                });
                *fields = shown.collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
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
        let mut secrets = CallSecrets::default();
        let mut resolve = |text, by| secrets.resolve_from(text, by, find);
        let text = "Bearer {{ secret.CRM_KEY }}";
        assert_eq!(resolve(text, DefinedBy::Node).unwrap(), "Bearer k-123");
        let by = DefinedBy::Operator(&workspace);
        assert_eq!(resolve(text, by).unwrap(), "Bearer acme-9");
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
