//! Reports of reconciliation: shown, mailed over a real SMTP conversation, and never in the way of anything else
//! (hazard 20).

mod mailed;
mod nightly;
mod refused;
mod shown;

use std::fs;

use crate::support::{Rig, Smtp, Tls};

pub const FROM: &str = "tallyd, Zürich <tallyd@example.com>";
pub const FIRST: &str = "运维 <ops@example.com>";
pub const SECOND: &str = "night@example.com";

/// Mail settings for a server, with a login in a file if one is given.
pub fn settings(rig: &Rig, port: u16, tls: Tls, login: Option<(&str, &str)>) -> String {
    let tls = match tls {
        Tls::None => "none",
        Tls::Starttls => "starttls",
        Tls::Implicit => "implicit",
    };
    let login = login.map(|(user, password)| {
        let file = rig.dir().join("smtp-password");
        fs::write(&file, format!("{password}\n")).unwrap();
        format!("report.smtp.username = {user:?}\nreport.smtp.password_file = {:?}\n", file.display().to_string())
    });
    format!(
        "report.from = {FROM:?}\nreport.to = [{FIRST:?}, {SECOND:?}]\nreport.smtp.host = \"localhost\"\n\
         report.smtp.port = {port}\nreport.smtp.tls = {tls:?}\n{}",
        login.unwrap_or_default()
    )
}

/// The environment in which the certificate of `smtp` is trusted.
pub fn trusting(smtp: &Smtp) -> (&'static str, String) {
    ("SSL_CERT_FILE", smtp.ca().display().to_string())
}

/// Keeps a pass, as the engine does.
pub async fn keep(rig: &Rig, run_id: &str, caused_by: &str, started_at: &str, report: &str) {
    let report = report.replace('\\', "\\\\").replace('\'', "''");
    rig.sql_exec(&format!(
        "INSERT INTO reconcile_run (run_id, caused_by, owner, started_at, duration_ms, outcome, report) \
         VALUES ('{run_id}', '{caused_by}', 'test', '{started_at}', 1, 'clean', '{report}')"
    ))
    .await;
}

/// A clean pass over so many targets.
pub fn clean(targets: u64) -> String {
    format!(r#"{{"outcome":"clean","looked_at":{targets},"of":{targets},"differing":0}}"#)
}

/// The passes that are noted as mailed.
pub async fn noted(rig: &Rig) -> Vec<String> {
    let rows = rig.sql("SELECT run_id FROM reconcile_run WHERE mailed_at IS NOT NULL ORDER BY started_at").await;
    rows.into_iter().map(|row| row[0].clone().unwrap()).collect()
}
