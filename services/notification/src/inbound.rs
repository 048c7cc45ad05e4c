//! Commands to inputs: translation only.

use chrono::{DateTime, Utc};
use holdpoint_auth::{Claims, Right, Trust, WebhookSecret, authorize};
use holdpoint_contracts::message::{Command, Envelope};
use holdpoint_contracts::notification::{
    AddWebhook, ChangeWebhook, Preferences, PutPreferences, ReadNotification, ReadNotifications,
    RecordRequestEvents, RecordRunEnds, RemoveWebhook, RunEnded, ShowWebhookSecret, Unwatch, Watch,
};
use holdpoint_contracts::problem::{FieldError, Problem};
use holdpoint_contracts::subject::Parts;
use holdpoint_contracts::value_limits::check_message;
use holdpoint_kernel::DecodedCommand;

use holdpoint_egress::EgressPolicy;
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
    /// Reads one command.
    pub(crate) fn decode(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        match self.parts.verb.as_str() {
            RecordRequestEvents::VERB => self.request_events(read(body)?),
            RecordRunEnds::VERB => self.run_ends(read(body)?),
            ReadNotification::VERB => {
                let envelope: Envelope<ReadNotification> = read(body)?;
                let caller = self.caller(&envelope, body, Right::Look)?;
                let input = Input::ReadNotification {
                    workspace: self.parts.workspace.clone(),
                    person: caller.user,
                    id: envelope.command.id,
                };
                Ok(DecodedCommand::one(input, envelope.key))
            }
            ReadNotifications::VERB => self.read_all(body),
            PutPreferences::VERB => self.preferences(body),
            AddWebhook::VERB => self.webhook(body),
            ChangeWebhook::VERB => self.change(body),
            RemoveWebhook::VERB => {
                let envelope: Envelope<RemoveWebhook> = read(body)?;
                self.caller(&envelope, body, Right::Administer)?;
                let input = Input::RemoveWebhook {
                    workspace: self.parts.workspace.clone(),
                    id: envelope.command.id,
                };
                Ok(DecodedCommand::one(input, envelope.key))
            }
            Watch::VERB => {
                let envelope: Envelope<Watch> = read(body)?;
                let input = Input::Watch {
                    workspace: self.parts.workspace.clone(),
                    person: self.caller(&envelope, body, Right::Look)?.user,
                    of: envelope.command.of,
                };
                Ok(DecodedCommand::one(input, envelope.key))
            }
            Unwatch::VERB => {
                let envelope: Envelope<Unwatch> = read(body)?;
                let input = Input::Unwatch {
                    workspace: self.parts.workspace.clone(),
                    person: self.caller(&envelope, body, Right::Look)?.user,
                    of: envelope.command.of,
                };
                Ok(DecodedCommand::one(input, envelope.key))
            }
            ShowWebhookSecret::VERB => {
                let envelope: Envelope<ShowWebhookSecret> = read(body)?;
                self.caller(&envelope, body, Right::Administer)?;
                let input = Input::ShowSecret {
                    workspace: self.parts.workspace.clone(),
                    fresh: WebhookSecret::fresh().write(),
                };
                Ok(DecodedCommand::one(input, envelope.key))
            }
            other => Err(Problem::not_found(format!(
                "the notification service has no command `{other}`"
            ))),
        }
    }

    fn webhook(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let envelope: Envelope<AddWebhook> = read(body)?;
        let caller = self.caller(&envelope, body, Right::Administer)?;
        let wanted = envelope.command;
        self.may_call(&wanted.url, &wanted.events)?;
        let webhook = Webhook {
            workspace: self.parts.workspace.clone(),
            id: wanted.id,
            url: wanted.url,
            events: wanted.events,
            format: wanted.format,
            secret: WebhookSecret::fresh().write(),
            created_by: caller.user,
            created_at: self.now,
            state: WebhookState::Active {
                failing_since: None,
            },
            last_error: None,
            configured_version: 1,
            version: 1,
        };
        Ok(DecodedCommand::one(
            Input::AddWebhook(Box::new(webhook)),
            envelope.key,
        ))
    }

    fn change(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let envelope: Envelope<ChangeWebhook> = read(body)?;
        self.caller(&envelope, body, Right::Administer)?;
        let wanted = envelope.command;
        self.may_call(&wanted.url, &wanted.events)?;
        let input = Input::ChangeWebhook {
            workspace: self.parts.workspace.clone(),
            id: wanted.id,
            to: Box::new(WebhookConfig {
                url: wanted.url,
                events: wanted.events,
                format: wanted.format,
            }),
            enabled: wanted.enabled,
        };
        Ok(DecodedCommand::one(input, envelope.key))
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

    fn preferences(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let envelope: Envelope<PutPreferences> = read(body)?;
        let caller = self.caller(&envelope, body, Right::Look)?;
        let PutPreferences {
            person,
            preferences,
        } = envelope.command;
        if caller.user != person {
            let detail = format!(
                "`{}` may not change the preferences of `{person}`",
                caller.user
            );
            return Err(Problem::new(403, "forbidden", detail));
        }
        DeliveryRules::read(&preferences)?;
        self.may_call_chat(&preferences)?;
        let input = Input::PutPreferences {
            new: Box::new(crate::domain::Preferences {
                workspace: self.parts.workspace.clone(),
                person,
                said: preferences,
                digest_at: None,
                version: 1,
            }),
            fresh: WebhookSecret::fresh().write(),
        };
        Ok(DecodedCommand::one(input, envelope.key))
    }

    fn read_all(&self, body: &[u8]) -> Result<DecodedCommand<Input>, Problem> {
        let envelope: Envelope<ReadNotifications> = read(body)?;
        let caller = self.caller(&envelope, body, Right::Look)?;
        let ReadNotifications { person, until } = envelope.command;
        if caller.user != person {
            let detail = format!(
                "`{}` may not mark notifications of `{person}` as read",
                caller.user
            );
            return Err(Problem::new(403, "forbidden", detail));
        }
        let input = Input::ReadNotifications {
            workspace: self.parts.workspace.clone(),
            person,
            until,
        };
        Ok(DecodedCommand::one(input, envelope.key))
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
        if !(1..=EVENTS_MAX).contains(&events.len()) {
            let count = events.len();
            return Err(Problem::invalid_body(format!(
                "a message must have 1 to {EVENTS_MAX} events, not {count}"
            )));
        }
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
        if !(1..=EVENTS_MAX).contains(&ends.len()) {
            let count = ends.len();
            return Err(Problem::invalid_body(format!(
                "a message must have 1 to {EVENTS_MAX} ends, not {count}"
            )));
        }
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

    /// The caller, vouched for by the gateway.
    fn caller<C: Command>(
        &self,
        envelope: &Envelope<C>,
        body: &[u8],
        right: Right,
    ) -> Result<Claims, Problem> {
        let claims = self
            .trust
            .caller(envelope, body, &self.parts.workspace, self.now)
            .map_err(holdpoint_auth::AuthError::problem)?;
        let claims = claims.ok_or_else(|| {
            let detail = "this needs an assertion that is signed for a person";
            Problem::new(403, "forbidden", detail)
        })?;
        authorize(Some(&claims), right)?;
        Ok(claims)
    }
}

fn read<C: Command>(body: &[u8]) -> Result<Envelope<C>, Problem> {
    check_message(C::VERB, body)?;
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid_body(format!("`{}`: {error}", C::VERB)))
}
