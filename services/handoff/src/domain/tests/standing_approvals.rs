//! Standing approvals: who creates them, which requests they vote for, and how they end (S2-R4).

use holdpoint_contracts::Problem;
use holdpoint_contracts::handoff::{
    CreateStandingApproval, PlannedCall, StandingApprovalStatus, StandingApprovalTerms,
};
use holdpoint_contracts::hold::{ApprovalItem, HoldOutcome, HoldSpec, HoldState, Policy};
use holdpoint_contracts::notification::RequestEventKind;
use holdpoint_contracts::run::HoldKind;
use holdpoint_ids::StandingApprovalId;
use serde_json::{Value, json};

use super::world::{World, acme, gone, hold, minute, spec, unsigned};
use crate::domain::{
    Aggregate, Caller, CountedStandingApproval, Effect, Input, Outcome, Phase, RequestInput,
    StandingApproval, StandingApprovalInput, Undecided,
};

pub(super) fn id(number: u32) -> StandingApprovalId {
    format!("sa_0193aaaabbbb7ccc8ddd{number:012x}")
        .parse()
        .unwrap()
}

fn terms() -> StandingApprovalTerms {
    StandingApprovalTerms {
        agent: "refund".parse().unwrap(),
        tool: "payments.refund".parse().unwrap(),
        version: Some("1".to_owned()),
        args_schema: json!({ "properties": { "amount": { "type": "integer", "maximum": 100 } },
            "required": ["amount"] }),
        max_uses: 2,
        expires_in: 60 * 60_000,
        reason: None,
        call: None,
    }
}

/// Created by ada at minute 0.
pub(super) fn standing(number: u32) -> CountedStandingApproval {
    CountedStandingApproval {
        approval: StandingApproval {
            workspace: acme(),
            id: id(number),
            terms: terms(),
            created_by: "ada".parse().unwrap(),
            created_at: minute(0),
            revoked: None,
            version: 1,
        },
        used: 0,
    }
}

pub(super) fn gated(args: &Value) -> HoldSpec {
    let item = json!({ "id": "step-02", "tool": "payments.refund", "version": "1", "args": args,
        "digest": "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4" });
    let item: ApprovalItem = serde_json::from_value(item).unwrap();
    HoldSpec {
        step: Some("step-02".to_owned()),
        agent: Some("refund".parse().unwrap()),
        items: vec![item],
        ..spec(HoldKind::Approval)
    }
}

pub(super) fn open(spec: HoldSpec) -> HoldState {
    HoldState::Open {
        spec: Box::new(spec),
        deadline: None,
    }
}

fn use_number(effect: &Effect) -> Option<u32> {
    if let Effect::StandingApprovalUsed { number, .. } = effect {
        return Some(*number);
    }
    None
}

/// Asks with these standing approvals. Returns the numbers of the uses.
pub(super) fn ask(standing: Vec<CountedStandingApproval>, spec: HoldSpec) -> (World, Vec<u32>) {
    let mut world = World::new();
    world.standing = standing;
    world.now = minute(5);
    world.desired_state(1, open(spec));
    let uses = world.effects.iter().filter_map(use_number);
    let uses = uses.collect();
    (world, uses)
}

/// Of the call of [`gated`] with an early approval by ada.
pub(super) fn early(change: impl FnOnce(&mut PlannedCall)) -> CountedStandingApproval {
    let mut one = standing(1);
    let item = gated(&json!({ "amount": 100 })).items.remove(0);
    let mut call = PlannedCall {
        run: hold(1).run,
        step: item.id,
        digest: item.digest,
    };
    change(&mut call);
    one.approval.terms.call = Some(call);
    one.approval.terms.args_schema = json!({});
    one.approval.terms.max_uses = 1;
    one
}

pub(super) fn is_open(world: &World) -> bool {
    world.request.as_ref().unwrap().is_open()
}

