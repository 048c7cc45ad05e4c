//! What the tool of a step asks, and that it parks.

use holdpoint_contracts::asking::{RequestedInput, ToolQuestion};
use holdpoint_contracts::steps::ResultReply;

use super::{Heard, World, owner};
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
}
