//! Addresses of NATS servers, separated by commas. They may contain credentials: `nats://KEY@host:4222` or
//! `nats://USER:PASSWORD@host`. The NATS client does not read a key from an address, and would log it.

use percent_encoding::percent_decode_str;

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// A token of the server.
    Token(String),
    /// A user of the server and its password.
    Password { user: String, password: String },
}

/// The servers without credentials, and the first credentials of the list.
pub(crate) fn split(url: &str) -> (Vec<String>, Option<Credentials>) {
    let mut servers = Vec::new();
    let mut found = None;
    for one in url.split(',').map(str::trim) {
        let (scheme, rest) = one.split_once("://").unwrap_or(("nats", one));
        let host = match rest.rsplit_once('@') {
            Some((text, host)) => {
                found = found.or_else(|| Some(read(text)));
                host
            }
            None => rest,
        };
        servers.push(format!("{scheme}://{host}"));
    }
    (servers, found)
}

fn read(text: &str) -> Credentials {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match text.split_once(':') {
        Some((user, password)) => Credentials::Password {
            user: plain(user),
            password: plain(password),
        },
        None => Credentials::Token(plain(text)),
    }
}

/// The address for logs and errors, without credentials.
#[must_use]
pub fn without_credentials(url: &str) -> String {
    split(url).0.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-H9: the key of the bus is taken from the address, and never shown with it.
    #[test]
    fn credentials_are_separated_from_the_address() {
        let token = |text: &str| Some(Credentials::Token(text.to_owned()));
        let password = |user: &str, password: &str| {
            Some(Credentials::Password {
                user: user.to_owned(),
                password: password.to_owned(),
            })
        };
        for (url, plain, credentials) in [
            ("nats://127.0.0.1:1", "nats://127.0.0.1:1", None),
            ("host", "nats://host", None),
            ("nats://k3y@h:1", "nats://h:1", token("k3y")),
            ("tls://ann:p%40ss@h", "tls://h", password("ann", "p@ss")),
            ("nats://a:p@ss@h:1", "nats://h:1", password("a", "p@ss")),
            (
                "nats://k@h:1, nats://k@i:2",
                "nats://h:1,nats://i:2",
                token("k"),
            ),
            ("nats://k@[::1]:4", "nats://[::1]:4", token("k")),
        ] {
            let (servers, found) = split(url);
            assert_eq!(servers.join(","), plain, "{url}");
            assert!(found == credentials, "{url}");
            assert_eq!(without_credentials(url), plain);
        }
    }
}
