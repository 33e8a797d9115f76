//! The status page, over the real binary and in a real browser.

mod clicks;
mod content;
mod forms;
mod looks;
