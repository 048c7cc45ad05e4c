//! Warns of paths that may lead nowhere: fields that a result or the inputs do not name, and fields that no contact has.
//!
//! A schema without `properties`, or with other words for its fields, gets no warning.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use holdpoint_contracts::problem::FieldError;
use holdpoint_ids::nearest;
use serde_json::{Value, json};

use super::plan::warning;
use crate::domain::contact::KNOWN_FIELDS;
use crate::domain::expression::{Path, Segment, StepPaths};
use crate::domain::model::built_in_schemas::built_in_result_fields;
use crate::domain::plan::person_steps::Ask;
use crate::domain::plan::run_steps::RunsUntil;
use crate::domain::plan::{Action, OnError, Plan, PlannedStep};

/// Names that an unknown one is compared with, in their order.
const COMPARED_MAX: usize = 500;

/// Words of a schema that say more than its `properties` and `items` do. What they say is not read.
const COMPOSED: [&str; 13] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "dependencies",
    "unevaluatedProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "not",
    "patternProperties",
    "dependentSchemas",
    "prefixItems",
];

/// Fields of the result of a handoff.
const HANDOFF: [&str; 10] = [
    "outcome",
    "outcome_type",
    "notes",
    "by",
    "at",
    "disposition",
    "task_id",
    "is_warm_lead",
    "scheduled",
    "resume_at",
];

/// The fields that results and contacts have when an agent is planned.
#[derive(Debug, Default)]
pub(super) struct KnownFields {
    /// The schemas of the results of tools that are not built in.
    pub(super) results: BTreeMap<String, Value>,
    /// The fields of all contacts. `None`: there are no contacts, or too many names to look at.
    pub(super) contact: Option<BTreeSet<String>>,
}

/// One warning for each path of a step that may lead nowhere, at most so many. `paths` are those of the steps, in their
/// order.
pub(super) fn dead_paths(
    plan: &Plan,
    paths: Vec<StepPaths>,
    known: &KnownFields,
    most: usize,
) -> Vec<FieldError> {
    let steps = plan.steps.iter();
    let mut shapes: BTreeMap<&str, Shape<'_>> = steps
        .filter_map(|step| Some((step.id.as_str(), result_shape(step, &known.results)?)))
        .collect();
    let contact = known.contact.as_ref().map(|fields| {
        let set = plan.steps.iter().flat_map(fields_set);
        set.chain(fields.iter().map(String::as_str))
            .chain(KNOWN_FIELDS)
            .collect()
    });
    if let Some(inputs) = &plan.inputs {
        shapes.insert("input", Shape::one(Cow::Borrowed(&inputs.schema)));
    }
    let mut warnings = Vec::new();
    for (step, paths) in plan.steps.iter().zip(paths) {
        let StepPaths { needed, tested } = paths;
        let needed = needed.into_iter().map(|path| (path, false));
        let tested = tested.into_iter().map(|path| (path, true));
        for (path, is_tested) in needed.chain(tested) {
            if warnings.len() >= most {
                return warnings;
            }
            let found = match shapes.get(path.root.as_str()) {
                Some(shape) if !is_tested => shape.dead_end(&path.segments),
                None if path.root == "contact" => missing_field(contact.as_ref(), &path),
                Some(_) | None => None,
            };
            // A field that is tested may be missing, unless it looks like one that exists.
            let found = found.filter(|it| !is_tested || !it.nearest.is_empty());
            if let Some(DeadEnd { why, nearest }) = found {
                warnings.push(FieldError {
                    text: path.to_string(),
                    nearest,
                    ..warning(&step.id, format!("`{path}` may lead nowhere: {why}."))
                });
            }
        }
    }
    warnings
}

/// The schema of a value.
struct Shape<'s> {
    schema: Cow<'s, Value>,
    /// The value is a list, and the schema is that of its items.
    is_list: bool,
}

impl<'s> Shape<'s> {
    const fn one(schema: Cow<'s, Value>) -> Self {
        Self {
            schema,
            is_list: false,
        }
    }

    fn dead_end(&self, segments: &[Segment]) -> Option<DeadEnd> {
        match segments.split_first() {
            Some((Segment::Index(_), rest)) if self.is_list => dead_end(&self.schema, rest),
            Some((Segment::Key(_), _)) if self.is_list => Some(other_type(&["array"])),
            None => None,
            Some(_) => dead_end(&self.schema, segments),
        }
    }
}

fn other_type(types: &[&str]) -> DeadEnd {
    DeadEnd {
        why: format!("it is of type `{}` there", types.join("` or `")),
        nearest: Vec::new(),
    }
}

/// Why a path leads nowhere, and the names that were perhaps meant.
#[derive(Debug, PartialEq, Eq)]
struct DeadEnd {
    why: String,
    nearest: Vec<String>,
}

