//! Threads that stay awake between the kernels of a short step.
//!
//! Waking a sleeping thread takes longer than many kernels of a small network. So threads of the pool that have helped
//! once wait for the next kernel without sleep, for as long as steps follow one another. Each begins with a run of
//! pieces of its own, the same part of every kernel, so that it finds in its caches what it wrote there, and nobody else
//! writes beside it. Nobody waits for one that comes late: who has done its own pieces takes those of others.
#![expect(unsafe_code, reason = "threads that outlive a kernel call its closure, which is borrowed")]

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::pool;

/// How long a member waits for the next kernel before it goes back to the pool: longer than what the host does between
/// two steps.
const PATIENCE: Duration = Duration::from_micros(200);
/// How long a member stays at most: others who use the pool get their turn.
const TURN: Duration = Duration::from_millis(100);
/// Looks at what is to be done between two looks at the clock.
const LOOKS: u32 = 32;
/// Runs of pieces at most; threads beyond begin with one of another thread's.
const MOST_RUNS: usize = 64;

/// The one team of the process, as its pool is one.
static TEAM: Team = Team::new();

/// Threads that work on one kernel after the other.
struct Team {
    /// Held by who leads it.
    led: Mutex<()>,
    /// From before there is a kernel to work on until nobody works on it any more.
    busy: AtomicBool,
    members: AtomicUsize,
    /// Odd while there is a kernel to work on; grows with each.
    number: Apart<AtomicUsize>,
    /// Written by the leader while `number` is even and nobody is `inside`.
    kernel: UnsafeCell<Kernel>,
    /// The pieces that are left.
    left: [Apart<Left>; MOST_RUNS],
    /// Which runs members begin with, a bit for each; the leader's is the first.
    places: AtomicU64,
    /// Members that may call the kernel's closure.
    inside: Apart<AtomicUsize>,
    /// A member's piece panicked.
    failed: AtomicBool,
    /// What the first one that did so panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `kernel` is all that is not `Sync`. A member reads it between joining `inside` and leaving it, if `number` is
// odd and what it was before; who has made the team `busy`, the leader or nobody, writes it after it has made `number`
// even and then found nobody `inside`. Both orders are sequentially consistent, so either the member finds another
// number or the leader finds the member.
unsafe impl Sync for Team {}

/// In a cache line of its own, and not in the one that is fetched with it.
#[repr(align(128))]
struct Apart<T>(T);

/// A run of pieces of which nobody has taken any yet: the first one and the one behind the last, of 32 bits each.
struct Left(AtomicU64);

impl Left {
    fn fill(&self, run: Range<usize>) {
        self.0.store((run.start as u64) << 32 | run.end as u64, Ordering::Relaxed);
    }

    /// Takes the first piece, or the last.
    fn take(&self, last: bool) -> Option<usize> {
        let [first, end] = [|run: u64| run >> 32, |run: u64| run & u64::from(u32::MAX)];
        let rest = |run| (first(run) < end(run)).then(|| if last { run - 1 } else { run + (1 << 32) });
        let run = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).ok()?;
        Some(if last { end(run) - 1 } else { first(run) } as usize)
    }
}

/// A member's place among the others, for as long as it follows.
struct Place(usize);

impl Place {
    /// The first one that nobody has.
    fn take() -> Self {
        let free = |taken: u64| (!taken).trailing_zeros();
        let add = |taken| Some(taken | 1u64.checked_shl(free(taken)).unwrap_or(0));
        match TEAM.places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(taken) | Err(taken) => Self(free(taken) as usize),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        TEAM.places.fetch_and(!1u64.checked_shl(self.0 as u32).unwrap_or(0), Ordering::Relaxed);
    }
}

/// What is to be done.
#[derive(Clone, Copy)]
struct Kernel {
    runs: usize,
    /// Calls `closure` for a piece.
    call: unsafe fn(*const (), usize),
    closure: *const (),
}

/// # Safety
/// `closure` is a living `F`.
unsafe fn call<F: Fn(usize) + Sync>(closure: *const (), piece: usize) {
    // SAFETY: the caller's.
    unsafe { (*closure.cast::<F>())(piece) }
}

/// The right to give the team work.
pub(super) struct Lead {
    others: usize,
    _led: MutexGuard<'static, ()>,
}

