//! What the user may do.
//!
//! Each statement that tallyd sends is explained, not executed: the server asks for the same privileges then, whether they
//! come from a grant on everything, on a pattern of names, on a table, or by a role. What goes beyond is read from SHOW
//! GRANTS.

use sqlx::{AssertSqlSafe, Executor, Row};

use super::SinkError;
use super::session::{Conn, Session};

/// Each table, a column of it that a probe may name, and what is done with its rows: `S`ELECT, `I`NSERT, `U`PDATE,
/// `D`ELETE.
const TABLES: [(&str, &str, &str); 11] = [
    ("interaction_record", "status", "SIU"),
    ("interaction_count", "count", "SIU"),
    ("tallyd_meta", "value", "SIUD"),
    ("sync_partition", "checkpoint", "SIU"),
    ("sync_run", "report", "SID"),
    ("sync_rejected", "detail", "SIU"),
    ("degraded_write", "status", "SID"),
    ("unsettled_count", "shard", "SIUD"),
    ("reconcile_run", "report", "SIUD"),
    ("reconcile_drift", "outcome", "SID"),
    ("_sqlx_migrations", "version", "S"),
];

/// What the server says of the user's privileges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Privileges {
    /// The account, quoted as GRANT takes it.
    pub account: String,
    /// What is refused: the privilege, and the table.
    pub missing: Vec<(&'static str, &'static str)>,
    /// Why some could not be determined.
    pub unknown: Option<String>,
    /// What was granted to the account itself; empty where it cannot be told.
    pub grants: Vec<Grant>,
    /// Whether it has roles.
    pub roles: bool,
}

/// A line of SHOW GRANTS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// In capitals, without columns; `GRANT OPTION` among them.
    pub privileges: Vec<String>,
    /// On what, as the server writes it.
    pub on: String,
}

impl Grant {
    /// Whether it is on everything there is.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.on == "*.*"
    }

    /// Whether it is on the whole of this database, and on no other.
    #[must_use]
    pub fn is_on(&self, database: &str) -> bool {
        let name = self.on.strip_suffix(".*").unwrap_or_default().trim_matches(['`', '\'']);
        !self.is_global() && name.replace("``", "`").replace('\\', "") == database
    }
}

impl Session {
    /// Finds out what the user may do. It changes nothing.
    pub async fn privileges(&mut self) -> Result<Privileges, SinkError> {
        let account = self.text("/* tallyd check */ SELECT CURRENT_USER()").await?;
        let mut found = Privileges {
            account: account.into_iter().next().map(|name| account_of(&name)).unwrap_or_default(),
            missing: vec![],
            unknown: None,
            grants: vec![],
            roles: false,
        };
        for (table, column, verbs) in TABLES {
            for verb in verbs.chars() {
                let (privilege, statement) = match verb {
                    'S' => ("SELECT", format!("SELECT {column} FROM {table} WHERE 1 = 0")),
                    'I' => ("INSERT", format!("INSERT INTO {table} ({column}) VALUES (0)")),
                    'U' => ("UPDATE", format!("UPDATE {table} SET {column} = 0 WHERE 1 = 0")),
                    _ => ("DELETE", format!("DELETE FROM {table} WHERE 1 = 0")),
                };
                match self.explain(statement).await {
                    // A table that is not there is another matter, and so is a value that would not fit (1364: a column
                    // without a default): the server says so only to who has the privilege.
                    Ok(()) | Err(SinkError::Refused { number: 1146 | 1364, .. }) => {}
                    Err(SinkError::Refused { number: 1044 | 1142 | 1143 | 1227, .. }) => {
                        found.missing.push((privilege, table));
                    }
                    Err(error @ SinkError::Refused { .. }) => found.unknown = Some(error.to_string()),
                    Err(error) => return Err(error),
                }
            }
        }
        match self.text("/* tallyd check */ SHOW GRANTS").await {
            Ok(lines) => {
                found.roles = lines.iter().any(|line| is_role(line));
                found.grants = lines.iter().filter_map(|line| grant(line)).collect();
            }
            // As with --skip-grant-tables.
            Err(SinkError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(found)
    }

    async fn explain(&mut self, statement: String) -> Result<(), SinkError> {
        self.with(move |conn: &mut Conn| {
            Box::pin(async move {
                let failed = conn.failed();
                // The text protocol: not every server prepares an EXPLAIN.
                let explain = format!("/* tallyd check */ EXPLAIN {statement}");
                conn.mysql.execute(sqlx::raw_sql(AssertSqlSafe(explain))).await.map(|_| ()).map_err(failed)
            })
        })
        .await
    }

    /// The first column of every row.
    async fn text(&mut self, select: &'static str) -> Result<Vec<String>, SinkError> {
        self.with(move |conn: &mut Conn| {
            Box::pin(async move {
                let failed = conn.failed();
                let rows = conn.mysql.fetch_all(sqlx::raw_sql(select)).await.map_err(&failed)?;
                let text = |row: &sqlx::mysql::MySqlRow| row.try_get_unchecked::<String, _>(0);
                rows.iter().map(text).collect::<Result<_, _>>().map_err(failed)
            })
        })
        .await
    }
}

/// `tallyd@10.%` → `'tallyd'@'10.%'`
fn account_of(name: &str) -> String {
    let (user, host) = name.rsplit_once('@').unwrap_or((name, "%"));
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    format!("{}@{}", quoted(user), quoted(host))
}

/// Splits at the first `word` that is in no quotes and no brackets.
fn split<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '`' | '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, _) if depth == 0 && text[at..].starts_with(word) => {
                return Some((&text[..at], &text[at + word.len()..]));
            }
            _ => {}
        }
    }
    None
}

