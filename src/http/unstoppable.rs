//! Work that goes on when nobody waits for it any more.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::{BoxFuture, CatchUnwind};
use tokio::runtime::Handle;
use tracing::{Instrument, Span};

/// A panic, as it was thrown.
pub(super) type Panic = Box<dyn Any + Send>;

/// Answers what the work answers, or its panic. Dropped before that, it leaves the rest to a task of its own: unlike
/// work that has a task from the start, it costs nothing more as long as its caller stays.
pub(super) struct Unstoppable<T: Send + 'static> {
    /// `None` when it has ended.
    work: Option<BoxFuture<'static, Result<T, Panic>>>,
    span: Span,
}

impl<T: Send + 'static> Unstoppable<T> {
    /// To be begun in the current span, which the rest stays in.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        let work: CatchUnwind<AssertUnwindSafe<_>> = AssertUnwindSafe(work).catch_unwind();
        Self { work: Some(work.boxed()), span: Span::current() }
    }
}

impl<T: Send + 'static> Future for Unstoppable<T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let outcome = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(outcome)
    }
}

impl<T: Send + 'static> Drop for Unstoppable<T> {
    fn drop(&mut self) {
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            let rest = async move {
                if let Err(panic) = work.await {
                    tracing::error!(
                        error = words(&*panic),
                        "a request whose client is gone failed by a fault of this program"
                    );
                }
            };
            runtime.spawn(rest.instrument(self.span.clone()));
        }
    }
}

/// What a panic says.
pub(super) fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}
