//! What keeps an open page current: parts of it that have changed are rendered again and sent as
//! server-sent events, to be put in by their id.
//!
//! It looks when the owners nudge (S0-R3), and every few seconds in case a nudge was lost. Each part carries
//! a key of what it was made from; a reader that has it already keeps what it has, so that a new
//! connection starts with everything and misses nothing.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use holdpoint_contracts::notification::NotificationNudge;
use holdpoint_contracts::{Problem, executor, handoff, notification, subject};
use holdpoint_ids::{HoldId, NotificationId, RunId};
use maud::Markup;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::session::{PageError, SignedInUser};
use super::{card, inbox, layout, notifications, request, run, runs};
use crate::app::App;
use crate::concurrency::ConcurrencyPermit;
use crate::params::Params;

/// A lost nudge is made up for after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// However many nudges come, the owners are asked no more often than this.
const LOOK_AT_MOST: Duration = Duration::from_millis(100);
/// Events that wait for a slow reader.
const AHEAD: usize = 16;
/// A comment as a sign of life, so that proxies keep the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A part of a page with an id.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) id: String,
    /// Of what it was made from.
    pub(super) key: String,
    pub(super) html: Markup,
    /// Whose card it is: shown once more when it has left its list.
    pub(super) item: Option<Item>,
}

/// What has a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Request(HoldId),
    Notification(NotificationId),
}

impl Fragment {
    /// A part that is no card.
    pub(super) fn of(id: &str, data: &impl Serialize, html: Markup) -> Self {
        Self {
            id: id.to_owned(),
            key: key_of(data),
            html,
            item: None,
        }
    }
}

/// The page that is open.
#[derive(Debug)]
enum Watched {
    Inbox(inbox::Filter),
    Request(HoldId),
    Runs(runs::Filter),
    Run(RunId),
    Notifications,
    /// Nothing of the page: older notifications stay as they were, and what somebody fills in stays.
    Number,
}

/// Short, and other for other data.
pub(super) fn key_of(data: &impl Serialize) -> String {
    let bytes = serde_json::to_vec(data).unwrap_or_default();
    let mut digest = format!("{:x}", Sha256::digest(&bytes));
    digest.truncate(16);
    digest
}

/// `GET /live?page=/inbox`: the parts of that page, whenever they change.
pub(super) async fn stream(
    State(app): State<App>,
    person: Result<SignedInUser, PageError>,
    params: Params,
) -> Result<Response, PageError> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    match person {
        // A redirect would end in a page that is no stream.
        Err(PageError::SignIn(_)) => {
            drop(sender.try_send(Event::default().event("over").data("signed out")));
        }
        Err(error @ PageError::Problem(_)) => return Err(error),
        Ok(person) => {
            let page: Option<String> = params.only(&["page"])?.read_as("page")?;
            let watched = Watched::read(&page.unwrap_or_default(), &person)?;
            let caller = &person.caller;
            let permit = app
                .streams
                .take(&caller.workspace, caller.claims.user.as_str())?;
            let watch = Watch {
                app,
                person,
                watched,
                known: HashMap::new(),
                events: sender,
                _permit: permit,
            };
            let nudges = watch.nudges().await?;
            let tasks = watch.app.tasks.clone();
            tasks.spawn(watch.follow(nudges));
        }
    }
    let events = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let buffering = HeaderName::from_static("x-accel-buffering");
    Ok(([(buffering, "no")], sse).into_response())
}

impl Watched {
    fn read(page: &str, person: &SignedInUser) -> Result<Self, Problem> {
        let none = || Problem::not_found("there is no such page to watch");
        let uri: Uri = page.parse().map_err(|_no_path| none())?;
        let params = Params::read(&uri)?;
        let path = uri.path().trim_matches('/');
        match path.split_once('/') {
            None if path == "inbox" => Ok(Self::Inbox(inbox::Filter::read(params, person)?)),
            None if path == "notifications" => match notifications::cursor(params)? {
                None => Ok(Self::Notifications),
                Some(_) => Ok(Self::Number),
            },
            None if path == "settings" => Ok(Self::Number),
            None if path == "runs" => Ok(Self::Runs(runs::Filter::read(params)?)),
            Some(("requests" | "tasks", id)) => {
                let id = id.split('/').next().unwrap_or(id);
                let id = id.strip_prefix("task_").unwrap_or(id);
                Ok(Self::Request(request::id(id)?))
            }
            // What stands there after a form was sent.
            Some(("settings", _)) => Ok(Self::Number),
            Some(("runs", id)) => Ok(Self::Run(run::id(id)?)),
            None | Some(_) => Err(none()),
        }
    }
}

