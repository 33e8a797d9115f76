//! The user of MySQL: what he may not do that tallyd does, and what he may do beyond that.

use super::{Finding, Level, bad, ok};
use crate::sink::{Grant, Privileges, SinkError};

const NAME: &str = "mysql privileges";

/// What the daemon and all commands but `migrate` need.
const NEEDED: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];
/// What `migrate` needs besides.
const MIGRATING: [&str; 3] = ["CREATE", "ALTER", "INDEX"];

/// `current` tells whether the schema is.
pub(super) fn finding(privileges: &Privileges, database: &str, current: bool) -> Finding {
    let Privileges { account, missing, unknown, grants, roles } = privileges;
    let least = least(account, &spelling(grants, database), !current);
    if !missing.is_empty() {
        let detail = format!("{account} may not {}: what needs it fails", told(missing));
        return bad(NAME, Level::Fail, detail, "").by(least);
    }
    if let Some(unknown) = unknown {
        let detail = format!("what {account} may do could not be determined: {unknown}");
        return bad(NAME, Level::Warn, detail, format!("once that is mended, check again; the least is: {least}"));
    }
    if let Some(finding) = beyond(account, grants, database) {
        return finding;
    }
    let may_create = grants
        .iter()
        .filter(|grant| grant.is_global() || grant.is_on(database))
        .any(|grant| grant.privileges.iter().any(|privilege| privilege == "CREATE" || privilege == "ALL PRIVILEGES"));
    if !current && !may_create && !roles && !grants.is_empty() {
        let detail = format!("{account} may not CREATE tables, as `tallyd migrate` has to");
        return bad(NAME, Level::Warn, detail, "").by(least);
    }
    let done = format!("{account} may do all that tallyd does");
    if *roles {
        ok(NAME, format!("{done}; what its roles allow beyond that is not looked at")).by(least)
    } else {
        ok(NAME, done)
    }
}

/// What goes beyond the least, if anything does.
fn beyond(account: &str, grants: &[Grant], database: &str) -> Option<Finding> {
    let (mut words, mut statements) = (Vec::new(), Vec::new());
    for grant in grants {
        let more: Vec<_> = grant
            .privileges
            .iter()
            .map(String::as_str)
            .filter(|privilege| grant.is_global() || !(NEEDED.contains(privilege) || MIGRATING.contains(privilege)))
            .collect();
        if more.is_empty() || !(grant.is_global() || grant.is_on(database)) {
            continue;
        }
        words.push(format!("{} on {}", more.join(", "), grant.on));
        let privileges: Vec<_> = more.iter().filter(|&&privilege| privilege != "GRANT OPTION").copied().collect();
        if !privileges.is_empty() {
            statements.push(format!("REVOKE {} ON {} FROM {account}", privileges.join(", "), grant.on));
        }
        if more.contains(&"GRANT OPTION") {
            statements.push(format!("REVOKE GRANT OPTION ON {} FROM {account}", grant.on));
        }
    }
    if words.is_empty() {
        return None;
    }
    let detail = format!(
        "{account} has {}, more than tallyd needs: who gets hold of its password may do that, too",
        words.join(", and ")
    );
    let spelling = spelling(grants, database);
    let administers =
        grants.iter().any(|grant| grant.is_global() && grant.privileges.iter().any(|p| p == "GRANT OPTION"));
    if administers {
        // Others may depend on this one.
        let host = account.rsplit_once('@').map_or("'%'", |(_, host)| host);
        let own = format!("'tallyd'@{host}");
        let command = format!("CREATE USER {own} IDENTIFIED BY 'PASSWORD'; {}", least(&own, &spelling, true));
        let fix = "with a password of your own, and name this user in mysql.url and mysql.password_file";
        return Some(bad(NAME, Level::Warn, detail, fix).by(command));
    }
    statements.push(least(account, &spelling, false));
    Some(bad(NAME, Level::Warn, detail, "").by(statements.join("; ")))
}

/// The statement that grants the least that is needed.
fn least(account: &str, database: &str, migrating: bool) -> String {
    let privileges = if migrating { [&NEEDED[..], &MIGRATING].concat() } else { NEEDED.to_vec() };
    format!("GRANT {} ON {database} TO {account}", privileges.join(", "))
}

