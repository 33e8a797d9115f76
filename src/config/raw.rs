//! The configuration as it is written: every key and its default, nothing checked yet.

use serde::{Deserialize, Serialize};

use super::number::{Number, Whole};

/// Gives a section its derives; its `Default` holds the defaults of its keys.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty = $default:expr),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Deserialize, Serialize)]
        #[serde(default, deny_unknown_fields, expecting = "a table")]
        pub(super) struct $name {
            $(pub(super) $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

section!(
    /// The whole file.
    Raw {
        redis: Redis = Redis::default(),
        mysql: Mysql = Mysql::default(),
        api: Api = Api::default(),
        admin: Admin = Admin::default(),
        serve: Serve = Serve::default(),
        sync: Sync = Sync::default(),
        cache: Cache = Cache::default(),
        degraded: Degraded = Degraded::default(),
        reconcile: Reconcile = Reconcile::default(),
        schedule: Schedule = Schedule::default(),
        report: Report = Report::default(),
        log: Log = Log::default(),
        target: Vec<Target> = default_targets(),
        interaction: Vec<Interaction> = default_interactions(),
    }
);

section!(Redis {
    url: String = "redis://127.0.0.1:6379/0".into(),
    mode: String = "standalone".into(),
    sentinel_master: Option<String> = None,
    username: Option<String> = None,
    password_file: Option<String> = None,
    ca_file: Option<String> = None,
    shards: Option<Whole> = None,
    timeout_ms: Whole = Whole(300),
});

section!(Mysql {
    url: String = "mysql://tallyd@127.0.0.1:3306/tallyd".into(),
    password_file: Option<String> = None,
    ca_file: Option<String> = None,
    max_connections: Whole = Whole(8),
    timeout_ms: Whole = Whole(10_000),
});

section!(Api {
    listen: String = "127.0.0.1:7780".into(),
    token_file: Option<String> = None,
});

section!(Admin {
    listen: String = "127.0.0.1:7781".into(),
    token_file: Option<String> = None,
});

section!(Serve { grace_seconds: Whole = Whole(20) });

section!(Sync {
    cron: String = "0 */5 * * * *".into(),
    early_flush_changes: Whole = Whole(100_000),
    batch_rows: Whole = Whole(1000),
    verify_limit: Whole = Whole(10_000),
});

section!(Cache {
    full_load_limit: Whole = Whole(5000),
    idle_seconds: Whole = Whole(604_800),
    warm_top: Whole = Whole(1000),
});

section!(Degraded { max_qps: Whole = Whole(1000), probe_seconds: Whole = Whole(5) });

section!(Reconcile {
    sample_cron: String = "0 17 * * * *".into(),
    sample_percent: Number = Number(1.0),
    full_cron: String = "0 30 3 * * *".into(),
    stop_percent: Number = Number(5.0),
    keep_days: Whole = Whole(90),
});

section!(Schedule { timezone: String = "UTC".into() });

section!(Report {
    from: Option<String> = None,
    to: Vec<String> = Vec::new(),
    smtp: Smtp = Smtp::default(),
});

section!(Smtp {
    host: Option<String> = None,
    port: Whole = Whole(587),
    tls: String = "starttls".into(),
    username: Option<String> = None,
    password_file: Option<String> = None,
});

section!(Log { format: String = "text".into(), level: String = "info".into() });

/// One `[[target]]`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) code: Whole,
}

/// One `[[interaction]]`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct Interaction {
    pub(super) name: String,
    pub(super) code: Whole,
    #[serde(default = "state")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) scan: Option<String>,
    #[serde(default)]
    pub(super) window_seconds: Option<Whole>,
}

fn state() -> String {
    "state".into()
}

fn default_targets() -> Vec<Target> {
    let target = |name: &str, code| Target { name: name.into(), code: Whole(code) };
    vec![target("note", 1), target("video", 2), target("comment", 3), target("user", 4)]
}

fn default_interactions() -> Vec<Interaction> {
    let interaction = |name: &str, code, kind: &str| Interaction {
        name: name.into(),
        code: Whole(code),
        kind: kind.into(),
        scan: None,
        window_seconds: None,
    };
    vec![
        interaction("like", 1, "state"),
        interaction("collect", 2, "state"),
        interaction("follow", 3, "state"),
        interaction("view", 4, "counter"),
    ]
}
