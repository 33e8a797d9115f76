//! `tallyd migrate`

use super::{Exit, output};
use crate::sync::Context;

pub(super) async fn run(context: &Context) -> anyhow::Result<Exit> {
    let mut session = context.sink.session();
    let applied = session.migrate().await?;
    session.close().await;
    for name in &applied {
        output::result(format_args!("applied: {name}"))?;
    }
    // A session of its own: how the tables are is asked when one connects.
    let mut session = context.sink.session();
    session.require_schema().await?;
    session.close().await;
    if applied.is_empty() {
        output::result("the schema is current")?;
    }
    Ok(Exit::Done)
}
