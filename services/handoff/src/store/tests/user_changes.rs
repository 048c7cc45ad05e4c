//! Changes of users, from which other services copy their user directory.

use holdpoint_contracts::handoff::UserChange;

use super::*;

pub(super) async fn user_changes_are_numbered(db: &DatabaseConnection) {
    let changed = |name: &str| Effect::UserChanged(acme(), user(name, &[]).view());
    for names in [["a", "b"], ["c", "d"]] {
        let tx = begin_write(db).await.unwrap();
        handoff()
            .record(&tx, &names.map(changed), now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        // A transaction that is rolled back leaves no gap.
        let tx = begin_write(db).await.unwrap();
        handoff().record(&tx, &[changed("x")], now()).await.unwrap();
        tx.rollback().await.unwrap();
    }
    assert_eq!(numbered(db).await, ["1 a", "2 b", "3 c", "4 d"]);
    assert_eq!(list_user_changes(db, 3, 500).await.unwrap().len(), 1);
    assert_eq!(list_user_changes(db, 0, 2).await.unwrap().len(), 2);
    // A newer change of a user deletes the older one, so that the table does not grow with changes.
    let tx = begin_write(db).await.unwrap();
    let again = [changed("b"), changed("a")];
    handoff().record(&tx, &again, now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(numbered(db).await, ["3 c", "4 d", "5 b", "6 a"]);
    assert_eq!(list_user_changes(db, 4, 500).await.unwrap().len(), 2);
}

/// The number and the user of every stored change.
async fn numbered(db: &DatabaseConnection) -> Vec<String> {
    let changes = list_user_changes(db, 0, 500).await.unwrap();
    let text = |change: &UserChange| format!("{} {}", change.seq, change.user.name);
    changes.iter().map(text).collect()
}
