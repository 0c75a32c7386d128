//! A thread that waits for the device on behalf of others.
//!
//! wgpu runs the callbacks of finished work only while someone polls. A future that waits for a readback, and whoever
//! wants to know when work was done, hands the submission to this thread and sleeps, or does something else.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::context::Poller;

/// Something that will be known when the device has come so far: whether it went well.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticket(Arc<Mutex<TicketState>>);

#[derive(Debug, Default)]
struct TicketState {
    outcome: Option<bool>,
    waker: Option<Waker>,
}

impl Ticket {
    /// Sets the outcome, once.
    pub(super) fn settle(&self, good: bool) {
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.outcome.get_or_insert(good);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The outcome, if it is known.
    pub(super) fn outcome(&self) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).outcome
    }
}

impl Future for Ticket {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.outcome {
            Some(good) => Poll::Ready(good),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Work for the thread: wait for the submission, then see the tickets settled.
type Job = (wgpu::SubmissionIndex, Vec<Ticket>);

/// The thread's end that others hold; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Waiter(Mutex<Option<Sender<Job>>>);

impl Waiter {
    /// No thread yet: it starts with the first job.
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Sees to it that `tickets` are settled once `submission` is done, whoever else polls or does not.
    pub(super) fn watch(&self, poller: &Poller, submission: wgpu::SubmissionIndex, tickets: Vec<Ticket>) {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.get_or_insert_with(|| start(poller.clone()));
        if let Err(unsent) = sender.send((submission, tickets)) {
            // The thread is gone, which takes a panic in a callback.
            unsent.0.1.iter().for_each(|ticket| ticket.settle(false));
        }
    }
}

fn start(poller: Poller) -> Sender<Job> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("brasa-gpu-wait".into());
    // Without a thread the receiver is dropped here, and `watch` settles its tickets as failed.
    drop(thread.spawn(move || serve(&poller, &receiver)));
    sender
}

fn serve(poller: &Poller, jobs: &Receiver<Job>) {
    while let Ok((submission, tickets)) = jobs.recv() {
        // a panic in an application's callback has been told, and has cost the device: these tickets fail, and later
        // ones
        drop(catch_unwind(AssertUnwindSafe(|| poller.wait(Some(submission)))));
        poller.see_settled(&tickets);
    }
}

impl Poller {
    /// Returns when these are settled, whose submission was waited for: another thread's poll may have taken their
    /// callbacks and be about to run them. If the device is lost, they have failed.
    pub(super) fn see_settled(&self, tickets: &[Ticket]) {
        while tickets.iter().any(|ticket| ticket.outcome().is_none()) {
            if self.is_lost() {
                tickets.iter().for_each(|ticket| ticket.settle(false));
            } else {
                std::thread::sleep(Duration::from_micros(50));
                self.turn();
            }
        }
    }
}
