//! Experts on tensor cores: lists of tiles against a few lines that sort, and bits that depend on no list.
//!
//! A row alone needs no list and shares no tile. So its bits say what those of a prompt have to be, whoever else has chosen
//! the same experts.

use crate::common::draws::draws;
use crate::common::steps::{encoded, look_ups, plan_of, rows_of, same_bits};
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_emu::{BlockOrder, Emu};
use lamina_gpu::{Bound, GpuDevice, Launch};
use lamina_plan::{
    KvLayout, KvType, Plan, Slot, WeightId, WeightKind, WeightSpec,
    op::{Act, ExpertRanks, Experts, FewerExperts, HeldExperts, RouterScore, Routing},
};

/// What is grouped: experts of rows from `first` to `end`, of which the step has those before `there`.
#[derive(Clone, Copy, Debug)]
struct Groups {
    first: usize,
    end: usize,
    there: usize,
    items: usize,
    experts: usize,
    height: usize,
}

impl Groups {
    fn pairs(self) -> usize {
        (self.end - self.first) * self.items
    }

    /// First word of the list of pairs: anywhere behind the tiles.
    fn pairs_at(self) -> usize {
        1 + 3 * (self.pairs() + 1)
    }

    /// What the kernel has to find: tiles as expert, first pair and number of pairs, then the pairs.
    fn sorted(self, chosen: &[i32]) -> (Vec<[i32; 3]>, Vec<i32>) {
        let (mut tiles, mut pairs) = (vec![], vec![]);
        let rows = self.first..self.end.min(self.there).max(self.first);
        for expert in 0..self.experts as i32 {
            let start = pairs.len();
            pairs.extend((0..rows.len() * self.items).filter_map(|pair| {
                (chosen[self.first * self.items + pair] == expert).then_some(pair as i32)
            }));
            for first in (start..pairs.len()).step_by(self.height) {
                tiles.push([expert, first as i32, (pairs.len() - first).min(self.height) as i32]);
            }
        }
        (tiles, pairs)
    }

    /// What it finds.
    fn grouped(self, order: BlockOrder, chosen: &[i32]) -> (Vec<[i32; 3]>, Vec<i32>) {
        let device = Emu::new(order);
        let filled = |words: &[i32]| {
            let buffer = device.alloc(size_of_val(words), "a test").expect("memory");
            device.upload(&buffer, 0, bytemuck::cast_slice(words)).expect("copied");
            buffer
        };
        let (step, chosen) = (filled(&[self.there as i32; 4]), filled(chosen));
        let mut lists = vec![-7; self.pairs_at() + self.pairs()];
        let out = filled(&lists);
        let args =
            [self.first, self.end - self.first, self.items, self.experts, self.height, self.pairs_at()];
        let args = args.map(|n| n as i32);
        let bound = [Bound::read(&step, 0), Bound::read(&chosen, 0), Bound::write(&out, 0)];
        let args = bytemuck::bytes_of(&args);
        device.launch(&Launch { kernel: "group_pairs", grid: [1; 3], bound: &bound, args }).expect("runs");
        device.download(&out, 0, bytemuck::cast_slice_mut(&mut lists)).expect("copied");
        let tiles: Vec<[i32; 3]> =
            lists[1..][..3 * lists[0] as usize].chunks(3).map(|tile| [tile[0], tile[1], tile[2]]).collect();
        let pairs = tiles.last().map_or(0, |[_, first, count]| (first + count) as usize);
        (tiles, lists[self.pairs_at()..][..pairs].to_vec())
    }
}

/// Random choices, choices that are all the same, and none; of 0 rows, of some, and of hundreds; of fewer experts than a warp
/// has lanes and of more than the block has threads.
#[test]
fn pairs_are_grouped_as_by_sorting() {
    for (rows, items, experts) in
        [(0, 2, 8), (1, 8, 60), (5, 8, 8), (33, 4, 256), (300, 8, 128), (150, 6, 600)]
    {
        for (seed, spread) in [(1, experts), (2, 1), (3, 3)] {
            for (first, height) in [(0, 8), (rows / 3, 64)] {
                // Each tenth is not computed.
                let one = |d: u64| if d % 10 == 9 { -1 } else { (d / 10 % spread as u64) as i32 };
                let chosen: Vec<i32> = draws(seed, 1 << 30).map(one).take((rows + 4) * items).collect();
                let of = Groups { first, end: rows + 4, there: rows, items, experts, height };
                for order in [BlockOrder::Forwards, BlockOrder::Backwards] {
                    assert_eq!(of.grouped(order, &chosen), of.sorted(&chosen), "{of:?} {spread}");
                }
            }
        }
    }
    let none = Groups { first: 0, end: 9, there: 9, items: 2, experts: 4, height: 8 };
    assert_eq!(none.grouped(BlockOrder::Forwards, &[-1; 18]), (vec![], vec![]));
}

const ROWS: usize = 150;
const HIDDEN: usize = 256;
const INNER: usize = 96;
const EXPERTS: usize = 8;
/// The slot of the result.
const OUT: Slot = Slot(2);

const PLAIN: Routing = Routing {
    experts: EXPERTS,
    top_k: 2,
    score: RouterScore::Softmax,
    renorm: true,
    scale: 1.0,
    groups: None,
    weight_input: false,
    fewer: None,
    ranks: ExpertRanks::All,
};

/// A layer of experts, and what rows want of them.
struct Layer {
    what: &'static str,
    types: [DType; 3],
    routing: Routing,
    /// Of a row and an expert.
    logit: fn(usize, usize) -> f32,
}

