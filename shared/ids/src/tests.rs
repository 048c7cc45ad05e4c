//! Texts of ids, and the partition.

use super::*;

#[test]
fn ids_are_parsed_back() {
    let run = RunId::fresh();
    assert_eq!(run.to_string().parse::<RunId>().unwrap(), run);
    let hold = HoldId { run, number: 3 };
    assert_eq!(hold.to_string().parse::<HoldId>().unwrap(), hold);
    for rev in [None, Some(7)] {
        let note = NotificationId { hold, rev };
        assert_eq!(note.to_string().parse::<NotificationId>().unwrap(), note);
    }
}

#[test]
fn invalid_ids_are_refused_with_the_expected_form() {
    for text in [
        "",
        "run_",
        "run_xyz",
        "hold_1-2",
        "run_0193aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee",
    ] {
        let error = text.parse::<RunId>().unwrap_err();
        assert!(
            error.to_string().contains("32 hexadecimal digits"),
            "{error}"
        );
        assert!(text.parse::<HoldId>().is_err());
    }
}

/// S2: one start for each fire, of each schedule.
#[test]
fn the_run_of_a_fire_has_one_id() {
    let id = |workspace: &str, schedule: &str, created, fired| {
        let workspace = workspace.parse().unwrap();
        RunId::of_schedule(&workspace, &schedule.parse().unwrap(), created, fired)
    };
    let first = id("acme", "daily", 1, 1_800_000_000_000);
    assert_eq!(first, id("acme", "daily", 1, 1_800_000_000_000));
    let others = [
        id("other", "daily", 1, 1_800_000_000_000),
        id("acme", "nightly", 1, 1_800_000_000_000),
        id("acme", "daily", 2, 1_800_000_000_000),
        id("acme", "daily", 1, 1_800_000_060_000),
    ];
    assert!(!others.contains(&first));
    assert!(first < others[3], "lists are in the order of ids");
    assert_eq!(first.to_string().parse::<RunId>().unwrap(), first);
}

#[test]
fn workspace_names_have_no_dots() {
    assert!("my.agent-1".parse::<AgentName>().is_ok());
    assert!("my.space".parse::<Workspace>().is_err());
    assert!("-x".parse::<AgentName>().is_err());
    assert!("x".repeat(101).parse::<AgentName>().is_err());
    assert_eq!(subject_token("crm.find"), "crm~find");
}

/// M-1: other languages must find the same partition.
#[test]
fn the_partition_is_crc32_modulo_sixteen() {
    assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    assert_eq!(partition("123456789"), 0x6);
}
