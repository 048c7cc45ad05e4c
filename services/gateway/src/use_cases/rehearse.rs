//! A rehearsal that is kept: the first contact at once, so that a wrong agent or script is refused, and the others in
//! the background. The pages, the API and the command line start it here.

use std::time::Duration;

use holdpoint_auth::Right;
use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{
    ListPolicies, ListStandingApprovals, PolicyView, StandingApprovalView,
};
use holdpoint_contracts::rehearsal::{
    CONTACTS_MAX, REPLY_SECONDS_MAX, Rehearsal, RehearsalContact, RehearsalStatus, RehearseAgent,
    RehearsedRun, SCRIPT_BYTES_MAX, STORED_BYTES_MAX, STORED_CONTACTS_MAX, STORED_SECONDS_MAX,
    StoredRehearsal, check_contacts,
};
use holdpoint_contracts::run::Page;
use holdpoint_contracts::size::json_bytes;
use holdpoint_ids::Workspace;
use holdpoint_store::StoreError;
use tokio::time::Instant;

use crate::app::App;
use crate::auth::caller::Caller;
use crate::concurrency::ConcurrencyPermit;
use crate::problem::database_away;
use crate::store::rehearsals::{self, Erasures, INTERRUPTED, NewRehearsal, RehearsalId, RunsPage};

const REPLY_WITHIN: Duration = Duration::from_secs(REPLY_SECONDS_MAX);

/// Most bytes of the contacts of one request to an executor. The bus takes 1 MiB, with the agent and the script.
const REQUEST_BYTES_MAX: usize = 512 * 1024;

/// Most standing approvals of a rehearsal: as many as a workspace has that are neither expired nor revoked.
const STANDING_APPROVALS_MAX: u64 = 200;

/// Most bytes of their JSON. People are asked about the calls of those after them.
const STANDING_APPROVALS_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of the policies of one request. The policies after them count as unknown.
const POLICIES_BYTES_MAX: usize = 128 * 1024;

/// Longest time of a page of runs in the background. Other callers of the executor come between two pages.
const PAGE_SECONDS: u64 = 2;

/// Pause while the executor is unavailable or rehearses for others.
const PAUSE: Duration = Duration::from_secs(1);

/// A rehearsal to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) request: RehearseAgent,
    /// Before the contacts were read.
    pub(crate) erasures: Erasures,
    /// It ends with the rehearsal.
    pub(crate) permit: ConcurrencyPermit,
}

/// Starts a rehearsal.
///
/// # Errors
/// As for `POST /agents/rehearse`; 409 if a contact was erased since.
pub(crate) async fn start(
    app: &App,
    caller: &Caller,
    start: Start,
) -> Result<RehearsalId, Problem> {
    let mut request = start.request;
    check_contacts(&request.contacts, STORED_CONTACTS_MAX)?;
    check_script(request.script.as_deref().unwrap_or_default())?;
    add_handoff_facts(app, &caller.workspace, &mut request).await?;
    let ends_at = Instant::now() + Duration::from_secs(STORED_SECONDS_MAX);
    let contacts = std::mem::take(&mut request.contacts);
    request.contacts.extend(contacts.first().cloned());
    let workspace = &caller.workspace;
    let first = app.bus.query_within(workspace, &request, REPLY_WITHIN);
    let first: Rehearsal = first.await?;
    // All runs start at the same instant, and those of a stored agent are of one version.
    request.start_at = Some(first.started_at);
    request.version = first.version;
    request.seconds = Some(PAGE_SECONDS);
    let new = NewRehearsal {
        workspace,
        created_by: &caller.claims.user,
        contacts: contacts.len() as u64,
        first: &first,
        erasures: start.erasures,
        now: app.clock.now(),
    };
    count_uses(&mut request.standing_approvals, &first.runs);
    let id = rehearsals::add(&app.writer, &new).await;
    let Some(id) = id.map_err(database_away)? else {
        let detail = "a contact was erased since the rehearsal began; start it again";
        return Err(Problem::new(409, "contact_erased", detail));
    };
    let task = RunningRehearsal {
        app: app.clone(),
        workspace: workspace.clone(),
        id,
        request,
        place: first.runs.len(),
        bytes: bytes_of(&first.runs),
        ends_at,
    };
    app.tasks.spawn(task.run(contacts, start.permit));
    Ok(id)
}

