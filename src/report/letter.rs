//! A report as a mail: text and HTML that say the same, and perhaps a file of SQL.

use lettre::Message;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};

use super::view::View;
use super::{html, text};

/// What a mail says, without who says it to whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    subject: String,
    text: String,
    html: String,
    sql: Option<(String, String)>,
    id: Option<String>,
}

impl Letter {
    /// `sql` undoes or completes the repairs; it is attached as a file.
    #[must_use]
    pub fn new(view: &View, sql: Option<String>) -> Self {
        let sql = sql.map(|sql| ("tallyd-repairs.sql".to_owned(), sql));
        Self { subject: view.subject.clone(), text: text(view), html: html(view), sql, id: None }
    }

    /// The id of the mail is made of a pass, so that a mail which arrives twice is seen to be the same.
    #[must_use]
    pub fn of_pass(mut self, run_id: &str) -> Self {
        let id: String = run_id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        self.id = (!id.is_empty()).then(|| format!("<{id}@reconcile.tallyd>"));
        self
    }

    /// Its subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The bytes to send: ASCII, whatever the texts hold.
    pub(super) fn compose(&self, from: &Mailbox, to: &[Mailbox]) -> Result<Vec<u8>, lettre::error::Error> {
        // A program asks for no answer from programs (RFC 3834).
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let message = Message::builder()
            .from(from.clone())
            .subject(self.subject.as_str())
            .message_id(self.id.clone())
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()));
        let message = to.iter().fold(message, |message, to| message.to(to.clone()));
        let both = MultiPart::alternative_plain_html(self.text.clone(), self.html.clone());
        let message = match &self.sql {
            None => message.multipart(both)?,
            Some((name, sql)) => {
                let file: SinglePart = Attachment::new(name.clone()).body(sql.clone(), ContentType::TEXT_PLAIN);
                message.multipart(MultiPart::mixed().multipart(both).singlepart(file))?
            }
        };
        Ok(message.formatted())
    }
}
