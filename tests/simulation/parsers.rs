//! Random texts for what reads text from outside: none may panic, and none may take long (A-C2, A-C3, Mend 7).
//!
//! Each target begins with texts that are right and changes them at random places. A text that fails is
//! told with its seed: `HOLDPOINT_SEED=<n> cargo test --workspace --test simulation parsers` plays it again.
//! `HOLDPOINT_FUZZ_SECONDS=<n>` says how long each target runs: 2 unless said, 20 where `CI` is set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use holdpoint_auth::Secrets;
use holdpoint_clock::Clock;
use holdpoint_contracts::form::Form;
use holdpoint_contracts::{duration, subject, value_limits};
use holdpoint_egress::EgressPolicy;
use holdpoint_executor::Executor;
use holdpoint_executor::domain::expression::{self, Scope};
use holdpoint_executor::domain::plan::Plan;
use holdpoint_executor::domain::rehearsal::child_plans::ChildPlans;
use holdpoint_executor::domain::rehearsal::script::Script;
use holdpoint_handoff::Handoff;
use holdpoint_kernel::Service;
use holdpoint_notification::{Notification, PublicUrl};
use holdpoint_scheduler::Scheduler;
use serde_json::{Value, json};

use crate::chance::Chance;

/// Longest time for one text, in a build without optimisation beside other tests.
const LONGEST: Duration = Duration::from_secs(5);

/// Largest text that is tried: as large as a body of the API may be.
const BYTES_MAX: usize = 1_048_576;

/// What breaks readers.
const WORDS: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "- ",
    "\n",
    "  ",
    "&a ",
    "*a",
    "!!str ",
    "{{ ",
    " }}",
    "null",
    "1e999",
    "-0",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\u{202e}",
    "\u{feff}",
    "\0",
    "((",
    ".map(x, x + x)",
    "&&",
    "📎",
];

fn seconds() -> Duration {
    let given = std::env::var("HOLDPOINT_FUZZ_SECONDS").ok();
    let default = if std::env::var_os("CI").is_some() {
        20
    } else {
        2
    };
    Duration::from_secs(given.map_or(default, |given| given.parse().unwrap()))
}

