//! Scenarios: the `holdpoint` binary as a process of its own, on a real NATS server (a container,
//! or a local process that says so) and real tables. Each file is named after what it shows.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a scenario ends where something is not as it should be"
)]

mod shop;
mod world;

mod a_cancelled_run_never_goes_on;
mod a_killed_up_finds_its_bus_again;
mod a_paused_wait_keeps_its_remaining_time;
mod a_reply_skips_the_follow_up;
mod a_wait_pauses_and_resumes;
mod a_wait_survives_a_kill;
mod bad_input_gets_a_clear_answer;
mod history_streams_without_a_gap;
mod services_run_as_processes_of_their_own;
mod steps_see_what_came_before;
mod the_command_line_speaks_to_a_running_system;
mod the_demo_ends_well;
mod the_same_key_starts_once;
mod two_hundred_wait_and_two_hundred_work;
