//! Which Holdpoint the commands speak to: options, environment, or what `up` left behind.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cli::GlobalArgs;
use crate::client::is_loopback;
use crate::exit::Usage;
use crate::file_privacy;

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
    /// When that file cannot be read or is not as `up` leaves it, and when there is no token.
    pub(crate) fn find(global: &GlobalArgs) -> anyhow::Result<Self> {
        let is_complete = global.url.is_some() && global.token.is_some();
        let file = if is_complete {
            None
        } else {
            Left::read(&global.data_dir())?
        };
        let found = Self::complete(global, file.map(|left| left.connection))?;
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

    /// A token that was written for one address is never sent to another. A token that was typed goes to
    /// this machine or to an address that was typed, too: a file may have come with a project.
    fn complete(global: &GlobalArgs, file: Option<Self>) -> Result<Self, Usage> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let typed_url = given(&global.url).map(|url| url.trim_end_matches('/').to_owned());
        let typed_token = given(&global.token);
        let file = file.filter(|file| {
            typed_url
                .as_deref()
                .is_none_or(|url| url == file.url.trim_end_matches('/'))
        });
        if let Some(Self { url, token, .. }) = &file
            && typed_url.is_none()
            && typed_token.is_some()
            && typed_token != *token
            && !is_on_this_machine(url)
        {
            let path = global.data_dir().join(FILE_NAME);
            return Err(Usage(format!(
                "the token you gave is not sent to {url}, which {} names; give --url {url} if you mean it",
                path.display()
            )));
        }
        let (url, token, workspace) = match file {
            Some(file) => (Some(file.url), file.token, Some(file.workspace)),
            None => (None, None, None),
        };
        Ok(Self {
            url: typed_url.or(url).unwrap_or_else(|| URL_DEFAULT.to_owned()),
            token: typed_token.or(token),
            workspace: given(&global.workspace)
                .or(workspace)
                .unwrap_or_else(workspace_default),
        })
    }
}

/// What `up` leaves in its data directory for the commands, workers and programs of its user.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Left {
    #[serde(flatten)]
    pub(crate) connection: Connection,
    /// Address of the bus, with its key.
    #[serde(default)]
    pub(crate) nats_url: Option<String>,
}

impl Left {
    /// Reads the file, if it is there.
    ///
    /// # Errors
    /// When it is not this user's alone, as `up` leaves it: it may have come with a project, and what is
    /// typed would go where another wants it.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = data_dir.join(FILE_NAME);
        let cannot_read = || format!("cannot read {}", path.display());
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot_read),
        };
        if !file_privacy::is_own(&file.metadata().with_context(cannot_read)?) {
            anyhow::bail!(Usage(format!(
                "{} is not used: it is not yours alone, as `holdpoint up` leaves it, and may have come with a \
                 project. Give --url and --token, or run chmod 600 on it if it is yours",
                path.display()
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(cannot_read)?;
        let left = serde_json::from_str(&text)
            .with_context(|| format!("{} is not as `up` writes it", path.display()))?;
        Ok(Some(left))
    }

    /// Writes the file, for this user alone.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = data_dir.join(FILE_NAME);
        let beside = data_dir.join(format!("{FILE_NAME}.new"));
        let write = || -> io::Result<()> {
            if beside.exists() {
                std::fs::remove_file(&beside)?;
            }
            let mut options = File::options();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&beside)?;
            serde_json::to_writer(&mut file, self)?;
            file.flush()?;
            std::fs::rename(&beside, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

fn is_on_this_machine(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    url.is_some_and(|url| url.host_str().is_some_and(is_loopback))
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

    fn completed(global: &GlobalArgs, file: Option<Connection>) -> Connection {
        Connection::complete(global, file).unwrap()
    }

    #[test]
    fn the_file_completes_what_was_not_typed() {
        let found = completed(&typed(None, None), Some(written()));
        assert!(found == written());
        let found = completed(&typed(Some("http://127.0.0.1:9/"), None), Some(written()));
        assert!(found == written());
        let found = completed(&typed(None, Some("mine")), Some(written()));
        assert_eq!(
            (found.url.as_str(), found.token.as_deref()),
            ("http://127.0.0.1:9", Some("mine"))
        );
    }

    #[test]
    fn a_token_is_not_sent_to_another_address() {
        let found = completed(&typed(Some("http://other:9"), None), Some(written()));
        assert_eq!((found.url.as_str(), found.token), ("http://other:9", None));
        assert_eq!(found.workspace, WORKSPACE_DEFAULT);
    }

    /// Mend A-M12: a file that came with a project does not get the token of the person who runs a command.
    #[test]
    fn a_typed_token_goes_to_no_address_of_a_file_but_this_machine() {
        let far = |url: &str| Connection {
            url: url.to_owned(),
            ..written()
        };
        for url in [
            "http://evil.example",
            "http://127.0.0.1.evil.example:7878",
            "http://0.0.0.0@evil.example",
        ] {
            let refused = Connection::complete(&typed(None, Some("mine")), Some(far(url)));
            let told = refused.err().unwrap().to_string();
            assert!(told.contains(url) && told.contains("--url"), "{told}");
            let meant = completed(&typed(Some(url), Some("mine")), Some(far(url)));
            assert_eq!(
                (meant.url.as_str(), meant.token.as_deref()),
                (url, Some("mine"))
            );
            // The token that came with the address goes there.
            let both = completed(&typed(None, None), Some(far(url)));
            assert_eq!(both.token.as_deref(), Some("secret"));
        }
        for url in ["http://localhost:1", "http://[::1]:1", "http://127.0.0.2:1"] {
            let near = completed(&typed(None, Some("mine")), Some(far(url)));
            assert_eq!(near.token.as_deref(), Some("mine"));
        }
    }

    /// Mend A-M12: what others may have written is not read, whatever it names.
    #[test]
    fn a_file_that_is_not_ones_own_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let left = Left {
            connection: written(),
            nats_url: Some("nats://key@127.0.0.1:1".to_owned()),
        };
        left.write(dir.path()).unwrap();
        left.write(dir.path()).unwrap();
        let read = || Left::read(dir.path());
        let back = read().map_err(drop).unwrap().unwrap();
        assert!(back.connection == left.connection && back.nats_url == left.nats_url);
        for mode in [0o644, 0o620, 0o604] {
            let open = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.path().join(FILE_NAME), open).unwrap();
            let told = read().err().unwrap().to_string();
            assert!(
                told.contains("not yours alone") && told.contains("chmod 600"),
                "{told}"
            );
        }
    }

    #[test]
    fn without_anything_it_is_the_address_of_up() {
        let found = completed(&typed(None, None), None);
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
        let write = |text: &str| {
            use std::os::unix::fs::PermissionsExt as _;

            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write(r#"{"url":"http://h:1","token":"t","workspace":"w","more":1}"#);
        assert_eq!(
            Connection::find(&global)
                .map_err(drop)
                .unwrap()
                .token
                .as_deref(),
            Some("t")
        );
        write("{");
        assert!(Connection::find(&global).is_err());
    }
}
