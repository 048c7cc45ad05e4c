//! Detects browsers that use TLS through a proxy, and makes them keep to it.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// Browsers use only TLS with this host for a year. Other hosts of the domain are not affected.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Whether the browser uses TLS to the first proxy. Each proxy appends to `Forwarded` (RFC 7239) or
/// `X-Forwarded-Proto`, so the first entry is about the browser.
pub(crate) fn came_by_tls(headers: &HeaderMap) -> bool {
    let first = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?;
        text.split(',').next()
    };
    let is_https = |proto: &str| proto.trim().trim_matches('"').eq_ignore_ascii_case("https");
    let forwarded = first("forwarded").and_then(|element| {
        element
            .split(';')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("proto"))
            .map(|(_, proto)| proto)
    });
    forwarded.is_some_and(is_https) || first("x-forwarded-proto").is_some_and(is_https)
}

/// Answers a TLS request with `Strict-Transport-Security`. Browsers ignore that over plain HTTP, and `up` on
/// loopback has no TLS.
pub(crate) async fn enforce_tls(request: Request, next: Next) -> Response {
    let is_tls = came_by_tls(request.headers());
    let mut response = next.run(request).await;
    if is_tls {
        let headers = response.headers_mut();
        headers.insert(header::STRICT_TRANSPORT_SECURITY, TLS_ONLY);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mend A-L2: proxies write a list, another case, or the header of RFC 7239.
    #[test]
    fn the_proxy_says_that_it_was_tls() {
        for (name, value, is_tls) in [
            ("x-forwarded-proto", "https", true),
            ("x-forwarded-proto", "HTTPS", true),
            ("x-forwarded-proto", "https, http", true),
            ("x-forwarded-proto", "http, https", false),
            ("x-forwarded-proto", "httpsx", false),
            (
                "forwarded",
                "for=10.0.0.1;proto=https;by=10.0.0.2, proto=http",
                true,
            ),
            ("forwarded", "Proto=\"https\"", true),
            ("forwarded", "for=10.0.0.1; proto=http, proto=https", false),
        ] {
            let headers = HeaderMap::from_iter([(
                axum::http::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )]);
            assert_eq!(came_by_tls(&headers), is_tls, "{name}: {value}");
        }
        assert!(!came_by_tls(&HeaderMap::new()));
    }
}
