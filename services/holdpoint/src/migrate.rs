//! `migrate`: brings tables up to date before services start. Starting a service does the same.

use std::process::ExitCode;

use anyhow::{Context, bail};
use holdpoint_migrations as migrations;
use holdpoint_store::migrate;
use serde_json::json;

use crate::cli::{MigrateArgs, Service};
use crate::exit::{Outcome, Usage};
use crate::output;
use crate::serve::tables::Tables;

/// Migrates one service, or all that this build has.
pub(crate) async fn run(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let all = [Service::Executor, Service::Scheduler, Service::Gateway];
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
        // Their crates bring their migrators.
        Service::Handoff | Service::Notification => {
            bail!(Usage(format!(
                "the {} service is not in this build yet",
                service.name()
            )));
        }
    }
    Ok(())
}
