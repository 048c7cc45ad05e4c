//! A sample of each form of a line, and those that are nearest to a line.

/// Most samples of an error.
const NEAREST_MAX: usize = 3;

/// Characters of a line that are compared.
const COMPARED_CHARS_MAX: usize = 40;

/// Most changed letters between the first words of a line and of a sample.
const FIRST_WORD_TYPOS_MAX: usize = 1;

/// One sample of each form. The first word counts most.
pub(crate) const SAMPLES: [&str; 33] = [
    "Wait 5 days",
    "Wait until 2026-12-24 09:00 in Europe/Berlin",
    "Wait until Monday at 9:00 in Europe/Berlin",
    "Wait 2 business days in Europe/Berlin",
    "Wait until contact replies, at most 5 days",
    "Wait for signal payment, at most 3 days, then skip",
    "If no reply, send email \"Follow-up\" to contact",
    "If no reply after 5 days, send email \"Follow-up\" to contact",
    "If contact replied positively, hand off to @user.nina as warm lead",
    "If contact.plan is \"pro\", call crm.update",
    "Otherwise, finish with \"Done.\"",
    "Send email \"Introduction\" to contact",
    "Send email \"Follow-up\" to contact every 2 days until contact replies, at most 5 times",
    "Every 2 days, at most 5 times, send email \"Follow-up\" to contact until contact replies",
    "Send email to contact with subject \"Hello\" and body \"…\"",
    "Email contact \"Introduction\"",
    "Hand off to @user.nina, timeout 3 days, then continue",
    "Hand over to @role.sales with message \"personal outreach\"",
    "Hand off to @user.salesRep for personal outreach",
    "Ask @user.owner \"Tell the customer?\" with options \"yes\", \"no\"",
    "Call orders.find with customer $input.customer as find",
    "Use orders.find with customer $input.customer",
    "After approval by @role.manager, call payments.refund",
    "For each $find.orders, call payments.refund with order $item.id",
    "Run agent summary with topic $input.topic",
    "Set contact.stage to \"won\"",
    "Update contact: stage \"won\", score 5",
    "Add tag \"vip\"",
    "Add the tags \"vip\" and \"eu\"",
    "Remove tag \"vip\"",
    "Create task \"Call back\" for @user.nina due in 2 days",
    "Log \"Done\"",
    "Fail with \"The order is missing.\"",
];

/// The samples nearest to a line, the nearest first.
pub(crate) fn nearest_samples(line: &str) -> Vec<String> {
    let line = compared(line);
    let first = first_word(&line).to_owned();
    let mut ranked: Vec<(usize, usize, &str)> = SAMPLES
        .into_iter()
        .map(|sample| {
            let lower = compared(sample);
            let of_word = strsim::osa_distance(first_word(&lower), &first);
            let begun: String = lower.chars().take(line.chars().count()).collect();
            (of_word, strsim::osa_distance(&begun, &line), sample)
        })
        .collect();
    ranked.sort_unstable();
    let least = ranked.first().map_or(0, |(of_word, _, _)| *of_word);
    let is_near = |ranked: &(usize, usize, &str)| ranked.0 <= least.max(FIRST_WORD_TYPOS_MAX);
    let best = ranked.into_iter().filter(is_near).take(NEAREST_MAX);
    best.map(|(_, _, sample)| sample.to_owned()).collect()
}

fn compared(line: &str) -> String {
    line.chars()
        .take(COMPARED_CHARS_MAX)
        .collect::<String>()
        .to_lowercase()
}

fn first_word(line: &str) -> &str {
    line.split(|c: char| !c.is_alphanumeric() && c != '-')
        .next()
        .unwrap_or_default()
}