/// What to GRANT on: as it was written before, for the server knows `a_b` and `a\_b` as two; else so that it means this
/// database alone.
fn spelling(grants: &[Grant], database: &str) -> String {
    let written = grants.iter().find(|grant| grant.is_on(database)).map(|grant| grant.on.clone());
    written.unwrap_or_else(|| quoted(database))
}

fn quoted(database: &str) -> String {
    let name = database.replace('`', "``").replace('\\', "\\\\").replace('_', "\\_").replace('%', "\\%");
    format!("`{name}`.*")
}

/// `DELETE (sync_run, tallyd_meta)` …
fn told(missing: &[(&'static str, &'static str)]) -> String {
    let of = |wanted: &'static str| {
        missing.iter().filter(move |(privilege, _)| *privilege == wanted).map(|(_, table)| *table)
    };
    let words = NEEDED.into_iter().filter(|&privilege| of(privilege).next().is_some()).map(|privilege| {
        let tables: Vec<_> = of(privilege).collect();
        format!("{privilege} ({})", tables.join(", "))
    });
    words.collect::<Vec<_>>().join(", nor ")
}

/// The user may not even use the database: the server's words name the account.
pub(super) fn no_database(error: &SinkError, database: &str) -> Option<Finding> {
    let SinkError::Refused { number: 1044, message, .. } = error else { return None };
    let account = message.split_once("for user ")?.1.split_once(" to database")?.0;
    Some(bad(NAME, Level::Fail, error.to_string(), "").by(least(account, &quoted(database), true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(missing: &[(&'static str, &'static str)], grants: &[(&str, &str)], current: bool) -> Finding {
        let grant = |(privileges, on): &(&str, &str)| Grant {
            privileges: privileges.split(", ").map(str::to_owned).collect(),
            on: (*on).to_owned(),
        };
        let privileges = Privileges {
            account: "'tallyd'@'10.%'".to_owned(),
            missing: missing.to_vec(),
            unknown: None,
            grants: grants.iter().map(grant).collect(),
            roles: false,
        };
        finding(&privileges, "a_b", current)
    }

    #[test]
    fn the_least_is_granted_on_the_database_alone() {
        let found = found(&[("DELETE", "sync_run"), ("DELETE", "tallyd_meta")], &[], true);
        assert_eq!(found.level, Level::Fail);
        assert_eq!(found.fix.as_deref(), Some("GRANT SELECT, INSERT, UPDATE, DELETE ON `a\\_b`.* TO 'tallyd'@'10.%'"));
        assert_eq!(found.fix, found.command);
        assert!(found.detail.contains("DELETE (sync_run, tallyd_meta)"), "{}", found.detail);
    }

    #[test]
    fn what_goes_beyond_is_taken_back() {
        let needed = "SELECT, INSERT, UPDATE, DELETE";
        let command = |grants: &[(&str, &str)], current| found(&[], grants, current).command.unwrap_or_default();
        let least = format!("GRANT {needed} ON `a_b`.* TO 'tallyd'@'10.%'");
        assert_eq!(command(&[(needed, "`a_b`.*"), ("ALL PRIVILEGES", "`other`.*")], true), "");
        assert_eq!(command(&[("SELECT, CREATE", "`a_b`.*")], false), "");
        assert_eq!(
            command(&[("FILE, SUPER", "*.*"), ("ALL PRIVILEGES, GRANT OPTION", "`a_b`.*")], true),
            format!(
                "REVOKE FILE, SUPER ON *.* FROM 'tallyd'@'10.%'; REVOKE ALL PRIVILEGES ON `a_b`.* FROM 'tallyd'@'10.%'; \
                 REVOKE GRANT OPTION ON `a_b`.* FROM 'tallyd'@'10.%'; {least}"
            )
        );
        let own = command(&[("ALL PRIVILEGES, GRANT OPTION", "*.*")], true);
        assert!(own.starts_with("CREATE USER 'tallyd'@'10.%' IDENTIFIED BY 'PASSWORD'; GRANT "), "{own}");
        let create = found(&[], &[(needed, "`a_b`.*")], false);
        assert_eq!(
            (create.level, create.command.as_deref()),
            (Level::Warn, Some(least.replace("DELETE", "DELETE, CREATE, ALTER, INDEX").as_str()))
        );
    }
}
