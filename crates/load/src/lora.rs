//! Low-rank adapters beside a loaded model, and how users name them: `pirate=folder@0.5`.

use crate::{
    error::{Error, Result},
    read_settings,
};
use lamina_arch::{Family, ModelSpec, weights::Tensor};
use lamina_lora::{Adapter, Factors, Target, Use};
use lamina_plan::{LORA, Plan, WeightKind, WeightSpec, adapt};
use lamina_store::Checkpoint;
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

/// The adapters of a model, in the order in which they were named.
#[derive(Default)]
pub(crate) struct Loras {
    names: Vec<String>,
    /// What each adapter changes, by the name of the weight.
    changes: Vec<BTreeMap<String, Factors>>,
}

impl Loras {
    /// Reads the adapters in `given`, which must fit the model in `ck`.
    ///
    /// # Errors
    /// When a name is empty or given twice, or an adapter cannot be read or does not fit.
    pub fn open(
        given: &[(String, PathBuf)],
        ck: &Checkpoint,
        family: &'static Family,
        spec: &ModelSpec,
        plan: &Plan,
    ) -> Result<Loras> {
        let targets: Vec<_> = plan.weights.iter().filter_map(target).collect();
        let mut all = Loras::default();
        for (name, path) in given {
            if name.is_empty() || all.names.contains(name) {
                let problem = if name.is_empty() { "has no name" } else { "has the name of another one" };
                let path = path.display();
                return Err(Error::InvalidRequest(format!("lora {path} {problem}: name each differently")));
            }
            all.changes.push(Adapter::open(path)?.factors(ck, family, spec, &targets)?);
            all.names.push(name.clone());
        }
        Ok(all)
    }

    /// What each adapter changes, by the name of the weight.
    pub fn changes(&self) -> impl Iterator<Item = &BTreeMap<String, Factors>> {
        self.changes.iter()
    }

    /// Names that requests may use.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }

    /// `plan` with the adapters beside its matrices.
    pub fn adapt(&self, plan: Plan) -> Plan {
        let changed: BTreeSet<&String> = self.changes.iter().flat_map(BTreeMap::keys).collect();
        if changed.is_empty() {
            return plan;
        }
        let ranks = |name: &str| self.changes.iter().map(|c| c.get(name).map_or(0, |f| f.rank)).collect();
        adapt(plan, &changed.into_iter().map(|name| (name.clone(), ranks(name))).collect())
    }

    /// Whether [`Loras::adapt`] has added the weight to the plan.
    pub fn has(&self, spec: &WeightSpec) -> bool {
        let of = LORA.iter().find_map(|end| spec.name.strip_suffix(end));
        of.is_some_and(|name| self.changes.iter().any(|c| c.contains_key(name)))
    }

    /// The stacked factors for a weight that [`Loras::adapt`] has added to the plan; none for one of the model.
    pub fn tensor(&self, spec: &WeightSpec) -> Option<Tensor> {
        let (rows, cols) = spec.kind.shape();
        let of = |name: &str| self.changes.iter().filter_map(|c| c.get(name)).collect::<Vec<_>>();
        let values: Vec<f32> = if let Some(name) = spec.name.strip_suffix(LORA[0]) {
            of(name).iter().flat_map(|f| &f.down).copied().collect()
        } else {
            let parts = of(spec.name.strip_suffix(LORA[1])?);
            (0..rows)
                .flat_map(|r| parts.iter().flat_map(move |f| &f.up[r * f.rank..(r + 1) * f.rank]))
                .copied()
                .collect()
        };
        Some(Tensor::from_f32(&spec.name, rows, cols, &values))
    }
}

/// A weight as adapters see it; none for vectors, which no low rank changes.
fn target(spec: &WeightSpec) -> Option<Target<'_>> {
    let used = match spec.kind {
        WeightKind::Matrix { .. } => Use::Product,
        WeightKind::Table { .. } => Use::Table,
        WeightKind::Stack { .. } => Use::Experts,
        WeightKind::Vector { .. } => return None,
    };
    let (rows, cols) = spec.kind.shape();
    Some(Target { name: &spec.name, rows, cols, used })
}

