//! The cookie that holds a browser's session.

use axum::http::{HeaderMap, header};

use crate::tls::came_by_tls;

const COOKIE: &str = "holdpoint_session";
/// The name behind TLS. Browsers accept a `__Host-` cookie only with `Secure` and for this very host,
/// so that a neighbouring host cannot plant its session here.
const TLS_COOKIE: &str = "__Host-holdpoint_session";
/// Longest life of a session, in seconds. The server may end it sooner.
const COOKIE_MAX_AGE_S: u32 = 30 * 24 * 3_600;

/// The session's secret. Behind TLS, only the cookie with the prefix counts.
pub(super) fn read_cookie(headers: &HeaderMap) -> Option<&str> {
    let own = cookie_name(headers);
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == own).then_some(value))
}

/// The `Set-Cookie` value that stores a session.
pub(super) fn session_cookie(secret: &str, headers: &HeaderMap) -> String {
    write_cookie(secret, COOKIE_MAX_AGE_S, headers)
}

/// The `Set-Cookie` value that deletes the session.
pub(super) fn expired_cookie(headers: &HeaderMap) -> String {
    write_cookie("", 0, headers)
}

fn write_cookie(secret: &str, max_age: u32, headers: &HeaderMap) -> String {
    let name = cookie_name(headers);
    let secure = if came_by_tls(headers) { "; Secure" } else { "" };
    format!("{name}={secret}; Max-Age={max_age}; Path=/; HttpOnly; SameSite=Lax{secure}")
}

fn cookie_name(headers: &HeaderMap) -> &'static str {
    if came_by_tls(headers) {
        TLS_COOKIE
    } else {
        COOKIE
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::headers;
    use super::*;

    #[test]
    fn a_cookie_is_http_only() {
        let jar = headers(&[("cookie", "a=b; holdpoint_session=s3; c=d")]);
        assert_eq!(read_cookie(&jar), Some("s3"));
        let plain = session_cookie("s3", &jar);
        assert!(plain.contains("HttpOnly") && plain.contains("SameSite=Lax"));
        assert!(!plain.contains("Secure"));
    }

    /// Behind TLS the cookie is `Secure` and bound to this host, and no other cookie is accepted (A-L2).
    #[test]
    fn behind_tls_the_cookie_is_secure_and_for_this_host() {
        let tls = ("x-forwarded-proto", "https");
        let name = "__Host-holdpoint_session";
        for (header, named) in [
            (
                session_cookie("s3", &headers(&[tls])),
                format!("{name}=s3; "),
            ),
            (expired_cookie(&headers(&[tls])), format!("{name}=; ")),
        ] {
            assert!(header.starts_with(&named), "{header}");
            assert!(
                header.contains("; Path=/;") && header.ends_with("; Secure"),
                "{header}"
            );
            assert!(!header.contains("Domain"), "{header}");
        }
        let both = (
            "cookie",
            "holdpoint_session=other; __Host-holdpoint_session=s3",
        );
        assert_eq!(read_cookie(&headers(&[tls, both])), Some("s3"));
        assert_eq!(read_cookie(&headers(&[both])), Some("other"));
        let planted = ("cookie", "holdpoint_session=other");
        assert_eq!(read_cookie(&headers(&[tls, planted])), None);
    }
}
