//! Passwords are never printed, whatever goes wrong and however much is logged (hazard 22); TLS is never silently
//! left out (hazard 24).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::likes::SOON;
use crate::support::{Output, PrivateMysql, PrivateRedis, Rig, Signal};

/// The same in a URL and out of it, and nowhere by chance.
const SENTINEL: &str = "Hunter2Sentinel";
const TRACE: [(&str, &str); 1] = [("RUST_LOG", "trace")];

fn configure(rig: &Rig, text: &str) {
    fs::write(rig.config(), format!("sync.cron = \"0 0 1 1 *\"\nmysql.timeout_ms = 2000\n{text}\n")).unwrap();
}

/// What every command prints with all the logging there is.
async fn everything(rig: &Rig) -> Vec<(String, Output)> {
    let mut outputs = Vec::new();
    for args in [&["sync", "--json"][..], &["sync", "--dry-run"], &["status"], &["check", "--json"], &["migrate"]] {
        outputs.push((args.join(" "), rig.tallyd_with(args, &TRACE).await));
    }
    let daemon = rig.spawn(&["serve", "--no-api"], &TRACE);
    let run = async || !daemon.is_running() || daemon.log().contains("tallyd::sync::run: ");
    crate::support::eventually(SOON, run, "the daemon has tried a run").await;
    daemon.signal(Signal::TERM);
    outputs.push(("serve".to_owned(), daemon.output(SOON).await));
    outputs
}

fn assert_secret(case: &str, outputs: &[(String, Output)]) {
    for (command, output) in outputs {
        for text in [&output.stdout, &output.stderr] {
            let line = text.to_lowercase().lines().position(|line| line.contains(&SENTINEL.to_lowercase()));
            assert!(line.is_none(), "{case}, {command}: {:?}", line.and_then(|at| text.lines().nth(at)));
        }
    }
}

fn assert_codes(case: &str, outputs: &[(String, Output)], codes: &[i32]) {
    for (command, Output { code, stdout, stderr }) in outputs {
        assert!(codes.contains(&code.unwrap()), "{case}, {command}: {code:?}\n{stdout}\n{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_appears_nowhere() {
    let Some(mysql) = PrivateMysql::start(&[]).await else { return };
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = mysql.create_database("likes").await;
    db.sql_exec(&format!(
        "CREATE USER tally@'%' IDENTIFIED BY '{SENTINEL}'; GRANT ALL ON likes.* TO tally@'%';
         CREATE USER other@'%' IDENTIFIED BY 'something else'; GRANT ALL ON likes.* TO other@'%'"
    ))
    .await;
    let mut connection = redis.connect().await;
    let login = |user: &'static str, password: &str| {
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg(user).arg("on").arg(format!(">{password}")).arg("~*").arg("+@all");
        command
    };
    login("tally", SENTINEL).query_async::<()>(&mut connection).await.unwrap();
    login("other", "something else").query_async::<()>(&mut connection).await.unwrap();
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;

    let file = rig.dir().join("secret");
    fs::write(&file, format!("{SENTINEL}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.display();
    let (my, re) = (mysql.server().port(), redis.server().port());

    // Right, in files and in URLs.
    configure(
        &rig,
        &format!(
            "mysql.url = \"mysql://tally@127.0.0.1:{my}/likes\"\nmysql.password_file = \"{file}\"\n\
             redis.url = \"redis://127.0.0.1:{re}/0\"\nredis.username = \"tally\"\nredis.password_file = \"{file}\""
        ),
    );
    let outputs = everything(&rig).await;
    assert_codes("in files", &outputs, &[0]);
    assert!(outputs.iter().any(|(_, output)| output.stderr.contains("DEBUG")), "everything is logged");
    assert_secret("in files", &outputs);
    let urls = |user: &str, my_host: &str, re_host: &str| {
        format!(
            "mysql.url = \"mysql://{user}:{SENTINEL}@{my_host}/likes\"\n\
             redis.url = \"redis://{user}:{SENTINEL}@{re_host}/0\""
        )
    };
    let (my_host, re_host) = (format!("127.0.0.1:{my}"), format!("127.0.0.1:{re}"));
    configure(&rig, &urls("tally", &my_host, &re_host));
    let outputs = everything(&rig).await;
    assert_codes("in URLs", &outputs, &[0]);
    assert_secret("in URLs", &outputs);

    // Wrong in one way or another.
    for (case, text) in [
        ("wrong password", urls("other", &my_host, &re_host)),
        ("wrong password for Redis alone", urls("tally", &my_host, &re_host).replace("redis://tally", "redis://other")),
        ("closed port", urls("tally", "127.0.0.1:9", "127.0.0.1:9")),
        ("unknown host", urls("tally", "tallyd.invalid", "tallyd.invalid")),
    ] {
        configure(&rig, &text);
        let outputs = everything(&rig).await;
        assert_codes(case, &outputs, &[0, 1]);
        assert_eq!(outputs[0].1.code, Some(1), "{case}");
        assert_secret(case, &outputs);
    }
    let good = urls("tally", &my_host, &re_host);
    for (case, text) in [
        ("unreadable URL", good.replace("mysql://tally:", "mysql://tally:/")),
        ("unreadable port", good.replace(&re_host, &format!("127.0.0.1:{SENTINEL}"))),
        ("unknown parameter", good.replace("/likes", &format!("/likes?ssl_mode={SENTINEL}"))),
        ("unknown key", format!("{good}\nmysql.passwort = \"{SENTINEL}\"")),
        ("not a string", format!("{good}\nmysql.password_file = [\"{SENTINEL}\"]")),
        ("not TOML", format!("{good}\nmysql.password_file = \"{SENTINEL}")),
    ] {
        configure(&rig, &text);
        let outputs = everything(&rig).await;
        assert_codes(case, &outputs, &[78]);
        assert_secret(case, &outputs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_asked_for_in_the_right_spelling_and_never_left_out() {
    let Some(mysql) = PrivateMysql::start(&["--skip-ssl"]).await else { return };
    let Some(redis) = PrivateRedis::start(&[]).await else { return };
    let db = mysql.create_database("likes").await;
    let rig = Rig::on(&redis, &db, "");
    rig.migrate().await;
    let with = |parameter: &str| format!("redis.url = {:?}\nmysql.url = \"{}?{parameter}\"", redis.url(), db.url);

    for spelling in ["ssl_mode", "sslmode", "sslMode"] {
        configure(&rig, &with(&format!("{spelling}=REQUIRED")));
        for args in [&["sync"][..], &["check"], &["serve", "--no-api"]] {
            let output = rig.tallyd(args).await.expect_code(78);
            assert!(output.stderr.contains(spelling) && output.stderr.contains("ssl-mode"), "{}", output.stderr);
        }
    }
    configure(&rig, &with("ssl-mode=ON"));
    let output = rig.tallyd(&["sync"]).await.expect_code(78);
    assert!(output.stderr.contains("REQUIRED"), "{}", output.stderr);

    for mode in ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"] {
        configure(&rig, &with(&format!("ssl-mode={mode}")));
        let output = rig.tallyd(&["sync", "--json"]).await.expect_code(1);
        assert_eq!(output.json()["outcome"], "failed");
        let error = output.json()["partitions"][0]["error"].as_str().unwrap().to_owned();
        assert!(error.contains("TLS") && error.contains(&mysql.server().port().to_string()), "{mode}: {error}");
    }
    for mode in ["DISABLED", "PREFERRED"] {
        configure(&rig, &with(&format!("ssl-mode={mode}")));
        rig.tallyd(&["sync"]).await.expect_code(0);
    }
}
