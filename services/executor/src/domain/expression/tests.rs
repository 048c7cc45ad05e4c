//! What authors see of placeholders and conditions.

use std::collections::{BTreeMap, BTreeSet};

use holdpoint_contracts::problem::FieldError;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

mod cost;

struct World {
    input: Value,
    contact: Value,
    run: Value,
}

impl World {
    fn new() -> Self {
        Self {
            input: json!({"n": 5, "x": 2.5, "big": u64::MAX, "name": "Ada", "none": null,
                "tags": ["a", "b"], "items": [{"sku": "k1", "qty": 2}], "$odd": 1}),
            contact: json!({"email": "ada@lindqvist.example", "replied": false, "company": null}),
            run: json!({"id": "run_1", "agent": "outreach", "started_at": "2026-01-01T00:00:00.000Z"}),
        }
    }

    fn scope(&self) -> Scope<'_> {
        let orders = json!({"orders": [{"id": "o-1", "total": 12}, {"id": "o-2", "total": 30}],
            "content-type": "text/plain", "answer": "yes"});
        Scope {
            input: &self.input,
            contact: Some(&self.contact),
            run: &self.run,
            item: None,
            steps: BTreeMap::from([
                ("step-01".to_owned(), orders),
                ("a_b".to_owned(), json!(1)),
                ("a-b".to_owned(), json!(2)),
                ("a.b".to_owned(), json!({"c": 3})),
            ]),
            ids: BTreeSet::from(["find".to_owned()]),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the calls read better")]
fn resolved(args: Value) -> Value {
    resolve(&args, &World::new().scope()).unwrap()
}

fn unresolved(text: &str) -> ResolveError {
    resolve(&json!(text), &World::new().scope()).unwrap_err()
}

fn decided(condition: &str) -> Result<Condition, EvalError> {
    evaluate(condition, &World::new().scope())
}

fn accepted(condition: &str) -> Result<BTreeSet<Reference>, Box<FieldError>> {
    let steps = BTreeMap::from([
        ("step-01".to_owned(), 0),
        ("find".to_owned(), 1),
        ("step-03".to_owned(), 2),
    ]);
    check(
        condition,
        Names {
            steps: &steps,
            before: Some(&[true, true, false]),
            has_item: false,
        },
    )
}

fn message(condition: &str) -> String {
    accepted(condition).unwrap_err().message
}

/// S2-R8
#[test]
fn one_placeholder_keeps_the_type_of_its_value() {
    assert_eq!(
        resolved(json!({
            "order": "$step-01.orders[0]", "id": "$step-01.orders[1].id", "all": "$step-01.orders",
            "key": "$step-01.content-type", "quoted": "$step-01[\"content-type\"]", "n": "$input.n", "f": "{{ input.x }}",
            "big": "{{ input.big }}", "null": "$input.none", "run": "$run.id", "mail": "$contact.email",
            "cel": "{{ $step-01.orders.map(o, o.total) }}", "sum": "{{ input.n + 1 }}",
        })),
        json!({
            "order": {"id": "o-1", "total": 12}, "id": "o-2",
            "all": [{"id": "o-1", "total": 12}, {"id": "o-2", "total": 30}],
            "key": "text/plain", "quoted": "text/plain", "n": 5, "f": 2.5, "big": u64::MAX, "null": null,
            "run": "run_1", "mail": "ada@lindqvist.example", "cel": [12, 30], "sum": 6,
        })
    );
}

/// S2-R8
#[test]
fn placeholders_inside_text_are_written_out() {
    assert_eq!(
        resolved(json!([
            "Hi {{ input.name }}, {{input.n}} of {{ $step-01.orders[0].total * 2 }} {{ contact.replied }}",
            "{{ input.tags }} {{ $step-01.orders[0] }}",
            "{{ {'a': {'b': 1}}['a'] }}!",
            "{{ '}}' + \"$step-01\" }}."
        ])),
        json!([
            "Hi Ada, 5 of 24 false",
            "[\"a\",\"b\"] {\"id\":\"o-1\",\"total\":12}",
            "{\"b\":1}!",
            "}}$step-01."
        ])
    );
}

/// S2-R8
#[test]
fn text_that_is_no_placeholder_stays_as_it_is() {
    let plain = json!({"a": "$5.00", "b": "ada@example.org", "c": "costs $input", "d": "$", "e": "$HOME/x", "f": "} } {",
        "$input.n": true, "g": "$$5", "h": ""});
    assert_eq!(resolved(plain.clone()), plain);
    assert_eq!(resolved(json!("$$step-01.x")), json!("$step-01.x"));
    assert_eq!(resolved(json!("$$input {{ input.n }}")), json!("$input 5"));
}

/// S2-R8
#[test]
fn what_cannot_be_resolved_is_named() {
    for (text, path) in [
        ("$step-01.orders[7].id", "$step-01.orders[7].id"),
        ("$step-09.x", "$step-09.x"),
        ("$input.none.x", "$input.none.x"),
        ("{{ contact.phone }}", "contact.phone"),
        ("Hi {{ $step-01.orders[7].id }}", "$step-01.orders[7].id"),
        ("{{ input.nope.deep + 1 }}", "input.nope.deep"),
        ("Hi {{ input.none }}", "input.none"),
        ("{{ contact.company.name + 'x' }}", "contact.company.name"),
    ] {
        let error = unresolved(text);
        assert_eq!(
            error,
            ResolveError::Unresolved {
                path: path.to_owned()
            },
            "{text}"
        );
        assert_eq!(error.code(), "unresolved_placeholder");
    }
    assert_eq!(
        unresolved("$step-09.x").to_string(),
        "`$step-09.x` has no value."
    );
    assert_eq!(
        unresolved("{{ input.n / 0 }}").to_string(),
        "`input.n / 0` cannot be computed: a number is divided by zero."
    );
}

#[test]
fn a_short_template_cannot_fill_the_memory() {
    let input = json!({"x": "y".repeat(700_000)});
    let scope = Scope {
        input: &input,
        ..World::new().scope().into_static()
    };
    let error = resolve(&json!(["$input.x", "$input.x"]), &scope).unwrap_err();
    assert_eq!(error, ResolveError::TooLarge(MAX_RESOLVED));
}

impl Scope<'_> {
    fn into_static(self) -> Scope<'static> {
        Scope {
            input: &Value::Null,
            contact: None,
            run: &Value::Null,
            item: None,
            steps: self.steps,
            ids: self.ids,
        }
    }
}

