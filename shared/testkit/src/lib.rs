//! How tests get what they need: a NATS server, a Postgres, a running `holdpoint` process, and a
//! way to wait. Says aloud which way was taken; with `HOLDPOINT_TEST_REQUIRE_DOCKER=1` a second
//! best is a failure, so that CI cannot go green by skipping. What cannot run is [`skip`]ped and counted.
//!
//! | variable | default | means |
//! |---|---|---|
//! | `HOLDPOINT_TEST_NATS_IMAGE` | `nats:2.15` | image of the NATS server |
//! | `HOLDPOINT_TEST_POSTGRES_IMAGE` | `postgres:17` | image of the Postgres server |
//! | `HOLDPOINT_TEST_POSTGRES_URL` | none | a Postgres that runs already, instead of a container |
//! | `HOLDPOINT_TEST_REQUIRE_DOCKER` | off | `1`: no fallback, no skipping |
//! | `HOLDPOINT_TEST_REQUIRE_BROWSER` | off | `1`: no test of a page is skipped for want of Chromium |
//! | `HOLDPOINT_TEST_SKIPPED` | none | file in which skipped tests are noted |
//! | `HOLDPOINT_BIN` | beside the test's target folder | the `holdpoint` program |
//!
//! `cargo xtask test` sets these. Never used outside tests.
#![expect(
    clippy::print_stdout,
    reason = "test output is where the way taken is told"
)]

mod docker;
mod driver;
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
