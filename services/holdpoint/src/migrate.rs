//! `migrate`: migrates the tables before services start. A starting service does the same.

mod roles;

use std::process::ExitCode;

use anyhow::Context;
use holdpoint_migrations as migrations;
use holdpoint_store::migrate;
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::cli::processes::{MigrateArgs, Service};
use crate::exit::ExitKind;
use crate::output;
use crate::serve::tables::Tables;

pub(crate) async fn run(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let tables = &args.database.database_url;
    if args.roles {
        let urls = roles::create_roles(tables).await?;
        output::line(&Value::Object(urls).to_string())?;
        return Ok(ExitKind::Ok.into());
    }
    let service = args.service.as_ref();
    for service in service.map_or(Service::VARIANTS, std::slice::from_ref) {
        let name: &str = service.into();
        // A SQLite file must not change under the service that owns it.
        let _lock = tables.lock(name)?;
        migrate_service(*service, tables)
            .await
            .with_context(|| format!("cannot migrate the tables of the {name} service"))?;
        output::line(&json!({ "service": name, "migrated": true }).to_string())?;
    }
    Ok(ExitKind::Ok.into())
}

async fn migrate_service(service: Service, tables: &Tables) -> anyhow::Result<()> {
    let store = tables.of(service.into());
    match service {
        Service::Executor => migrate::<migrations::executor::Migrator>(&store).await?,
        Service::Scheduler => migrate::<migrations::scheduler::Migrator>(&store).await?,
        Service::Gateway => migrate::<migrations::gateway::Migrator>(&store).await?,
        Service::Handoff => migrate::<migrations::handoff::Migrator>(&store).await?,
        Service::Notification => migrate::<migrations::notification::Migrator>(&store).await?,
    }
    Ok(())
}
