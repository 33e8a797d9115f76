//! Requests for a run: answered with a run id at once, and with the run's report when it has ended.
//!
//! A request is met by the next run that starts, whatever starts it. Requests that come while one waits share it. A run
//! that is under way meets none: it may have read already what the request is about.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::report::RunReport;
use super::run::new_run_id;

type Answer = Option<Arc<RunReport>>;

/// What a request is answered with.
#[derive(Clone, Debug)]
pub struct Ticket {
    /// The id that the run will have.
    pub run_id: String,
    answer: watch::Receiver<Answer>,
}

impl Ticket {
    /// Waits until the run has ended; `None` when the driver stops before it starts.
    pub async fn report(mut self) -> Option<Arc<RunReport>> {
        self.answer.wait_for(Option::is_some).await.ok()?.clone()
    }
}

/// A request that a run has taken up.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) run_id: String,
    answer: watch::Sender<Answer>,
}

impl Request {
    pub(super) fn answer(self, report: Arc<RunReport>) {
        self.answer.send_replace(Some(report));
    }
}

/// At most one request that waits.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
enum Waiting {
    #[default]
    Nobody,
    Somebody(Request),
    /// No run will start any more.
    Closed,
}

impl Requests {
    /// Joins the request that waits, or makes one; `None` when no run will start any more.
    pub(super) fn ask(&self) -> Option<Ticket> {
        let mut waiting = self.lock();
        if let Waiting::Nobody = *waiting {
            *waiting = Waiting::Somebody(Request { run_id: new_run_id(), answer: watch::Sender::new(None) });
            self.arrived.notify_one();
        }
        let Waiting::Somebody(request) = &*waiting else { return None };
        Some(Ticket { run_id: request.run_id.clone(), answer: request.answer.subscribe() })
    }

    /// Waits until there may be one.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes the one that waits, for a run that has not read anything yet.
    pub(super) fn take(&self) -> Option<Request> {
        let mut waiting = self.lock();
        match std::mem::take(&mut *waiting) {
            Waiting::Somebody(request) => Some(request),
            Waiting::Nobody => None,
            Waiting::Closed => {
                *waiting = Waiting::Closed;
                None
            }
        }
    }

    /// Lets whoever waits know that his run will not come, and everybody who asks later.
    pub(super) fn close(&self) {
        *self.lock() = Waiting::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::super::report::Trigger;
    use super::*;

    #[tokio::test]
    async fn those_that_wait_share_a_run_and_one_under_way_is_not_it() {
        let requests = Requests::default();
        let (first, second) = (requests.ask().unwrap(), requests.ask().unwrap());
        assert_eq!(first.run_id, second.run_id);
        requests.arrived().await;
        let under_way = requests.take().unwrap();
        assert!(requests.take().is_none());

        let third = requests.ask().unwrap();
        assert_ne!(third.run_id, first.run_id);
        let report = RunReport::new(under_way.run_id.clone(), Trigger::Api, Utc::now(), Vec::new(), false);
        under_way.answer(Arc::new(report));
        for ticket in [first, second] {
            let run_id = ticket.run_id.clone();
            assert_eq!(ticket.report().await.unwrap().run_id, run_id);
        }
        requests.close();
        assert!(third.report().await.is_none(), "nobody will run it");
        assert!(requests.ask().is_none() && requests.take().is_none());
    }
}
