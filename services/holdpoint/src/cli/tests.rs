//! The definition is valid and refuses invalid command lines.

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
fn global_options_may_be_before_or_after_the_command() {
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
fn runs_need_ids_or_a_filter() {
    assert!(parse("holdpoint run pause").is_err());
    assert!(parse("holdpoint run pause run_1 --agent a").is_err());
    assert!(parse("holdpoint run pause run_1 run_2").is_ok());
    assert!(parse("holdpoint run cancel --agent a --reason why").is_ok());
    assert!(parse("holdpoint run resume --label a=b --mode keep_deadline").is_ok());
    assert!(parse("holdpoint run resume run_1 --mode later").is_err());
}

#[test]
fn an_invalid_value_is_answered_with_the_valid_ones() {
    let error = parse("holdpoint run list --status done")
        .map(drop)
        .unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("awaiting_approval"), "{error}");
    let error = parse("holdpoint clock advance 5").map(drop).unwrap_err();
    assert!(error.to_string().contains("has no unit"), "{error}");
}

#[test]
fn help_shows_the_exit_codes() {
    let help = Cli::command().render_help().to_string();
    for text in [
        "0    ok",
        "6    conflict",
        "7    Holdpoint is not reachable",
        "75   parked",
        "130  interrupted",
    ] {
        assert!(help.contains(text), "{help}");
    }
}

/// Issue 4: several requests get the same decision, each with the version that was seen.
#[test]
fn requests_are_named_with_the_version_that_was_seen() {
    for line in [
        "holdpoint approve hold_1 hold_2 --version 3 --version 4 --all-or-none",
        "holdpoint approve hold_1 --args {\"amount\":125} --digest 8f43",
        "holdpoint reject hold_1 hold_2 --reason no",
        "holdpoint complete hold_1 hold_2 --then finish --version 2 --version 2",
        "holdpoint respond hold_1 yes --version 3",
        "holdpoint accept hold_1 --version 3",
        "holdpoint take-over run_1",
        "holdpoint delegate hold_1 --to @user.bob --version 3",
        "holdpoint acknowledge hold_1",
        "holdpoint snooze hold_1 --for 2h",
        "holdpoint withdraw hold_1 --version 3",
        "holdpoint ask-again hold_1 --to @user.a --to @user.b --timeout 2h --wait",
        "holdpoint ask Now? --assign least-loaded --title Now --policy a --policy b",
        "holdpoint hand-off Call --priority urgent --title Call --assign anyone",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
    for line in [
        "holdpoint approve",
        "holdpoint approve hold_1 --version soon",
        "holdpoint approve hold_1 --args {\"amount\":}",
        "holdpoint snooze hold_1 --for later",
        "holdpoint ask Now? --assign last",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

/// Mend D-15: the command written in compose.yaml uses both servers that it starts, with their keys.
#[test]
fn the_command_beside_compose_uses_its_servers() {
    let text = include_str!("../../../../compose.yaml");
    let written = text
        .lines()
        .find_map(|line| line.strip_prefix("#   holdpoint "));
    let Command::Up(up) = parse(&format!("holdpoint {}", written.unwrap()))
        .unwrap()
        .command
    else {
        panic!("{written:?}");
    };
    assert_eq!(
        up.nats_url.as_deref(),
        Some("nats://holdpoint@127.0.0.1:4222")
    );
    let postgres = "postgres://holdpoint:holdpoint@127.0.0.1:5432/holdpoint";
    assert_eq!(up.database_url, Some(Tables::Postgres(postgres.to_owned())));
    for started in [
        r#""--auth", "holdpoint""#,
        r#""127.0.0.1:4222:4222""#,
        "POSTGRES_USER: holdpoint",
        "POSTGRES_PASSWORD: holdpoint",
        "POSTGRES_DB: holdpoint",
        r#""127.0.0.1:5432:5432""#,
    ] {
        assert!(text.contains(started), "{started}");
    }
}

/// Every line of the help fits 80 columns, and every command and option has a help text.
#[test]
fn help_fits_a_narrow_terminal() {
    fn check(command: &mut clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        assert!(command.get_about().is_some(), "{path}");
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string);
            assert!(
                help.is_some_and(|help| !help.ends_with('.')),
                "{path} {argument}"
            );
        }
        let mut narrow = command.clone().term_width(80);
        let help = narrow.render_help().to_string();
        // clap does not wrap the line of the usage.
        for line in help.lines().filter(|line| !line.starts_with("Usage:")) {
            assert!(line.chars().count() <= 80, "{path}: {line}");
        }
        for inner in command.get_subcommands_mut() {
            check(inner, &path);
        }
    }

    let mut command = Cli::command();
    command.build();
    check(&mut command, "");
}

/// S3-R8: the text that teaches agents to ask has a command that they can call.
#[test]
fn the_commands_of_the_text_about_asking_are_valid() {
    let text = include_str!("../../../../docs/asking.md");
    let mut commands = 0;
    for (at, _) in text.match_indices("holdpoint ask \"") {
        let command = text.get(at..).unwrap().lines().next().unwrap();
        let command = command.split([')', '`']).next().unwrap();
        // A quoted text is one word.
        let parts = command.split('"').enumerate();
        let words = parts.map(|(place, part)| match place % 2 {
            0 => part.to_owned(),
            _ => "text".to_owned(),
        });
        let command: String = words.collect();
        assert!(parse(&command).is_ok(), "{command}");
        commands += 1;
    }
    assert!(commands > 0);
}
