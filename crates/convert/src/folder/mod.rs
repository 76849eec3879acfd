//! A Hugging Face folder as a GGUF file: names, shapes, settings, tokenizer, and the proof that both say the same.

mod changes;
mod fused;
mod heads;
mod keys;
mod rope;
mod tensors;
mod verify;
mod vocab;

pub(crate) use changes::changes;

use crate::{
    draft::{Draft, Planned},
    error::{ConvertError, Result},
};
use lamina_arch::{
    Family, ModelSpec, Weights, families,
    spec::{Ffn, Mask, Mixer, ModelOutput, Pairs},
};
use lamina_store::{Checkpoint, Metadata};
use std::sync::Arc;

/// What is known of a folder, shared by all its tensors.
pub(crate) struct Folder {
    pub ck: Arc<Checkpoint>,
    pub family: &'static Family,
    pub spec: ModelSpec,
    /// `general.architecture` of the file.
    pub architecture: &'static str,
    /// The family that reads the file.
    pub reader: &'static Family,
    /// Gives the values of these tensors; without it they lie in the checkpoint.
    pub fill: Option<Fill>,
}

/// Makes a checkpoint with the values of some tensors.
pub(crate) type Fill = Arc<dyn Fn(&[String]) -> Checkpoint + Send + Sync>;

impl Folder {
    fn new(ck: Checkpoint) -> Result<Folder> {
        let family = Family::of(&ck)?;
        let spec = family.spec(&ck)?;
        let (architecture, reader) = in_gguf(family, &spec)?;
        Ok(Folder { ck: Arc::new(ck), family, spec, architecture, reader, fill: None })
    }

    pub fn weights(&self) -> Weights<'_> {
        Weights::new(&self.ck, self.family, &self.spec)
    }

    /// Whether it writes no text: its rows, or scores of them, are the result.
    pub fn encodes(&self) -> bool {
        self.spec.output != ModelOutput::Tokens
    }

    /// Rows of the position table before position 0, which files of encoders leave out.
    pub fn reserved_positions(&self) -> usize {
        self.spec.embed.positions.filter(|_| self.encodes()).unwrap_or(0)
    }

    /// Whether the tied head has to be in the file a second time, under its own name.
    pub fn repeats_head(&self) -> bool {
        self.spec.head.tied && OWN_HEAD.contains(&self.architecture)
    }

    /// Order of rotary pairs in the file.
    pub fn pairs(&self) -> Pairs {
        self.reader.pairs[1]
    }
}

/// Architectures whose files llama.cpp does not load without a tensor for the head.
const OWN_HEAD: &[&str] = &[
    "dots1",
    "gpt-oss",
    "gptneox",
    "minimax-m2",
    "nemotron",
    "olmo2",
    "olmoe",
    "phi2",
    "qwen2moe",
    "stablelm",
];

/// Architectures whose sliding windows llama.cpp follows.
const WINDOWS: &[&str] = &["gemma2", "gemma3", "olmo2", "cohere2", "gpt-oss", "exaone4", "llama4"];

/// The name of `family` in the file, and the family that reads it.
fn in_gguf(family: &'static Family, spec: &ModelSpec) -> Result<(&'static str, &'static Family)> {
    // Folders of jina-embeddings v3 go by the name of XLM-RoBERTa, which has a table of positions.
    let rotary = family.name == "roberta" && spec.embed.positions.is_none();
    let own = families::ALL.iter().copied().find(|f| rotary && f.name == "jina-bert-v3");
    own.unwrap_or(family).in_gguf().ok_or(ConvertError::NoGgufForm { family: family.name })
}

/// The folder as a GGUF file that has not been written yet.
pub(crate) fn draft(ck: Checkpoint) -> Result<Draft> {
    let folder = Arc::new(Folder::new(ck)?);
    let (mut tensors, unused) = tensors::plan(&folder)?;
    let mut metadata = general(&folder);
    metadata.insert("general.size_label", size_label(&folder, &tensors));
    keys::write(&folder, &mut metadata)?;
    tensors.extend(rope::tensors(&folder)?);
    let mut notes = vocab::write(&folder, &mut metadata)?;
    notes.extend(verify::same_model(&folder, &mut metadata, &tensors)?);
    notes.extend(ignored_window(&folder));
    if !unused.is_empty() {
        notes.push(format!("{} tensors of the folder are left out, such as {}", unused.len(), unused[0]));
    }
    Ok(Draft {
        architecture: folder.architecture.to_owned(),
        metadata,
        tensors,
        source: folder.ck.clone(),
        notes,
    })
}

/// Older models of some families were trained with a window that llama.cpp passes over.
fn ignored_window(folder: &Folder) -> Option<String> {
    let window = folder.spec.layers.iter().find_map(|l| match &l.mixer {
        Mixer::Gqa(g) => match g.mask {
            Mask::Window(n) => Some(n),
            _ => None,
        },
        _ => None,
    })?;
    (!WINDOWS.contains(&folder.architecture)).then(|| {
        format!(
            "llama.cpp knows no sliding window for {}: beyond {window} tokens it gives other text than Lamina",
            folder.architecture
        )
    })
}

/// Keys that are no settings of the architecture.
fn general(folder: &Folder) -> Metadata {
    let mut metadata = Metadata::new(&folder.ck.folder);
    metadata.insert("general.architecture", folder.architecture);
    metadata.insert("general.type", "model");
    let path = folder.ck.folder.canonicalize().unwrap_or_else(|_| folder.ck.folder.clone());
    if let Some(name) = path.file_name() {
        metadata.insert("general.name", name.to_string_lossy().into_owned());
    }
    metadata
}

/// How large the model is, as makers name it: `2.8M`, `7B`, of experts `8x7B`.
fn size_label(folder: &Folder, tensors: &[Planned]) -> String {
    let count = |experts: bool| {
        let mine = tensors.iter().filter(|t| t.name.contains("_exps") == experts);
        mine.map(Planned::elements).sum::<usize>()
    };
    let experts = folder.spec.layers.iter().find_map(|l| match &l.ffn {
        Ffn::Moe(moe) => Some(moe.experts),
        _ => None,
    });
    match experts {
        Some(n) => format!("{n}x{}", rounded(count(false) + count(true) / n.max(1))),
        None => rounded(count(false) + count(true)),
    }
}

/// Two digits at least: `2.8M`, `28M`, `280M`.
fn rounded(count: usize) -> String {
    const UNITS: &[(f64, &str)] = &[(1e12, "T"), (1e9, "B"), (1e6, "M")];
    let count = count as f64;
    let (unit, name) = UNITS.iter().find(|(unit, _)| count > *unit).copied().unwrap_or((1e3, "K"));
    let digits = usize::from((count / unit).round() < 10.0);
    format!("{:.digits$}{name}", count / unit)
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn sizes_are_named_as_makers_name_them() {
        let named = [2_750_000, 9_600_000, 27_900_000, 1_240_000_000, 500].map(rounded);
        assert_eq!(named, ["2.8M", "10M", "28M", "1.2B", "0.5K"]);
    }
}
