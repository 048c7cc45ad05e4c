//! An expression ends within its budget, whatever values it meets.

use std::time::{Duration, Instant};

use super::super::program::Program;
use super::*;

/// A scope with this input and nothing else.
fn with(input: &Value) -> Scope<'_> {
    Scope {
        input,
        contact: None,
        run: &Value::Null,
        item: None,
        steps: BTreeMap::new(),
        ids: BTreeSet::new(),
    }
}

/// Hostile expressions of the reviews, and relatives of them.
const HOSTILE: [&str; 10] = [
    "size(input.l.map(x, input.s + input.s)) > 0",
    "size(input.l.map(x, [input.s, input.s])) > 0",
    "size(input.l.map(x, {'a': input.s + 'x'})) > 0",
    "size(input.l.map(a, string(a) + input.s)) > 0",
    "input.l.exists(x, input.l.exists(y, x + y < 0))",
    "input.l.all(a, input.l.all(b, !(string(a) + string(b)).matches('(x{5}y){4}')))",
    "(input.l + input.l + input.l).exists(x, (input.l + input.l).exists(y, x + y < 0))",
    "input.l.all(x, input.l.map(y, y + 1).size() > 0)",
    "size(input.l.map(x, input.l)) > 0",
    "input.l.exists(x, x in input.l.filter(y, y > 0))",
];

/// A-C3, B-1: what would take hours or all memory is refused at once, and the error names the condition
/// and the limit.
#[test]
fn a_hostile_expression_is_refused_before_it_is_evaluated() {
    let input = json!({ "l": vec![0; 9_000], "s": "x".repeat(450_000) });
    for condition in HOSTILE {
        let began = Instant::now();
        let error = evaluate(condition, &with(&input)).unwrap_err();
        let took = began.elapsed();
        assert_eq!(error.code(), "condition_undetermined", "{condition}");
        let text = error.to_string();
        let names_limit = text.contains("200000 steps") || text.contains("16 MiB");
        assert!(names_limit && text.contains(&condition[..20]), "{text}");
        assert!(took < Duration::from_secs(1), "{condition}: {took:?}");
        let template = json!({ "message": format!("{{{{ {condition} }}}}") });
        assert_eq!(
            resolve(&template, &with(&input)).unwrap_err().code(),
            "expression_failed"
        );
    }
}

/// A-C3: without any loop a chain of additions copies a large value hundreds of times.
#[test]
fn a_long_chain_of_additions_is_refused() {
    let input = json!({ "s": "x".repeat(900_000) });
    let chain = ["input.s"; 100].join(" + ");
    let error = evaluate(&format!("size({chain}) > 0"), &with(&input)).unwrap_err();
    assert!(error.to_string().contains("16 MiB"), "{error}");
    let list = format!("size([{}]) > 0", ["input.s"; 100].join(", "));
    assert!(evaluate(&list, &with(&input)).is_err());
}

/// A-C3: the budget is one for all placeholders of a step, and counts the values that they are given.
#[test]
fn a_thousand_placeholders_share_one_budget() {
    let input = json!({ "l": vec![0; 10_000], "big": { "x": 1, "text": "x".repeat(900_000) } });
    for placeholder in ["{{ input.l.all(x, x >= 0) }} ", "{{ input.big.x == 1 }} "] {
        let began = Instant::now();
        let args = json!({ "message": placeholder.repeat(1_000) });
        let error = resolve(&args, &with(&input)).unwrap_err();
        assert_eq!(error.code(), "expression_failed", "{placeholder}");
        assert!(began.elapsed() < Duration::from_secs(2), "{placeholder}");
    }
    let small = json!({ "message": "{{ input.big.x == 1 }} ".repeat(5) });
    assert!(resolve(&small, &with(&input)).is_ok());
}

