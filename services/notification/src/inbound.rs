//! Commands to inputs: translation only.

use chrono::{DateTime, Utc};
use holdpoint_auth::{Right, Trust, WebhookSecret, authorize};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, Preferences, PutPreferences, ReadNotification, ReadNotifications,
    RecordContactEvents, RecordRequestEvents, RecordRunEnds, RemoveWebhook, RunEnded,
    ShowWebhookSecret, Unwatch, Watch,
};
use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_contracts::subject::Parts;
use holdpoint_contracts::value_limits::check_message;
use holdpoint_egress::EgressPolicy;
use holdpoint_ids::UserName;
use holdpoint_kernel::DecodedCommand;
use url::Url;

use crate::domain::{DeliveryRules, Input, Webhook, WebhookConfig, WebhookState, check_webhook};

/// Events of one message; a message with more is refused whole.
const EVENTS_MAX: usize = 1_000;

pub(crate) struct Reader<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) trust: &'a Trust,
    /// The addresses that may be called.
    pub(crate) targets: EgressPolicy,
    /// When the command came.
    pub(crate) now: DateTime<Utc>,
}

impl Reader<'_> {
    pub(crate) fn decode(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let workspace = self.parts.workspace.clone();
        match self.parts.verb.as_str() {
            RecordRequestEvents::VERB => self.request_events(read(body)?),
            RecordRunEnds::VERB => self.run_ends(read(body)?),
            RecordContactEvents::VERB => self.contact_events(read(body)?),
            ReadNotification::VERB => {
                self.by_person(body, Right::Look, |ReadNotification { id }, person| {
                    Ok(Input::ReadNotification {
                        workspace,
                        person,
                        id,
                    })
                })
            }
            ReadNotifications::VERB => self.by_person(body, Right::Look, |command, caller| {
                self.read_all(command, &caller)
            }),
            PutPreferences::VERB => self.by_person(body, Right::Look, |command, caller| {
                self.preferences(command, &caller)
            }),
            AddWebhook::VERB => self.by_person(body, Right::Administer, |command, caller| {
                self.webhook(command, caller)
            }),
            ChangeWebhook::VERB => {
                self.by_person(body, Right::Administer, |command, _| self.change(command))
            }
            RemoveWebhook::VERB => {
                self.by_person(body, Right::Administer, |RemoveWebhook { id }, _| {
                    Ok(Input::RemoveWebhook { workspace, id })
                })
            }
            Watch::VERB => self.by_person(body, Right::Look, |Watch { of }, person| {
                Ok(Input::Watch {
                    workspace,
                    person,
                    of,
                })
            }),
            Unwatch::VERB => self.by_person(body, Right::Look, |Unwatch { of }, person| {
                Ok(Input::Unwatch {
                    workspace,
                    person,
                    of,
                })
            }),
            ShowWebhookSecret::VERB => {
                self.by_person(body, Right::Administer, |ShowWebhookSecret {}, _| {
                    let fresh = WebhookSecret::fresh().write();
                    Ok(Input::ShowSecret { workspace, fresh })
                })
            }
            other => Err(Problem::not_found(format!(
                "the notification service has no command `{other}`"
            ))),
        }
    }

    /// Reads the command of a person who has a right. The gateway vouches for the caller.
    fn by_person<C: Command>(
        &self,
        body: &[u8],
        right: Right,
        input: impl FnOnce(C, UserName) -> Result<Input, Problem>,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let envelope: Envelope<C> = read(body)?;
        let workspace = &self.parts.workspace;
        let claims = self.trust.caller(&envelope, body, workspace, self.now);
        let claims = claims.map_err(holdpoint_auth::AuthError::problem)?;
        let claims = claims.ok_or_else(|| {
            let detail = "this needs an assertion that is signed for a person";
            Problem::new(403, "forbidden", detail)
        })?;
        authorize(Some(&claims), right)?;
        let input = input(envelope.command, claims.user)?;
        Ok(DecodedCommand::one(input, envelope.key))
    }

    fn webhook(&self, command: AddWebhook, caller: UserName) -> Result<Input, Problem> {
        self.may_call(&command.url, &command.events)?;
        Ok(Input::AddWebhook(Box::new(Webhook {
            workspace: self.parts.workspace.clone(),
            id: command.id,
            url: command.url,
            events: command.events,
            format: command.format,
            secret: WebhookSecret::fresh().write(),
            created_by: caller,
            created_at: self.now,
            state: WebhookState::Active {
                failing_since: None,
            },
            last_error: None,
            configured_version: 1,
            version: 1,
        })))
    }

    fn change(&self, command: ChangeWebhook) -> Result<Input, Problem> {
        self.may_call(&command.url, &command.events)?;
        Ok(Input::ChangeWebhook {
            workspace: self.parts.workspace.clone(),
            id: command.id,
            to: Box::new(WebhookConfig {
                url: command.url,
                events: command.events,
                format: command.format,
            }),
            enabled: command.enabled,
        })
    }

    fn may_call(&self, url: &str, events: &[String]) -> Result<(), Problem> {
        let url = check_webhook(url, events)?;
        if url.scheme() == "http" && self.targets == EgressPolicy::PublicOnly {
            let host = url.host_str().unwrap_or_default();
            tracing::warn!(host, "this webhook is called without encryption; use https");
        }
        self.targets.check(&url).map_err(|refused| {
            let message = format!("url: {refused}");
            Problem::invalid_body(&*message).with_errors(vec![FieldError::at("/url", message)])
        })
    }

    fn preferences(&self, command: PutPreferences, caller: &UserName) -> Result<Input, Problem> {
        let PutPreferences {
            person,
            preferences,
        } = command;
        if *caller != person {
            let detail = format!("`{caller}` may not change the preferences of `{person}`");
            return Err(Problem::new(403, "forbidden", detail));
        }
        DeliveryRules::read(&preferences)?;
        self.may_call_chat(&preferences)?;
        Ok(Input::PutPreferences {
            new: Box::new(crate::domain::Preferences {
                workspace: self.parts.workspace.clone(),
                person,
                said: preferences,
                digest_at: None,
                version: 1,
            }),
            fresh: WebhookSecret::fresh().write(),
        })
    }

    fn read_all(&self, command: ReadNotifications, caller: &UserName) -> Result<Input, Problem> {
        let ReadNotifications { person, until } = command;
        if *caller != person {
            let detail = format!("`{caller}` may not mark notifications of `{person}` as read");
            return Err(Problem::new(403, "forbidden", detail));
        }
        Ok(Input::ReadNotifications {
            workspace: self.parts.workspace.clone(),
            person,
            until,
        })
    }

    /// Any user may set a chat address. If only public addresses may be called, it must be encrypted.
    fn may_call_chat(&self, preferences: &Preferences) -> Result<(), Problem> {
        let chat = preferences.channels.chat.as_ref();
        let Some(url) = chat.and_then(|chat| chat.url.as_deref()) else {
            return Ok(());
        };
        let refuse = |why: &str| {
            let message = format!("channels.chat.url: {why}");
            let wrong = FieldError::at("/channels/chat/url", message.clone());
            Problem::invalid_body(message).with_errors(vec![wrong])
        };
        let url = Url::parse(url).map_err(|_no_url| refuse("must be an address"))?;
        let is_plain = url.scheme() != "https";
        if is_plain && self.targets == EgressPolicy::PublicOnly {
            return Err(refuse("must be an https address"));
        }
        let checked = self.targets.check(&url);
        checked.map_err(|refused| refuse(&refused.to_string()))
    }

    fn request_events(
        &self,
        envelope: Envelope<RecordRequestEvents>,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let events = envelope.command.facts;
        check_count(&events, "events")?;
        if events.iter().any(|event| i64::try_from(event.rev).is_err()) {
            return Err(Problem::invalid_body("rev must have at most 63 bits"));
        }
        let inputs = events.into_iter().map(|event| Input::RecordRequestEvent {
            workspace: self.parts.workspace.clone(),
            event: Box::new(event),
        });
        Ok(DecodedCommand::many(inputs.collect()))
    }

    fn run_ends(
        &self,
        envelope: Envelope<RecordRunEnds>,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let ends = envelope.command.ends;
        check_count(&ends, "ends")?;
        if let Some(live) = ends.iter().find(|end| !end.status.is_final()) {
            let RunEnded { run, status, .. } = live;
            let detail = format!("status of `{run}` must be final, not `{status}`");
            return Err(Problem::invalid_body(detail));
        }
        let inputs = ends.into_iter().map(|end| Input::RecordRunEnd {
            workspace: self.parts.workspace.clone(),
            end: Box::new(end),
        });
        Ok(DecodedCommand::many(inputs.collect()))
    }

    fn contact_events(
        &self,
        envelope: Envelope<RecordContactEvents>,
    ) -> Result<DecodedCommand<Input>, Problem> {
        let events = envelope.command.events;
        check_count(&events, "events")?;
        if events
            .iter()
            .any(|event| i64::try_from(event.number()).is_err())
        {
            return Err(Problem::invalid_body("version must have at most 61 bits"));
        }
        let inputs = events.into_iter().map(|event| Input::RecordContactEvent {
            workspace: self.parts.workspace.clone(),
            event: Box::new(event),
        });
        Ok(DecodedCommand::many(inputs.collect()))
    }
}

fn check_count<T>(all: &[T], what: &str) -> Result<(), Problem> {
    if (1..=EVENTS_MAX).contains(&all.len()) {
        return Ok(());
    }
    let count = all.len();
    let detail = format!("a message must have 1 to {EVENTS_MAX} {what}, not {count}");
    Err(Problem::invalid_body(detail))
}

fn read<C: Command>(body: &[u8]) -> Result<Envelope<C>, Problem> {
    check_message(C::VERB, body)?;
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", C::VERB)))
}
