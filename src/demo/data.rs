//! The demo's data: a web access log that is made with a seed, and the definitions that work on it.
//!
//! The log is the same, byte for byte, on every machine, so that the report made from it has one right checksum.
//! Absent on purpose: clocks, the system's randomness, and any access to files; the caller writes.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write};

/// The seed of the log that the demo's report is made from.
pub const SEED: u64 = 20_261_014;

/// The SHA-256 of the log made with [`SEED`], in hexadecimal.
pub const LOG_SHA256: &str = "5ba99a73b561e311ce99122cebf7c811692b010b2a4a43805231a02886ca526e";

/// The SHA-256 of the right report on that log, in hexadecimal.
pub const REPORT_SHA256: &str = "0a3511126318d0b1ce47f1eccfb7874e18261b9a2ffa69ad016e97c058123e97";

/// The workflow that makes the report.
pub const WORKFLOW: &str = "access-report";

/// The node that writes the report, a few seconds long, while the demo tries to stop the run.
pub const REPORT_NODE: &str = "report";

/// The definitions and tools, each with its path below the data directory. `{{dir}}` and `{{program}}` in them stand
/// for that directory and for the host's own program; [`filled`] puts them in.
pub const FILES: [(&str, &str); 4] = [
    (
        "workflows/access-report.yaml",
        include_str!("files/workflows/access-report.yaml"),
    ),
    (
        "supervisors/report.yaml",
        include_str!("files/supervisors/report.yaml"),
    ),
    ("rules/report.yaml", include_str!("files/rules/report.yaml")),
    ("demo/count.awk", include_str!("files/tools/count.awk")),
];

/// Where the log lies below the data directory.
pub const LOG_PATH: &str = "demo/access.log";

/// Where the verified report lies below the data directory after a run.
pub const REPORT_PATH: &str = "demo/report.txt";

/// Puts the data directory and the host's program into the text of a file. Both must be absolute; in YAML they stand
/// inside double quotes, so they are escaped for that.
#[must_use]
pub fn filled(text: &str, dir: &str, program: &str) -> String {
    let escaped = |path: &str| path.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace("{{dir}}", &escaped(dir))
        .replace("{{program}}", &escaped(program))
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Lines, with the torn ones.
    pub lines: u64,
    /// Lines that break off in their middle, as when a server dies while it writes.
    pub torn: u64,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256 of all bytes, in hexadecimal.
    pub sha256: String,
}

/// How many requests come in each hour of the day.
const HOURS: [u32; 24] = [
    240, 160, 120, 100, 110, 180, 380, 720, 1090, 1280, 1340, 1310, 1240, 1270, 1300, 1260, 1180,
    1120, 1190, 1280, 1250, 1010, 680, 390,
];

/// Paths with their weight and the usual size of the answer in bytes. A `#` becomes a number.
const PATHS: [(&str, u64, u64); 14] = [
    ("/", 180, 5_120),
    ("/products/#", 260, 8_300),
    ("/search?q=lamp&page=#", 90, 6_400),
    ("/cart", 70, 2_900),
    ("/checkout", 25, 3_300),
    ("/api/stock/#", 120, 420),
    ("/static/site.css", 90, 14_600),
    ("/static/app.js", 85, 61_000),
    ("/images/#.jpg", 150, 48_000),
    ("/login", 35, 1_900),
    ("/account/orders/#", 30, 4_100),
    ("/feed.xml", 20, 11_200),
    ("/robots.txt", 12, 160),
    ("/wp-login.php", 14, 310),
];

/// Agents with their weight.
const AGENTS: [(&str, u64); 6] = [
    ("Mozilla/5.0 (X11; Linux x86_64)", 30),
    ("Mozilla/5.0 (Windows NT 10.0)", 34),
    ("Mozilla/5.0 (iPhone)", 22),
    ("ExampleBot/2.1", 8),
    ("curl/8.5.0", 4),
    ("-", 2),
];

/// One line in this many breaks off.
const TORN_EVERY: u64 = 2_500;

/// Writes the access log of one day in the combined log format, a line a request, ordered by time.
///
/// # Errors
/// Only those of `out`.
pub fn write_access_log(out: &mut impl Write, seed: u64) -> io::Result<Summary> {
    let mut chance = Chance(seed);
    let mut digest = Sha256::new();
    let mut summary = Summary {
        lines: 0,
        torn: 0,
        bytes: 0,
        sha256: String::new(),
    };
    for (hour, count) in (0_u32..).zip(HOURS) {
        for index in 0..count {
            // Even steps with less than a step of jitter keep the order.
            let second = (index * 3_600 + chance.below(3_600) as u32) / count;
            let mut line = request(&mut chance, hour, second);
            if chance.below(TORN_EVERY) == 0 {
                line.truncate(line.len() / 2 + chance.below(20) as usize);
                summary.torn += 1;
            }
            line.push('\n');
            digest.update(line.as_bytes());
            out.write_all(line.as_bytes())?;
            summary.lines += 1;
            summary.bytes += line.len() as u64;
        }
    }
    summary.sha256 = hexadecimal(&digest.finalize());
    Ok(summary)
}