/// Changes a text at some random places.
fn changed(chance: &mut Chance, texts: &[String]) -> String {
    let mut text = texts[chance.place(texts.len())].clone().into_bytes();
    for _change in 0..=chance.below(8) {
        let at = chance.place(text.len() + 1);
        let end = (at + chance.place(40)).min(text.len());
        match chance.below(6) {
            0 if at < text.len() => text[at] = u8::try_from(chance.below(256)).unwrap(),
            1 => drop(text.drain(at..end)),
            2 => {
                let most = if chance.one_in(20) { 20_000 } else { 20 };
                let times = 1 + chance.place(most);
                let again = text[at..end].repeat(times);
                text.splice(at..at, again);
            }
            3 => {
                let other = texts[chance.place(texts.len())].as_bytes();
                let from = chance.place(other.len() + 1);
                text.splice(at..at, other[from..].iter().copied());
            }
            _ => {
                let word = WORDS[chance.place(WORDS.len())];
                let times = if chance.one_in(20) { 5_000 } else { 1 };
                text.splice(at..at, word.repeat(times).into_bytes());
            }
        }
        text.truncate(BYTES_MAX);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads changed texts until the time is over.
fn try_texts(name: &str, texts: &[String], read: impl Fn(&str)) {
    let given = std::env::var("HOLDPOINT_SEED").ok();
    let given: Option<u64> = given.map(|seed| seed.parse().unwrap());
    let (started, length) = (Instant::now(), seconds());
    let first = given.unwrap_or_else(|| u64::from(std::process::id()) << 32);
    let mut seed = first;
    while given.is_none_or(|_| seed == first) && (given.is_some() || started.elapsed() < length) {
        let text = changed(&mut Chance::of(seed), texts);
        let at = Instant::now();
        let survived = catch_unwind(AssertUnwindSafe(|| read(&text))).is_ok();
        let took = at.elapsed();
        let shown: String = text.chars().take(2_000).collect();
        assert!(survived, "{name} panics: HOLDPOINT_SEED={seed}\n{shown}");
        assert!(
            took < LONGEST,
            "{name} takes {took:?}: HOLDPOINT_SEED={seed}\n{shown}"
        );
        seed += 1;
    }
}

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Service, verb and body of each command that the golden files have.
fn messages(service: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/contracts/golden");
    let mark_started = format!("{service}.");
    let mut find_request = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some(rest) = name.strip_prefix(&mark_started)
            && !rest.contains(".answer.")
        {
            let verb = rest.split('.').next().unwrap();
            let body = std::fs::read_to_string(entry.path()).unwrap();
            find_request.push(format!("{verb}\n{body}"));
        }
    }
    assert!(!find_request.is_empty(), "{service} has golden files");
    find_request
}

fn decodes<S: Service>(service: &S) {
    try_texts(S::NAME, &messages(S::NAME), |text| {
        let (verb, body) = text.split_once('\n').unwrap_or((text, ""));
        let subject = format!("hp.acme.cmd.{}.3.{verb}", S::NAME);
        if let Some(parts) = subject::parse(&subject) {
            drop(service.decode(&parts, body.as_bytes()));
        }
    });
}

#[test]
fn agents() {
    let mut texts: Vec<_> = [
        "concierge",
        "echo",
        "outreach",
        "outreach-in-words",
        "refund",
    ]
    .iter()
    .map(|name| file(&format!("examples/{name}.yaml")))
    .collect();
    texts.push(json!({ "agent": "a", "steps": [{ "wait": "5 days" }] }).to_string());
    try_texts("agents", &texts, |text| {
        drop(Plan::compile_with(text, None));
    });
}

/// Words: every way to write a form, and the texts that are refused.
#[test]
fn instructions() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/instructions/src/tests/forms");
    let files = std::fs::read_dir(folder).unwrap();
    let texts = files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let mut lines: Vec<_> = texts
        .flat_map(|text| {
            text.lines()
                .map(|line| line.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|line| !line.is_empty())
        .collect();
    assert!(lines.len() > 500, "{}", lines.len());
    lines.push("Wait 5 days\nIf no reply, log \"x\"\nOtherwise, finish".to_owned());
    try_texts("instructions", &lines, |text| {
        if let Ok(steps) = holdpoint_instructions::compile(text) {
            for step in steps {
                drop(holdpoint_instructions::write_step(&step.fields));
            }
        }
    });
}

#[test]
fn scripts_of_rehearsals() {
    let plan = Plan::compile_with(&file("examples/outreach.yaml"), None).unwrap();
    let texts = [
        file("examples/outreach-script.yaml"),
        "tools: [{ step: step-01, times: 2, fail: The server answered 503. }]".to_owned(),
        "people: [{ kind: handoff, after: 4 hours, do: complete, comment: x }]".to_owned(),
        "input: { a: 1 }\nsignals: [{ name: paid, after: 2 days, data: { n: 1 } }]".to_owned(),
    ];
    try_texts("scripts of rehearsals", &texts, |text| {
        drop(Script::parse(text, &plan, &ChildPlans::new()));
    });
}

#[test]
fn conditions_and_templates() {
    let texts = [
        "input.l.all(a, input.l.exists(b, a + b > 3)) && contact.replied == false",
        "has(input.s) ? input.s.matches('^(a|b)+$') : size(input.l) in [1, 2]",
        "Hello {{ contact.name }}, {{ input.l.map(x, x * 2) }} and $find.x",
        "duration('5h') > duration('1m') || timestamp(run.started_at) < timestamp('2027-01-01T00:00:00Z')",
    ];
    let texts = texts.map(str::to_owned);
    let input = json!({ "l": (0..50).collect::<Vec<_>>(), "s": "aab" });
    let (contact, run) = (
        json!({ "name": "Ada" }),
        json!({ "id": "r", "started_at": "" }),
    );
    try_texts("conditions and templates", &texts, |text| {
        let scope = Scope {
            input: &input,
            contact: Some(&contact),
            run: &run,
            item: None,
            steps: [("find".to_owned(), json!({ "x": 1 }))].into(),
            ids: ["find".to_owned()].into(),
        };
        drop(expression::evaluate(text, &scope));
        drop(expression::resolve(&json!({ "a": text }), &scope));
    });
}

#[test]
fn forms_values_and_durations() {
    let schema = json!({
        "type": "object", "required": ["amount"], "properties": {
            "amount": { "type": "integer", "minimum": 1, "maximum": 500 },
            "reason": { "type": "string", "maxLength": 20, "pattern": "^[a-z ]+$" },
            "kind": { "type": "string", "enum": ["a", "b"] } }
    });
    let texts = [
        schema.to_string(),
        json!({ "amount": 3 }).to_string(),
        "90 days".to_owned(),
        "1h30m".to_owned(),
    ];
    try_texts("forms, values and durations", &texts, |text| {
        drop(duration::parse(text));
        drop(subject::parse(text));
        let _limits = value_limits::check_json(text.as_bytes());
        if let Ok(value) = serde_json::from_str::<Value>(text)
            && let Ok(form) = Form::parse(&value)
        {
            drop(form.check(&value));
        }
    });
}

#[test]
fn messages_of_executor_and_handoff() {
    let keys = || Secrets::fresh().unwrap().keys().unwrap();
    let clock = || Clock::standing_at("2027-01-01T00:00:00Z".parse().unwrap());
    decodes(&Executor::new(keys(), clock()));
    decodes(&Handoff::new(keys().trust, clock()));
}

#[test]
fn messages_of_the_others() {
    let trust = Secrets::fresh().unwrap().keys().unwrap().trust;
    let clock = Clock::standing_at("2027-01-01T00:00:00Z".parse().unwrap());
    decodes(&Scheduler::new(trust.clone(), clock.clone()));
    let (notification, _jobs) =
        Notification::new(trust, EgressPolicy::PublicOnly, clock, PublicUrl::of(None));
    decodes(&notification);
}