/// ``GRANT `writers`@`%` TO `tallyd`@`%` ``
fn is_role(line: &str) -> bool {
    line.strip_prefix("GRANT ").is_some_and(|rest| split(rest, " ON ").is_none())
}

/// A grant to the account itself: what MariaDB tells of a role has a grantee without a host.
fn grant(line: &str) -> Option<Grant> {
    let (privileges, rest) = split(line.strip_prefix("GRANT ")?, " ON ")?;
    let (on, grantee) = split(rest, " TO ")?;
    if !grantee.contains("`@`") && !grantee.contains("'@'") {
        return None;
    }
    let mut list = Vec::new();
    let mut rest = privileges;
    loop {
        let (one, after) = split(rest, ",").unwrap_or((rest, ""));
        let name = one.split('(').next().unwrap_or_default().trim().to_uppercase();
        list.extend((name != "USAGE" && name != "PROXY").then_some(name));
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    list.extend(grantee.ends_with(" WITH GRANT OPTION").then(|| "GRANT OPTION".to_owned()));
    Some(Grant { privileges: list, on: on.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<(String, String)> {
        grant(line).map(|grant| (grant.privileges.join(", "), grant.on))
    }

    #[test]
    fn grants_are_read_as_servers_write_them() {
        let some = |privileges: &str, on: &str| Some((privileges.to_owned(), on.to_owned()));
        for (line, found) in [
            (
                "GRANT USAGE ON *.* TO `tallyd`@`%` IDENTIFIED BY PASSWORD '*23AE809DDACAF96AF0FD78ED04B6A265E05AA257'",
                some("", "*.*"),
            ),
            (
                "GRANT ALL PRIVILEGES ON *.* TO 'root'@'localhost' WITH GRANT OPTION",
                some("ALL PRIVILEGES, GRANT OPTION", "*.*"),
            ),
            ("GRANT SELECT, INSERT ON `tall\\_yd`.* TO `a`@`%`", some("SELECT, INSERT", "`tall\\_yd`.*")),
            (
                "GRANT SELECT (`a ON b`, c), UPDATE (c) ON `t`.`sync_run` TO `a`@`%`",
                some("SELECT, UPDATE", "`t`.`sync_run`"),
            ),
            ("GRANT PROXY ON ''@'%' TO 'root'@'localhost' WITH GRANT OPTION", some("GRANT OPTION", "''@'%'")),
            ("GRANT SELECT ON `t`.* TO `writers`", None),
            ("GRANT `writers`@`%` TO `tallyd`@`%`", None),
            ("REVOKE INSERT ON `mysql`.* FROM `tallyd`@`%`", None),
            ("SET DEFAULT ROLE `writers` FOR `tallyd`@`%`", None),
        ] {
            assert_eq!(read(line), found, "{line}");
        }
        assert!(is_role("GRANT `writers`@`%` TO `tallyd`@`%`") && !is_role("GRANT SELECT ON `t`.* TO `writers`"));
    }

    #[test]
    fn a_database_is_known_by_its_name_however_it_is_written() {
        let is_on = |on: &str, name| Grant { privileges: vec![], on: on.to_owned() }.is_on(name);
        assert!(is_on("`tall_yd`.*", "tall_yd") && is_on("`tall\\_yd`.*", "tall_yd") && is_on("`a``b`.*", "a`b"));
        for on in ["*.*", "`tall%`.*", "`other`.*", "`tall_yd`.`sync_run`"] {
            assert!(!is_on(on, "tall_yd"), "{on}");
        }
    }

    #[test]
    fn an_account_is_quoted() {
        assert_eq!(account_of("tallyd@10.%"), "'tallyd'@'10.%'");
        assert_eq!(account_of("o'b@x@localhost"), "'o''b@x'@'localhost'");
    }
}