fn request(chance: &mut Chance, hour: u32, second: u32) -> String {
    let (pattern, _, size) = PATHS[chance.weighted(PATHS.iter().map(|path| path.1))];
    let agent = AGENTS[chance.weighted(AGENTS.iter().map(|agent| agent.1))].0;
    let path = pattern.replace('#', &(1 + chance.below(400)).to_string());
    let method = if pattern == "/checkout" || (pattern == "/login" && chance.below(2) == 0) {
        "POST"
    } else {
        "GET"
    };
    let status = status(chance, pattern);
    let bytes = match status {
        304 => "-".to_owned(),
        200 => (size * 3 / 4 + chance.below(size / 2 + 1)).to_string(),
        _ => (150 + chance.below(60)).to_string(),
    };
    // The three networks that are set aside for documentation.
    let network = ["192.0.2", "198.51.100", "203.0.113"][chance.below(3) as usize];
    let address = 1 + chance.below(254);
    let referrer = if chance.below(4) == 0 {
        "https://shop.example/"
    } else {
        "-"
    };
    let (minute, second) = (second / 60, second % 60);
    format!(
        "{network}.{address} - - [14/Oct/2026:{hour:02}:{minute:02}:{second:02} +0000] \"{method} {path} HTTP/1.1\" \
         {status} {bytes} \"{referrer}\" \"{agent}\""
    )
}

fn status(chance: &mut Chance, pattern: &str) -> u16 {
    let roll = chance.below(1_000);
    match pattern {
        "/wp-login.php" => 404,
        "/checkout" if roll < 30 => 500,
        "/login" if roll < 220 => 401,
        _ if pattern.starts_with("/static/") && roll < 420 => 304,
        _ if roll < 6 => 503,
        _ if roll < 36 => 404,
        _ if roll < 60 => 302,
        _ => 200,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// splitmix64: a small generator with the same numbers everywhere, for data that must not differ.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` − 1. The tiny bias of the remainder does not matter for sample data.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index, chosen in proportion to the weights.
    fn weighted(&mut self, weights: impl Iterator<Item = u64> + Clone) -> usize {
        let mut roll = self.below(weights.clone().sum());
        for (index, weight) in weights.enumerate() {
            if roll < weight {
                return index;
            }
            roll -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_the_same_byte_for_byte() {
        let mut log = Vec::new();
        let summary = write_access_log(&mut log, SEED).unwrap();
        assert_eq!(summary.sha256, LOG_SHA256);
        assert_eq!(summary.sha256, hexadecimal(&Sha256::digest(&log)));
        assert_eq!(summary.bytes, log.len() as u64);
        assert_eq!(
            summary.lines,
            log.iter().filter(|byte| **byte == b'\n').count() as u64
        );
        assert!((19_000..22_000).contains(&summary.lines), "{summary:?}");
        assert!(
            (1_900_000..2_600_000).contains(&summary.bytes),
            "{summary:?}"
        );
        assert!((4..20).contains(&summary.torn), "{summary:?}");
    }

    #[test]
    fn another_seed_gives_another_log() {
        let mut sink = io::sink();
        assert_ne!(
            write_access_log(&mut sink, SEED + 1).unwrap().sha256,
            LOG_SHA256
        );
    }

    #[test]
    fn the_requests_are_in_the_order_of_time() {
        let mut log = Vec::new();
        write_access_log(&mut log, SEED).unwrap();
        let text = String::from_utf8(log).unwrap();
        let times: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_once(" +0000]")?.0.rsplit('[').next())
            .collect();
        assert!(times.len() > 19_000);
        assert!(times.is_sorted());
    }

    #[test]
    fn the_definitions_are_what_the_contract_asks_for() {
        use crate::contract::definition::{SupervisorDef, WorkflowDef};
        let text = |path: &str| {
            let (_, text) = FILES.iter().find(|(found, _)| *found == path).unwrap();
            filled(text, "/data", "/bin/signalbox")
        };
        let workflow: WorkflowDef =
            serde_saphyr::from_str(&text("workflows/access-report.yaml")).unwrap();
        assert_eq!(workflow.problems(), []);
        assert_eq!(workflow.id.as_str(), WORKFLOW);
        assert!(workflow.nodes.len() >= 8);
        assert!(
            workflow
                .nodes
                .keys()
                .any(|node| node.as_str() == REPORT_NODE)
        );
        let supervisor: SupervisorDef =
            serde_saphyr::from_str(&text("supervisors/report.yaml")).unwrap();
        assert_eq!(supervisor.problems(), []);
        let rules = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/demo/files/rules/report.yaml"
        );
        signalbox_engine_rules::RuleSet::load(std::path::Path::new(rules)).unwrap();
        assert_eq!(supervisor.owns.len(), 1);
        assert_eq!(
            supervisor.owns[0].to_string(),
            format!("workflow:{WORKFLOW}")
        );
    }

    #[test]
    fn a_directory_with_quotes_does_not_break_the_definitions() {
        assert_eq!(
            filled("a: \"{{dir}}/x\"", "/d\"e\\f", "p"),
            "a: \"/d\\\"e\\\\f/x\""
        );
        for (path, text) in FILES {
            let full = filled(text, "/data", "/bin/signalbox");
            assert!(!full.contains("{{"), "{path}");
        }
    }
}