/// Adds the policies and the standing approvals of the workspace. Only the handoff service has them.
///
/// # Errors
/// 422 if the caller gives some; 503 without the handoff service.
pub(crate) async fn add_handoff_facts(
    app: &App,
    workspace: &Workspace,
    request: &mut RehearseAgent,
) -> Result<(), Problem> {
    add_policies(app, workspace, request).await?;
    if !request.standing_approvals.is_empty() {
        let detail = "unknown field `standing_approvals`: a rehearsal uses those of the workspace";
        return Err(Problem::invalid_body(detail));
    }
    let query = ListStandingApprovals {
        limit: STANDING_APPROVALS_MAX,
        agent: None,
        tool: None,
        lasting: true,
        cursor: None,
    };
    let all: Page<StandingApprovalView> = app.bus.query(workspace, &query).await?;
    let mut bytes = 0_usize;
    let fitting = all.items.into_iter().take_while(|approval| {
        bytes = bytes.saturating_add(json_bytes(approval));
        bytes <= STANDING_APPROVALS_BYTES_MAX
    });
    request.standing_approvals = fitting.collect();
    Ok(())
}

/// Counts what runs have used, so that the contacts after them find less.
fn count_uses(approvals: &mut [StandingApprovalView], runs: &[RehearsedRun]) {
    for approval in approvals {
        let uses = runs
            .iter()
            .filter_map(|run| run.standing_approvals.get(&approval.id));
        approval.used = approval.used.saturating_add(uses.sum());
    }
}

/// Adds the policies that the agent may name.
async fn add_policies(
    app: &App,
    workspace: &Workspace,
    request: &mut RehearseAgent,
) -> Result<(), Problem> {
    if !request.policies.is_empty() {
        let detail = "unknown field `policies`: a rehearsal uses those of the workspace";
        return Err(Problem::invalid_body(detail));
    }
    if request.agent.is_none() && !names_in(request, "policy") {
        return Ok(());
    }
    let all: Page<PolicyView> = app.bus.query(workspace, &ListPolicies {}).await?;
    let may_be_named = |policy: &PolicyView| {
        !policy.built_in && (request.agent.is_some() || names_in(request, policy.name.as_str()))
    };
    let mut bytes = 0_usize;
    let named = all.items.into_iter().filter(may_be_named);
    let policies = named.take_while(|policy| {
        bytes = bytes.saturating_add(json_bytes(policy));
        bytes <= POLICIES_BYTES_MAX
    });
    request.policies = policies.collect();
    Ok(())
}

/// Whether the agent or the plan of its planner, which the script has, contains a text.
fn names_in(request: &RehearseAgent, text: &str) -> bool {
    let mut all = request.text.iter().chain(&request.script);
    all.any(|part| part.contains(text))
}

fn check_script(script: &str) -> Result<(), Problem> {
    if script.len() > SCRIPT_BYTES_MAX {
        let detail = format!("the script is too long; expected at most {SCRIPT_BYTES_MAX} bytes");
        return Err(Problem::new(422, "invalid_script", detail));
    }
    Ok(())
}

fn bytes_of(runs: &[RehearsedRun]) -> usize {
    runs.iter().map(json_bytes).sum()
}

/// A rehearsal in the background.
struct RunningRehearsal {
    app: App,
    workspace: Workspace,
    id: RehearsalId,
    /// Without contacts.
    request: RehearseAgent,
    /// Contacts that were rehearsed.
    place: usize,
    /// Bytes of their runs.
    bytes: usize,
    ends_at: Instant,
}

/// How a rehearsal ended. None: another writer has ended it.
type End = Option<(RehearsalStatus, Option<String>)>;

