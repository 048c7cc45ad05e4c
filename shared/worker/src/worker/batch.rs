//! Requests in batches: what is there goes out together, without waiting for more.
//!
//! Owns sizes and number of requests under way. While all of them are under way the next batch
//! grows, so that load makes batches and an idle worker waits for nothing. It must never look into
//! what it carries.

use holdpoint_ids::Workspace;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Most items of one request.
pub(super) const ITEMS_MAX: usize = 64;

/// Most bytes of one request, for items that fit at all.
const BYTES_MAX: usize = 512 * 1024;

/// Requests under way at which the next batch waits.
const UNDER_WAY_MAX: usize = 4;

/// One thing to be sent.
pub(super) struct Item<T> {
    pub(super) workspace: Workspace,
    /// About its length as JSON.
    pub(super) bytes: usize,
    pub(super) body: T,
}

/// Hands batches to `send` until all senders are gone and the last batch is through.
pub(super) async fn drive<T, F, S>(mut items: mpsc::Receiver<Item<T>>, send: F)
where
    F: Fn(Workspace, Vec<T>) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let mut under_way = JoinSet::new();
    let mut taken = Vec::with_capacity(ITEMS_MAX);
    while items.recv_many(&mut taken, ITEMS_MAX).await > 0 {
        for (workspace, batch) in parts(taken.drain(..)) {
            under_way.spawn(send(workspace, batch));
        }
        while under_way.len() >= UNDER_WAY_MAX || under_way.try_join_next().is_some() {
            if under_way.len() >= UNDER_WAY_MAX {
                under_way.join_next().await;
            }
        }
    }
    while under_way.join_next().await.is_some() {}
}

/// Splits by workspace, and where one request would grow too large.
fn parts<T>(items: impl Iterator<Item = Item<T>>) -> Vec<(Workspace, Vec<T>)> {
    let mut parts: Vec<(Workspace, usize, Vec<T>)> = Vec::new();
    for item in items {
        // The newest part of a workspace is the one with room.
        let open = parts.iter_mut().rev().find(|part| part.0 == item.workspace);
        match open {
            Some((_, bytes, batch)) if *bytes + item.bytes <= BYTES_MAX => {
                *bytes += item.bytes;
                batch.push(item.body);
            }
            Some(_) | None => parts.push((item.workspace, item.bytes, vec![item.body])),
        }
    }
    parts
        .into_iter()
        .map(|(workspace, _, batch)| (workspace, batch))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(workspace: &str, bytes: usize, body: u32) -> Item<u32> {
        Item {
            workspace: workspace.parse().unwrap(),
            bytes,
            body,
        }
    }

    #[test]
    fn a_request_is_of_one_workspace_and_never_too_large() {
        let items = [
            item("a", BYTES_MAX - 1, 1),
            item("b", 1, 2),
            item("a", 1, 3),
            item("a", 1, 4),
            item("b", 1, 5),
        ];
        let parts: Vec<_> = parts(items.into_iter())
            .into_iter()
            .map(|(workspace, batch)| (workspace.to_string(), batch))
            .collect();
        let expected = [("a", vec![1, 3]), ("b", vec![2, 5]), ("a", vec![4])];
        assert_eq!(
            parts,
            expected.map(|(name, batch)| (name.to_owned(), batch))
        );
    }
}
