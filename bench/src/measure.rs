//! A child's measurements of itself: time, CPU time and memory.

use std::{collections::BTreeMap, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Reads the counting allocator.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// The currently allocated bytes.
    pub live: fn() -> usize,
    /// The highest number of allocated bytes so far.
    pub peak: fn() -> usize,
    /// The number of allocations and reallocations so far.
    pub allocations: fn() -> usize,
}

/// The measurements of one child, by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) numbers: BTreeMap<String, f64>,
}

/// The state of all meters at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    wall: u64,
    cpu: u64,
    meter: Option<Meter>,
    live: usize,
    allocations: usize,
    resident: Option<u64>,
}

// === impl Measured ===

impl Measured {
    /// Parses the output of a child.
    pub(crate) fn read(printed: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(printed)
    }

    pub(crate) fn set(&mut self, what: &str, number: f64) {
        self.numbers.insert(what.to_owned(), number);
    }

    pub(crate) fn get(&self, what: &str) -> Option<f64> {
        self.numbers.get(what).copied()
    }
}

// === impl Moment ===

impl Moment {
    pub(crate) fn now(meter: Option<Meter>) -> Self {
        Self {
            meter,
            live: meter.map_or(0, |meter| (meter.live)()),
            allocations: meter.map_or(0, |meter| (meter.allocations)()),
            resident: status("self", "VmRSS:"),
            cpu: nanoseconds(ClockId::ProcessCPUTime),
            wall: monotonic(),
        }
    }

    /// Records the cost since then, divided by `count`.
    pub(crate) fn cost(&self, count: usize, measured: &mut Measured) {
        let (wall, cpu) = (monotonic(), nanoseconds(ClockId::ProcessCPUTime));
        let count = float(count as u64);
        measured.set("cpu_us", float(cpu - self.cpu) / 1e3 / count);
        measured.set("wall_us", float(wall - self.wall) / 1e3 / count);
        if let Some(meter) = self.meter {
            let allocations = (meter.allocations)() - self.allocations;
            measured.set("allocations", float(allocations as u64) / count);
        }
    }

    /// Records the CPU time since then as `what`, divided by `count`.
    pub(crate) fn time(&self, what: &str, count: usize, measured: &mut Measured) {
        let cpu = nanoseconds(ClockId::ProcessCPUTime) - self.cpu;
        measured.set(what, float(cpu) / 1e3 / float(count as u64));
    }

    /// Records the growth of allocated bytes since then, and its peak.
    pub(crate) fn growth(&self, count: usize, measured: &mut Measured) {
        self.residence(count, measured);
        let count = float(count as u64);
        if let Some(meter) = self.meter {
            let since = |bytes: usize| float(bytes.saturating_sub(self.live) as u64);
            measured.set("settled_bytes", since((meter.live)()) / count);
            measured.set("peak_bytes", since((meter.peak)()) / count);
        }
    }

    /// Records the growth of the peak of resident memory since then.
    pub(crate) fn residence(&self, count: usize, measured: &mut Measured) {
        if let (Some(then), Some(most)) = (self.resident, status("self", "VmHWM:")) {
            let count = float(count as u64);
            measured.set("rss_bytes", float(most.saturating_sub(then)) / count);
        }
    }
}

/// The time of the monotonic clock, which all processes share, in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The CPU time of this process, on all threads.
pub(crate) fn processor_time() -> Duration {
    Duration::from_nanos(nanoseconds(ClockId::ProcessCPUTime))
}

/// The resident memory of the process `pid` in bytes. `None` on other systems than Linux.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    status(&pid.to_string(), "VmRSS:")
}

/// A line of `/proc/PROCESS/status` in bytes. `None` if the file does not exist.
fn status(process: &str, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Converts to `f64`, which is exact to fifteen digits.
#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    u64::try_from((Duration::from_secs(seconds) + Duration::from_nanos(nanos)).as_nanos())
        .unwrap_or(u64::MAX)
}

/// Samples the allocated bytes, to find the peak of a later phase.
#[derive(Debug)]
pub(crate) struct Sampler {
    base: usize,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    peak: std::thread::JoinHandle<usize>,
}

// === impl Sampler ===

impl Sampler {
    pub(crate) fn start(meter: Meter) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        Self {
            base: (meter.live)(),
            stop,
            peak: std::thread::spawn(move || {
                let mut peak = 0;
                while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                    peak = peak.max((meter.live)());
                    // Often enough for a list page, which exists for milliseconds, but without a
                    // relevant cost.
                    std::thread::sleep(Duration::from_micros(100));
                }
                peak
            }),
        }
    }

    /// The peak minus the value at the start, in bytes.
    pub(crate) fn stop(self) -> f64 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let peak = self.peak.join().unwrap_or_default();
        float(peak.saturating_sub(self.base) as u64)
    }
}
