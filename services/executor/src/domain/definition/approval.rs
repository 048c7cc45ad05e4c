//! The field `approval` of a step: who approves its call (S2-R4).

use holdpoint_contracts::hold::{HoldSpec, Policy};
use holdpoint_contracts::run::HoldKind;
use holdpoint_holds::deadline::default_timeout_ms;
use serde_json::{Map, Value};

use super::step::StepReader;
use crate::domain::model::plan::person_steps::{ApprovalRule, VALID_DEFAULT_MS};

const APPROVAL: &str = "approval";

const FIELDS: [&str; 6] = [
    "from",
    "need",
    "not_requester",
    "decide_within",
    "valid_for",
    "policy",
];

impl StepReader<'_, '_> {
    /// The gate of a step. `is_tool` says whether the step calls a tool, which alone can be gated.
    pub(super) fn approval(
        &mut self,
        value: Option<&Value>,
        is_tool: bool,
    ) -> Option<ApprovalRule> {
        let value = value?;
        if !is_tool {
            let message = "`approval` gates a `tool`; a step of another kind has none.";
            return self.refuse(APPROVAL, value, message);
        }
        let Value::Object(_) = value else {
            let message = "`approval` is an object, such as `approval: { from: \"@role.manager\" }`; `{}` asks the owners.";
            return self.refuse(APPROVAL, value, message);
        };
        let approval = self.object(APPROVAL, value, &FIELDS)?;
        let from = self.recipients(APPROVAL, "from", approval.get("from"));
        let policies = self.policies(APPROVAL, approval.get("policy"));
        let votes = self.votes(approval);
        let decide_within = approval.get("decide_within").filter(|it| !it.is_null());
        let decide_within_ms = match decide_within {
            None => Some(default_timeout_ms(HoldKind::Approval)),
            Some(value) => self.duration_within_ms(APPROVAL, "decide_within", value),
        };
        let valid_for = approval.get("valid_for").filter(|it| !it.is_null());
        let valid_ms = match valid_for {
            None => Some(VALID_DEFAULT_MS),
            Some(value) => self.duration_within_ms(APPROVAL, "valid_for", value),
        };
        let (from, policies, votes) = (from?, policies?, votes?);
        // A placeholder is refused as any other text that is not a recipient: the agent must not choose who approves.
        let from = from.as_array().into_iter().flatten();
        let from = from.filter_map(|one| one.as_str().map(str::to_owned));
        let rule = ApprovalRule {
            from: from.collect(),
            votes,
            decide_within_ms: decide_within_ms?,
            time_by_policy: !policies.is_empty() && decide_within.is_none(),
            valid_ms: valid_ms?,
            valid_by_policy: !policies.is_empty() && valid_for.is_none(),
            policies,
        };
        let spec = HoldSpec {
            to: rule.from.clone(),
            policy: rule.votes,
            policies: rule.policies.clone(),
            ..HoldSpec::asking(HoldKind::Approval, "-")
        };
        self.check_draft(APPROVAL, &spec, Some(rule.decide_within_ms));
        Some(rule)
    }

    fn votes(&mut self, approval: &Map<String, Value>) -> Option<Policy> {
        let need = match approval.get("need").filter(|it| !it.is_null()) {
            None => 1,
            Some(value) => {
                let need = value.as_u64().and_then(|need| u32::try_from(need).ok());
                match need {
                    Some(need) => need,
                    None => {
                        return self.refuse(
                            APPROVAL,
                            value,
                            "`need` is a number of people from 1 to 20.",
                        );
                    }
                }
            }
        };
        let not_requester = match approval.get("not_requester").filter(|it| !it.is_null()) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(other) => {
                return self.refuse(APPROVAL, other, "`not_requester` is `true` or `false`.");
            }
        };
        Some(Policy {
            need,
            not_requester,
        })
    }
}
