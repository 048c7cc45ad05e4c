//! Location of the tables: files in one directory, or schemas of one Postgres database.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use holdpoint_store::Location;

use crate::file_privacy::create_private_dir;

/// `postgres://…`, or `sqlite:DIR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tables {
    /// One file per service in this directory.
    Sqlite(PathBuf),
    /// One schema per service with its name.
    Postgres(String),
}

impl FromStr for Tables {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        let folder = text.strip_prefix("sqlite:").unwrap_or_default();
        let folder = folder.strip_prefix("//").unwrap_or(folder);
        if folder.is_empty() {
            return Err("expected postgres://USER:PASSWORD@HOST/DATABASE or sqlite:DIR".to_owned());
        }
        Ok(Self::Sqlite(PathBuf::from(folder)))
    }
}

impl Tables {
    pub(crate) fn of(&self, service: &str) -> Location {
        match self {
            Self::Sqlite(folder) => Location::Sqlite(folder.join(format!("{service}.db"))),
            Self::Postgres(url) => Location::Postgres {
                url: url.clone(),
                schema: service.to_owned(),
            },
        }
    }

    /// Locks the SQLite file of a service for this process, until the lock is dropped or the process
    /// ends. On Postgres replicas share the schema, so there is no lock.
    ///
    /// # Errors
    /// When another process has the lock.
    pub(crate) fn lock(&self, service: &str) -> anyhow::Result<Option<File>> {
        let Self::Sqlite(folder) = self else {
            return Ok(None);
        };
        create_private_dir(folder)?;
        let path = folder.join(format!("{service}.lock"));
        let in_use = || {
            format!(
                "{} is in use by another process; a SQLite file has one owner, and replicas need \
                 --database-url postgres://…",
                folder.join(format!("{service}.db")).display()
            )
        };
        lock_file(&path, in_use).map(Some)
    }
}

/// Locks a file for this process, or fails with the text `in_use`.
pub(crate) fn lock_file(path: &Path, in_use: impl FnOnce() -> String) -> anyhow::Result<File> {
    let file = File::create(path).with_context(|| format!("cannot open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(in_use()),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M-3
    #[test]
    fn an_address_names_a_file_or_a_schema_per_service() {
        let files: Tables = "sqlite:/var/lib/holdpoint".parse().unwrap();
        assert_eq!(
            files.of("executor"),
            Location::Sqlite("/var/lib/holdpoint/executor.db".into())
        );
        let database: Tables = "postgres://u:p@db/holdpoint".parse().unwrap();
        let Location::Postgres { url, schema } = database.of("scheduler") else {
            panic!("a file for Postgres");
        };
        assert_eq!(
            (url.as_str(), schema.as_str()),
            ("postgres://u:p@db/holdpoint", "scheduler")
        );
        for wrong in ["", "sqlite:", "mysql://x", "/var/lib"] {
            assert!(wrong.parse::<Tables>().is_err(), "{wrong}");
        }
    }

    /// Two processes on one file would each assume to be its only writer.
    #[test]
    fn replicas_on_sqlite_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tables = Tables::Sqlite(folder.path().join("data"));
        let first = tables.lock("executor").unwrap();
        let error = tables.lock("executor").unwrap_err().to_string();
        assert!(
            error.contains("executor.db") && error.contains("postgres://"),
            "{error}"
        );
        tables.lock("scheduler").unwrap();
        drop(first);
        tables.lock("executor").unwrap();
    }
}