impl RunningRehearsal {
    async fn run(mut self, contacts: Vec<RehearsalContact>, permit: ConcurrencyPermit) {
        let closing = self.app.closing.clone();
        let end = match closing.run_until_cancelled(self.rehearse(&contacts)).await {
            Some(Ok(end)) => end,
            Some(Err(error)) => {
                tracing::error!(%error, id = %self.id, "runs of a rehearsal not stored; it ends");
                Some((RehearsalStatus::Interrupted, Some(INTERRUPTED.to_owned())))
            }
            None => Some((RehearsalStatus::Interrupted, Some(INTERRUPTED.to_owned()))),
        };
        // A caller who waits for the end may start the next one.
        drop(permit);
        if let Some((status, detail)) = end {
            let (writer, now) = (&self.app.writer, self.app.clock.now());
            // If it fails, the rehearsal is marked as interrupted after a while.
            if let Err(error) =
                rehearsals::end(writer, self.id, status, detail.as_deref(), now).await
            {
                tracing::error!(%error, id = %self.id, "end of a rehearsal not stored");
            }
        }
        self.app.rehearsal_ended.notify_waiters();
    }

    async fn rehearse(&mut self, contacts: &[RehearsalContact]) -> Result<End, StoreError> {
        while let Some(left @ [_, ..]) = contacts.get(self.place..) {
            if let Some(detail) = limit_reached(Instant::now(), self.ends_at, self.bytes) {
                return Ok(Some((RehearsalStatus::Limited, Some(detail))));
            }
            let request = RehearseAgent {
                contacts: next_page(left).to_vec(),
                ..self.request.clone()
            };
            let bus = &self.app.bus;
            let reply = bus.query_within(&self.workspace, &request, REPLY_WITHIN);
            let runs = match reply.await {
                Ok(rehearsal) => rehearsal.runs,
                Err(problem) if problem.is_transient() => {
                    tokio::time::sleep(PAUSE).await;
                    Vec::new()
                }
                Err(problem) => {
                    // A place instead of an id: the detail stays when a contact is erased.
                    let place = self.place.saturating_add(1);
                    let detail = format!("contact number {place}: {}", problem.detail);
                    return Ok(Some((RehearsalStatus::Failed, Some(detail))));
                }
            };
            // A contact that takes longer than a page gets the longest time of a request.
            self.request.seconds = (!runs.is_empty()).then_some(PAGE_SECONDS);
            count_uses(&mut self.request.standing_approvals, &runs);
            self.bytes = self.bytes.saturating_add(bytes_of(&runs));
            if self.bytes > STORED_BYTES_MAX {
                // Its pages before this one are kept.
                continue;
            }
            // Without runs it notes that this gateway still works on it.
            let page = RunsPage {
                workspace: &self.workspace,
                rehearsal: self.id,
                place: self.place as u64,
                runs: &runs,
            };
            let now = self.app.clock.now();
            if !rehearsals::append(&self.app.writer, &page, now).await? {
                return Ok(None);
            }
            self.place = self.place.saturating_add(runs.len());
        }
        Ok(Some((RehearsalStatus::Completed, None)))
    }
}

/// The limit that ends a rehearsal before its last contact.
fn limit_reached(now: Instant, ends_at: Instant, bytes: usize) -> Option<String> {
    if bytes > STORED_BYTES_MAX {
        return Some(format!("its runs have more than {STORED_BYTES_MAX} bytes"));
    }
    (now >= ends_at).then(|| format!("it has reached its limit of {STORED_SECONDS_MAX} seconds"))
}

/// The first contacts that fit into one request; at least one.
fn next_page(left: &[RehearsalContact]) -> &[RehearsalContact] {
    let mut bytes = 0_usize;
    let fitting = left.iter().take(CONTACTS_MAX).take_while(|contact| {
        bytes = bytes.saturating_add(json_bytes(contact));
        bytes <= REQUEST_BYTES_MAX
    });
    left.get(..fitting.count().max(1)).unwrap_or(left)
}

