//! The definition is sound, and says no to what makes no sense.

use clap::{CommandFactory, Parser};

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn options_of_every_command_stand_before_or_after_it() {
    for line in [
        "holdpoint --json --url http://h:1 run list",
        "holdpoint run list --json --url http://h:1",
    ] {
        let cli = parse(line).unwrap();
        assert!(cli.global.json, "{line}");
        assert_eq!(cli.global.url.as_deref(), Some("http://h:1"), "{line}");
    }
}

#[test]
fn runs_are_named_or_filtered_and_never_simply_all() {
    assert!(parse("holdpoint run pause").is_err());
    assert!(parse("holdpoint run pause run_1 --agent a").is_err());
    assert!(parse("holdpoint run pause run_1 run_2").is_ok());
    assert!(parse("holdpoint run cancel --agent a --reason why").is_ok());
    assert!(parse("holdpoint run resume --label a=b --mode keep_deadline").is_ok());
    assert!(parse("holdpoint run resume run_1 --mode later").is_err());
}

#[test]
fn a_wrong_word_is_answered_with_what_is_known() {
    let error = parse("holdpoint run list --status done")
        .map(drop)
        .unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("awaiting_approval"), "{error}");
    let error = parse("holdpoint clock advance 5").map(drop).unwrap_err();
    assert!(error.to_string().contains("has no unit"), "{error}");
}

#[test]
fn help_tells_the_exit_codes() {
    let help = Cli::command().render_help().to_string();
    for words in [
        "0    ok",
        "6    conflict",
        "7    Holdpoint cannot be reached",
        "130  interrupted",
    ] {
        assert!(help.contains(words), "{help}");
    }
}
