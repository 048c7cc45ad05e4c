//! An unreadable row does not stop others.

use sea_orm::ConnectionTrait as _;

use super::{acme, filter, open, request, save_all, sqlite, user};
use crate::domain::Aggregate;
use crate::store::{Filter, list_requests, list_users};

/// Mend B-2: an inbox passes over a request that cannot be read, and a list of users over a user.
#[tokio::test]
async fn a_page_skips_an_unreadable_row() {
    let (_dir, db) = sqlite().await;
    let mut states: Vec<_> = ["ada", "olga"]
        .map(|name| (Aggregate::User(user(name, &["owner"])), 0))
        .into();
    for number in 1..=3 {
        let request = request("acme", number, open());
        states.push((Aggregate::Request(Box::new(request)), 0));
    }
    assert_eq!(save_all(&db, &states).await, []);
    for sql in [
        "UPDATE requests SET state = '{' WHERE id LIKE '%-3'",
        "UPDATE users SET state = '{' WHERE name = 'ada'",
    ] {
        let spoilt = db.execute_unprepared(sql).await.unwrap();
        assert_eq!(spoilt.rows_affected(), 1, "{sql}");
    }
    let workspace = acme();
    let two = Filter {
        limit: 2,
        ..filter(&workspace)
    };
    let found = list_requests(&db, &two).await.unwrap();
    let numbers: Vec<_> = found.iter().map(|request| request.id.number).collect();
    assert_eq!(numbers, [2, 1]);
    let found = list_users(&db, &workspace, None, 2).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name.as_str(), "olga");
}
