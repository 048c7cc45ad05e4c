use std::net::SocketAddr;

use url::Url;

use super::{EgressPolicy, TargetRefused, allowed_of};

const PUBLIC: EgressPolicy = EgressPolicy::PublicOnly;

fn at(url: &str) -> Url {
    Url::parse(url).unwrap()
}

/// S0-R5
#[test]
fn every_kind_of_address_that_is_not_public_is_refused() {
    for address in [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!PUBLIC.allows(address.parse().unwrap()), "{address}");
        assert!(EgressPolicy::AllowPrivate.allows(address.parse().unwrap()));
    }
    for address in [
        "1.1.1.1",
        "100.128.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2606:4700:4700::1111",
        "2a00:1450::1",
    ] {
        assert!(PUBLIC.allows(address.parse().unwrap()), "{address}");
    }
}

/// S0-R5
#[test]
fn other_ways_to_write_loopback_are_refused_too() {
    for url in [
        "http://127.0.0.1/",
        "http://127.1:8080/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1./",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "https://user@169.254.169.254/latest/meta-data",
    ] {
        assert!(
            matches!(PUBLIC.check(&at(url)), Err(TargetRefused::NotPublic { .. })),
            "{url}"
        );
        assert_eq!(EgressPolicy::AllowPrivate.check(&at(url)), Ok(()), "{url}");
    }
    assert_eq!(PUBLIC.check(&at("https://example.com/")), Ok(()));
    assert_eq!(
        PUBLIC.check(&at("file:///etc/passwd")),
        Err(TargetRefused::Scheme)
    );
    assert_eq!(
        EgressPolicy::AllowPrivate.check(&at("gopher://127.0.0.1/")),
        Err(TargetRefused::Scheme)
    );
}

/// S0-R5
#[test]
fn of_a_name_with_public_and_private_addresses_only_the_public_ones_are_used() {
    let socket = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let mixed = [socket("10.0.0.1:0"), socket("1.1.1.1:0"), socket("[::1]:0")];
    assert_eq!(
        allowed_of(PUBLIC, "mixed.example", mixed.into_iter()),
        Ok(vec![socket("1.1.1.1:0")])
    );
    assert_eq!(
        allowed_of(PUBLIC, "inside.example", [socket("10.0.0.1:0")].into_iter()),
        Err(TargetRefused::NotPublic {
            host: "inside.example".to_owned()
        })
    );
}

#[test]
fn serve_allows_private_targets_only_with_the_variable() {
    for (value, policy) in [
        (Some("1"), EgressPolicy::AllowPrivate),
        (Some("0"), EgressPolicy::PublicOnly),
        (Some("true"), EgressPolicy::PublicOnly),
        (Some(""), EgressPolicy::PublicOnly),
        (None, EgressPolicy::PublicOnly),
    ] {
        assert_eq!(EgressPolicy::of_serve(value), policy, "{value:?}");
    }
}