/// A-C3: what is just within the budget holds up the thread that decides for a moment only. The bound is for a
/// build without optimisation beside other tests; the longest took 20 ms there.
#[test]
fn what_is_just_within_the_budget_takes_a_moment() {
    let shapes = [
        "input.l.all(a, input.l.all(b, a + b >= 0))",
        "input.l.map(a, input.l.map(b, a + b)) != []",
        "input.l.exists(a, input.s.matches('(x|xx)+y'))",
        "input.l.exists(a, input.s.contains('y') || input.s.endsWith('y'))",
        "size(input.l.map(a, input.s + input.s)) < 0",
        "input.l.filter(a, a in input.l) == [0]",
        "input.l.all(a, {'k': input.l} != {})",
    ];
    for shape in shapes {
        let at = |items: usize| {
            let input = json!({ "l": (0..items).collect::<Vec<_>>(), "s": "x".repeat(2_000) });
            let began = Instant::now();
            let is_within = evaluate(shape, &with(&input)).is_ok();
            (is_within, began.elapsed())
        };
        let (mut most, mut refused) = (1, 100_000);
        while refused - most > 1 {
            let middle = usize::midpoint(most, refused);
            match at(middle).0 {
                true => most = middle,
                false => refused = middle,
            }
        }
        let (is_within, took) = at(most);
        assert!(is_within, "{shape}");
        eprintln!("{shape}: {took:?} on {most} items");
        assert!(
            took < Duration::from_secs(5),
            "{shape}: {took:?} on {most} items"
        );
    }
}

/// What agents do with lists stays possible.
#[test]
fn a_loop_over_ten_thousand_items_is_within_the_budget() {
    let input = json!({
        "l": (0..10_000).collect::<Vec<_>>(),
        "orders": vec![json!({ "sku": "k-1", "price": 12.5, "tags": ["a", "b"] }); 2_000],
        "name": "Ada",
    });
    for (condition, holds) in [
        ("input.l.all(x, x >= 0)", true),
        ("input.l.exists(x, x == 9999)", true),
        ("size(input.l.filter(x, x > 5)) == 9994", true),
        (
            "size(input.orders.filter(o, o.price > 10.0).map(o, o.sku)) == 2000",
            true,
        ),
        ("input.orders.exists(o, o.tags.exists(t, t == 'c'))", false),
        ("('Dear ' + input.name).startsWith('Dear A')", true),
        ("input.name.matches('^A[a-z]+$')", true),
    ] {
        assert_eq!(
            evaluate(condition, &with(&input)).unwrap().holds,
            holds,
            "{condition}"
        );
    }
}

/// A-C3: a pattern is known, short and small before the agent is accepted.
#[test]
fn patterns_are_checked_when_the_plan_is_made() {
    for (condition, said) in [
        ("input.s.matches(input.p)", "must be a text in quotes"),
        (
            "input.s.matches('(x' + '{50}y){40}')",
            "must be a text in quotes",
        ),
        ("input.s.matches('(x{50}y){400}')", "is too large"),
        ("input.s.matches('(x')", "not a valid regular expression"),
        ("matches(input.s, input.p)", "must be a text in quotes"),
    ] {
        assert!(
            message(condition).contains(said),
            "{condition}: {}",
            message(condition)
        );
    }
    let long = format!("input.s.matches('{}')", "x".repeat(201));
    assert!(message(&long).contains("at most 200 characters"));
    let many = ["input.s.matches('a')"; 11].join(" || ");
    assert!(message(&many).contains("at most 10 times"));
    assert!(accepted("input.s.matches('^[a-z]{1,20}$')").is_ok());
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,40}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "input.l",
        "input.s",
        "input.m",
        "input.l[0]",
        "'text'",
        "7",
        "[1, 2]",
        "{'k': input.s}",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
            inner.clone().prop_map(|a| format!("string({a})")),
            inner.clone().prop_map(|a| format!("[{a}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.map(x, [x, {b}])")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.map(x, {b})")),
            inner.clone().prop_map(|a| format!("{a}.filter(x, x != 7)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(1 < 2 ? {a} : {b})")),
            inner.prop_map(|a| format!("{a}.map(x, x)[0]")),
        ]
    })
}

proptest! {
    /// A-C3: the bound is never too low. No result is larger than what was computed before.
    #[test]
    fn a_result_is_never_larger_than_its_bound(
        list in prop::collection::vec(values(), 0..20),
        text in "[a-zä]{0,60}",
        object in prop::collection::btree_map("[a-d]", values(), 0..4),
        expression in expressions(),
    ) {
        let object = Value::Object(object.into_iter().collect());
        let input = json!({ "l": list, "s": text, "m": object });
        let scope = with(&input);
        let known = |_: &str| false;
        let Ok(program) = Program::compile(&expression, &known) else { return Ok(()) };
        let Some(bound) = program.bytes_max(&scope) else { return Ok(()) };
        if let Ok(result) = program.run(&scope, &mut Spent::default()) {
            let size = value::size(&result) as u64;
            prop_assert!(size <= bound, "{expression}: {size} > {bound}");
        }
    }
}
