//! The resident memory of a process over time.

#![expect(
    clippy::disallowed_types,
    reason = "the soak runs other processes, in real time"
)]

use std::{
    fmt, fs,
    time::{Duration, Instant},
};

const MIB: f64 = 1024.0 * 1024.0;

/// Samples of a process's resident memory, in bytes, with their times.
pub(crate) struct Memory {
    process: u32,
    began: Instant,
    samples: Vec<(Duration, f64)>,
}

// === impl Memory ===

impl Memory {
    pub(crate) fn of(process: u32) -> Self {
        Self {
            process,
            began: Instant::now(),
            samples: Vec::new(),
        }
    }

    pub(crate) fn sample(&mut self) {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process)).unwrap_or_default();
        let pages = text
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.parse::<u32>().ok());
        let bytes = pages.map(|it| f64::from(it) * 4096.0);
        let time = self.began.elapsed();
        self.samples.extend(bytes.map(|bytes| (time, bytes)));
    }

    /// The growth in MiB per minute, without the first half, in which caches and histories fill.
    ///
    /// It is the median of the growth between any two samples (Theil and Sen), which single peaks
    /// do not change.
    pub(crate) fn growth(&self) -> f64 {
        let samples = &self.samples[self.samples.len() / 2..];
        let mut slopes = Vec::new();
        for (index, (time, bytes)) in samples.iter().enumerate() {
            for (earlier, before) in &samples[..index] {
                let minutes = time.saturating_sub(*earlier).as_secs_f64() / 60.0;
                if minutes > 0.0 {
                    slopes.push((bytes - before) / MIB / minutes);
                }
            }
        }
        median(slopes)
    }

    /// The median of each quarter, the peak, and the growth.
    pub(crate) fn summary(&self) -> String {
        let quarter = |quarter| {
            let at = |quarter| self.samples.len() * quarter / 4;
            let samples = &self.samples[at(quarter)..at(quarter + 1)];
            median(samples.iter().map(|(_, bytes)| bytes / MIB).collect())
        };
        let [first, second, third, last] = [0, 1, 2, 3].map(quarter);
        let peak = self.samples.iter().map(|(_, bytes)| bytes / MIB);
        let (peak, growth) = (peak.fold(0.0, f64::max), self.growth());
        format!(
            "{first:.1}, {second:.1}, {third:.1}, {last:.1} MiB by quarter; peak {peak:.1} MiB; \
             growth in the second half {growth:.2} MiB per minute"
        )
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.samples.last().map_or(0.0, |(_, bytes)| *bytes);
        write!(f, "{:.1} MiB", last / MIB)
    }
}

pub(crate) fn a_leak_is_noticed_and_peaks_and_the_start_are_not() {
    let growth = |bytes: &dyn Fn(f64) -> f64| {
        let mut memory = Memory::of(0);
        // Ten minutes, a sample a second.
        let seconds = (0..600_u32).map(f64::from);
        memory.samples = seconds
            .map(|second| (Duration::from_secs_f64(second), bytes(second)))
            .collect();
        memory.growth()
    };
    let flat = |second: f64| 30.0 * MIB + (second % 7.0) * MIB;
    assert!(growth(&flat).abs() < 0.1);
    assert!(growth(&|second| flat(second.min(200.0)) + second.min(200.0) * MIB).abs() < 0.1);
    let peaks = |second: f64| {
        flat(second)
            + if second > 500.0 && second < 520.0 {
                90.0 * MIB
            } else {
                0.0
            }
    };
    assert!(growth(&peaks).abs() < 0.1);
    // 2 KiB for each of five deleted objects a second.
    let leak = growth(&|second| flat(second) + second * 5.0 * 2048.0);
    assert!(leak > 0.5, "{leak}");
}
