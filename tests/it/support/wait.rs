//! Waiting for something that will become true, in place of sleeping and hoping.

use std::panic::Location;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(20);

/// What a probe may answer: `false` and `None` mean not yet.
pub trait Awaited {
    type Value;
    fn ready(self) -> Option<Self::Value>;
}

impl Awaited for bool {
    type Value = ();

    fn ready(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Awaited for Option<T> {
    type Value = T;

    fn ready(self) -> Option<T> {
        self
    }
}

/// Asks `probe` every 20 ms until it answers `true` or `Some`, and returns what is in the `Some`.
///
/// Panics with `what` after `limit`, also when the probe itself hangs.
#[track_caller]
pub fn eventually<A: Awaited>(
    limit: Duration,
    mut probe: impl AsyncFnMut() -> A,
    what: impl AsRef<str>,
) -> impl Future<Output = A::Value> {
    let caller = Location::caller();
    async move {
        let wait = async {
            loop {
                if let Some(value) = probe().await.ready() {
                    return value;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        let value = tokio::time::timeout(limit, wait).await;
        value.unwrap_or_else(|_| panic!("{caller}: not within {limit:?}: {}", what.as_ref()))
    }
}
