//! What the rest of the machine does meanwhile: all processors' busy time without that of this program and its children.
//!
//! Work of the kernel's own threads for our writes counts as the machine's, so a figure is never quite zero.

use super::Outcome;
use std::fs;
use std::time::{Duration, Instant};

/// Below this share of all processors the machine counts as quiet.
pub const QUIET: f64 = 0.05;
/// How long one look at the machine takes.
const LOOK: Duration = Duration::from_millis(200);

/// Processor time up to a moment, in ticks of the kernel.
#[derive(Clone, Copy)]
pub struct Moment {
    busy: u64,
    all: u64,
    ours: u64,
}

/// Reads the clock of the benchmarks.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time; nothing decides by it"
)]
pub fn instant() -> Instant {
    Instant::now()
}

/// Reads the processor time of this thread: for work that never waits, what others do meanwhile falls out of it.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

impl Moment {
    /// Looks at the machine.
    pub fn now() -> Outcome<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().ok_or("/proc/stat is empty")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .take(8)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let all = ticks.iter().sum();
        // Idle and waiting for the disk.
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Ok(Self {
            busy: all - idle,
            all,
            ours: ours()?,
        })
    }

    /// Returns the share of all processors that others took since then, 0 to 1.
    pub fn others_since(&self, then: &Self) -> f64 {
        let all = self.all.saturating_sub(then.all);
        let ours = self.ours.saturating_sub(then.ours);
        let others = self.busy.saturating_sub(then.busy).saturating_sub(ours);
        if all == 0 {
            0.0
        } else {
            others as f64 / all as f64
        }
    }
}

/// The processor time of this process, its live children, and those that it has waited for.
fn ours() -> Outcome<u64> {
    let me = std::process::id();
    let mut sum = 0;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        // A process may have ended since the list was made.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        // The name stands in brackets and may hold anything: fields count from behind it.
        let Some((_, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let field = |n: usize| rest.split_whitespace().nth(n).and_then(|f| f.parse().ok());
        let (parent, spent): (Option<u64>, [Option<u64>; 4]) =
            (field(1), [field(11), field(12), field(13), field(14)]);
        if pid == me || parent == Some(u64::from(me)) {
            sum += spent.iter().flatten().sum::<u64>();
        }
    }
    Ok(sum)
}

/// Waits for a quiet moment, but no longer than `patience`. Returns whether it came.
pub fn wait_for_quiet(patience: Duration) -> Outcome<bool> {
    let start = instant();
    loop {
        let before = Moment::now()?;
        std::thread::sleep(LOOK);
        if Moment::now()?.others_since(&before) <= QUIET {
            return Ok(true);
        }
        if start.elapsed() >= patience {
            return Ok(false);
        }
    }
}