#[test]
fn a_covered_call_is_approved_in_the_name_of_the_creator() {
    let (world, uses) = ask(vec![standing(1)], gated(&json!({ "amount": 100 })));
    assert_eq!(uses, [1]);
    let request = world.request.as_ref().unwrap();
    let Phase::Decided {
        outcome, by, data, ..
    } = &request.phase
    else {
        panic!("{:?}", request.phase);
    };
    assert_eq!((*outcome, by.as_str()), (HoldOutcome::Approved, "ada"));
    let note = format!("standing approval {}, use 1 of 2", id(1));
    assert_eq!(*data, json!(note));
    assert!(
        world
            .effects
            .iter()
            .any(|one| matches!(one, Effect::Close(..)))
    );
    let events = world.effects.iter();
    let events: Vec<_> = events
        .filter_map(Effect::try_as_request_event_ref)
        .collect();
    let [(_, event)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(event.kind, RequestEventKind::Decided);
    assert_eq!(event.to, Vec::<String>::new(), "no recipient was asked");
}

/// Every doubt means that people are asked.
#[test]
fn a_call_outside_of_the_terms_is_asked_as_usual() {
    let small = json!({ "amount": 1 });
    type Change = fn(&mut CountedStandingApproval);
    let changes: [(&str, Change); 7] = [
        ("another agent", |one| {
            one.approval.terms.agent = "other".parse().unwrap();
        }),
        ("another tool", |one| {
            one.approval.terms.tool = "other".parse().unwrap();
        }),
        ("another version", |one| {
            one.approval.terms.version = Some("2".to_owned());
        }),
        ("no version", |one| one.approval.terms.version = None),
        ("used up", |one| one.used = 2),
        ("expired", |one| one.approval.terms.expires_in = 5 * 60_000),
        ("a stranger", |one| {
            one.approval.created_by = "bob".parse().unwrap();
        }),
    ];
    for (name, change) in changes {
        let mut one = standing(1);
        change(&mut one);
        let (world, uses) = ask(vec![one], gated(&small));
        assert!(uses.is_empty() && is_open(&world), "{name}");
    }
    for args in [
        json!({ "amount": 101 }),
        json!({}),
        json!({ "amount": "1" }),
        json!(null),
    ] {
        let (world, uses) = ask(vec![standing(1)], gated(&args));
        assert!(uses.is_empty() && is_open(&world), "{args}");
    }
    let mut input = gated(&small);
    input.kind = HoldKind::Input;
    input.options = vec!["yes".to_owned(), "no".to_owned()];
    assert!(is_open(&ask(vec![standing(1)], input).0), "not an approval");
}

/// The rights of the creator count at the use, as for a decision of that moment.
/// S2-R2: limits say nothing of arguments that are hidden, so people are asked.
#[test]
fn a_call_with_hidden_arguments_is_asked_as_usual() {
    let mut spec = gated(&json!({ "amount": 20, "to": "ada" }));
    let (world, _) = ask(vec![standing(1)], spec.clone());
    assert!(!is_open(&world), "it covers the call");
    spec.items[0].redaction = vec!["args.pin".to_owned()];
    let (world, used) = ask(vec![standing(1)], spec);
    assert!(is_open(&world) && used.is_empty());
}

#[test]
fn a_creator_without_the_right_does_not_vote() {
    let small = json!({ "amount": 1 });
    let ask_with = |change: fn(&mut World)| {
        let mut world = World::new();
        world.user("ada", &["member", "ops"]);
        world.standing = vec![standing(1)];
        change(&mut world);
        let to = vec!["@role.ops".to_owned()];
        let spec = HoldSpec {
            to,
            ..gated(&small)
        };
        world.desired_state(1, open(spec));
        is_open(&world)
    };
    assert!(!ask_with(|_| ()));
    assert!(ask_with(|world| world
        .users
        .get_mut("ada")
        .unwrap()
        .active = false));
    assert!(ask_with(|world| drop(world.users.remove("ada"))));
    assert!(ask_with(|world| world.user("ada", &["viewer"])));
}

#[test]
fn the_requester_does_not_approve_by_a_standing_approval() {
    let mut spec = gated(&json!({ "amount": 1 }));
    spec.requester = Some("ada".to_owned());
    spec.policy.not_requester = true;
    let (world, uses) = ask(vec![standing(1)], spec);
    assert!(uses.is_empty() && is_open(&world));
}

/// An approval that became void, or a call that a person has sent back, is for people.
#[test]
fn a_call_that_is_asked_again_is_asked_of_people() {
    let spec = HoldSpec {
        asks_again: Some(hold(7)),
        ..gated(&json!({ "amount": 1 }))
    };
    let (world, uses) = ask(vec![standing(1)], spec);
    assert!(uses.is_empty() && is_open(&world));
}

/// A run that is paused when its step asks: the decision is kept until it is resumed.
#[test]
fn a_frozen_request_is_decided_too() {
    let mut world = World::new();
    world.standing = vec![standing(1)];
    let frozen = HoldState::Frozen {
        spec: Box::new(gated(&json!({ "amount": 1 }))),
        since: minute(0),
        remaining_ms: None,
    };
    world.desired_state(1, frozen);
    assert!(!is_open(&world));
}

/// Two requests of one batch take two uses: the first decision tells the second one.
#[test]
fn a_second_request_of_a_batch_counts_the_use_of_the_first() {
    let mut world = World::new();
    world.standing = vec![standing(1)];
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let input = RequestInput::SetDesired {
            rev: 1,
            state: open(gated(&json!({ "amount": 1 }))),
        };
        let input = Input::Request {
            workspace: acme(),
            id: world.id,
            input,
        };
        let Ok(Outcome::Decided(change)) = world.decide(None, &input) else {
            panic!("a decision");
        };
        numbers.extend(change.effects.iter().filter_map(use_number));
        for (_, fact) in change.facts {
            if let Some(standing) = fact.try_as_standing_approvals().filter(|it| !it.is_empty()) {
                world.standing = standing;
            }
        }
    }
    assert_eq!(numbers, [1, 2], "the third one asks");
}

