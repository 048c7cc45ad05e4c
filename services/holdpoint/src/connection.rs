//! The address that commands use: from options, the environment, or the file of a running `up`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::cli::GlobalArgs;
use crate::exit::Usage;
use crate::file_privacy;

pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:7878";
/// The workspace that `up` creates.
pub(crate) const WORKSPACE_DEFAULT: &str = "default";
/// File in the data directory by which a second terminal finds a running `up`.
pub(crate) const FILE_NAME: &str = "cli.json";

/// Address, token and workspace. It has no `Debug`, so that a token cannot slip into a log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Connection {
    /// Address without a path.
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    #[serde(default = "workspace_default")]
    pub(crate) workspace: String,
}

fn workspace_default() -> String {
    WORKSPACE_DEFAULT.to_owned()
}

impl Connection {
    /// The options, completed by the file of `up` in the data directory.
    ///
    /// # Errors
    /// When that file is not readable, not valid or not private, or when there is no token.
    pub(crate) fn find(global: &GlobalArgs) -> anyhow::Result<Self> {
        let is_complete = global.url.is_some() && global.token.is_some();
        let file = if is_complete {
            None
        } else {
            ConnectionFile::read(&global.data_dir())?
        };
        let found = Self::complete(global, file.map(|file| file.connection))?;
        if found.token.is_none() {
            let path = global.data_dir().join(FILE_NAME);
            anyhow::bail!(Usage(format!(
                "no token: {} is missing or for another address; run this command in the directory of \
                 `holdpoint up`, or give --data DIR, --token or HOLDPOINT_TOKEN",
                path.display()
            )));
        }
        Ok(found)
    }

    /// A token from the file is never sent to another address. A token from the options is sent only to
    /// this machine or to an address from the options, because the file may have come with a project.
    fn complete(global: &GlobalArgs, file: Option<Self>) -> Result<Self, Usage> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let given_url = given(&global.url).map(|url| url.trim_end_matches('/').to_owned());
        let given_token = given(&global.token);
        let file = file.filter(|file| {
            given_url
                .as_deref()
                .is_none_or(|url| url == file.url.trim_end_matches('/'))
        });
        if let Some(Self { url, token, .. }) = &file
            && given_url.is_none()
            && given_token.is_some()
            && given_token != *token
            && !is_on_this_machine(url)
        {
            let path = global.data_dir().join(FILE_NAME);
            return Err(Usage(format!(
                "refusing to send your token to {url}, which comes from {}; give --url {url} to allow it",
                path.display()
            )));
        }
        let (url, token, workspace) = match file {
            Some(file) => (Some(file.url), file.token, Some(file.workspace)),
            None => (None, None, None),
        };
        Ok(Self {
            url: given_url.or(url).unwrap_or_else(|| URL_DEFAULT.to_owned()),
            token: given_token.or(token),
            workspace: given(&global.workspace)
                .or(workspace)
                .unwrap_or_else(workspace_default),
        })
    }
}

/// The file of `up` for the commands, workers and programs of the same user.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ConnectionFile {
    #[serde(flatten)]
    pub(crate) connection: Connection,
    /// Address of the bus, including its key.
    pub(crate) nats_url: Option<String>,
}

