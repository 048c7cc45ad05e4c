//! Tools that are an HTTP call, registered (`POST /tools`) or in a tools file.
//!
//! Owns the request and the conversion of the response into a result. Limits, redirects, addresses and the
//! headers that identify the step are those of `http_request`.

use std::collections::BTreeMap;

use holdpoint_contracts::tool::HttpCall;
use serde_json::Value;

use super::failed_response::{FailedBody, failed};
use super::http_request::{Args, HttpRequest, Outgoing, ToolResponse};
use crate::redaction::Redaction;
use crate::secrets::{DefinedBy, resolve};
use crate::tool::{
    BoxFuture, Risk, Tool, ToolCall, ToolDefinition, ToolFailure, ToolResult, ToolSuccess,
};

/// Executes the steps of one queue.
pub(crate) struct HttpTool {
    pub(crate) name: String,
    pub(crate) risk: Risk,
    pub(crate) is_idempotent: bool,
    pub(crate) definition: ToolDefinition,
    pub(crate) http: HttpRequest,
    /// `None`: the dispatch contains the address, as for all steps of [`HTTP_QUEUE`](holdpoint_contracts::steps::HTTP_QUEUE).
    pub(crate) target: Option<HttpCall>,
}

impl Tool for HttpTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn risk(&self) -> Risk {
        self.risk
    }

    fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let of_operator = || {
                Some((
                    call.dispatch.http.as_ref()?,
                    DefinedBy::Operator(&call.dispatch.workspace),
                ))
            };
            let of_node = self.target.as_ref().map(|target| (target, DefinedBy::Node));
            let Some((target, by)) = of_node.or_else(of_operator) else {
                return Err(ToolFailure::new(
                    "no_target",
                    "The step does not say which address its tool is at; register the tool again.",
                ));
            };
            perform(&self.http, target, by, call).await
        })
    }
}

/// Calls `target` with the arguments as JSON body. A 2xx response is the result: JSON unchanged, an empty
/// body as null, anything else as text. With `Holdpoint-Outcome: parked` the step parks, and `Holdpoint-Cost` is its cost.
async fn perform(
    http: &HttpRequest,
    target: &HttpCall,
    by: DefinedBy<'_>,
    call: &ToolCall,
) -> ToolResult {
    let mut secrets = Redaction::default();
    let mut headers = BTreeMap::new();
    for (name, value) in &target.headers {
        headers.insert(name.clone(), resolve(value, by, &mut secrets)?);
    }
    let args = Args {
        method: target.method.clone(),
        url: target.url.clone(),
        headers,
        body: None,
        _idempotent: false,
    };
    let secrets = secrets.with_token(call.dispatch.token.as_deref());
    let exchange = async {
        let request = Outgoing::new(call.dispatch.tool.as_str(), args, call)?
            .with_step_token(call)?
            .json(&call.dispatch.args_with_feedback())?;
        let response = http.exchange(request, &call.cost, &secrets).await?;
        result(response, &secrets)
    };
    let mut result = http.in_time(call, exchange).await;
    // A server may send back what it got.
    match &mut result {
        Ok(success) => {
            secrets.hide_in(&mut success.data);
            success.description = secrets.hide_text(&success.description);
        }
        Err(failure) => {
            secrets.hide_in(&mut failure.data);
            failure.message = secrets.hide_text(&failure.message);
        }
    }
    result
}

fn result(response: ToolResponse, secrets: &Redaction) -> ToolResult {
    if !response.status.is_success() {
        let body = FailedBody {
            content_type: response.content_type(),
            bytes: &response.bytes,
            is_whole: true,
        };
        return Err(failed(&response.host, response.status, &body, secrets));
    }
    if response.parks() {
        return Err(ToolFailure::parked());
    }
    let data = if response.bytes.iter().all(u8::is_ascii_whitespace) {
        Value::Null
    } else {
        response.value()
    };
    Ok(ToolSuccess {
        description: response.description,
        data,
    })
}
