//! Mails that arrive.

use std::path::Path;

use mail_parser::{Address, Message, MessageParser, MimeHeaders};
use tallyd::config::Config;
use tallyd::report::{Letter, Mailer, html, sample, text};

use super::{FIRST, FROM, SECOND, clean, keep, noted, settings, trusting};
use crate::support::{Rig, Smtp, SmtpRules, Tls};

fn named(address: Option<&Address<'_>>) -> Vec<String> {
    let of = |one: &mail_parser::Addr<'_>| match one.name() {
        Some(name) => format!("{name} <{}>", one.address().unwrap()),
        None => one.address().unwrap().to_owned(),
    };
    address.unwrap().iter().map(of).collect()
}

fn parsed(data: &[u8]) -> Message<'_> {
    assert!(data.is_ascii(), "a server that takes 7 bits takes it");
    let longest = data.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
    assert!(longest <= Some(999), "lines of {longest:?} bytes");
    MessageParser::default().parse(data).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_arrives_by_every_way_whole_and_in_any_script() {
    const LOGIN: (&str, &str) = ("tälly", "Hunter2 Sentinel ü");
    let rig = Rig::start("").await;
    for (tls, mechanism) in [
        (Tls::Starttls, Some("PLAIN")),
        (Tls::Implicit, Some("LOGIN")),
        (Tls::Starttls, None),
        (Tls::Implicit, Some("PLAIN")),
        (Tls::None, Some("LOGIN")),
        (Tls::None, None),
    ] {
        let login = mechanism.map(|mechanism| (mechanism, LOGIN.0, LOGIN.1));
        let smtp = Smtp::start(SmtpRules { tls, login, ..SmtpRules::default() }).await;
        rig.configure(&settings(&rig, smtp.port(), tls, mechanism.map(|_| LOGIN)));
        let (name, ca) = trusting(&smtp);
        let output = rig.tallyd_with(&["report", "--test"], &[(name, &ca), ("RUST_LOG", "trace")]).await.expect_code(0);
        assert!(
            output.stderr.contains("mailed to ops@example.com, night@example.com by localhost:"),
            "{}",
            output.stderr
        );
        assert!(!output.stderr.contains("Sentinel"), "{}", output.stderr);

        let [mail] = &smtp.received()[..] else { panic!("{tls:?}: {:?}", smtp.received()) };
        assert_eq!((mail.encrypted, mail.user.as_deref()), (tls != Tls::None, mechanism.map(|_| LOGIN.0)), "{tls:?}");
        assert_eq!(
            (mail.from.as_str(), &mail.to[..]),
            ("tallyd@example.com", &["ops@example.com", SECOND].map(String::from)[..])
        );
        let message = parsed(&mail.data);
        assert_eq!(named(message.from()), [FROM]);
        assert_eq!(named(message.to()), [FIRST, SECOND]);
        let config = Config::parse(&std::fs::read_to_string(rig.config()).unwrap(), [], &rig.config()).unwrap();
        let view = sample(&config.vocabulary).unwrap();
        assert_eq!(message.subject(), Some(view.subject.as_str()));
        assert!(message.date().is_some() && message.message_id().is_some());
        assert_eq!(message.header_raw("Auto-Submitted").map(str::trim), Some("auto-generated"));
        let whole = message.content_type().unwrap();
        assert_eq!((whole.ctype(), whole.subtype()), ("multipart", Some("alternative")));
        assert_eq!(message.parts[1].content_type().unwrap().subtype(), Some("plain"), "what is last is preferred");
        let lines = |body: Option<std::borrow::Cow<'_, str>>| body.unwrap().replace("\r\n", "\n");
        assert_eq!(lines(message.body_text(0)), text(&view));
        assert_eq!(lines(message.body_html(0)), html(&view));
        assert_eq!(message.attachment_count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_the_last_pass_notes_it() {
    let smtp = Smtp::start(SmtpRules { clingy: true, ..SmtpRules::default() }).await;
    let rig = Rig::start("").await;
    rig.configure(&settings(&rig, smtp.port(), Tls::None, None));
    rig.migrate().await;
    keep(&rig, "a", "full", "2026-01-01 03:30:00", &clean(1)).await;
    keep(&rig, "b", "sample", "2026-01-02 03:30:00", &clean(12_345)).await;
    let output = rig.tallyd(&["report", "--last", "--send"]).await.expect_code(0);
    assert_eq!((output.stdout.as_str(), noted(&rig).await), ("", vec!["b".to_owned()]));
    assert_eq!(parsed(&smtp.received()[0].data).subject(), Some("[tallyd] clean: 12,345 targets"));
    let output = rig.tallyd(&["report", "--send", "--format", "json"]).await.expect_code(0);
    assert_eq!((output.stdout, smtp.received().len()), (clean(12_345) + "\n", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_is_attached_as_a_file() {
    let smtp = Smtp::start(SmtpRules::default()).await;
    let toml = format!(
        "report.from = 'a@example.com'\nreport.to = ['b@example.com']\nreport.smtp.host = 'localhost'\n\
         report.smtp.tls = 'none'\nreport.smtp.port = {}",
        smtp.port()
    );
    let config = Config::parse(&toml, [], Path::new("config.toml")).unwrap();
    let mailer = Mailer::new(config.report.mail.as_ref().unwrap()).unwrap();
    let sql = "-- 修复\nUPDATE interaction_count SET count = 1;\n.\n".to_owned();
    let letter = Letter::new(&sample(&config.vocabulary).unwrap(), Some(sql.clone())).of_pass("0199-a>\r\nBcc: c@d.ef");
    assert_eq!(mailer.send(&letter).await.unwrap(), []);
    let mails = smtp.received();
    let message = parsed(&mails[0].data);
    assert_eq!(message.message_id(), Some("0199-aBcccdef@reconcile.tallyd"));
    assert_eq!((message.attachment_count(), message.bcc()), (1, None));
    let file = message.attachment(0).unwrap();
    assert_eq!(file.attachment_name(), Some("tallyd-repairs.sql"));
    assert_eq!(file.text_contents().unwrap().replace("\r\n", "\n"), sql);
    assert!(message.body_text(0).unwrap().contains("REPAIRED") && message.body_html(0).unwrap().contains("<table"));
}