/// `need: 2`: a standing approval is one vote, and two of one person are one vote too.
#[test]
fn a_quorum_needs_standing_approvals_of_several_people() {
    let spec = || HoldSpec {
        policy: Policy {
            need: 2,
            not_requester: false,
        },
        ..gated(&json!({ "amount": 1 }))
    };
    let (mut world, uses) = ask(vec![standing(1), standing(2)], spec());
    assert_eq!(uses, [1], "one vote of ada");
    assert!(is_open(&world));
    let approve = || holdpoint_contracts::handoff::Decision::approve(None);
    world.decide_as("ada", approve()).unwrap();
    assert!(is_open(&world), "ada has voted already");
    world.decide_as("oscar", approve()).unwrap();
    assert!(!is_open(&world));

    let mut of_oscar = standing(2);
    of_oscar.approval.created_by = "oscar".parse().unwrap();
    let (world, uses) = ask(vec![standing(1), of_oscar], spec());
    assert_eq!(uses, [1, 1]);
    assert!(!is_open(&world));
}

#[test]
fn the_one_that_expires_first_is_used_first_and_only_that_one() {
    let mut early = standing(2);
    early.approval.terms.expires_in = 30 * 60_000;
    early.used = 1;
    let (world, uses) = ask(vec![standing(1), early], gated(&json!({ "amount": 1 })));
    assert_eq!(uses, [2], "the second use of the early one");
    assert!(!is_open(&world));
}

/// A desired state that comes again, or a withdrawal, uses nothing.
#[test]
fn a_request_is_voted_for_once() {
    let (mut world, _) = ask(vec![standing(1)], gated(&json!({ "amount": 1 })));
    let before = world.effects.len();
    world.desired_state(2, open(gated(&json!({ "amount": 1 }))));
    world.desired_state(3, gone());
    let later = world.effects.iter().skip(before);
    let uses = later.filter(|one| matches!(one, Effect::StandingApprovalUsed { .. }));
    assert_eq!(uses.count(), 0);
}

fn send(
    world: &World,
    known: Option<&StandingApproval>,
    caller: Caller,
    input: StandingApprovalInput,
) -> Result<Option<StandingApproval>, Problem> {
    let input = Input::StandingApproval {
        workspace: acme(),
        id: id(1),
        caller,
        input,
    };
    let state = known.map(|one| Aggregate::StandingApproval(Box::new(one.clone())));
    match world.decide(state.as_ref(), &input) {
        Ok(Outcome::Decided(change)) => {
            let next = change.state.try_as_standing_approval().unwrap();
            Ok(Some(*next))
        }
        Ok(Outcome::Unchanged(_)) => Ok(None),
        Err(Undecided::Refused(refusal)) => Err(refusal.problem()),
        Err(Undecided::NeedsMore(needs)) => panic!("the world has no {needs:?}"),
    }
}

fn create(terms: StandingApprovalTerms) -> StandingApprovalInput {
    StandingApprovalInput::Create(Box::new(CreateStandingApproval { id: id(1), terms }))
}