/// All rows want the same two, which are the only ones with rows.
fn skewed(row: usize, expert: usize) -> f32 {
    if expert == 3 || expert == 5 { 4.0 + (row % 3) as f32 } else { -(expert as f32) }
}

fn spread(row: usize, expert: usize) -> f32 {
    ((row * 7 + expert * 5 + row * expert % 11) % 13) as f32 / 3.0
}

fn layers() -> [Layer; 5] {
    use DType::{BF16, F16, F32, MXFP4, Q4_0, Q4_K, Q6_K, Q8_0};
    let fewer = Some(FewerExperts { least: 1, threshold: 0.6 });
    let scaled = Routing { weight_input: true, renorm: false, score: RouterScore::Sigmoid, ..PLAIN };
    [
        Layer { what: "one for all", types: [Q4_K, Q4_K, Q4_0], routing: PLAIN, logit: skewed },
        Layer { what: "spread", types: [Q6_K, BF16, F16], routing: PLAIN, logit: spread },
        Layer {
            what: "dropped",
            types: [Q8_0; 3],
            routing: Routing { top_k: 4, fewer, ..PLAIN },
            logit: spread,
        },
        Layer { what: "scaled", types: [MXFP4, F16, Q8_0], routing: scaled, logit: spread },
        Layer { what: "a part of them", types: [F32, Q8_0, F32], routing: PLAIN, logit: spread },
    ]
}

impl Layer {
    /// Two look-ups and the experts.
    fn plan(&self) -> Plan {
        let table = |cols| WeightKind::Table { rows: ROWS, cols };
        let stack = |rows, cols| WeightKind::Stack { count: EXPERTS, rows, cols };
        let kinds =
            [table(HIDDEN), table(EXPERTS), stack(INNER, HIDDEN), stack(INNER, HIDDEN), stack(HIDDEN, INNER)];
        let experts = Experts {
            x: Slot(0),
            logits: Slot(1),
            select_bias: None,
            gate: WeightId(2),
            up: WeightId(3),
            down: WeightId(4),
            biases: None,
            inner: INNER,
            act: Act::Silu,
            held: HeldExperts::All,
            routing: self.routing,
            out: OUT,
        };
        let ops = look_ups(2).chain([experts.into()]).collect();
        plan_of(&[HIDDEN, EXPERTS, HIDDEN], &kinds, KvLayout::default(), ops, OUT)
    }

    fn weight(&self, i: usize, spec: &WeightSpec) -> Tensor {
        let (rows, cols) = spec.kind.shape();
        let random = draws(i as u64, 1 << 20).map(|d| d as f32 / 524_288.0 - 1.0);
        let numbers: Vec<f32> = match i {
            1 => (0..rows * cols).map(|n| (self.logit)(n / cols, n % cols)).collect(),
            0 => random.take(rows * cols).collect(),
            _ => random.map(|v| v * 0.2).take(rows * cols).collect(),
        };
        encoded(spec, if i < 2 { DType::F32 } else { self.types[i - 2] }, &numbers)
    }

    fn rows(&self, device: &Emu, steps: &[usize]) -> Vec<f32> {
        rows_of(device, &self.plan(), |i, spec| self.weight(i, spec), KvType::F16, steps)
    }
}

/// Numbers in 16 bits, half a step of 2^-11 or of 2^-8 each, of the largest result: three products behind one another, of
/// which the kit allows as much.
fn most(types: [DType; 3]) -> f32 {
    if types.contains(&DType::BF16) { 4e-3 } else { 1e-3 }
}

#[test]
fn a_row_has_the_same_bits_whoever_shares_its_experts() {
    for layer in layers() {
        let device = || Emu::default().with_tensor_cores();
        let alone = layer.rows(&device(), &[1; ROWS]);
        let plain = layer.rows(&Emu::default(), &[ROWS]);
        let largest = plain.iter().fold(0.0, |m: f32, v| m.max(v.abs()));
        let error = alone.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{}: {error:.1e} of {largest:.1e}", layer.what);
        assert!(error <= most(layer.types) * largest, "{}: {error:e} of {largest:e}", layer.what);
        let small = device().with_memory(6 << 20);
        let steps: [(Emu, &[usize]); 3] =
            [(device(), &[ROWS]), (device(), &[20, 1, 3, 64, 2, 60]), (small, &[ROWS])];
        for (device, steps) in steps {
            let rows = layer.rows(&device, steps);
            assert!(same_bits(&rows, &alone), "{}: bits of steps of {steps:?}", layer.what);
        }
    }
}

/// Gates and ups share what rows become in 16 bits, where both want the same; a row alone has no list.
#[test]
fn rows_are_converted_once_for_products_that_share_them() {
    for (layer, converted) in layers().iter().zip([2, 3, 2, 2, 1]) {
        for (steps, lists) in [(&[1][..], 0), (&[2], 1), (&[ROWS], 1)] {
            let device = Emu::default().with_tensor_cores();
            layer.rows(&device, steps);
            assert_eq!(device.launches("half_rows"), converted, "{}: {steps:?}", layer.what);
            assert_eq!(device.launches("group_pairs"), lists, "{}: {steps:?}", layer.what);
            // Gate and up of the first layer, by tiles of 64 where experts have enough rows.
            if layer.types[0] == DType::Q4_K {
                let [few, many] = ["tensor_few_q4_k", "tensor_many_q4_k"].map(|name| device.launches(name));
                assert_eq!([few, many], if steps == [ROWS] { [0, 2] } else { [2, 0] });
            }
        }
    }
}
