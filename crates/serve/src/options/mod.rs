//! What a server is told at its start: one list, from which the command line, the file of settings and the keywords of
//! Python are derived.

mod file;
mod setting;

pub use setting::{KeepAlive, LogFormat, NamedPath, Network, Reasoning, Span};

use lamina::{
    AdapterPath, Goal, HostPattern, LoadOptions, OptionError, OptionSpec, Surface, UrlReader, hub::PullWatch,
    sample::SamplingParams, settings,
};
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    time::Duration,
};

settings! {
    /// How one model is loaded and answers.
    #[derive(Debug, Clone)]
    pub struct ModelSettings {
        "Loading" {
            /// Low-rank adapter, at this scale in requests that name none (@0: only for those who ask)
            lora: Vec<AdapterPath> = vec![], "[NAME=]PATH[@SCALE]";
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
            /// System message of conversations that begin with none
            system: Option<String> = None, "TEXT";
            /// Chat template instead of the model's: a file
            chat_template: Option<String> = None, "FILE";
            /// Variables of the template, as a JSON object
            chat_template_kwargs: Option<String> = None, "JSON";
            /// Whether reasoning is split off from answers: auto or none
            reasoning: Reasoning = Reasoning::Auto, "auto|none";
        }
        + /// How it is loaded.
        load: LoadOptions = LoadOptions::default(),
    }
}

