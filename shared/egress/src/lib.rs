//! Which addresses a tool, a callback or a webhook may reach.
//!
//! Owns that one decision, for names as they resolve at the moment of connecting, for literal
//! addresses, and for every hop of a redirect. It must never be asked about a name apart from the
//! connection: a name that was public when it was checked can be private when it is used (DNS
//! rebinding), so [`EgressPolicy::client`] filters what the connector itself resolves.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Longest time for a connection to stand.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where requests of a workspace may go. `up` allows all, `serve` only public addresses unless
/// `HOLDPOINT_ALLOW_PRIVATE_TARGETS=1` (API.md, "Start, time, data").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressPolicy {
    /// Loopback and private addresses too: whoever writes agents owns the machine.
    AllowPrivate,
    /// Only addresses that are routed on the public internet.
    PublicOnly,
}

/// Why a URL or an address was refused; the texts are fit to be shown (S0-R5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefused {
    /// Neither `http` nor `https`.
    #[error("only http and https addresses can be called")]
    Scheme,
    /// A URL without a host.
    #[error("the address has no host")]
    NoHost,
    /// The host is, or resolves to, nothing but addresses that are not public.
    #[error("{host} is not a public address, and this installation calls only public ones")]
    NotPublic {
        /// The host as the URL has it.
        host: String,
    },
}

/// Environment variable that lets `serve` reach addresses that are not public.
pub const ALLOW_PRIVATE: &str = "HOLDPOINT_ALLOW_PRIVATE_TARGETS";

impl EgressPolicy {
    /// The policy of `serve`, by the value of [`ALLOW_PRIVATE`]: only `1` allows; whatever else
    /// it says is no permission.
    #[must_use]
    pub fn of_serve(allow_private: Option<&str>) -> Self {
        match allow_private.map(str::trim) {
            Some("1") => Self::AllowPrivate,
            Some(_) | None => Self::PublicOnly,
        }
    }

    /// Checks what a URL says by itself: scheme, host, and a literal address. A name is checked
    /// by the client when it resolves.
    ///
    /// # Errors
    /// [`TargetRefused`] when no request may go there.
    pub fn check(self, url: &Url) -> Result<(), TargetRefused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetRefused::Scheme);
        }
        let literal = match url.host() {
            None => return Err(TargetRefused::NoHost),
            Some(Host::Domain(_)) => return Ok(()),
            Some(Host::Ipv4(v4)) => IpAddr::V4(v4),
            Some(Host::Ipv6(v6)) => IpAddr::V6(v6),
        };
        if self.allows(literal) {
            return Ok(());
        }
        Err(TargetRefused::NotPublic {
            host: literal.to_string(),
        })
    }

    /// Whether a connection to this address may be made.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::AllowPrivate => true,
            Self::PublicOnly => is_public(address),
        }
    }

    /// A client that resolves names under this policy, follows no redirects by itself (each hop
    /// needs [`Self::check`]) and uses no proxy (a proxy would resolve instead of us). `timeout`
    /// covers a whole request with its answer.
    ///
    /// A `rustls` provider must be installed as the process default before.
    ///
    /// # Errors
    /// When TLS cannot be set up, for example without any root certificates.
    pub fn client(self, timeout: Duration) -> Result<reqwest::Client, reqwest::Error> {
        reqwest::Client::builder()
            .dns_resolver(PolicyResolver { policy: self })
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(timeout)
            .build()
    }
}

/// Finds a refusal that [`EgressPolicy::client`] made while connecting.
#[must_use]
pub fn refusal(error: &reqwest::Error) -> Option<&TargetRefused> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(refused) = inner.downcast_ref::<TargetRefused>() {
            return Some(refused);
        }
        source = inner.source();
    }
    None
}

struct PolicyResolver {
    policy: EgressPolicy,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let allowed = allowed_of(policy, &host, found)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn allowed_of(
    policy: EgressPolicy,
    host: &str,
    found: impl Iterator<Item = SocketAddr>,
) -> Result<Vec<SocketAddr>, TargetRefused> {
    let allowed: Vec<_> = found.filter(|at| policy.allows(at.ip())).collect();
    if allowed.is_empty() {
        return Err(TargetRefused::NotPublic {
            host: host.to_owned(),
        });
    }
    Ok(allowed)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// All of IANA's special-purpose registry counts as not public; 169.254.169.254, where clouds
/// keep their credentials, is link-local.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared_or_reserved = matches!(
        (a, b, c),
        (0 | 240..=255, _, _)       // "this network", reserved and broadcast
            | (100, 64..=127, _)    // carrier-grade NAT
            | (192, 0, 0)           // protocol assignments
            | (192, 88, 99)         // 6to4 relays
            | (198, 18 | 19, _) // benchmarks
    );
    !(shared_or_reserved
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

/// Only global unicast (2000::/3) is public, without its special parts. An address that carries
/// an IPv4 address (mapped, NAT64, 6to4) is as public as what it carries.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(v4) = address.to_ipv4_mapped() {
        return is_public_v4(v4);
    }
    let [a, b, c, d, e, f, g, h] = address.segments();
    match (a, b) {
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => is_public_v4(embedded(g, h)),
        (0x2002, _) => is_public_v4(embedded(b, c)),
        (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff) => false,
        (0x2000..=0x3fff, _) => true,
        (0..=0x1fff | 0x4000..=0xffff, _) => false,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests;
