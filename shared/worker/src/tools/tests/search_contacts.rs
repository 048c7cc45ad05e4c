use std::sync::{Arc, Mutex};

use holdpoint_contracts::contact::ContactView;
use holdpoint_contracts::executor::SearchContacts;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::run::Page;
use serde_json::{Value, json};

use super::{call, failure};
use crate::tool::{Risk, Tool};
use crate::tools::{FindContacts, SendQuery};

type Reply = Result<Page<ContactView>, Problem>;

/// The queries, each with its workspace.
type SentQueries = Arc<Mutex<Vec<(String, SearchContacts)>>>;

/// Replies to each query in turn, and keeps the queries.
pub(super) fn directory(replies: Vec<Reply>) -> (SendQuery<SearchContacts>, SentQueries) {
    let asked = SentQueries::default();
    let (kept, replies) = (Arc::clone(&asked), Mutex::new(replies.into_iter()));
    let search: SendQuery<SearchContacts> = Arc::new(move |workspace, query| {
        kept.lock().unwrap().push((workspace.to_string(), query));
        let reply = replies.lock().unwrap().next().unwrap();
        Box::pin(async move { reply })
    });
    (search, asked)
}

fn page(ids: &[&str], filling: usize, next: Option<&str>) -> Reply {
    let contact = |id: &&str| {
        let view = json!({ "id": id, "name": "x".repeat(filling) });
        serde_json::from_value(view).unwrap()
    };
    Ok(Page {
        items: ids.iter().map(contact).collect(),
        next_cursor: next.map(str::to_owned),
    })
}

fn ids(data: &Value) -> Vec<&str> {
    let contacts = data["contacts"].as_array().unwrap();
    let ids = contacts
        .iter()
        .map(|contact| contact["id"].as_str().unwrap());
    ids.collect()
}

/// Words 5: a search goes on where a reply ended, with the token of its step, up to its limit.
#[tokio::test]
async fn a_search_takes_page_after_page() {
    let (search, asked) = directory(vec![
        page(&["a", "b"], 1, Some("x")),
        page(&[], 1, Some("y")),
        page(&["c"], 1, Some("z")),
    ]);
    let tool = FindContacts { search };
    assert_eq!(tool.risk(), Risk::Low);
    let args = json!({ "fields": { "stage": "won" }, "tag": "vip", "text": "ada", "limit": 3 });
    let done = tool.call(&call(args)).await.unwrap();
    assert_eq!(done.description, "Contacts found: 3, and there may be more");
    assert_eq!(ids(&done.data), ["a", "b", "c"]);
    assert_eq!(done.data["has_more"], true);
    let asked = asked.lock().unwrap();
    let (workspace, first) = &asked[0];
    assert_eq!(workspace, "default");
    let expected = json!({ "token": "st_secret", "fields": { "stage": "won" }, "tag": "vip", "text": "ada", "limit": 3 });
    assert_eq!(json!(first), expected);
    let next = |place: usize| (asked[place].1.cursor.as_deref(), asked[place].1.limit);
    assert_eq!((next(1), next(2)), ((Some("x"), 1), (Some("y"), 1)));
}

#[tokio::test]
async fn a_result_is_bounded() {
    let (search, asked) = directory(vec![page(&["a"], 1, None)]);
    let done = FindContacts { search }
        .call(&call(json!({ "tag": "x" })))
        .await
        .unwrap();
    assert_eq!(done.data["has_more"], false);
    assert_eq!(asked.lock().unwrap()[0].1.limit, 100);

    let (search, _) = directory(vec![page(&["a", "b", "c", "d"], 60 * 1024, None)]);
    let done = FindContacts { search }
        .call(&call(json!({ "tag": "x" })))
        .await
        .unwrap();
    assert_eq!(
        (ids(&done.data).len(), &done.data["has_more"]),
        (3, &json!(true))
    );

    let empty = std::iter::repeat_with(|| page(&[], 1, Some("x"))).take(100);
    let (search, _) = directory(empty.collect());
    let done = FindContacts { search }
        .call(&call(json!({ "tag": "x" })))
        .await
        .unwrap();
    assert_eq!(done.data, json!({ "contacts": [], "has_more": true }));
}

#[tokio::test]
async fn a_search_that_is_refused_fails_its_step() {
    for (status, code) in [
        (422, "invalid_args"),
        (401, "search_failed"),
        (503, "search_failed"),
    ] {
        let (search, _) = directory(vec![Err(Problem::new(status, "x", "No."))]);
        let failure = failure(&FindContacts { search }, json!({ "tag": "x" })).await;
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            (code, "No.")
        );
    }
    let (search, _) = directory(Vec::new());
    let failure = failure(&FindContacts { search }, json!({ "where": "x" })).await;
    assert_eq!(failure.code, "invalid_args");
}
