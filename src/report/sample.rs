//! A report with something in every part, to prove the mail settings.

use serde::Deserialize;

use super::{Figures, View};
use crate::model::Vocabulary;

const SAMPLE: &str = include_str!("sample.json");

#[derive(Deserialize)]
struct Sample {
    pass: Figures,
    before: Vec<Figures>,
}

/// Made-up figures, which say so.
pub fn sample(vocabulary: &Vocabulary) -> Result<View, serde_json::Error> {
    let Sample { pass, before } = serde_json::from_str(SAMPLE)?;
    Ok(View::new(&pass, &before, vocabulary).as_sample())
}
