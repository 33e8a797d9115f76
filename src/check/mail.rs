//! Whether reports can be mailed: the settings, and whether the mail server lets us in. `tallyd report --test` sends one.

use std::time::Duration;

use super::{Finding, Level, bad, is_loopback, ok};
use crate::config::{MailConfig, SmtpTls};
use crate::report::Mailer;

const NAME: &str = "mail";

/// How long the mail server is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn finding(config: Option<&MailConfig>) -> Finding {
    let found = settings(config);
    let Some(Ok(mailer)) = config.map(Mailer::new) else { return found };
    match mailer.within(PATIENCE).try_login().await {
        Ok(()) => found,
        // Nothing but mails depends on it.
        Err(error) => {
            let detail = format!("{error}: reports are kept, and not mailed until it takes them");
            bad(
                NAME,
                Level::Warn,
                detail,
                "start the mail server, or correct report.smtp; `tallyd report --test` tries it",
            )
        }
    }
}

fn settings(config: Option<&MailConfig>) -> Finding {
    let Some(config) = config else { return ok(NAME, "not configured: reports are kept, and not mailed") };
    let mailer = match Mailer::new(config) {
        Ok(mailer) => mailer,
        Err(error) => return bad(NAME, Level::Fail, error.to_string(), "correct the address"),
    };
    if config.tls == SmtpTls::None && config.login.is_some() && !is_loopback(&config.host) {
        let detail = format!("the password goes to {} without TLS, for everybody on the way to read", mailer.server());
        return bad(NAME, Level::Warn, detail, "set report.smtp.tls to starttls or implicit");
    }
    ok(NAME, format!("to {} by {}", mailer.recipients().join(", "), mailer.server()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn a_password_in_the_clear_is_warned_of() {
        assert_eq!(settings(None).level, Level::Ok);
        let mut config = MailConfig {
            from: "a@example.com".into(),
            to: vec!["Ops <b@example.com>".into()],
            host: "mail.example.com".into(),
            port: 25,
            tls: SmtpTls::None,
            login: None,
        };
        assert_eq!(settings(Some(&config)), ok("mail", "to b@example.com by mail.example.com:25"));
        config.login = Some(("user".into(), Secret::new("Hunter2".into())));
        let found = settings(Some(&config));
        assert_eq!(found.level, Level::Warn);
        assert!(!found.detail.contains("Hunter2"), "{}", found.detail);
        config.host = "127.0.0.1".into();
        assert_eq!(settings(Some(&config)).level, Level::Ok);
        config.to = vec!["b@exa..mple".into()];
        assert_eq!(settings(Some(&config)).level, Level::Fail);
    }
}
