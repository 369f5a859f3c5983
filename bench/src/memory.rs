//! What a process holds in memory.

use anyhow::Context as _;

/// Megabytes (of 1024 × 1024 bytes).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    /// All its pages that are in memory, those of the program's file too.
    pub(crate) rss: f64,
    /// The same with shared pages divided among those who share them.
    pub(crate) pss: f64,
    /// Pages that no file is behind: heap, stacks, written data.
    pub(crate) anonymous: f64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/{pid}/smaps_rollup");
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim()
                .trim_end_matches(" kB")
                .trim()
                .parse::<f64>()
                .map(|kb| kb / 1024.0)
                .unwrap_or_default()
        };
        Ok(Self { rss: of("Rss:"), pss: of("Pss:"), anonymous: of("Anonymous:") })
    }

    pub(crate) fn note(&self) -> String {
        format!("PSS {:.1}, without files {:.1}", self.pss, self.anonymous)
    }
}

/// Seconds of processor time that a process has used, to a hundredth.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    /// Clock ticks a second: 100 on every Linux that we know.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold blanks.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let used: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    used / TICKS
}
