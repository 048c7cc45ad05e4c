//! Resources of tests: a NATS server, a Postgres, a running `holdpoint` process, and a way to wait. Each test prints
//! what it uses. With `HOLDPOINT_TEST_REQUIRE_DOCKER=1` a fallback is a failure, so that CI cannot pass by skipping.
//! A test that cannot run is [`skip`]ped and counted.
//!
//! | variable | default | means |
//! |---|---|---|
//! | `HOLDPOINT_TEST_NATS_IMAGE` | `nats:2.15` | image of the NATS server |
//! | `HOLDPOINT_TEST_POSTGRES_IMAGE` | `postgres:17` | image of the Postgres server |
//! | `HOLDPOINT_TEST_POSTGRES_URL` | none | a Postgres that runs already, instead of a container |
//! | `HOLDPOINT_TEST_REQUIRE_DOCKER` | off | `1`: no fallback, no skipping |
//! | `HOLDPOINT_TEST_REQUIRE_BROWSER` | off | `1`: no test of a page is skipped without Chromium |
//! | `HOLDPOINT_TEST_SKIPPED` | none | file in which skipped tests are noted |
//! | `HOLDPOINT_BIN` | beside the test's target folder | the `holdpoint` program |
//!
//! `cargo xtask test` sets these. Never used outside tests.
#![expect(clippy::print_stdout, reason = "test output says what a test uses")]

mod docker;
mod driver;
mod folder;
mod golden;
mod nats;
mod nats_process;
mod people;
mod plans;
mod postgres;
mod skip;
mod up;
mod wait;

pub use self::{
    driver::{TestDriver, driver},
    folder::TestFolder,
    golden::stored_states,
    nats::{TestNats, nats, nats_with_config},
    nats_process::NatsProcess,
    people::{Act, Person, Said, play},
    plans::Plans,
    postgres::{TestPostgres, postgres, postgres_ordered_by_words},
    skip::skip,
    up::{Answer, Up, UpOptions, holdpoint_binary},
    wait::until,
};
