//! How models write tool calls: a file of data for each format, and the list of them.

mod apertus;
mod apriel;
mod cohere_xml;
mod command_r7b;
mod command_r_plus;
mod deepseek_v3;
mod deepseek_v3_1;
mod deepseek_v3_2;
mod deepseek_v4;
mod ernie;
mod functionary;
mod functionary_v3_1;
mod functools;
mod gemma4;
mod gigachat3;
mod glm;
mod granite3;
mod harmony;
mod hermes;
mod hunyuan;
mod internlm2;
mod kimi_k2;
mod kimi_k3;
mod lfm2;
mod llama3;
mod minicpm5;
mod minimax_m2;
mod minimax_m3;
mod mistral;
mod mistral_args;
mod muse;
mod nemotron;
mod phi4_mini;
mod pythonic;
mod qwen3_coder;
mod seed_oss;
mod shape;
mod solar;
mod step3;
mod tags;

pub use shape::ChatFormat;
pub(crate) use shape::{
    ArgumentStyle, CallPart, CallSection, CallSyntax, Channels, IdPlace, IdStyle, Items, ObjectKeys, TagStyle,
};

/// No calls: the text as it is.
pub static NONE: ChatFormat = shape::PLAIN;

/// All formats, those with the most special marks first: the first that a template shows is its own.
static FORMATS: &[&ChatFormat] = &[
    &harmony::HARMONY,
    &muse::MUSE,
    &kimi_k3::KIMI_K3,
    &kimi_k2::KIMI_K2,
    &solar::SOLAR,
    &minimax_m3::MINIMAX_M3,
    &minimax_m2::MINIMAX_M2,
    &seed_oss::SEED_OSS,
    &step3::STEP3,
    &deepseek_v4::DEEPSEEK_V4,
    &deepseek_v3_2::DEEPSEEK_V3_2,
    &deepseek_v3::DEEPSEEK_V3,
    &deepseek_v3_1::DEEPSEEK_V3_1,
    &hunyuan::HUNYUAN,
    &glm::GLM,
    &mistral_args::MISTRAL_ARGS,
    &mistral::MISTRAL,
    &cohere_xml::COHERE_XML,
    &command_r7b::COMMAND_R7B,
    &command_r_plus::COMMAND_R_PLUS,
    &gemma4::GEMMA4,
    &apertus::APERTUS,
    &nemotron::NEMOTRON,
    &lfm2::LFM2,
    &gigachat3::GIGACHAT3,
    &internlm2::INTERNLM2,
    &minicpm5::MINICPM5,
    &functools::FUNCTOOLS,
    &functionary::FUNCTIONARY_V3_2,
    &granite3::GRANITE3,
    &phi4_mini::PHI4_MINI,
    &qwen3_coder::QWEN3_CODER,
    &functionary_v3_1::FUNCTIONARY_V3_1,
    &ernie::ERNIE,
    &apriel::APRIEL,
    &hermes::HERMES,
    &llama3::LLAMA3,
    &pythonic::PYTHONIC,
    &NONE,
];

impl ChatFormat {
    /// All formats.
    pub fn all() -> &'static [&'static ChatFormat] {
        FORMATS
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<&'static ChatFormat> {
        FORMATS.iter().find(|format| format.name == name).copied()
    }

    /// The format that a template writes, by the marks in its source; `none` where it shows none of them.
    pub fn of_template(source: &str) -> &'static ChatFormat {
        let shows = |group: &&[&str]| group.iter().all(|text| source.contains(text));
        let shown = FORMATS.iter().find(|format| format.markers.iter().any(shows));
        shown.copied().unwrap_or(&NONE)
    }
}