/// The scale of each of the adapters `names` in a request that wants `lora`.
///
/// # Errors
/// When there is no adapter of a name, one is named twice, or a scale is no finite number.
pub fn lora_scales<N: AsRef<str>>(names: &[String], lora: &[(N, f32)]) -> Result<Arc<[f32]>> {
    let mut out = vec![0.0; names.len()];
    let mut seen = BTreeSet::new();
    for (name, scale) in lora {
        let name = name.as_ref();
        let wrong = |problem: String| Error::InvalidRequest(format!("lora `{name}` {problem}"));
        let Some(i) = names.iter().position(|n| n == name) else {
            return Err(wrong(match names {
                [] => "is not loaded: name it, with its path, when the model is loaded".into(),
                names => format!("is not loaded; loaded: {}", names.join(", ")),
            }));
        };
        if !scale.is_finite() {
            return Err(wrong(format!("has the scale {scale}, but a finite number is wanted")));
        }
        if !seen.insert(i) {
            return Err(wrong("is given twice".into()));
        }
        out[i] = *scale;
    }
    Ok(out.into())
}

/// An adapter, and its scale in requests that name none.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterPath {
    /// What requests call it, where the user says.
    pub name: Option<String>,
    /// Where it is.
    pub path: PathBuf,
    /// Its scale.
    pub scale: f32,
}

impl AdapterPath {
    /// Its name, or the stem of its file.
    pub fn called(&self) -> &str {
        let stem = || self.path.file_stem()?.to_str();
        self.name.as_deref().or_else(stem).unwrap_or_default()
    }
}

impl FromStr for AdapterPath {
    type Err = Infallible;

    /// Reads `[NAME=]PATH[@SCALE]`, or `PATH=SCALE` as `lamina convert` writes it. A part is a name or a number only where
    /// it looks like one and the path is not there as a whole: paths may hold `=` and `@` too.
    fn from_str(text: &str) -> Result<AdapterPath, Infallible> {
        let exists = |path: &str| Path::new(path).exists();
        let scaled =
            |cut: Option<(&str, &str)>| cut.and_then(|(path, n)| Some((path.to_owned(), n.parse().ok()?)));
        if exists(text) {
            return Ok(AdapterPath { name: None, path: text.into(), scale: 1.0 });
        }
        if let Some((path, scale)) = scaled(text.rsplit_once('=')).filter(|(path, _)| exists(path)) {
            return Ok(AdapterPath { name: None, path: path.into(), scale });
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '\\']);
        let (name, rest) = match text.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, rest)) => (Some(name.to_owned()), rest),
            None => (None, text),
        };
        let cut = Some(rest).filter(|rest| !exists(rest)).and_then(|rest| rest.rsplit_once('@'));
        let (path, scale) = scaled(cut).unwrap_or((rest.to_owned(), 1.0));
        Ok(AdapterPath { name, path: path.into(), scale })
    }
}

read_settings! {
    AdapterPath: Text;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, PathBuf, f32, String) {
        let Ok(adapter) = text.parse::<AdapterPath>();
        let called = adapter.called().to_owned();
        (adapter.name, adapter.path, adapter.scale, called)
    }

    #[test]
    fn names_and_scales_are_told_from_paths() {
        for (text, name, path, scale, called) in [
            ("a/pirate.gguf", None, "a/pirate.gguf", 1.0, "pirate"),
            ("a.gguf@0.5", None, "a.gguf", 0.5, "a"),
            ("x=dir/a@-2", Some("x"), "dir/a", -2.0, "x"),
            ("dir/k=v/a@b", None, "dir/k=v/a@b", 1.0, "a@b"),
            ("x=me@home/a@1e-1", Some("x"), "me@home/a", 0.1, "x"),
        ] {
            assert_eq!(read(text), (name.map(Into::into), path.into(), scale, called.into()), "{text}");
        }
    }

    #[test]
    fn what_exists_is_a_path_as_a_whole() {
        let dir = tempfile::TempDir::new().expect("a folder");
        let path = dir.path().join("a@2");
        std::fs::write(&path, "").expect("a file");
        let text = path.to_str().expect("a text");
        for (written, scale) in
            [(text.to_owned(), 1.0), (format!("{text}=0.5"), 0.5), (format!("{text}@0.5"), 0.5)]
        {
            assert_eq!(read(&written), (None, path.clone(), scale, "a@2".into()));
        }
    }
}
