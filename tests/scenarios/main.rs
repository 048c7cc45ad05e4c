//! Scenarios: the `holdpoint` binary as a separate process on a real NATS server (a container or a local process) and
//! real tables. Each file is named after the behaviour that it shows.

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
mod mail_provider;
mod shop;
mod toolbox;
mod world;

mod a_call_is_approved_before_it_is_reached;
mod a_call_is_sent_back;
mod a_cancelled_run_never_goes_on;
mod a_clock_that_is_set_back_ends_nothing;
mod a_deleted_agent_fails_its_runs;
mod a_digest_lists_open_requests;
mod a_failed_channel_is_replaced_by_the_next;
mod a_failed_run_is_retried;
mod a_form_keeps_its_order;
mod a_freed_place_starts_one_run;
mod a_full_disk_loses_no_work;
mod a_hanging_mail_server_delays_no_other_delivery;
mod a_hold_calls_back;
mod a_hold_needs_no_agent;
mod a_killed_up_finds_its_bus_again;
mod a_long_wait_is_exact;
mod a_parked_tool_comes_back_with_the_answer;
mod a_paused_agent_stops_every_run;
mod a_paused_wait_keeps_its_remaining_time;
mod a_person_decides_an_uncertain_step;
mod a_planner_makes_the_steps_of_a_run;
mod a_process_dies_at_any_point;
mod a_program_publishes_commands;
mod a_question_is_answered;
mod a_reply_comes_by_hook;
mod a_reply_finds_its_thread;
mod a_reply_skips_the_follow_up;
mod a_request_is_answered_from_its_notification;
mod a_risky_step_waits_for_approval;
mod a_run_hides_the_answers_of_its_requests;
mod a_run_is_suspended;
mod a_run_moves_to_a_newer_version;
mod a_run_starts_child_runs;
mod a_run_waits_for_a_reply;
mod a_run_waits_for_a_signal_or_a_date;
mod a_schedule_starts_runs;
mod a_secret_is_entered_elsewhere;
mod a_service_dies_at_any_point;
mod a_standing_approval_decides_without_asking;
mod a_step_creates_a_task;
mod a_step_runs_for_each_item;
mod a_step_waits_for_its_tool;
mod a_stopped_scheduler_causes_a_warning;
mod a_suspended_step_continues_where_it_was;
mod a_token_grants_only_its_rights;
mod a_tool_asks_and_waits;
mod a_wait_pauses_and_resumes;
mod a_wait_survives_a_kill;
mod a_warm_lead_is_handed_to_a_person;
mod a_watcher_is_notified;
mod a_watcher_is_notified_of_the_end;
mod a_wiped_bus_loses_no_work;
mod a_worker_outlives_up;
mod a_workspace_with_many_calls_delays_no_other;
mod agents_share_templates_and_calendars;
mod an_accepted_value_passes_every_stage;
mod an_agent_has_limits;
mod an_agent_is_rehearsed;
mod an_erased_person_leaves_no_trace;
mod an_input_that_kills_becomes_a_dead_letter;
mod an_operation_acts_on_many_runs;
mod bad_input_gets_a_clear_answer;
mod commands_of_a_disabled_user_are_refused;
mod contacts_and_texts_notify_people;
mod each_client_has_only_the_permissions_it_needs;
mod ended_runs_are_deleted;
mod every_recipient_is_notified;
mod garbage_on_the_bus_does_no_harm;
mod history_streams_without_a_gap;
mod hostile_clients_delay_no_other_caller;
mod http_tools_are_called_with_a_token;
mod instructions_run_as_steps;
mod no_service_reads_anothers_tables;
mod notifications_are_live;
mod other_users_of_the_machine_are_shut_out;
mod people_act_on_requests;
mod people_answer_late_twice_or_never;
mod people_approve_a_part_in_the_browser;
mod people_approve_in_advance_in_the_browser;
mod people_are_mailed;
mod people_are_notified_in_the_browser;
mod people_decide_in_the_browser;
mod people_see_agents_in_the_browser;
mod people_set_preferences_in_the_browser;
mod people_take_over_in_the_browser;
mod people_watch_in_the_browser;
mod people_work_in_the_terminal;
mod private_addresses_are_called_only_where_allowed;
mod quiet_hours_delay_mails;
mod requests_follow_their_named_policies;
mod services_run_as_separate_processes;
mod steps_see_what_came_before;
mod steps_tag_and_find_contacts;
mod streams_have_bounds;
mod the_calls_of_a_fan_out_are_approved_together;
mod the_command_line_speaks_to_a_running_system;
mod the_demo_completes;
mod the_examples_run_as_documented;
mod the_registry_knows_the_tools_of_workers;
mod the_requester_is_notified_of_the_end;
mod the_same_key_starts_once;
mod too_much_is_refused_and_delays_no_other_caller;
mod two_hundred_wait_and_two_hundred_work;
mod two_replicas_share_the_approvals;
mod two_replicas_share_the_limits;
mod two_replicas_share_the_replies;
mod two_replicas_share_the_work;
mod two_versions_share_one_bus;
mod webhooks_are_called;
