//! Scenarios of the gate that other files play on SQLite, here on Postgres: retry, revision, suspension, child runs, the
//! registry of tools, migration and signals. One server has the databases of both systems.

use holdpoint_testkit::postgres;

use crate::a_call_is_sent_back::send_back_over_a_kill;
use crate::a_failed_run_is_retried::retry_over_a_kill;
use crate::a_run_is_suspended::suspend_over_a_kill;
use crate::a_run_moves_to_a_newer_version::migrate_a_waiting_run;
use crate::a_run_starts_child_runs::start_child_runs;
use crate::a_run_waits_for_a_signal_or_a_date::signal_over_a_kill;
use crate::the_registry_knows_the_tools_of_workers::register_and_lower_a_risk;
use crate::world::World;

/// Gate (Must): "All of this on SQLite and Postgres."
#[tokio::test]
async fn runs_are_retried_revised_suspended_and_moved_on_postgres() {
    let Some(postgres) = postgres().await.unwrap() else {
        return;
    };
    let other = postgres.another().await.unwrap();
    let on_real_time = async {
        let mut world = World::with_args(&["--database-url", &postgres.url]).await;
        retry_over_a_kill(&mut world).await;
        send_back_over_a_kill(&mut world).await;
        suspend_over_a_kill(&mut world).await;
        start_child_runs(&world).await;
        register_and_lower_a_risk(&world).await;
    };
    let on_a_test_clock = async {
        let mut world = World::with_test_clock_and(&["--database-url", &other]).await;
        migrate_a_waiting_run(&world).await;
        signal_over_a_kill(&mut world).await;
    };
    tokio::join!(on_real_time, on_a_test_clock);
}