/// Leads a team of the current thread and up to `others` of its pool; `None` while somebody else does.
pub(super) fn lead(others: usize) -> Option<Lead> {
    let led = match TEAM.led.try_lock() {
        Ok(led) => led,
        Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        Err(TryLockError::WouldBlock) => return None,
    };
    Some(Lead { others, _led: led })
}

impl Lead {
    /// Its threads, the leader's among them.
    pub(super) fn len(&self) -> usize {
        self.others + 1
    }

    /// Calls `f` for each of so many pieces, on whichever threads of the team have come: each begins with a run of its
    /// own. A piece's own pieces stay on its thread.
    ///
    /// # Panics
    /// If a piece does.
    pub(super) fn for_each<F: Fn(usize) + Sync>(&self, pieces: usize, f: &F) {
        self.for_each_of(self.len().min(pieces).min(MOST_RUNS), pieces, f);
    }

    /// The same in order: whoever is free takes the next one.
    pub(super) fn for_each_in_order<F: Fn(usize) + Sync>(&self, pieces: usize, f: &F) {
        self.for_each_of(1, pieces, f);
    }

    fn for_each_of<F: Fn(usize) + Sync>(&self, runs: usize, pieces: usize, f: &F) {
        if pieces > u32::MAX as usize || TEAM.busy.swap(true, Ordering::Acquire) {
            return (0..pieces).for_each(f);
        }
        let _busy = Busy;
        let number = TEAM.number.0.load(Ordering::Relaxed);
        for _ in TEAM.members.load(Ordering::Relaxed)..self.others {
            pool::spawn(|| TEAM.follow());
            TEAM.members.fetch_add(1, Ordering::Relaxed);
        }
        let before = |run: usize| (pieces as u64 * run as u64 / runs as u64) as usize;
        for (run, left) in TEAM.left[..runs].iter().enumerate() {
            left.0.fill(before(run)..before(run + 1));
        }
        let kernel = Kernel { runs, call: call::<F>, closure: std::ptr::from_ref(f).cast() };
        TEAM.failed.store(false, Ordering::Relaxed);
        // SAFETY: see `Sync`: this is the leader, the number is even, and since it became so nobody has been inside.
        unsafe { *TEAM.kernel.get() = kernel };
        TEAM.number.0.store(number + 1, Ordering::SeqCst);
        {
            let _open = Open;
            // SAFETY: `f` lives.
            unsafe { TEAM.take(kernel, 0) };
        }
        if TEAM.failed.load(Ordering::Relaxed) {
            let panic = TEAM.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
            resume_unwind(panic.expect("who failed left why"));
        }
    }
}

/// The team works on something, or is about to.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        TEAM.busy.store(false, Ordering::Release);
    }
}

/// There is work; when this is dropped nobody does it any more.
struct Open;

