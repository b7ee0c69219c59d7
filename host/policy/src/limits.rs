//! The limits of a run: names, units, defaults, and the settings that raise them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of one run, resolved from manifest, policy and command line. The sandbox enforces every
/// field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct Limits {
    /// Wall time of the run, including the programs that it starts, in milliseconds.
    pub timeout_ms: u64,
    /// Processor time of all programs of the run together, in percent of the run's wall time on one
    /// processor. `None` means no bound. Has no effect on deterministic runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<u64>,
    /// Units of fuel, about one WebAssembly instruction each, including the programs that the run
    /// starts. `None` selects the engine that does not count fuel.
    pub fuel: Option<u64>,
    /// Bytes of linear memory in use at once, in all memories of all stores of the run.
    pub memory: u64,
    /// Table elements in all tables of a store.
    pub table_elements: u64,
    /// Core instances of a store.
    pub instances: u64,
    /// Bytes of guest stack. `None` means the stack that the program declares, or 1 MiB.
    pub stack: Option<u64>,
    /// Bytes the guest may write to stdout.
    pub stdout: u64,
    /// Bytes the guest may write to stderr.
    pub stderr: u64,
    /// Bytes by which files may grow, over all writable mounts.
    pub disk: u64,
    /// Files and folders that may be created.
    pub files: u64,
    /// Bytes of all files in `/tmp`, which is then in memory. `None` keeps `/tmp` on disk, within
    /// `disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmp: Option<u64>,
    /// Bytes of all files of the skill in `/state`, which stays between runs. With 0, the skill has
    /// no `/state`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub state: u64,
    /// Handles (files, streams, requests) open at once in a store.
    pub handles: u64,
    /// Bytes that one host call may copy out of the guest.
    pub host_call: u64,
    /// Random bytes that the run may read.
    pub random: u64,
    /// Outbound HTTP requests of the run.
    pub http_requests: u64,
    /// Outbound HTTP requests in progress at once.
    pub http_concurrent: u64,
    /// Bytes of one HTTP request body.
    pub http_request_body: u64,
    /// Bytes of one HTTP response body.
    pub http_response_body: u64,
    /// Milliseconds to resolve a name and connect.
    pub http_connect_ms: u64,
    /// Milliseconds for a TLS handshake.
    pub http_tls_ms: u64,
    /// Milliseconds from the end of the request to the head of the response.
    pub http_first_byte_ms: u64,
    /// Milliseconds for one whole exchange, including the body.
    pub http_total_ms: u64,
    /// Requests that the run may send per minute. `None` means no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_rate: Option<u64>,
    /// Requests that the run may send per minute to one host. `None` means no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_host_rate: Option<u64>,
    /// Requests that may be sent at once before `http_rate` and `http_host_rate` delay the next one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub http_burst: u64,
    /// Bytes of the responses that the run's HTTP cache holds. With 0, the run has no cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub http_cache: u64,
    /// Milliseconds for which the HTTP cache keeps a response for later runs. With 0, the cache ends
    /// with the run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub http_cache_keep_ms: u64,
    /// How deep programs may nest that start programs; 0 forbids starting any.
    pub process_depth: u64,
    /// Programs that the run may start.
    pub processes: u64,
    /// Started programs that run at once.
    #[serde(default = "default_alive", skip_serializing_if = "is_default_alive")]
    pub processes_alive: u64,
    /// Milliseconds of CPU time to compile one component.
    pub compile_ms: u64,
    /// Bytes of address space to compile one component.
    pub compile_memory: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn one() -> u64 {
    1
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

/// The default of `processes_alive`: enough for several long pipelines at once.
const ALIVE: u64 = 64;

fn default_alive() -> u64 {
    ALIVE
}

fn is_default_alive(alive: &u64) -> bool {
    *alive == ALIVE
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The stack of a program that does not declare one, in bytes.
pub const STACK: u64 = MIB;

impl Default for Limits {
    /// Defaults that suit a laptop: generous for scripts, but enough to stop runaway programs.
    fn default() -> Self {
        Limits {
            timeout_ms: 60_000,
            cpu_share: None,
            fuel: None,
            memory: 512 * MIB,
            table_elements: 1_000_000,
            instances: 200,
            stack: None,
            stdout: 64 * MIB,
            stderr: 16 * MIB,
            disk: 256 * MIB,
            files: 10_000,
            tmp: None,
            state: 0,
            handles: 4_096,
            host_call: 32 * MIB,
            random: 64 * MIB,
            http_requests: 100,
            http_concurrent: 8,
            http_request_body: 8 * MIB,
            http_response_body: 32 * MIB,
            http_connect_ms: 10_000,
            http_tls_ms: 10_000,
            http_first_byte_ms: 30_000,
            http_total_ms: 60_000,
            http_rate: None,
            http_host_rate: None,
            http_burst: 1,
            http_cache: 0,
            http_cache_keep_ms: 0,
            process_depth: 4,
            processes: 256,
            processes_alive: ALIVE,
            compile_ms: 120_000,
            compile_memory: 4 << 30,
        }
    }
}

impl Limits {
    /// Returns the wall time as a duration.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Returns the most memory of the host that a run may hold, in bytes.
    pub fn host_memory(&self) -> u64 {
        self.memory.saturating_add(self.tmp.unwrap_or(0)).saturating_add(self.http_cache)
    }

    /// Returns the value of a limit, in its unit; `None` if the limit is off.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        Some(match limit {
            Limit::Timeout => self.timeout_ms,
            Limit::CpuShare => return self.cpu_share,
            Limit::Fuel => return self.fuel,
            Limit::Memory => self.memory,
            Limit::TableElements => self.table_elements,
            Limit::Instances => self.instances,
            Limit::Stack => self.stack.unwrap_or(STACK),
            Limit::Stdout => self.stdout,
            Limit::Stderr => self.stderr,
            Limit::Disk => self.disk,
            Limit::Files => self.files,
            Limit::Tmp => return self.tmp,
            Limit::State => return Some(self.state).filter(|bytes| *bytes > 0),
            Limit::Handles => self.handles,
            Limit::HostCall => self.host_call,
            Limit::Random => self.random,
            Limit::HttpRequests => self.http_requests,
            Limit::HttpConcurrent => self.http_concurrent,
            Limit::HttpRequestBody => self.http_request_body,
            Limit::HttpResponseBody => self.http_response_body,
            Limit::HttpConnect => self.http_connect_ms,
            Limit::HttpTls => self.http_tls_ms,
            Limit::HttpFirstByte => self.http_first_byte_ms,
            Limit::HttpTotal => self.http_total_ms,
            Limit::HttpRate => return self.http_rate,
            Limit::HttpHostRate => return self.http_host_rate,
            Limit::HttpBurst => self.http_burst,
            Limit::HttpCache => return Some(self.http_cache).filter(|bytes| *bytes > 0),
            Limit::HttpCacheKeep => return Some(self.http_cache_keep_ms).filter(|ms| *ms > 0),
            Limit::ProcessDepth => self.process_depth,
            Limit::Processes => self.processes,
            Limit::ProcessesAlive => self.processes_alive,
            Limit::Compile => self.compile_ms,
            Limit::CompileMemory => self.compile_memory,
        })
    }

    /// Sets a limit, in its unit.
    pub fn set(&mut self, limit: Limit, value: u64) {
        match limit {
            Limit::Timeout => self.timeout_ms = value,
            Limit::CpuShare => self.cpu_share = Some(value),
            Limit::Fuel => self.fuel = Some(value),
            Limit::Memory => self.memory = value,
            Limit::TableElements => self.table_elements = value,
            Limit::Instances => self.instances = value,
            Limit::Stack => self.stack = Some(value),
            Limit::Stdout => self.stdout = value,
            Limit::Stderr => self.stderr = value,
            Limit::Disk => self.disk = value,
            Limit::Files => self.files = value,
            Limit::Tmp => self.tmp = Some(value),
            Limit::State => self.state = value,
            Limit::Handles => self.handles = value,
            Limit::HostCall => self.host_call = value,
            Limit::Random => self.random = value,
            Limit::HttpRequests => self.http_requests = value,
            Limit::HttpConcurrent => self.http_concurrent = value,
            Limit::HttpRequestBody => self.http_request_body = value,
            Limit::HttpResponseBody => self.http_response_body = value,
            Limit::HttpConnect => self.http_connect_ms = value,
            Limit::HttpTls => self.http_tls_ms = value,
            Limit::HttpFirstByte => self.http_first_byte_ms = value,
            Limit::HttpTotal => self.http_total_ms = value,
            Limit::HttpRate => self.http_rate = Some(value),
            Limit::HttpHostRate => self.http_host_rate = Some(value),
            Limit::HttpBurst => self.http_burst = value,
            Limit::HttpCache => self.http_cache = value,
            Limit::HttpCacheKeep => self.http_cache_keep_ms = value,
            Limit::ProcessDepth => self.process_depth = value,
            Limit::Processes => self.processes = value,
            Limit::ProcessesAlive => self.processes_alive = value,
            Limit::Compile => self.compile_ms = value,
            Limit::CompileMemory => self.compile_memory = value,
        }
    }
}

