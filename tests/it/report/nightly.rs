//! The daemon mails full passes, and nothing depends on the mail server (hazard 20).

use std::net::TcpListener;
use std::time::Duration;

use mail_parser::MessageParser;

use super::{clean, keep, noted, settings};
use crate::support::{Rig, Signal, Smtp, SmtpRules, Tls, eventually};

const SOON: Duration = Duration::from_mins(1);

fn subjects(smtp: &Smtp) -> Vec<String> {
    let subject = |data: &[u8]| MessageParser::default().parse(data).unwrap().subject().unwrap().to_owned();
    smtp.received().iter().map(|mail| subject(&mail.data)).collect()
}

fn on_port(port: u16) -> SmtpRules {
    SmtpRules { port, ..SmtpRules::default() }
}

/// A port on which nobody listens for now.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_server_that_is_down_hinders_nothing_and_gets_the_newest_report_later() {
    let rig = Rig::start("").await;
    let port = closed_port();
    let settings = settings(&rig, port, Tls::None, None);
    rig.configure(&format!("{settings}sync.cron = \"0 0 1 1 *\"\nreconcile.full_cron = \"0 0 1 1 *\""));
    rig.migrate().await;
    keep(&rig, "a", "full", "2026-01-01 03:30:00", &clean(1)).await;
    let served = rig.serve(&[]).await;
    let log = served.wait_for_log("was not mailed", SOON).await;
    assert!(log.contains(&format!("mail server localhost:{port}: ")), "{log}");
    assert!(log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");
    // Everything else works meanwhile, and the next night has its pass.
    assert_eq!(served.admin.get("/readyz").await.status, 200);
    assert_eq!(served.api().put("/v1/like/1/7/users/42").await.status, 200);
    rig.tallyd(&["sync"]).await.expect_code(0);
    keep(&rig, "b", "full", "2026-01-02 03:30:00", &clean(2)).await;
    keep(&rig, "c", "sample", "2026-01-02 04:17:00", &clean(3)).await;
    assert_eq!(noted(&rig).await, [""; 0]);

    let smtp = Smtp::start(on_port(port)).await;
    eventually(SOON, async || noted(&rig).await == ["b"], "the newest full pass is noted as mailed").await;
    assert_eq!(subjects(&smtp), ["[tallyd] clean: 2 targets"], "an older pass is history, a sample is not mailed");
    keep(&rig, "d", "full", "2026-01-03 03:30:00", &clean(4)).await;
    eventually(SOON, async || noted(&rig).await == ["b", "d"], "the next one, too").await;
    assert_eq!(subjects(&smtp).len(), 2);
    let metrics = served.admin.get("/metrics").await.expect(200).body;
    assert!(metrics.contains("tallyd_report_mails_total{result=\"sent\"} 2"), "{metrics}");
    assert!(!metrics.contains("tallyd_report_mails_total{result=\"failed\"} 0"), "{metrics}");
    served.signal(Signal::TERM);
    assert!(served.daemon.wait(SOON).await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_stops_at_once_while_a_mail_server_says_nothing() {
    let smtp = Smtp::start(SmtpRules { mute: true, ..SmtpRules::default() }).await;
    let rig = Rig::start("").await;
    rig.configure(&settings(&rig, smtp.port(), Tls::None, None));
    rig.migrate().await;
    keep(&rig, "a", "full", "2026-01-01 03:30:00", &clean(1)).await;
    let served = rig.serve(&["--no-api"]).await;
    let turn = "SELECT IS_USED_LOCK(CONCAT('tallyd mail ', LEFT(DATABASE(), 40)))";
    let sending = async || rig.sql(turn).await[0][0].is_some();
    eventually(SOON, sending, "it mails").await;
    served.signal(Signal::TERM);
    assert!(served.daemon.wait(Duration::from_secs(15)).await.success());
    assert_eq!(noted(&rig).await, [""; 0]);
}

/// The server is slower than MySQL lets a silent connection live.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_daemons_one_mails() {
    let smtp = Smtp::start(SmtpRules { slow: Duration::from_secs(25), ..SmtpRules::default() }).await;
    let rig = Rig::start("").await;
    rig.configure(&settings(&rig, smtp.port(), Tls::None, None));
    let (_one, _other) = (rig.serve(&["--no-api"]).await, rig.serve(&["--no-api"]).await);
    keep(&rig, "a", "full", "2026-01-01 03:30:00", &clean(1)).await;
    eventually(SOON, async || noted(&rig).await == ["a"], "it is mailed").await;
    let begun = smtp.heard().iter().filter(|line| *line == "DATA").count();
    assert_eq!((subjects(&smtp).len(), begun), (1, 1));
}
