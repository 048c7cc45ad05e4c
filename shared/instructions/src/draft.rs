//! A step while its line is read, and its fields as an engineer would write them (S2-R1).

use holdpoint_contracts::contact::REPLY_SIGNAL;
use serde_json::{Map, Value, json};

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// The value of `wait`.
    Wait(Value),
    /// Name of the signal.
    Signal(String),
    /// A wait for the reply of the contact, perhaps with its longest time.
    Reply {
        within: Option<String>,
    },
    Ask {
        to: Option<Value>,
        question: String,
    },
    Handoff {
        to: Value,
    },
    Tool {
        tool: String,
        args: Option<Map<String, Value>>,
    },
    Run {
        agent: String,
        input: Option<Map<String, Value>>,
    },
    /// The value of `finish`.
    Finish(Value),
}

/// What follows the action in a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Modifier {
    Id(String),
    /// A duration, or the number 0 for no automatic end.
    Timeout(Value),
    /// `on_timeout`.
    Then(&'static str),
    Priority(&'static str),
    WarmLead,
    Message(String),
    Options(Vec<String>),
    Default(String),
    Attempts(u64),
    OnError(&'static str),
    /// The value of `approval`.
    Approval(Map<String, Value>),
    Parallel(u64),
}

/// A step of one line.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) when: Option<String>,
    pub(crate) for_each: Option<String>,
    pub(crate) action: Action,
    pub(crate) modifiers: Vec<Modifier>,
}

/// The fields of a step, and what is shown beside it if that is not its line.
pub(crate) type ReadStep = (Map<String, Value>, Option<String>);

/// Id of a step that has none of its own, at a position from 1.
pub(crate) fn default_id(position: usize) -> String {
    format!("step-{position:02}")
}

/// An entry of an object with a text.
pub(crate) fn text_field(name: &str, text: String) -> (String, Value) {
    (name.to_owned(), Value::String(text))
}

impl Modifier {
    /// The words that an error calls it by. A line has each at most once.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Id(_) => "a name",
            Self::Timeout(_) => "a timeout",
            // A default is what happens after a timeout, too.
            Self::Then(_) | Self::Default(_) => "an effect of the timeout",
            Self::Priority(_) => "a priority",
            Self::WarmLead => "`as warm lead`",
            Self::Message(_) => "a message",
            Self::Options(_) => "options",
            Self::Attempts(_) => "a number of attempts",
            Self::OnError(_) => "an effect of a failure",
            Self::Approval(_) => "an approval",
            Self::Parallel(_) => "a number of items at a time",
        }
    }
}

impl Action {
    /// The words that an error calls it by.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::Wait(_) => "a wait",
            Self::Signal(_) => "a wait for a signal",
            Self::Reply { .. } => "a wait for a reply",
            Self::Ask { .. } => "a question",
            Self::Handoff { .. } => "a handoff",
            Self::Tool { .. } => "a call of a tool",
            Self::Run { .. } => "a run of an agent",
            Self::Finish(_) => "the end of a run",
        }
    }

    pub(crate) const fn is_wait(&self) -> bool {
        matches!(self, Self::Wait(_) | Self::Signal(_) | Self::Reply { .. })
    }

    /// Whether it may be done for each item of a list.
    pub(crate) const fn may_have_items(&self) -> bool {
        matches!(
            self,
            Self::Tool { .. } | Self::Ask { .. } | Self::Handoff { .. }
        )
    }

    /// Why such a step must not have this, if it must not.
    pub(crate) fn refusal(&self, modifier: &Modifier) -> Option<String> {
        let is_ask = matches!(self, Self::Ask { .. });
        let is_handoff = matches!(self, Self::Handoff { .. });
        let is_tool = matches!(self, Self::Tool { .. });
        let effects = self.effects_of_timeout();
        let is_allowed = match modifier {
            Modifier::Id(_) => true,
            Modifier::OnError("handoff") => {
                let waits = matches!(self, Self::Signal(_) | Self::Reply { .. });
                is_tool || is_ask || waits || matches!(self, Self::Run { .. })
            }
            Modifier::OnError(_) => !matches!(self, Self::Finish(_)),
            Modifier::Timeout(Value::Number(_)) => is_handoff,
            Modifier::Timeout(_) => !matches!(
                self,
                Self::Wait(_) | Self::Finish(_) | Self::Reply { within: Some(_) }
            ),
            Modifier::Then(word) => effects.contains(word),
            Modifier::Priority(_) => is_ask || is_handoff,
            Modifier::WarmLead | Modifier::Message(_) => is_handoff,
            Modifier::Options(_) | Modifier::Default(_) => is_ask,
            Modifier::Parallel(_) => self.may_have_items(),
            Modifier::Attempts(_) | Modifier::Approval(_) => is_tool,
        };
        let label = self.label();
        let extra_label = modifier.label();
        let message = match modifier {
            Modifier::Then(_) if !effects.is_empty() => {
                let effects = effects.join("`, `");
                format!("The effect of the timeout of {label} must be one of `{effects}`")
            }
            Modifier::OnError("handoff") => {
                "Only a call of a tool, a question, a wait for a signal or a reply, or a run is handed off if it fails".to_owned()
            }
            Modifier::Timeout(Value::Number(_)) => "Only a handoff has `no timeout`".to_owned(),
            Modifier::Id(_)
            | Modifier::OnError(_)
            | Modifier::Timeout(_)
            | Modifier::Then(_)
            | Modifier::Priority(_)
            | Modifier::WarmLead
            | Modifier::Message(_)
            | Modifier::Options(_)
            | Modifier::Default(_)
            | Modifier::Attempts(_)
            | Modifier::Approval(_)
            | Modifier::Parallel(_) => {
                format!("The step is {label}, which does not have {extra_label}")
            }
        };
        (!is_allowed).then_some(message)
    }

    const fn effects_of_timeout(&self) -> &'static [&'static str] {
        match self {
            Self::Signal(_) | Self::Reply { .. } | Self::Run { .. } => &["skip", "fail"],
            Self::Ask { .. } => &["skip", "fail", "escalate"],
            Self::Handoff { .. } => &["continue", "skip", "fail", "escalate"],
            Self::Wait(_) | Self::Tool { .. } | Self::Finish(_) => &[],
        }
    }
}

