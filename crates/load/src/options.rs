//! How a model is loaded: one list of options, from which the struct, the command line, the server's settings and the
//! keywords of Python are derived. A new option is a line of it, and the code that heeds it.

use crate::{
    approximate_experts::{ApproximateExperts, ExpertThreshold},
    device::Device,
    draft::DraftSource,
    encoder_backend::EncoderBackend,
    kv_swap::KvSwap,
    mmproj::MmprojChoice,
    read_settings,
    setting::{
        OptionError, OptionKind, OptionSpec, Setting,
        Surface::{self, Answer, Model, Python, Rank, Score, Server},
    },
    settings,
};
use lamina_base::DType;
use lamina_disk::{PanelCheck, Reporter};
use lamina_engine::{Goal, Policy};
use lamina_image::RequestLimits;
use lamina_plan::{AttentionSparsity, KvDtype, ReadShare};
use lamina_planner::{
    BadValue, MemoryLimit, Objective, Offload, PlacementOptions, PlacementPolicy, PlacementRule,
    StreamOptions, TierPercent, bytes,
};
use lamina_ranks::{RankList, StageList};
use std::{ffi::OsStr, num::NonZeroUsize, path::PathBuf};

/// Who answers.
const ANSWERS: &[Surface] = &[Answer, Model, Python];
/// The same, where one setting is for all models of a server.
const SHARED: &[Surface] = &[Answer, Server, Python];
/// Who loads a model.
const ALL: &[Surface] = &[Answer, Score, Model, Python];
/// The same, and who computes layers for one of them.
const MACHINE: &[Surface] = &[Answer, Score, Model, Python, Rank];

