//! A decision is sent again without an idempotency key if its reply was lost. Whatever happened in between, it counts once
//! and gets its reply.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test names what it expects; anything else fails it"
)]

use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{
    Completion, DecideRequest, Decision, Disposition, Effect as DecisionEffect, OutcomeType,
    RequestAction,
};
use holdpoint_contracts::hold::{CloseReply, HoldSpec, HoldState, Policy};
use holdpoint_contracts::run::HoldKind;
use proptest::prelude::*;
use serde_json::json;

use super::world::{World, erased, gone, respond, spec};
use crate::domain::{Phase, Reply, Request, RequestInput};

const DIGEST: &str = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";

/// Each kind of decision that a person can make, and a request for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Option,
    Form,
    Approve,
    Comment,
    Digest,
    Edited,
    /// One of two approvals that are needed.
    Vote,
    Reject,
    Revise,
    Complete,
    ReturnToAgent,
}

const ALL: [Made; 11] = [
    Made::Option,
    Made::Form,
    Made::Approve,
    Made::Comment,
    Made::Digest,
    Made::Edited,
    Made::Vote,
    Made::Reject,
    Made::Revise,
    Made::Complete,
    Made::ReturnToAgent,
];

fn approve(comment: Option<&str>, amount: Option<f64>, digest: Option<&str>) -> Decision {
    Decision::Approve {
        comment: comment.map(str::to_owned),
        edited_args: amount.map(|amount| json!({ "amount": amount })),
        digest: digest.map(str::to_owned),
    }
}

fn complete(disposition: Disposition) -> Decision {
    Decision::Complete(Completion {
        notes: "Called, <b>agreed</b>.".to_owned(),
        outcome_type: OutcomeType::Resolved,
        disposition,
    })
}

impl Made {
    fn decision(self) -> Decision {
        match self {
            Self::Option => respond("yes"),
            // The stored number must be the one that came.
            Self::Form => Decision::Respond {
                answer: json!({ "amount": 0.1 + 0.2, "note": "@user.bob knows" }),
            },
            Self::Approve | Self::Vote => approve(None, None, None),
            Self::Comment => approve(Some("ask @user.bob"), None, None),
            Self::Digest => approve(None, None, Some(DIGEST)),
            Self::Edited => approve(Some("less"), Some(1e16 / 3.0), Some(DIGEST)),
            Self::Reject => Decision::Reject {
                reason: "too much, <i>Bob</i>".to_owned(),
            },
            Self::Revise => Decision::Revise {
                instructions: "shorter".to_owned(),
            },
            Self::Complete => complete(Disposition::Finish),
            Self::ReturnToAgent => complete(Disposition::ReturnToAgent),
        }
    }

    /// A decision of another person that contradicts it.
    fn contrary(self) -> Decision {
        match self {
            Self::Option | Self::Form => respond("no"),
            Self::Reject | Self::Revise => approve(None, None, None),
            Self::Approve | Self::Comment | Self::Digest | Self::Edited | Self::Vote => {
                Decision::Reject {
                    reason: "no".to_owned(),
                }
            }
            Self::Complete => complete(Disposition::ReturnToAgent),
            Self::ReturnToAgent => complete(Disposition::Finish),
        }
    }

    fn spec(self) -> HoldSpec {
        let item = json!({ "id": "step-02", "tool": "payments.refund", "args": { "amount": 250 },
            "digest": DIGEST });
        match self {
            Self::Option => spec(HoldKind::Input),
            Self::Form => HoldSpec {
                options: Vec::new(),
                schema: Some(
                    json!({ "type": "object", "required": ["amount"], "properties": {
                    "amount": { "type": "number" }, "note": { "type": "string" } } }),
                ),
                ..spec(HoldKind::Input)
            },
            Self::Approve | Self::Comment | Self::Reject => spec(HoldKind::Approval),
            Self::Vote => HoldSpec {
                policy: Policy {
                    need: 2,
                    not_requester: false,
                },
                ..spec(HoldKind::Approval)
            },
            Self::Digest | Self::Edited => HoldSpec {
                step: Some("step-02".to_owned()),
                items: vec![serde_json::from_value(item).unwrap()],
                ..spec(HoldKind::Approval)
            },
            Self::Revise => HoldSpec {
                revises: Some("draft".to_owned()),
                ..spec(HoldKind::Approval)
            },
            Self::Complete | Self::ReturnToAgent => spec(HoldKind::Handoff),
        }
    }
}