impl Draft {
    /// The name that the line gives its step.
    pub(crate) fn id(&self) -> Option<&str> {
        self.modifiers.iter().find_map(|modifier| {
            let Modifier::Id(id) = modifier else {
                return None;
            };
            Some(id.as_str())
        })
    }

    /// The fields of the step, in the order in which an engineer would write them.
    pub(crate) fn into_fields(self) -> Map<String, Value> {
        let is_tool = matches!(self.action, Action::Tool { .. });
        let mut head = Map::new();
        let mut inner = Map::new();
        let mut tail = Map::new();
        let mut parallel = None;
        for modifier in self.modifiers {
            match modifier {
                Modifier::Id(id) => head.extend([text_field("id", id)]),
                Modifier::Timeout(value) if is_tool => tail.extend([("timeout".to_owned(), value)]),
                Modifier::Timeout(value) => inner.extend([("timeout".to_owned(), value)]),
                Modifier::Then(word) => inner.extend([text_field("on_timeout", word.to_owned())]),
                Modifier::Priority(word) => inner.extend([text_field("priority", word.to_owned())]),
                Modifier::WarmLead => inner.extend([("warm_lead".to_owned(), Value::Bool(true))]),
                Modifier::Message(text) => inner.extend([text_field("message", text)]),
                Modifier::Options(texts) => {
                    inner.extend([("options".to_owned(), Value::from(texts))]);
                }
                Modifier::Default(text) => inner.extend([
                    text_field("on_timeout", "default".to_owned()),
                    text_field("default", text),
                ]),
                Modifier::Attempts(count) => {
                    tail.extend([("retry".to_owned(), json!({ "attempts": count }))]);
                }
                Modifier::OnError(word) => tail.extend([text_field("on_error", word.to_owned())]),
                Modifier::Approval(rule) => {
                    tail.extend([("approval".to_owned(), Value::Object(rule))]);
                }
                Modifier::Parallel(count) => {
                    parallel = Some(("parallel".to_owned(), Value::from(count)));
                }
            }
        }
        head.extend(self.when.map(|when| text_field("when", when)));
        head.extend(self.for_each.map(|items| text_field("for_each", items)));
        head.extend(parallel);
        head.extend(self.action.into_fields(inner));
        head.extend(tail);
        head
    }
}

impl Action {
    /// `inner` has the fields that belong inside the kind.
    fn into_fields(self, mut inner: Map<String, Value>) -> Map<String, Value> {
        let (kind, first) = match self {
            Self::Wait(value) => return Map::from_iter([("wait".to_owned(), value)]),
            Self::Finish(value) => return Map::from_iter([("finish".to_owned(), value)]),
            Self::Tool { tool, args } => {
                let args = args.map(|args| ("args".to_owned(), Value::Object(args)));
                return [text_field("tool", tool)].into_iter().chain(args).collect();
            }
            Self::Signal(name) => ("wait_for", vec![text_field("signal", name)]),
            Self::Reply { within } => {
                // Without a reply, the next line follows.
                inner.entry("on_timeout").or_insert_with(|| "skip".into());
                let signal = text_field("signal", REPLY_SIGNAL.to_owned());
                let within = within.map(|time| text_field("timeout", time));
                ("wait_for", [signal].into_iter().chain(within).collect())
            }
            Self::Ask { to, question } => {
                let to = to.map(|to| ("to".to_owned(), to));
                let question = text_field("question", question);
                ("ask", to.into_iter().chain([question]).collect())
            }
            Self::Handoff { to } => ("handoff", vec![("to".to_owned(), to)]),
            Self::Run { agent, input } => {
                let input = input.map(|input| ("input".to_owned(), Value::Object(input)));
                let agent = text_field("agent", agent);
                ("run", [agent].into_iter().chain(input).collect())
            }
        };
        let fields: Map<String, Value> = first.into_iter().chain(inner).collect();
        Map::from_iter([(kind.to_owned(), Value::Object(fields))])
    }
}
