//! A message of many whose whole could not be committed: each of its inputs goes on alone, and its
//! sender is answered once, when the last of them is through. One that cannot be handled spoils no
//! neighbour.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use holdpoint_contracts::message::Reply;
use holdpoint_contracts::problem::Problem;

use crate::Service;
use crate::commit::write;
use crate::publisher::Settled;
use crate::task::{Origin, Settlement, Task};

/// What the inputs of one message have in common.
pub(crate) struct Whole(Mutex<Open>);

struct Open {
    /// Gone when the sender was answered.
    origin: Option<Box<Origin>>,
    /// In the order of the inputs.
    answers: Vec<Option<Bytes>>,
    left: usize,
    settlement: Settlement,
}

impl Whole {
    /// Takes what one input came to; with the last one: where the message came from, its whole
    /// answer, and what becomes of its delivery.
    fn settled(
        &self,
        place: usize,
        body: Option<Bytes>,
        settlement: Settlement,
    ) -> Option<(Box<Origin>, Bytes, Settlement)> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let body = match settlement {
            // Asking again cannot help: said so that the sender can let go of this one.
            Settlement::Buried => Some(write(&Reply::<()>::Problem(buried()))),
            Settlement::Done => body,
            // What is done already is done once, however often it comes.
            Settlement::Again => {
                open.settlement = Settlement::Again;
                body
            }
        };
        if let Some(answer) = open.answers.get_mut(place) {
            *answer = body;
        }
        open.left = open.left.saturating_sub(1);
        if open.left > 0 {
            return None;
        }
        let origin = open.origin.take()?;
        Some((origin, list(&open.answers), open.settlement))
    }
}

/// What the sender of a dead letter is told: asking again cannot help.
pub(crate) fn buried() -> Problem {
    Problem::new(
        422,
        "dead_letter",
        "this cannot be handled; it is kept among the service's dead letters, and an operator can replay it",
    )
}

/// What is to be told and acked: in place of parts the messages whose last part is among them.
pub(crate) fn wholes(settled: Vec<Settled>) -> Vec<Settled> {
    let whole = |one: Settled| {
        let Origin::Part { whole, place } = one.origin else {
            return Some(one);
        };
        let (origin, body, settlement) = whole.settled(place, one.body, one.settlement)?;
        Some(Settled {
            origin: *origin,
            body: Some(body),
            settlement,
        })
    };
    settled.into_iter().filter_map(whole).collect()
}

/// The answers as one list, as if they had been made together.
fn list(answers: &[Option<Bytes>]) -> Bytes {
    let missing = write(&Reply::<()>::Problem(Problem::internal()));
    let mut body = b"{\"ok\":[".to_vec();
    for (place, answer) in answers.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(answer.as_ref().unwrap_or(&missing));
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}

/// The inputs of a task, each a task of its own.
pub(crate) fn part<S: Service>(task: Task<S>) -> Vec<Task<S>> {
    let Task {
        inputs,
        origin,
        raw,
        ..
    } = task;
    let whole = Arc::new(Whole(Mutex::new(Open {
        origin: Some(Box::new(origin)),
        answers: inputs.iter().map(|_| None).collect(),
        left: inputs.len(),
        settlement: Settlement::Done,
    })));
    let parts = inputs.into_iter().enumerate();
    parts
        .map(|(place, input)| Task {
            inputs: vec![input],
            many: false,
            whole: false,
            asked: None,
            origin: Origin::Part {
                whole: Arc::clone(&whole),
                place,
            },
            poison: None,
            is_unread: false,
            is_isolated: false,
            raw: raw.clone(),
            room: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_hears_once_and_of_every_input_in_its_order() {
        let whole = Whole(Mutex::new(Open {
            origin: Some(Box::new(Origin::Ask { reply: None })),
            answers: vec![None, None, None],
            left: 3,
            settlement: Settlement::Done,
        }));
        let ok = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let done = Settlement::Done;
        assert!(whole.settled(2, ok(r#"{"ok":3}"#), done).is_none());
        assert!(whole.settled(0, ok(r#"{"ok":1}"#), done).is_none());
        let (_, body, settlement) = whole.settled(1, None, Settlement::Buried).unwrap();
        assert_eq!(settlement, Settlement::Done);
        let heard: Reply<Vec<Reply<u8>>> = serde_json::from_slice(&body).unwrap();
        let Reply::Ok(heard) = heard else { panic!() };
        assert_eq!((&heard[0], &heard[2]), (&Reply::Ok(1), &Reply::Ok(3)));
        assert!(matches!(&heard[1], Reply::Problem(it) if it.status == 422));
    }
}
