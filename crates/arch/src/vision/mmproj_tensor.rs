//! Tensors of a folder's encoder in the form that mmproj files have them.

use super::{ClipBounds, VisionWeights};
use crate::{
    edit::edited,
    error::{ArchError, Result},
    names::{Edit, Rule},
    spec::Mixer,
    tensor::Tensor,
};
use lamina_base::{DType, HostTensor};
use lamina_store::Kind;

/// Biases behind convolutions over frames.
const CONVOLVED: [&str; 2] = ["v.conv1.bias", "v.conv2.bias"];

/// A tensor of an mmproj file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmprojTensor {
    /// Name in the file.
    pub name: String,
    /// Type of the stored values.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Which frame of the patch embedding it is, where that has two.
    frame: Option<usize>,
    /// Canonical name.
    canonical: String,
}

impl VisionWeights<'_> {
    /// All tensors that an mmproj file of this folder holds, in the order of the family's rules.
    ///
    /// # Errors
    /// When a fused tensor has another number of rows than its parts.
    pub fn mmproj_tensors(&self) -> Result<Vec<MmprojTensor>> {
        let mut all: Vec<MmprojTensor> = vec![];
        for name in self.canonical_names() {
            for suffix in ["", ".weight", ".bias"] {
                let full = format!("{name}{suffix}");
                let known = all.iter().any(|t| t.canonical == full);
                if known || self.find(&full).is_none() {
                    continue;
                }
                if full == "v.patch_embd.weight" {
                    all.extend(self.patch_tensors()?);
                    continue;
                }
                let (tensor, shape) = self.as_written(&full)?;
                let (dtype, name) = (tensor.dtype, self.written_name(&full));
                all.push(MmprojTensor { name, dtype, shape, frame: None, canonical: full });
            }
        }
        all.extend(self.encoder.clips.iter().flat_map(|(name, bounds)| {
            let written = self.written_name(&format!("{name}.weight")).replace(".weight", "");
            bounds.named().map(|(ending, _)| MmprojTensor {
                name: format!("{written}{ending}"),
                dtype: DType::F32,
                shape: vec![1],
                frame: None,
                canonical: format!("{name}{ending}"),
            })
        }));
        Ok(all)
    }

    /// The bound that is called so.
    fn bound(&self, canonical: &str) -> Option<f32> {
        let of = |(name, bounds): (&String, &ClipBounds)| {
            let ending = canonical.strip_prefix(name.as_str())?;
            bounds.named().into_iter().find_map(|(known, number)| (known == ending).then_some(number))
        };
        self.encoder.clips.iter().find_map(of)
    }

    /// The values of one of [`VisionWeights::mmproj_tensors`], as rows of its last extent.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn mmproj_values(&self, tensor: &MmprojTensor) -> Result<Tensor> {
        if let Some(bound) = self.bound(&tensor.canonical) {
            return Ok(Tensor::from_f32(&tensor.name, 1, 1, &[bound]));
        }
        if tensor.canonical != "v.patch_embd.weight" {
            return Ok(self.as_written(&tensor.canonical)?.0);
        }
        let (rows, cols) =
            (tensor.shape.iter().rev().skip(1).product(), tensor.shape.last().copied().unwrap_or(1));
        let values = self.patches(self.encoder.hidden, self.cut.map_or(0, |cut| cut.width()))?.to_f32()?;
        let plane = tensor.shape[2..].iter().product::<usize>().max(1);
        let frames = self.frames();
        let chosen: Vec<f32> = match tensor.frame {
            None => values,
            Some(frame) => {
                values.chunks_exact(plane).skip(frame).step_by(frames).flatten().copied().collect()
            }
        };
        if chosen.len() != rows * cols {
            let want = format!("{:?}", tensor.shape);
            return Err(ArchError::Shape {
                name: tensor.name.clone(),
                found: format!("{} numbers", chosen.len()),
                want,
            });
        }
        Ok(Tensor::from_f32(&tensor.name, rows, cols, &chosen))
    }

    /// What files of the family call a tensor.
    fn written_name(&self, canonical: &str) -> String {
        let number = self.layer(canonical).map(|i| i.to_string()).unwrap_or_default();
        let numbered = |text: &str, suffix: &str| text.replace("{i}", &number) + suffix;
        let rules = self.gguf_rules.iter().copied().flatten().filter(|r| r.cut.is_none());
        let written = |rule: &Rule| {
            let suffix = ["", ".weight", ".bias"].into_iter();
            let mut fit = suffix.filter(|suffix| numbered(rule.canonical, suffix) == canonical);
            fit.next().map(|suffix| numbered(rule.source, suffix))
        };
        rules.filter_map(written).next().unwrap_or_else(|| canonical.to_owned())
    }

    fn frames(&self) -> usize {
        self.cut.map_or(1, |cut| cut.frames.max(1) as usize)
    }

    /// The patch embedding as `[hidden, channels, side, side]`, each frame a tensor of its own.
    fn patch_tensors(&self) -> Result<Vec<MmprojTensor>> {
        let side = self.cut.map_or(0, |cut| cut.side as usize);
        let canonical = "v.patch_embd.weight".to_owned();
        let one = |name: &str, frame| MmprojTensor {
            name: name.to_owned(),
            dtype: DType::F32,
            shape: vec![self.encoder.hidden, 3, side, side],
            frame,
            canonical: canonical.clone(),
        };
        match self.frames() {
            1 => Ok(vec![one(&canonical, None)]),
            2 => Ok(vec![one(&canonical, Some(0)), one("v.patch_embd.weight.1", Some(1))]),
            n => Err(ArchError::value("temporal_patch_size", n, "1 or 2, as mmproj files have them")),
        }
    }

    /// Canonical names without their endings: of each block that is run, and the others.
    fn canonical_names(&self) -> Vec<String> {
        let mut names = vec![];
        let rules = self.rules.iter().copied().flatten();
        for rule in rules {
            let base = [".weight", ".bias"].iter().find_map(|end| rule.canonical.strip_suffix(end));
            let base = base.unwrap_or(rule.canonical);
            let numbers: Vec<usize> = match base {
                _ if base.starts_with("v.blk.") => (0..self.encoder.layers.len()).collect(),
                _ if base.starts_with("v.deepstack.") => self.encoder.deep.clone(),
                _ => vec![],
            };
            match numbers.is_empty() {
                true if base.contains("{i}") => {}
                true => names.push(base.to_owned()),
                false => names.extend(numbers.iter().map(|i| base.replace("{i}", &i.to_string()))),
            }
        }
        names
    }

    /// A tensor with the edits that files have done, and its extents.
    fn as_written(&self, name: &str) -> Result<(Tensor, Vec<usize>)> {
        let missing = || ArchError::MissingTensor { name: name.to_owned(), tried: String::new() };
        let (stored, rule) = self.find(name).ok_or_else(missing)?;
        let mut shape: Vec<usize> = stored.shape.iter().copied().filter(|&n| n > 1).collect();
        if shape.is_empty() {
            shape.push(1);
        }
        let cols = shape.last().copied().unwrap_or(1);
        let vector = shape.len() == 1;
        let (rows, width) = if vector { (cols, 1) } else { (stored.elements() / cols.max(1), cols) };
        let whole = Tensor::new(vec![HostTensor { shape: vec![rows, width], ..stored }]);
        let tensor = self.cut_rows(name, rule, whole)?;
        let tensor = self.turned(name, tensor);
        shape[0] = if vector || shape.len() == 2 { tensor.rows() } else { shape[0] };
        if CONVOLVED.contains(&name) {
            // A column for all frames.
            shape.push(1);
        }
        let tensor = match rule.edit {
            Edit::PlusOne => edited(tensor, rule.edit)?,
            // Stored as files have it.
            _ => tensor,
        };
        let tensor = if vector { Tensor::from_f32(name, 1, shape[0], &tensor.to_f32()?) } else { tensor };
        Ok((tensor, shape))
    }

    fn cut_rows(&self, name: &str, rule: Rule, whole: Tensor) -> Result<Tensor> {
        let (Some(cut), Some(i)) = (rule.cut, self.layer(name)) else { return Ok(whole) };
        let order = cut.rows(&self.encoder.layers[i], whole.rows());
        let found = format!("{} rows", whole.rows());
        let order = order.ok_or_else(|| ArchError::Shape {
            name: name.to_owned(),
            found,
            want: format!("rows for {cut:?}"),
        })?;
        Ok(whole.reordered(order))
    }

    /// Queries and keys of Pixtral, whose files have rotary pairs next to one another.
    fn turned(&self, name: &str, tensor: Tensor) -> Tensor {
        let Some(Mixer::Gqa(g)) = self.layer(name).map(|i| &self.encoder.layers[i].mixer) else {
            return tensor;
        };
        let turns = self.family == "pixtral" && self.source.kind == Kind::HuggingFace;
        if !turns || !(name.contains(".attn_q.") || name.contains(".attn_k.")) {
            return tensor;
        }
        let half = g.dim / 2;
        let row = |r: usize| (r / g.dim * g.dim + r % g.dim % 2 * half + r % g.dim / 2) as u32;
        let rows = tensor.rows();
        tensor.reordered((0..rows).map(row).collect())
    }
}
