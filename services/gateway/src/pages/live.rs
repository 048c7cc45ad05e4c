//! Keeps an open page current: changed parts are rendered again and sent as server-sent events, and
//! the script replaces them by their id (S0-R3).
//!
//! A page is rendered after a nudge of a service, and every few seconds in case a nudge was lost. Each
//! part has a key of its data, and a part with a known key is not sent again. A new connection
//! starts with all parts, so it misses nothing.

use std::collections::HashMap;
use std::time::Duration;

use axum::http::Uri;
use axum::response::Response;
use axum::response::sse::Event;
use holdpoint_contracts::Problem;
use holdpoint_ids::{HoldId, RunId};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::fragment::{CardId, Fragment};
use super::session::{PageError, SignedInUser, Viewer, parse_id};
use super::{card, inbox, navigation, notifications, run, runs};
use crate::concurrency::ConcurrencyPermit;
use crate::nudges::{Changes, Topic};
use crate::params::Params;
use crate::sse;

/// Longest time between two renderings, in case a nudge was lost.
const RENDER_MAX_INTERVAL: Duration = Duration::from_secs(5);
/// Shortest time between two renderings, however many nudges arrive.
const RENDER_MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Buffered events for a slow reader.
const EVENTS_MAX: usize = 16;

/// The page that a browser has open.
#[derive(Debug)]
enum OpenPage {
    Inbox(inbox::Filter),
    Request(HoldId),
    Runs(runs::Filter),
    Run(RunId),
    Notifications,
    /// Only the unread count is live: older notifications stay as they were, and so does user input.
    UnreadCount,
}

/// `GET /live?page=/inbox`: the changed parts of that page.
pub(super) async fn stream(
    viewer: Result<Viewer, PageError>,
    params: Params,
) -> Result<Response, PageError> {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    match viewer {
        // A redirect would lead to a page that is not a stream.
        Err(PageError::SignIn(_)) => {
            drop(sender.try_send(Event::default().event("over").data("signed out")));
        }
        Err(error @ PageError::Problem(_)) => return Err(error),
        Ok(viewer) => {
            let page: Option<String> = params.only(&["page"])?.read_as("page")?;
            let page = OpenPage::read(&page.unwrap_or_default(), &viewer)?;
            let streams = &viewer.app.streams;
            let stream = PageStream {
                _permit: streams.take(&viewer.caller.workspace, viewer.name())?,
                viewer,
                page,
                sent: HashMap::new(),
                events: sender,
            };
            let changes = stream.subscribe();
            let tasks = stream.viewer.app.tasks.clone();
            tasks.spawn(stream.run(changes));
        }
    }
    Ok(sse::respond(ReceiverStream::new(receiver)))
}

impl OpenPage {
    fn read(page: &str, user: &SignedInUser) -> Result<Self, Problem> {
        let none = || Problem::not_found("this page has no live updates");
        let uri: Uri = page.parse().map_err(|_no_path| none())?;
        let params = Params::read(&uri)?;
        let path = uri.path().trim_matches('/');
        match path.split_once('/') {
            None if path == "inbox" => Ok(Self::Inbox(inbox::Filter::read(params, user)?)),
            None if path == "notifications" => match notifications::read_cursor(params)? {
                None => Ok(Self::Notifications),
                Some(_) => Ok(Self::UnreadCount),
            },
            None if matches!(path, "settings" | "agents" | "standing-approvals") => {
                Ok(Self::UnreadCount)
            }
            None if path == "runs" => Ok(Self::Runs(runs::Filter::read(params)?)),
            Some(("requests" | "tasks", id)) => {
                let id = id.split('/').next().unwrap_or(id);
                let id = id.strip_prefix("task_").unwrap_or(id);
                Ok(Self::Request(parse_id("request", id)?))
            }
            // The page after its form was posted.
            Some(("settings" | "agents" | "standing-approvals" | "rehearsals", _)) => {
                Ok(Self::UnreadCount)
            }
            Some(("runs", id)) => Ok(Self::Run(parse_id("run", id)?)),
            None | Some(_) => Err(none()),
        }
    }
}

