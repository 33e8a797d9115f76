//! `tallyd migrate`

use super::Exit;
use crate::sync::Context;

pub(super) async fn run(context: &Context) -> anyhow::Result<Exit> {
    let mut session = context.sink.session();
    let applied = session.migrate().await?;
    session.close().await;
    if applied.is_empty() {
        println!("the schema is current");
    }
    for name in applied {
        println!("applied: {name}");
    }
    Ok(Exit::Done)
}
