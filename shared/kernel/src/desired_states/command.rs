//! Writes the command that carries desired states. Their JSON is copied unchanged: a replica of another version
//! may have written it, and all its fields must reach the receiver.

use holdpoint_bus::Outgoing;
use holdpoint_contracts::message::{Actor, Command};
use holdpoint_ids::Workspace;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};

/// Reads the first of the bodies, which determines the subject of the command.
///
/// # Errors
/// The body cannot be read.
pub fn read_first<T: DeserializeOwned>(bodies: &[&str]) -> Result<Vec<T>, serde_json::Error> {
    let first = bodies.iter().take(1);
    first.map(|body| serde_json::from_str(body)).collect()
}

/// The command whose member `list` contains the given bodies unchanged. `first` is the same command with only
/// the first of them: it gives the subject and the other members.
///
/// # Errors
/// A body is not JSON, or `first` is not an object with that member.
pub fn rows_as_command<C: Command>(
    service: &str,
    workspace: &Workspace,
    first: &C,
    (list, bodies): (&str, &[&str]),
) -> Result<Outgoing, serde_json::Error> {
    for body in bodies {
        serde_json::from_str::<IgnoredAny>(body)?;
    }
    let mut others = serde_json::to_value(first)?;
    let members = others.as_object_mut();
    if members.and_then(|members| members.remove(list)).is_none() {
        let text = format!("the command `{}` has no member `{list}`", C::VERB);
        return Err(serde_json::Error::custom(text));
    }
    let others = serde_json::to_string(&others)?;
    // Only one brace is removed: the last of the other members may be an object.
    let others = others.strip_suffix('}').unwrap_or(&others);
    let comma = if others.len() > 1 { "," } else { "" };
    let actor = serde_json::to_string(&Actor::service(service))?;
    let items = bodies.join(",");
    Ok(Outgoing {
        subject: first.subject(workspace),
        body: format!(r#"{{"actor":{actor},"command":{others}{comma}"{list}":[{items}]}}}}"#),
        headers: Vec::new(),
    })
}