/// The live connection of one open page.
struct PageStream {
    viewer: Viewer,
    page: OpenPage,
    /// The key of each sent part, and its card if it is one.
    sent: HashMap<String, (String, Option<CardId>)>,
    events: mpsc::Sender<Event>,
    _permit: ConcurrencyPermit,
}

impl PageStream {
    /// Runs and requests of the workspace, and notifications of the user.
    fn subscribe(&self) -> [Changes; 2] {
        let (nudges, caller) = (&self.viewer.app.nudges, &self.viewer.caller);
        let (workspace, user) = (caller.workspace.clone(), caller.claims.user.clone());
        [
            Topic::Workspace(workspace.clone()),
            Topic::NotificationsOf(workspace, user),
        ]
        .map(|topic| nudges.subscribe(topic))
    }

    async fn run(mut self, [mut of_workspace, mut of_user]: [Changes; 2]) {
        let closing = self.viewer.app.closing.clone();
        let events = self.events.clone();
        let updates = async {
            while self.update().await {
                tokio::time::sleep(RENDER_MIN_INTERVAL).await;
                tokio::select! {
                    () = of_workspace.next() => {}
                    () = of_user.next() => {}
                    () = tokio::time::sleep(RENDER_MAX_INTERVAL) => {}
                }
            }
        };
        tokio::select! {
            () = updates => {}
            () = events.closed() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Sends the changed parts. Returns false once the stream has ended.
    async fn update(&mut self) -> bool {
        match self.viewer.reload().await {
            Ok(Some(viewer)) => self.viewer = viewer,
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
                tracing::debug!(%problem, "a live page is not updated; it is tried again");
                return problem.is_transient();
            }
        };
        if self.viewer.is_clock_frozen {
            let now = self.viewer.now.timestamp_millis().to_string();
            if !self.send("now", now).await {
                return false;
            }
        }
        for fragment in fragments {
            if let Some((key, card)) = self.sent.get_mut(&fragment.id)
                && *key == fragment.key
            {
                *card = fragment.card;
                continue;
            }
            let html = fragment.html.into_string();
            let entry = (fragment.key, fragment.card);
            self.sent.insert(fragment.id, entry);
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

    /// The current parts, and once more the cards that have left the list.
    async fn fragments(&self) -> Result<Vec<Fragment>, Problem> {
        let viewer = &self.viewer;
        let mut all = match &self.page {
            OpenPage::Inbox(filter) => inbox::fragments(viewer, filter).await?,
            OpenPage::Request(id) => vec![card::fragment(viewer, &viewer.request(*id).await?)],
            OpenPage::Runs(filter) => runs::fragments(viewer, filter).await?,
            OpenPage::Run(id) => run::fragments(viewer, *id).await?,
            OpenPage::Notifications => notifications::fragments(viewer).await?,
            OpenPage::UnreadCount => Vec::new(),
        };
        let unread = navigation::count_unread(viewer).await;
        all.extend(unread.map(|unread| navigation::unread_badge(Some(unread))));
        let listed: Vec<_> = all.iter().filter_map(|part| part.card).collect();
        let sent = self.sent.values().filter_map(|(_, card)| *card);
        for card in sent.filter(|card| !listed.contains(card)) {
            match card {
                CardId::Request(id) => {
                    all.push(card::fragment(viewer, &viewer.request(id).await?));
                }
                CardId::Notification(id) => {
                    all.extend(notifications::unlisted_fragment(viewer, id).await?);
                }
            }
        }
        // A card that has left the list is sent once: it hardly changes any more.
        for part in &mut all {
            part.card = part.card.filter(|card| listed.contains(card));
        }
        Ok(all)
    }
}
