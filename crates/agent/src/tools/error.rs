//! Why a call did not do what the model wanted. Every text is for the model: what was wrong, what to do.

/// Why a call cannot run, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// There is no such tool.
    #[error("there is no tool {name:?}; the tools are: {}", available.join(", "))]
    UnknownTool {
        /// What was called.
        name: String,
        /// What can be called.
        available: Vec<String>,
    },
}
