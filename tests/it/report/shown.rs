//! `tallyd report` without mail.

use super::{clean, keep};
use crate::support::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn the_last_pass_is_shown_against_those_before_it() {
    let rig = Rig::start("").await;
    let output = rig.tallyd(&["report"]).await.expect_code(1);
    assert!(output.stderr.contains("run `tallyd migrate`"), "{}", output.stderr);
    rig.migrate().await;
    let output = rig.tallyd(&["report", "--last"]).await.expect_code(1);
    assert!(output.stderr.contains("no reconciliation is kept"), "{}", output.stderr);
    let output = rig.tallyd(&["report", "--send"]).await.expect_code(78);
    assert!(output.stderr.contains("report.smtp.host"), "{}", output.stderr);
    rig.tallyd(&["report", "--test"]).await.expect_code(78);
    rig.tallyd(&["report", "--format", "pdf"]).await.expect_code(2);

    let of = |drift: u32| {
        format!(
            r#"{{"outcome":"repaired","looked_at":10,"differing":1,"unknown":{{"to us":1}},
                "interactions":[{{"interaction":"like","sum_abs_drift":{drift}}}]}}"#
        )
    };
    keep(&rig, "a", "full", "2026-01-01 03:30:00", &of(4)).await;
    keep(&rig, "b", "sample", "2026-01-02 03:30:00", &of(1000)).await;
    keep(&rig, "c", "full", "2026-01-02 03:30:00", &of(5)).await;
    keep(&rig, "d", "full", "2026-01-03 03:30:00", &of(7)).await;
    let text = rig.tallyd(&["report"]).await.expect_code(0).stdout;
    assert!(text.starts_with("REPAIRED\n1 of 10 targets differed."), "{text}");
    let like: Vec<_> = text.lines().find(|line| line.starts_with("like ")).unwrap().split_whitespace().collect();
    assert_eq!(like, ["like", "–", "7", "–", "–"], "{text}");
    assert!(text.contains("usual drift 4.5\n"), "{text}");
    assert!(!text.contains("1,000"), "a pass of another kind is no measure: {text}");
    let html = rig.tallyd(&["report", "--format", "html"]).await.expect_code(0).stdout;
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("1 of 10 targets differed."), "{html}");
    // Exactly what is kept, also what this version does not know.
    let json = rig.tallyd(&["report", "--format", "json"]).await.expect_code(0).stdout;
    assert_eq!(json, of(7) + "\n");

    keep(&rig, "e", "command", "2026-01-04 03:30:00", &clean(12_345)).await;
    let text = rig.tallyd(&["report"]).await.expect_code(0).stdout;
    assert!(text.starts_with("CLEAN\n12,345 targets looked at"), "{text}");
    keep(&rig, "f", "command", "2026-01-05 03:30:00", "of another version").await;
    let text = rig.tallyd(&["report"]).await.expect_code(0).stdout;
    assert!(text.starts_with("NO VERDICT\n"), "{text}");
}