settings! {
    /// How a server listens, whom it answers, and how much it takes on.
    #[derive(Debug, Clone)]
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
            /// Requests may fetch models of the hub by POST /api/pull and remove them by DELETE /api/delete, with an admin key
            /// where there are keys; models of the hub's cache can be asked for by name
            allow_pull: bool = false, "";
            /// Models in memory at once [default: those named on the command line, and 1 where there may be others]
            max_models: Option<usize> = None, "N";
            /// Folder of the files that POST /slots/N?action=save writes [default: none]
            slot_save_path: Option<PathBuf> = None, "DIR";
        }
        "Answers" {
            /// Tokens of an answer where a request does not say [default: up to the end of the context]
            max_tokens: Option<usize> = None, "N" | "n_predict" | "num_predict";
            /// When a context is full, its first so many tokens and the newer half of the others stay, and answers go on
            /// [default: they end there]
            context_shift: Option<usize> = None, "TOKENS";
        }
        "Load" {
            /// Sequences that run at once [default: 64]
            max_running: usize = 64, "N" | "parallel" | "max_num_seqs";
            /// Processes that answer, each with an engine of its own: an answer whose process is lost goes on in another one,
            /// as if nothing had happened [default: 1]
            replicas: usize = 1, "N";
            /// Replicas that others start by `lamina serve --gateway` join here, such as 0.0.0.0:8081: this process is their gateway
            /// and has no models. All share the key LAMINA_APP_KEY
            replicas_join: Option<String> = None, "HOST:PORT";
            /// Requests that may wait [default: 256]
            max_queue: usize = 256, "N";
            /// Milliseconds to the first token and between tokens that answers are to keep, as ttft=500,tbt=50: while answers are
            /// written, prompts take as much of a step as the time between tokens allows [default: tbt=100]
            goal: Goal = Goal::default(), "GOAL";
            /// Part of a step's time that prompts get while answers are written, however slow steps are [default: 0.5]
            prefill_share: f64 = 0.5, "SHARE";
            /// Bytes of a request's body at most [default: 32M]
            max_body: u64 = 32 << 20, "SIZE";
            /// Bytes of memory that all bodies above 64 kB may hold together until prompts are made of them; others are told
            /// to come back [default: 256M]
            max_body_memory: u64 = 256 << 20, "SIZE";
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
            /// A key that may also force models out of memory, set the scales of adapters for all, and act on slots;
            /// where none is given, a lone key may. May be repeated
            admin_key: Vec<String> = vec![], "KEY" | "admin_keys";
            /// Keys, one a line: KEY [name] [share=N] [priority=N] [admin=yes]
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
        "Pictures" {
            /// Host from which pictures are read where a request names an address in the place of bytes: example.org, or
            /// *.example.org for all below it. May be repeated [default: none]
            allow_media_url: Vec<HostPattern> = vec![], "HOST";
            /// Such addresses may begin with http://
            allow_media_http: bool = false, "";
        }
        "Other" {
            /// No web pages at / and /top
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
            /// Collector of OpenTelemetry that spans of requests are sent to, such as http://127.0.0.1:4318/v1/traces
            /// [default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT]
            otlp_traces_endpoint: Option<String> = None, "URL";
            /// How spans are written: http/protobuf or http/json [default: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, else
            /// http/protobuf]
            otlp_traces_protocol: Option<String> = None, "NAME";
            /// Requests whose first token took longer than this leave a line with where their time went [default: none]
            slow: Option<Span> = None, "DURATION";
            /// Prompts are logged too
            log_prompts: bool = false, "";
            /// Steps of models are not recorded
            no_trace: bool = false, "";
            /// Recordings of models, with texts, for who has a key that may change the server: POST /debug/trace and the
            /// header X-Lamina-Trace
            debug_trace: bool = false, "";
            /// No access log
            quiet: bool = false, "";
        }
        + /// The models: none means the small one inside the package.
        models: Vec<ModelOrigin> = vec![],
        + /// What holds for every model that has no settings of its own.
        model: ModelSettings = ModelSettings::default(),
        + /// What reads pictures at addresses; none: what the options above say.
        url_reader: Option<UrlReader> = None,
        + /// The key of replicas that join; none: that of the environment.
        app_key: Option<String> = None,
        + /// What starts one of several replicas: a program and its arguments.
        replica_command: Vec<OsString> = vec![],
        + /// Sampling of requests that do not say.
        sampling: SamplingParams = SamplingParams::default(),
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

impl ModelOrigin {
    /// Settings of its own.
    fn settings(&mut self) -> Option<&mut ModelSettings> {
        match self {
            ModelOrigin::Path { settings, .. } => settings.as_deref_mut(),
            ModelOrigin::Loaded { .. } => None,
        }
    }
}

impl From<NamedPath> for ModelOrigin {
    fn from(named: NamedPath) -> Self {
        ModelOrigin::Path { name: named.name, path: Some(named.path), settings: None }
    }
}

impl ModelSettings {
    /// Sets an option of a model by name.
    ///
    /// # Errors
    /// When there is no such option, or it does not take the value.
    pub fn put(&mut self, name: &str, value: impl AsRef<OsStr>) -> Result<(), OptionError> {
        let value = value.as_ref();
        let spec = OptionSpec::find(LoadOptions::specs(&[Surface::Model]).chain(Self::SPECS), name)?;
        let own = self.set(spec, value);
        own.unwrap_or_else(|| self.load.put(spec.name, value))
    }
}

impl ModelSettings {
    fn locate(&mut self, watch: &dyn PullWatch) -> lamina::Result<()> {
        self.load = lamina::locate_parts(&self.load, watch)?;
        for lora in &mut self.lora {
            let called = lora.called().to_owned();
            let found =
                lamina::locate(Some(&lora.path), &self.load, watch)?.unwrap_or_else(|| lora.path.clone());
            if found != lora.path {
                lora.name.get_or_insert(called);
                lora.path = found;
            }
        }
        Ok(())
    }
}

/// What requests call a model that was named: the end of its name, without an ending.
fn short_name(name: &str) -> String {
    let end = name.rsplit('/').next().unwrap_or(name);
    let end = end.strip_prefix("ollama:").unwrap_or(end);
    end.strip_suffix(".gguf").unwrap_or(end).to_owned()
}

impl ServeOptions {
    /// True where the engines are other processes.
    pub fn has_gateway(&self) -> bool {
        self.replicas > 1 || self.replicas_join.is_some()
    }

    /// Sets an option of the server, or of all its models, by name.
    ///
    /// # Errors
    /// When there is no such option, or it does not take the value.
    pub fn put(&mut self, name: &str, value: impl AsRef<OsStr>) -> Result<(), OptionError> {
        let value = value.as_ref();
        let spec = OptionSpec::find(Self::specs(), name)?;
        if let Some(done) = self.set(spec, value) {
            return done;
        }
        if !LoadOptions::specs(&[Surface::Server]).any(|shared| shared.name == spec.name) {
            return self.model.put(spec.name, value);
        }
        // Also of models that have settings of their own: these were made before.
        let mut models = self.models.iter_mut().filter_map(ModelOrigin::settings).chain([&mut self.model]);
        models.try_for_each(|model| model.load.put(spec.name, value))
    }

    /// Has all models, drafts and adapters on this machine: those that have names are fetched.
    ///
    /// # Errors
    /// When a name leads to no model, or `watch` gives up.
    pub fn locate(&mut self, watch: &dyn PullWatch) -> lamina::Result<()> {
        self.model.locate(watch)?;
        for origin in &mut self.models {
            let ModelOrigin::Path { name, path, settings } = origin else { continue };
            settings.iter_mut().try_for_each(|settings| settings.locate(watch))?;
            let load = settings.as_ref().map_or(&self.model.load, |settings| &settings.load);
            let found = lamina::locate(path.as_deref(), load, watch)?;
            if let Some(given) = path.as_ref().and_then(|path| path.to_str()).filter(|_| *path != found) {
                // Who typed a name asks by that name too.
                if name.get_or_insert_with(|| short_name(given)) != given {
                    settings.get_or_insert_with(|| Box::new(self.model.clone())).alias.push(given.to_owned());
                }
            }
            *path = found;
        }
        Ok(())
    }

    /// All options: those of the server, those of loading, then the others of models.
    pub fn specs() -> impl Iterator<Item = &'static OptionSpec> + Clone {
        let load = LoadOptions::specs(&[Surface::Server, Surface::Model]);
        ServeOptions::SPECS.iter().chain(load).chain(ModelSettings::SPECS)
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
            assert_eq!(spec.value.is_empty(), spec.kind == lamina::OptionKind::Flag, "{}", spec.name);
        }
    }

    #[test]
    fn options_are_set_by_name() {
        let mut options = ServeOptions::default();
        options.put("port", "0").unwrap();
        options.put("ctx-size", "512").unwrap();
        options.put("api_key", "a").unwrap();
        options.put("api_key", "b").unwrap();
        assert_eq!((options.port, options.model.load.context, options.api_key.len()), (0, Some(512), 2));
        let text = options.put("prot", "1").unwrap_err().to_string();
        assert_eq!(text, "there is no option `prot`; the nearest known one is `port`");
        let text = options.put("sse_ping", "soon").unwrap_err().to_string();
        assert!(text.starts_with("sse_ping is \"soon\", but must be a duration"), "{text}");
        let text = options.put("context", "0").unwrap_err().to_string();
        assert_eq!(text, "context is \"0\", but must be a whole number from 1");
    }

    #[test]
    fn what_all_models_share_also_reaches_those_with_settings_of_their_own() {
        let mut options = ServeOptions::default();
        let text = "cache_disk = '2G'\n[models.a]\npath = 'a.gguf'\n";
        options.read(text, "/m".as_ref()).unwrap();
        for (name, value) in [("kv_swap", "ram:1G"), ("kv-memory", "3G"), ("context", "64")] {
            options.put(name, value).unwrap();
        }
        let load = options.models[0].settings().unwrap().load.clone();
        let shared = (load.cache_disk, load.kv_swap.budget.memory, load.kv_memory);
        assert_eq!(shared, (2_000_000_000, 1_000_000_000, Some(3_000_000_000)));
        assert_eq!((load.context, options.model.load.context), (None, Some(64)));
        let wrong = options.read("[models.b]\npath = 'b'\ncache_dir = 'c'\n", "/m".as_ref()).unwrap_err();
        assert!(wrong.starts_with("models.b: there is no option `cache_dir`"), "{wrong}");
    }
}
