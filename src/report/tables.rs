//! The parts of a report. A part of which nothing is known is left out.

use chrono::TimeDelta;

use super::figures::{Figures, OfInteraction, Verdict};
use super::view::{Bar, Body, Cell, Section, line};
use super::words::{UNKNOWN, counted, duration, known, number, percent, plain, time};
use crate::model::Vocabulary;

/// Drifts that are shown one by one.
const WORST: usize = 20;

/// Passes in the chart, this one among them.
const CHART: usize = 7;

fn cell(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), below: None }
}

fn facts(title: &'static str, rows: Vec<(&str, Option<String>)>) -> Option<Section> {
    let rows: Vec<_> = rows.into_iter().filter_map(|(label, fact)| Some((label.to_owned(), fact?))).collect();
    (!rows.is_empty()).then_some(Section { title, body: Body::Facts(rows), note: None })
}

pub(super) fn pass(figures: &Figures) -> Option<Section> {
    let window = figures.started_at.map(|from| {
        let ms = figures.duration_ms.and_then(|ms| i64::try_from(ms).ok());
        match ms.and_then(TimeDelta::try_milliseconds).and_then(|took| from.checked_add_signed(took)) {
            Some(to) if to.date_naive() == from.date_naive() => {
                format!("{} to {}", from.format("%Y-%m-%d %H:%M:%S"), to.format("%H:%M:%S UTC"))
            }
            Some(to) => format!("{} to {}", from.format("%Y-%m-%d %H:%M:%S"), time(to)),
            None => format!("from {}", time(from)),
        }
    });
    let rows = vec![
        ("Window", window),
        ("Duration", figures.duration_ms.map(duration)),
        ("Trigger", figures.trigger.as_deref().map(line)),
        ("Scope", figures.scope.as_deref().map(line)),
        ("Dry run", figures.dry_run.then(|| "yes, nothing was written".to_owned())),
        ("Exit status", figures.exit_code.map(|code| code.to_string())),
        ("Run", figures.run_id.as_deref().map(line)),
    ];
    facts("This pass", rows)
}

pub(super) fn coverage(figures: &Figures) -> Option<Section> {
    let looked_at = figures.looked_at.map(|looked_at| match figures.of {
        Some(of) => {
            format!("{} of {} ({})", number(looked_at), counted(of, "target", "targets"), percent(looked_at, of))
        }
        None => counted(looked_at, "target", "targets"),
    });
    let mut section = facts("Coverage", vec![("Looked at", looked_at), ("Skipped", figures.skipped.map(number))])?;
    if let Body::Facts(rows) = &mut section.body {
        rows.extend(
            figures.skipped_why.iter().map(|(why, skipped)| (line(&format!("· {}", plain(why))), number(*skipped))),
        );
    }
    Some(section)
}

pub(super) fn repairs(figures: &Figures) -> Option<Section> {
    let rows = vec![
        ("Targets that differed", figures.differing.map(number)),
        ("Repaired, read back", figures.repaired.map(number)),
        ("Failed", figures.failed.map(number)),
        ("Refused", figures.refused.map(number)),
        ("Left", figures.residual.map(number)),
    ];
    facts("Repairs", rows)
}

pub(super) fn interactions(figures: &Figures, before: &[Figures]) -> Option<Section> {
    if figures.interactions.is_empty() {
        return None;
    }
    let row = |of: &OfInteraction| {
        let signs = match (of.above, of.below) {
            (None, None) => UNKNOWN.to_owned(),
            (above, below) => format!("{} / {}", known(above), known(below)),
        };
        let usual = usual(&of.interaction, before);
        let rest = format!("{} seen, {} negative, usual drift {usual}", known(of.looked_at), known(of.negatives));
        let name = Cell { text: line(&of.interaction), below: Some(rest) };
        let figures = [of.differing, of.sum_abs_drift, of.max_abs_drift].map(known);
        [name].into_iter().chain(figures.map(cell)).chain([cell(signs)]).collect()
    };
    let columns = vec!["", "differ", "drift", "largest", "+ / −"];
    let compared = before.len().min(CHART);
    let note = format!(
        "drift: sum of |wrong − right count|. + / −: counts too high / too low. usual: mean of {}.",
        match compared {
            0 => "earlier passes of this kind, of which there are none".to_owned(),
            1 => "the pass of this kind before".to_owned(),
            _ => format!("the {compared} passes of this kind before"),
        }
    );
    let rows = figures.interactions.iter().map(row).collect();
    Some(Section { title: "By interaction", body: Body::Table(columns, rows), note: Some(note) })
}

/// The mean of what the earlier passes tell of an interaction.
fn usual(interaction: &str, before: &[Figures]) -> String {
    let told = before.iter().take(CHART).flat_map(|pass| &pass.interactions);
    let told: Vec<u64> = told.filter(|of| of.interaction == interaction).filter_map(|of| of.sum_abs_drift).collect();
    let sum: u128 = told.iter().map(|drift| u128::from(*drift)).sum();
    let Some(tenths) = (sum * 10).checked_div(told.len() as u128) else { return UNKNOWN.to_owned() };
    let whole = number(u64::try_from(tenths / 10).unwrap_or(u64::MAX));
    if tenths % 10 == 0 { whole } else { format!("{whole}.{}", tenths % 10) }
}

