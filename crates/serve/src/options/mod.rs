//! What a server is told at its start: one list, from which the command line, the file of settings and the keywords of
//! Python are derived.

mod file;
mod setting;

pub use setting::{Arity, ByteSize, KeepAlive, LogFormat, NamedPath, Network, Reasoning, ScaledPath, Span};

use lamina::sample::SamplingParams;
use setting::Setting;
use std::{path::PathBuf, time::Duration};

/// One option as the outside sees it.
#[derive(Debug)]
pub struct OptionSpec {
    /// Name, as Python and files write it; the command line has dashes for underscores.
    pub name: &'static str,
    /// Names that users of other servers type.
    pub aliases: &'static [&'static str],
    /// What stands for its value in help.
    pub value: &'static str,
    /// How often it may be given.
    pub arity: Arity,
    /// Heading in help.
    pub heading: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// An option that does not exist, or a value that it does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No such option.
    #[error("there is no option `{name}`; the nearest known one is `{nearest}`")]
    Unknown {
        /// As given.
        name: String,
        /// What may have been meant.
        nearest: &'static str,
    },
    /// A wrong value.
    #[error("{name} is {value:?}, but must be {want}")]
    Value {
        /// The option.
        name: &'static str,
        /// As given.
        value: String,
        /// What would work.
        want: String,
    },
}

