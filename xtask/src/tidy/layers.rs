//! Which crate may use which: ids <- contracts <- the shared machinery <- services <- the binary
//! and the tests. No service uses another; only the binary connects them.

use crate::shell::{list, metadata, text};

/// One dependency of a crate of this workspace on another one.
#[derive(Debug)]
pub(crate) struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// A layer never uses a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Ids,
    Contracts,
    Rules,
    Machinery,
    Service,
    Binary,
    Tests,
}

fn layer(package: &str) -> Option<Layer> {
    Some(match package {
        "holdpoint-ids" | "holdpoint-migrations" => Layer::Ids,
        "holdpoint-contracts" => Layer::Contracts,
        "holdpoint-calendar"
        | "holdpoint-decision"
        | "holdpoint-holds"
        | "holdpoint-instructions" => Layer::Rules,
        "holdpoint-auth"
        | "holdpoint-bus"
        | "holdpoint-store"
        | "holdpoint-clock"
        | "holdpoint-telemetry"
        | "holdpoint-kernel"
        | "holdpoint-user-directory"
        | "holdpoint-mail"
        | "holdpoint-egress"
        | "holdpoint-worker"
        | "holdpoint-testkit" => Layer::Machinery,
        "holdpoint-executor"
        | "holdpoint-handoff"
        | "holdpoint-scheduler"
        | "holdpoint-notification"
        | "holdpoint-gateway" => Layer::Service,
        "holdpoint" => Layer::Binary,
        "holdpoint-tests" | "xtask" => Layer::Tests,
        _ => return None,
    })
}

/// All edges inside the workspace, from `cargo metadata`.
pub(crate) fn workspace() -> anyhow::Result<Vec<Edge>> {
    let metadata = metadata(&["--no-deps"])?;
    let edges = list(&metadata, "packages").flat_map(|package| {
        let dependencies = list(package, "dependencies");
        let local = dependencies.filter(|dependency| !text(dependency, "path").is_empty());
        local.map(|dependency| Edge {
            from: text(package, "name").to_owned(),
            to: text(dependency, "name").to_owned(),
            dev: text(dependency, "kind") == "dev",
        })
    });
    Ok(edges.collect())
}

/// The edges that point upwards, or from one service to another.
pub(crate) fn check(edges: &[Edge]) -> Vec<String> {
    edges.iter().filter_map(violation).collect()
}

fn violation(edge: &Edge) -> Option<String> {
    let Edge { from, to, dev } = edge;
    let (Some(above), Some(below)) = (layer(from), layer(to)) else {
        return Some(format!(
            "{from} -> {to}: a crate has no layer; add it to xtask/src/tidy/layers.rs"
        ));
    };
    if to == "holdpoint-testkit" {
        let is_allowed = *dev || above == Layer::Tests;
        return (!is_allowed).then(|| format!("{from} -> {to}: only tests may use the testkit"));
    }
    if below > above {
        return Some(format!("{from} -> {to}: {below:?} is above {above:?}"));
    }
    if below == above && above == Layer::Service {
        return Some(format!(
            "{from} -> {to}: a service must not use another; send a message"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(from: &str, to: &str, dev: bool) -> bool {
        let (from, to) = (from.into(), to.into());
        violation(&Edge { from, to, dev }).is_some()
    }

    #[test]
    fn only_downward_edges_hold() {
        assert!(!is_refused("holdpoint-executor", "holdpoint-kernel", false));
        assert!(!is_refused("holdpoint", "holdpoint-executor", false));
        assert!(!is_refused(
            "holdpoint-store",
            "holdpoint-migrations",
            false
        ));
        assert!(is_refused("holdpoint-contracts", "holdpoint-bus", false));
        assert!(is_refused(
            "holdpoint-executor",
            "holdpoint-scheduler",
            false
        ));
        assert!(is_refused("holdpoint-bus", "holdpoint-executor", true));
        assert!(is_refused("holdpoint-gateway", "holdpoint", false));
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert!(!is_refused("holdpoint-kernel", "holdpoint-testkit", true));
        assert!(is_refused("holdpoint-kernel", "holdpoint-testkit", false));
    }

    #[test]
    fn an_unknown_crate_is_refused() {
        assert!(is_refused("holdpoint-new", "holdpoint-ids", false));
    }
}
