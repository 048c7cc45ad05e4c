//! A database role for each service, which sees its own schema and no other (M-3).

use anyhow::{Context, bail};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection};
use serde_json::{Map, Value};
use url::Url;

use crate::exit::Usage;
use crate::serve::tables::Tables;

/// Makes role and schema of each service where they are missing, gives each role a fresh password,
/// and returns the addresses to be given to the services.
pub(super) async fn make(tables: &Tables, services: &[&str]) -> anyhow::Result<Map<String, Value>> {
    let Tables::Postgres(address) = tables else {
        bail!(Usage(
            "--roles is for postgres://…; SQLite files are kept apart by their owner".into()
        ));
    };
    let base = Url::parse(address).context("the address of the database")?;
    let db = Database::connect(address.as_str()).await?;
    let mut addresses = Map::new();
    for service in services {
        let role = format!("holdpoint_{service}");
        let password = format!("{:032x}", rand::random::<u128>());
        one(&db, service, &role, &password)
            .await
            .with_context(|| format!("cannot make the role {role}"))?;
        let mut own = base.clone();
        if own.set_username(&role).is_err() || own.set_password(Some(&password)).is_err() {
            bail!(Usage("this address of a database takes no user".into()));
        }
        addresses.insert((*service).to_owned(), own.to_string().into());
    }
    db.close().await?;
    Ok(addresses)
}

/// Names and password are ours: letters, digits and underscores.
async fn one(
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
        // Whoever makes a schema for somebody must be of their kind.
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
