//! Tests that need what not every machine has.

/// Says in one line that the rest of the test is not run, and why. Where `CI` is set and what is missing could be
/// had there, that is a failure: a proof that is silently left out is none.
#[track_caller]
pub(crate) fn skipped(why: &str, could_be_had: bool) {
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!(ci && could_be_had), "this must not be skipped where CI is set: {why}");
    eprintln!("SKIPPED: {why}");
}

/// Whether this process may mount: as root, and not in a container that was denied it (`CAP_SYS_ADMIN`).
pub(crate) fn may_mount() -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & SYS_ADMIN != 0)
}

/// Whether there is a `strace` that may trace here; `false` says so.
#[track_caller]
pub(crate) fn may_trace() -> bool {
    let traced = std::process::Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    match traced {
        Ok(output) if output.status.success() => return true,
        // A package away.
        Err(_) => skipped("there is no strace", true),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            skipped(&format!("strace may not trace here: {}", why.trim()), false);
        }
    }
    false
}