/// Makes the struct, its defaults, its list and its setter out of the same lines:
/// `name: type = default, "VALUE" | "alias";`.
macro_rules! settings {
    ($(#[doc = $about:literal])+ pub struct $group:ident { $($heading:literal {
        $($(#[doc = $doc:literal])+ $field:ident: $ty:ty = $default:expr, $value:literal $(| $alias:literal)*;)*
    })* $(+ $(#[doc = $more:literal])+ $other:ident: $other_ty:ty,)* }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        pub struct $group {
            $($($(#[doc = $doc])+ pub $field: $ty,)*)*
            $($(#[doc = $more])+ pub $other: $other_ty,)*
        }

        impl Default for $group {
            fn default() -> Self {
                $group { $($($field: $default,)*)* $($other: Default::default(),)* }
            }
        }

        impl $group {
            /// Every option, in the order of the help.
            pub const SPECS: &[OptionSpec] = &[$($(OptionSpec {
                name: stringify!($field),
                aliases: &[$($alias),*],
                value: $value,
                arity: <$ty as Setting>::ARITY,
                heading: $heading,
                doc: concat!($($doc),+).trim_ascii(),
            },)*)*];

            /// Sets the option of that name or alias from its text; one that may be given often grows.
            ///
            /// # Errors
            /// When there is no such option, or it does not take the value.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
                let spec = find(Self::SPECS, name)?;
                let wrong = |want| OptionError::Value { name: spec.name, value: value.into(), want };
                match spec.name {
                    $($(stringify!($field) => self.$field.put(value).map_err(wrong),)*)*
                    _ => Ok(()),
                }
            }
        }
    };
}

fn find(specs: &'static [OptionSpec], name: &str) -> Result<&'static OptionSpec, OptionError> {
    let canonical = name.replace('-', "_");
    let known = |s: &&OptionSpec| s.name == canonical || s.aliases.contains(&canonical.as_str());
    let distance = |s: &&OptionSpec| strsim::damerau_levenshtein(s.name, &canonical);
    let nearest = || specs.iter().min_by_key(distance).map_or("", |s| s.name);
    let unknown = || OptionError::Unknown { name: name.into(), nearest: nearest() };
    specs.iter().find(known).ok_or_else(unknown)
}

settings! {
    /// How one model is loaded and answers.
    pub struct ModelSettings {
        "Loading" {
            /// Longest sequence in tokens [default: the model's own, cut to what fits into memory]
            context: Option<usize> = None, "TOKENS" | "ctx_size" | "max_model_len";
            /// Number type of cached keys and values, as in `lamina run`
            kv_dtype: String = "f16".into(), "TYPE" | "cache_type";
            /// Type to quantize matrices to while loading; auto keeps the file's
            dtype: String = "auto".into(), "TYPE";
            /// Threads [default: physical cores]
            threads: Option<usize> = None, "N";
            /// Where to run: cpu, cuda, cuda:1, or auto for a GPU that can be used and else the CPU
            device: String = "auto".into(), "DEVICE";
            /// Most memory that the process may take, such as 8GiB or 80%; weights that do not fit are read from disk in
            /// every step [default: what the system or the container has]
            memory: Option<String> = None, "SIZE";
            /// Most memory that may be taken of a GPU, such as 6GiB or 80%; what of the model does not fit there is computed
            /// on the CPU [default: what is free there]
            device_memory: Option<String> = None, "SIZE";
            /// Layers of which weights lie on the GPU, the last ones; one more is the output matrix [default: as many as fit]
            n_gpu_layers: Option<usize> = None, "N" | "gpu_layers";
            /// Weights that do not fit into memory: auto reads them from disk, never refuses the model
            offload: String = "auto".into(), "HOW";
            /// Where weights lie, as in `lamina run`: WHAT=device|ram|disk, the first match decides
            place: Vec<String> = vec![], "RULE" | "override_tensor";
            /// Percent of weights, cache and activations on a device and in memory, as in FlexGen; the rest is on disk
            percent: Option<String> = None, "SIX NUMBERS";
            /// All experts stay in memory, beside a GPU too
            cpu_moe: bool = false, "";
            /// Experts of the first N layers stay in memory, beside a GPU too
            n_cpu_moe: Option<usize> = None, "N";
            /// Drop chosen experts of small weight: 4,0.1 keeps 4 in any case, and others from 0.1 of the largest weight on:
            /// an approximation
            fewer_experts: Option<String> = None, "LEAST,SHARE" | "smart_expert_reduction";
            /// Add the results of each token's N experts of least weight one layer later: an approximation
            defer_experts: Option<usize> = None, "N";
            /// Share of the values of attention that answers read, those with the largest weights: an approximation
            /// [default: all]
            attention_sparsity: Option<f64> = None, "SHARE";
            /// Share of the blocks of 64 tokens between the first one and the last two that rows of prompts attend to: an
            /// approximation [default: all]
            sparse_prefill: Option<f64> = None, "SHARE";
            /// Folder that keeps all weights in the form that they are multiplied in, for the next start
            panel_cache: Option<PathBuf> = None, "DIR";
            /// Low-rank adapter, at this scale in requests that name none (@0: only for those who ask)
            lora: Vec<ScaledPath> = vec![], "[NAME=]PATH[@SCALE]";
            /// Rows of one step [default: what the device likes best]
            batch_rows: Option<usize> = None, "N";
            /// What guesses tokens ahead: ngram, lookahead, mtp, auto, a smaller model with the same tokens, or a head
            draft: Option<String> = None, "NAME|MODEL";
            /// Guesses of each step, whatever they cost; 0 is none [default: as many as pay]
            draft_width: Option<usize> = None, "N";
        }
        "Models" {
            /// Another name that requests may call the model
            alias: Vec<String> = vec![], "NAME";
            /// How long a model stays in memory after its last request [default: 5m in a directory, else forever]
            keep_alive: Option<KeepAlive> = None, "DURATION";
            /// How an embedding is made of a model's rows where the model does not say: mean, cls or last
            pooling: Option<String> = None, "TYPE";
            /// Ranks documents by asking the model, where it has no head that scores them
            reranking: bool = false, "";
        }
        "Answers" {
            /// Chat template instead of the model's: a file
            chat_template: Option<String> = None, "FILE";
            /// Variables of the template, as a JSON object
            chat_template_kwargs: Option<String> = None, "JSON";
            /// Whether reasoning is split off from answers: auto or none
            reasoning: Reasoning = Reasoning::Auto, "auto|none";
        }
    }
}

settings! {
    /// How a server listens, whom it answers, and how much it takes on.
    pub struct ServeOptions {
        "Listening" {
            /// Address to listen on, or unix:/path [default: 127.0.0.1]
            host: String = "127.0.0.1".into(), "HOST";
            /// Port; 0 takes any that is free [default: 8080]
            port: u16 = 8080, "PORT";
            /// Certificate chain, PEM: the server speaks TLS
            tls_cert: Option<PathBuf> = None, "FILE";
            /// Key of the certificate, PEM
            tls_key: Option<PathBuf> = None, "FILE";
        }
        "Models" {
            /// Directory whose models can be asked for by name; they are loaded when they are
            models_dir: Option<PathBuf> = None, "DIR";
            /// Models in memory at once [default: those named on the command line, else 1]
            max_models: Option<usize> = None, "N";
            /// Memory for cached keys and values of each model [default: by what is free]
            kv_memory: Option<ByteSize> = None, "SIZE";
            /// Folder that keeps computed beginnings of prompts across restarts [default: none]
            cache_dir: Option<PathBuf> = None, "DIR";
            /// What this folder may take on disk [default: 10 GB]
            cache_disk: ByteSize = ByteSize(lamina::CACHE_DISK), "SIZE";
            /// What requests that wait for memory may take beside the cache of each model, where that is cheaper than computing
            /// them again: a size on disk, or ram:2GiB, or ram:2GiB,disk:8GiB [default: they are computed again]
            kv_swap: Option<String> = None, "SIZE";
            /// Folder of the files that POST /slots/N?action=save writes [default: none]
            slot_save_path: Option<PathBuf> = None, "DIR";
        }
        "Answers" {
            /// Tokens of an answer where a request does not say [default: up to the end of the context]
            max_tokens: Option<usize> = None, "N" | "n_predict";
            /// When a context is full, its first so many tokens and the newer half of the others stay, and answers go on
            /// [default: they end there]
            context_shift: Option<usize> = None, "TOKENS";
        }
        "Load" {
            /// Sequences that run at once [default: 64]
            max_running: usize = 64, "N" | "parallel" | "max_num_seqs";
            /// Requests that may wait [default: 256]
            max_queue: usize = 256, "N";
            /// Part of a step's time that prompts may take while answers are written [default: 0.5]
            prefill_share: f64 = 0.5, "SHARE";
            /// Bytes of a request's body at most [default: 32M]
            max_body: ByteSize = ByteSize(32 << 20), "SIZE";
            /// Connections at once [default: 4096]
            max_connections: usize = 4096, "N";
            /// Threads for HTTP [default: 1]
            http_threads: usize = 1, "N";
        }
        "Times" {
            /// A request ends after this long [default: never]
            request_timeout: Option<Span> = None, "DURATION";
            /// A request that waits longer than this for its first step ends [default: never]
            queue_timeout: Option<Span> = None, "DURATION";
            /// A reader that takes nothing for so long is cut off [default: 60s]
            slow_client_timeout: Span = Span(Duration::from_secs(60)), "DURATION";
            /// An engine whose step takes longer counts as stalled [default: 600s]
            stall_timeout: Span = Span(Duration::from_secs(600)), "DURATION";
            /// Silence in a stream after which a ping is sent [default: 30s]
            sse_ping: Span = Span(Duration::from_secs(30)), "DURATION";
            /// How long the port stays open after the end was asked for [default: 0s]
            drain_delay: Span = Span(Duration::ZERO), "DURATION";
            /// How long running requests may take after the end was asked for [default: 30s]
            drain_timeout: Span = Span(Duration::from_secs(30)), "DURATION";
        }
        "Access" {
            /// A key that requests must bring; may be repeated. LAMINA_API_KEY is one too
            api_key: Vec<String> = vec![], "KEY" | "api_keys";
            /// Keys, one a line: KEY [name] [share=N] [priority=N]
            api_key_file: Option<PathBuf> = None, "FILE";
            /// Web page that may ask, such as https://example.org; * means any
            cors_origin: Vec<String> = vec![], "ORIGIN";
            /// Name under which browsers may reach the server beside localhost
            allowed_host: Vec<String> = vec![], "HOST";
            /// Proxy whose X-Forwarded-For is believed
            trusted_proxy: Vec<Network> = vec![], "NET";
            /// Computed beginnings are not shared between keys
            isolate_tenants: bool = false, "";
        }
        "Other" {
            /// No web page at /
            no_page: bool = false, "";
            /// No /slots
            no_slots: bool = false, "";
            /// No /metrics
            no_metrics: bool = false, "";
            /// Prefix of metrics' names; vllm fits ready-made dashboards [default: lamina]
            metrics_prefix: String = "lamina".into(), "PREFIX";
            /// Unknown fields of requests are ignored instead of refused
            lenient: bool = false, "";
            /// Access log as text or as JSON [default: text]
            log_format: LogFormat = LogFormat::Text, "text|json";
            /// Prompts are logged too
            log_prompts: bool = false, "";
            /// No access log
            quiet: bool = false, "";
        }
        + /// The models: none means the small one inside the package.
        models: Vec<ModelOrigin>,
        + /// What holds for every model that has no settings of its own.
        model: ModelSettings,
        + /// Sampling of requests that do not say.
        sampling: SamplingParams,
    }
}

/// A model that a server offers.
#[derive(Clone)]
pub enum ModelOrigin {
    /// A checkpoint, loaded by the server.
    Path {
        /// What requests call it; none: the file's stem.
        name: Option<String>,
        /// Where it is; none: the model inside the package.
        path: Option<PathBuf>,
        /// Settings of its own, instead of those for all.
        settings: Option<Box<ModelSettings>>,
    },
    /// A model that is loaded already, and is not closed with the server.
    Loaded {
        /// What requests call it.
        name: String,
        /// The model.
        model: lamina::Model,
    },
}

impl std::fmt::Debug for ModelOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ModelOrigin::Path { name, path, .. } => write!(f, "Path({name:?}, {path:?})"),
            ModelOrigin::Loaded { name, .. } => write!(f, "Loaded({name:?})"),
        }
    }
}

impl From<NamedPath> for ModelOrigin {
    fn from(named: NamedPath) -> Self {
        ModelOrigin::Path { name: named.name, path: Some(named.path), settings: None }
    }
}

impl ServeOptions {
    /// Sets an option of the server, or of all its models, by name.
    ///
    /// # Errors
    /// When there is no such option, or it does not take the value.
    pub fn put(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match self.set(name, value) {
            Err(unknown @ OptionError::Unknown { .. }) => match self.model.set(name, value) {
                Err(OptionError::Unknown { .. }) => Err(unknown),
                other => other,
            },
            other => other,
        }
    }

    /// All options: those of the server, then those of models.
    pub fn specs() -> impl Iterator<Item = &'static OptionSpec> {
        ServeOptions::SPECS.iter().chain(ModelSettings::SPECS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_say_what_they_mean() {
        let mut seen = HashSet::new();
        for spec in ServeOptions::specs() {
            assert!(spec.doc.len() > 5 && !spec.doc.ends_with('.'), "{}", spec.name);
            for name in std::iter::once(&spec.name).chain(spec.aliases) {
                assert!(seen.insert(*name), "{name} twice");
            }
            assert_eq!(spec.value.is_empty(), spec.arity == Arity::Flag, "{}", spec.name);
        }
    }

    #[test]
    fn options_are_set_by_name() {
        let mut options = ServeOptions::default();
        options.put("port", "0").unwrap();
        options.put("ctx-size", "512").unwrap();
        options.put("api_key", "a").unwrap();
        options.put("api_key", "b").unwrap();
        assert_eq!((options.port, options.model.context, options.api_key.len()), (0, Some(512), 2));
        let text = options.put("prot", "1").unwrap_err().to_string();
        assert_eq!(text, "there is no option `prot`; the nearest known one is `port`");
        let text = options.put("sse_ping", "soon").unwrap_err().to_string();
        assert!(text.starts_with("sse_ping is \"soon\", but must be a duration"), "{text}");
    }
}