/// The name of a limit. `Display` prints its key in the policy's `limits:` table.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the field of `Limits` with the same name documents each variant")]
pub enum Limit {
    Timeout,
    CpuShare,
    Fuel,
    Memory,
    TableElements,
    Instances,
    Stack,
    Stdout,
    Stderr,
    Disk,
    Files,
    Tmp,
    State,
    Handles,
    HostCall,
    Random,
    HttpRequests,
    HttpConcurrent,
    HttpRequestBody,
    HttpResponseBody,
    HttpConnect,
    HttpTls,
    HttpFirstByte,
    HttpTotal,
    HttpRate,
    HttpHostRate,
    HttpBurst,
    HttpCache,
    HttpCacheKeep,
    ProcessDepth,
    Processes,
    ProcessesAlive,
    Compile,
    CompileMemory,
}

/// The unit of a limit, which determines how people write its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds; written `30s`, `5m`, `250ms`.
    Time,
    /// Bytes; written `64MiB`, `1GB`, `4096`.
    Size,
    /// A plain number.
    Count,
    /// A share of one processor; written `50%`, and `200%` for two processors.
    Percent,
    /// A number per minute; written `30/min`, or `2/s`, which is 120 per minute.
    Rate,
}

impl Limit {
    /// All limits, in the order of the documentation.
    pub const ALL: [Limit; 34] = [
        Limit::Timeout,
        Limit::CpuShare,
        Limit::Fuel,
        Limit::Memory,
        Limit::TableElements,
        Limit::Instances,
        Limit::Stack,
        Limit::Stdout,
        Limit::Stderr,
        Limit::Disk,
        Limit::Files,
        Limit::Tmp,
        Limit::State,
        Limit::Handles,
        Limit::HostCall,
        Limit::Random,
        Limit::HttpRequests,
        Limit::HttpConcurrent,
        Limit::HttpRequestBody,
        Limit::HttpResponseBody,
        Limit::HttpConnect,
        Limit::HttpTls,
        Limit::HttpFirstByte,
        Limit::HttpTotal,
        Limit::HttpRate,
        Limit::HttpHostRate,
        Limit::HttpBurst,
        Limit::HttpCache,
        Limit::HttpCacheKeep,
        Limit::ProcessDepth,
        Limit::Processes,
        Limit::ProcessesAlive,
        Limit::Compile,
        Limit::CompileMemory,
    ];

