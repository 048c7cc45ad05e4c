//! Where a caller is answered.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use holdpoint_contracts::message::Command;
use holdpoint_contracts::problem::Problem;
use holdpoint_contracts::subject::{self, Parts};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::counter::acme;
use super::{World, envelope};
use crate::{Queries, serve_queries};

struct Echo;

impl Queries for Echo {
    const NAME: &'static str = "counter";

    fn answer<'a>(
        &'a self,
        _parts: &'a Parts,
        _body: &'a [u8],
    ) -> BoxFuture<'a, Result<serde_json::Value, Problem>> {
        async { Ok(serde_json::json!({ "seen": true })) }.boxed()
    }
}

/// Mend A-M5: a service publishes its answer with its rights, so it answers at inboxes only. A request for
/// a subject of somebody's is done, or not, and told nowhere.
#[tokio::test]
async fn a_service_replies_only_to_inboxes() {
    let world = World::with_stream().await;
    let kernel = world.start().await;
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    let bus = &world.deps.bus;
    serve_queries(bus, Arc::new(Echo), stop.clone(), &tracker)
        .await
        .unwrap();
    let command = envelope("a", 1, None);
    let body = serde_json::to_vec(&command).unwrap();
    let client = bus.client();
    let asks = [
        command.command.ask_subject(&acme()),
        subject::query(&acme(), "counter", "x"),
    ];
    for (elsewhere, is_inbox) in [
        ("hp.other.cmd.handoff.3.decide_request", false),
        ("hp.other.live.executor", false),
        ("$JS.API.STREAM.UPDATE.HP_STEPS", false),
        ("_INBOX.test.here", true),
    ] {
        for asked in &asks {
            let mut heard = client.subscribe(elsewhere).await.unwrap();
            let (to, reply) = (asked.clone(), elsewhere.to_owned());
            let sent = client.publish_with_reply(to, reply, body.clone().into());
            sent.await.unwrap();
            // What is asked later is answered later, by commands and queries each.
            world.add("b", 1, None).await.unwrap();
            let query = client.request(asks[1].clone(), "{}".into());
            query.await.unwrap();
            let within = Duration::from_millis(if is_inbox { 5_000 } else { 100 });
            let reply = tokio::time::timeout(within, heard.next()).await;
            assert_eq!(reply.is_ok(), is_inbox, "{asked} to {elsewhere}");
        }
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    kernel.stop().await;
}
