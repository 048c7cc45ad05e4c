//! `search_contacts {fields?, tag?, text?, limit?}`: finds contacts of the run's workspace.
//!
//! Owns the size of the result. It must not choose a workspace: the token of the step does.

use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::{FOUND_MAX, SearchContacts};
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::size::json_bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::send_command::SendQuery;
use super::{REFUSED, quote, read_args};
use crate::tool::{BoxFuture, Risk, Tool, ToolCall, ToolFailure, ToolResult, ToolSuccess};

const NAME: &str = "search_contacts";

/// Largest list of contacts, in bytes of JSON. It fits into [`MAX_INLINE_RESULT`](super::MAX_INLINE_RESULT).
const CONTACTS_BYTES_MAX: usize = 192 * 1024;

/// Most queries of one search. Each one looks at up to 1,000 contacts.
const QUERIES_MAX: usize = 100;

pub(crate) struct FindContacts {
    pub(crate) search: SendQuery<SearchContacts>,
}

impl FindContacts {
    async fn find(&self, call: &ToolCall) -> ToolResult {
        let args: Args = read_args(NAME, &call.dispatch.args)?;
        let Some(token) = call.dispatch.token.clone() else {
            let text = "The dispatch has no token, so contacts cannot be read.";
            return Err(ToolFailure::new("search_failed", text));
        };
        let query = SearchContacts {
            token,
            fields: args.fields,
            tag: args.tag,
            text: args.text,
            limit: args.limit,
            cursor: None,
        };
        let (contacts, has_more) = self.all_pages(call, query).await.map_err(|problem| {
            let code = if problem.status == REFUSED {
                "invalid_args"
            } else {
                "search_failed"
            };
            ToolFailure::new(code, quote(&problem.detail))
        })?;
        let count = contacts.len();
        let more = if has_more {
            ", and there may be more"
        } else {
            ""
        };
        Ok(ToolSuccess {
            description: format!("Contacts found: {count}{more}"),
            data: json!({ "contacts": contacts, "has_more": has_more }),
        })
    }

    /// What fits into a result, and whether there may be more.
    async fn all_pages(
        &self,
        call: &ToolCall,
        mut query: SearchContacts,
    ) -> Result<(Vec<ContactView>, bool), Problem> {
        let mut contacts = Vec::new();
        let mut bytes = 0;
        for _ in 0..QUERIES_MAX {
            let page = (self.search)(call.dispatch.workspace.clone(), query.clone()).await?;
            for contact in page.items {
                bytes += json_bytes(&contact) + 1;
                if query.limit == 0 || bytes > CONTACTS_BYTES_MAX {
                    return Ok((contacts, true));
                }
                contacts.push(contact);
                query.limit -= 1;
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() || query.limit == 0 {
                return Ok((contacts, query.cursor.is_some()));
            }
        }
        Ok((contacts, true))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    fields: Map<String, Value>,
    tag: Option<String>,
    text: Option<String>,
    #[serde(default = "most")]
    limit: u64,
    /// A repetition does no harm anyway.
    #[serde(default, rename = "idempotent")]
    _idempotent: bool,
}

const fn most() -> u64 {
    FOUND_MAX
}

impl Tool for FindContacts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(self.find(call))
    }
}
