//! Tensors that GGUF keeps together: the rules by which its readers take them apart, read backwards.

use super::Folder;
use lamina_arch::{
    Cut,
    names::{self, Rule},
    weights::Tensor,
};

/// Architectures whose files keep queries, keys and values together.
const QKV: &[&str] = &["bloom", "falcon", "gptneox", "gpt2", "mpt", "phi3", "starcoder"];
const QKV_NAME: &str = "blk.{i}.attn_qkv";

/// A name in the file, and the canonical tensors that it is made of with the rows that each takes.
pub struct FusedName {
    /// `blk.{i}.attn_qkv`.
    pub name: &'static str,
    /// Canonical names, and the cut that takes each out again; without one it is the tensor under another name.
    pub members: Vec<(&'static str, Option<Cut>)>,
}

/// What is kept together in files of this architecture.
pub fn of(folder: &Folder) -> Vec<FusedName> {
    let own = folder.reader.gguf_rules.iter().copied().flatten();
    let common = names::GGUF.iter().filter(|r| r.source == QKV_NAME && QKV.contains(&folder.architecture));
    let mut all: Vec<FusedName> = vec![];
    for rule in own.filter(|r| written(folder, r)).chain(common) {
        match all.iter_mut().find(|f| f.name == rule.source) {
            Some(fused) => fused.members.push((rule.canonical, rule.cut)),
            None => all.push(FusedName { name: rule.source, members: vec![(rule.canonical, rule.cut)] }),
        }
    }
    all
}

/// Some rules are for reading only, or for some models of the family.
fn written(folder: &Folder, rule: &Rule) -> bool {
    match folder.architecture {
        // Older files of Qwen3-Next keep all inputs of a delta net together.
        "qwen3next" => rule.source != "blk.{i}.ssm_in",
        // Falcon's first norm changes its name where there are two.
        "falcon" => folder.weights().has("blk.0.ffn_norm.weight"),
        _ => true,
    }
}

/// Row of the stacked members for each row of the fused tensor; none when the cuts do not make up a whole.
/// `counts`: rows of each member.
pub fn order(folder: &Folder, layer: usize, cuts: &[Option<Cut>], counts: &[usize]) -> Option<Vec<u32>> {
    let spec = folder.spec.layer(layer)?;
    let total = counts.iter().sum();
    let (mut order, mut before) = (vec![u32::MAX; total], 0);
    for (cut, &count) in cuts.iter().zip(counts) {
        let rows = match cut {
            Some(cut) => cut.rows(spec, total)?,
            None => (0..total as u32).collect(),
        };
        if rows.len() != count {
            return None;
        }
        rows.iter().zip(before..).for_each(|(&to, from)| order[to as usize] = from);
        before += count as u32;
    }
    order.iter().all(|&row| row != u32::MAX).then_some(order)
}

/// The members one after another, in the order of the fused tensor.
pub fn join(name: &str, members: &[Tensor], order: Vec<u32>) -> lamina_arch::Result<Tensor> {
    let vectors = members.iter().all(|t| t.rows() == 1);
    if !vectors || order.len() == 1 {
        return Ok(Tensor::stacked(members)?.reordered(order));
    }
    let values = members.iter().map(Tensor::to_f32).collect::<Result<Vec<_>, _>>()?.concat();
    let moved: Vec<f32> = order.iter().map(|&i| values[i as usize]).collect();
    Ok(Tensor::from_f32(name, 1, moved.len(), &moved))
}
