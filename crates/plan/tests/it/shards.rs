//! Shards of plans: over all ranks, every row of every matrix is there once, and so are heads and experts.

use crate::common::Model;
use lamina_fixtures::{Models, names};
use lamina_plan::{
    GatherTo, LayerState, Plan, ShardCaches, ShardEnd, ShardPlan, WeightKind,
    op::{ColumnRange, HeldExperts, Op},
};
use std::ops::Range;

fn shards(plan: &Plan, ranks: usize, caches: ShardCaches) -> Vec<ShardPlan> {
    (0..ranks).map(|rank| ShardPlan::of(plan, rank, ranks, caches)).collect()
}

/// True where `ranges` follow one another from 0 to `end`.
fn follow(mut ranges: impl Iterator<Item = Range<usize>>, end: usize) -> bool {
    let reached =
        ranges.try_fold(0, |at, range| (range.start == at && !range.is_empty()).then_some(range.end));
    reached == Some(end)
}

/// Weights: whole on every rank, or each row on one of them.
fn rows_are_there_once(plan: &Plan, shards: &[ShardPlan]) {
    for (w, spec) in plan.weights.iter().enumerate() {
        let parts: Vec<_> = shards.iter().filter_map(|shard| shard.weights[w].clone()).collect();
        if parts.is_empty() {
            assert!(shards.iter().all(|shard| shard.plan.weights[w] == *spec), "{}", spec.name);
            continue;
        }
        let (rows, cols) = spec.kind.shape();
        let all = if matches!(spec.kind, WeightKind::Vector { .. }) { cols } else { rows };
        assert!(parts.iter().all(|part| part.whole == *spec), "{}", spec.name);
        assert!(follow(parts.iter().map(|part| part.rows.clone()), all), "{}: {parts:?}", spec.name);
        let held: usize =
            shards.iter().map(|shard| shard.plan.weights[w].kind.shape()).map(|(r, c)| r * c).sum();
        assert_eq!(held, rows * cols, "{}", spec.name);
    }
}

/// Layers whose heads are divided, all of which are somewhere.
fn divided_layers(plan: &Plan, shards: &[ShardPlan]) -> usize {
    let heads = |plan: &Plan, layer: usize| match plan.kv.layers[layer] {
        LayerState::Paged { kv_heads, .. } => kv_heads,
        _ => 0,
    };
    let divided = |&layer: &usize| {
        let all = heads(plan, layer);
        let own: Vec<usize> = shards.iter().map(|shard| heads(&shard.plan, layer)).collect();
        let divided = own.iter().any(|&own| own < all);
        assert_eq!(own.iter().sum::<usize>(), if divided { all } else { all * shards.len() });
        divided
    };
    (0..plan.kv.layers.len()).filter(divided).count()
}

#[test]
fn rows_heads_and_experts_are_divided_among_all_ranks() {
    let models = Models::new();
    let (mut by_head, mut mixed) = (vec![], 0);
    for name in names() {
        let plan = Model::open(&models.folder(&name)).expect("a model").plan;
        for ranks in [2, 3] {
            for caches in [ShardCaches::Whole, ShardCaches::ByHead] {
                let shards = shards(&plan, ranks, caches);
                rows_are_there_once(&plan, &shards);
                let divided = divided_layers(&plan, &shards);
                assert!(caches == ShardCaches::ByHead || divided == 0, "{name}");
                if ranks == 2 && divided > 0 {
                    by_head.push(name.clone());
                }
                let ends =
                    |shard: &ShardPlan| shard.segments.iter().map(|s| s.end.clone()).collect::<Vec<_>>();
                assert!(
                    shards.iter().all(|shard| ends(shard) == ends(&shards[0])),
                    "{name}: ranks meet alike"
                );
            }
        }
        let shards = shards(&plan, 2, ShardCaches::ByHead);
        for (i, op) in plan.ops.iter().enumerate() {
            let Op::Experts(o) = op else { continue };
            let held = shards.iter().map(|shard| match &shard.plan.ops[i] {
                Op::Experts(own) if own.held != HeldExperts::All => own.held.range(o.routing.experts),
                other => panic!("{other:?}"),
            });
            assert!(follow(held, o.routing.experts), "{name}");
            mixed += 1;
        }
    }
    // With biases, with norms of heads, with windows beside layers that see all.
    for name in ["llama", "qwen2", "qwen3", "gemma2"] {
        assert!(by_head.iter().any(|found| found == name), "{name}: {by_head:?}");
    }
    // Biases of positions go by the number of a head, and norms of whole rows see all heads.
    assert!(!by_head.iter().any(|name| ["mpt", "bloom", "olmo2"].contains(&name.as_str())), "{by_head:?}");
    assert!(mixed > 0);
}

/// What a decoder of the usual form costs: four times in a layer, ranks meet, and for logits with the leader alone.
#[test]
fn ranks_meet_four_times_in_a_layer() {
    let models = Models::new();
    let plan = Model::open(&models.folder("llama")).expect("a model").plan;
    let layers = plan.kv.layers.len();
    let shard = ShardPlan::of(&plan, 1, 2, ShardCaches::ByHead);
    let all = shard.segments.iter().filter(|s| matches!(s.end, ShardEnd::Columns { to: GatherTo::All, .. }));
    assert_eq!(all.count(), 4 * layers);
    let last = shard.segments.last().expect("a segment");
    let ShardEnd::Columns { slots, to: GatherTo::Leader } = &last.end else { panic!("{last:?}") };
    assert!(slots.len() == 1 && slots[0].slot == plan.logits);
    // The rank's own columns alone are computed.
    let parts = shard
        .plan
        .ops
        .iter()
        .filter_map(|op| if let Op::Glu(o) = op { Some(&o.project.parts) } else { None });
    let computed =
        parts.flatten().all(|part| matches!(part.columns, ColumnRange::Some { first, .. } if first > 0));
    assert!(computed, "the second half");
}

/// Matrices with too few rows for all ranks stay whole.
#[test]
fn what_is_small_is_computed_by_every_rank() {
    let models = Models::new();
    let plan = Model::open(&models.folder("llama")).expect("a model").plan;
    let many = ShardPlan::of(&plan, 99, 100, ShardCaches::ByHead);
    assert_eq!(many.plan.weights, plan.weights);
    assert!(many.segments.len() == 1 && many.weights.iter().all(Option::is_none));
}
