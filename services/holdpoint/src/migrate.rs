//! `migrate`: brings tables up to date before services start. Starting a service does the same.

mod roles;

use std::process::ExitCode;

use anyhow::Context;
use holdpoint_migrations as migrations;
use holdpoint_store::migrate;
use serde_json::json;

use crate::cli::{MigrateArgs, Service};
use crate::exit::Outcome;
use crate::output;
use crate::serve::tables::Tables;

/// Every service that keeps tables.
const ALL: [Service; 5] = [
    Service::Executor,
    Service::Scheduler,
    Service::Handoff,
    Service::Notification,
    Service::Gateway,
];

/// Migrates one service, or all that this build has.
pub(crate) async fn run(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let all = ALL;
    if args.roles {
        let names: Vec<_> = all.iter().map(|service| service.name()).collect();
        let addresses = roles::make(&args.database_url, &names).await?;
        output::line(&serde_json::Value::Object(addresses).to_string())?;
        return Ok(Outcome::Ok.into());
    }
    let wanted = args.service.as_ref().map_or(&all[..], std::slice::from_ref);
    for service in wanted {
        let name = service.name();
        // A SQLite file that a running service owns is not changed under it.
        let _lock = args.database_url.lock(name)?;
        one(*service, &args.database_url)
            .await
            .with_context(|| format!("cannot migrate the tables of the {name} service"))?;
        output::line(&json!({ "service": name, "migrated": true }).to_string())?;
    }
    Ok(Outcome::Ok.into())
}

async fn one(service: Service, tables: &Tables) -> anyhow::Result<()> {
    let store = tables.of(service.name());
    match service {
        Service::Executor => migrate::<migrations::executor::Migrator>(&store).await?,
        Service::Scheduler => migrate::<migrations::scheduler::Migrator>(&store).await?,
        Service::Gateway => migrate::<migrations::gateway::Migrator>(&store).await?,
        Service::Handoff => migrate::<migrations::handoff::Migrator>(&store).await?,
        Service::Notification => migrate::<migrations::notification::Migrator>(&store).await?,
    }
    Ok(())
}
