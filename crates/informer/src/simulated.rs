//! The randomness and the wall clock of the process, which a simulation replaces on its thread.
//!
//! A run of an operator can only be repeated if nothing in it depends on the operating system. All
//! randomness in Windlass is seeded with [`random_seed`], and all timestamps come from
//! [`wall_clock`]. Both ask the operating system, unless a [`SimulatedHost`] is active on the
//! calling thread.

use std::{cell::RefCell, marker::PhantomData, time::SystemTime};

use rand::{RngCore as _, SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;

thread_local! {
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// Replaces the operating system on one thread.
struct Host {
    random: StdRng,
    wall: SystemTime,
    began: Instant,
}

/// Replaces the randomness and the wall clock of the operating system on this thread, until it
/// is dropped.
///
/// # Contract
///
/// *Guaranteed.* The same seed gives the same results of [`random_seed`], in the same order. The
/// wall clock begins at the given time and follows tokio's clock.
///
/// *Required.* It is created in the runtime of the simulation: one thread, with paused time. It
/// is dropped before another one is created on the thread.
///
/// # Example
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use windlass_informer::{SimulatedHost, random_seed, wall_clock};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let run = || {
///     let _host = SimulatedHost::enter(7, SystemTime::UNIX_EPOCH);
///     assert!(wall_clock() < SystemTime::UNIX_EPOCH + Duration::from_secs(60));
///     (random_seed(), random_seed())
/// };
/// assert_eq!(run(), run());
/// # }
/// ```
#[doc(hidden)]
#[derive(Debug)]
#[must_use = "dropping it ends the simulation"]
pub struct SimulatedHost {
    /// Not `Send`: it belongs to the thread.
    thread: PhantomData<*const ()>,
}

/// Returns a seed for a generator of random numbers: from the operating system, or from the
/// [`SimulatedHost`] of this thread.
#[must_use]
pub fn random_seed() -> u64 {
    let simulated = HOST.with_borrow_mut(|host| Some(host.as_mut()?.random.next_u64()));
    simulated.unwrap_or_else(|| StdRng::from_os_rng().next_u64())
}

/// Returns the wall-clock time: of the operating system, or of the [`SimulatedHost`] of this thread.
///
/// For texts and objects only; durations are measured with tokio's clock.
#[must_use]
pub fn wall_clock() -> SystemTime {
    let simulated = HOST.with_borrow(|host| {
        let host = host.as_ref()?;
        host.wall.checked_add(host.began.elapsed())
    });
    simulated.unwrap_or_else(SystemTime::now)
}

/// Returns whether a [`SimulatedHost`] replaces the operating system on this thread.
#[must_use]
#[doc(hidden)]
pub fn is_host_simulated() -> bool {
    HOST.with_borrow(Option::is_some)
}

/// Returns the name of the host, which is that of the Pod in a Pod; `simulated` in a
/// [`SimulatedHost`] of this thread.
#[must_use]
#[doc(hidden)]
pub fn host_name() -> String {
    if is_host_simulated() {
        return "simulated".to_owned();
    }
    let named = std::env::var("HOSTNAME").ok();
    let named = named.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    let named = named.map(|name| name.trim().to_owned());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "windlass".to_owned())
}

// === impl SimulatedHost ===

#[doc(hidden)]
impl SimulatedHost {
    /// Begins a simulation on this thread, with this seed, at this wall-clock time.
    pub fn enter(seed: u64, wall: SystemTime) -> Self {
        let host = Host {
            random: StdRng::seed_from_u64(seed),
            wall,
            began: Instant::now(),
        };
        HOST.set(Some(host));
        Self {
            thread: PhantomData,
        }
    }

    /// Sets the wall clock of the simulation of this thread, as an administrator or NTP does. It does
    /// not change tokio's clock. Without a simulation it does nothing.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use windlass_informer::{SimulatedHost, wall_clock};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// let _host = SimulatedHost::enter(7, SystemTime::UNIX_EPOCH);
    /// let later = SystemTime::UNIX_EPOCH + Duration::from_secs(3600);
    /// SimulatedHost::set_wall_clock(later);
    /// assert_eq!(wall_clock(), later);
    /// # }
    /// ```
    pub fn set_wall_clock(time: SystemTime) {
        HOST.with_borrow_mut(|host| {
            if let Some(host) = host {
                host.wall = time;
                host.began = Instant::now();
            }
        });
    }
}

impl Drop for SimulatedHost {
    fn drop(&mut self) {
        HOST.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{SimulatedHost, random_seed, wall_clock};

    #[test]
    fn seeds_of_the_operating_system_differ() {
        assert_ne!(random_seed(), random_seed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulation_repeats_its_seeds_and_follows_its_clock_until_it_is_dropped() {
        let simulated = || {
            let host = SimulatedHost::enter(7, SystemTime::UNIX_EPOCH);
            let seeds = [random_seed(), random_seed()];
            drop(host);
            seeds
        };
        let seeds = simulated();
        assert_eq!(simulated(), seeds);
        assert_ne!(seeds[0], seeds[1]);

        let host = SimulatedHost::enter(7, SystemTime::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(60)).await;
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        assert_eq!(wall_clock(), later);
        SimulatedHost::set_wall_clock(SystemTime::UNIX_EPOCH);
        assert_eq!(wall_clock(), SystemTime::UNIX_EPOCH);
        drop(host);
        assert!(wall_clock() > later, "the time of the operating system");
        assert!(!seeds.contains(&random_seed()));
    }
}
