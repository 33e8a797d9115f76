//! What the README refers to in its running text.

use std::path::Path;

use super::blocks::readme;
use crate::support::Rig;

/// As GitHub makes them of headings.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .collect::<String>();
    kept.replace(' ', "-")
}

#[test]
fn every_link_leads_somewhere() {
    let readme = readme();
    let anchors: Vec<_> = readme
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect();
    let links: Vec<_> = readme.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    assert!(links.len() > 30);
    for link in links {
        match link.strip_prefix('#') {
            Some(wanted) => assert!(anchors.iter().any(|anchor| anchor == wanted), "no heading for #{wanted}"),
            None => assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(link).exists(), "no file {link}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_queries_are_those_of_these_tables() {
    let rig = Rig::start("").await;
    rig.migrate().await;
    let readme = readme();
    let queries: Vec<_> = readme.split('`').skip(1).step_by(2).filter(|code| code.starts_with("SELECT ")).collect();
    assert!(queries.len() > 1, "{queries:?}");
    for query in queries {
        rig.sql(query).await;
    }
}