settings! {
    /// How a model is loaded.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LoadOptions {
        "Loading" {
            /// Longest sequence in tokens [default: the model's own, cut to what fits into memory]
            context: Option<usize> = None, "TOKENS" | "ctx_size" | "max_model_len" | "num_ctx" {letters "c", from 1, on ANSWERS};
            /// Nothing is fetched: of models that have names, those that were fetched before are used
            offline: bool = false, "" {on &[Answer, Score, Server, Python]};
            /// What guesses tokens ahead: ngram, lookahead, mtp (the checkpoint's own layers), auto, a smaller model with the
            /// same tokens, or an EAGLE or Medusa head. Answers are the same with and without
            draft: Option<DraftSource> = None, "NAME|MODEL" {on ANSWERS};
            /// Guesses of each step, whatever they cost; 0 is none [default: as many as pay]
            draft_width: Option<usize> = None, "N" {on &[Answer, Model]};
            /// What preempted sequences may take beside the cache, where that is cheaper than computing them again: a size on
            /// disk such as 8GiB, or ram:2GiB, or ram:2GiB,disk:8GiB [default: they are computed again]
            kv_swap: KvSwap = KvSwap::default(), "SIZE" {on SHARED};
            /// Memory for cached keys and values of each model [default: by what is free]
            kv_memory: Option<u64> = None, "SIZE" {on &[Server]};
            /// Folder that keeps what was computed of prompts: the same beginning is read after a restart, or by other
            /// processes, instead of computed
            cache_dir: Option<PathBuf> = None, "DIR" {on SHARED};
            /// What this folder may take on disk, such as 20G [default: 10G]
            cache_disk: u64 = CACHE_DISK, "SIZE" {needs "cache_dir", on SHARED};
            /// The file with the encoder of pictures of a GGUF model, auto for the one beside it that fits, or off, which reads
            /// nothing of an encoder: text only [default: auto]
            mmproj: MmprojChoice = MmprojChoice::Auto, "FILE" {on ANSWERS};
            /// Where encoders of pictures and sound run: cpu, cuda, cuda:1, or auto for the model's own device, as far as it has
            /// room for both, and the CPU where a GPU has part of the model [default: auto]
            mmproj_device: Device = Device::Auto, "DEVICE" {on ANSWERS};
            /// Most tokens of a picture, which trades detail for time, where the model's rule has a bound [default: its own]
            image_max_tokens: Option<usize> = None, "N" {from 1, on ANSWERS};
            /// Fewest tokens of a picture: smaller ones are enlarged, where the model's rule does so [default: its own]
            image_min_tokens: Option<usize> = None, "N" {from 1, on ANSWERS};
            /// What pictures may measure: bytes and pixels and the longer side of each, pixels and number of all in a
            /// request; some or all of them [default: bytes=20MiB,pixels=64M,side=16384,all=256M,count=64]
            image_limit: RequestLimits = RequestLimits::default(), "LIMITS" {on ANSWERS};
            /// Memory for what encoders made of the last pictures, such as 1GiB; 0 keeps none [default: 512MiB]
            image_cache: u64 = IMAGE_CACHE, "SIZE" {on SHARED};
            /// Threads [default: physical cores]
            threads: Option<usize> = None, "N" | "num_thread" {letters "t", from 1, on MACHINE};
            /// Rows of one step: longer prompts are computed in pieces [default: what the device likes best]
            batch_rows: Option<usize> = None, "N" {from 1, on &[Model]};
            /// Number type of cached keys and values: f32 f16 bf16 q8_0 q4_0 q4_1 fp8, or apart: k=q8_0,v=q4_0, and for
            /// layers that see all, a window or a chunk: window=f16,full.k=q8_0 [default: f16]
            kv_dtype: KvDtype = KvDtype::default(), "TYPE" | "cache_type" {on ALL};
            /// Type to quantize matrices to while loading, such as q8_0; auto keeps the file's [default: auto]
            dtype: Option<DType> = None, "TYPE" {on ALL};
            /// Where to run: cpu, cuda, cuda:1, or auto for a GPU that can be used and holds the model, and else the CPU.
            /// What a GPU that is named has no memory for is computed on the CPU [default: auto]
            device: Device = Device::Auto, "DEVICE" {on MACHINE};
            /// Most memory that the process may take, such as 8GiB or 80%. Weights that do not fit are read from disk in
            /// every step [default: what the system or the container has]
            memory: Option<MemoryLimit> = None, "SIZE" {on MACHINE};
            /// Most memory that may be taken of a GPU, such as 6GiB or 80%; what of the model does not fit there is computed
            /// on the CPU [default: what is free there]
            device_memory: Option<MemoryLimit> = None, "SIZE" {on MACHINE};
            /// Ranks that compute layers of the model, each a process of lamina rank, mostly on another machine: HOST:PORT, or
            /// HOST:PORT=LAYERS, in the order of the layers [default: none]
            stages: StageList = StageList::default(), "HOST:PORT,.." | "rpc" {on ALL};
            /// Ranks that compute some rows of each matrix of the model (tensor parallel): one answer comes faster. HOST:PORT of
            /// each process of lamina rank on another machine; or numa, one in this process for each node of the machine's
            /// memory; or how many in this process [default: none]
            tp: RankList = RankList::default(), "HOST:PORT,..|numa|N" {on ALL};
            /// Weights that do not fit into memory: auto reads them from disk, never refuses the model [default: auto]
            offload: Offload = Offload::Auto, "HOW" {on MACHINE};
            /// What requests are served for: latency, or throughput for jobs that count as a whole. It changes the policy,
            /// and how memory is divided where weights are read from disk [default: latency]
            objective: Objective = Objective::Latency, "WHAT" {on &[Python]};
        }
        parts "Loading" {
            /// Layers of which weights lie on the GPU, the last ones; one more is the output matrix; -ngl is the same
            /// [default: as many as fit]
            n_gpu_layers: Option<usize> = placement.device_layers, "N" | "gpu_layers" | "num_gpu" {letters "ngl", on ALL};
            /// Where weights lie, the first match decides: WHAT=device|ram|disk, or up|disk-up for what a device computes
            /// with and is sent in every step, with WHAT a class (attention ffn experts shared head embedding), one of some
            /// layers (ffn 0-9), layers (layers 0-9), a regular expression over names of tensors, or the cache (kv, kv 0-9),
            /// which is on a device, in memory or on disk; -ot is the same
            place: Vec<PlacementRule> = placement.rules, "RULE" | "override_tensor" {letters "ot", on ALL};
            /// Percent of weights, cache and activations on a device and in memory, as in FlexGen; the rest is on disk:
            /// "0 40 0 100 0 100" keeps 40 % of the weights in memory, "20 60 50 50 0 100" has 20 % and half of the cache on
            /// a GPU
            percent: Option<TierPercent> = placement.percent, "SIX NUMBERS" {on ALL};
            /// All experts stay in memory, beside a GPU too
            cpu_moe: bool = placement.cpu_moe, "" {on &[Answer, Score, Model]};
            /// Experts of the first N layers stay in memory, beside a GPU too
            n_cpu_moe: Option<usize> = placement.n_cpu_moe, "N" {from 1, against "cpu_moe", on ALL};
            /// Drop chosen experts of small weight: 4,0.1 keeps 4 in any case, and others from 0.1 of the largest weight on.
            /// Answers are approximate; -ser is the same
            fewer_experts: Option<ExpertThreshold> = experts.fewer, "LEAST,SHARE" | "smart_expert_reduction" {letters "ser", on ALL};
            /// Add the results of each token's N experts of least weight one layer later, so that there is more time to read
            /// them. Answers are approximate
            defer_experts: Option<NonZeroUsize> = experts.deferred, "N" {on ALL};
            /// Answers read this share of the values of attention, those with the largest weights, such as 0.1 (FlexGen's
            /// sparse attention): an approximation [default: all]
            attention_sparsity: Option<ReadShare> = sparsity.values, "SHARE" {on ALL};
            /// Rows of prompts attend to this share of the blocks of 64 tokens between the first one and the last two: an
            /// approximation [default: all]
            sparse_prefill: Option<ReadShare> = sparsity.prefill, "SHARE" {on ALL};
            /// Keep all weights of a model that is read from disk in this folder, in the form that they are multiplied in:
            /// the next start reads them from there. Without it, what is streamed is kept in the user's cache folder
            panel_cache: Option<PathBuf> = stream.folder, "DIR" {on MACHINE};
            /// When weights that are read from disk are compared with their checksums: always, which makes an error of what
            /// changes there later, or first, when a part is read for the first time [default: always]
            panel_check: PanelCheck = stream.check, "WHEN" {on MACHINE};
        }
        + /// Which weights are in memory, as far as the user says.
        placement: PlacementPolicy = PlacementPolicy::default(),
        + /// Approximations of mixtures of experts.
        experts: ApproximateExperts = ApproximateExperts::default(),
        + /// What attention leaves out, an approximation.
        sparsity: AttentionSparsity = AttentionSparsity::NONE,
        + /// How weights are streamed that do not fit.
        stream: StreamOptions = StreamOptions::default(),
        + /// Low-rank adapters to load beside the model, by the names that requests call them: folders that PEFT saved, or
        /// GGUF adapters. Each surface writes them in its own way.
        loras: Vec<(String, PathBuf)> = vec![],
        + /// Computed beginnings are kept for later requests.
        reuse_prefixes: bool = true,
        + /// How many requests run and wait, and how prompts and answers share a step.
        policy: Policy = Policy::default(),
        + /// What `mmproj_device` names, once it is opened.
        encoders: EncoderBackend = EncoderBackend::default(),
        + /// Who is told what goes wrong beside requests.
        report: Reporter = Reporter::default(),
    }
}