/// S0-AC5
#[test]
fn a_condition_answers_with_the_values_it_saw() {
    let condition = decided("contact.replied == false && $step-01.answer == \"yes\"").unwrap();
    assert!(condition.holds);
    assert_eq!(
        condition.values,
        BTreeMap::from([
            ("contact.replied".to_owned(), json!(false)),
            ("$step-01.answer".to_owned(), json!("yes")),
        ])
    );
    assert!(!decided("contact.replied").unwrap().holds);
    assert!(
        !decided("has(contact.phone) && contact.phone == 'x'")
            .unwrap()
            .holds
    );
    assert!(
        decided("timestamp(run.started_at) + duration('24h') < timestamp('2026-02-01T00:00:00Z')")
            .unwrap()
            .holds
    );
}

/// S0-AC5
#[test]
fn whole_and_broken_numbers_compare_by_value() {
    for condition in [
        "input.n == 5",
        "input.n == 5.0",
        "input.n < 5.5",
        "input.x > 2",
        "input.n >= 5 && input.x <= 3",
        "input.big > 1",
        "input.items[0].qty * 2 == 4",
        "size(input.tags) == 2",
        "$a_b == 1 && $a-b == 2 && $a.b.c == 3",
        "input['$odd'] == 1",
        "'$step-01' == \"\\x24step-01\"",
        "input.tags.exists(t, t == 'b')",
        "type(input.n) == int",
    ] {
        assert!(decided(condition).unwrap().holds, "{condition}");
    }
}

