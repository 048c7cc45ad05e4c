//! An inbox entry as its person sees it.

use holdpoint_contracts::handoff::RequestView;
use holdpoint_contracts::hold::Priority;
use holdpoint_contracts::notification::{
    ContactEventKind, NotificationType, NotificationView, RequestEvent, RequestEventKind,
};
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::{HoldId, RunId};

use super::contact_text::{contact_message, contact_title};
use super::notification_text::{
    is_due_task, is_task, mention_message, mention_title, request_end_message, request_end_summary,
    request_end_title, request_title, run_end_message, run_end_title, watcher_title,
};
use crate::domain::model::{InboxEntry, Subject};

/// The view of an entry. `None`: people are not notified of its event.
#[must_use]
pub fn view(entry: &InboxEntry) -> Option<NotificationView> {
    let event = &*entry.event;
    let blank = |run: Option<RunId>, kind| {
        let link = run.map_or_else(|| "/".to_owned(), |run| format!("/runs/{run}"));
        NotificationView {
            id: event.id(),
            kind,
            title: String::new(),
            message: String::new(),
            priority: event.priority(),
            action_url: link.clone(),
            link,
            run,
            request: None,
            contact: None,
            at: event.at(),
            read_at: entry.read_at,
            decided: None,
            ended: None,
        }
    };
    Some(match &event.subject {
        Subject::Request { event: request, .. } => {
            let view = NotificationView {
                decided: entry.request_end.clone(),
                ..request_view(request, blank(request.request.run, type_of(request)?))
            };
            if request.kind == RequestEventKind::Mentioned {
                mention_view(request, view)
            } else if entry.watching {
                watcher_view(request, view)
            } else {
                view
            }
        }
        Subject::RunEnd(end) => NotificationView {
            title: run_end_title(end),
            message: run_end_message(end),
            ended: Some(end.shown()),
            ..blank(Some(end.run), NotificationType::WorkflowComplete)
        },
        Subject::Contact {
            event: of, is_last, ..
        } => {
            // Contacts have no page. The id in the link also finds the digests that an erasure has to delete.
            let link = format!("/notifications#{}", event.id());
            NotificationView {
                title: contact_title(of),
                message: contact_message(of, *is_last),
                contact: Some(of.contact.clone()),
                action_url: link.clone(),
                link,
                ..blank(None, contact_type(of.kind)?)
            }
        }
        Subject::System(notice) => NotificationView {
            title: notice.title.clone(),
            message: notice.message.clone(),
            ..blank(None, NotificationType::System)
        },
    })
}

fn request_view(event: &RequestEvent, blank: NotificationView) -> NotificationView {
    let request = &event.request;
    NotificationView {
        title: request_end_title(event).unwrap_or_else(|| request_title(event)),
        message: request_end_message(event).unwrap_or_else(|| request.question.clone()),
        action_url: action_url(request),
        link: link(request.id),
        request: Some(request.id),
        ..blank
    }
}

/// The entry of a person who has it only because they watch. It asks nothing of them, and hides what only
/// the people of the request may see.
fn watcher_view(event: &RequestEvent, view: NotificationView) -> NotificationView {
    NotificationView {
        kind: NotificationType::Custom,
        title: watcher_title(event),
        message: request_end_summary(event).unwrap_or_else(|| event.request.question.clone()),
        priority: Priority::Normal,
        action_url: view.link.clone(),
        ..view
    }
}

/// The entry of a person whose name is in a text about the request. It quotes no text, because only the request knows
/// who may see it.
fn mention_view(event: &RequestEvent, view: NotificationView) -> NotificationView {
    NotificationView {
        title: mention_title(event),
        message: mention_message(event),
        priority: Priority::Normal,
        action_url: view.link.clone(),
        ..view
    }
}

/// `None`: people are not notified of an erasure.
const fn contact_type(kind: ContactEventKind) -> Option<NotificationType> {
    match kind {
        ContactEventKind::NewLead => Some(NotificationType::NewLead),
        ContactEventKind::DealWon => Some(NotificationType::DealWon),
        ContactEventKind::DealLost => Some(NotificationType::DealLost),
        ContactEventKind::ContactErased => None,
    }
}

/// The type that people see. `None`: people are not notified, or see the event only on earlier notifications.
#[must_use]
pub(crate) fn type_of(event: &RequestEvent) -> Option<NotificationType> {
    let asked = match event.request.kind {
        HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => return None,
        HoldKind::Approval => NotificationType::ApprovalRequested,
        HoldKind::Input => NotificationType::InputRequested,
        // A step has created a task, and its run goes on.
        HoldKind::Handoff if is_task(event) => NotificationType::TaskAssigned,
        HoldKind::Handoff => NotificationType::AgentHandoff,
    };
    match event.kind {
        RequestEventKind::Opened => Some(asked),
        RequestEventKind::Assigned if event.request.kind == HoldKind::Handoff => Some(asked),
        RequestEventKind::Assigned => Some(NotificationType::TaskAssigned),
        RequestEventKind::Escalated if is_due_task(event) => Some(NotificationType::TaskDue),
        RequestEventKind::Escalated => Some(NotificationType::Escalation),
        RequestEventKind::TakenOver => None,
        RequestEventKind::Mentioned => Some(NotificationType::Mention),
        RequestEventKind::Decided | RequestEventKind::Expired | RequestEventKind::Withdrawn => {
            Some(NotificationType::Custom)
        }
    }
}

/// The types of request events that leave the application (S0-T4); the others wait in the inbox.
#[must_use]
pub const fn asks_a_person(kind: NotificationType) -> bool {
    match kind {
        NotificationType::ApprovalRequested
        | NotificationType::InputRequested
        | NotificationType::AgentHandoff
        | NotificationType::Escalation
        | NotificationType::Mention
        | NotificationType::TaskDue
        | NotificationType::TaskAssigned => true,
        NotificationType::DealWon
        | NotificationType::DealLost
        | NotificationType::NewLead
        | NotificationType::WorkflowComplete
        | NotificationType::System
        | NotificationType::Custom => false,
    }
}

/// The page where a person acts on a request, below the address of the installation (S0-T4).
#[must_use]
pub(crate) fn action_url(request: &RequestView) -> String {
    let action = match request.kind {
        HoldKind::Handoff => "handoff",
        HoldKind::Approval => "approve",
        HoldKind::Input | HoldKind::Timer | HoldKind::Signal | HoldKind::ChildRun => "respond",
    };
    let own = request.id.to_string();
    let task = request.task.as_ref().map_or(&own, |task| &task.id);
    format!("/tasks/{task}?action={action}")
}

/// The page of a request, below the address of the installation.
#[must_use]
pub fn link(id: HoldId) -> String {
    format!("/requests/{id}")
}
