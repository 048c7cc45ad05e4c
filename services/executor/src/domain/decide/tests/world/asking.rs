//! What the tool of a step asks, that it parks, and what people answer.

use chrono::{DateTime, Utc};
use holdpoint_contracts::asking::{RequestedInput, ToolQuestion};
use holdpoint_contracts::hold::{CloseReply, HoldOutcome};
use holdpoint_contracts::steps::ResultReply;
use holdpoint_ids::HoldId;
use serde_json::{Value, json};

use super::{Heard, World, closing, owner};
use crate::domain::run::Choice;
use crate::domain::run::person_hold::HoldClosure;
use crate::domain::{Refusal, Reply, RunInput};

impl World {
    /// The current dispatch of a step asks people.
    pub(in super::super) fn ask_people(
        &mut self,
        step: &str,
        question: ToolQuestion,
    ) -> RequestedInput {
        let dispatch = Some(self.dispatch(step));
        self.ask_people_as((Some(step), dispatch), question)
            .unwrap_or_else(|refusal| panic!("{refusal:?}"))
    }

    pub(in super::super) fn ask_people_as(
        &mut self,
        (step, dispatch): (Option<&str>, Option<u64>),
        question: ToolQuestion,
    ) -> Result<RequestedInput, Refusal> {
        let input = RunInput::AskPeople {
            by: owner(),
            step: step.map(str::to_owned),
            dispatch,
            question: Box::new(question),
        };
        match self.give(input) {
            Heard::Decided(Reply::InputRequested(asked))
            | Heard::Unchanged(Reply::InputRequested(asked)) => Ok(*asked),
            Heard::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// The worker of a step reports that its tool parks.
    pub(in super::super) fn parks(&mut self, step: &str) -> ResultReply {
        let input = RunInput::StepParks {
            step: step.to_owned(),
            dispatch: self.dispatch(step),
            duration_ms: 7,
        };
        match self.give(input) {
            Heard::Decided(Reply::Result(answer)) | Heard::Unchanged(Reply::Result(answer)) => {
                answer
            }
            other => panic!("{other:?}"),
        }
    }

    /// A person answers about an uncertain step.
    pub(in super::super) fn answer(&mut self, step: &str, choice: Choice) -> CloseReply {
        let asked = self.run().questions().find(|(one, _)| one.id == step);
        let hold = asked.unwrap_or_else(|| panic!("nothing is asked")).1.hold;
        self.close(hold, Some(choice))
    }

    pub(in super::super) fn close(&mut self, hold: HoldId, choice: Option<Choice>) -> CloseReply {
        self.close_as(hold, HoldOutcome::Answered, json!(choice))
    }

    /// When a hold on people is due, where its clock runs.
    pub(in super::super) fn deadline(&self, hold: HoldId) -> Option<DateTime<Utc>> {
        let mut people = self.run.as_ref()?.people();
        people.find(|(_, on)| on.id == hold)?.1.deadline()
    }

    /// The owner closes a hold: a timeout at the deadline, anything else now.
    pub(in super::super) fn close_as(
        &mut self,
        hold: HoldId,
        outcome: HoldOutcome,
        data: Value,
    ) -> CloseReply {
        if outcome == HoldOutcome::Timeout {
            self.now = self.deadline(hold).unwrap_or(self.now).max(self.now);
        }
        self.close_at(hold, closing(outcome, data, self.now))
    }

    pub(in super::super) fn close_at(&mut self, hold: HoldId, closing: HoldClosure) -> CloseReply {
        match self.give(RunInput::HoldClosed { hold, closing }) {
            Heard::Decided(Reply::Closed(answer)) | Heard::Unchanged(Reply::Closed(answer)) => {
                answer
            }
            other => panic!("{other:?}"),
        }
    }
}
