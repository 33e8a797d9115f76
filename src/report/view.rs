//! What a report says, in its order, before it is laid out: text and HTML show the same.

use super::figures::{Figures, Verdict};
use super::{tables, words};
use crate::model::Vocabulary;

/// A report, ready to be laid out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// The subject of its mail: one line, made of words of this program and figures.
    pub subject: String,
    pub(super) tone: Tone,
    pub(super) headline: &'static str,
    pub(super) sentence: String,
    pub(super) notice: Option<&'static str>,
    pub(super) sections: Vec<Section>,
}

/// How urgent it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tone {
    Good,
    Mended,
    Bad,
}

/// One part of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) body: Body,
    pub(super) note: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Body {
    Facts(Vec<(String, String)>),
    /// Names of columns, and rows of as many cells. All columns but the first hold figures.
    Table(Vec<&'static str>, Vec<Vec<Cell>>),
    Bars(Vec<Bar>),
}

/// One cell: what it says, and below that what explains it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) below: Option<String>,
}

/// One run of the chart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    /// 0 to 100; of nothing 0, of anything at least 1.
    pub(super) percent: u8,
    pub(super) figure: String,
    pub(super) newest: bool,
}

impl View {
    /// `before` are the passes of the same kind before this one, newest first.
    #[must_use]
    pub fn new(figures: &Figures, before: &[Figures], vocabulary: &Vocabulary) -> Self {
        let (tone, headline, subject, sentence) = verdict(figures);
        let sections = [
            tables::pass(figures),
            tables::coverage(figures),
            tables::repairs(figures),
            tables::interactions(figures, before),
            tables::kinds(figures),
            tables::worst(figures, vocabulary),
            tables::bars(figures, before),
            tables::sync(figures),
            tables::away(figures),
        ];
        Self {
            subject: format!("[tallyd] {subject}"),
            tone,
            headline,
            sentence,
            notice: None,
            sections: sections.into_iter().flatten().collect(),
        }
    }

    /// Marks it as a sample.
    #[must_use]
    pub fn as_sample(mut self) -> Self {
        self.subject = self.subject.replacen("[tallyd] ", "[tallyd] TEST, not a real pass: ", 1);
        self.notice = Some("A sample, sent to prove the mail settings. All figures are made up.");
        self
    }
}

/// Control characters would reach a terminal, or a header.
pub(super) fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn verdict(figures: &Figures) -> (Tone, &'static str, String, String) {
    let known = |figure: Option<u64>| words::number(figure.unwrap_or_default());
    let looked_at = words::counted(figures.looked_at.unwrap_or_default(), "target", "targets");
    let differing = words::known(figures.differing);
    let differ = format!("{differing} of {looked_at}");
    let covered = match figures.of.filter(|of| Some(*of) != figures.looked_at) {
        Some(of) => format!("{} of {}", known(figures.looked_at), words::counted(of, "target", "targets")),
        None => looked_at.clone(),
    };
    let because = figures.error.as_deref().map(|error| format!(" {}", line(error))).unwrap_or_default();
    match figures.outcome {
        Verdict::Clean => (
            Tone::Good,
            "Clean",
            format!("clean: {covered}"),
            format!("{covered} looked at: in these Redis and MySQL agree.{because}"),
        ),
        Verdict::Repaired => (
            Tone::Mended,
            "Repaired",
            format!("REPAIRED {differ}"),
            format!(
                "{differ} differed. {} repaired and read back; {} failed, {} refused, {} left.{because}",
                words::counted(figures.repaired.unwrap_or_default(), "drift was", "drifts were"),
                known(figures.failed),
                known(figures.refused),
                known(figures.residual),
            ),
        ),
        Verdict::Drift if figures.dry_run => (
            Tone::Bad,
            "Drift found",
            format!("DRIFT, dry run: {differ} differ"),
            format!("{differ} differ. It was a dry run: nothing was written.{because}"),
        ),
        Verdict::Drift => (
            Tone::Bad,
            "Drift left",
            format!("DRIFT LEFT: {differ} differed"),
            format!(
                "{differ} differed. {} repaired and read back; {} failed, {} refused, {} left.{because}",
                words::counted(figures.repaired.unwrap_or_default(), "drift was", "drifts were"),
                known(figures.failed),
                known(figures.refused),
                known(figures.residual),
            ),
        ),
        Verdict::Stopped => (
            Tone::Bad,
            "Stopped",
            format!("STOPPED: {differ} differ, nothing repaired"),
            format!("So much drift has one cause: find it first.{because}"),
        ),
        Verdict::Failed => {
            let of = figures.of.map(|of| format!(" of at least {}", words::number(of))).unwrap_or_default();
            let after = format!("{}{of} targets", words::number(figures.looked_at.unwrap_or_default()));
            let sentence = format!("The pass ended after {after}.{because}");
            (Tone::Bad, "Failed", format!("FAILED after {after}"), sentence)
        }
        Verdict::Unknown => (
            Tone::Bad,
            "No verdict",
            "NO VERDICT".to_owned(),
            format!("The pass left no verdict that this version knows.{because}"),
        ),
    }
}
