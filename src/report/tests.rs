//! Whole reports, against what was looked at and found good.

use std::fs;
use std::path::Path;

use super::*;
use crate::model::{TargetType, Vocabulary};

fn vocabulary() -> Vocabulary {
    let target = |name: &str, code| TargetType { name: name.into(), code };
    Vocabulary { targets: vec![target("note", 1), target("video", 2)], interactions: vec![] }
}

/// Compares with a file. Where it differs, what was found is left beside it, to be looked at and taken over by hand.
#[track_caller]
fn assert_golden(name: &str, found: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/golden").join(name);
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if expected != found {
        let found_in = file.with_extension(format!("found.{}", name.rsplit('.').next().unwrap_or_default()));
        fs::write(&found_in, found).unwrap();
        panic!("{} is not what was found: look at {}", file.display(), found_in.display());
    }
}

fn view(json: &str) -> View {
    View::new(&Figures::of(json).unwrap(), &[], &vocabulary())
}

#[test]
fn the_sample_has_something_in_every_part() {
    let sample = sample(&vocabulary()).unwrap();
    assert_eq!(sample.subject, "[tallyd] TEST, not a real pass: REPAIRED 12 of 12,345 targets");
    assert_golden("sample.txt", &text(&sample));
    assert_golden("sample.html", &html(&sample));
}

#[test]
fn a_clean_pass_and_one_of_which_nothing_is_known_are_short() {
    let clean = view(
        r#"{"outcome": "clean", "looked_at": 12345, "of": 12345, "skipped": 0, "differing": 0, "repaired": 0,
        "failed": 0, "refused": 0, "residual": 0, "by_kind": {"mark_lost": 0}, "worst": [], "exit_code": 0}"#,
    );
    assert_golden("clean.txt", &text(&clean));
    assert_golden("nothing.txt", &text(&view("{}")));
}

#[test]
fn the_subject_has_verdict_and_figures() {
    for (json, subject) in [
        (r#"{"outcome": "clean", "looked_at": 12345}"#, "[tallyd] clean: 12,345 targets"),
        (r#"{"outcome": "clean", "looked_at": 1}"#, "[tallyd] clean: 1 target"),
        (r#"{"outcome": "clean", "looked_at": 54, "of": 3000}"#, "[tallyd] clean: 54 of 3,000 targets"),
        (r#"{"outcome": "repaired", "looked_at": 9000, "differing": 12}"#, "[tallyd] REPAIRED 12 of 9,000 targets"),
        (r#"{"outcome": "drift", "looked_at": 9, "differing": 2}"#, "[tallyd] DRIFT LEFT: 2 of 9 targets differed"),
        (
            r#"{"outcome": "drift", "looked_at": 9, "differing": 2, "dry_run": true}"#,
            "[tallyd] DRIFT, dry run: 2 of 9 targets differ",
        ),
        (
            r#"{"outcome": "stopped", "looked_at": 9000, "differing": 900}"#,
            "[tallyd] STOPPED: 900 of 9,000 targets differ, nothing repaired",
        ),
        (r#"{"outcome": "failed", "looked_at": 10, "of": 20}"#, "[tallyd] FAILED after 10 of at least 20 targets"),
        (r#"{"outcome": "clean\r\nBcc: a@b.cd", "error": "x\r\nBcc: a@b.cd"}"#, "[tallyd] NO VERDICT"),
    ] {
        assert_eq!(view(json).subject, subject);
    }
}

#[test]
fn what_others_wrote_is_escaped_and_moves_no_cursor() {
    let hostile = view(
        r#"{"outcome": "failed", "error": "<script>alert(1)</script>\u001b[2J & more", "trigger": "a\nb",
        "skipped_why": {"<b>": 1}, "skipped": 1, "by_kind": {"<i>": 1}, "interactions": [{"interaction": "<u>"}],
        "worst": [{"kind": "<s>", "cause": "\"quoted\"", "target_id": "<a href=x>", "before": "<p>"}]}"#,
    );
    let (text, html) = (text(&hostile), html(&hostile));
    assert!(!text.contains('\u{1b}') && text.contains("<script>alert(1)</script> [2J & more"), "{text}");
    assert!(text.contains("Trigger  a b"), "{text}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; [2J &amp; more"), "{html}");
    for tag in ["<script", "<b>", "<i>", "<u>", "<s>", "<a ", "<p>"] {
        assert!(!html.contains(tag), "{tag}: {html}");
    }
}

#[test]
fn the_mail_loads_nothing_and_has_no_style_that_clients_drop() {
    let html = html(&sample(&vocabulary()).unwrap());
    for remote in ["http:", "https:", "src=", "url(", "@import", "<link", "<svg", "data:", "<script"] {
        assert!(!html.contains(remote), "{remote}");
    }
    // Gmail cuts what is longer.
    assert!(html.len() < 102_000, "{}", html.len());
}

#[test]
fn the_chart_shows_anything_that_is_not_nothing() {
    let pass = |drift: u64| {
        let json =
            format!(r#"{{"outcome": "clean", "interactions": [{{"interaction": "like", "sum_abs_drift": {drift}}}]}}"#);
        Figures::of(&json).unwrap()
    };
    let before: Vec<_> = [0, 1, 100_000, 7, 7, 7, 7, 7].map(pass).into();
    let view = View::new(&pass(50_000), &before, &vocabulary());
    let bars = view.sections.iter().find_map(|section| match &section.body {
        super::view::Body::Bars(bars) => Some(bars),
        _ => None,
    });
    let percents: Vec<_> = bars.unwrap().iter().map(|bar| (bar.percent, bar.newest)).collect();
    let expected = [(50, true), (0, false), (1, false), (100, false), (1, false), (1, false), (1, false)];
    assert_eq!(percents, expected);
}
