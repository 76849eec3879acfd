//! Whose words a request is written in.

/// The API that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `/v1/..`, also without `/v1`.
    OpenAi,
    /// `/v1/messages`.
    Anthropic,
    /// What llama-server, vLLM and others have beside OpenAI's.
    Native,
    /// `/api/..`.
    Ollama,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Dialect; 4] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Native, Dialect::Ollama];

    /// The dialect that errors before the routing are told in.
    pub fn of_path(path: &str) -> Dialect {
        let bare = path.strip_prefix("/v1").unwrap_or(path);
        match () {
            () if path.starts_with("/v1/messages") => Dialect::Anthropic,
            () if path.starts_with("/api/") => Dialect::Ollama,
            () if path.starts_with("/v1/") => Dialect::OpenAi,
            () if ["/chat/completions", "/models"].contains(&bare) => Dialect::OpenAi,
            () => Dialect::Native,
        }
    }

    /// Label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Native => "native",
            Dialect::Ollama => "ollama",
        }
    }
}
