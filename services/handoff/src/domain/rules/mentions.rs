//! Users whom a person names in a comment, a reason or notes (S0-T4).

use holdpoint_holds::Recipient;
use holdpoint_ids::UserName;

/// Users of one text who are notified. Further names notify no user.
pub(crate) const MENTIONS_MAX: usize = 20;

const SIGN: &str = "@user.";

/// The users `@user.<name>` of a text, each once and without its writer, as recipients. Unknown and disabled users are
/// left to the notification service. A sign within a word, such as in an address of a mail, names no user.
#[must_use]
pub(crate) fn mentioned_users(text: &str, writer: &str) -> Vec<String> {
    let mut users: Vec<String> = Vec::new();
    let mut before = String::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once(SIGN) {
        before.push_str(head);
        let length = tail.find(|c| !is_part_of_name(c)).unwrap_or(tail.len());
        let (name, after) = tail.split_at(length);
        // A sentence may end with the name.
        let name = name.trim_end_matches('.');
        let is_in_word = before.ends_with(|c: char| {
            matches!(c, '@' | ':') || c.is_alphanumeric() || is_part_of_name(c)
        }) || after.starts_with(|c: char| c == '@' || c.is_alphanumeric());
        let user = name.parse::<UserName>().ok();
        if let Some(user) = user.filter(|user| !is_in_word && user.as_str() != writer) {
            let user = Recipient::user_text(&user);
            if !users.contains(&user) {
                users.push(user);
            }
        }
        if users.len() >= MENTIONS_MAX {
            break;
        }
        before.clear();
        before.push_str(name);
        rest = after;
    }
    users
}

const fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_users_are_found_once_each() {
        for (text, wanted) in [
            ("Please look, @user.bob.", vec!["@user.bob"]),
            (
                "@user.bob, @user.eve-2 (@user.bob)!",
                vec!["@user.bob", "@user.eve-2"],
            ),
            ("I, @user.ada, approve", vec![]),
            ("no name", vec![]),
            ("@user. @role.ops @user.", vec![]),
            ("mail bob@user.example or x.@user.bob", vec![]),
            ("@@user.bob @user.bob@user.eve", vec![]),
            ("@user.bobé @user.bob@x.example mailto:@user.bob", vec![]),
            (
                "@user.bob_ and @user.eve-",
                vec!["@user.bob_", "@user.eve-"],
            ),
            ("größe@user.bob", vec![]),
            ("line\n@user.first.last...\n", vec!["@user.first.last"]),
            ("(@user.bob)", vec!["@user.bob"]),
        ] {
            assert_eq!(mentioned_users(text, "ada"), wanted, "{text}");
        }
        let many: Vec<_> = (0..100).map(|number| format!("@user.u{number}")).collect();
        let found = mentioned_users(&many.join(" "), "ada");
        assert_eq!(found, many[..MENTIONS_MAX]);
        let long = format!("@user.{}", "x".repeat(200));
        assert_eq!(mentioned_users(&long, "ada"), Vec::<String>::new());
    }
}
