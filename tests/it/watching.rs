//! What is written about the metrics, held to what the real binary exposes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{PrivateMysql, Redis, Rig, eventually};

/// Type and names of labels.
type Shape = (String, BTreeSet<String>);

fn file(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// What a daemon with both servers at hand exposes.
async fn exposed() -> String {
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    served.admin.get("/metrics").await.expect(200).body
}

/// The name of a histogram's series without its suffix is the metric's; `le` is no label of ours.
fn shapes(text: &str) -> BTreeMap<String, Shape> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut shapes: BTreeMap<String, Shape> =
        types.map(|(name, kind)| (name.to_owned(), (kind.to_owned(), BTreeSet::new()))).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let key = if shapes.contains_key(name) { name } else { base };
        let (_, labels) = shapes.get_mut(key).unwrap_or_else(|| panic!("{name} has no type"));
        labels.extend(label_names(line).filter(|label| label != "le"));
    }
    shapes
}

/// No value of a label holds `="`.
fn label_names(line: &str) -> impl Iterator<Item = String> {
    let pieces: Vec<&str> = line.split("=\"").collect();
    let names = pieces.iter().take(pieces.len() - 1).filter_map(|piece| piece.rsplit(['{', ',']).next());
    names.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The rows of the README's list.
fn listed() -> BTreeMap<String, Shape> {
    let readme = file("README.md");
    let rows = readme.lines().filter(|line| line.starts_with("| `tallyd_"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty()).map(|label| label.replace('`', ""));
        assert!(!cells[4].is_empty(), "{line} says nothing");
        (cells[1].replace('`', ""), (cells[2].to_owned(), labels.collect()))
    };
    rows.map(row).collect()
}

/// Every name that begins with `tallyd_` in an expression.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tallyd_")).map(str::to_owned).collect()
}

fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_lists_every_metric_and_no_other() {
    let (exposed, listed) = (shapes(&exposed().await), listed());
    for (name, shape) in &exposed {
        assert_eq!(listed.get(name), Some(shape), "{name} in README.md against what is exposed");
    }
    let unknown: Vec<_> = listed.keys().filter(|name| !exposed.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "listed and not exposed: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboard_name_only_what_is_there() {
    let there = series(&exposed().await);
    for path in
        ["systemd/prometheus/tallyd.rules.yml", "systemd/grafana/tallyd.json", "tests/prometheus/tallyd.test.yml"]
    {
        let named = named(&file(path));
        assert!(named.len() > 10, "{path}: {named:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{path} names what is not exposed: {missing:?}");
    }
}

#[test]
fn every_alert_names_a_paragraph_of_the_readme() {
    let (rules, readme) = (file("systemd/prometheus/tallyd.rules.yml"), file("README.md"));
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 15);
    for alert in alerts {
        let words = alert.split_whitespace().collect::<Vec<_>>().join(" ");
        let paragraph = words.split_once("README, \"").and_then(|(_, rest)| rest.split_once('"'));
        let (paragraph, _) = paragraph.unwrap_or_else(|| panic!("no paragraph: {alert}"));
        assert!(readme.contains(&format!("\n### {paragraph}\n")), "{paragraph} is not in README.md: {alert}");
        for word in ["summary: ", "description: ", "severity: "] {
            assert!(words.contains(word), "{word} is not in {alert}");
        }
    }
}

#[test]
fn the_dashboard_can_be_imported_and_nothing_overlaps() {
    let dashboard: Value = serde_json::from_str(&file("systemd/grafana/tallyd.json")).unwrap();
    assert_eq!(dashboard["__inputs"][0]["name"], "DS_PROMETHEUS");
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "twice: {}", panel["id"]);
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{} is too wide", panel["title"]);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{} overlaps another at {cell:?}", panel["title"]);
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${DS_PROMETHEUS}", "{}", panel["title"]);
        }
    }
    assert!(ids.len() > 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_and_passes_came_to_outlives_the_daemon() {
    let mail = "report.from = \"a@example.com\"\nreport.to = [\"b@example.com\"]\nreport.smtp.host = \"127.0.0.1\"\n\
                report.smtp.port = 1\nreport.smtp.tls = \"none\"";
    let rig = Rig::start(mail).await;
    rig.migrate().await;
    rig.tallyd(&["sync"]).await.expect_code(0);
    rig.sql_exec(
        "INSERT INTO reconcile_run VALUES \
         ('1', 'full', 'x', '2026-01-01 00:00:00', 5000, 'drift', '{}', NULL), \
         ('2', 'sample', 'x', '2026-01-01 00:01:00', 1000, 'clean', '{}', NULL), \
         ('3', 'command', 'x', '2026-01-01 00:02:00', 1000, 'clean', '{}', NULL), \
         ('4', 'full', 'x', '2026-01-01 00:03:00', 1000, 'stopped', '{}', NULL)",
    )
    .await;
    let served = rig.serve(&["--no-schedule"]).await;
    let value = |text: &str, name: &str| -> Option<i64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    let text = served.admin.get("/metrics").await.expect(200).body;
    assert!(value(&text, "tallyd_sync_last_success_timestamp_seconds") > Some(1_767_225_600), "{text}");
    assert_eq!(value(&text, "tallyd_reconcile_last_full_timestamp_seconds"), Some(1_767_225_605));
    assert_eq!(value(&text, "tallyd_reconcile_last_success_timestamp_seconds"), Some(1_767_225_661));
    assert!(value(&text, "tallyd_report_waiting_seconds") > Some(3600), "{text}");
    rig.sql_exec("UPDATE reconcile_run SET mailed_at = UTC_TIMESTAMP(3) WHERE run_id = '4'").await;
    let mailed = async || {
        let text = served.admin.get("/metrics").await.expect(200).body;
        value(&text, "tallyd_report_waiting_seconds") == Some(0)
    };
    eventually(std::time::Duration::from_secs(30), mailed, "no report waits").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_goes_on_without_mysql() {
    let Some(mut mysql) = PrivateMysql::start(&[]).await else { return };
    let (redis, db) = (Redis::start().await, mysql.create_database("tallyd").await);
    let rig = Rig::on(&redis, &db, "");
    let served = rig.serve(&["--no-schedule"]).await;
    let has = |text: &str, line: &str| text.lines().any(|found| found == line);
    let text = served.admin.get("/metrics").await.expect(200).body;
    assert!(has(&text, "tallyd_mysql_up 1") && has(&text, "tallyd_degraded_pending_writes 0"), "{text}");
    mysql.kill();
    let begun = std::time::Instant::now();
    let text = served.admin.get("/metrics").await.expect(200).body;
    assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(has(&text, "tallyd_mysql_up 0") && has(&text, "tallyd_redis_up 1"), "{text}");
    assert!(!text.contains("\ntallyd_degraded_pending_writes "), "{text}");
}
