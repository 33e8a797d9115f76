//! What MySQL says.

use super::{Clock, Finding, Level, bad, last_run, mysql_server, ok, privileges};
use crate::sink::{PartitionRow, ServerFacts, Session, SinkError};
use crate::sync::Context;

/// What was found.
pub(super) struct Looked {
    pub(super) clock: Option<Clock>,
    /// `None` where they cannot be asked for.
    pub(super) partitions: Option<Vec<PartitionRow>>,
    pub(super) findings: Vec<Finding>,
}

pub(super) async fn look(context: &Context) -> Looked {
    let mut session = context.sink.session();
    let facts = match session.server_facts().await {
        Ok(facts) => facts,
        Err(error) => {
            let refused = privileges::no_database(&error, &context.config.mysql.database);
            let findings = vec![refused.unwrap_or_else(|| {
                let fix = "start MySQL, or correct mysql.url and mysql.password_file";
                bad("mysql connection", Level::Fail, error.to_string(), fix)
            })];
            return Looked { clock: None, partitions: None, findings };
        }
    };
    let clock = Some(Clock::says(facts.now_ms));
    let mut findings = mysql_server::findings(&facts, &context.config);
    let schema = session.require_schema().await;
    let work = match &schema {
        Ok(_) => {
            findings.extend(journal(&mut session, context).await);
            Some((session.last_runs(1).await, session.partitions().await))
        }
        Err(_) => None,
    };
    let privileges = session.privileges().await;
    session.close().await;
    findings.push(match &privileges {
        Ok(found) => privileges::finding(found, &context.config.mysql.database, schema.is_ok()),
        Err(error) => unreadable("mysql privileges", error),
    });
    findings.push(schema.map_or_else(|error| of_schema(&error), |_| ok("mysql schema", "current")));
    findings.extend(layout(&facts));
    let Some((runs, partitions)) = work else { return Looked { clock, partitions: None, findings } };
    findings.push(match runs {
        Ok(runs) => last_run::finding(runs.first().map(String::as_str), &context.vocabulary),
        Err(error) => unreadable("last run", &error),
    });
    findings.extend(partitions.as_ref().err().map(|error| unreadable("event times", error)));
    Looked { clock, partitions: partitions.ok(), findings }
}

/// Degraded writes that no run replays.
async fn journal(session: &mut Session, context: &Context) -> Option<Finding> {
    const NAME: &str = "degraded journal";
    let waits = match session.journal_waits(&context.vocabulary, context.config.redis.shards).await {
        Ok(waits) => waits,
        Err(error) => return Some(unreadable(NAME, &error)),
    };
    match session.journal_balance().await {
        Ok((0, _)) => Some(ok(NAME, "empty")),
        Ok((pending, _)) if waits => Some(ok(NAME, format!("{pending} writes wait to be replayed into Redis"))),
        Ok((pending, _)) => Some(bad(
            NAME,
            Level::Warn,
            format!(
                "{pending} writes concern interactions, target types or shards that are not configured: none is replayed"
            ),
            "configure them again, or DELETE these rows of degraded_write: MySQL has the records they are about",
        )),
        Err(error) => Some(unreadable(NAME, &error)),
    }
}

fn unreadable(name: &'static str, error: &SinkError) -> Finding {
    let fix = "give the user of mysql.url its privileges on the tables of tallyd, or mend what MySQL says";
    bad(name, Level::Warn, error.to_string(), fix)
}

fn of_schema(error: &SinkError) -> Finding {
    let name = "mysql schema";
    match error {
        SinkError::Schema { problem, fix } => bad(name, Level::Fail, problem.clone(), fix.clone()),
        error => bad(name, Level::Fail, error.to_string(), "mend what MySQL says, and check again"),
    }
}

fn layout(facts: &ServerFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.layout.is_some_and(|layout| !layout.by_target) {
        findings.push(bad(
            "mysql layout",
            Level::Warn,
            "interaction_record has the older layout: rows of a target cannot be found without a scan of the table, so \
             that counts are moved by what flips instead of counted",
            "",
        ).by("CREATE INDEX by_target ON interaction_record (target_type, target_id, interaction_type, status)"));
    }
    if let Some(digits) = facts.time_digits.filter(|&digits| digits < 3) {
        findings.push(bad(
            "mysql time precision",
            Level::Warn,
            format!("update_time keeps {digits} digits after the seconds: two writes within a second are not told apart"),
            "",
        ).by("ALTER TABLE interaction_record MODIFY create_time DATETIME(3) NOT NULL, MODIFY update_time DATETIME(3) NOT NULL"));
    }
    findings
}
