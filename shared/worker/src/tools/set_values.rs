//! `set {…}`: gives values a name. Its result is its arguments, so that later steps can name them.
//!
//! It must have no effect.

use serde_json::Value;

use super::{invalid_args, quote};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolResult, ToolSuccess};

const NAME: &str = "set";

pub(crate) struct SetValues;

impl SetValues {
    fn values(args: &Value) -> ToolResult {
        let Some(values) = args.as_object().filter(|values| !values.is_empty()) else {
            let error = "they must be an object with at least one named value";
            return Err(invalid_args(NAME, error));
        };
        let names: Vec<&str> = values.keys().map(String::as_str).collect();
        Ok(ToolSuccess {
            description: format!("Set {}", quote(&names.join(", "))),
            data: args.clone(),
        })
    }
}

impl Tool for SetValues {
    fn name(&self) -> &'static str {
        NAME
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { Self::values(&call.dispatch.args) })
    }
}
