//! Tool calls, a line each.

use std::collections::HashMap;

use holdpoint_client::ToolCall;

use super::one_line;

/// What was shown of the tool calls of a session, so that each has its line once.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    calls: HashMap<String, Call>,
}

#[derive(Debug, Default)]
struct Call {
    tool: Option<String>,
    title: Option<String>,
    shown: bool,
    ended: bool,
}

/// The line for one frame of a tool call, if it is time for one: when the call is known in full, and once more
/// if it fails. Questions have none: they are shown as questions.
pub(crate) fn tool_line(seen: &mut Seen, frame: &ToolCall) -> Option<String> {
    // Over many turns the table would grow without a bound; calls that ended are not needed.
    if seen.calls.len() > 1000 {
        seen.calls.retain(|_, call| !call.ended);
    }
    let call = seen.calls.entry(frame.id.clone()).or_default();
    if frame.tool.is_some() {
        call.tool.clone_from(&frame.tool);
    }
    if frame.title.is_some() {
        call.title.clone_from(&frame.title);
    }
    let ended = matches!(frame.status.as_deref(), Some("completed" | "failed"));
    if frame.is_question() || call.tool.as_deref() == Some(holdpoint_model::question::TOOL_NAME) || call.ended
    {
        call.ended |= ended;
        return None;
    }
    call.ended = ended;
    let failed = frame.status.as_deref() == Some("failed");
    let known = !frame.preparing || ended;
    if !known || (call.shown && !failed) {
        return None;
    }
    call.shown = true;
    let title = name(call.tool.as_deref(), call.title.as_deref());
    Some(if failed {
        let why = frame.text.as_deref().map(|text| format!(": {}", one_line(text, 100))).unwrap_or_default();
        format!("✗ {title}{why}")
    } else {
        format!("· {title}")
    })
}

fn name(tool: Option<&str>, title: Option<&str>) -> String {
    match (tool, title) {
        (Some(tool), Some(title)) if !title.contains(tool) => one_line(&format!("{tool}: {title}"), 140),
        (_, Some(title)) => one_line(title, 140),
        (Some(tool), None) => one_line(tool, 140),
        (None, None) => "a tool".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(id: &str, tool: Option<&str>, title: Option<&str>, status: &str) -> ToolCall {
        ToolCall {
            id: id.into(),
            tool: tool.map(str::to_owned),
            title: title.map(str::to_owned),
            status: Some(status.into()),
            ..ToolCall::default()
        }
    }

    #[test]
    fn a_call_has_one_line_and_a_failed_one_says_why() {
        let mut seen = Seen::default();
        let mut preparing = frame("a", Some("read_file"), None, "pending");
        preparing.preparing = true;
        assert_eq!(tool_line(&mut seen, &preparing), None);
        let running = frame("a", None, Some("src/\u{1b}[1mmain.rs"), "in_progress");
        assert_eq!(tool_line(&mut seen, &running).as_deref(), Some("· read_file: src/␛[1mmain.rs"));
        assert_eq!(tool_line(&mut seen, &running), None);
        assert_eq!(tool_line(&mut seen, &frame("a", None, None, "completed")), None);

        let mut failed = frame("b", Some("run_shell_command"), Some("run_shell_command: false"), "failed");
        failed.text = Some("exit code 1\nmore".into());
        assert_eq!(
            tool_line(&mut seen, &failed).as_deref(),
            Some("✗ run_shell_command: false: exit code 1 more")
        );
        assert_eq!(tool_line(&mut seen, &failed), None);
    }

    #[test]
    fn a_question_is_no_tool_line() {
        let mut seen = Seen::default();
        assert_eq!(
            tool_line(&mut seen, &frame("q", Some("ask_user_question"), Some("Ask"), "pending")),
            None
        );
        assert_eq!(tool_line(&mut seen, &frame("q", None, None, "failed")), None);
    }
}
