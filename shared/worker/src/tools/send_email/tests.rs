use std::sync::{Arc, Mutex};

use holdpoint_contracts::executor::MailThread;
use holdpoint_contracts::problem::Problem;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket},
    task::JoinHandle,
};

use super::{
    super::tests::{call, failure},
    MailTransport, MailTransportError, SendEmail, list, message_id, read_mailbox,
};
use crate::tool::Tool;

fn kept(dir: &TempDir) -> SendEmail {
    let transport = MailTransport::from_env(None, dir.path()).unwrap();
    SendEmail::new(transport, None).unwrap()
}

fn introduction(to: &str) -> Value {
    json!({ "to": to, "subject": "Introduction", "body": "Hello Ann,\nnice to meet you." })
}

/// S0-R5. Mend D-7: nothing was sent, and the step does not say so.
#[tokio::test]
async fn without_a_mail_server_a_mail_is_kept_as_a_file_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let done = kept(&dir)
        .call(&call(introduction("Ann <ann@example.org>")))
        .await
        .unwrap();
    assert_eq!(
        done.description,
        "Stored as a file: no SMTP server is set (email \"Introduction\" to ann@example.org)"
    );
    assert_eq!(
        done.data,
        json!({
            "message_id": "<run_01920000000070008000000000000001.step-01@holdpoint>",
            "to": "ann@example.org",
            "subject": "Introduction",
            "text": "Hello Ann,\nnice to meet you.",
        })
    );
    let mails = list(dir.path()).unwrap();
    assert_eq!(mails.len(), 1);
    assert_eq!(
        mails[0].file,
        "run_01920000000070008000000000000001=2Fstep-01.eml"
    );
    assert_eq!(mails[0].to, "ann@example.org");
    assert_eq!(mails[0].subject, "Introduction");
    assert_eq!(mails[0].date, Some(call(Value::Null).now));
    assert_eq!(
        mails[0].message_id,
        "<run_01920000000070008000000000000001.step-01@holdpoint>"
    );
    assert_eq!(mails[0].body.trim_end(), "Hello Ann,\nnice to meet you.");
    // Mend A-H3: the mail says which workspace it is of, and no person.
    let workspace = call(Value::Null).dispatch.workspace;
    assert_eq!(mails[0].workspace.as_deref(), Some(workspace.as_str()));
    assert_eq!((mails[0].kind.as_str(), &mails[0].person), ("step", &None));
    let raw = std::fs::read_to_string(dir.path().join("new").join(&mails[0].file)).unwrap();
    assert!(
        raw.contains("From: Holdpoint <agent@holdpoint.local>\r\n"),
        "{raw}"
    );
    assert!(
        raw.contains("Date: Sun, 01 Mar 2026 09:00:00 +0000\r\n"),
        "{raw}"
    );
    assert_eq!(
        std::fs::read_dir(dir.path().join("tmp")).unwrap().count(),
        0
    );
}

/// Words 5: a later mail answers the newest one of the conversation. An id that could write a header is left out, and a
/// mail without a known thread is sent all the same.
#[tokio::test]
async fn a_later_mail_continues_the_thread() {
    let own = "run_01920000000070008000000000000001.step-01@holdpoint";
    let thread = |id: Option<&str>| {
        let message_id = id.map(str::to_owned);
        Ok(MailThread { message_id })
    };
    for (reply, expected) in [
        (thread(Some("2@x.example")), Some("<2@x.example>")),
        (thread(None), None),
        (thread(Some("")), None),
        (thread(Some("2@x>\r\nBcc: eve@x.example")), None),
        (thread(Some("2@x> <3@x")), None),
        (thread(Some(own)), None),
        (Err(Problem::unavailable("away")), None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let tool = kept(&dir).with_threads(Arc::new(move |_workspace, query| {
            log.lock().unwrap().push((query.token, query.to));
            let reply = reply.clone();
            Box::pin(async move { reply })
        }));
        let mut mail = call(introduction("Ann <ann@example.org>"));
        mail.dispatch.token = Some("hps_1".to_owned());
        tool.call(&mail).await.unwrap();
        let sent = [("hps_1".to_owned(), "ann@example.org".to_owned())];
        assert_eq!(*asked.lock().unwrap(), sent);
        let file = list(dir.path()).unwrap().remove(0).file;
        let raw = std::fs::read_to_string(dir.path().join("new").join(file)).unwrap();
        let headers: Vec<_> = raw.split("\r\n").take_while(|it| !it.is_empty()).collect();
        for name in ["In-Reply-To", "References"] {
            let found = headers
                .iter()
                .find_map(|it| it.strip_prefix(&format!("{name}: ")));
            assert_eq!(found, expected, "{raw}");
        }
        assert!(!headers.iter().any(|it| it.starts_with("Bcc")), "{raw}");
    }
}

/// S2-R10
#[tokio::test]
async fn a_second_delivery_of_one_step_replaces_the_mail() {
    let dir = tempfile::tempdir().unwrap();
    let tool = kept(&dir);
    for attempt in 1..=3 {
        let mut again = call(introduction("ann@example.org"));
        again.dispatch.attempt = attempt;
        tool.call(&again).await.unwrap();
    }
    assert_eq!(list(dir.path()).unwrap().len(), 1);

    // Somebody reads it with a mail program, which moves and renames it.
    let file = list(dir.path()).unwrap().remove(0).file;
    let read = format!("{file}:2,S");
    std::fs::rename(
        dir.path().join("new").join(&file),
        dir.path().join("cur").join(&read),
    )
    .unwrap();
    tool.call(&call(introduction("ann@example.org")))
        .await
        .unwrap();
    let mails = list(dir.path()).unwrap();
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].file, read);

    let mut other = call(introduction("ann@example.org"));
    other.dispatch.step = "step-02".to_owned();
    tool.call(&other).await.unwrap();
    assert_eq!(list(dir.path()).unwrap().len(), 2);
}

