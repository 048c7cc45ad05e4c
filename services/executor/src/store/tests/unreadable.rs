//! Rows that cannot be read stop nothing but themselves.

use holdpoint_contracts::executor::ListContacts;
use sea_orm::{ConnectionTrait as _, DatabaseConnection};

use super::samples::{acme, agent, contact, node, run, tool};
use super::{filter, save_all, sqlite};
use crate::domain::{Aggregate, Contact};
use crate::store::{Filter, list_agents, list_contacts, list_nodes, list_runs, list_tools};

async fn spoil(db: &DatabaseConnection, table: &str, column: &str, id: &str) {
    let sql = format!("UPDATE {table} SET state = '{{' WHERE {column} = {id}");
    let spoilt = db.execute_unprepared(&sql).await.unwrap();
    assert_eq!(spoilt.rows_affected(), 1, "{sql}");
}

/// Mend B-2: a page passes over a row that cannot be read, and is as long as it would be without it.
#[tokio::test]
async fn a_page_passes_over_a_row_that_cannot_be_read() {
    let (_dir, db) = sqlite().await;
    let runs = [run(), run(), run()];
    let mut states: Vec<_> = runs.iter().cloned().map(Aggregate::Run).collect();
    states.extend(["a", "b", "c"].map(|id| Aggregate::Contact(contact(id))));
    states.extend(["a", "b", "c"].map(|name| Aggregate::Node(node(name))));
    for name in ["a", "b", "c"] {
        let mut agent = agent();
        agent.name = name.parse().unwrap();
        states.push(Aggregate::Agent(agent));
        let mut tool = tool();
        tool.spec.name = name.parse().unwrap();
        states.push(Aggregate::Tool(tool));
    }
    let states: Vec<_> = states.into_iter().map(|state| (state, 0)).collect();
    assert_eq!(save_all(&db, &states).await, []);
    let workspace = acme();
    let two = Filter {
        limit: 2,
        ..filter(&workspace)
    };
    let newest = list_runs(&db, &two).await.unwrap()[0].id;
    let id = format!("X'{}'", newest.uuid().simple());
    spoil(&db, "runs", "id", &id).await;
    for (table, column) in [
        ("contacts", "id"),
        ("agents", "name"),
        ("tools", "name"),
        ("nodes", "name"),
    ] {
        spoil(&db, table, column, "'a'").await;
    }
    let found = list_runs(&db, &two).await.unwrap();
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|run| run.id != newest));
    let all = ListContacts {
        limit: 2,
        cursor: None,
        email: None,
        message_ids: Vec::new(),
    };
    let found = list_contacts(&db, &workspace, &all).await;
    let ids: Vec<_> = found
        .unwrap()
        .iter()
        .map(|one: &Contact| one.id.to_string())
        .collect();
    assert_eq!(ids, ["b", "c"]);
    let found = list_agents(&db, &workspace, None, 2).await.unwrap();
    assert_eq!(found[0].name.as_str(), "b");
    let found = list_tools(&db, &workspace, None, 2).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(list_nodes(&db, 2).await.unwrap().len(), 2);
}
