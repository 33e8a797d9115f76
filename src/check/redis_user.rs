//! The user of Redis: what he may not do that tallyd does, and who else may do everything.

use super::{Finding, Level, bad, is_loopback, ok};
use crate::config::RedisAddress;
use crate::store::{Permissions, least_rules};
use crate::sync::Context;

const NAME: &str = "redis user";

/// `version` is that of the server, if it says so.
pub(super) async fn finding(context: &Context, version: Option<(u32, u32)>) -> Finding {
    let config = &context.config.redis;
    let found = match context.store().await {
        Ok(store) => {
            let rules = least_rules(&store, config.db, version.unwrap_or((7, 0)));
            let open = config.password.is_none() && config.addresses.iter().any(is_remote);
            store.permissions().await.map(|permissions| {
                let user = config.username.as_deref().or(permissions.user.as_deref()).unwrap_or("default");
                judge(&permissions, user, &rules, open)
            })
        }
        Err(error) => Err(error),
    };
    found.unwrap_or_else(|error| {
        let fix = "check again once Redis answers";
        bad(NAME, Level::Warn, format!("{error}: what the user may do could not be determined"), fix)
    })
}

/// `open` tells whether he needs no password, on a server that others reach.
fn judge(permissions: &Permissions, user: &str, rules: &[String], open: bool) -> Finding {
    let Permissions { user: _, commands, keys, untried, administers } = permissions;
    if !commands.is_empty() || !keys.is_empty() {
        let mut refused = Vec::new();
        if !commands.is_empty() {
            refused.push(format!("run {}", commands.join(", ")));
        }
        if !keys.is_empty() {
            refused.push(format!("read and write the keys {}", keys.join(" ")));
        }
        let rest = if *untried { "; without these, the others could not be tried" } else { "" };
        let detail = format!("{user} may not {}: what needs it fails{rest}", refused.join(", nor "));
        return bad(NAME, Level::Fail, detail, KEEP).by(set_user(user, &[], rules));
    }
    let own = set_user("tallyd", &["on", ">PASSWORD"], rules);
    if open {
        let detail =
            format!("{user} needs no password: everybody who reaches this server may change and delete what it holds");
        let fix = format!(
            "with a password of your own, {KEEP}; name both in redis.username and redis.password_file; then close {user}"
        );
        return bad(NAME, Level::Warn, detail, fix).by(own);
    }
    if *administers {
        return ok(NAME, format!("{user} may do all that tallyd does, and more")).by(own);
    }
    ok(NAME, format!("{user} may do all that tallyd does"))
}

const KEEP: &str = "and ACL SAVE, or the same in redis.conf";

fn is_remote(address: &RedisAddress) -> bool {
    matches!(address, RedisAddress::Tcp { host, .. } if !is_loopback(host))
}

/// A command for a shell, which would take some characters of rules for its own.
fn set_user(user: &str, first: &[&str], rules: &[String]) -> String {
    let words = [user].into_iter().chain(first.iter().copied()).chain(rules.iter().map(String::as_str));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@+".contains(c);
    let quoted: Vec<_> = words
        .map(
            |word| if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) },
        )
        .collect();
    format!("redis-cli ACL SETUSER {}", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_take_for_its_own_is_quoted() {
        let rules = ["~like:*", "-@all", "+script|load"].map(str::to_owned);
        let command = set_user("o'b", &["on", ">PASSWORD"], &rules);
        assert_eq!(command, r"redis-cli ACL SETUSER 'o'\''b' on '>PASSWORD' '~like:*' -@all '+script|load'");
    }

    #[test]
    fn an_open_door_is_warned_of_and_an_administrator_told_the_least() {
        let found = |administers, open| {
            let permissions = Permissions { administers, ..Permissions::default() };
            judge(&permissions, "default", &["-@all".to_owned()], open)
        };
        let least = "redis-cli ACL SETUSER tallyd on '>PASSWORD' -@all";
        let open = found(true, true);
        assert_eq!((open.level, open.command.as_deref()), (Level::Warn, Some(least)));
        let closed = found(true, false);
        assert!(closed.fix.is_none() && closed.command.as_deref() == Some(least), "{closed:?}");
        assert_eq!(found(false, false), ok(NAME, "default may do all that tallyd does"));
    }
}
