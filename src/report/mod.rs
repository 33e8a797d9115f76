//! What people are told of a reconciliation pass: on a terminal, and by mail.
//!
//! A pass leaves its figures in `reconcile_run` as JSON. They are read leniently ([`Figures`]), put into words and tables
//! once ([`View`]), and laid out as text and as HTML, so that both say the same. [`Mailer`] hands them to the mail
//! server; [`keep_mailing`] does so in the daemon, and fails nothing else when that server is down.

mod figures;
mod html;
mod letter;
mod mailer;
mod outbox;
mod sample;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod view;
pub(crate) mod words;

pub use figures::{Degraded, Drift, Figures, OfInteraction, SyncHealth, Verdict};
pub use html::html;
pub use letter::Letter;
pub use mailer::{MailError, Mailer, Refusal};
pub use outbox::{Kept, keep_mailing};
pub use sample::sample;
pub use text::text;
pub use view::View;