/// S2-R10
#[tokio::test]
async fn many_deliveries_of_one_step_at_once_leave_one_whole_mail() {
    let dir = tempfile::tempdir().unwrap();
    let tool = kept(&dir);
    let one = call(introduction("ann@example.org"));
    let all = (0..16).map(|_| tool.call(&one));
    for done in futures_util::future::join_all(all).await {
        done.unwrap();
    }
    let mails = list(dir.path()).unwrap();
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].subject, "Introduction");
}

/// S0-R5
#[tokio::test]
async fn what_mail_encodes_is_listed_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let long = "ü".repeat(600);
    let mut mail = call(json!({
        "to": "\"Jörg Müller\" <joerg@example.org>",
        "subject": "Grüße aus Köln — 日本語 ".to_owned() + &"lang ".repeat(30) + "Ende",
        "body": format!("Zeile 1\n.\n{long}\n€ = 5"),
        "html": "<p>Zeile 1</p>",
        "reply_to": "sales@example.org",
    }));
    mail.dispatch.step = "s".repeat(400);
    kept(&dir).call(&mail).await.unwrap();
    let mails = list(dir.path()).unwrap();
    assert_eq!(mails[0].to, "joerg@example.org");
    assert_eq!(
        Value::from(mails[0].subject.as_str()),
        mail.dispatch.args["subject"]
    );
    assert_eq!(
        mails[0].body.trim_end(),
        format!("Zeile 1\n.\n{long}\n€ = 5")
    );
    assert_eq!(mails[0].file.len(), 64 + ".eml".len());
}

/// S0-R5
#[test]
fn a_folder_that_does_not_exist_has_no_mails() {
    let dir = tempfile::tempdir().unwrap();
    assert!(list(&dir.path().join("none")).unwrap().is_empty());
}

/// S0-R5
#[tokio::test]
async fn no_argument_can_write_a_header() {
    let dir = tempfile::tempdir().unwrap();
    let tool = kept(&dir);
    let evil = "ann@example.org\r\nBcc: eve@example.org";
    for (args, argument) in [
        (json!({ "to": evil, "subject": "s", "body": "b" }), "`to`"),
        (
            json!({ "to": "a@b.org", "subject": evil, "body": "b" }),
            "`subject`",
        ),
        (
            json!({ "to": "a@b.org", "subject": "s\n", "body": "b" }),
            "`subject`",
        ),
        (
            json!({ "to": "a@b.org", "subject": "s\0", "body": "b" }),
            "`subject`",
        ),
        (
            json!({ "to": "a@b.org", "subject": "s", "body": "b", "reply_to": evil }),
            "`reply_to`",
        ),
        (
            json!({ "to": "a@b.org, c@d.org", "subject": "s", "body": "b" }),
            "`to`",
        ),
        (json!({ "to": "", "subject": "s", "body": "b" }), "`to`"),
    ] {
        let failure = failure(&tool, args).await;
        assert_eq!(failure.code, "invalid_args");
        assert!(failure.message.contains(argument), "{failure:?}");
        assert!(!failure.message.contains("eve"), "{failure:?}");
    }
    assert!(list(dir.path()).unwrap().is_empty());
}

/// S0-R5
#[tokio::test]
async fn a_mail_that_cannot_be_stored_fails_without_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let tool = SendEmail::new(MailTransport::Maildir(blocked), None).unwrap();
    let failure = failure(&tool, introduction("ann@example.org")).await;
    assert_eq!(failure.code, "mail_not_stored");
    assert_eq!(failure.message, "The mail could not be stored.");
}

/// S0-R5
#[test]
fn an_address_is_read_whole_or_not_at_all() {
    for (text, name, address) in [
        ("ann@example.org", None, "ann@example.org"),
        (
            " Ann B. <ann@example.org> ",
            Some("Ann B."),
            "ann@example.org",
        ),
        (
            "\"B, Ann\" <ann@example.org>",
            Some("B, Ann"),
            "ann@example.org",
        ),
        ("<ann@example.org>", None, "ann@example.org"),
    ] {
        let mailbox = read_mailbox(text).unwrap();
        assert_eq!(mailbox.name.as_deref(), name);
        assert_eq!(mailbox.email.to_string(), address);
    }
    for text in [
        "ann",
        "a@b.org c@d.org",
        "a@b.org> <c@d.org>",
        "A <a@b.org",
        "A a@b.org>",
    ] {
        assert!(read_mailbox(text).is_none(), "{text}");
    }
}