/// Bytes of rows that are kept where nobody says more: two hundred pictures of a model of 4B parameters.
pub const IMAGE_CACHE: u64 = 512 << 20;

/// Bytes of a cache on disk where nobody says more: some hundred thousand tokens of a model of 1B parameters.
pub const CACHE_DISK: u64 = 10_000_000_000;

impl LoadOptions {
    /// The options that one of these has, in the order of the help.
    pub fn specs(surfaces: &'static [Surface]) -> impl Iterator<Item = &'static OptionSpec> + Clone {
        Self::SPECS.iter().filter(|spec| spec.surfaces.iter().any(|s| surfaces.contains(s)))
    }

    /// Sets the option of that name or alias from its text; one that may be given often grows.
    ///
    /// # Errors
    /// When there is no such option, or it does not take the value.
    pub fn put(&mut self, name: &str, text: &OsStr) -> Result<(), OptionError> {
        let spec = OptionSpec::find(Self::SPECS.iter(), name)?;
        self.set(spec, text).unwrap_or(Ok(()))
    }

    /// True where what is computed of prompts is kept in a folder, in which other processes find it.
    pub fn keeps_prompts(&self) -> bool {
        self.cache_dir.is_some()
    }

    /// What decides where a model lies.
    pub(crate) fn placing(&self) -> PlacementOptions {
        PlacementOptions {
            context: self.context,
            kv_dtype: self.kv_dtype,
            kv_memory: self.kv_memory,
            batch_rows: self.batch_rows,
            memory: self.memory,
            device_memory: self.device_memory,
            offload: self.offload,
            objective: self.objective,
            policy: self.placement.clone(),
            stream: self.stream.clone(),
            swap: self.kv_swap.budget,
        }
    }

    /// The policy of an engine with this objective. Where weights are read from disk in every step, a job of many prompts
    /// takes the fewest steps where prompts take their rows before answers go on.
    pub(crate) fn engine_policy(&self) -> Policy {
        match self.objective {
            Objective::Latency => self.policy,
            Objective::Throughput => Policy { prefill_share: 0.99, ..self.policy },
        }
    }

    /// Approximations that were asked for, each as `option value`; none where answers are the model's own.
    pub fn approximations(&self) -> Vec<String> {
        let (experts, sparsity) = (&self.experts, &self.sparsity);
        let asked = [
            ("fewer_experts", experts.fewer.map(|few| few.to_string())),
            ("defer_experts", experts.deferred.map(|count| count.to_string())),
            ("attention_sparsity", sparsity.values.map(|share| share.get().to_string())),
            ("sparse_prefill", sparsity.prefill.map(|share| share.get().to_string())),
        ];
        asked.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", value?))).collect()
    }

    /// True where other ranks compute a part of the model.
    pub fn has_ranks(&self) -> bool {
        !self.stages.0.is_empty() || !self.tp.is_empty()
    }

    /// True where a model may be divided between a device and the host: on a device that was named, or where something is
    /// said of the division. `auto` takes a device that holds all of it.
    pub(crate) fn divides(&self) -> bool {
        self.device != Device::Auto || self.device_memory.is_some() || self.placement.divides()
    }
}

read_settings! {
    Device: Text;
    ExpertThreshold: Pair;
    KvDtype: Text;
    KvSwap: Count;
    MemoryLimit: Count;
    PlacementRule: Text;
    RankList: Count;
    StageList: Text;
    TierPercent: Text;
    Objective: Text = |text| match text {
        "latency" => Some(Objective::Latency),
        "throughput" => Some(Objective::Throughput),
        _ => None,
    }, "latency or throughput";
    Goal: Text = |text| text.parse().ok(), "ttft=MS,tbt=MS, or one of them";
    Offload: Text = |text| match text {
        "auto" => Some(Offload::Auto),
        "never" => Some(Offload::Never),
        _ => None,
    }, "auto or never";
    PanelCheck: Text = |text| match text {
        "first" => Some(PanelCheck::First),
        "always" => Some(PanelCheck::Always),
        _ => None,
    }, "first or always";
    ReadShare: Number = |text| ReadShare::new(text.parse().ok()?), "above 0 and below 1";
    u64: Bytes = bytes, "a size such as 8GiB, 8G, 500M or bytes";
}

impl Setting for Option<DType> {
    const KIND: OptionKind = OptionKind::Text;

