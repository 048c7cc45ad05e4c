//! Watching a request, a run or an agent, and the run ends that watchers and webhooks need.

use holdpoint_contracts::Problem;
use holdpoint_contracts::executor::{RunEndsOf, WatchRunEnds};
use holdpoint_contracts::message::IdempotencyKey;
use holdpoint_contracts::notification::{Watch, WatchAdded, Watched};

use crate::app::App;
use crate::auth::caller::Caller;

/// Subscribes the caller. The executor is asked for run ends first, so that no end falls between. It is asked
/// again for an agent without earlier watchers: until then the notification service may have told it that no
/// user watches the agent.
///
/// # Errors
/// 404 of the service that owns the subject, if that does not exist.
pub(crate) async fn watch(
    app: &App,
    caller: &Caller,
    key: Option<IdempotencyKey>,
    of: Watched,
) -> Result<WatchAdded, Problem> {
    match &of {
        Watched::Request(id) => drop(app.request(caller, *id).await?),
        Watched::Run(_) | Watched::Agent(_) => {
            watch_run_ends(app, caller, of.clone().into()).await?;
        }
    }
    let added = app.ask(caller, key, Watch { of: of.clone() }).await?;
    if let Watched::Agent(name) = &of
        && added.new
        && let Err(problem) = watch_run_ends(app, caller, of.clone().into()).await
    {
        tracing::info!(%problem, agent = %name, "the executor does not report run ends yet; the notification service will ask for them");
    }
    Ok(added)
}

/// Asks the executor to report run ends from its commit of this on.
pub(crate) async fn watch_run_ends(
    app: &App,
    caller: &Caller,
    of: RunEndsOf,
) -> Result<(), Problem> {
    let command = WatchRunEnds { of: vec![of] };
    for reply in app.ask(caller, None, command).await? {
        Result::from(reply)?;
    }
    Ok(())
}
