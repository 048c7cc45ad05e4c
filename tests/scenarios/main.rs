//! Scenarios: the `holdpoint` binary as a process of its own, on a real NATS server (a container,
//! or a local process that says so) and real tables. Each file is named after what it shows.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a scenario ends where something is not as it should be"
)]

mod browser;
#[path = "../simulation/chance.rs"]
mod chance;
mod fleet;
mod shop;
mod toolbox;
mod world;

mod a_cancelled_run_never_goes_on;
mod a_clock_set_back_ends_nothing;
mod a_deleted_agent_fails_its_runs;
mod a_digest_gathers_what_is_open;
mod a_follower_is_told;
mod a_form_keeps_its_order;
mod a_full_disk_costs_time_and_no_work;
mod a_hanging_mail_server_delays_nobody;
mod a_hold_calls_back;
mod a_hold_needs_no_agent;
mod a_killed_up_finds_its_bus_again;
mod a_long_wait_is_exact;
mod a_parked_tool_comes_back_with_the_answer;
mod a_paused_agent_stops_every_run;
mod a_paused_wait_keeps_its_remaining_time;
mod a_person_is_told_by_the_next_channel;
mod a_process_dies_at_any_point;
mod a_program_publishes_commands;
mod a_question_is_answered;
mod a_reply_comes_by_hook;
mod a_reply_skips_the_follow_up;
mod a_secret_is_entered_elsewhere;
mod a_service_dies_at_any_point;
mod a_step_creates_a_task;
mod a_stopped_scheduler_is_told_as_a_warning;
mod a_terminal_is_enough;
mod a_tool_asks_and_waits;
mod a_wait_pauses_and_resumes;
mod a_wait_survives_a_kill;
mod a_warm_lead_is_handed_to_a_person;
mod a_wiped_bus_costs_time_and_no_work;
mod a_worker_outlives_up;
mod an_answer_is_for_whom_it_concerns;
mod an_input_that_kills_is_put_aside;
mod an_uncertain_step_is_put_to_a_person;
mod bad_input_gets_a_clear_answer;
mod each_client_may_only_what_it_needs;
mod everybody_is_told;
mod garbage_on_the_bus_spoils_nothing;
mod history_streams_without_a_gap;
mod http_tools_are_called_with_a_token;
mod no_service_reads_anothers_tables;
mod notifications_are_live;
mod people_act_on_requests;
mod people_are_mailed;
mod people_are_notified_in_the_browser;
mod people_are_told_what_waits_for_them;
mod people_decide_in_the_browser;
mod people_do_what_people_do;
mod people_follow_in_the_browser;
mod people_hand_over_in_the_browser;
mod people_set_preferences_in_the_browser;
mod policies_are_named;
mod private_addresses_are_called_only_where_allowed;
mod quiet_hours_hold_mails_back;
mod services_run_as_processes_of_their_own;
mod steps_see_what_came_before;
mod strangers_hold_up_nobody;
mod streams_have_bounds;
mod the_command_line_speaks_to_a_running_system;
mod the_demo_ends_well;
mod the_examples_run_as_documented;
mod the_laptop_is_its_users_alone;
mod the_same_key_starts_once;
mod tokens_open_what_they_say;
mod too_much_is_refused_and_holds_up_nobody;
mod two_hundred_wait_and_two_hundred_work;
mod two_of_each_share_the_work;
mod two_versions_share_one_bus;
mod webhooks_tell_of_requests;
mod what_one_door_takes_every_stage_takes;
mod whoever_asked_is_told_how_it_ended;
mod whoever_follows_is_told_of_the_end;
mod whoever_is_disabled_commands_no_more;
