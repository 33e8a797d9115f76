//! The conversation with the mail server.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lettre::message::Mailbox;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};

use super::letter::Letter;
use crate::config::{MailConfig, Secret, SmtpTls};

/// How long one conversation may take. Mail servers make strangers wait on purpose.
const LIMIT: Duration = Duration::from_mins(1);

/// How long a farewell is waited for: the mail is theirs by then.
const FAREWELL: Duration = Duration::from_secs(2);

/// Sends mail from one sender to the same recipients.
#[derive(Clone, Debug)]
pub struct Mailer {
    from: Mailbox,
    to: Vec<Mailbox>,
    host: String,
    port: u16,
    tls: SmtpTls,
    login: Option<(String, Secret)>,
    limit: Duration,
}

/// A recipient whom the server did not take, while it took another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The address.
    pub to: String,
    /// The server's words.
    pub cause: String,
}

/// Why a mail was not sent. None of these texts holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// An address cannot be used.
    #[error("{field}: {text:?} is no mail address: {cause}")]
    Address {
        /// The setting.
        field: String,
        /// Its value.
        text: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The mail could not be put together.
    #[error("the mail could not be put together: {0}")]
    Compose(String),
    /// The server did not take it.
    #[error("mail server {server}: {cause}")]
    Server {
        /// Host and port.
        server: String,
        /// The server's words, or why there are none.
        cause: String,
    },
}

impl Mailer {
    /// Reads the addresses. No connection is made.
    pub fn new(config: &MailConfig) -> Result<Self, MailError> {
        let MailConfig { from, to, host, port, tls, login } = config;
        let to = to.iter().enumerate().map(|(index, to)| mailbox(&format!("report.to[{index}]"), to));
        Ok(Self {
            from: mailbox("report.from", from)?,
            to: to.collect::<Result<_, _>>()?,
            host: host.clone(),
            port: *port,
            tls: *tls,
            login: login.clone(),
            limit: LIMIT,
        })
    }

    /// The same with another time limit for a conversation.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Host and port of the server.
    #[must_use]
    pub fn server(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The addresses of the recipients.
    #[must_use]
    pub fn recipients(&self) -> Vec<String> {
        self.to.iter().map(|to| to.email.to_string()).collect()
    }

    /// Hands a mail to the server. Answers whom it refused, when it took the mail for anybody.
    pub async fn send(&self, letter: &Letter) -> Result<Vec<Refusal>, MailError> {
        let message = letter.compose(&self.from, &self.to).map_err(|error| MailError::Compose(error.to_string()))?;
        self.in_time(Box::pin(self.converse(&message))).await
    }

    /// Connects and logs in as for a mail, and sends none.
    pub async fn try_login(&self) -> Result<(), MailError> {
        let greeted = async {
            let mut server = self.log_in().await?;
            let _farewell = tokio::time::timeout(FAREWELL, server.quit()).await;
            Ok(())
        };
        self.in_time(Box::pin(greeted)).await
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, smtp::Error>>) -> Result<T, MailError> {
        match tokio::time::timeout(self.limit, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.failed(&self.words(&error))),
            Err(_) => {
                let hint = match self.tls {
                    SmtpTls::Implicit => "",
                    SmtpTls::Starttls | SmtpTls::None => "; a server that waits for TLS wants tls = \"implicit\"",
                };
                Err(self.failed(&format!("no answer within {} s{hint}", self.limit.as_secs_f32())))
            }
        }
    }

    async fn log_in(&self) -> Result<AsyncSmtpConnection, smtp::Error> {
        let tls = match self.tls {
            SmtpTls::None => None,
            SmtpTls::Implicit | SmtpTls::Starttls => Some(TlsParameters::new(self.host.clone())?),
        };
        let (at_once, later) = if self.tls == SmtpTls::Implicit { (tls, None) } else { (None, tls) };
        let (hello, address) = (ClientId::default(), (self.host.as_str(), self.port));
        let mut server = AsyncSmtpConnection::connect_tokio1(address, Some(self.limit), &hello, at_once, None).await?;
        if let Some(tls) = later {
            server.starttls(tls, &hello).await?;
        }
        if let Some((user, password)) = &self.login {
            let credentials = Credentials::from((user.as_str(), password.expose()));
            server.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await?;
        }
        Ok(server)
    }

