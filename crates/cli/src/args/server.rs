//! Which server is asked in place of a model on this machine.

use lamina::{LoadOptions, Surface};

/// What decides how a model is loaded on this machine.
fn loading() -> impl Iterator<Item = &'static str> {
    LoadOptions::specs(&[Surface::Answer]).map(|spec| spec.name)
}

/// A server and its key.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Ask a server instead of loading a model: any that speaks OpenAI's API, such as http://127.0.0.1:8080. MODEL is
    /// then the name of one of its models [default: its first one]
    #[arg(long, value_name = "URL", conflicts_with_all = loading())]
    pub server: Option<String>,
    /// Key of the server
    #[arg(long, value_name = "KEY", env = "LAMINA_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
}
