//! The Lua scripts, compiled in. Each file says its contract.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, RedisResult, Script, ScriptInvocation, ServerErrorKind};

/// Calls at most when Redis forgets the script each time.
const CALLS: usize = 5;

macro_rules! fenced {
    ($name:ident, $file:literal) => {
        pub(super) static $name: LazyLock<Script> =
            LazyLock::new(|| Script::new(concat!(include_str!("lua/fence.lua"), include_str!($file))));
    };
}

pub(super) static CHECK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/check.lua")));
pub(super) static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/write.lua")));

pub(super) static VIEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/view.lua")));
pub(super) static LOAD_BEGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/load_begin.lua")));
pub(super) static LOAD_RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/load_release.lua")));
pub(super) static LOAD_PAGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/load_guard.lua"), include_str!("lua/load_page.lua"))));
pub(super) static LOAD_USERS: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/load_guard.lua"), include_str!("lua/load_users.lua"))));
pub(super) static LOAD_END: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(include_str!("lua/load_guard.lua"), include_str!("lua/load_end.lua"))));

pub(super) static UNLOAD_BEGIN: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/unload_begin.lua")));
pub(super) static UNLOAD_END: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/unload_end.lua")));

/// As text: a script inside MULTI is sent whole, for EVALSHA there does not reload itself.
pub(super) const STEP: &str = concat!(include_str!("lua/fence.lua"), include_str!("lua/step.lua"));

/// For a dry run, which holds nothing: verify.lua alone changes nothing when it is told `dry`.
pub(super) static VERIFY_DRY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/verify.lua")));

fenced!(CLAIM, "lua/claim.lua");
fenced!(ENLIST, "lua/enlist.lua");
fenced!(ACK, "lua/ack.lua");
fenced!(DISCARD, "lua/discard.lua");
fenced!(DISOWN, "lua/disown.lua");
fenced!(VERIFY, "lua/verify.lua");
fenced!(CORRECT, "lua/correct.lua");
fenced!(FINISH, "lua/finish.lua");
fenced!(REPAIR, "lua/repair.lua");
fenced!(RECOUNT_BEGIN, "lua/recount_begin.lua");
fenced!(RECOUNT_END, "lua/recount_end.lua");

/// A script after the beginning of a restore.
macro_rules! restoring {
    ($name:ident, $($file:literal),+) => {
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
            Script::new(concat!(include_str!("lua/restore_guard.lua"), $(include_str!($file)),+))
        });
    };
}

pub(super) static RESTORE_BEGIN: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("lua/restore_begin.lua")));
restoring!(RESTORE_MARKS, "lua/mark_time.lua", "lua/restore_marks.lua");
restoring!(RESTORE_STATES, "lua/mark_time.lua", "lua/restore_drop.lua", "lua/restore_states.lua");
restoring!(RESTORE_PAGE, "lua/mark_time.lua", "lua/restore_drop.lua", "lua/restore_page.lua");
restoring!(RESTORE_COUNTS, "lua/mark_time.lua", "lua/restore_counts.lua");
restoring!(RESTORE_LOCKS, "lua/restore_locks.lua");
restoring!(RESTORE_END, "lua/restore_end.lua");

pub(super) static REPLAY: LazyLock<Script> = LazyLock::new(|| {
    let parts = [include_str!("lua/fence.lua"), include_str!("lua/mark_time.lua"), include_str!("lua/replay.lua")];
    Script::new(&parts.concat())
});

/// Calls a script, loading it when Redis does not have it. The library does that once; it may be forgotten again between
/// the loading and the call (SCRIPT FLUSH, a failover). A script that is not there has not run, so that it may be
/// called again.
pub(super) async fn invoke<T: FromRedisValue>(
    invocation: &ScriptInvocation<'_>,
    connection: &mut MultiplexedConnection,
) -> RedisResult<T> {
    let mut calls = 1;
    loop {
        match invocation.invoke_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) && calls < CALLS => calls += 1,
            outcome => return outcome,
        }
    }
}
