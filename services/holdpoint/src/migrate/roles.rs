//! A database role per service, which sees only its schema (M-3).

use anyhow::{Context, bail};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection};
use serde_json::{Map, Value};
use strum::VariantArray as _;
use url::Url;

use crate::cli::processes::Service;
use crate::exit::Usage;
use crate::serve::tables::Tables;

/// Creates missing roles and schemas, gives each role a new password, and returns the URL of each service.
pub(super) async fn create_roles(tables: &Tables) -> anyhow::Result<Map<String, Value>> {
    let Tables::Postgres(address) = tables else {
        bail!(Usage(
            "--roles needs postgres://…; SQLite files are protected by their owner".into()
        ));
    };
    let base = Url::parse(address).context("invalid database URL")?;
    let db = Database::connect(address.as_str()).await?;
    let mut urls = Map::new();
    for service in Service::VARIANTS {
        let service: &str = service.into();
        let role = format!("holdpoint_{service}");
        let password = format!("{:032x}", rand::random::<u128>());
        create_role(&db, service, &role, &password)
            .await
            .with_context(|| format!("cannot create the role {role}"))?;
        let mut url = base.clone();
        if url.set_username(&role).is_err() || url.set_password(Some(&password)).is_err() {
            bail!(Usage("the database URL must allow a user".into()));
        }
        urls.insert(service.to_owned(), url.to_string().into());
    }
    db.close().await?;
    Ok(urls)
}

/// Names and password contain only letters, digits and underscores, so they need no quoting.
async fn create_role(
    db: &DatabaseConnection,
    schema: &str,
    role: &str,
    password: &str,
) -> Result<(), sea_orm::DbErr> {
    let statements = [
        format!(
            "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN \
             CREATE ROLE {role} LOGIN; END IF; END $$"
        ),
        format!("ALTER ROLE {role} PASSWORD '{password}'"),
        // Postgres lets only members of a role create a schema for it.
        format!("GRANT {role} TO CURRENT_USER"),
        format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\" AUTHORIZATION {role}"),
        format!("REVOKE ALL ON SCHEMA \"{schema}\" FROM PUBLIC"),
        format!("ALTER ROLE {role} SET search_path = \"{schema}\""),
    ];
    for statement in statements {
        db.execute_unprepared(&statement).await?;
    }
    Ok(())
}