    fn read(text: &OsStr) -> Result<Self, BadValue> {
        let known = || DType::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(" ");
        match String::read(text)? {
            auto if auto.eq_ignore_ascii_case("auto") => Ok(None),
            name => {
                name.parse().map(Some).map_err(|_| BadValue::must_be(&format!("auto or one of {}", known())))
            }
        }
    }
}

impl Setting for DraftSource {
    const KIND: OptionKind = OptionKind::Path;

    fn read(text: &OsStr) -> Result<Self, BadValue> {
        Ok(text.to_str().map_or_else(|| DraftSource::Model(text.into()), DraftSource::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::HashSet, fmt::Write, fs, path::Path};

    fn put(name: &str, text: &str) -> Result<LoadOptions, OptionError> {
        let mut options = LoadOptions::default();
        options.put(name, text.as_ref()).map(|()| options)
    }

    #[test]
    fn names_are_unique_and_somebodys() {
        let mut seen = HashSet::new();
        for spec in LoadOptions::SPECS {
            for name in spec.aliases.iter().copied().chain(spec.letters).chain([spec.name]) {
                assert!(seen.insert(name), "{name} twice");
            }
            assert!(spec.doc.len() > 10 && !spec.doc.ends_with('.'), "{}", spec.name);
            assert!(!spec.surfaces.is_empty(), "nobody has {}", spec.name);
            assert_eq!(spec.value.is_empty(), spec.kind == OptionKind::Flag, "{}", spec.name);
            assert!(spec.least == 0 || spec.kind == OptionKind::Whole, "{}", spec.name);
            for other in spec.needs.into_iter().chain(spec.against) {
                assert!(LoadOptions::SPECS.iter().any(|spec| spec.name == other), "{}: {other}", spec.name);
            }
        }
    }

    #[test]
    fn defaults_are_those_that_are_documented() {
        let word =
            |spec: &OptionSpec| spec.doc.strip_suffix(']')?.rsplit_once("[default: ").map(|(_, word)| word);
        let words = LoadOptions::SPECS.iter().filter_map(|spec| Some((spec.name, word(spec)?)));
        let values = words.filter(|(_, word)| !word.contains(' ') && *word != "all");
        let read: Vec<_> =
            values.filter(|(name, word)| put(name, word) == Ok(LoadOptions::default())).collect();
        let want = [
            ("cache_disk", "10G"),
            ("mmproj", "auto"),
            ("mmproj_device", "auto"),
            ("image_limit", "bytes=20MiB,pixels=64M,side=16384,all=256M,count=64"),
            ("image_cache", "512MiB"),
            ("kv_dtype", "f16"),
            ("dtype", "auto"),
            ("device", "auto"),
            ("offload", "auto"),
        ];
        assert_eq!(read, [&want[..], &[("objective", "latency"), ("panel_check", "always")]].concat());
    }

    #[test]
    fn values_are_read_and_refused_with_the_name_of_the_option() {
        for (name, text, want) in [
            (
                "n-gpu-layers",
                "3",
                LoadOptions {
                    placement: PlacementPolicy { device_layers: Some(3), ..PlacementPolicy::default() },
                    ..LoadOptions::default()
                },
            ),
            (
                "smart_expert_reduction",
                "4,0.1",
                LoadOptions {
                    experts: ApproximateExperts { fewer: "4,0.1".parse().ok(), deferred: None },
                    ..LoadOptions::default()
                },
            ),
            ("defer_experts", "0", LoadOptions::default()),
            (
                "sparse_prefill",
                "0.25",
                LoadOptions {
                    sparsity: AttentionSparsity { values: None, prefill: ReadShare::new(0.25) },
                    ..LoadOptions::default()
                },
            ),
            ("draft", "auto", LoadOptions { draft: Some(DraftSource::Auto), ..LoadOptions::default() }),
            (
                "panel-check",
                "first",
                LoadOptions {
                    stream: StreamOptions { check: PanelCheck::First, ..StreamOptions::default() },
                    ..LoadOptions::default()
                },
            ),
            ("kv_memory", "1.5KiB", LoadOptions { kv_memory: Some(1536), ..LoadOptions::default() }),
        ] {
            assert_eq!(put(name, text), Ok(want), "{name}");
        }
        for (name, text, message) in [
            ("kv_swop", "1G", "there is no option `kv_swop`; the nearest known one is `kv_swap`"),
            ("context", "0", "context is \"0\", but must be a whole number from 1"),
            ("context", "few", "context is \"few\", but must be a whole number from 1"),
            ("device", "tpu", "device is \"tpu\", but must be auto, cpu, cuda, cuda:N or metal"),
            (
                "device_memory",
                "8X",
                "device_memory is \"8X\", but must be a size such as 8GiB, 8G, 500M, 80% or a number of bytes",
            ),
            ("sparse_prefill", "1", "sparse_prefill is \"1\", but must be above 0 and below 1"),
            ("offload", "maybe", "offload is \"maybe\", but must be auto or never"),
        ] {
            assert_eq!(put(name, text).map_err(|e| e.to_string()), Err(message.to_owned()));
        }
        let mut twice = put("place", "ffn=disk").expect("a rule");
        twice.put("override-tensor", "kv=ram".as_ref()).expect("a rule");
        assert_eq!(twice.placement.rules.len(), 2);
    }

    fn page() -> String {
        let mut page = String::from(
            "# Options of loading\n\nMade from the list that the command line, the server and Python are derived from.\n\n\
             | option | also | who has it | |\n|---|---|---|---|\n",
        );
        let code =
            |names: Vec<String>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
        for spec in LoadOptions::SPECS {
            let letters = spec.letters.map(|letters| format!("-{letters}"));
            let also =
                code(letters.into_iter().chain(spec.aliases.iter().map(ToString::to_string)).collect());
            let who = |surface: &Surface| match surface {
                Answer => "commands",
                Score => "`perplexity`",
                Model => "models of a server",
                Server => "a server",
                Python => "Python",
                Rank => "`rank`",
            };
            let who: Vec<_> = spec.surfaces.iter().map(who).collect();
            let doc = spec.doc.replace('|', "\\|");
            _ = writeln!(page, "| `{}` | {also} | {} | {doc} |", spec.name, who.join(", "));
        }
        page
    }

    /// `LAMINA_BLESS=1` writes the page anew.
    #[test]
    fn the_page_of_options_is_the_list() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/load-options.md");
        if std::env::var_os("LAMINA_BLESS").is_some() {
            fs::write(&path, page()).expect("a page");
        }
        let written = fs::read_to_string(&path).expect("a page");
        assert!(written == page(), "{} is not what the list says: LAMINA_BLESS=1 writes it", path.display());
    }
}
