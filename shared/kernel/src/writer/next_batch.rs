//! Which tasks the next batch has.
//!
//! A batch may not contain:
//! - an atomic task beside others, because its refusal discards all decisions of the batch;
//! - one idempotency key twice, because the second task is answered from the row of the first;
//! - more than [`BATCH_COMMANDS_MAX`] commands, unless one message alone has more.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::service::Service;
use crate::task::Task;

/// Commands of one batch; one message may bring many.
const BATCH_COMMANDS_MAX: usize = 1_000;

/// Messages taken from the channel at once.
pub(super) const TAKE_MAX: usize = 1_000;

/// Takes further tasks as long as all taken ones may wait. A task that may not wait ends that at once.
pub(super) async fn gather<T>(
    tasks: &mut mpsc::Receiver<T>,
    taken: &mut Vec<T>,
    linger: impl Fn(&T) -> Duration,
) {
    let begun = Instant::now();
    while taken.len() < TAKE_MAX {
        let shortest = taken.iter().map(&linger).min().unwrap_or_default();
        if shortest.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            more = tasks.recv_many(taken, TAKE_MAX) => if more == 0 {
                return;
            },
            () = tokio::time::sleep_until(begun + shortest) => return,
        }
    }
}

/// Takes tasks from the backlog until the next one may not be in the same batch (see the module).
pub(super) fn next_batch<S: Service>(backlog: &mut Vec<Task<S>>) -> Vec<Task<S>> {
    let mut commands = 0;
    let mut keys = HashSet::new();
    let is_alone = backlog.first().is_some_and(|task| task.atomic);
    let end = backlog.iter().enumerate().position(|(place, task)| {
        commands += task.inputs.len();
        let is_separate = place > 0 && (is_alone || task.atomic);
        let key = task.idempotency_key.as_ref().map(|key| key.key.as_str());
        let is_repeated = key.is_some_and(|key| !keys.insert(key));
        is_separate || is_repeated || commands > BATCH_COMMANDS_MAX
    });
    // The first task is always taken, even above the limit.
    let rest = end.map(|place| backlog.split_off(place.max(1)));
    std::mem::replace(backlog, rest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Swift: tasks that may wait are gathered, and one that may not ends the wait at once.
    #[tokio::test]
    async fn tasks_are_gathered_until_one_may_not_wait() {
        const LONG: Duration = Duration::from_secs(3_600);
        const SHORT: Duration = Duration::from_millis(20);
        const NONE: Duration = Duration::ZERO;
        let (send, mut tasks) = mpsc::channel(10);
        for linger in [LONG, LONG, NONE, LONG] {
            send.send(linger).await.unwrap();
        }
        let mut taken = vec![LONG];
        gather(&mut tasks, &mut taken, |task| *task).await;
        assert_eq!(taken, [LONG, LONG, LONG, NONE, LONG]);
        send.send(SHORT).await.unwrap();
        let mut taken = vec![NONE];
        gather(&mut tasks, &mut taken, |task| *task).await;
        assert_eq!(taken, [NONE], "a caller waits for it");
        let begun = Instant::now();
        let mut taken = vec![LONG];
        gather(&mut tasks, &mut taken, |task| *task).await;
        assert_eq!(taken, [LONG, SHORT]);
        assert!(begun.elapsed() >= SHORT);
    }
}
