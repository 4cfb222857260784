//! `block_on`: the runtime of a program, which waits for nothing at its end.

use std::{future::Future, io};

use crate::signal::Signals;

/// Runs `program` on a new multi-threaded runtime, and returns its output as soon as it is ready.
///
/// Use it as the last expression of `main`. A runtime of `#[tokio::main]` waits at its end for
/// blocking calls that cannot be cancelled: a lookup of a host name, or the exec plugin of a
/// kubeconfig. If one of them hangs, the process does not end after [`Operator::run`] has returned,
/// and the kubelet kills it. This function leaves such calls behind: they end with the process.
///
/// A SIGTERM or SIGINT before [`Operator::run`] is called ends the process, unless it is the first process
/// of a container, to which the kernel delivers only signals that it listens to. There this function
/// listens, and `run` stops as soon as it is called.
///
/// On Linux it also kills the child processes that are left, and their children: they would outlive
/// the process.
///
/// # Errors
///
/// [`io::Error`] if no runtime can be created, or it cannot listen for signals.
///
/// # Example
///
/// ```
/// use tokio_util::sync::CancellationToken;
/// use windlass_operator::Operator;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     windlass_operator::block_on(async {
///         let operator = Operator::new();
///         let stop = CancellationToken::new();
///         # stop.cancel();
///         operator.run_until(stop).await?;
///         Ok(())
///     })?
/// }
/// ```
///
/// [`Operator::run`]: crate::Operator::run
pub fn block_on<F: Future>(program: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { Signals::listen_early() })?;
    let output = runtime.block_on(program);
    runtime.shutdown_background();
    #[cfg(target_os = "linux")]
    children::kill_all();
    Ok(output)
}

/// The child processes of this process.
#[cfg(target_os = "linux")]
mod children {
    use std::{collections::VecDeque, fs, process};

    use rustix::process::{Pid, Signal, kill_process};

    /// Kills all child processes and their children.
    pub(super) fn kill_all() {
        let mut parents = VecDeque::from([process::id()]);
        let mut found = Vec::new();
        while let Some(parent) = parents.pop_front() {
            for child in of(parent) {
                parents.push_back(child);
                found.push(child);
            }
        }
        for child in found {
            let child = i32::try_from(child).ok().and_then(Pid::from_raw);
            if let Some(child) = child {
                // It may have ended.
                _ = kill_process(child, Signal::KILL);
            }
        }
    }

    /// The child processes of all threads of the process `id`.
    fn of(id: u32) -> Vec<u32> {
        let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else {
            return Vec::new();
        };
        let threads = threads.flatten();
        let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
        let ids = lists.flat_map(|list| {
            let ids = list.split_whitespace().filter_map(|it| it.parse().ok());
            ids.collect::<Vec<u32>>()
        });
        ids.collect()
    }
}
