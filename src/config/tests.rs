//! The configuration as a whole; each part has tests of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::raw::Raw;
use super::*;
use crate::model::{Kind, Scan};

const SHIPPED: &str = include_str!("../../config.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    parse_with(text, &[])
}

fn parse_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::parse(text, variables, Path::new("test.toml"))
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn the_shipped_file_says_what_the_defaults_are() {
    let shipped = parse(SHIPPED).unwrap();
    let defaults = parse("").unwrap();
    assert_eq!(format!("{shipped:#?}"), format!("{defaults:#?}"));
}

#[test]
fn the_shipped_file_documents_every_key() {
    let entries = "[[target]]\nname = \"a\"\ncode = 1\n[[interaction]]\nname = \"a\"\ncode = 1\n";
    let (raw, _) = layers::read(entries, &[], Path::new("")).unwrap();
    let raw: Raw = raw;
    let Value::Object(sections) = serde_json::to_value(&raw).unwrap() else { panic!("not a table") };
    let mut wanted = BTreeSet::new();
    for (section, keys) in &sections {
        let table = keys.as_array().map_or(keys, |list| list.first().unwrap_or(&Value::Null));
        for (key, value) in table.as_object().unwrap() {
            match value {
                Value::Object(inner) => wanted.extend(inner.keys().map(|inner| format!("{section}.{key}.{inner}"))),
                _ => _ = wanted.insert(format!("{section}.{key}")),
            }
        }
    }
    let mut documented = BTreeSet::new();
    let mut section = "";
    for line in SHIPPED.lines() {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']);
        }
        let key = line.strip_prefix("# ").unwrap_or(line).split_once(" = ").map(|(key, _)| key);
        if let Some(key) = key.filter(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')) {
            documented.insert(format!("{section}.{key}"));
        }
    }
    assert_eq!(documented, wanted);
}

#[test]
fn the_defaults_are_those_of_the_interface() {
    let Config {
        file,
        redis,
        mysql,
        api,
        admin,
        serve,
        sync,
        cache,
        degraded,
        reconcile,
        schedule,
        report,
        log,
        vocabulary,
        written: _,
    } = parse("").unwrap();
    assert_eq!(file, Path::new("test.toml"));
    assert_eq!((redis.url_redacted.as_str(), redis.shards), ("redis://127.0.0.1:6379/0", 1));
    assert_eq!(redis.timeout, Duration::from_millis(300));
    assert_eq!((mysql.user.as_str(), mysql.address().as_str()), ("tallyd", "127.0.0.1:3306/tallyd"));
    assert_eq!(
        (mysql.max_connections, mysql.timeout, mysql.ssl_mode),
        (8, Duration::from_secs(10), SslMode::Preferred)
    );
    assert_eq!((api.listen.to_string().as_str(), api.tokens.len()), ("127.0.0.1:7780", 0));
    assert_eq!((admin.listen.to_string().as_str(), admin.tokens.len()), ("127.0.0.1:7781", 0));
    assert_eq!(serve.grace, Duration::from_secs(20));
    assert_eq!(sync.cron.to_string(), "0 */5 * * * *");
    assert_eq!((sync.early_flush_changes, sync.batch_rows, sync.verify_limit), (100_000, 1000, 10_000));
    assert_eq!((cache.full_load_limit, cache.idle, cache.warm_top), (5000, Duration::from_hours(168), 1000));
    assert_eq!((degraded.max_qps, degraded.probe), (1000, Duration::from_secs(5)));
    assert_eq!(reconcile.sample_cron.to_string(), "0 17 * * * *");
    assert_eq!(reconcile.full_cron.to_string(), "0 30 3 * * *");
    assert_eq!((reconcile.sample_percent, reconcile.stop_percent, reconcile.keep_days), (1.0, 5.0, 90));
    assert_eq!(schedule.timezone, chrono_tz::UTC);
    assert!(report.mail.is_none());
    assert_eq!((log.format, log.level.as_str()), (LogFormat::Text, "info"));
    let targets: Vec<_> = vocabulary.targets.iter().map(|target| (target.name.as_str(), target.code)).collect();
    assert_eq!(targets, [("note", 1), ("video", 2), ("comment", 3), ("user", 4)]);
    let names: Vec<_> = vocabulary.interactions.iter().map(|kind| (kind.name.as_str(), kind.code)).collect();
    assert_eq!(names, [("like", 1), ("collect", 2), ("follow", 3), ("view", 4)]);
    assert_eq!(vocabulary.interactions[3].kind, Kind::Counter { window: Duration::from_mins(5) });
    assert!(vocabulary.interactions[..3].iter().all(|kind| kind.has_states() && kind.scan == Scan::Changed));
}

