use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{compile, write_step};

/// Texts with quotes, backslashes, line breaks, placeholders and other scripts.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        "[a-z ]{1,12}",
        ".{1,12}",
        Just("a\"b\\c\nd\te\u{0}“”".to_owned()),
        Just("$5.00 {{ x".to_owned()),
        Just("Hello {{ contact.name }}".to_owned()),
        Just("{{ input.x }}".to_owned()),
        Just("$find.x".to_owned()),
    ]
    .prop_filter("not blank", |text| !text.trim().is_empty())
    .boxed()
}

fn name() -> BoxedStrategy<String> {
    "[a-zA-Z0-9][a-zA-Z0-9_-]{0,8}"
        .prop_filter("reserved", |name| {
            let other = [
                "a", "an", "the", "me", "him", "her", "it", "us", "as", "my", "our",
            ];
            !other.contains(&name.to_lowercase().as_str())
        })
        .boxed()
}

fn duration() -> BoxedStrategy<String> {
    prop_oneof![
        Just("5 days".to_owned()),
        Just("1 day 12 hours".to_owned()),
        Just("1.5 hours".to_owned()),
        (2_u32..2_000).prop_map(|minutes| format!("{minutes} minutes")),
        (1_u32..90, 2_u32..24).prop_map(|(days, hours)| {
            let unit = if days == 1 { "day" } else { "days" };
            format!("{days} {unit} {hours} hours")
        }),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

fn args() -> BoxedStrategy<Value> {
    let name = prop_oneof![
        name(),
        text(),
        Just("timeout".to_owned()),
        Just("at".to_owned())
    ];
    prop::collection::vec((name, value()), 0..4)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
        .boxed()
}

fn recipients() -> BoxedStrategy<Value> {
    let one = prop_oneof![
        name().prop_map(|name| format!("@user.{name}")),
        name().prop_map(|name| format!("@role.{name}")),
        Just("$input.rep".to_owned()),
    ];
    prop_oneof![
        one.clone().prop_map(Value::from),
        prop::collection::vec(one, 2..4).prop_map(Value::from),
    ]
    .boxed()
}

/// A field that is there or not.
fn field<S>(name: &'static str, value: S) -> BoxedStrategy<Vec<(String, Value)>>
where
    S: Strategy + 'static,
    S::Value: Into<Value>,
{
    prop::option::of(value)
        .prop_map(move |value| {
            value
                .map(|value| (name.to_owned(), value.into()))
                .into_iter()
                .collect()
        })
        .boxed()
}

fn object(first: &Value, more: Vec<Vec<(String, Value)>>) -> Value {
    let first = first.as_object().cloned().unwrap_or_default();
    Value::Object(
        first
            .into_iter()
            .chain(more.into_iter().flatten())
            .collect(),
    )
}

fn wait() -> BoxedStrategy<Value> {
    let zone = || {
        field(
            "time_zone",
            prop_oneof![Just("Europe/Berlin"), Just("UTC"), Just("Etc/GMT+5")],
        )
    };
    let until = prop_oneof![
        Just("2026-12-24"),
        Just("2028-02-29T09:00"),
        Just("$input.when")
    ];
    let days = prop_oneof![Just("monday"), Just("sunday")];
    let at = field(
        "at",
        (0_u32..24, 0_u32..60).prop_map(|(hour, minute)| format!("{hour:02}:{minute:02}")),
    );
    let value = prop_oneof![
        duration().prop_map(Value::from),
        (until, zone()).prop_filter_map("a placeholder has no zone", |(until, zone)| {
            let is_allowed = zone.is_empty() || !until.starts_with('$');
            is_allowed.then(|| object(&json!({ "until": until }), vec![zone]))
        }),
        (days, at, zone())
            .prop_map(|(day, at, zone)| object(&json!({ "weekday": day }), vec![at, zone])),
        (1_u64..90, zone())
            .prop_map(|(days, zone)| object(&json!({ "business_days": days }), vec![zone])),
    ];
    value.prop_map(|value| json!({ "wait": value })).boxed()
}

/// `for_each`, perhaps with `parallel`.
fn items() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::option::of(prop::option::of(1_u64..=100)).prop_map(|each| match each {
        None => Vec::new(),
        Some(None) => vec![("for_each".to_owned(), json!("$find.x"))],
        Some(Some(count)) => vec![
            ("for_each".to_owned(), json!("{{ input.x }}")),
            ("parallel".to_owned(), json!(count)),
        ],
    })
}

fn ask() -> BoxedStrategy<Value> {
    let options = prop::collection::btree_set("[a-z\" ]{1,8}[a-z]", 2..5)
        .prop_map(|options| Value::from(options.into_iter().collect::<Vec<String>>()));
    let effect = prop_oneof![
        Just(json!({})),
        Just(json!({ "on_timeout": "skip" })),
        text().prop_map(|text| json!({ "on_timeout": "default", "default": text })),
    ];
    let first = (text(), effect).prop_map(|(question, effect)| {
        let effect = effect.as_object().cloned().unwrap_or_default();
        object(
            &json!({ "question": question }),
            vec![effect.into_iter().collect()],
        )
    });
    let priority = field("priority", prop_oneof![Just("low"), Just("urgent")]);
    (
        first,
        field("to", recipients()),
        field("options", options),
        field("timeout", duration()),
        priority,
        items(),
    )
        .prop_map(|(first, to, options, timeout, priority, each)| {
            object(
                &json!({ "ask": object(&first, vec![to, options, timeout, priority]) }),
                vec![each],
            )
        })
        .boxed()
}

fn handoff() -> BoxedStrategy<Value> {
    let timeout = prop_oneof![Just(Value::from(0)), duration().prop_map(Value::from)];
    let effect = field(
        "on_timeout",
        prop_oneof![Just("continue"), Just("escalate")],
    );
    let modifiers = (
        field("timeout", timeout),
        effect,
        field("message", text()),
        field("warm_lead", Just(true)),
    );
    (recipients(), modifiers, items())
        .prop_map(|(to, (timeout, effect, message, warm), each)| {
            let handoff = object(&json!({ "to": to }), vec![timeout, effect, message, warm]);
            object(&json!({ "handoff": handoff }), vec![each])
        })
        .boxed()
}

fn tool() -> BoxedStrategy<Value> {
    let known = prop_oneof![
        (text(), text()).prop_map(|(a, b)| json!({ "tool": "send_email", "args": { "to": "x@y.example", "subject": a, "body": b } })),
        text().prop_map(|text| json!({ "tool": "send_email", "args": { "to": "{{ contact.email }}", "template": text } })),
        args().prop_map(|set| json!({ "tool": "update_contact", "args": { "set": set } })),
        text().prop_map(|text| json!({ "tool": "add_tag", "args": { "tag": text } })),
        prop::collection::vec(text(), 2..5).prop_map(|tags| json!({ "tool": "remove_tag", "args": { "tags": tags } })),
        text().prop_map(|text| json!({ "tool": "log", "args": { "message": text } })),
        (text(), duration()).prop_map(|(title, due)| json!({ "tool": "create_task", "args": { "title": title, "due": due } })),
        (name(), args()).prop_map(|(tool, args)| json!({ "tool": tool, "args": args })),
    ];
    let approval = (
        field("from", recipients()),
        field("decide_within", duration()),
    )
        .prop_map(|(from, within)| object(&json!({}), vec![from, within]));
    let retry = (1_u64..=100).prop_map(|attempts| json!({ "attempts": attempts }));
    (
        known,
        field("approval", approval),
        field("retry", retry),
        field("timeout", duration()),
        items(),
    )
        .prop_map(|(known, approval, retry, timeout, each)| {
            object(&known, vec![approval, retry, timeout, each])
        })
        .boxed()
}

fn other() -> BoxedStrategy<Value> {
    prop_oneof![
        field("timeout", duration())
            .prop_map(|timeout| json!({ "wait_for": object(&json!({ "signal": "contact.reply" }), vec![timeout, vec![("on_timeout".to_owned(), json!("skip"))]]) })),
        (name(), field("timeout", duration()), field("on_timeout", Just("skip")))
            .prop_map(|(signal, timeout, effect)| json!({ "wait_for": object(&json!({ "signal": signal }), vec![timeout, effect]) })),
        (name(), field("input", args()), field("timeout", duration()))
            .prop_map(|(agent, input, timeout)| json!({ "run": object(&json!({ "agent": agent }), vec![input, timeout]) })),
        text().prop_map(|text| json!({ "finish": text })),
        text().prop_map(|text| json!({ "finish": { "summary": text, "status": "failed" } })),
    ].boxed()
}

/// Conditions in words and conditions in CEL.
fn condition() -> BoxedStrategy<String> {
    let test = prop_oneof![
        Just("no reply".to_owned()),
        Just("contact replied".to_owned()),
        Just("contact replied positively".to_owned()),
        Just("contact did not reply negatively".to_owned()),
        Just("contact.a.b is missing".to_owned()),
        Just("$find.orders[0].x is set".to_owned()),
        Just("$step-01.answer is yes".to_owned()),
        text().prop_map(|text| format!("contact.plan is {}", crate::quotes::quote(&text))),
        text().prop_map(|text| format!(
            "input.plan does not contain {}",
            crate::quotes::quote(&text)
        )),
        any::<i64>().prop_map(|number| format!("$input.x is at least {number}")),
        any::<i64>().prop_map(|number| format!("contact.x is not {number}")),
        text().prop_map(|text| format!("deal.stage is not {}", crate::quotes::quote(&text))),
        Just("deal.closed_at is set".to_owned()),
    ];
    let joined = (
        prop::collection::vec(test, 1..4),
        prop_oneof![Just(" and "), Just(" or ")],
    )
        .prop_map(|(tests, joint)| tests.join(joint));
    let negated =
        (joined, 0_usize..4).prop_map(|(tests, count)| "it is not so that ".repeat(count) + &tests);
    prop_oneof![4 => negated, 1 => Just("{{ size($find.x) > 1 || {'a': 1}.a == 2 }}".to_owned())]
        .boxed()
}

fn any_step() -> BoxedStrategy<Map<String, Value>> {
    let when = prop::option::of(condition()).prop_map(|condition| {
        let line = condition.map(|condition| format!("If {condition}, finish"));
        // A condition may have two opposite tests, and is refused then.
        let step = line.and_then(|line| compile(&line).ok()?.pop());
        let when = step.and_then(|step| step.fields.get("when").cloned());
        when.map(|when| ("when".to_owned(), when))
            .into_iter()
            .collect::<Vec<_>>()
    });
    let id = field(
        "id",
        name().prop_filter("reserved", |name| {
            !["input", "run", "item", "contact"].contains(&name.as_str())
        }),
    );
    let kind = prop_oneof![wait(), ask(), handoff(), tool(), other()];
    (kind, when, id)
        .prop_map(|(kind, when, id)| {
            object(&kind, vec![when, id])
                .as_object()
                .cloned()
                .unwrap_or_default()
        })
        .boxed()
}

/// A line that repeats its step, and how often.
fn repeated_line() -> BoxedStrategy<(String, usize)> {
    let action = prop::sample::select(vec![
        "email contact \"Follow-up\"",
        "call x",
        "call x with a $input.a and b [1, {\"c\": null}]",
        "set contact.stage to \"won\"",
        "add the tags \"a\" and \"b\"",
        "create task \"Call\" due in 2 days",
        "log \"x\"",
    ]);
    let end = prop::sample::select(vec![
        "contact replies",
        "contact replies positively",
        "a reply comes or contact.stage is \"won\"",
        "contact.plan does not contain \"pro\"",
        "$find.status is \"paid\"",
        "$find.orders[0].x is set and contact replied",
        "it is not so that $find.n is at most 5",
        "{{ contact.a > 1 || contact.b == 'x' }}",
    ]);
    let is_first = any::<bool>();
    (action, duration(), end, 2_usize..=12, is_first)
        .prop_map(|(action, period, end, times, is_first)| {
            let parts = format!("every {period} until {end}, at most {times} times");
            let line = if is_first {
                format!("Repeat {parts}: {action} named find")
            } else {
                format!("{action} as find {parts}")
            };
            (line, times)
        })
        .boxed()
}

/// Words and marks of the grammar, and unfinished ones.
const PIECES: &str = "wait¦for¦until¦5¦days¦2026-12-24¦9:00¦in¦Europe/Berlin¦hand¦off¦to¦@user.a¦as¦\
    warm¦lead¦,¦.¦if¦unless¦otherwise¦no¦reply¦contact¦replied¦and¦or¦\
    it is not so that¦contact.plan¦is¦not¦\"x\"¦\"¦“¦{{ a }}¦{{¦$x.y¦call¦with¦{¦}¦[¦\
    ]¦:¦timeout¦then¦skip¦ask¦options¦yes¦at most¦\n¦for each¦send¦email¦finish¦the¦\
    answer¦-¦1.¦after approval¦by¦set¦signal¦add¦remove¦tags¦tag¦\
    every¦until¦contact replies¦3¦times¦repeat¦log¦call¦x¦every 2 days until contact replies, at most 3 times¦\
    log \"x\"";

/// Words, marks and pieces of the grammar in any order.
fn pieces() -> BoxedStrategy<String> {
    let piece = prop_oneof![
        prop::sample::select(PIECES.split('¦').collect::<Vec<_>>()).prop_map(str::to_owned),
        ".{0,4}",
    ];
    prop::collection::vec(piece, 0..40)
        .prop_map(|pieces| pieces.join(" "))
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_step_has_words_that_mean_the_same(fields in any_step()) {
        let words = write_step(&fields);
        prop_assert!(words.is_some(), "{} has no words: {:?}", Value::Object(fields.clone()), crate::write_words::write(&fields));
        let steps = compile(&words.unwrap_or_default()).unwrap();
        prop_assert_eq!(&steps[0].fields, &fields);
    }

    #[test]
    fn a_repeated_line_has_words_that_mean_the_same((line, times) in repeated_line()) {
        let text = format!("Wait 1 day\n{line}\nIf $find.n is above 2, log $find.text\n");
        let steps = compile(&text);
        prop_assert!(steps.is_ok(), "{line}: {steps:?}");
        let steps = steps.unwrap_or_default();
        prop_assert_eq!(steps.len(), 2 * times + 1);
        let words: Option<Vec<String>> = steps.iter().map(|step| write_step(&step.fields)).collect();
        prop_assert!(words.is_some(), "{line}");
        let again = compile(&words.unwrap_or_default().join("\n")).unwrap();
        for (step, again) in steps.iter().zip(&again) {
            prop_assert_eq!(&step.fields, &again.fields);
        }
        prop_assert_eq!(steps.len(), again.len());
    }

    #[test]
    fn no_text_breaks_the_grammar(text in pieces()) {
        match compile(&text) {
            Ok(steps) => for step in steps {
                let words = write_step(&step.fields);
                prop_assert!(words.is_some(), "{}: {:?}", step.text, step.fields);
                let again = compile(&words.unwrap_or_default()).unwrap();
                prop_assert_eq!(&again[0].fields, &step.fields);
            },
            Err(errors) => for error in errors {
                prop_assert!(error.line >= 1 && error.column >= 1);
                prop_assert!(!error.message.is_empty() && error.text.chars().count() <= 80);
            },
        }
    }

    #[test]
    fn no_characters_break_the_grammar(text in ".{0,200}") {
        let _result = compile(&text).is_ok();
    }
}