/// S2-R8
#[test]
fn a_condition_on_a_missing_key_is_undetermined() {
    for (condition, key) in [
        ("contact.answered == false", "contact.answered"),
        ("$step-01.orders[9].id == 'x'", "$step-01.orders[9].id"),
        ("contact.company.name == 'x'", "contact.company.name"),
        ("has(contact.phone) || input.missing", "input.missing"),
        ("input.items.exists(i, i.price > 1)", "price"),
    ] {
        let error = decided(condition).unwrap_err();
        assert_eq!(
            error,
            EvalError::Undetermined {
                key: key.to_owned()
            },
            "{condition}"
        );
        assert_eq!(error.code(), "condition_undetermined");
    }
    let world = World::new();
    let without_contact = Scope {
        contact: None,
        ..world.scope()
    };
    let error = evaluate("contact.replied == false", &without_contact).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The condition cannot be decided: `contact.replied` is missing."
    );
}

/// Words 2: the conditions that instructions give test fields with `has`, also in a run without a contact.
#[test]
fn a_run_without_a_contact_has_no_field_of_one() {
    let world = World::new();
    let without_contact = Scope {
        contact: None,
        ..world.scope()
    };
    for (condition, holds) in [
        ("has(contact.replied) && contact.replied == true", false),
        ("!(has(contact.replied) && contact.replied == true)", true),
        ("has(contact.company.name) || input.n == 5", true),
    ] {
        let found = evaluate(condition, &without_contact).unwrap();
        assert_eq!(found.holds, holds, "{condition}");
    }
}

#[test]
fn a_condition_must_be_true_or_false() {
    let error = decided("input.n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "The condition must be true or false, and is a number."
    );
    assert_eq!(error.code(), "condition_not_boolean");
    let error = decided("input.n > 'x'").unwrap_err();
    assert_eq!(
        error.to_string(),
        "The condition cannot be decided: found no matching overload for '_>_' applied to '(int, string)'."
    );
}

#[test]
fn the_values_of_a_condition_are_kept_short() {
    let input = json!({"all": vec![1; 600]});
    let scope = Scope {
        input: &input,
        ..World::new().scope().into_static()
    };
    let condition = evaluate("size(input.all) == 600", &scope).unwrap();
    assert_eq!(condition.values["input.all"], json!("list of 600"));
}

/// B-2 a: arguments that wrap a deep value are refused where they are composed.
#[test]
fn composed_arguments_are_measured() {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let input = nested(30);
    let scope = Scope {
        input: &input,
        ..World::new().scope().into_static()
    };
    assert!(resolve(&json!({ "a": "$input" }), &scope).is_ok());
    let error = resolve(&json!({ "a": { "b": { "c": "$input" } } }), &scope).unwrap_err();
    assert_eq!(error.code(), "arguments_not_allowed");
    assert!(error.to_string().contains("33 levels"), "{error}");
}

/// S2-R8
#[test]
fn what_an_expression_refers_to_is_known_when_the_plan_is_made() {
    assert_eq!(
        accepted("contact.replied == false && $step-01.x == input.y && run.id != ''").unwrap(),
        BTreeSet::from([
            Reference::Step(0),
            Reference::Input,
            Reference::Contact,
            Reference::Run
        ])
    );
    assert_eq!(
        accepted("[1].exists(item, item == 1)").unwrap(),
        BTreeSet::new()
    );
}

/// S2-R8
#[test]
fn a_typo_in_a_condition_is_refused_with_the_nearest_name() {
    let diagnostic = accepted("contcat.replied == false").unwrap_err();
    assert_eq!(diagnostic.nearest, ["contact"]);
    assert_eq!(
        diagnostic.message,
        "`contcat` is not known here; an expression may use `input`, `contact`, `run` and the results of earlier steps, such as `$step-01`."
    );
    let diagnostic = accepted("$step-09.x").unwrap_err();
    assert_eq!(diagnostic.message, "This agent has no step `step-09`.");
    assert_eq!(diagnostic.nearest, ["$step-01", "$step-03"]);
    let diagnostic = accepted("contact.email.startswith('a')").unwrap_err();
    assert_eq!(
        (diagnostic.message.as_str(), diagnostic.nearest),
        (
            "Unknown function `startswith`.",
            vec!["startsWith".to_owned()]
        )
    );
    assert_eq!(
        message("$step-03.ok"),
        "`$step-03` is not done before this step, so its result cannot be used here; add `step-03` to `needs`."
    );
    assert_eq!(
        message("$item.x == 1"),
        "`$item` is the item of `for_each`; use it in `args`, `ask` or `handoff` of a step with `for_each`."
    );
    assert_eq!(message("x.exists(x, x)").split(' ').next(), Some("`x`"));
    assert!(message("contact.replied ==").starts_with("The expression is not valid: Syntax error"));
    assert_eq!(message("  "), "The expression is empty.");
    assert_eq!(
        message("Foo{a: 1} == 1"),
        "`Foo{…}` is not a value that this release knows."
    );
}