/// S2-R10
#[test]
fn two_steps_never_share_a_message_id() {
    assert_eq!(
        message_id("run_01920000000070008000000000000001", "step-02-0"),
        "<run_01920000000070008000000000000001.step-02-0@holdpoint>"
    );
    assert_ne!(message_id("a.b", "c"), message_id("a", "b.c"));
    assert_ne!(message_id("a=2E", "c"), message_id("a.", "c"));
}

/// S0-R5
#[tokio::test]
async fn an_error_of_settings_hides_the_password() {
    let error = MailTransport::from_env(Some("http://u:hunter2@host"), "d").unwrap_err();
    assert_eq!(error, MailTransportError::Url);
    assert!(!error.to_string().contains("hunter2"));
    let from = SendEmail::new(MailTransport::Maildir("d".into()), Some("nobody")).unwrap_err();
    assert_eq!(from, MailTransportError::From);
    let empty = MailTransport::from_env(Some(" "), "d").unwrap();
    assert!(matches!(empty, MailTransport::Maildir(_)));
}

/// A verdict of a mail server that takes a mail and then does not answer.
const HANGS_UP: &str = "250 hangs up";

/// A mail server for one connection that answers each recipient with `verdict` and returns what
/// the client said.
async fn mail_server(verdict: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let talk = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        let mut said = String::new();
        let mut in_mail = false;
        write.write_all(b"220 test ESMTP\r\n").await.unwrap();
        while let Ok(Some(line)) = lines.next_line().await {
            said.push_str(&line);
            said.push('\n');
            let reply = match line.get(..4).unwrap_or_default() {
                _ if in_mail && line != "." => continue,
                "RCPT" => verdict,
                "DATA" => "354 go on",
                "QUIT" => "221 bye",
                _ => "250 ok",
            };
            in_mail = line == "DATA";
            if line == "." && verdict == HANGS_UP {
                break;
            }
            write
                .write_all(format!("{reply}\r\n").as_bytes())
                .await
                .unwrap();
            if line == "." || verdict.starts_with('5') && line.starts_with("RCPT") {
                break;
            }
        }
        said
    });
    (url, talk)
}

/// S0-R5
#[tokio::test]
async fn a_mail_reaches_the_mail_server_with_its_stable_id() {
    let (url, talk) = mail_server("250 ok").await;
    let transport = MailTransport::from_env(Some(&url), "unused").unwrap();
    let tool = SendEmail::new(transport, Some("Agent <agent@example.org>")).unwrap();
    let done = tool
        .call(&call(introduction("ann@example.org")))
        .await
        .unwrap();
    assert_eq!(
        done.data["message_id"],
        "<run_01920000000070008000000000000001.step-01@holdpoint>"
    );
    let said = talk.await.unwrap();
    for line in [
        "MAIL FROM:<agent@example.org>",
        "RCPT TO:<ann@example.org>",
        "Message-ID: <run_01920000000070008000000000000001.step-01@holdpoint>",
        "Subject: Introduction",
        "nice to meet you.",
    ] {
        assert!(said.contains(line), "{line} is not in {said}");
    }
}

/// S0-R5
#[tokio::test]
async fn a_refusal_of_the_mail_server_shows_only_its_code() {
    let (url, talk) = mail_server("550 no such user in /var/mail/hunter2").await;
    let transport = MailTransport::from_env(Some(&url), "unused").unwrap();
    let tool = SendEmail::new(transport, None).unwrap();
    let refused = failure(&tool, introduction("ann@example.org")).await;
    assert_eq!(refused.code, "mail_refused");
    assert_eq!(
        refused.message,
        "The mail server refused the mail with code 550."
    );
    talk.await.unwrap();
}

/// Gate 3: a server that is gone after the text of the mail may have sent it. One that was too busy has not.
#[tokio::test]
async fn a_mail_that_may_have_been_sent_has_a_code_of_its_own() {
    for (verdict, code) in [(HANGS_UP, "mail_unconfirmed"), ("451 later", "mail_busy")] {
        let (url, talk) = mail_server(verdict).await;
        let transport = MailTransport::from_env(Some(&url), "unused").unwrap();
        let tool = SendEmail::new(transport, None).unwrap();
        let failed = failure(&tool, introduction("ann@example.org")).await;
        assert_eq!(failed.code, code, "{failed:?}");
        talk.await.unwrap();
    }
}

/// S0-R5
#[tokio::test]
async fn an_unreachable_mail_server_fails_the_step_without_its_address() {
    // A socket that does not listen refuses connections, and no other process can take its port.
    let refusing = TcpSocket::new_v4().unwrap();
    refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("smtp://{}", refusing.local_addr().unwrap());
    let transport = MailTransport::from_env(Some(&url), "unused").unwrap();
    let tool = SendEmail::new(transport, None).unwrap();
    let absent = failure(&tool, introduction("ann@example.org")).await;
    assert_eq!(absent.code, "mail_unreachable");
    assert!(!absent.message.contains("127.0.0.1"), "{absent:?}");
}
