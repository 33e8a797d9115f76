//! The configuration: one TOML file, variables over it, secrets from files of their own.
//!
//! What is written (`raw`) and what the program works with ([`Config`]) are two things; everything between them is
//! checked here, once, so that no other module doubts a setting. The file `config.toml` documents every key.

mod changes;
mod error;
mod fields;
mod layers;
mod mysql;
mod number;
mod raw;
mod redis;
mod redis_url;
mod report;
mod secret;
mod sections;
mod server_url;
mod settings;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use changes::{Changes, Written};
pub use error::{ConfigError, Problem};
pub use mysql::{MysqlConfig, SslMode};
pub use redis::{RedisAddress, RedisConfig, RedisMode};
pub use report::{MailConfig, ReportConfig, SmtpTls};
pub use secret::Secret;
pub use sections::{
    AdminConfig, ApiConfig, CacheConfig, DegradedConfig, LogConfig, LogFormat, ReconcileConfig, ScheduleConfig,
    ServeConfig, SyncConfig,
};
pub use settings::{Settings, Tokens};

use crate::model::Vocabulary;
use secret::SecretFiles;

/// Where the file is looked for when none is named.
const PLACES: [&str; 2] = ["/etc/tallyd/config.toml", "./config.toml"];

/// Every setting, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it was read from.
    pub file: PathBuf,
    /// How to reach Redis.
    pub redis: RedisConfig,
    /// How to reach MySQL.
    pub mysql: MysqlConfig,
    /// The write and read API.
    pub api: ApiConfig,
    /// Health, metrics and administration.
    pub admin: AdminConfig,
    /// The daemon.
    pub serve: ServeConfig,
    /// Syncing.
    pub sync: SyncConfig,
    /// What Redis keeps.
    pub cache: CacheConfig,
    /// Writing while Redis is down.
    pub degraded: DegradedConfig,
    /// Reconciliation.
    pub reconcile: ReconcileConfig,
    /// What all schedules share.
    pub schedule: ScheduleConfig,
    /// Reports of reconciliation.
    pub report: ReportConfig,
    /// Logging.
    pub log: LogConfig,
    /// Interactions and target types.
    pub vocabulary: Vocabulary,
    /// Every key as it was written, for a reload to compare.
    pub written: Written,
}

/// Reads the configuration from `explicit`, else `$TALLYD_CONFIG`, else the first that exists of
/// `/etc/tallyd/config.toml` and `./config.toml`.
pub fn load(explicit: Option<&Path>) -> Result<Config, ConfigError> {
    let named = explicit.map(Path::to_owned);
    let named = named.or_else(|| env::var_os("TALLYD_CONFIG").filter(|file| !file.is_empty()).map(PathBuf::from));
    let (file, text) = match named {
        Some(file) => match fs::read_to_string(&file) {
            Ok(text) => (file, text),
            Err(error) => return Err(ConfigError::Read { file, error }),
        },
        None => first_of(PLACES.iter().map(PathBuf::from))?,
    };
    Config::parse(&text, unicode(env::vars_os())?, &file)
}

impl Config {
    /// Checks the TOML `text` of `file` and the variables over it; of these, `TALLYD__SECTION__KEY` override settings,
    /// and `CREDENTIALS_DIRECTORY` says where else secret files are. Reads the files that settings name.
    pub fn parse(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        file: &Path,
    ) -> Result<Self, ConfigError> {
        let variables: Vec<_> = variables.into_iter().collect();
        let (raw, overriding) = layers::read(text, &variables, file)?;
        let credentials = variables.iter().find(|(name, value)| name == "CREDENTIALS_DIRECTORY" && !value.is_empty());
        let files = SecretFiles { credentials: credentials.map(|(_, directory)| PathBuf::from(directory)) };
        Self::resolve(&raw, &files, file).map_err(|problem| ConfigError::Setting {
            file: file.to_owned(),
            variables: overriding,
            problem,
        })
    }

    fn resolve(raw: &raw::Raw, files: &SecretFiles, file: &Path) -> Result<Self, Problem> {
        let schedule = ScheduleConfig::resolve(&raw.schedule)?;
        let config = Self {
            file: file.to_owned(),
            redis: RedisConfig::resolve(&raw.redis, files)?,
            mysql: MysqlConfig::resolve(&raw.mysql, files)?,
            api: ApiConfig::resolve(&raw.api, files)?,
            admin: AdminConfig::resolve(&raw.admin, files)?,
            serve: ServeConfig::resolve(&raw.serve)?,
            sync: SyncConfig::resolve(&raw.sync, schedule.timezone)?,
            cache: CacheConfig::resolve(&raw.cache)?,
            degraded: DegradedConfig::resolve(&raw.degraded)?,
            reconcile: ReconcileConfig::resolve(&raw.reconcile, schedule.timezone)?,
            schedule,
            report: ReportConfig::resolve(&raw.report, files)?,
            log: LogConfig::resolve(&raw.log)?,
            vocabulary: vocabulary::resolve(&raw.target, &raw.interaction)?,
            written: Written::of(raw),
        };
        if config.api.listen == config.admin.listen && config.api.listen.port() != 0 {
            let what = format!("{} is api.listen too; give each a port of its own", config.admin.listen);
            return Err(Problem::new("admin.listen", what));
        }
        Ok(config)
    }
}

/// The first of the files that exists; one that exists and cannot be read is an error.
fn first_of(places: impl Iterator<Item = PathBuf>) -> Result<(PathBuf, String), ConfigError> {
    let mut looked = Vec::new();
    for file in places {
        match fs::read_to_string(&file) {
            Ok(text) => return Ok((file, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => looked.push(file),
            Err(error) => return Err(ConfigError::Read { file, error }),
        }
    }
    Err(ConfigError::NotFound { looked })
}

/// The variables as text. Those that are not are left out, except where one would override a setting.
fn unicode(variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>, ConfigError> {
    let mut texts = Vec::new();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => texts.push((name, value)),
            Err(_) if name.starts_with(layers::PREFIX) => {
                return Err(ConfigError::Environment { message: format!("{name} is not UTF-8") });
            }
            Err(_) => {}
        }
    }
    Ok(texts)
}
