//! The order of pages, which cursors in Rust rely on.

use holdpoint_store::Location;

use super::samples::{acme, run};
use super::{prepared, save_all};
use crate::domain::{Aggregate, Run};
use crate::store::open_runs;

/// B-4: a database that orders words (`crm_sync` before `crm2`) still pages in the order of cursors.
#[tokio::test]
async fn pages_are_in_the_order_of_their_cursors_whatever_the_collation() {
    let Some(postgres) = holdpoint_testkit::postgres_ordered_by_words()
        .await
        .unwrap()
    else {
        return;
    };
    let db = prepared(&Location::Postgres {
        url: postgres.url.clone(),
        schema: "ordered".to_owned(),
    })
    .await;
    let names = ["crm_sync", "crm2", "Zoe", "ada", "a-b", "a.b"];
    let mut states = Vec::new();
    for name in names {
        for _ in 0..3 {
            let agent = name.parse().unwrap();
            states.push((Aggregate::Run(Run { agent, ..run() }), 0));
        }
    }
    assert!(save_all(&db, &states).await.is_empty());
    let (mut after, mut seen) = (None, 0);
    loop {
        let page = open_runs(&db, (&acme(), None), after.as_ref(), 4)
            .await
            .unwrap();
        let Some(last) = page.last().cloned() else {
            break;
        };
        assert!(
            page.is_sorted() && Some(&page[0]) > after.as_ref(),
            "{page:?}"
        );
        seen += page.len();
        after = Some(last);
    }
    assert_eq!(seen, states.len());
}
