//! The page in a browser: how it fits, and that its button works, with and without scripts.

use serde_json::json;

use super::chromium::Chromium;
use crate::support::{Rig, this_test};

/// The least contrast (WCAG 2) of any text with what is behind it, and the text.
const LEAST_CONTRAST: &str = r"(() => {
    const rgb = (text) => text.match(/[\d.]+/g).map(Number);
    const light = (c) => c.slice(0, 3).map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (element) => {
        for (; element; element = element.parentElement) {
            const colour = rgb(getComputedStyle(element).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
    };
    let least = [99, ''];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || element.closest('svg')) continue;
        const [a, b] = [rgb(getComputedStyle(element).color), behind(element)].map(light).sort((a, b) => b - a);
        const contrast = (a + 0.05) / (b + 0.05);
        if (contrast < least[0]) least = [contrast, texts.currentNode.data];
    }
    return least;
})()";

#[tokio::test(flavor = "multi_thread")]
async fn it_fits_and_can_be_read_on_phone_and_desktop_by_day_and_night() {
    let Some(mut browser) = Chromium::start(&this_test()) else { return };
    let long = "a_name_that_is_as_long_as_may_be";
    let rig = Rig::start(&format!("[[target]]\nname = \"{long}\"\ncode = 65535\n")).await;
    let served = rig.serve(&["--no-schedule"]).await;
    served.api().put(&format!("/v1/like/{long}/9223372036854775807/users/42")).await.expect(200);
    let failed = json!({
        "run_id": "x", "started_at": "2038-01-01T00:00:00.000Z", "outcome": "partial", "trigger": "schedule",
        "changes": 123_456_789, "rows_written": 123_456_789, "rejected": 0, "left": 1, "duration_ms": 3_600_000,
        "partitions": [{ "target_type": 65535, "shard": 0, "outcome": "failed", "error": "x".repeat(300) }],
    });
    for broken in [false, true] {
        if broken {
            rig.sql(&format!(
                "INSERT INTO sync_run (run_id, caused_by, owner, started_at, duration_ms, outcome, retries, report) \
                 VALUES ('x', 'schedule', 'x', '2038-01-01', 1, 'partial', 0, '{failed}')"
            ))
            .await;
        }
        for (width, scheme) in [(390, "light"), (390, "dark"), (1200, "light"), (1200, "dark")] {
            browser.look(width, 844, scheme);
            browser.open(&format!("http://{}/", served.admin.address));
            let what = format!("{width} {scheme}, broken: {broken}");
            // Not innerWidth, which grows on a phone with what does not fit.
            let wide = browser.evaluate("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(wide <= width, "{what}: {wide} wide");
            let least = browser.evaluate(LEAST_CONTRAST);
            assert!(least[0].as_f64().unwrap() >= 4.5, "{what}: {least}");
            let dark = browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)";
            assert_eq!(dark, scheme == "dark", "{what}: the styles are applied");
        }
    }
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_starts_a_run_and_its_outcome_is_shown_with_and_without_scripts() {
    let Some(mut browser) = Chromium::start(&this_test()) else { return };
    let rig = Rig::start("").await;
    let served = rig.serve(&["--no-schedule"]).await;
    for (user, scripts) in [(42, true), (43, false)] {
        served.api().put(&format!("/v1/like/note/10086/users/{user}")).await.expect(200);
        browser.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !scripts }));
        browser.open(&format!("http://{}/", served.admin.address));
        browser.click("button");
        browser.loaded();
        // A slow run is shown by the page when it loads itself again.
        while !browser.html().contains("is done: 1 change in") {
            assert!(browser.html().contains("its outcome will be shown here"), "{}", browser.html());
            browser.loaded();
        }
        assert_eq!(rig.sql("SELECT 1 FROM sync_run WHERE caused_by = 'api'").await.len(), user - 41);
    }
    assert_eq!(rig.sql("SELECT user_id FROM interaction_record").await.len(), 2);
    assert!(browser.complaints().is_empty(), "{:?}", browser.complaints());
}