#[test]
fn a_variable_overrides_the_file() {
    let variables = [
        ("TALLYD__SYNC__BATCH_ROWS", "7"),
        ("TALLYD__RECONCILE__STOP_PERCENT", "2.5"),
        ("TALLYD__REDIS__URL", "redis://other:7000/2"),
        ("TALLYD__REPORT__SMTP__PORT", "465"),
        ("TALLYD_CONFIG", "ignored"),
        ("PATH", "ignored"),
    ];
    let config = parse_with("[sync]\nbatch_rows = 5\nverify_limit = 6", &variables).unwrap();
    assert_eq!((config.sync.batch_rows, config.sync.verify_limit), (7, 6));
    assert_eq!(config.redis.url_redacted, "redis://other:7000/2");
    assert!((config.reconcile.stop_percent - 2.5).abs() < f64::EPSILON);

    let refuse = |name, value| parse_with("", &[(name, value)]).unwrap_err().to_string();
    assert!(refuse("TALLYD__SYNC__BATCHROWS", "7").contains("unknown field `batchrows`"));
    assert!(refuse("TALLYD__SINK__ROWS", "7").contains("unknown field `sink`"));
    assert!(refuse("TALLYD__SYNC__BATCH_ROWS", "many").contains("sync.batch_rows: this text is not a whole number"));
    assert!(refuse("TALLYD__SYNC__CRON__X", "1").contains("sync.cron"));
    assert!(refuse("TALLYD__REPORT__SMTP", "x").contains("report.smtp"));
    assert!(
        refuse("TALLYD__SYNC__BATCH_ROWS", "0").contains("test.toml (with TALLYD__SYNC__BATCH_ROWS): sync.batch_rows")
    );
    for list in ["TALLYD__REPORT__TO", "TALLYD__TARGET__0__NAME", "TALLYD__INTERACTION__X"] {
        assert!(refuse(list, "x").contains("cannot override the list"), "{}", refuse(list, "x"));
    }
    for odd in ["TALLYD__", "TALLYD__SYNC", "TALLYD__TARGET[0]__NAME", "TALLYD__SYNC____CRON"] {
        assert!(refuse(odd, "x").contains("names no setting"), "{}", refuse(odd, "x"));
    }
}

#[test]
fn the_file_is_taken_as_written() {
    assert!(
        refusal("[sync]\nbatchrows = 5").contains("test.toml: sync: unknown field `batchrows`"),
        "{}",
        refusal("[sync]\nbatchrows = 5")
    );
    assert!(refusal("[sink]").contains("unknown field `sink`"));
    assert!(refusal("[sync]\nbatch_rows = 1.5").contains("sync.batch_rows: invalid type: floating point"));
    assert!(refusal("[sync]\nbatch_rows = true").contains("sync.batch_rows: invalid type: boolean"));
    assert!(refusal("sync = 5").contains("sync: invalid type: integer `5`, expected a table"));
    assert_eq!(refusal("[[target]]\nname = \"a\""), "test.toml: target[0].code is missing");
    assert!(refusal("[[target]]\nname = \"a\"\ncode = 1\ncolour = 2").contains("target[0]: unknown field"));
    assert!(refusal("[sync]\n\nbatch_rows = = 1").contains("line 3"));
    assert!(refusal("[reconcile]\nstop_percent = nan").contains("not a finite number"));
    assert_eq!(parse("[reconcile]\nstop_percent = 5").unwrap().reconcile.keep_days, 90);
}

#[test]
fn each_refusal_names_the_setting() {
    let refused = [
        ("redis.timeout_ms", "[redis]\ntimeout_ms = 0"),
        ("mysql.max_connections", "[mysql]\nmax_connections = 0"),
        ("api.listen", "[api]\nlisten = \"0.0.0.0:7780\""),
        ("admin.listen", "[admin]\nlisten = \"[::]:7781\""),
        ("admin.listen", "[admin]\nlisten = \"127.0.0.1:7780\""),
        ("api.token_file", "[api]\ntoken_file = \"/nonexistent/tokens\""),
        ("serve.grace_seconds", "[serve]\ngrace_seconds = 0"),
        ("sync.cron", "[sync]\ncron = \"0 0 30 2 *\""),
        ("sync.batch_rows", "[sync]\nbatch_rows = 1000001"),
        ("cache.idle_seconds", "[cache]\nidle_seconds = 0"),
        ("degraded.max_qps", "[degraded]\nmax_qps = -1"),
        ("reconcile.sample_percent", "[reconcile]\nsample_percent = 0"),
        ("reconcile.full_cron", "[reconcile]\nfull_cron = \"nightly\""),
        ("schedule.timezone", "[schedule]\ntimezone = \"Europe/Berlim\""),
        ("log.format", "[log]\nformat = \"xml\""),
        ("log.level", "[log]\nlevel = \"inof\""),
        ("log.level", "[log]\nlevel = \"info,tallyd=loud\""),
        ("log.level", "[log]\nlevel = \"\""),
        ("report.smtp.host", "[report]\nto = [\"a@b.c\"]\nfrom = \"x@y.z\""),
        ("report.from", "[report]\nto = [\"a@b.c\"]\nsmtp.host = \"mail\""),
        ("report.to", "[report]\nfrom = \"a@b.c\"\nsmtp.host = \"mail\""),
        ("report.to[1]", "[report]\nto = [\"a@b.c\", \"nobody\"]"),
        ("report.smtp.tls", "[report.smtp]\ntls = \"ssl\""),
        ("report.smtp.password_file", "[report.smtp]\nusername = \"tally\""),
    ];
    for (field, text) in refused {
        let refusal = refusal(text);
        assert!(refusal.starts_with(&format!("test.toml: {field}: ")), "{field}: {refusal}");
    }
    for good in
        ["[log]\nlevel = \"WARN\"", "[log]\nlevel = \"info,tallyd::sync=debug\"", "[api]\nlisten = \"127.0.0.1:0\""]
    {
        parse(good).unwrap();
    }
}

