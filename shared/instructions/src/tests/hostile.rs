use allocation_counter::{AllocationInfo, measure};
use proptest::prelude::*;

use super::hostile_texts::{PIECES, line};
use crate::line_parser::LOOKS;
use crate::{
    ERRORS_MAX, INSTRUCTIONS_BYTES_MAX, InstructionError, InstructionStep, STEPS_MAX, compile,
    write_step,
};

/// Most looks at a token for each byte of a text. Quadratic work would take thousands.
const LOOKS_PER_BYTE_MAX: u64 = 10;

/// Most allocations for each byte of a text.
const ALLOCATIONS_PER_BYTE_MAX: u64 = 5;

/// The work for the error of a line, however short the line is. It names similar forms.
const WORK_OF_AN_ERROR: u64 = 1_000;

/// Most allocations for a step of a repeated line, whose copies have no text.
const ALLOCATIONS_PER_STEP_MAX: u64 = 30;

/// Most memory in use at once, in bytes.
const MEMORY_MAX: u64 = 8 * 1024 * 1024;

type Compiled = Result<Vec<InstructionStep>, Vec<InstructionError>>;

/// Compiles a text within counted limits: a clock says little on a machine that is busy.
fn compile_within_limits(text: &str) -> Compiled {
    let mut compiled = None;
    LOOKS.set(0);
    let used: AllocationInfo = measure(|| compiled = Some(compile(text)));
    let looks = LOOKS.get();
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let lines = text.lines().take(ERRORS_MAX).count().max(1);
    // Each such line has 99 steps.
    let steps = (99 * text.matches("50 times").count()).min(STEPS_MAX);
    let of_steps = ALLOCATIONS_PER_STEP_MAX * u64::try_from(steps).unwrap_or(u64::MAX);
    let of_errors = WORK_OF_AN_ERROR * u64::try_from(lines).unwrap_or(u64::MAX);
    let start: String = text.chars().take(60).collect();
    assert!(
        looks <= LOOKS_PER_BYTE_MAX * bytes + of_errors,
        "{start}: {looks} looks"
    );
    let count = used.count_total;
    assert!(
        count <= ALLOCATIONS_PER_BYTE_MAX * bytes + of_errors + of_steps,
        "{start}: {count} allocations"
    );
    assert!(
        used.bytes_max <= MEMORY_MAX,
        "{start}: {} bytes",
        used.bytes_max
    );
    compiled.expect("measured")
}

/// Words: the work for a hostile text is counted. It grows with the length of the text, and not faster.
#[test]
fn hostile_texts_take_linear_work() {
    for (before, piece) in PIECES {
        let text = line(before, piece);
        let result = compile_within_limits(&text);
        if let Err(errors) = result {
            assert!(errors.len() <= 100, "{before}{piece}");
            for error in errors {
                assert!(
                    error.message.chars().count() < 1_000,
                    "{before}{piece}: {}",
                    error.message.len()
                );
            }
        }
    }
}

#[test]
fn a_long_quoted_text_has_words() {
    let text = line("Log \"", "é\\n") + "\"";
    let steps = compile(&text[..]).map_err(|errors| errors[0].message.clone());
    let steps = steps.unwrap_or_else(|message| panic!("{message}"));
    assert!(write_step(&steps[0].fields).is_some());
}

#[test]
fn a_text_has_limits() {
    let long = "#".repeat(INSTRUCTIONS_BYTES_MAX + 1);
    assert_eq!(
        compile(&long).unwrap_err()[0].message,
        "The instructions have 65537 bytes; at most 65536 are allowed."
    );
    assert_eq!(
        compile(&"Finish\n".repeat(STEPS_MAX)).unwrap().len(),
        STEPS_MAX
    );
    let errors = compile(&"Finish\n".repeat(STEPS_MAX + 5)).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (errors[0].line, errors[0].message.as_str()),
        (1_001, "Instructions have at most 1000 steps.")
    );
    assert_eq!(compile(&"x\n".repeat(500)).unwrap_err().len(), 100);
    for text in ["", "\n \r\n", "# nothing\n"] {
        assert_eq!(
            compile(text).unwrap_err()[0].message,
            "The instructions have no steps; write for example `Wait 5 days`."
        );
    }
}

/// A refused line makes no steps, so that neither many lines nor a long one fill the memory.
#[test]
fn repeated_lines_have_limits() {
    let repeated =
        |action: &str| format!("{action} every 1 day until contact.a is 1, at most 50 times\n");
    let errors = compile_within_limits(&repeated("Log \"x\"").repeat(11)).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        (errors[0].line, errors[0].message.as_str()),
        (
            11,
            "Instructions have at most 1000 steps; this line has 99, and the lines before it have 990."
        )
    );
    assert_eq!(
        compile_within_limits(&repeated("Log \"x\"").repeat(10))
            .unwrap()
            .len(),
        990
    );
    let long = repeated(&format!("Log \"{}\"", "x".repeat(1_300)));
    let errors = compile_within_limits(&long).unwrap_err();
    assert_eq!(
        errors[0].message,
        "Repeated lines have at most 65536 bytes, counted once for each time; this one makes it 67850."
    );
    let objects = "{\"a\":".repeat(15) + "1" + &"}".repeat(15);
    let many = vec![objects; 11].join(", ");
    let nested = repeated(&format!("Call x with a [{many}]"));
    let mut steps = 0;
    let used = measure(|| steps = compile(&nested).map_or(0, |steps| steps.len()));
    assert_eq!(steps, 99);
    assert!(used.bytes_max <= MEMORY_MAX, "{} bytes", used.bytes_max);
    let half = repeated(&format!("Log \"{}\"", "x".repeat(600)));
    assert_eq!(compile(&half.repeat(3)).unwrap_err().len(), 2);
    let condition = vec!["contact.a is 1"; 60].join(" and ");
    let text = format!("Log \"x\" every 1 day until {condition}, at most 50 times");
    let errors = compile_within_limits(&text).unwrap_err();
    assert!(
        errors[0]
            .message
            .contains("more than 2048 characters of CEL"),
        "{errors:?}"
    );
}

#[test]
fn many_different_options_take_linear_work() {
    let options: Vec<String> = (0..6_000).map(|number| format!("\"{number}\"")).collect();
    let text = format!("Ask \"x\" with options {}", options.join(", "));
    let errors = compile_within_limits(&text).unwrap_err();
    assert!(
        errors[0]
            .message
            .starts_with("A question has from 2 to 100 different options")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Any mixture of the words of the grammar takes linear work.
    #[test]
    fn mixtures_take_linear_work(
        places in prop::collection::vec((0..PIECES.len(), any::<bool>()), 1..200),
        is_one_line in any::<bool>(),
    ) {
        let pieces = places.iter().map(|(place, is_start)| {
            let (before, piece) = PIECES[*place];
            if *is_start { before } else { piece }
        });
        let mut text = pieces.collect::<Vec<_>>().join(" ");
        if is_one_line {
            text = text.replace('\n', " ");
        }
        drop(compile_within_limits(&text));
    }
}