#[test]
fn too_long_and_too_deep_expressions_never_reach_the_parser() {
    let deep = |n: usize| format!("{}true{}", "(".repeat(n), ")".repeat(n));
    assert!(accepted(&deep(16)).is_ok());
    assert_eq!(
        message(&deep(17)),
        "Brackets are nested 17 deep; at most 16 are allowed."
    );
    assert_eq!(
        message(&" ".repeat(2_049)),
        "An expression has at most 2048 characters; this one has 2049."
    );
    assert_eq!(
        message(&vec!["1"; 900].join("+")),
        "At most 200 operators may follow each other."
    );
    assert!(accepted(&format!("{}true", "!".repeat(2_000))).is_ok());
    assert_eq!(
        message("[1].all(a, [1].all(b, [1].all(c, true)))"),
        "Loops such as `exists` may be nested 2 deep."
    );
}

/// Every way a text can be used ends with a value or with an error that says something.
fn is_answered(text: &str) -> bool {
    let resolved = resolve(&json!(text), &World::new().scope());
    resolved.map_or_else(|error| !error.to_string().is_empty(), |_| true)
        && decided(text).map_or_else(|error| !error.to_string().is_empty(), |_| true)
        && accepted(text).map_or_else(|diagnostic| !diagnostic.message.is_empty(), |_| true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// S2-R8: whatever is written, the answer is a value or an error.
    #[test]
    fn any_text_resolves_or_is_refused(text in any::<String>()) {
        prop_assert!(is_answered(&text));
    }

    /// As above, with texts that look like expressions.
    #[test]
    fn any_expression_resolves_or_is_refused(
        parts in prop::collection::vec(prop::sample::select(vec![
            "{{", "}}", "$step-01", "$", "$$", "input", "contact", ".", "x", "[", "]", "0", "(", ")", "'", "\"", "\\", "r",
            "==", "+", "&&", "?", ":", " ", "has", "é", ".exists(x,", "!", "-", "\"\"\"", "{", "}", "//", "\n", ",", "s_0_", "@result",
        ]), 0..24)
    ) {
        let text = parts.concat();
        prop_assert!(is_answered(&text));
    }

    /// Text without a dollar and without braces is never touched.
    #[test]
    fn plain_text_is_never_changed(text in "[^${}\\x00]*") {
        prop_assert_eq!(resolved(json!(&text)), json!(&text));
    }

    /// Different ids never meet in CEL.
    #[test]
    fn an_identifier_leads_back_to_its_id(id in "[A-Za-z0-9][A-Za-z0-9._-]{0,20}") {
        prop_assert_eq!(syntax::name_of(&syntax::identifier(&id)), id);
    }

    /// Whatever the input holds comes back as it was, integers as integers.
    #[test]
    fn values_survive_the_way_through_cel(n in any::<i64>(), big in any::<u64>(), text in any::<String>()) {
        let value = json!({"n": n, "big": big, "text": text, "list": [n, null, true, {"a": 0.5}]});
        prop_assert_eq!(value::from_cel(&value::to_cel(&value)), Some(value));
    }
}

/// S2-R8: a skipped step reads as null, and so does every path below it.
#[test]
fn a_step_without_result_reads_as_null() {
    for text in ["$find", "$find.orders[0].id", "{{ $find.orders }}"] {
        assert_eq!(resolved(json!(text)), json!(null), "{text}");
    }
    for (condition, holds) in [
        ("$find == null", true),
        ("$find.orders == null", true),
        ("$find.orders[3].total == 5", false),
        ("$find != null && $find.answer == \"yes\"", false),
        ("$find.answer == \"yes\" || $find.orders == null", true),
        ("has($find.answer) && $find.answer != null", false),
    ] {
        assert_eq!(decided(condition).unwrap().holds, holds, "{condition}");
    }
    let text = "{{ $find.name }} replied";
    assert_eq!(unresolved(text).code(), "unresolved_placeholder");
}
