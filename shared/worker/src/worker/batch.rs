//! Sends requests in batches, without waiting for a batch to fill.
//!
//! Owns size and number of concurrent requests. While the number is at its limit the next batch grows, so that
//! load makes batches and an idle worker does not wait. It must never read the items.

use holdpoint_ids::Workspace;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// Items of one request at most.
const ITEMS_MAX: usize = 64;

/// Bytes of one request at most, except for a single item above it.
const BYTES_MAX: usize = 512 * 1024;

/// Items that wait for the next request. Beyond it senders wait, and tools keep their slots.
const WAITING_MAX: usize = 256;

/// Concurrent requests. At this number the next batch waits.
const CONCURRENT_MAX: usize = 4;

pub(super) struct Item<T> {
    pub(super) workspace: Workspace,
    /// Approximate length as JSON.
    pub(super) bytes: usize,
    pub(super) body: T,
}

/// The sender of items, and the task that passes batches to `send` until all senders are dropped and the last
/// request has ended.
pub(super) fn start<T, F, S>(send: F) -> (mpsc::Sender<Item<T>>, AbortOnDropHandle<()>)
where
    T: Send + 'static,
    F: Fn(Workspace, Vec<T>) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let (sender, items) = mpsc::channel(WAITING_MAX);
    let task = tokio::spawn(send_batches(items, send));
    (sender, AbortOnDropHandle::new(task))
}

async fn send_batches<T, F, S>(mut items: mpsc::Receiver<Item<T>>, send: F)
where
    F: Fn(Workspace, Vec<T>) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let mut requests = JoinSet::new();
    let mut taken = Vec::with_capacity(ITEMS_MAX);
    while items.recv_many(&mut taken, ITEMS_MAX).await > 0 {
        for (workspace, batch) in split(taken.drain(..)) {
            requests.spawn(send(workspace, batch));
        }
        while requests.len() >= CONCURRENT_MAX || requests.try_join_next().is_some() {
            if requests.len() >= CONCURRENT_MAX {
                requests.join_next().await;
            }
        }
    }
    while requests.join_next().await.is_some() {}
}

/// Splits items by workspace and size.
fn split<T>(items: impl Iterator<Item = Item<T>>) -> Vec<(Workspace, Vec<T>)> {
    let mut parts: Vec<(Workspace, usize, Vec<T>)> = Vec::new();
    for item in items {
        // Only the newest part of a workspace has room.
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
    fn a_request_has_one_workspace_and_is_never_too_large() {
        let items = [
            item("a", BYTES_MAX - 1, 1),
            item("b", 1, 2),
            item("a", 1, 3),
            item("a", 1, 4),
            item("b", 1, 5),
        ];
        let parts: Vec<_> = split(items.into_iter())
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
