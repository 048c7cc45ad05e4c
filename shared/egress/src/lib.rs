//! The egress policy: which addresses a tool, a callback or a webhook may reach (protection against SSRF).
//!
//! Owns this decision for literal addresses, for names, and for every hop of a redirect. It must never
//! check a name apart from the connection: a name that was public when checked can be private when used
//! (DNS rebinding). [`EgressPolicy::client`] therefore filters the addresses that the connector itself
//! resolves.

use std::{
    error::Error,
    iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// Longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The addresses that requests may reach. `up` allows all, `serve` only public addresses without
/// `HOLDPOINT_ALLOW_PRIVATE_TARGETS=1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressPolicy {
    /// Also loopback and private addresses: the authors of agents own the machine.
    AllowPrivate,
    /// Only addresses that are routed on the public internet.
    PublicOnly,
}

/// Why a URL or an address was refused. The texts are shown to users (S0-R5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefused {
    #[error("only http and https addresses can be called")]
    Scheme,
    #[error("the address has no host")]
    NoHost,
    /// The host has no public address.
    #[error("{host} is not a public address, and this installation calls only public ones")]
    NotPublic {
        /// The host as the URL has it.
        host: String,
    },
}

/// Environment variable that lets `serve` reach addresses that are not public.
pub const ALLOW_PRIVATE: &str = "HOLDPOINT_ALLOW_PRIVATE_TARGETS";

impl EgressPolicy {
    /// The policy of `serve`, by the value of [`ALLOW_PRIVATE`]. Only `1` allows private addresses.
    #[must_use]
    pub fn of_serve(allow_private: Option<&str>) -> Self {
        match allow_private.map(str::trim) {
            Some("1") => Self::AllowPrivate,
            Some(_) | None => Self::PublicOnly,
        }
    }

    /// Checks scheme, host and a literal address. The client checks a name when it resolves it.
    ///
    /// # Errors
    /// [`TargetRefused`]: no request may go there.
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
            Self::PublicOnly => match address {
                IpAddr::V4(v4) => is_public_v4(v4),
                IpAddr::V6(v6) => is_public_v6(v6),
            },
        }
    }

    /// A client that resolves names under this policy. It follows no redirects, because each hop needs
    /// [`Self::check`], and uses no proxy, because a proxy would resolve names itself. `timeout` limits a whole
    /// request with its response.
    ///
    /// A `rustls` provider must be installed as the process default first.
    ///
    /// # Errors
    /// TLS cannot be set up, for example without root certificates.
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
    iter::successors(error.source(), |&inner| inner.source())
        .find_map(|inner| inner.downcast_ref::<TargetRefused>())
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

/// All addresses of IANA's special-purpose registry are not public. That includes the link-local
/// 169.254.169.254, where clouds serve credentials.
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

/// Only global unicast (2000::/3) without its special parts is public. An address that contains an IPv4
/// address (mapped, NAT64, 6to4) is public if that one is.
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