/// What may happen between a decision and its repetition.
#[derive(Debug, Clone)]
enum Between {
    Contrary(&'static str),
    Approve(&'static str),
    Act(&'static str, RequestAction),
    Fire,
    Freeze,
    Open(i64),
    Withdrawn,
    Erased,
    CloseAcked(CloseReply),
    TimerAcked,
    /// Oscar was asked by his role.
    RoleLost,
}

fn between() -> impl Strategy<Value = Between> {
    let who = || prop_oneof![Just("bob"), Just("oscar"), Just("olga")];
    let action = prop_oneof![
        Just(RequestAction::TakeOver),
        Just(RequestAction::Accept),
        Just(RequestAction::Reassign {
            to: "@user.bob".to_owned()
        }),
        Just(RequestAction::Delegate {
            to: "@user.bob".to_owned()
        }),
        Just(RequestAction::Acknowledge),
        Just(RequestAction::Snooze { for_ms: 600_000 }),
    ];
    let reply = prop_oneof![
        Just(CloseReply::Applied),
        Just(CloseReply::OnResume),
        Just(CloseReply::RunEnded)
    ];
    prop_oneof![
        3 => who().prop_map(Between::Contrary),
        2 => who().prop_map(Between::Approve),
        4 => (who(), action).prop_map(|(who, action)| Between::Act(who, action)),
        2 => Just(Between::Fire),
        1 => Just(Between::Freeze),
        1 => (0..500_i64).prop_map(Between::Open),
        2 => Just(Between::Withdrawn),
        1 => Just(Between::Erased),
        3 => reply.prop_map(Between::CloseAcked),
        2 => Just(Between::TimerAcked),
        1 => Just(Between::RoleLost),
    ]
}

fn asked(spec: HoldSpec) -> World {
    let mut world = World::new();
    let deadline = Some(world.now + chrono::TimeDelta::minutes(60));
    let spec = Box::new(spec);
    world.desired_state(1, HoldState::Open { spec, deadline });
    world
}

fn apply(world: &mut World, made: Made, rev: u64, event: &Between) {
    let (spec, now) = (Box::new(made.spec()), world.now);
    let is_erased = world.request.as_ref().unwrap().erased_at.is_some();
    match event {
        // The run of an erased request has ended.
        Between::Freeze | Between::Open(_) if is_erased => {}
        Between::Contrary(who) => drop(world.decide_as(who, made.contrary())),
        Between::Approve(who) => drop(world.decide_as(who, approve(None, None, None))),
        Between::Act(who, action) => drop(world.act(who, action.clone())),
        Between::Fire => drop(world.fire()),
        Between::Freeze => {
            let (since, remaining_ms) = (now, Some(60_000));
            let frozen = HoldState::Frozen {
                spec,
                since,
                remaining_ms,
            };
            world.desired_state(rev, frozen);
        }
        Between::Open(more) => {
            let deadline = Some(now + chrono::TimeDelta::minutes(*more));
            world.desired_state(rev, HoldState::Open { spec, deadline });
        }
        Between::Withdrawn => drop(world.desired_state(rev, gone())),
        Between::Erased => drop(world.desired_state(rev, erased())),
        Between::CloseAcked(_) if world.closed().is_empty() => {}
        Between::CloseAcked(reply) => world.acknowledge_close(*reply),
        Between::TimerAcked => {
            let rev = world.request.as_ref().unwrap().timer.rev;
            drop(world.put(RequestInput::TimerAcked { rev }).unwrap());
        }
        Between::RoleLost => world.user("oscar", &["member"]),
    }
}

/// The request as another process reads it.
fn stored(request: &Request) -> Request {
    let text = serde_json::to_string(request).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A decision that is sent several times.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    made: Made,
    who: &'static str,
    /// The person says which version of the request was shown.
    has_version: bool,
    /// In a batch of which all requests are decided or none.
    is_batch: bool,
}

impl Repeated {
    fn send(self, world: &mut World, version: u64) -> Result<DecisionEffect, Problem> {
        let caller = world.caller(self.who);
        let command = DecideRequest {
            id: world.id,
            decision: self.made.decision(),
            version: self.has_version.then_some(version),
            silent: self.is_batch,
        };
        let input = if self.is_batch {
            RequestInput::DecideRequests(caller, command)
        } else {
            RequestInput::Decide(caller, command)
        };
        match world.put(input)? {
            Reply::Decided(decided) => {
                assert!(decided.recorded);
                assert_eq!(decided.request, world.view());
                Ok(decided.effect)
            }
            Reply::One(one) => Ok(one.effect),
            other => panic!("{other:?}"),
        }
    }

    fn check_after(self, events: &[Between]) -> Result<(), TestCaseError> {
        let mut world = asked(self.made.spec());
        let version = world.view().version;
        let first = self.send(&mut world, version);
        prop_assert!(first.is_ok(), "{:?}", first);
        for (rev, event) in (2..).zip(events) {
            world.now += chrono::TimeDelta::minutes(7);
            apply(&mut world, self.made, rev, event);
        }
        let request = stored(world.request.as_ref().unwrap());
        prop_assert_eq!(&request, world.request.as_ref().unwrap());
        let sent = world.effects.len();
        for _ in 0..2 {
            let again = self.send(&mut world, version);
            prop_assert_eq!(&request, world.request.as_ref().unwrap(), "counted again");
            prop_assert_eq!(world.effects.len(), sent, "sent again");
            // An erasure empties the schema, so an edit may be refused.
            if request.erased_at.is_none() || self.made != Made::Edited {
                let effect = request.effect.unwrap_or(DecisionEffect::Pending);
                prop_assert_eq!(again.map_err(|it| it.code), Ok(effect));
            }
        }
        Ok(())
    }
}

/// Each kind of decision, at once and after each event.
#[test]
fn each_kind_of_decision_is_repeated_without_a_key() {
    let to = "@user.bob".to_owned();
    let events = [
        Between::CloseAcked(CloseReply::Applied),
        Between::CloseAcked(CloseReply::RunEnded),
        Between::TimerAcked,
        Between::Contrary("oscar"),
        Between::Fire,
        Between::Withdrawn,
        Between::Erased,
        Between::Act("olga", RequestAction::Reassign { to }),
    ];
    for made in ALL {
        for is_batch in [false, true] {
            let repeated = Repeated {
                made,
                who: "ada",
                has_version: true,
                is_batch,
            };
            repeated.check_after(&[]).unwrap();
            for event in &events {
                repeated.check_after(std::slice::from_ref(event)).unwrap();
            }
        }
    }
}

/// The lost reply of a vote, another person's rejection, and the vote again. The repetition is not a late answer.
#[test]
fn a_vote_that_is_repeated_after_a_rejection_is_no_late_answer() {
    let mut world = asked(Made::Vote.spec());
    world.decide_as("ada", Made::Vote.decision()).unwrap();
    world.decide_as("oscar", Made::Vote.contrary()).unwrap();
    let again = world.decide_as("ada", Made::Vote.decision()).unwrap();
    assert_eq!(again.request.decided_by.as_deref(), Some("oscar"));
    assert!(again.request.late.is_empty());
    // Another decision is late.
    let late = world.decide_as("ada", Made::Vote.contrary()).unwrap_err();
    assert_eq!((late.status, &*late.code), (409, "already_decided"));
    assert_eq!(world.view().late.len(), 1);
}

/// A person who has not decided gains nothing by it.
#[test]
fn a_repetition_needs_the_first_decision() {
    let mut world = asked(Made::Option.spec());
    world.decide_as("ada", respond("yes")).unwrap();
    let status = |world: &mut World, who| world.decide_as(who, respond("yes")).unwrap_err().status;
    assert_eq!(status(&mut world, "bob"), 403);
    assert_eq!(status(&mut world, "oscar"), 409);
    // Neither does a person without the right to decide.
    world.user("ada", &["viewer"]);
    assert_eq!(status(&mut world, "ada"), 403);
    assert!(matches!(world.phase(), Phase::Decided { by, .. } if by == "ada"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_decision_is_repeated_without_a_key_whatever_happened(
        made in proptest::sample::select(ALL.to_vec()),
        who in prop_oneof![Just("ada"), Just("oscar")],
        events in proptest::collection::vec(between(), 0..12),
        has_version in any::<bool>(),
        is_batch in any::<bool>(),
    ) {
        let repeated = Repeated { made, who, has_version, is_batch };
        repeated.check_after(&events)?;
    }
}
