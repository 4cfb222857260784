//! The resident memory of a process over time.

use std::{fmt, fs};

const MIB: f64 = 1024.0 * 1024.0;

/// Samples of a process's resident memory, in bytes.
pub(crate) struct Memory {
    process: u32,
    samples: Vec<f64>,
}

// === impl Memory ===

impl Memory {
    pub(crate) fn of(process: u32) -> Self {
        Self {
            process,
            samples: Vec::new(),
        }
    }

    pub(crate) fn sample(&mut self) {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process)).unwrap_or_default();
        let pages = text
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.parse::<u32>().ok());
        self.samples.extend(pages.map(|it| f64::from(it) * 4096.0));
    }

    /// Whether the last quarter exceeds the second one by at most a fifth plus 8 MiB, which is noise
    /// of the allocator.
    pub(crate) fn is_flat(&self) -> bool {
        self.median(3) <= self.median(1) * 1.2 + 8.0 * MIB
    }

    /// The median of each quarter, and the peak.
    pub(crate) fn quarters(&self) -> String {
        let [first, second, third, last] = [0, 1, 2, 3].map(|it| self.median(it) / MIB);
        let peak = self.samples.iter().copied().fold(0.0, f64::max) / MIB;
        format!("{first:.1}, {second:.1}, {third:.1}, {last:.1} MiB by quarter; peak {peak:.1} MiB")
    }

    fn median(&self, quarter: usize) -> f64 {
        let at = |quarter| self.samples.len() * quarter / 4;
        let mut samples = self.samples[at(quarter)..at(quarter + 1)].to_vec();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied().unwrap_or_default()
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.samples.last().copied().unwrap_or_default();
        write!(f, "{:.1} MiB", last / MIB)
    }
}