    /// Returns the key in the policy's `limits:` table. Skills use the same key in `metadata` for
    /// the limits that they can set.
    pub fn key(self) -> &'static str {
        match self {
            Limit::Timeout => "timeout",
            Limit::CpuShare => "cpu-share",
            Limit::Fuel => "fuel",
            Limit::Memory => "memory",
            Limit::TableElements => "table-elements",
            Limit::Instances => "instances",
            Limit::Stack => "stack",
            Limit::Stdout => "stdout",
            Limit::Stderr => "stderr",
            Limit::Disk => "disk",
            Limit::Files => "files",
            Limit::Tmp => "tmp",
            Limit::State => "state",
            Limit::Handles => "handles",
            Limit::HostCall => "host-call",
            Limit::Random => "random",
            Limit::HttpRequests => "http-requests",
            Limit::HttpConcurrent => "http-concurrent",
            Limit::HttpRequestBody => "http-request-body",
            Limit::HttpResponseBody => "http-response-body",
            Limit::HttpConnect => "http-connect",
            Limit::HttpTls => "http-tls",
            Limit::HttpFirstByte => "http-first-byte",
            Limit::HttpTotal => "http-total",
            Limit::HttpRate => "http-rate",
            Limit::HttpHostRate => "http-host-rate",
            Limit::HttpBurst => "http-burst",
            Limit::HttpCache => "http-cache",
            Limit::HttpCacheKeep => "http-cache-keep",
            Limit::ProcessDepth => "process-depth",
            Limit::Processes => "processes",
            Limit::ProcessesAlive => "processes-alive",
            Limit::Compile => "compile",
            Limit::CompileMemory => "compile-memory",
        }
    }

    /// Returns the limit with this key.
    pub fn from_key(key: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|l| l.key() == key)
    }

    /// Returns the unit.
    pub fn unit(self) -> Unit {
        match self {
            Limit::Timeout
            | Limit::HttpConnect
            | Limit::HttpTls
            | Limit::HttpFirstByte
            | Limit::HttpTotal
            | Limit::HttpCacheKeep
            | Limit::Compile => Unit::Time,
            Limit::Memory
            | Limit::Stack
            | Limit::Stdout
            | Limit::Stderr
            | Limit::Disk
            | Limit::Tmp
            | Limit::State
            | Limit::HostCall
            | Limit::Random
            | Limit::HttpRequestBody
            | Limit::HttpResponseBody
            | Limit::HttpCache
            | Limit::CompileMemory => Unit::Size,
            Limit::Fuel
            | Limit::TableElements
            | Limit::Instances
            | Limit::Files
            | Limit::Handles
            | Limit::HttpRequests
            | Limit::HttpConcurrent
            | Limit::HttpBurst
            | Limit::ProcessDepth
            | Limit::Processes
            | Limit::ProcessesAlive => Unit::Count,
            Limit::CpuShare => Unit::Percent,
            Limit::HttpRate | Limit::HttpHostRate => Unit::Rate,
        }
    }

    /// Checks whether a run has less without the limit than with it: its value is also a grant, and a
    /// ceiling grants nothing.
    pub fn is_grant(self) -> bool {
        matches!(self, Limit::State | Limit::HttpCache | Limit::HttpCacheKeep)
    }

    /// Checks whether nothing is bounded without the limit, so that any value is lower.
    pub fn is_unbounded_when_off(self) -> bool {
        matches!(self, Limit::Fuel | Limit::CpuShare | Limit::HttpRate | Limit::HttpHostRate)
    }

    /// Checks whether `metadata` in SKILL.md can lower this limit.
    pub fn in_manifest(self) -> bool {
        matches!(self, Limit::Timeout | Limit::Memory | Limit::Fuel)
    }

    /// Returns the command line flag that sets this limit, if there is one.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Limit::Timeout => Some("--timeout"),
            Limit::Memory => Some("--memory"),
            Limit::Fuel => Some("--fuel"),
            _ => None,
        }
    }

    /// Parses a value: `30s`, `64MiB`, `1000`.
    ///
    /// # Errors
    /// A message that states the expected form.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        match self.unit() {
            Unit::Time => humantime::parse_duration(text)
                .ok()
                .and_then(|d| u64::try_from(d.as_millis()).ok())
                .filter(|ms| *ms > 0)
                .ok_or_else(|| format!("`{text}` is not a time such as 500ms, 30s or 5m")),
            Unit::Size => {
                let size = parse_size(text).ok_or_else(|| {
                    format!("`{text}` is not a size such as 4096, 64KiB or 256MiB")
                })?;
                let least = if self == Limit::Memory { MEMORY_MIN } else { 0 };
                if size < least {
                    return Err(format!(
                        "`{text}` means {}; no program starts with less than {}",
                        show_size(size),
                        show_size(least)
                    ));
                }
                Ok(size)
            }
            Unit::Count => text
                .replace('_', "")
                .parse()
                .map_err(|_| format!("`{text}` is not a whole number such as 1000")),
            Unit::Percent => text
                .strip_suffix('%')
                .and_then(|number| number.trim().parse().ok())
                .filter(|percent| *percent > 0)
                .ok_or_else(|| format!("`{text}` is not a share such as 50% or 200%")),
            Unit::Rate => parse_rate(text)
                .filter(|rate| *rate > 0)
                .ok_or_else(|| format!("`{text}` is not a rate such as 2/s or 30/min")),
        }
    }

    /// Formats a value.
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            Unit::Time => humantime::format_duration(Duration::from_millis(value)).to_string(),
            Unit::Size => show_size(value),
            Unit::Count => value.to_string(),
            Unit::Percent => format!("{value}%"),
            Unit::Rate if value.is_multiple_of(60) => format!("{}/s", value / 60),
            Unit::Rate => format!("{value}/min"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// The least memory that can be asked for, in bytes: the smallest component of a guest in Rust has
/// 17 pages of 64 KiB, so a smaller number is a missing unit.
const MEMORY_MIN: u64 = MIB;

/// Parses a size in bytes, with binary (`KiB`) or decimal (`kB`) units.
/// The most bytes of a skill's files in total, unless the operator raises it: the largest public
/// skill has 7.5 MB.
pub const SKILL_SIZE: u64 = 10 << 20;

/// The highest value that the operator can raise [`SKILL_SIZE`] to: as much as one transfer of
/// fetched skills may hold. Every file of a skill is read and digested before it runs.
pub const SKILL_SIZE_MAX: u64 = 256 << 20;

/// Parses the most bytes of a skill's files in total.
///
/// # Errors
/// Returns a message if the text is not a size, or one above [`SKILL_SIZE_MAX`].
pub fn parse_skill_size(text: &str) -> Result<u64, String> {
    let size = Limit::Disk.parse(text)?;
    if !(1..=SKILL_SIZE_MAX).contains(&size) {
        let most = show_size(SKILL_SIZE_MAX);
        return Err(format!("`{}` is not between 1 and {most}", text.trim()));
    }
    Ok(size)
}

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let number: u64 = text[..digits].replace('_', "").parse().ok()?;
    let factor = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Parses a rate, and returns it per minute.
fn parse_rate(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once('/')?;
    let number: u64 = number.trim().replace('_', "").parse().ok()?;
    match unit.trim() {
        "s" => number.checked_mul(60),
        "min" => Some(number),
        _ => None,
    }
}

/// Formats a size in bytes with the largest binary unit that fits, and at most one decimal.
pub fn show_size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", MIB), ("KiB", KIB)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) if bytes.is_multiple_of(size) => format!("{} {unit}", bytes / size),
        Some((unit, size)) => format!("{:.1} {unit}", bytes as f64 / size as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_round_trip_through_set_get_and_text() {
        for limit in Limit::ALL {
            let mut limits = Limits::default();
            limits.set(limit, 2 << 20);
            assert_eq!(limits.get(limit), Some(2 << 20), "{limit}");
            assert_eq!(limit.parse(&limit.show(2 << 20)).unwrap(), 2 << 20, "{limit}");
            assert_eq!(Limit::from_key(limit.key()), Some(limit));
        }
    }

    #[test]
    fn sizes_times_and_counts_parse() {
        assert_eq!(Limit::Memory.parse("256MiB"), Ok(256 << 20));
        assert_eq!(Limit::Memory.parse("1GB"), Ok(1_000_000_000));
        assert_eq!(Limit::Timeout.parse("1m 30s"), Ok(90_000));
        assert_eq!(Limit::Fuel.parse("2_000_000_000"), Ok(2_000_000_000));
        assert_eq!(Limit::HttpRate.parse("2/s"), Ok(120));
        assert_eq!(Limit::HttpRate.parse("30/min"), Ok(30));
        assert_eq!(
            (Limit::HttpRate.show(120), Limit::HttpRate.show(30)),
            ("2/s".into(), "30/min".into())
        );
        for (limit, bad) in [
            (Limit::Memory, "lots"),
            (Limit::Memory, "-1"),
            (Limit::Memory, "99999999999GiB"),
            (Limit::Timeout, "30"),
            (Limit::Timeout, "0s"),
            (Limit::Fuel, "1.5"),
            (Limit::CpuShare, "50"),
            (Limit::CpuShare, "0%"),
            (Limit::HttpRate, "5"),
            (Limit::HttpRate, "0/s"),
            (Limit::HttpRate, "5/h"),
            (Limit::HttpHostRate, "99999999999999999999/s"),
        ] {
            assert!(limit.parse(bad).is_err(), "{limit} {bad}");
        }
    }
}
