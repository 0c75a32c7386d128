//! Memory that decoding takes in all: each picture is bounded, but there may be as many at a time as there are threads.

use std::cell::RefCell;

use parking_lot::{Condvar, Mutex};

/// What the pictures that are being decoded may take together. One that needs more is decoded alone.
const BYTES: u64 = 1 << 30;
/// What takes less is not counted, and takes no lock: a thousand threads of it would be no more than one large picture
/// each.
const SMALL: u64 = 16 << 20;

/// Bytes that threads share.
struct Budget {
    bytes: u64,
    free: Mutex<u64>,
    returned: Condvar,
}

/// A part of a budget, until it is dropped.
struct Share {
    of: &'static Budget,
    bytes: u64,
}

static BUDGET: Budget = Budget::new(BYTES);

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held { keeps: false, share: None }) };
}

/// What a thread has of the budget.
struct Held {
    /// Until the sample is made, and not only until its picture is decoded.
    keeps: bool,
    share: Option<Share>,
}

impl Budget {
    const fn new(bytes: u64) -> Self {
        Self { bytes, free: Mutex::new(bytes), returned: Condvar::new() }
    }

    /// Waits until there is as much; of more than all, until there is all.
    fn take(&'static self, bytes: u64) -> Share {
        let bytes = bytes.min(self.bytes);
        let mut free = self.free.lock();
        self.returned.wait_while(&mut free, |free| *free < bytes);
        *free -= bytes;
        Share { of: self, bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.of.free.lock() += self.bytes;
        self.of.returned.notify_all();
    }
}

/// Ends what [`keep`] or [`decoding`] began.
pub(in crate::data) struct Release {
    was_kept: bool,
}

impl Drop for Release {
    fn drop(&mut self) {
        // the share is given back outside of the borrow
        let share = HELD.with_borrow_mut(|held| {
            held.keeps = self.was_kept;
            if held.keeps { None } else { held.share.take() }
        });
        drop(share);
    }
}

/// Has the thread keep what it takes for decoding until this is dropped: a picture needs its memory until it is
/// resized.
pub(in crate::data) fn keep() -> Release {
    Release { was_kept: HELD.with_borrow_mut(|held| std::mem::replace(&mut held.keeps, true)) }
}

/// Waits until there is memory for decoding something that takes so many bytes; it is there until this is dropped, or
/// longer if the thread [keeps](keep) it.
pub(super) fn decoding(bytes: u64) -> Release {
    // whoever holds some does not wait for more: two of them might wait for each other
    if bytes > SMALL && HELD.with_borrow(|held| held.share.is_none()) {
        let share = BUDGET.take(bytes);
        HELD.with_borrow_mut(|held| held.share = Some(share));
    }
    Release { was_kept: HELD.with_borrow(|held| held.keeps) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        static OF: Budget = Budget::new(100);
        let in_use = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let in_use = &in_use;
                scope.spawn(move || {
                    for round in 0..200 {
                        // the last one is more than there is
                        let share = OF.take(20 + 17 * thread);
                        let bytes = share.bytes;
                        let now = in_use.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(now <= 100, "{now} in round {round}");
                        std::thread::yield_now();
                        in_use.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(*OF.free.lock(), 100);
    }

    #[test]
    fn large_pictures_wait_and_small_ones_do_not() {
        // other tests decode small ones only
        let all = BUDGET.take(u64::MAX);
        let (done, ended) = channel();
        let waiting = std::thread::spawn(move || {
            drop(decoding(SMALL));
            done.send("small").expect("heard");
            let kept = keep();
            drop(decoding(SMALL + 1));
            // a mask beside the picture
            drop(decoding(BYTES));
            done.send("large").expect("heard");
            drop(kept);
        });
        assert_eq!(ended.recv(), Ok("small"));
        assert!(ended.recv_timeout(Duration::from_millis(50)).is_err(), "there is no memory for it");
        drop(all);
        assert_eq!(ended.recv(), Ok("large"));
        waiting.join().expect("no panic");
        assert_eq!(*BUDGET.free.lock(), BYTES);
    }
}
