//! Which tensors the file has, their names and shapes.

use super::{Folder, fused, heads};
use crate::{draft::Planned, error::Result};
use lamina_arch::{
    Cut, Weights, names,
    spec::{Ffn, Mixer, QkSpan},
    weights::Tensor,
};
use lamina_base::DType;
use std::{collections::BTreeSet, sync::Arc};

/// The table of learned positions.
const POSITIONS: &str = "position_embd.weight";

/// Matrices also where they have one row: their number of rows says how many segments or classes there are.
const MATRICES: &[&str] = &["token_types.weight", "cls.weight", "cls.output.weight"];

const SUFFIXES: &[&str] = &["", ".weight", ".bias"];

/// All tensors of the file, and the names of stored tensors that none of them uses.
pub fn plan(folder: &Arc<Folder>) -> Result<(Vec<Planned>, Vec<String>)> {
    let weights = folder.weights();
    let mut plan = TensorList {
        folder,
        weights: &weights,
        names: BTreeSet::new(),
        claimed: BTreeSet::new(),
        out: vec![],
    };
    let bases = canonical_bases(folder);
    for base in bases.iter().filter(|b| !b.contains("{i}")) {
        for suffix in SUFFIXES {
            plan.single(&format!("{base}{suffix}"));
        }
    }
    let fused = fused::of(folder);
    for i in 0..folder.spec.all_layers().count() {
        plan.layer(i, &bases, &fused);
    }
    Ok((plan.out, weights.unused()))
}

/// Names that the family's rules speak of, then those of Llama.
fn canonical_bases(folder: &Folder) -> Vec<&'static str> {
    let rules = folder.family.rules.iter().copied().flatten().chain(names::LLAMA);
    let mut bases: Vec<&'static str> = vec![];
    for rule in rules {
        if !bases.contains(&rule.canonical) {
            bases.push(rule.canonical);
        }
    }
    bases
}

/// The list while it grows.
struct TensorList<'a> {
    folder: &'a Arc<Folder>,
    weights: &'a Weights<'a>,
    /// Canonical names that are in the file.
    names: BTreeSet<String>,
    /// Stored tensors that belong to one name as a whole: Llama's name for a norm does not take what the family's own
    /// rules call by another.
    claimed: BTreeSet<String>,
    out: Vec<Planned>,
}

impl TensorList<'_> {
    fn layer(&mut self, i: usize, bases: &[&'static str], fused: &[fused::FusedName]) {
        let named = |base: &str, suffix: &str| format!("{}{suffix}", base.replace("{i}", &i.to_string()));
        for group in fused {
            for suffix in [".weight", ".bias"] {
                let members: Vec<String> =
                    group.members.iter().map(|(base, _)| named(base, suffix)).collect();
                let cuts: Vec<Option<Cut>> = group.members.iter().map(|m| m.1).collect();
                self.joined(i, &named(group.name, suffix), &members, &cuts);
            }
        }
        for base in bases.iter().filter(|b| b.contains("{i}")) {
            SUFFIXES.iter().for_each(|suffix| self.single(&named(base, suffix)));
        }
    }

    /// The canonical tensor `name` under its own name, if the folder has it.
    fn single(&mut self, name: &str) {
        if name == "output.weight" && self.folder.repeats_head() {
            let Some(embedding) = self.out.iter().find(|t| t.name == "token_embd.weight").cloned() else {
                return;
            };
            return self.out.push(Planned { name: name.to_owned(), ..embedding });
        }
        // A stored head beside a tied one is a copy.
        let copy = name == "output.weight" && self.folder.spec.head.tied;
        if !copy && !self.names.contains(name) && belongs(self.folder, name) {
            self.one(name, name);
        }
    }

    /// The canonical tensor `member` under `name`.
    fn one(&mut self, name: &str, member: &str) {
        let Some(stored) = self.weights.stored(member) else { return };
        if stored.whole && stored.parts.iter().any(|p| self.claimed.contains(p)) {
            return;
        }
        if stored.whole {
            self.claimed.extend(stored.parts);
        }
        self.names.insert(member.to_owned());
        let (folder, member) = (self.folder.clone(), member.to_owned());
        let mut shape = stored.shape;
        if name == POSITIONS {
            shape[0] -= folder.reserved_positions().min(shape[0]);
        }
        let shape = in_file(&folder, name, shape);
        let make = move || Ok(fetch(&folder, &member)?);
        let planned = match self.folder.fill {
            None => Planned::new(name, written_type(stored.dtype), shape, make),
            Some(_) => Planned::computed(name, written_type(stored.dtype), shape, make),
        };
        self.out.push(planned);
    }

    /// Several canonical tensors as one, if the folder has them all and they make up a whole.
    fn joined(&mut self, i: usize, name: &str, members: &[String], cuts: &[Option<Cut>]) {
        if let ([member], [None]) = (members, cuts) {
            return self.one(name, member);
        }
        let found: Option<Vec<_>> = members.iter().map(|m| self.weights.stored(m)).collect();
        let Some(found) = found else { return };
        let vectors = found.iter().all(|s| s.shape[0] == 1) && name.ends_with(".bias");
        let counts: Vec<usize> = found.iter().map(|s| s.shape[usize::from(vectors)]).collect();
        let Some(order) = fused::order(self.folder, i, cuts, &counts) else { return };
        self.names.extend(members.iter().cloned());
        let shape = if vectors { [1, order.len()] } else { [order.len(), found[0].shape[1]] };
        let shape = in_file(self.folder, name, shape);
        let (folder, title, members) = (self.folder.clone(), name.to_owned(), members.to_vec());
        let make = move || {
            let parts = members.iter().map(|m| Ok(fetch(&folder, m)?)).collect::<Result<Vec<Tensor>>>()?;
            Ok(fused::join(&title, &parts, order.clone())?)
        };
        self.out.push(Planned::new(name, written_type(found[0].dtype), shape, make));
    }
}