/// One open page.
struct Watch {
    app: App,
    person: SignedInUser,
    watched: Watched,
    /// Key of each part that was sent, and whose card it is.
    known: HashMap<String, (String, Option<Item>)>,
    events: mpsc::Sender<Event>,
    _permit: ConcurrencyPermit,
}

impl Watch {
    /// Of all owners that a page shows something of; but not that somebody else was told something.
    async fn nudges(
        &self,
    ) -> Result<impl futures_util::Stream<Item = async_nats::Message> + Unpin + use<>, Problem>
    {
        let workspace = &self.person.caller.workspace;
        let mut all = Vec::new();
        for service in [executor::SERVICE, handoff::SERVICE, notification::SERVICE] {
            let subject = subject::live(workspace, service);
            let subscription = self.app.bus.client().subscribe(subject).await;
            all.push(subscription.map_err(|error| {
                tracing::warn!(%error, "no nudges");
                Problem::unavailable("live pages are not possible at the moment; try again")
            })?);
        }
        let theirs = subject::live(workspace, notification::SERVICE);
        let user = self.person.caller.claims.user.clone();
        let concerns = move |message: &async_nats::Message| {
            let nudge = serde_json::from_slice::<NotificationNudge>(&message.payload);
            let is_other = message.subject.as_str() == theirs
                && nudge.is_ok_and(|nudge| !nudge.concerns(&user));
            std::future::ready(!is_other)
        };
        Ok(futures_util::stream::select_all(all).filter(concerns))
    }

    async fn follow(
        mut self,
        mut nudges: impl futures_util::Stream<Item = async_nats::Message> + Unpin,
    ) {
        let closing = self.app.closing.clone();
        let events = self.events.clone();
        let following = async {
            while self.look().await {
                tokio::time::sleep(LOOK_AT_MOST).await;
                drop(tokio::time::timeout(LOOK_AGAIN, nudges.next()).await);
            }
        };
        tokio::select! {
            () = following => {}
            () = events.closed() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Sends what has changed; whether to look again.
    async fn look(&mut self) -> bool {
        match self.person.again(&self.app).await {
            Ok(Some(person)) => self.person = person,
            Ok(None) => {
                let over = Event::default().event("over").data("signed out");
                drop(self.events.send(over).await);
                return false;
            }
            Err(problem) => return problem.is_transient(),
        }
        let fragments = match self.fragments().await {
            Ok(fragments) => fragments,
            Err(problem) => {
                tracing::debug!(%problem, "a live page waits");
                return problem.is_transient();
            }
        };
        if self.person.time_stands {
            let now = self.person.now.timestamp_millis().to_string();
            if !self.send("now", now).await {
                return false;
            }
        }
        for fragment in fragments {
            if let Some((key, item)) = self.known.get_mut(&fragment.id)
                && *key == fragment.key
            {
                *item = fragment.item;
                continue;
            }
            let html = fragment.html.into_string();
            let entry = (fragment.key, fragment.item);
            self.known.insert(fragment.id, entry);
            if !self.send("html", html).await {
                return false;
            }
        }
        true
    }

    async fn send(&self, kind: &str, data: String) -> bool {
        let event = Event::default().event(kind).data(data);
        self.events.send(event).await.is_ok()
    }

    /// The parts as they now are, and the cards that have left the list, once more.
    async fn fragments(&mut self) -> Result<Vec<Fragment>, Problem> {
        let (app, person) = (&self.app, &self.person);
        let mut all = match &self.watched {
            Watched::Inbox(filter) => inbox::fragments(app, person, filter).await?,
            Watched::Request(id) => request::fragments(app, person, *id).await?,
            Watched::Runs(filter) => runs::fragments(app, person, filter).await?,
            Watched::Run(id) => run::fragments(app, person, *id).await?,
            Watched::Notifications => notifications::fragments(app, person).await?,
            Watched::Number => Vec::new(),
        };
        all.extend(layout::unread_fragment(app, person).await);
        let here: Vec<_> = all.iter().filter_map(|one| one.item).collect();
        let left = self.known.values().filter_map(|(_, item)| *item);
        let left: Vec<_> = left.filter(|item| !here.contains(item)).collect();
        for item in left {
            match item {
                Item::Request(id) => {
                    let request = request::get(app, person, id).await?;
                    all.push(card::fragment(person, &request));
                }
                Item::Notification(id) => all.extend(notifications::left(app, person, id).await?),
            }
        }
        // What has ended changes no more, but for what comes late: that is not asked for here.
        for one in &mut all {
            if one.item.is_some_and(|item| !here.contains(&item)) {
                one.item = None;
            }
        }
        Ok(all)
    }
}