pub(super) fn kinds(figures: &Figures) -> Option<Section> {
    let mut kinds: Vec<_> = figures.by_kind.iter().filter(|(_, found)| **found > 0).collect();
    kinds.sort_by_key(|(_, found)| std::cmp::Reverse(**found));
    let rows: Vec<_> =
        kinds.iter().map(|(kind, found)| vec![cell(line(&plain(kind))), cell(number(**found))]).collect();
    let body = Body::Table(vec!["kind", "found"], rows);
    (!kinds.is_empty()).then_some(Section { title: "By kind", body, note: None })
}

pub(super) fn worst(figures: &Figures, vocabulary: &Vocabulary) -> Option<Section> {
    if figures.worst.is_empty() {
        return None;
    }
    let rows = figures.worst.iter().take(WORST).map(|drift| {
        let target_type = drift.target_type.as_deref().unwrap_or(UNKNOWN);
        let named = vocabulary.targets.iter().find(|target| target.code.to_string() == target_type);
        let target_type = named.map_or(target_type, |target| target.name.as_str());
        let target = drift.target_id.as_deref().unwrap_or(UNKNOWN);
        let interaction = drift.interaction.as_deref().unwrap_or_default();
        let user = drift.user_id.as_deref().map(|user| format!(", user {user}")).unwrap_or_default();
        let why: Vec<_> = [&drift.kind, &drift.cause].into_iter().flatten().map(|word| plain(word)).collect();
        let side = drift.side.as_deref().map(|side| format!(" ({side})")).unwrap_or_default();
        let (before, after) = (drift.before.as_deref().unwrap_or("none"), drift.after.as_deref().unwrap_or(UNKNOWN));
        let only_told = ["unconfigured", "unreadable", "row_without_user"];
        let values = match drift.kind.as_deref() {
            Some(kind) if only_told.contains(&kind) => {
                drift.before.as_deref().map_or_else(String::new, |n| format!("{n} rows"))
            }
            _ => format!("{before}\u{a0}→\u{a0}{after}"),
        };
        vec![
            Cell {
                text: line(&format!("{target_type}:{target} {interaction}{user}")),
                below: Some(line(&format!("{}{side}", why.join(": ")))),
            },
            cell(line(&values)),
            cell(line(drift.outcome.as_deref().unwrap_or(UNKNOWN))),
        ]
    });
    let body = Body::Table(vec!["target", "wrong → right", "outcome"], rows.collect());
    Some(Section { title: "The largest drifts", body, note: None })
}

pub(super) fn bars(figures: &Figures, before: &[Figures]) -> Option<Section> {
    if before.is_empty() {
        return None;
    }
    let passes: Vec<_> = [figures].into_iter().chain(before.iter().take(CHART - 1)).collect();
    let drift = |pass: &Figures| pass.sum_abs_drift().or(pass.differing);
    let most = passes.iter().filter_map(|pass| drift(pass)).max()?;
    let bar = |(at, pass): (usize, &&Figures)| {
        let drift = drift(pass);
        let share = u128::from(drift.unwrap_or_default()) * 100 / u128::from(most.max(1));
        let percent = u8::try_from(share).unwrap_or(100).max(u8::from(drift.unwrap_or_default() > 0));
        let ended = match pass.outcome {
            Verdict::Failed => " failed",
            Verdict::Stopped => " stopped",
            Verdict::Drift => " left",
            _ => "",
        };
        Bar {
            label: pass.started_at.map_or_else(|| UNKNOWN.to_owned(), |at| at.format("%m-%d %H:%M").to_string()),
            percent,
            figure: format!("{}{ended}", known(drift)),
            newest: at == 0,
        }
    };
    let bars = passes.iter().enumerate().map(bar).collect();
    Some(Section { title: "Drift over the last passes", body: Body::Bars(bars), note: None })
}

pub(super) fn sync(figures: &Figures) -> Option<Section> {
    let health = figures.sync_health.as_ref()?;
    let runs = health.runs.map(|runs| match health.failed_runs {
        Some(failed) => format!("{}, {} of them failed", number(runs), number(failed)),
        None => number(runs),
    });
    let lag = match (health.lag_p50_ms, health.lag_p99_ms) {
        (None, None) => None,
        (p50, p99) => {
            let told = |lag: Option<u64>| lag.map_or_else(|| UNKNOWN.to_owned(), duration);
            Some(format!("{} / {}", told(p50), told(p99)))
        }
    };
    let rows = vec![
        ("Since", health.since.map(time)),
        ("Runs", runs),
        ("Changes copied", health.changes.map(number)),
        ("Targets", health.targets.map(number)),
        ("Rows written", health.rows_written.map(number)),
        ("Writes per change", health.coalescing.map(|ratio| format!("{ratio:.2}"))),
        ("Lag, p50 / p99", lag),
        ("Oldest change waiting", health.oldest_dirty_ms.map(duration)),
        ("Transactions retried", health.retries.map(number)),
        ("Rows set aside", health.rejected.map(number)),
    ];
    facts("Syncing since the last report", rows)
}

pub(super) fn away(figures: &Figures) -> Option<Section> {
    let of = |told: fn(&super::figures::Degraded) -> Option<u64>| figures.degraded.as_ref().and_then(told).map(number);
    let rows = vec![
        ("Accepted by MySQL", of(|degraded| degraded.accepted_total)),
        ("Replayed to Redis", of(|degraded| degraded.replayed_total)),
        ("Still to replay", of(|degraded| degraded.pending)),
        ("Losses of Redis", figures.losses.map(number)),
    ];
    facts("While Redis was away", rows)
}
