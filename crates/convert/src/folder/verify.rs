//! Reads the settings back as a reader of the file will, and compares: a file that says another model than its folder is
//! not written.

use super::Folder;
use crate::{
    draft::Planned,
    error::{ConvertError, Result},
};
use lamina_arch::spec::{HeadOrder, Mixer, ModelOutput, ModelSpec, Pairs, Rope};
use lamina_base::HostTensor;
use lamina_store::{Checkpoint, Config, Kind, Metadata, Tensors};
use std::path::PathBuf;

/// Makes sure that a reader builds the folder's spec from the file. What the format has no key for goes into a key of
/// this house's own, which is then told in a note: other programs do not read it.
///
/// # Errors
/// When even that does not say everything.
pub fn same_model(folder: &Folder, metadata: &mut Metadata, tensors: &[Planned]) -> Result<Option<String>> {
    let tensors = header(tensors)?;
    let Some(what) = difference(folder, metadata, &tensors) else { return Ok(None) };
    let config = serde_json::Value::Object(folder.ck.config.tree().clone());
    metadata.insert(Config::EXTRA_KEY, config.to_string());
    match difference(folder, metadata, &tensors) {
        None => {
            Ok(Some(format!("llama.cpp has no key for a setting of this model and will run another: {what}")))
        }
        Some(what) => {
            Err(ConvertError::NotExpressible { architecture: folder.architecture.to_owned(), what })
        }
    }
}

/// How the spec that a reader builds differs from the folder's.
fn difference(folder: &Folder, metadata: &Metadata, tensors: &Tensors) -> Option<String> {
    match read(folder, metadata, tensors) {
        Ok(mut spec) => {
            // Written twice it is no longer tied.
            spec.head.tied |= folder.repeats_head();
            first_difference(&folder.spec, &spec)
        }
        Err(e) => Some(e.to_string()),
    }
}

fn read(folder: &Folder, metadata: &Metadata, tensors: &Tensors) -> Result<ModelSpec> {
    let ck = Checkpoint {
        kind: Kind::Gguf,
        architecture: folder.architecture.to_owned(),
        config: Config::from_metadata(metadata, tensors)?,
        tensors: tensors.clone(),
        metadata: metadata.clone(),
        folder: PathBuf::new(),
        files: vec![],
        generation_config: None,
        tokenizer_config: None,
    };
    Ok(folder.reader.spec(&ck)?)
}

/// Names and shapes; values only of the rotary factors, which are settings in the form of tensors.
fn header(tensors: &[Planned]) -> Result<Tensors> {
    let one = |t: &Planned| -> Result<(String, HostTensor)> {
        let mut bytes = vec![];
        if t.name.starts_with("rope_") {
            let values = t.values()?;
            bytes.resize(values.row_bytes(), 0);
            values.read(0..1, &mut bytes)?;
        }
        let (name, dtype, shape) = (t.name.clone(), t.dtype, t.shape.clone());
        Ok((t.name.clone(), HostTensor { name, dtype, shape, bytes: bytes.into() }))
    };
    tensors.iter().map(one).collect()
}

/// The first setting that differs, as both have it.
fn first_difference(folder: &ModelSpec, file: &ModelSpec) -> Option<String> {
    let (folder, file) = (ordered(folder), ordered(file));
    let (mut a, mut b) = (folder.clone(), file.clone());
    a.layers.clear();
    b.layers.clear();
    let heads = (a != b).then(|| differing_fields(&format!("{a:?}"), &format!("{b:?}")));
    let layers = folder.layers.iter().zip(&file.layers).enumerate();
    let layer = || {
        let (i, (a, b)) = layers.into_iter().find(|(_, (a, b))| a != b)?;
        Some(format!("layer {i}: {}", differing_fields(&format!("{a:?}"), &format!("{b:?}"))))
    };
    let count = || (folder.layers.len() != file.layers.len()).then(|| "number of layers".to_owned());
    heads.or_else(count).or_else(layer)
}

/// Both formats in one order of rotary pairs and heads, and with numbers rounded where files round them.
fn ordered(spec: &ModelSpec) -> ModelSpec {
    let mut spec = spec.clone();
    // Files of encoders leave reserved rows of positions out.
    if spec.output != ModelOutput::Tokens {
        spec.embed.positions = spec.embed.positions.map(|_| 0);
    }
    spec.each(|_, l| match &mut l.mixer {
        Mixer::Gqa(g) => {
            g.rope.iter_mut().for_each(rounded);
            g.scale = round(g.scale);
        }
        Mixer::Mla(m) => {
            rounded(&mut m.rope);
            m.scale = round(m.scale);
        }
        Mixer::GatedDelta(d) => d.order = HeadOrder::Grouped,
        Mixer::Mamba2(_) => {}
    })
}

fn rounded(rope: &mut Rope) {
    rope.pairs = Pairs::Half;
    rope.magnitude = round(rope.magnitude);
    rope.freqs.iter_mut().for_each(|f| *f = round(*f));
    if let Some(long) = &mut rope.long {
        long.freqs.iter_mut().for_each(|f| *f = round(*f));
    }
}

/// To 17 bits of mantissa: quotients of float32 numbers that are multiplied again are off by a last bit or two.
fn round(x: f32) -> f32 {
    f32::from_bits((x.to_bits().saturating_add(1 << 5)) & !0x3F)
}

/// Where two printed values part, with the name of the field before.
fn differing_fields(a: &str, b: &str) -> String {
    let at = a.bytes().zip(b.bytes()).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len()));
    let start = a[..at].rfind([',', '{']).map_or(0, |i| i + 1);
    let piece = |s: &str| s.get(start..).unwrap_or("").chars().take(60).collect::<String>().trim().to_owned();
    format!("`{}` becomes `{}`", piece(a), piece(b))
}
