//! Replies that wait for a later decision on their aggregate, so that their callers need not ask again.
//!
//! They are in memory only. A caller whose reply is lost repeats its request, as for every other reply.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::subject::EFFECT_WAIT;
use holdpoint_decision::Decider;
use tokio::time::Instant;

use crate::origin::Origin;
use crate::reply::{TaskReply, reply_json};
use crate::service::{KeyOf, ReplyOf, Service, StateOf};
use crate::task::Task;

/// Replies that wait at the same time. Further callers get the incomplete reply at once.
pub(crate) const REPLIES_MAX: usize = 10_000;

/// An inbox, and what is sent there.
pub(crate) type DelayedReply = (String, Bytes);

pub(crate) struct DelayedReplies<S: Service> {
    by_key: HashMap<KeyOf<S>, Vec<Waiting<S>>>,
    /// Number of waiting replies.
    waiting: usize,
    /// In the order of the deadlines. A reply that was sent leaves its entry here until then.
    deadlines: VecDeque<(Instant, KeyOf<S>)>,
}

struct Waiting<S: Service> {
    inbox: String,
    reply: ReplyOf<S>,
    deadline: Instant,
}

impl<S: Service> Default for DelayedReplies<S> {
    fn default() -> Self {
        Self {
            by_key: HashMap::new(),
            waiting: 0,
            deadlines: VecDeque::new(),
        }
    }
}

impl<S: Service> DelayedReplies<S> {
    /// Keeps an incomplete reply whose caller waits for its effect. Returns any other reply.
    pub(crate) fn delay(&mut self, task: &Task<S>, reply: TaskReply<S>) -> Option<Bytes> {
        let TaskReply {
            body, incomplete, ..
        } = reply;
        let (Some(reply), Some(input)) = (incomplete, task.inputs.first()) else {
            return Some(body);
        };
        let Origin::Ask {
            reply: Some(inbox),
            awaits_effect: true,
        } = &task.origin
        else {
            return Some(body);
        };
        if self.waiting >= REPLIES_MAX {
            return Some(body);
        }
        self.waiting += 1;
        let (key, deadline) = (S::Domain::key(input), Instant::now() + EFFECT_WAIT);
        self.deadlines.push_back((deadline, key.clone()));
        self.by_key.entry(key).or_default().push(Waiting {
            inbox: inbox.clone(),
            reply,
            deadline,
        });
        None
    }

    /// The replies that the new state of an aggregate completes.
    pub(crate) fn complete(&mut self, key: &KeyOf<S>, state: &StateOf<S>) -> Vec<DelayedReply> {
        let mut complete = Vec::new();
        for waiting in self.by_key.remove(key).unwrap_or_default() {
            let reply = S::Domain::updated_reply(waiting.reply, state);
            if S::Domain::is_incomplete(&reply) {
                let waiting = Waiting { reply, ..waiting };
                self.by_key.entry(key.clone()).or_default().push(waiting);
            } else {
                complete.push((waiting.inbox, reply_json(&Reply::Ok(reply))));
            }
        }
        self.waiting -= complete.len();
        complete
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// The replies whose deadline has come, incomplete as they are.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<DelayedReply> {
        let mut expired = Vec::new();
        while let Some((deadline, key)) = self.deadlines.pop_front_if(|(due, _)| *due <= now) {
            let Some(waiting) = self.by_key.get_mut(&key) else {
                continue;
            };
            let due = waiting.extract_if(.., |one| one.deadline <= deadline);
            expired.extend(due.map(|one| (one.inbox, reply_json(&Reply::Ok(one.reply)))));
            if waiting.is_empty() {
                self.by_key.remove(&key);
            }
        }
        self.waiting -= expired.len();
        expired
    }

    /// All replies, because the service stops.
    pub(super) fn drain(&mut self) -> Vec<DelayedReply> {
        self.deadlines.clear();
        self.waiting = 0;
        let waiting = self.by_key.drain().flat_map(|(_, waiting)| waiting);
        waiting
            .map(|one| (one.inbox, reply_json(&Reply::Ok(one.reply))))
            .collect()
    }
}
