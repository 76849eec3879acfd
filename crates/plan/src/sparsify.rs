//! A plan whose attention is sparse.

use crate::{
    kv::Reach,
    op::{Attention, Op},
    plan::Plan,
    sparsity::AttentionSparsity,
};

/// The plan whose layers that see the whole context attend sparsely. Windows, chunks and recurrent layers stay as they are:
/// they read a bounded part already.
///
/// # Errors
/// The models that cannot, and why: an end of "must be left out for ..".
pub fn sparsify(mut plan: Plan, sparsity: AttentionSparsity) -> Result<Plan, &'static str> {
    if sparsity.is_none() {
        return Ok(plan);
    }
    if !plan.generates() {
        return Err("models that do not generate: their rows see later ones");
    }
    if plan.ops.iter().any(|op| matches!(op, Op::LatentAttend(_))) {
        return Err("models whose cache holds latents: keys and values are the same numbers there");
    }
    let groups = plan.kv.layers.iter().map(|layer| layer.group()).collect::<Vec<_>>();
    let sees_all = |kv: usize| groups[kv].is_some_and(|group| plan.kv.groups[group].reach == Reach::All);
    let mut found = false;
    for attention in plan.ops.iter_mut().filter_map(attention_of).filter(|o| sees_all(o.kv)) {
        if sparsity.prefill.is_some() && attention.alibi.is_some() {
            return Err("models with linear position biases: means of keys do not have them");
        }
        (attention.sparsity, found) = (sparsity, true);
    }
    match found {
        true => Ok(plan),
        false => Err("models without a layer that sees the whole context"),
    }
}

fn attention_of(op: &mut Op) -> Option<&mut Attention> {
    match op {
        Op::Attend(o) => Some(&mut o.attention),
        Op::Attention(o) => Some(o),
        _ => None,
    }
}

impl Plan {
    /// True when some attention leaves something out: decode rows and rows of a prompt are not the same numbers then.
    pub fn is_sparse(&self) -> bool {
        self.ops.iter().any(|op| match op {
            Op::Attend(o) => !o.attention.sparsity.is_none(),
            Op::Attention(o) => !o.sparsity.is_none(),
            _ => false,
        })
    }
}
