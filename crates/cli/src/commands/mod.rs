//! The list of commands.

#[cfg(feature = "client")]
mod ask;
#[cfg(feature = "serve")]
mod batch;
#[cfg(all(feature = "client", feature = "serve"))]
mod batch_server;
mod bench;
#[cfg(feature = "client")]
mod bench_server;
mod cache;
mod cache_panels;
mod card;
mod chat;
#[cfg(feature = "client")]
mod chat_server;
mod completions;
#[cfg(feature = "convert")]
mod convert;
mod detokenize;
mod doctor;
mod eval;
mod grammar;
#[cfg(feature = "convert")]
mod imatrix;
mod inspect;
mod list;
#[cfg(feature = "client")]
mod login;
mod man;
#[cfg(feature = "convert")]
mod merge;
#[cfg(feature = "serve")]
mod modelfile;
mod perplexity;
#[cfg(feature = "client")]
mod ping;
mod plan;
#[cfg(feature = "client")]
mod pull;
#[cfg(feature = "convert")]
mod quantize;
mod rank;
mod removal;
mod run;
#[cfg(feature = "client")]
mod run_server;
#[cfg(feature = "client")]
mod search;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "convert")]
mod split;
mod support;
mod tokenize;
#[cfg(feature = "client")]
mod top;
#[cfg(feature = "see")]
mod trace;

use crate::error::Result;
use clap::{ArgMatches, Args};

/// A command: its arguments are the fields of the type, its help is the type's documentation.
trait Execute: Args {
    /// The word that users type.
    const NAME: &'static str;

    /// Does it.
    fn execute(self) -> Result<()>;
}

/// A command as the list has it.
pub struct Command {
    /// The word that users type.
    pub name: &'static str,
    define: fn() -> clap::Command,
    /// Reads its arguments and does it.
    pub execute: fn(&ArgMatches) -> Result<()>,
}

/// All commands, in the order of the help.
pub const ALL: &[Command] = &[
    asking::<run::RunArgs>(),
    asking::<chat::ChatArgs>(),
    #[cfg(feature = "serve")]
    command::<serve::ServeArgs>(),
    command::<rank::RankArgs>(),
    #[cfg(feature = "client")]
    command::<top::TopArgs>(),
    #[cfg(feature = "serve")]
    asking::<batch::BatchArgs>(),
    #[cfg(feature = "client")]
    command::<ping::PingArgs>(),
    asking::<bench::BenchArgs>(),
    command::<plan::PlanArgs>(),
    #[cfg(feature = "see")]
    command::<trace::TraceArgs>(),
    command::<perplexity::PerplexityArgs>(),
    command::<eval::EvalArgs>(),
    command::<card::CardArgs>(),
    command::<inspect::InspectArgs>(),
    command::<support::SupportArgs>(),
    #[cfg(feature = "convert")]
    command::<quantize::QuantizeArgs>(),
    #[cfg(feature = "convert")]
    command::<imatrix::ImatrixArgs>(),
    #[cfg(feature = "convert")]
    command::<convert::ConvertArgs>(),
    #[cfg(feature = "serve")]
    command::<modelfile::ModelfileArgs>(),
    #[cfg(feature = "convert")]
    command::<split::SplitFileArgs>(),
    #[cfg(feature = "convert")]
    command::<merge::MergeArgs>(),
    command::<tokenize::TokenizeArgs>(),
    command::<detokenize::DetokenizeArgs>(),
    command::<grammar::GrammarFileArgs>(),
    #[cfg(feature = "client")]
    command::<pull::PullArgs>(),
    command::<list::ListArgs>(),
    command::<removal::RemovalArgs>(),
    #[cfg(feature = "client")]
    command::<search::SearchArgs>(),
    #[cfg(feature = "client")]
    command::<login::LoginArgs>(),
    #[cfg(feature = "client")]
    command::<login::LogoutArgs>(),
    command::<cache::CacheFolderArgs>(),
    command::<doctor::DoctorArgs>(),
    command::<completions::CompletionsArgs>(),
    command::<man::ManArgs>(),
];

const fn command<C: Execute>() -> Command {
    Command {
        name: C::NAME,
        define: || C::augment_args(clap::Command::new(C::NAME)),
        execute: |matches| C::from_arg_matches(matches)?.execute(),
    }
}

/// A command whose work a server can do, in builds that can ask one.
#[cfg(feature = "client")]
const fn asking<C: ask::Ask>() -> Command {
    Command { name: C::NAME, define: ask::define::<C>, execute: ask::execute::<C> }
}

#[cfg(not(feature = "client"))]
const fn asking<C: Execute>() -> Command {
    command::<C>()
}

const ABOUT: &str = "Large language models on the machine you have";
const MORE: &str = "\
MODEL is a GGUF file (or its first shard), a Hugging Face folder, or a name: hf:org/repo[:TAG|/FILE][@REVISION], \
https://.., ollama:name[:TAG], lmstudio:org/repo; what is not here is fetched. Without one, the model that LAMINA_MODEL \
names is used, or else the small one inside the package.

With the Python package and Ray, `lamina deploy` starts a gateway and replicas on a cluster.

Answers and reports go to stdout; progress and notes go to stderr. With --json a report is one JSON object.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 ended by Ctrl-C.";

/// The whole command line.
pub fn parser() -> clap::Command {
    clap::Command::new("lamina")
        .bin_name("lamina")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .after_help(MORE)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(110)
        .subcommands(ALL.iter().map(|c| (c.define)()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_parser_is_sound() {
        super::parser().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_does() {
        for command in super::parser().get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() > 10, "{}: {about}", command.get_name());
            // What a set of flags says of itself is about no command.
            assert!(!about.contains("server and its key"), "{}: {about}", command.get_name());
        }
    }
}