#[test]
fn a_person_who_may_decide_creates_and_revokes_one() {
    let world = World::new();
    let made = send(&world, None, world.caller("ada"), create(terms()));
    let made = made.unwrap().unwrap();
    assert_eq!(made, standing(1).approval);
    let again = send(&world, Some(&made), world.caller("ada"), create(terms()));
    assert_eq!(again.unwrap(), None, "a repetition");
    let other = StandingApprovalTerms {
        max_uses: 9,
        ..terms()
    };
    let taken = send(&world, Some(&made), world.caller("ada"), create(other));
    assert_eq!(taken.unwrap_err().code, "already_exists");

    let revoke = || StandingApprovalInput::Revoke;
    let refused = send(&world, Some(&made), world.caller("bob"), revoke());
    assert_eq!(refused.unwrap_err().status, 403);
    let unknown = send(&world, None, world.caller("ada"), revoke());
    assert_eq!(unknown.unwrap_err().status, 404);
    for name in ["ada", "olga"] {
        let revoked = send(&world, Some(&made), world.caller(name), revoke());
        let revoked = revoked.unwrap().unwrap();
        let counted = CountedStandingApproval {
            approval: revoked.clone(),
            used: 0,
        };
        assert_eq!(counted.status(minute(1)), StandingApprovalStatus::Revoked);
        let again = send(&world, Some(&revoked), world.caller(name), revoke());
        assert_eq!(again.unwrap(), None, "revoked once");
        let (world, uses) = ask(vec![counted], gated(&json!({ "amount": 1 })));
        assert!(uses.is_empty() && is_open(&world));
    }
}

/// A program never approves: unsigned commands and the role `agent` are refused.
#[test]
fn a_program_creates_none() {
    let mut world = World::new();
    world.user("robot", &["agent"]);
    let callers = [
        unsigned("ada"),
        unsigned("service:gateway"),
        world.caller("robot"),
    ];
    for caller in callers {
        let refused = send(&world, None, caller, create(terms())).unwrap_err();
        assert_eq!(refused.status, 403);
    }
}

#[test]
fn terms_outside_of_the_limits_are_refused_with_their_place() {
    let world = World::new();
    type Change = fn(&mut StandingApprovalTerms);
    let changes: [(&str, Change); 10] = [
        ("/max_uses", |terms| terms.max_uses = 0),
        ("/max_uses", |terms| terms.max_uses = 10_001),
        ("/expires_in", |terms| terms.expires_in = 59_999),
        ("/expires_in", |terms| {
            terms.expires_in = 90 * 86_400_000 + 1;
        }),
        ("/args_schema", |terms| terms.args_schema = json!("all")),
        ("/args_schema", |terms| {
            terms.args_schema = json!({ "$ref": "http://x.example" });
        }),
        ("/version", |terms| terms.version = Some("v".repeat(201))),
        ("/reason", |terms| terms.reason = Some("r".repeat(10_001))),
        ("/call/digest", |terms| {
            *terms = early(|call| call.digest = "8f43".to_owned()).approval.terms;
        }),
        ("/max_uses", |terms| {
            *terms = early(|_| {}).approval.terms;
            terms.max_uses = 2;
        }),
    ];
    for (pointer, change) in changes {
        let mut wanted = terms();
        change(&mut wanted);
        let refused = send(&world, None, world.caller("ada"), create(wanted)).unwrap_err();
        let pointers: Vec<_> = refused
            .errors
            .iter()
            .map(|one| one.pointer.as_deref())
            .collect();
        assert_eq!(pointers, [Some(pointer)]);
    }
    let mut full = World::new();
    full.standing = (0..10).map(standing).collect();
    let refused = send(&full, None, full.caller("ada"), create(terms())).unwrap_err();
    assert_eq!(refused.code, "too_many_standing_approvals");
    assert!(refused.detail.contains("10"), "{}", refused.detail);
    let of_another_call = |mut one: CountedStandingApproval| {
        one.approval.terms.tool = "other".parse().unwrap();
        one
    };
    full.standing = (0..200).map(standing).map(of_another_call).collect();
    let refused = send(&full, None, full.caller("ada"), create(terms())).unwrap_err();
    assert_eq!(refused.code, "too_many_standing_approvals");
    assert!(refused.detail.contains("200"), "{}", refused.detail);
}
