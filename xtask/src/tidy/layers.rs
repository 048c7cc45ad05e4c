//! Which crate may use which: ids <- contracts <- the shared machinery <- services <- the binary
//! and the tests. No service knows another: only the binary wires them.

use anyhow::Context as _;
use serde_json::Value;

use crate::shell::{command, output};

/// One dependency of a crate of this workspace on another one.
#[derive(Debug)]
pub(crate) struct Edge {
    from: String,
    to: String,
    dev: bool,
}

/// Lower ones know nothing of higher ones.
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
        "holdpoint-decision" | "holdpoint-holds" => Layer::Rules,
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
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let metadata: Value = serde_json::from_str(&output(&mut command("cargo", &arguments))?)?;
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .context("no packages")?;
    let mut edges = Vec::new();
    for package in packages {
        let from = text(package, "name").context("a package without a name")?;
        let dependencies = package.get("dependencies").and_then(Value::as_array);
        for dependency in dependencies.into_iter().flatten() {
            if let (Some(to), Some(_)) = (text(dependency, "name"), text(dependency, "path")) {
                let dev = text(dependency, "kind").as_deref() == Some("dev");
                edges.push(Edge {
                    from: from.clone(),
                    to,
                    dev,
                });
            }
        }
    }
    Ok(edges)
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// The edges that point upwards, or from one service to another.
pub(crate) fn check(edges: &[Edge]) -> Vec<String> {
    edges.iter().filter_map(offence).collect()
}

fn offence(edge: &Edge) -> Option<String> {
    let Edge { from, to, dev } = edge;
    let (Some(above), Some(below)) = (layer(from), layer(to)) else {
        return Some(format!(
            "{from} -> {to}: one is in no layer; name it in xtask/src/tidy/layers.rs"
        ));
    };
    if to == "holdpoint-testkit" {
        let fine = *dev || above == Layer::Tests;
        return (!fine).then(|| format!("{from} -> {to}: only tests use the testkit"));
    }
    if below > above {
        return Some(format!("{from} -> {to}: {below:?} is above {above:?}"));
    }
    if below == above && above == Layer::Service {
        return Some(format!(
            "{from} -> {to}: no service knows another; send a message"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offends(from: &str, to: &str, dev: bool) -> bool {
        offence(&Edge {
            from: from.into(),
            to: to.into(),
            dev,
        })
        .is_some()
    }

    #[test]
    fn only_downward_edges_hold() {
        assert!(!offends("holdpoint-executor", "holdpoint-kernel", false));
        assert!(!offends("holdpoint", "holdpoint-executor", false));
        assert!(!offends("holdpoint-store", "holdpoint-migrations", false));
        assert!(offends("holdpoint-contracts", "holdpoint-bus", false));
        assert!(offends("holdpoint-executor", "holdpoint-scheduler", false));
        assert!(offends("holdpoint-bus", "holdpoint-executor", true));
        assert!(offends("holdpoint-gateway", "holdpoint", false));
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert!(!offends("holdpoint-kernel", "holdpoint-testkit", true));
        assert!(offends("holdpoint-kernel", "holdpoint-testkit", false));
    }

    #[test]
    fn an_unknown_crate_is_no_free_pass() {
        assert!(offends("holdpoint-new", "holdpoint-ids", false));
    }
}