/// Follows a path through a schema. `None`: it may lead somewhere.
fn dead_end(schema: &Value, segments: &[Segment]) -> Option<DeadEnd> {
    let mut at = schema;
    for segment in segments {
        if COMPOSED.iter().any(|word| at.get(word).is_some()) {
            return None;
        }
        let container = match segment {
            Segment::Key(_) => "object",
            Segment::Index(_) => "array",
        };
        let types = types_of(at);
        if !types.is_empty() && !types.contains(&container) {
            return Some(other_type(&types));
        }
        at = match segment {
            Segment::Index(_) => at.get("items")?,
            Segment::Key(key) => {
                let fields = at.get("properties")?.as_object()?;
                let others = at.get("additionalProperties");
                match fields.get(key) {
                    Some(field) => field,
                    None if others.is_some_and(|others| *others != Value::Bool(false)) => {
                        return None;
                    }
                    None => {
                        let known = fields.keys().take(COMPARED_MAX).map(String::as_str);
                        return Some(DeadEnd {
                            why: format!("the schema names no field `{key}`"),
                            nearest: nearest(key, known),
                        });
                    }
                }
            }
        };
    }
    None
}

fn types_of(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn missing_field(known: Option<&BTreeSet<&str>>, path: &Path) -> Option<DeadEnd> {
    let (known, Some(Segment::Key(field))) = (known?, path.segments.first()) else {
        return None;
    };
    if known.contains(field.as_str()) {
        return None;
    }
    Some(DeadEnd {
        why: format!("no contact has a field `{field}`"),
        nearest: nearest(field, known.iter().copied().take(COMPARED_MAX)),
    })
}

/// The fields of a contact that a step sets.
fn fields_set(step: &PlannedStep) -> impl Iterator<Item = &str> {
    let args = if let Action::Tool { tool, args } = &step.action {
        Some(args).filter(|_| tool == "update_contact")
    } else {
        None
    };
    let set = args.and_then(|args| args.get("set")?.as_object());
    set.into_iter()
        .flat_map(|set| set.keys().map(String::as_str))
}

/// The schema of the result of a step. `None`: it may be any value.
fn result_shape<'s>(step: &PlannedStep, results: &'s BTreeMap<String, Value>) -> Option<Shape<'s>> {
    let schema = match &step.action {
        // The owners may complete it by a handoff instead.
        _ if step.on_error == OnError::Handoff => Cow::Owned(json!({})),
        Action::Tool { tool, args } => match results.get(tool) {
            Some(schema) => Cow::Borrowed(schema),
            None => Cow::Owned(describe_fields(&built_in_result_fields(tool, args)?)),
        },
        Action::Ask(ask) => Cow::Owned(describe_object(&[
            ("answer", answer_schema(ask)),
            ("by", json!({ "type": "string" })),
            ("question_id", json!({ "type": "string" })),
            ("continuation", json!({ "type": "string" })),
        ])),
        Action::Handoff(_) => Cow::Owned(describe_fields(&HANDOFF)),
        Action::Wait { .. } | Action::WaitUntil(_) => {
            Cow::Owned(describe_fields(&["waited_ms", "resumed_at"]))
        }
        Action::Run(_) => Cow::Owned(describe_fields(&[
            "run", "agent", "status", "summary", "output",
        ])),
        Action::WaitFor(_) | Action::Finish(_) => return None,
    };
    let runs_all = matches!(&step.action, Action::Run(run) if run.until == RunsUntil::All);
    Some(Shape {
        schema,
        is_list: runs_all || step.for_each.is_some(),
    })
}

fn answer_schema(ask: &Ask) -> Value {
    match (&ask.schema, &ask.link) {
        (Some(schema), _) => schema.clone(),
        (None, Some(_)) => json!({}),
        (None, None) => json!({ "type": "string" }),
    }
}

fn describe_object(fields: &[(&str, Value)]) -> Value {
    let fields = fields.iter();
    let fields = fields.map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    json!({ "type": "object", "properties": Value::Object(fields.collect()) })
}

