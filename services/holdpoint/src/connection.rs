//! Which Holdpoint the commands speak to: options, environment, or what `up` left behind.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cli::GlobalArgs;
use crate::exit::Usage;

/// Where `up` listens unless told otherwise.
pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:7878";
/// The workspace that `up` makes.
pub(crate) const WORKSPACE_DEFAULT: &str = "default";
/// The file in the data directory by which a second terminal finds a running `up`.
pub(crate) const FILE_NAME: &str = "cli.json";

/// Address, token and workspace. It has no `Debug`, so that a token cannot slip into a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Address without a path.
    pub(crate) url: String,
    /// Sent as a bearer token, if there is one.
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// Whose runs and agents.
    #[serde(default = "workspace_default")]
    pub(crate) workspace: String,
}

fn workspace_default() -> String {
    WORKSPACE_DEFAULT.to_owned()
}

impl Connection {
    /// What was typed, completed by the file that `up` wrote into the data directory.
    ///
    /// # Errors
    /// When that file is there and cannot be read.
    pub(crate) fn find(global: &GlobalArgs) -> anyhow::Result<Self> {
        let is_complete = global.url.is_some() && global.token.is_some();
        let file = if is_complete {
            None
        } else {
            read(&global.data_dir())?
        };
        let found = Self::complete(global, file);
        if found.token.is_none() {
            let path = global.data_dir().join(FILE_NAME);
            anyhow::bail!(Usage(format!(
                "no token: {} is not there, or for another address. Run this in the folder of \
                 `holdpoint up`, or give --data DIR, --token or HOLDPOINT_TOKEN",
                path.display()
            )));
        }
        Ok(found)
    }

    /// A token that was written for one address is never sent to another.
    fn complete(global: &GlobalArgs, file: Option<Self>) -> Self {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let typed_url = given(&global.url).map(|url| url.trim_end_matches('/').to_owned());
        let file = file.filter(|file| {
            typed_url
                .as_deref()
                .is_none_or(|url| url == file.url.trim_end_matches('/'))
        });
        let (url, token, workspace) = match file {
            Some(file) => (Some(file.url), file.token, Some(file.workspace)),
            None => (None, None, None),
        };
        Self {
            url: typed_url.or(url).unwrap_or_else(|| URL_DEFAULT.to_owned()),
            token: given(&global.token).or(token),
            workspace: given(&global.workspace)
                .or(workspace)
                .unwrap_or_else(workspace_default),
        }
    }
}

fn read(data_dir: &Path) -> anyhow::Result<Option<Connection>> {
    let path = data_dir.join(FILE_NAME);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let connection = serde_json::from_str(&text)
        .with_context(|| format!("{} is not as `up` writes it", path.display()))?;
    Ok(Some(connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(url: Option<&str>, token: Option<&str>) -> GlobalArgs {
        GlobalArgs {
            url: url.map(str::to_owned),
            token: token.map(str::to_owned),
            ..GlobalArgs::default()
        }
    }

    fn written() -> Connection {
        Connection {
            url: "http://127.0.0.1:9".to_owned(),
            token: Some("secret".to_owned()),
            workspace: "w".to_owned(),
        }
    }

    #[test]
    fn the_file_completes_what_was_not_typed() {
        let found = Connection::complete(&typed(None, None), Some(written()));
        assert!(found == written());
        let found =
            Connection::complete(&typed(Some("http://127.0.0.1:9/"), None), Some(written()));
        assert!(found == written());
        let found = Connection::complete(&typed(None, Some("mine")), Some(written()));
        assert_eq!(
            (found.url.as_str(), found.token.as_deref()),
            ("http://127.0.0.1:9", Some("mine"))
        );
    }

    #[test]
    fn a_token_is_not_sent_to_another_address() {
        let found = Connection::complete(&typed(Some("http://other:9"), None), Some(written()));
        assert_eq!((found.url.as_str(), found.token), ("http://other:9", None));
        assert_eq!(found.workspace, WORKSPACE_DEFAULT);
    }

    #[test]
    fn without_anything_it_is_the_address_of_up() {
        let found = Connection::complete(&typed(None, None), None);
        assert_eq!(
            (found.url.as_str(), found.workspace.as_str()),
            (URL_DEFAULT, "default")
        );
    }

    #[test]
    fn the_file_is_found_in_the_data_directory_and_garbage_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let global = GlobalArgs {
            data: Some(dir.path().to_owned()),
            ..GlobalArgs::default()
        };
        let told = Connection::find(&global).err().unwrap().to_string();
        assert!(
            told.contains("no token") && told.contains("--data"),
            "{told}"
        );
        let path = dir.path().join(FILE_NAME);
        std::fs::write(
            &path,
            r#"{"url":"http://h:1","token":"t","workspace":"w","more":1}"#,
        )
        .unwrap();
        assert_eq!(
            Connection::find(&global)
                .map_err(drop)
                .unwrap()
                .token
                .as_deref(),
            Some("t")
        );
        std::fs::write(&path, "{").unwrap();
        assert!(Connection::find(&global).is_err());
    }
}
