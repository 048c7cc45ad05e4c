//! The only place where a test may sleep: in short steps until a condition holds, with a deadline.

use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, sleep};

/// The first steps are short, because many conditions hold soon.
const FIRST_STEP: Duration = Duration::from_millis(10);
const LONGEST_STEP: Duration = Duration::from_millis(200);

/// Calls `probe` until it returns a value, at most for `deadline`. The error is "waited 5s for `what`".
///
/// # Errors
/// When the deadline has passed.
pub async fn until<T>(
    deadline: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let end = Instant::now() + deadline;
    let mut step = FIRST_STEP;
    loop {
        if let Some(answer) = probe().await {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("waited {deadline:?} for {what}");
        }
        sleep(step.min(end.saturating_duration_since(Instant::now()))).await;
        step = (step * 2).min(LONGEST_STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_the_value_of_the_probe() {
        let mut asked = 0;
        let third = async || {
            asked += 1;
            (asked == 3).then_some(asked)
        };
        assert_eq!(
            until(Duration::from_secs(5), "three", third).await.unwrap(),
            3
        );
    }

    #[tokio::test]
    async fn waiting_ends_at_the_deadline_with_an_error() {
        let never = async || None::<()>;
        let error = until(Duration::from_millis(30), "nothing", never)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "waited 30ms for nothing");
    }
}