#[test]
fn mail_is_configured_by_sender_recipient_and_host() {
    let text =
        "[report]\nfrom = \"tallyd <tallyd@example.com>\"\nto = [\"ops@example.com\"]\n[report.smtp]\nhost = \"mail\"";
    let mail = parse(text).unwrap().report.mail.unwrap();
    assert_eq!((mail.host.as_str(), mail.port, mail.tls), ("mail", 587, SmtpTls::Starttls));
    assert_eq!(
        (mail.from.as_str(), mail.to.as_slice()),
        ("tallyd <tallyd@example.com>", &["ops@example.com".to_owned()][..])
    );
    assert!(mail.login.is_none());
}

#[test]
fn no_secret_is_in_any_error_or_print() {
    let secret = "hunter2";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pw");
    std::fs::write(&file, secret).unwrap();
    let file = file.display();
    let refused = [
        format!("[redis]\nurl = \"redis://:{secret}@h\"\npassword_file = \"{file}\""),
        format!("[redis]\nurl = \"redis://:{secret}@h:port\""),
        format!("[redis]\nurl = \"redis://{secret}@h\""),
        format!("[redis]\nurl = \"redis://:{secret}@h/db\""),
        format!("[redis]\nurl = \"http://:{secret}@h\""),
        format!("[redis]\nurl = \":{secret}@h\""),
        format!("[redis]\nurl = \"unix:///s?pass={secret}&db=x\""),
        format!("[redis]\nurl = \"redis://:{secret}\\q@h\""),
        format!("[redis]\nurl = [\"redis://:{secret}@h\"]"),
        format!("redis = \"redis://:{secret}@h\""),
        format!("[redis]\npassword = \"{secret}\""),
        format!("[mysql]\nurl = \"mysql://u:{secret}@h\""),
        format!("[mysql]\nurl = \"mysql://u:{secret}@h/d?ssl_mode=REQUIRED\""),
        format!("[mysql]\nurl = \"mysql://u:1?{secret}@h/d\""),
        format!("[mysql]\nurl = \"mysql://u:{secret}@h/d\"\npassword_file = \"{file}\""),
        format!("[mysql]\nurl = \"mysql://u:{secret}@h/d\"\n[sync]\nbatch_rows = 0"),
        format!("[mysql]\nmax_connections = \"{secret}\""),
    ];
    for text in refused {
        let error = parse(&text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{text}\n{shown}");
    }
    let variables =
        [("TALLYD__REDIS__URL__X", secret), ("TALLYD__REDIS__TIMEOUT_MS", secret), ("TALLYD__REPORT__SMTP", secret)];
    for variable in variables {
        let error = parse_with("", &[variable]).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let text = format!(
        "[redis]\nurl = \"redis://me:{secret}@h\"\n[mysql]\npassword_file = \"{file}\"\n[api]\ntoken_file = \"{file}\""
    );
    let config = parse(&text).unwrap();
    assert_eq!(config.redis.password.as_ref().unwrap().expose(), secret);
    assert_eq!(config.mysql.password.as_ref().unwrap().expose(), secret);
    assert_eq!(config.api.tokens[0].expose(), secret);
    assert!(!format!("{config:?} {}", config.redis.url_redacted).contains("hunter2"));
}

#[test]
fn looks_where_it_says_and_names_what_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first.toml"), dir.path().join("second.toml"));
    let look = || first_of([first.clone(), second.clone()].into_iter());
    let error = look().unwrap_err().to_string();
    assert!(error.contains("first.toml") && error.contains("second.toml") && error.contains("--config"), "{error}");
    std::fs::write(&second, "").unwrap();
    assert_eq!(look().unwrap().0, second);
    std::fs::write(&first, "").unwrap();
    assert_eq!(look().unwrap().0, first);
    let error = load(Some(&dir.path().join("third.toml"))).unwrap_err().to_string();
    assert!(error.contains("third.toml"), "{error}");
}
