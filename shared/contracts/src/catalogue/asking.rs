//! Samples of what tools ask people while they run.

use holdpoint_ids::NotificationId;
use serde_json::json;

use super::samples::{at, hold_id, run_id};
use super::{Entry, command};
use crate::asking::{
    AskMode, GivenAnswer, InputStatus, RequestInput, RequestedInput, ToolQuestion,
};
use crate::hold::OnTimeout;

pub(super) fn commands() -> Vec<Entry> {
    let asked = RequestInput {
        run: run_id(),
        step: Some("step-01".to_owned()),
        dispatch: Some(1),
        token: Some("hps_eyJ9.c2ln".to_owned()),
        question: ToolQuestion {
            options: vec!["yes".to_owned(), "no".to_owned()],
            to: vec!["@role.operator".to_owned()],
            timeout_ms: 3_600_000,
            on_timeout: OnTimeout::Default,
            default: Some(json!("no")),
            key: Some("refund".to_owned()),
            mode: AskMode::Park,
            ..ToolQuestion::new("Refund 120 EUR?")
        },
    };
    vec![command("service:worker", asked, open())]
}

fn open() -> RequestedInput {
    RequestedInput {
        notification_id: NotificationId::opened(hold_id()),
        request_id: hold_id(),
        step: "step-01".to_owned(),
        key: "refund".to_owned(),
        status: InputStatus::Open,
        deadline: Some(at("02T10:00:00")),
        given: None,
    }
}

/// The same question, asked again when it is answered: the same fields and the answer's.
#[test]
fn an_answered_question_is_the_same_with_its_answer() {
    let answered = RequestedInput {
        status: InputStatus::Answered,
        deadline: None,
        given: Some(GivenAnswer {
            question_id: hold_id(),
            answer: json!("yes"),
            by: "ada".to_owned(),
            continuation: "User responded: yes".to_owned(),
        }),
        ..open()
    };
    let body = serde_json::to_value(&answered).unwrap();
    assert_eq!(body["status"], "answered");
    assert_eq!(body["answer"], "yes");
    assert_eq!(
        body["continuation"], "User responded: yes",
        "S3-R4: as the agent reads it"
    );
    for sample in [open(), answered] {
        let body = serde_json::to_value(&sample).unwrap();
        let read: RequestedInput = serde_json::from_value(body).unwrap();
        assert_eq!(read, sample);
    }
}
