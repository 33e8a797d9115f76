//! The status page, over the real binary and in a real browser.

mod browsing;
mod chromium;
mod content;
mod forms;
