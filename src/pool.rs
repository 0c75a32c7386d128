//! Threads of brasa's own, on which nothing runs but kernels (an application's, too) and their compilation.
//!
//! Whoever waits for such work holds its device. On a pool that the program uses, too, every thread might be waiting
//! for that device, or the thread that holds it might take up such a job while it waits: neither would ever end.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;

thread_local! {
    /// This is one of these threads.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

static POOLS: Mutex<Option<HashMap<usize, Arc<ThreadPool>>>> = Mutex::new(None);

/// The pool with as many threads as the one that the caller is on: rayon's, or what a program made with fewer.
fn of_caller() -> Arc<ThreadPool> {
    let threads = rayon::current_num_threads();
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    let pool = pools.get_or_insert_default().entry(threads).or_insert_with(|| {
        let name = |number: usize| format!("brasa worker {number}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name);
        let pool = pool.start_handler(|_| OWN.set(true)).build();
        Arc::new(pool.expect("threads for kernels: the system gives no more"))
    });
    Arc::clone(pool)
}

/// Does `work` on these threads, all of which it may use, and waits without taking up anything else.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if rayon::current_thread_index().is_none() {
        return of_caller().install(work);
    }
    if is_own() {
        return work();
    }
    // a thread of another pool looks for jobs there while it waits for one of these; one of no pool does not
    let pool = of_caller();
    let ended = std::thread::scope(|scope| scope.spawn(|| pool.install(work)).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Starts `work` on one of these threads.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) {
    if is_own() { rayon::spawn(work) } else { of_caller().spawn(work) }
}

/// Whether this is one of these threads.
pub(crate) fn is_own() -> bool {
    OWN.get()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use rayon::prelude::*;

    use crate::runtime::Step;
    use crate::{Device, Tensor, linalg};

    /// All threads of rayon's pool ask for the device while kernels run on it that are cut for several threads.
    #[test]
    fn a_program_s_own_jobs_do_not_keep_kernels_from_ending() {
        let device = Device::cpu().reopen().expect("a CPU");
        let large = Tensor::ones([1200, 1200], &device);
        let multiply = |_| large.matmul(&large).narrow(0, 0, 1).narrow(1, 0, 1).item::<f32>().expect("a product");
        let jobs = 8 * rayon::current_num_threads();
        let ended = std::thread::scope(|scope| {
            let by_jobs = scope.spawn(|| (0..jobs).into_par_iter().map(multiply).collect::<Vec<f32>>());
            let mut all: Vec<f32> = (0..4).map(multiply).collect();
            all.extend(by_jobs.join().expect("no job panics"));
            all
        });
        assert_eq!(ended, vec![1200.0; jobs + 4]);
    }

    /// The same with kernels whose host code is parallel itself, as one thread does and as the team does.
    #[test]
    fn nor_do_they_keep_host_code_from_ending() {
        let device = Device::cpu().reopen().expect("a CPU");
        for size in [2, 512] {
            let matrices = Tensor::eye(8, &device).expand([size, 8, 8]) * 2.0;
            matrices.realize().expect("memory");
            let factor = |_| linalg::cholesky(&(&matrices * 2.0)).sum().item::<f32>().expect("a sum");
            let jobs = 100;
            let ended = std::thread::scope(|scope| {
                let by_jobs = scope.spawn(|| (0..jobs).into_par_iter().map(factor).collect::<Vec<f32>>());
                let mut all: Vec<f32> = (0..jobs).map(factor).collect();
                all.extend(by_jobs.join().expect("no job panics"));
                all
            });
            assert_eq!(ended.len(), 2 * jobs);
            assert!(ended.iter().all(|sum| sum.to_bits() == ended[0].to_bits()), "{size}: {ended:?}");
        }
    }

    /// A job that waits for its kernels does not begin another one, which would wait for what the first one holds.
    #[test]
    fn a_job_that_waits_for_kernels_takes_up_no_other() {
        let device = Device::cpu().reopen().expect("a CPU");
        let step = Step::new(&device, |inputs| vec![inputs[0].matmul(&inputs[0])]).expect("a step");
        let (step, large) = (Mutex::new(step), Tensor::ones([1200, 1200], &device));
        let run = |_| {
            let mut step = step.lock().unwrap_or_else(PoisonError::into_inner);
            let product = step.run(std::slice::from_ref(&large)).expect("a run").remove(0);
            product.narrow(0, 0, 1).narrow(1, 0, 1).item::<f32>().expect("a product")
        };
        let ended: Vec<f32> = (0..8 * rayon::current_num_threads()).into_par_iter().map(run).collect();
        assert!(ended.iter().all(|&value| value == 1200.0), "{ended:?}");
    }
}
