//! Encoders whose matrices have bounds: cuts stand around the products, and nowhere else.

use lamina_arch::{
    spec::Place,
    vision::{ClipBounds, VisionEncoder, VisionFamily, VisionSource},
};
use lamina_fixtures::shared;
use lamina_plan::{Plan, emit_blocks, op::*};
use lamina_store::Checkpoint;

const ALL: [&str; 7] = ["attn_q", "attn_k", "attn_v", "attn_out", "ffn_gate", "ffn_up", "ffn_down"];

/// Gemma 4's encoder with bounds at these matrices of its first block, and norms in this place.
fn encoder(clipped: &[&str], place: Place) -> Option<VisionEncoder> {
    let ck = Checkpoint::open(shared("golden-vision/gemma4")?).expect("opens");
    let source = VisionSource::of_folder(&ck).expect("settings").expect("eyes");
    let spec = VisionFamily::of(&source).expect("a family").spec(&source).expect("a spec");
    let bounds = ClipBounds { input: [-1.0, 2.0], output: [-3.0, 4.0] };
    let clips = clipped.iter().map(|name| (format!("v.blk.0.{name}"), bounds)).collect();
    let mut encoder = VisionEncoder { clips, ..spec.encoder };
    encoder.layers.iter_mut().for_each(|layer| layer.place = place);
    Some(encoder)
}

fn first_block(clipped: &[&str], place: Place) -> Option<Plan> {
    Some(emit_blocks(&encoder(clipped, place)?, 0..1, &|name| !name.ends_with(".bias")))
}

fn count(plan: &Plan, of: &str) -> usize {
    plan.ops.iter().filter(|op| op.name() == of).count()
}

#[test]
fn operators_come_apart_where_their_matrices_have_bounds() {
    let fused = ["Project", "Glu", "LinearAdd"];
    for (place, products) in [(Place::Sandwich, 2), (Place::Pre, 4)] {
        let (Some(plain), Some(clipped)) = (first_block(&[], place), first_block(&ALL, place)) else {
            return;
        };
        let together: usize = fused.iter().map(|name| count(&plain, name)).sum();
        assert_eq!((together, count(&plain, "Apply")), (products, 0), "{place:?}");
        assert_eq!(fused.map(|name| count(&clipped, name)), [0; 3]);
        assert_eq!(["Linear", "Copy", "Apply"].map(|name| count(&clipped, name)), [7, 7, 14]);
        assert_eq!(clipped.marks.last().map(|mark| mark.ops), Some(clipped.ops.len()), "marks move along");
    }
}

#[test]
fn a_cut_is_of_the_products_own_input_and_of_its_output() {
    let Some(plan) = first_block(&["ffn_down"], Place::Sandwich) else { return };
    assert!(count(&plan, "Project") == 1 && count(&plan, "Glu") == 1, "others stay together");
    let at = plan.ops.iter().position(|op| matches!(op, Op::Apply(_))).expect("a cut");
    let [Op::Copy(copy), Op::Apply(before), Op::Linear(product), Op::Apply(after)] =
        &plan.ops[at - 1..at + 3]
    else {
        panic!("{:?}", &plan.ops[at - 1..at + 3]);
    };
    assert_eq!((copy.out, before.x, product.x), (before.x, product.x, copy.out));
    assert_eq!(before.map, Map::Clip { low: -1.0, high: 2.0 });
    assert_eq!((after.x, after.map), (product.part.out, Map::Clip { low: -3.0, high: 4.0 }));
}
