//! One decision on one request, in the making.

use holdpoint_contracts::handoff::Effect as Word;
use holdpoint_contracts::hold::HoldClosed;

use super::request::{Alarm, Owner, Request};
use super::{Aggregate, Answer, Change, Effect, Step};

/// The next state of a request, and what follows.
pub(crate) struct Turn {
    pub(crate) request: Request,
    effects: Vec<Effect>,
}

impl Turn {
    /// Changes a request that is there.
    pub(crate) fn on(request: &Request) -> Self {
        let mut request = request.clone();
        request.version += 1;
        Self::of(request)
    }

    /// Makes a request; its version is 1.
    pub(crate) const fn of(request: Request) -> Self {
        Self {
            request,
            effects: Vec::new(),
        }
    }

    /// Says how it ended: to the executor, by a wish that is sent until it is confirmed; where the
    /// hold stands alone there is nobody to wait for.
    pub(crate) fn close(&mut self) {
        match self.request.owner {
            Some(Owner::Executor) => {
                self.request.effect = Some(Word::Pending);
                self.tell();
            }
            None => self.request.effect = Some(Word::Applied),
        }
    }

    /// Says it again, unless the wish of before is still on its way: that is sent again by itself.
    pub(crate) fn tell_again(&mut self) {
        if self.request.effect != Some(Word::Pending) {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let Some(end) = self.request.end() else {
            return;
        };
        let rev = self.request.version;
        self.request.closed_rev = Some(rev);
        self.effects.push(Effect::Close {
            workspace: self.request.workspace.clone(),
            closed: HoldClosed {
                id: self.request.id,
                rev,
                outcome: end.outcome,
                data: end.data,
                by: end.by,
                at: end.at,
            },
        });
    }

    /// The alarm has fired: there is none any more.
    pub(crate) const fn alarm_fired(&mut self) {
        self.request.alarm.due = None;
    }

    /// Done: sets the alarm that the new state asks for, if it is another one.
    pub(crate) fn end(mut self, answer: impl FnOnce(&Request) -> Answer) -> Step {
        let due = self.request.wanted_due();
        if due != self.request.alarm.due {
            let rev = self.request.version;
            self.request.alarm = Alarm { rev, due };
            self.effects.push(Effect::Timer {
                workspace: self.request.workspace.clone(),
                id: self.request.id,
                rev,
                due,
            });
        }
        let answer = answer(&self.request);
        Step::Changed(Box::new(Change {
            state: Aggregate::Request(Box::new(self.request)),
            effects: self.effects,
            facts: Vec::new(),
            answer,
        }))
    }
}