    async fn converse(&self, message: &[u8]) -> Result<Vec<Refusal>, smtp::Error> {
        let mut server = self.log_in().await?;
        let refused = self.envelope(&mut server).await?;
        server.command(Data).await?;
        server.message(message).await?;
        let _farewell = tokio::time::timeout(FAREWELL, server.quit()).await;
        Ok(refused)
    }

    /// Names sender and recipients. One recipient who is refused keeps the mail from no other.
    async fn envelope(&self, server: &mut AsyncSmtpConnection) -> Result<Vec<Refusal>, smtp::Error> {
        let is_ascii = |mailbox: &Mailbox| mailbox.email.to_string().is_ascii();
        let ascii = self.to.iter().chain([&self.from]).all(is_ascii);
        let parameters = if ascii || !server.server_info().supports_feature(Extension::SmtpUtfEight) {
            Vec::new()
        } else {
            vec![MailParameter::SmtpUtfEight]
        };
        server.command(Mail::new(Some(self.from.email.clone()), parameters)).await?;
        let (mut refused, mut taken) = (Vec::new(), 0);
        for Mailbox { email, .. } in &self.to {
            match server.command(Rcpt::new(email.clone(), Vec::new())).await {
                Ok(_) => taken += 1,
                Err(error) if error.status().is_some() && (taken > 0 || refused.len() + 1 < self.to.len()) => {
                    refused.push(Refusal { to: email.to_string(), cause: self.words(&error) });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn failed(&self, cause: &str) -> MailError {
        MailError::Server { server: self.server(), cause: cause.to_owned() }
    }

    /// What the library says, without what a server may have said back to us.
    fn words(&self, error: &smtp::Error) -> String {
        let mut words = error.to_string();
        if let Some((user, password)) = &self.login {
            let password = password.expose();
            let plain = STANDARD.encode(format!("\0{user}\0{password}"));
            for secret in [plain, STANDARD.encode(password), password.to_owned()] {
                words = words.replace(&secret, "[redacted]");
            }
        }
        if self.tls == SmtpTls::Implicit && words.contains("InvalidContentType") {
            words += "; a server that does not begin with TLS wants tls = \"starttls\"";
        }
        words.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}

/// `NAME@DOMAIN` or `Some Name <NAME@DOMAIN>`, as the configuration takes them.
fn mailbox(field: &str, text: &str) -> Result<Mailbox, MailError> {
    let (name, address) = match text.rsplit_once('<') {
        Some((name, rest)) => (name.trim(), rest.trim_end().strip_suffix('>').unwrap_or(rest)),
        None => ("", text),
    };
    let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let name = quoted.map_or_else(|| name.to_owned(), |name| name.replace("\\\"", "\""));
    let address = address.trim().parse().map_err(|error: lettre::address::AddressError| MailError::Address {
        field: field.to_owned(),
        text: text.to_owned(),
        cause: error.to_string(),
    })?;
    Ok(Mailbox::new((!name.is_empty()).then_some(name), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_name_in_any_script() {
        let read = |text| mailbox("report.from", text).map(|m| (m.name.unwrap_or_default(), m.email.to_string()));
        let expected = |name: &str, email: &str| (name.to_owned(), email.to_owned());
        assert_eq!(read("ops@example.com").unwrap(), expected("", "ops@example.com"));
        assert_eq!(read("<ops@example.com>").unwrap(), expected("", "ops@example.com"));
        assert_eq!(read("运维, Jürgen <ops@example.com>").unwrap(), expected("运维, Jürgen", "ops@example.com"));
        assert_eq!(read(r#""Ops \"night\", Ltd." <a@b.cd>"#).unwrap(), expected("Ops \"night\", Ltd.", "a@b.cd"));
        for bad in ["a b@example.com", "a@exa mple.com", "a@example.com\r\nBcc: b@c.de", "@", "a@b>c.de"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
