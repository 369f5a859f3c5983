//! Lines of JSON-RPC from either side: what an agent prints, and what a client sends to our agent.

use tokio::runtime::{Builder, Runtime};

use crate::in_proportion;

/// Longest line that the target reads: short, so that a fuzzer finds the limit.
const MAX_LINE: usize = 512;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O")
}

/// What an agent process prints, read by the daemon.
pub fn agent_output(bytes: &[u8]) {
    let read = runtime().block_on(holdpoint_acp_host::fuzz::read(bytes, MAX_LINE));
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(read.messages <= lines, "{lines} lines became {} messages", read.messages);
    // A number may be written out longer than it came, and each message is looked at in four ways.
    let most = 32 * bytes.len() + 256 * lines;
    assert!(read.bytes <= most, "{} bytes became {}", bytes.len(), read.bytes);
    if let Some(why) = read.broken {
        assert!(why.len() < 2048, "what is said of a broken agent quotes it at length: {why}");
    }
}

/// What a client sends to our agent.
pub fn client_input(bytes: &[u8]) {
    let (messages, answers) = runtime().block_on(holdpoint_agent::fuzz::talk(bytes));
    let lines = bytes.split(|byte| *byte == b'\n').count();
    assert!(messages <= lines, "{lines} lines became {messages} messages");
    // A complaint has the id of what it is about, and none of its text.
    assert!(answers.len() <= in_proportion(bytes.len()) + 256 * lines, "{} bytes of answers", answers.len());
    for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        serde_json::from_slice::<serde_json::Value>(line).expect("each line that is sent is JSON");
    }
}