/// An object with these fields, of any type.
fn describe_fields(fields: &[&str]) -> Value {
    let fields: Vec<_> = fields.iter().map(|name| (*name, json!({}))).collect();
    describe_object(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(steps: &str) -> Vec<String> {
        let text = format!(
            "agent: a\ninputs: {{ type: object, properties: {{ order: {{ type: string }} }} }}\nsteps:\n{steps}"
        );
        let plan = Plan::compile(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
        let orders = json!({ "type": "object", "properties": {
            "orders": { "type": "array", "items": { "type": "object", "properties": { "id": { "type": "string" } }, "additionalProperties": false } },
            "next": { "$ref": "#" },
            "extra": { "type": "object", "properties": {}, "additionalProperties": {} },
            "any": {},
        } });
        let results = BTreeMap::from([("orders.find".to_owned(), orders)]);
        let known = KnownFields {
            results,
            contact: Some(BTreeSet::from(["plan".to_owned()])),
        };
        let found = dead_paths(&plan, plan.named_paths(), &known, 100).into_iter();
        let found = found.map(|one| format!("{} | {}", one.message, one.nearest.join(", ")));
        found.collect()
    }

    fn after_find(path: &str) -> Vec<String> {
        warned(&format!(
            "  - id: find\n    tool: orders.find\n  - tool: log\n    args: {{ message: \"{{{{ {path} }}}}\" }}\n"
        ))
    }

    /// Words 2: a path into a result is checked by the schema of the tool.
    #[test]
    fn a_path_that_the_schema_does_not_have_is_a_warning() {
        for (path, said) in [
            (
                "$find.ordrs",
                "`$find.ordrs` may lead nowhere: the schema names no field `ordrs`. | orders",
            ),
            (
                "$find.orders.id",
                "`$find.orders.id` may lead nowhere: it is of type `array` there. | ",
            ),
            (
                "$find.orders[0].nmae",
                "`$find.orders[0].nmae` may lead nowhere: the schema names no field `nmae`. | ",
            ),
            (
                "$find.orders[0].id.x",
                "`$find.orders[0].id.x` may lead nowhere: it is of type `string` there. | ",
            ),
            (
                "$find[0]",
                "`$find[0]` may lead nowhere: it is of type `object` there. | ",
            ),
            (
                "input.ordr",
                "`input.ordr` may lead nowhere: the schema names no field `ordr`. | order",
            ),
            (
                "contact.plna",
                "`contact.plna` may lead nowhere: no contact has a field `plna`. | plan",
            ),
        ] {
            assert_eq!(after_find(path), [said]);
        }
        for fine in [
            "$find",
            "$find.orders[0].id",
            "$find.next.whatever",
            "$find.extra.whatever",
            "$find.any.whatever[3]",
            "$find.orders.map(order, order.nmae)",
            "has($find.ordrs) ? $find.ordrs : 1",
            "has($find.ordrs) && $find.ordrs.text != ''",
            "contact.owner",
            "input.order",
            "contact.plan",
            "contact.replied",
            "run.id",
        ] {
            assert_eq!(after_find(fine), Vec::<String>::new(), "{fine}");
        }
    }

    /// The results of all kinds of steps are known, and those of a step with `for_each` are a list.
    #[test]
    fn the_results_of_every_kind_are_known() {
        for (step, fine, wrong) in [
            ("ask: { question: Go on? }", "$it.answer", "$it.anwser"),
            (
                "ask: { question: Go on?, schema: { type: object, properties: { ok: { type: boolean } } } }",
                "$it.answer.ok",
                "$it.answer.fine",
            ),
            ("handoff: { to: \"@user.ada\" }", "$it.notes", "$it.note"),
            ("wait: 1 day", "$it.waited_ms", "$it.waited"),
            ("run: helper", "$it.output.x", "$it.outputs"),
            ("run: { all: [helper] }", "$it[0].status", "$it.status"),
            ("tool: set\n    args: { total: 1 }", "$it.total", "$it.sum"),
            (
                "tool: search_contacts\n    args: { tag: vip }",
                "$it.contacts[0].id",
                "$it.contact",
            ),
            (
                "tool: orders.find\n    for_each: [1]",
                "$it[0].orders",
                "$it.orders",
            ),
            (
                "ask: { question: Go on? }\n    for_each: [1]",
                "$it[0].answer",
                "$it.answer",
            ),
        ] {
            let of = |path: &str| {
                let last =
                    format!("  - tool: log\n    args: {{ message: \"{{{{ {path} }}}}\" }}\n");
                warned(&format!("  - id: it\n    {step}\n{last}"))
            };
            assert_eq!(of(fine), Vec::<String>::new(), "{step}");
            assert_eq!(of(wrong).len(), 1, "{step}");
        }
        let list = "  - id: it\n    ask: { question: Go on? }\n    for_each: [1]\n    on_error: handoff\n  - tool: log\n    args: { message: $it.answer }\n";
        assert_eq!(warned(list).len(), 1);
        for open in [
            "wait_for: go",
            "tool: unknown",
            "ask: { question: Go on? }\n    on_error: handoff",
        ] {
            let last = "  - tool: log\n    args: { message: $it.whatever }\n";
            assert_eq!(
                warned(&format!("  - id: it\n    {open}\n{last}")),
                Vec::<String>::new()
            );
        }
    }

    /// A condition and the items of `for_each` name paths, too.
    #[test]
    fn conditions_and_items_are_checked() {
        let said = warned(
            "  - id: find\n    tool: orders.find\n  - tool: log\n    when: $find.ordrs == 1\n    for_each: $find.odrers\n    args: { message: $item.any }\n",
        );
        assert_eq!(said.len(), 2, "{said:?}");
        let guarded = "  - tool: log\n    when: has(contact.phone)\n    args: { message: $contact.phone.home }\n";
        assert_eq!(warned(guarded), Vec::<String>::new());
        // Conditions in plain words test every field, and one that is misspelled never holds.
        let misspelled = "  - tool: log\n    when: has(contact.plna) && contact.plna == 'pro'\n    args: { message: x }\n";
        assert_eq!(
            warned(misspelled),
            ["`contact.plna` may lead nowhere: no contact has a field `plna`. | plan"]
        );
        let set = "  - tool: update_contact\n    args: { set: { segment: a } }\n  - tool: log\n    args: { message: $contact.segment }\n";
        assert_eq!(warned(set), Vec::<String>::new());
    }
}