impl ConnectionFile {
    /// Reads the file if it exists.
    ///
    /// # Errors
    /// When other users can read or change it. Such a file may have come with a project, and would
    /// send what the user enters to an address of its author.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = data_dir.join(FILE_NAME);
        let cannot_read = || format!("cannot read {}", path.display());
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot_read),
        };
        if !file_privacy::is_private(&file.metadata().with_context(cannot_read)?) {
            anyhow::bail!(Usage(format!(
                "{} is not private, so it may have come with a project and is ignored; give --url and \
                 --token, or run chmod 600 on it if `holdpoint up` wrote it",
                path.display()
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(cannot_read)?;
        let file = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a valid file of `holdpoint up`", path.display()))?;
        Ok(Some(file))
    }

    /// Replaces the file at once, readable only by this user.
    pub(crate) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = data_dir.join(FILE_NAME);
        let beside = data_dir.join(format!("{FILE_NAME}.new"));
        let write = || -> anyhow::Result<()> {
            if beside.exists() {
                std::fs::remove_file(&beside)?;
            }
            serde_json::to_writer(file_privacy::create_private_file(&beside)?, self)?;
            Ok(std::fs::rename(&beside, &path)?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Whether a host of an address is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let ip = host.parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

fn is_on_this_machine(url: &str) -> bool {
    let url = reqwest::Url::parse(url).ok();
    url.is_some_and(|url| url.host_str().is_some_and(is_loopback))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: Option<&str>, token: Option<&str>) -> GlobalArgs {
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
    fn the_file_completes_the_options() {
        let found = completed(&options(None, None), Some(written()));
        assert!(found == written());
        let found = completed(&options(Some("http://127.0.0.1:9/"), None), Some(written()));
        assert!(found == written());
        let found = completed(&options(None, Some("mine")), Some(written()));
        assert_eq!(
            (found.url.as_str(), found.token.as_deref()),
            ("http://127.0.0.1:9", Some("mine"))
        );
    }

    #[test]
    fn a_token_is_not_sent_to_another_address() {
        let found = completed(&options(Some("http://other:9"), None), Some(written()));
        assert_eq!((found.url.as_str(), found.token), ("http://other:9", None));
        assert_eq!(found.workspace, WORKSPACE_DEFAULT);
    }

    /// Mend A-M12: a file that came with a project does not get the token of the person who runs a command.
    #[test]
    fn a_token_of_the_options_is_sent_to_no_address_of_a_file_except_this_machine() {
        let far = |url: &str| Connection {
            url: url.to_owned(),
            ..written()
        };
        for url in [
            "http://evil.example",
            "http://127.0.0.1.evil.example:7878",
            "http://0.0.0.0@evil.example",
        ] {
            let refused = Connection::complete(&options(None, Some("mine")), Some(far(url)));
            let error = refused.err().unwrap().to_string();
            assert!(error.contains(url) && error.contains("--url"), "{error}");
            let meant = completed(&options(Some(url), Some("mine")), Some(far(url)));
            assert_eq!(
                (meant.url.as_str(), meant.token.as_deref()),
                (url, Some("mine"))
            );
            // The token that came with the address goes there.
            let both = completed(&options(None, None), Some(far(url)));
            assert_eq!(both.token.as_deref(), Some("secret"));
        }
        for url in ["http://localhost:1", "http://[::1]:1", "http://127.0.0.2:1"] {
            let near = completed(&options(None, Some("mine")), Some(far(url)));
            assert_eq!(near.token.as_deref(), Some("mine"));
        }
    }

    /// Mend A-M12: what others may have written is not read, whatever it names.
    #[test]
    fn a_file_that_is_not_private_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let file = ConnectionFile {
            connection: written(),
            nats_url: Some("nats://key@127.0.0.1:1".to_owned()),
        };
        file.write(dir.path()).unwrap();
        file.write(dir.path()).unwrap();
        let read = || ConnectionFile::read(dir.path());
        let back = read().map_err(drop).unwrap().unwrap();
        assert!(back.connection == file.connection && back.nats_url == file.nats_url);
        for mode in [0o644, 0o620, 0o604] {
            let open = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.path().join(FILE_NAME), open).unwrap();
            let error = read().err().unwrap().to_string();
            assert!(
                error.contains("not private") && error.contains("chmod 600"),
                "{error}"
            );
        }
    }

    #[test]
    fn without_anything_it_is_the_address_of_up() {
        let found = completed(&options(None, None), None);
        assert_eq!(
            (found.url.as_str(), found.workspace.as_str()),
            (URL_DEFAULT, "default")
        );
    }

    #[test]
    fn the_file_is_found_in_the_data_directory_and_an_invalid_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let global = GlobalArgs {
            data: Some(dir.path().to_owned()),
            ..GlobalArgs::default()
        };
        let error = Connection::find(&global).err().unwrap().to_string();
        assert!(
            error.contains("no token") && error.contains("--data"),
            "{error}"
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
