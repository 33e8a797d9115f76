//! The surroundings of a test: servers, the binary, waiting.
//!
//! Without further settings every server is a private one of this test process and ends with it. With
//! `TALLYD_TEST_MYSQL_URL` or `TALLYD_TEST_REDIS_URL` the suite uses that server; tests that have to stop, restart or
//! configure a server are then skipped and say so.

#![allow(dead_code, unused_imports, reason = "a helper is complete before the last of its methods has a caller")]

mod browser;
mod connection;
mod daemon;
mod home;
mod http;
mod monitor;
mod mysql;
mod process;
mod proxy;
mod redis;
mod rig;
mod server;
mod skip;
mod smtp;
mod wait;

pub use browser::Browser;
pub use connection::Connection;
pub use daemon::{Daemon, Output};
pub use home::{new_home, sweep};
pub use http::{Http, Reply, Served};
pub use monitor::Command;
pub use mysql::{DatabaseAt, Db, PrivateMysql, create_database, sequence};
pub use process::{Process, bound, is_alive};
pub use proxy::Proxy;
pub use redis::{PrivateRedis, Redis, RedisAt};
pub use rig::{Rig, forget_own_settings};
pub use rustix::process::Signal;
pub use skip::failpoints;
pub use smtp::{Received, Smtp, SmtpRules, Tls};
pub use wait::eventually;