impl Drop for Open {
    fn drop(&mut self) {
        TEAM.number.0.fetch_add(1, Ordering::SeqCst);
        let mut looks = 0u32;
        while TEAM.inside.0.load(Ordering::SeqCst) > 0 {
            looks += 1;
            if looks.is_multiple_of(1 << 12) { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// A member that may call the closure.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        TEAM.inside.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Team {
    const fn new() -> Self {
        Self {
            led: Mutex::new(()),
            busy: AtomicBool::new(false),
            members: AtomicUsize::new(0),
            number: Apart(AtomicUsize::new(0)),
            kernel: UnsafeCell::new(Kernel { runs: 0, call: call::<fn(usize)>, closure: std::ptr::null() }),
            left: [const { Apart(Left(AtomicU64::new(0))) }; MOST_RUNS],
            places: AtomicU64::new(1),
            inside: Apart(AtomicUsize::new(0)),
            failed: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    /// Takes pieces until there are none: those of the run at `place` from the first one on, then the others' from the
    /// last one on.
    ///
    /// # Safety
    /// The kernel's closure lives until this returns.
    unsafe fn take(&self, Kernel { runs, call, closure }: Kernel, place: usize) {
        for number in 0..runs {
            let left = &self.left[(place + number) % runs].0;
            while let Some(piece) = left.take(number > 0) {
                // SAFETY: the caller's.
                unsafe { call(closure, piece) };
            }
        }
    }

    /// Works on kernels as they come, until none has come for a while.
    fn follow(&self) {
        let place = Place::take();
        let joined = Instant::now();
        let mut idle = joined;
        let (mut seen, mut looks) = (0, 0u32);
        loop {
            let number = self.number.0.load(Ordering::Acquire);
            if number % 2 == 1 && number != seen {
                seen = number;
                self.inside.0.fetch_add(1, Ordering::SeqCst);
                let inside = Inside;
                if self.number.0.load(Ordering::SeqCst) == number {
                    // SAFETY: see `Sync`; the leader waits for whoever is inside before its closure dies.
                    let result = catch_unwind(AssertUnwindSafe(|| unsafe { self.take(*self.kernel.get(), place.0) }));
                    if let Err(panic) = result
                        && !self.failed.swap(true, Ordering::Relaxed)
                    {
                        *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
                    }
                }
                drop(inside);
                idle = Instant::now();
                looks = LOOKS - 1;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) && (idle.elapsed() > PATIENCE || idle - joined > TURN) {
                break;
            }
            std::hint::spin_loop();
        }
        self.members.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Waits for whoever leads now: other tests run kernels, too.
    fn wait_to_lead(others: usize) -> Lead {
        loop {
            if let Some(lead) = lead(others) {
                return lead;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn each_piece_is_done_once_before_the_next_kernel() {
        let lead = wait_to_lead(3);
        for pieces in (0..500).map(|round| round % 37) {
            let done: Vec<AtomicU32> = (0..pieces).map(|_| AtomicU32::new(0)).collect();
            lead.for_each(pieces, &|piece| {
                done[piece].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_run_is_taken_from_both_ends() {
        let left = Left(AtomicU64::new(0));
        assert_eq!(left.take(false), None);
        left.fill(3..7);
        assert_eq!([false, true, true, false].map(|last| left.take(last)), [Some(3), Some(6), Some(5), Some(4)]);
        assert_eq!((left.take(false), left.take(true)), (None, None));
        left.fill(0..u32::MAX as usize);
        assert_eq!((left.take(false), left.take(true)), (Some(0), Some(u32::MAX as usize - 1)));
    }

    #[test]
    fn pieces_are_shared() {
        let lead = wait_to_lead(1);
        // Each of two pieces waits a while for the other one to be begun. A member that was just leaving does not come.
        let two_come = || {
            let (begun, met) = (AtomicU32::new(0), AtomicU32::new(0));
            lead.for_each(2, &|_| {
                let (others, since) = (begun.fetch_add(1, Ordering::SeqCst), Instant::now());
                while begun.load(Ordering::SeqCst) < 2 && since.elapsed() < Duration::from_millis(10) {
                    thread::yield_now();
                }
                if others == 0 && begun.load(Ordering::SeqCst) == 2 {
                    met.fetch_add(1, Ordering::Relaxed);
                }
            });
            met.into_inner() == 1
        };
        assert!(rayon::current_num_threads() == 1 || (0..1000).any(|_| two_come()), "nobody came");
    }

    #[test]
    fn a_pieces_own_pieces_stay_on_its_thread() {
        let lead = wait_to_lead(3);
        let done = AtomicU32::new(0);
        lead.for_each(8, &|_| {
            let mine = thread::current().id();
            lead.for_each(5, &|_| {
                assert_eq!(thread::current().id(), mine);
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(done.into_inner(), 40);
    }

    #[test]
    fn one_leads_at_a_time() {
        let lead = wait_to_lead(1);
        assert!(thread::spawn(|| super::lead(1).is_none()).join().expect("no panic"));
        drop(lead);
    }

    #[test]
    fn a_panic_reaches_the_leader_and_the_team_lives_on() {
        let lead = wait_to_lead(3);
        for failing in 0..16 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                lead.for_each(16, &|piece| {
                    if piece == failing {
                        resume_unwind(Box::new("piece"));
                    }
                });
            }));
            let panic = result.expect_err("a piece panicked");
            assert_eq!(panic.downcast_ref(), Some(&"piece"), "piece {failing}");
        }
        let done = AtomicU32::new(0);
        lead.for_each(16, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 16);
    }
}