/// Who may cancel and delete a rehearsal: its creator and operators.
///
/// # Errors
/// 403 for others.
pub(crate) fn require_creator(caller: &Caller, rehearsal: &StoredRehearsal) -> Result<(), Problem> {
    if rehearsal.created_by == caller.claims.user {
        return Ok(());
    }
    caller.may(Right::Operate)
}

/// Ends a rehearsal, if it runs. The runs that it has are kept.
pub(crate) async fn cancel(app: &App, id: RehearsalId) -> Result<(), Problem> {
    let (status, now) = (RehearsalStatus::Cancelled, app.clock.now());
    let detail = Some("a person has cancelled it");
    let cancelled = rehearsals::end(&app.writer, id, status, detail, now).await;
    cancelled.map_err(database_away)?;
    app.rehearsal_ended.notify_waiters();
    Ok(())
}

/// Deletes a rehearsal. Returns whether it was there.
pub(crate) async fn remove(
    app: &App,
    workspace: &Workspace,
    id: RehearsalId,
) -> Result<bool, Problem> {
    let removed = rehearsals::remove(&app.writer, workspace, id).await;
    app.rehearsal_ended.notify_waiters();
    removed.map_err(database_away)
}

/// Waits until a rehearsal of this gateway has ended, at most until a deadline. One of another gateway is read each
/// second.
pub(crate) async fn await_end(
    app: &App,
    workspace: &Workspace,
    id: RehearsalId,
    deadline: Instant,
) -> Result<Option<rehearsals::Found>, Problem> {
    loop {
        let ended = app.rehearsal_ended.notified();
        let found = app.kept_rehearsals(workspace).find(id).await;
        let found = found.map_err(database_away)?;
        let runs = found.as_ref().is_some_and(|it| !it.rehearsal.has_ended());
        if !runs || Instant::now() >= deadline || app.closing.is_cancelled() {
            return Ok(found);
        }
        let latest = deadline.min(Instant::now() + PAUSE);
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep_until(latest) => {}
            () = app.closing.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contacts of a later page find what those before them have left.
    #[test]
    fn uses_of_standing_approvals_are_carried_to_the_next_page() {
        let approval = |id: &str| {
            serde_json::json!({
                "id": id, "status": "active", "agent": "a", "tool": "t", "version": null,
                "args_schema": true, "max_uses": 9, "used": 1, "reason": null, "created_by": "eva",
                "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-02-01T00:00:00Z",
                "revoked_by": null,
            })
        };
        let ids = [1, 2].map(|number| format!("sa_0192000000007000800000000000000{number}"));
        let approvals = ids
            .iter()
            .map(|id| serde_json::from_value(approval(id)).unwrap());
        let mut approvals: Vec<StandingApprovalView> = approvals.collect();
        let run = |uses: u32| {
            let run = serde_json::json!({
                "contact": "ada", "status": "completed", "message": "", "ended_at": null,
                "steps_reached": [], "standing_approvals": { ids[0].clone(): uses }, "timeline": [],
            });
            serde_json::from_value::<RehearsedRun>(run).unwrap()
        };
        count_uses(&mut approvals, &[run(2), run(3)]);
        assert_eq!([approvals[0].used, approvals[1].used], [6, 1]);
    }

    /// Words 6: 60 seconds and 8 MiB.
    #[test]
    fn time_and_size_limit_a_rehearsal() {
        let start = Instant::now();
        let ends_at = start + Duration::from_secs(STORED_SECONDS_MAX);
        let size = 8 * 1024 * 1024;
        assert_eq!(limit_reached(start, ends_at, size), None);
        let detail = "it has reached its limit of 60 seconds".to_owned();
        assert_eq!(limit_reached(ends_at, ends_at, size), Some(detail));
        let detail = format!("its runs have more than {size} bytes");
        assert_eq!(limit_reached(start, ends_at, size + 1), Some(detail));
    }
}
