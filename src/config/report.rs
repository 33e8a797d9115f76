//! The `[report]` section.

use super::error::Problem;
use super::secret::{Secret, SecretFiles};
use super::{fields, raw};

/// What becomes of reports; they are kept in any case.
#[derive(Clone, Debug)]
pub struct ReportConfig {
    /// To whom and how they are mailed, if they are.
    pub mail: Option<MailConfig>,
}

/// How to mail.
#[derive(Clone, Debug)]
pub struct MailConfig {
    /// The sender's address; perhaps with a name, as in `tallyd <tallyd@example.com>`.
    pub from: String,
    /// The recipients, at least one.
    pub to: Vec<String>,
    /// The mail server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// When TLS starts.
    pub tls: SmtpTls,
    /// User and password, when the server wants them.
    pub login: Option<(String, Secret)>,
}

/// When TLS starts with a mail server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmtpTls {
    /// By the command STARTTLS, which must succeed; port 587.
    Starttls,
    /// At once; port 465.
    Implicit,
    /// Never.
    None,
}

impl ReportConfig {
    /// Mail is wanted when a host, a sender or a recipient is named; then all three are needed.
    pub(super) fn resolve(raw: &raw::Report, files: &SecretFiles) -> Result<Self, Problem> {
        let raw::Smtp { host, port, tls, username, password_file } = &raw.smtp;
        let choices = [("starttls", SmtpTls::Starttls), ("implicit", SmtpTls::Implicit), ("none", SmtpTls::None)];
        let tls = fields::choice("report.smtp.tls", tls, &choices)?;
        let port = fields::within("report.smtp.port", *port, 1..=i64::from(u16::MAX))?;
        let login = login(username.as_deref(), password_file.as_deref(), files)?;
        let host = fields::text("report.smtp.host", host.as_deref())?;
        let from = raw.from.as_deref().map(|from| address("report.from".into(), from)).transpose()?;
        let to = raw.to.iter().enumerate().map(|(index, to)| address(format!("report.to[{index}]"), to));
        let to: Vec<_> = to.collect::<Result<_, _>>()?;
        let missing = |field: &str| {
            Err(Problem::new(field, "is missing; mail needs report.from, report.to and report.smtp.host"))
        };
        match (host, from, to.is_empty()) {
            (None, None, true) if login.is_none() => Ok(Self { mail: None }),
            (None, _, _) => missing("report.smtp.host"),
            (_, None, _) => missing("report.from"),
            (_, _, true) => missing("report.to"),
            (Some(host), Some(from), false) => Ok(Self { mail: Some(MailConfig { from, to, host, port, tls, login }) }),
        }
    }
}

fn login(
    username: Option<&str>,
    password_file: Option<&str>,
    files: &SecretFiles,
) -> Result<Option<(String, Secret)>, Problem> {
    let user = fields::text("report.smtp.username", username)?;
    let password = files.password("report.smtp.password_file", password_file)?;
    match (user, password) {
        (Some(user), Some(password)) => Ok(Some((user, password))),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(Problem::new("report.smtp.password_file", "is missing, and report.smtp.username needs it"))
        }
        (None, Some(_)) => {
            Err(Problem::new("report.smtp.username", "is missing, and report.smtp.password_file needs it"))
        }
    }
}

/// Catches the slip, not every malformed address: the mail server has the last word.
fn address(field: String, text: &str) -> Result<String, Problem> {
    let bare = text.rsplit_once('<').map_or(text, |(_, rest)| rest.strip_suffix('>').unwrap_or("")).trim();
    let parts = bare.split_once('@').filter(|(local, domain)| !local.is_empty() && !domain.is_empty());
    let plain = !bare.contains(char::is_whitespace) && !text.contains(char::is_control);
    if parts.is_some_and(|(_, domain)| !domain.contains('@')) && plain && bare.is_ascii() {
        return Ok(text.to_owned());
    }
    if !bare.is_ascii() {
        let what = "many servers do not take such an address; write the domain as it is registered (xn--…)";
        return Err(Problem::new(field, format!("{text:?} has an address that is not ASCII, and {what}")));
    }
    Err(Problem::new(field, format!("{text:?} is no mail address; write NAME@DOMAIN or Some Name <NAME@DOMAIN>")))
}
