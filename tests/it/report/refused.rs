//! Mails that do not arrive: why is said, with the server's name and without a secret.

use std::path::Path;
use std::time::Duration;

use tallyd::config::Config;
use tallyd::report::{Letter, Mailer, sample};

use super::{settings, trusting};
use crate::support::{Rig, Smtp, SmtpRules, Tls};

const PASSWORD: &str = "Hunter2Sentinel";

/// Mails a sample to a server that `rules` make, with settings of `tls`; answers exit code, stderr and server.
async fn test(rig: &Rig, rules: SmtpRules, tls: Tls, trusted: bool) -> (i32, String, Smtp) {
    let smtp = Smtp::start(rules).await;
    rig.configure(&settings(rig, smtp.port(), tls, Some(("tally", PASSWORD))));
    let (name, ca) = trusting(&smtp);
    let env: &[(&str, &str)] = if trusted { &[(name, &ca)] } else { &[] };
    let output = rig.tallyd_with(&["report", "--test"], &[env, &[("RUST_LOG", "trace")]].concat()).await;
    let said = output.stdout + &output.stderr;
    for secret in [PASSWORD, "SHVudGVyMlNlbnRpbmVs", "AHRhbGx5AEh1bnRlcjJTZW50aW5lbA=="] {
        assert!(!said.contains(secret), "{said}");
    }
    (output.code.unwrap(), said, smtp)
}

fn asking(mechanism: &'static str, password: &'static str) -> SmtpRules {
    SmtpRules { login: Some((mechanism, "tally", password)), ..SmtpRules::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_named_with_its_words() {
    let rig = Rig::start("").await;
    for (rules, words) in [
        (asking("PLAIN", "another"), "535"),
        (asking("LOGIN", "another"), "535"),
        (asking("CRAM-MD5", PASSWORD), "No compatible authentication mechanism"),
        (SmtpRules { full: Some("552 5.2.2 mailbox full"), ..asking("PLAIN", PASSWORD) }, "552"),
        (
            SmtpRules { unknown: vec!["ops@example.com", "night@example.com"], ..asking("PLAIN", PASSWORD) },
            "nobody of this name",
        ),
    ] {
        let (code, said, smtp) = test(&rig, rules, Tls::None, false).await;
        let named = format!("mail server localhost:{}: ", smtp.port());
        assert!(code == 1 && said.contains(&named) && said.contains(words), "{words}: {code} {said}");
        assert_eq!(smtp.received().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unknown_recipient_keeps_the_mail_from_no_other() {
    let rig = Rig::start("").await;
    for unknown in ["ops@example.com", "night@example.com"] {
        let rules = SmtpRules { unknown: vec![unknown], ..asking("PLAIN", PASSWORD) };
        let (code, said, smtp) = test(&rig, rules, Tls::None, false).await;
        assert!(code == 1 && said.contains(&format!("refused {unknown}: ")), "{code} {said}");
        let mails = smtp.received();
        assert_eq!((mails.len(), mails[0].to.len()), (1, 1));
        assert_ne!(mails[0].to[0], unknown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_password_goes_to_whom_is_not_trusted() {
    let rig = Rig::start("").await;
    for (has, wanted, trusted, words) in [
        (Tls::Implicit, Tls::Implicit, false, "UnknownIssuer"),
        (Tls::Starttls, Tls::Starttls, false, "UnknownIssuer"),
        (Tls::None, Tls::Starttls, true, "STARTTLS is not supported"),
        (Tls::None, Tls::Implicit, true, "wants tls = \"starttls\""),
    ] {
        let rules = SmtpRules { tls: has, ..asking("PLAIN", PASSWORD) };
        let (code, said, smtp) = test(&rig, rules, wanted, trusted).await;
        assert!(code == 1 && said.contains(words), "{words}: {code} {said}");
        let heard = smtp.heard();
        assert!(!heard.iter().any(|line| line.starts_with("AUTH") || line.starts_with("MAIL")), "{heard:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let smtp = Smtp::start(SmtpRules { mute: true, ..SmtpRules::default() }).await;
    let toml = format!(
        "report.from = 'a@example.com'\nreport.to = ['b@example.com']\nreport.smtp.host = 'localhost'\n\
         report.smtp.tls = 'none'\nreport.smtp.port = {}",
        smtp.port()
    );
    let config = Config::parse(&toml, [], Path::new("config.toml")).unwrap();
    let mailer = Mailer::new(config.report.mail.as_ref().unwrap()).unwrap().within(Duration::from_millis(300));
    let letter = Letter::new(&sample(&config.vocabulary).unwrap(), None);
    let error = mailer.send(&letter).await.unwrap_err().to_string();
    let expected = format!("mail server localhost:{}: no answer within 0.3 s; ", smtp.port());
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_is_named() {
    let rig = Rig::start("").await;
    let to = "report.to = [\"night watch@example.com\"]";
    rig.configure(
        &settings(&rig, 1, Tls::None, None)
            .replace("report.to = [\"运维 <ops@example.com>\", \"night@example.com\"]", to),
    );
    let output = rig.tallyd(&["report", "--test"]).await.expect_code(78);
    assert!(output.stderr.contains("report.to[0]: "), "{}", output.stderr);
}