/// Whether a feed-forward tensor is one of its layer's kind: the same stored tensor is Granite's dense part in one model
/// and its shared expert in another.
fn belongs(folder: &Folder, name: &str) -> bool {
    let Some((layer, part)) = split(name) else { return true };
    let base = part.split('.').next().unwrap_or(part);
    let dense = ["ffn_gate", "ffn_up", "ffn_down"].contains(&base);
    let experts = base.ends_with("_exps") || base.ends_with("_shexp");
    match folder.spec.layer(layer).map(|l| &l.ffn) {
        Some(Ffn::Moe(_)) => !dense,
        Some(Ffn::Dense(_) | Ffn::None) | None => !experts,
    }
}

fn fetch(folder: &Folder, member: &str) -> lamina_arch::Result<Tensor> {
    let missing = || lamina_arch::ArchError::MissingTensor { name: member.into(), tried: String::new() };
    let tensor = match &folder.fill {
        None => folder.weights().stored_as(member, folder.pairs())?,
        Some(fill) => {
            let filled = fill(&folder.weights().stored(member).ok_or_else(missing)?.parts);
            Weights::new(&filled, folder.family, &folder.spec).stored_as(member, folder.pairs())?
        }
    };
    let tensor = tensor.ok_or_else(missing)?;
    match split(member) {
        Some((layer, part)) => heads::dealt(folder, layer, part, tensor),
        None if member == POSITIONS && folder.reserved_positions() > 0 => {
            let rows = folder.reserved_positions() as u32..tensor.rows() as u32;
            Ok(tensor.reordered(rows.collect()))
        }
        None => Ok(tensor),
    }
}

/// `blk.7.attn_q.weight` as 7 and `attn_q.weight`.
pub(super) fn split(name: &str) -> Option<(usize, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}

/// Types that GGUF does not have come as float32.
fn written_type(dtype: DType) -> DType {
    if dtype.gguf_id().is_some() && lamina_quant::format(dtype).is_some() { dtype } else { DType::F32 }
}

/// The shape in the file, from rows and columns.
fn in_file(folder: &Folder, name: &str, [rows, cols]: [usize; 2]) -> Vec<usize> {
    let Some((layer, part)) = split(name) else {
        return if rows == 1 && !MATRICES.contains(&name) { vec![cols] } else { vec![rows, cols] };
    };
    let (base, suffix) = part.split_once('.').unwrap_or((part, ""));
    let Some(layer) = folder.spec.layer(layer) else { return vec![rows, cols] };
    let outer = match (base, &layer.mixer, &layer.ffn) {
        (_, _, Ffn::Moe(m)) if base.ends_with("_exps") => Some(m.experts),
        ("attn_k_b" | "attn_v_b", Mixer::Mla(m), _) => Some(m.heads),
        ("ssm_a" | "ssm_d", Mixer::Mamba2(m), _) => Some(m.heads),
        ("ssm_norm", Mixer::Mamba2(m), _) => Some(m.groups),
        ("attn_q_norm", Mixer::Gqa(g), _) => by_head(g.qk_norm.map(|q| q.over), g.heads),
        ("attn_k_norm", Mixer::Gqa(g), _) => by_head(g.qk_norm.map(|q| q.over), g.kv_heads),
        _ => None,
    };
    match outer.filter(|&n| n > 0) {
        Some(n) if rows == 1 && suffix != "weight" || base.ends_with("_norm") => vec![n, rows * cols / n],
        Some(n) => vec![n, rows / n, cols],
        None if rows == 1 => vec![cols],
        None => vec![rows, cols],
    }
}

fn by_head(over: Option<QkSpan>, heads: usize) -> Option<usize> {
    (over == Some(QkSpan::EachHead)).then_some(heads)
}
