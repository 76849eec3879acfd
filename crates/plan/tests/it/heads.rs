//! Draft heads against slow readable twins: the same arithmetic in float64, straight from the stored tensors.

use crate::common::{Model, relative_error};
use lamina_arch::{HeadFolder, HeadKind, Weights, is_head_folder};
use lamina_base::HostTensor;
use lamina_fixtures::{Models, VOCAB, tokens};
use lamina_oracle::reference::Reference;
use lamina_plan::{
    Backend, Batch, KvType, Limits, Plan, Runner, Select, SeqPlace, Step, Tap, emit_features, emit_head,
    emit_medusa,
};
use lamina_store::{Checkpoint, safetensors::Safetensors};
use std::path::Path;

/// A row of numbers.
type Row = Vec<f64>;

/// Tensors by their stored names, and the few operations that a head is made of.
struct Twin(Safetensors);

impl Twin {
    fn open(folder: &Path) -> Twin {
        Twin(Safetensors::open(folder.join("model.safetensors")).expect("opens"))
    }

    fn tensor(&self, name: &str) -> Row {
        let tensor = self.0.tensors.get(name).unwrap_or_else(|| panic!("no tensor {name}"));
        lamina_quant::to_f32(tensor).expect("decodes").iter().map(|&v| f64::from(v)).collect()
    }

    fn linear(&self, name: &str, x: &[f64]) -> Row {
        let matrix = self.tensor(&format!("{name}.weight"));
        let mut out: Row =
            matrix.chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect();
        if self.0.tensors.contains_key(&format!("{name}.bias")) {
            out.iter_mut().zip(self.tensor(&format!("{name}.bias"))).for_each(|(o, b)| *o += b);
        }
        out
    }

    fn embedding(&self, name: &str, token: u32, width: usize) -> Row {
        self.tensor(&format!("{name}.weight"))[token as usize * width..][..width].to_vec()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Row {
        let mean = x.iter().map(|v| v * v).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + EPS).sqrt();
        x.iter().zip(self.tensor(&format!("{name}.weight"))).map(|(v, w)| v * scale * w).collect()
    }

    /// Causal attention of the rows `inputs`, at positions from 0 on; `turn` rotates a head at a position.
    fn attention(&self, prefix: &str, inputs: &[Row], turn: fn(&[f64], usize) -> Row) -> Vec<Row> {
        let heads = |name: &str, turned: bool| -> Vec<Vec<Row>> {
            let one = |(at, x): (usize, &Row)| {
                let all = self.linear(&format!("{prefix}.{name}"), x);
                all.chunks(DIM).map(|head| if turned { turn(head, at) } else { head.to_vec() }).collect()
            };
            inputs.iter().enumerate().map(one).collect()
        };
        let (q, k, v) = (heads("q_proj", true), heads("k_proj", true), heads("v_proj", false));
        let share = q[0].len() / k[0].len();
        let one = |at: usize| {
            let head = |h: usize| {
                let scores = (0..=at).map(|p| dot(&q[at][h], &k[p][h / share]) / (DIM as f64).sqrt());
                let weights: Row = scores.map(f64::exp).collect();
                let sum: f64 = weights.iter().sum();
                let value = |d: usize| (0..=at).map(|p| weights[p] / sum * v[p][h / share][d]).sum::<f64>();
                (0..DIM).map(value).collect::<Row>()
            };
            let mixed: Row = (0..q[at].len()).flat_map(head).collect();
            self.linear(&format!("{prefix}.o_proj"), &mixed)
        };
        (0..inputs.len()).map(one).collect()
    }

    fn feed(&self, prefix: &str, x: &[f64]) -> Row {
        let (gate, up) =
            (self.linear(&format!("{prefix}.gate_proj"), x), self.linear(&format!("{prefix}.up_proj"), x));
        let inner: Row = gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
        self.linear(&format!("{prefix}.down_proj"), &inner)
    }
}

const EPS: f64 = 1e-6;
const DIM: usize = 16;
const HIDDEN: usize = 128;
const ROWS: usize = 11;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(a: &[f64], b: &[f64]) -> Row {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Halves of a head as pairs that turn.
fn rotated(head: &[f64], at: usize) -> Row {
    let half = head.len() / 2;
    let angle = |i: usize| at as f64 * 10_000f64.powf(-(2.0 * (i % half) as f64) / head.len() as f64);
    let turn = |i: usize| match i < half {
        true => head[i] * angle(i).cos() - head[i + half] * angle(i).sin(),
        false => head[i] * angle(i).cos() + head[i - half] * angle(i).sin(),
    };
    (0..head.len()).map(turn).collect()
}

/// Neighbours in a head as pairs that turn.
fn rotated_neighbours(head: &[f64], at: usize) -> Row {
    let angle = |i: usize| at as f64 * 10_000f64.powf(-((i / 2 * 2) as f64) / head.len() as f64);
    let turn = |i: usize| match i % 2 {
        0 => head[i] * angle(i).cos() - head[i + 1] * angle(i).sin(),
        _ => head[i] * angle(i).cos() + head[i - 1] * angle(i).sin(),
    };
    (0..head.len()).map(turn).collect()
}

/// Hidden rows that look like those behind a norm.
fn hidden(width: usize) -> Vec<Row> {
    let one = |i: usize| ((i * 2_654_435_761) % 1000) as f64 / 250.0 - 2.0;
    (0..ROWS).map(|r| (0..width).map(|c| one(r * width + c + 1)).collect()).collect()
}

/// Logits and marks of the head's rows by its plan, on the reference.
fn planned(plan: Plan, weights: &Weights<'_>, features: &[Row]) -> [Vec<f32>; 3] {
    let upload = |w: &lamina_plan::WeightSpec| {
        let (rows, cols) = w.kind.shape();
        Reference.upload(w, &weights.get(&w.name, rows, cols).expect("is there")).expect("uploads")
    };
    let uploaded = plan.weights.iter().map(upload).collect();
    let kv = vec![KvType::F32.into(); plan.kv.groups.len()];
    let limits = Limits { rows: ROWS, selected: ROWS, logits: ROWS, pages: vec![1; kv.len()], states: 0, kv };
    let groups = limits.pages.len();
    let mut runner = Runner::new(Reference, plan, uploaded, limits).expect("builds");
    let mut batch = Batch::default();
    let place = SeqPlace { pages: vec![vec![0]; groups], ..SeqPlace::default() };
    batch.push(&tokens(ROWS as u32), 0, place, Select::All);
    batch.features = features.concat().iter().map(|&v| v as f32).collect();
    let marks = runner.plan().marks.len();
    batch.taps = (0..marks).map(|mark| Tap { mark, rows: 0..ROWS as u32 }).collect();
    let rows = runner.run(&batch).expect("runs");
    let (mut all, mut one) = (vec![], vec![]);
    for i in 0..ROWS {
        rows.logits(i, &mut one).expect("there are logits");
        all.extend_from_slice(&one);
    }
    let tap = |i: usize| if i < marks { rows.tap(i).to_vec() } else { vec![] };
    [all, tap(0), tap(1)]
}

fn same(found: &[f32], want: &[Row], what: &str) {
    let want: Vec<f32> = want.concat().iter().map(|&v| v as f32).collect();
    assert_eq!(found.len(), want.len(), "{what}");
    let error = relative_error(found, &want);
    assert!(error < 1e-5, "{what} are off by {error:e}");
}

#[test]
fn a_layer_that_guesses_further_tokens_is_its_twin() {
    let models = Models::new();
    let folder = models.head("mimo");
    let model = Model::open(&folder).expect("opens");
    let weights = Weights::new(&model.checkpoint, model.family, &model.spec);
    let rows = hidden(HIDDEN);
    let [logits, residual, normed] =
        planned(emit_head(&model.spec, 0, &|name| weights.has(name)), &weights, &rows);

    let twin = Twin::open(&folder);
    let at = |name: &str| format!("model.mtp_layers.0.{name}");
    let joined = tokens(ROWS as u32).into_iter().zip(&rows).map(|(token, row)| {
        let embedding = twin.embedding("model.embed_tokens", token, HIDDEN);
        let (row, embedding) =
            (twin.norm(&at("hidden_layernorm"), row), twin.norm(&at("token_layernorm"), &embedding));
        twin.linear(&at("input_proj"), &[row, embedding].concat())
    });
    let x: Vec<Row> = joined.collect();
    let inputs: Vec<Row> = x.iter().map(|x| twin.norm(&at("input_layernorm"), x)).collect();
    let mixed = twin.attention(&at("self_attn"), &inputs, rotated);
    let x: Vec<Row> = x.iter().zip(&mixed).map(|(x, m)| add(x, m)).collect();
    let fed = |x: &Row| add(x, &twin.feed(&at("mlp"), &twin.norm(&at("post_attention_layernorm"), x)));
    let x: Vec<Row> = x.iter().map(fed).collect();
    same(&residual, &x, "residuals");
    let x: Vec<Row> = x.iter().map(|x| twin.norm(&at("final_layernorm"), x)).collect();
    same(&normed, &x, "normed rows");
    same(&logits, &x.iter().map(|x| twin.linear("lm_head", x)).collect::<Vec<_>>(), "logits");
}

#[test]
fn the_second_layer_of_ernie_is_its_twin_and_ends_in_the_models_norm() {
    let models = Models::new();
    let folder = models.head("ernie4_5");
    let model = Model::open(&folder).expect("opens");
    let weights = Weights::new(&model.checkpoint, model.family, &model.spec);
    let rows = hidden(HIDDEN);
    let [logits, residual, normed] =
        planned(emit_head(&model.spec, 1, &|name| weights.has(name)), &weights, &rows);

    let twin = Twin::open(&folder);
    let at = |name: &str| format!("model.mtp_block.1.{name}");
    let joined = tokens(ROWS as u32).into_iter().zip(&rows).map(|(token, row)| {
        let embedding = twin.embedding("model.embed_tokens", token, HIDDEN);
        let (embedding, row) =
            (twin.norm("model.mtp_emb_norm.1", &embedding), twin.norm("model.mtp_hidden_norm.1", row));
        twin.linear("model.mtp_linear_proj.1", &[embedding, row].concat())
    });
    let x: Vec<Row> = joined.collect();
    let inputs: Vec<Row> = x.iter().map(|x| twin.norm(&at("input_layernorm"), x)).collect();
    let mixed = twin.attention(&at("self_attn"), &inputs, rotated_neighbours);
    let x: Vec<Row> = x.iter().zip(&mixed).map(|(x, m)| add(x, m)).collect();
    let fed = |x: &Row| add(x, &twin.feed(&at("mlp"), &twin.norm(&at("post_attention_layernorm"), x)));
    let x: Vec<Row> = x.iter().map(fed).collect();
    same(&residual, &x, "residuals");
    let x: Vec<Row> = x.iter().map(|x| twin.norm("model.norm", x)).collect();
    same(&normed, &x, "normed rows");
    same(&logits, &x.iter().map(|x| twin.linear("lm_head", x)).collect::<Vec<_>>(), "logits");
}

/// The head of a folder for the model of family llama, and both as twins.
fn folder(name: &str) -> (Checkpoint, HeadFolder, [Twin; 2]) {
    let models = Models::new();
    let (model, head) = (models.folder("llama"), models.head(name));
    let ck = Checkpoint::open(&head).expect("opens");
    assert!(is_head_folder(&ck) && !is_head_folder(&Checkpoint::open(&model).expect("opens")));
    let found = HeadFolder::of(&ck, &Model::open(&model).expect("opens").spec).expect("fits");
    (ck, found, [Twin::open(&model), Twin::open(&head)])
}

#[test]
fn an_eagle_head_is_its_twin() {
    let (ck, head, [model, twin]) = folder("eagle");
    // The model's output matrix is not in the folder.
    let both = with_output(&ck, &model);
    let weights = Weights::new(&both, head.family, &head.spec);
    let own = Weights::new(&ck, head.family, &head.spec);
    let rows = hidden(HIDDEN);
    let plan = emit_head(&head.spec, 0, &|name| own.has(name));
    let [logits, residual, _] = planned(plan, &weights, &rows);

    let joined = tokens(ROWS as u32).into_iter().zip(&rows).map(|(token, row)| {
        twin.linear("fc", &[twin.embedding("embed_tokens", token, HIDDEN), row.clone()].concat())
    });
    let x: Vec<Row> = joined.collect();
    let mixed = twin.attention("layers.0.self_attn", &x, rotated);
    let x: Vec<Row> = x.iter().zip(&mixed).map(|(x, m)| add(x, m)).collect();
    let fed =
        |x: &Row| add(x, &twin.feed("layers.0.mlp", &twin.norm("layers.0.post_attention_layernorm", x)));
    let x: Vec<Row> = x.iter().map(fed).collect();
    same(&residual, &x, "residuals");
    same(&logits, &x.iter().map(|x| model.linear("lm_head", x)).collect::<Vec<_>>(), "logits");
}

/// The checkpoint of a head with the model's embedding and output matrix in it, under names that its rules know.
fn with_output(ck: &Checkpoint, model: &Twin) -> Checkpoint {
    let own = ck.tensors.values().cloned();
    let lacking =
        [("lm_head.weight", "lm_head.weight"), ("model.embed_tokens.weight", "embed_tokens.weight")]
            .into_iter()
            .filter(|(_, name)| !ck.tensors.contains_key(*name))
            .map(|(own, name)| HostTensor { name: name.to_owned(), ..model.0.tensors[own].clone() });
    ck.with_tensors(ck.kind, own.chain(lacking).collect())
}

#[test]
fn an_eagle_3_head_is_its_twin() {
    let (ck, head, [model, twin]) = folder("eagle3");
    let (both, has) = (with_output(&ck, &model), Weights::new(&ck, head.family, &head.spec));
    let weights = Weights::new(&both, head.family, &head.spec);
    let residuals = hidden(3 * HIDDEN);
    let [_, features, _] =
        planned(emit_features(&head.spec, 3 * HIDDEN, &|name| has.has(name)), &weights, &residuals);
    let rows: Vec<Row> = residuals.iter().map(|row| twin.linear("fc", row)).collect();
    same(&features, &rows, "features");
    let plan = emit_head(&head.spec, 0, &|name| has.has(name));
    let [logits, residual, normed] = planned(plan, &weights, &rows);
    assert_eq!((head.ids[0], head.ids[1], head.ids[199], head.ids.len()), (0, 1, 298, 200));

    let inputs = tokens(ROWS as u32).into_iter().zip(&rows).map(|(token, row)| {
        let embedding = model.embedding("model.embed_tokens", token, HIDDEN);
        [twin.norm("midlayer.input_layernorm", &embedding), twin.norm("midlayer.hidden_norm", row)].concat()
    });
    let mixed = twin.attention("midlayer.self_attn", &inputs.collect::<Vec<_>>(), rotated);
    let x: Vec<Row> = rows.iter().zip(&mixed).map(|(x, m)| add(x, m)).collect();
    let fed =
        |x: &Row| add(x, &twin.feed("midlayer.mlp", &twin.norm("midlayer.post_attention_layernorm", x)));
    let x: Vec<Row> = x.iter().map(fed).collect();
    same(&residual, &x, "residuals");
    let x: Vec<Row> = x.iter().map(|x| twin.norm("norm", x)).collect();
    same(&normed, &x, "normed rows");
    same(&logits, &x.iter().map(|x| twin.linear("lm_head", x)).collect::<Vec<_>>(), "logits");
}

#[test]
fn medusa_heads_are_their_twins() {
    let (ck, head, [_, twin]) = folder("medusa");
    assert_eq!(head.kind, HeadKind::Medusa { heads: 3, blocks: 1 });
    let weights = Weights::new(&ck, head.family, &head.spec);
    let rows = hidden(HIDDEN);
    for i in 0..3 {
        let [logits, ..] = planned(emit_medusa(&head.spec, i, 1, &|name| weights.has(name)), &weights, &rows);
        let block = |x: &Row| {
            let part = twin.linear(&format!("{i}.0.linear"), x);
            add(x, &part.iter().map(|v| v / (1.0 + (-v).exp())).collect::<Row>())
        };
        let want = rows.iter().map(|x| twin.linear(&format!("{i}.1"), &block(x)));
        same(&logits, &want.collect::<Vec<_>>(), "logits");
    }
}

#[test]
fn heads_that_do_not_fit_say_both_sizes() {
    let models = Models::new();
    let mut other = Model::open(&models.folder("llama")).expect("opens").spec;
    other.hidden = 96;
    for name in ["eagle", "eagle3", "medusa"] {
        let ck = Checkpoint::open(models.head(name)).expect("opens");
        let text = HeadFolder::of(&ck, &other).err().expect("it does not fit").to_string();
        assert!(text.contains("128") && text.contains("96"), "{name}: {text}");
    }
}

#[test]
fn heads_are_found_with_their_own_tensors_or_the_models() {
    let models = Models::new();
    // How many layers there are, and how many matrices and norms of the model each of them has.
    for (name, layers, shared) in [
        ("deepseek-v3", 1, 0),
        ("glm4-moe", 1, 2),
        ("qwen3-next", 1, 2),
        ("qwen3_5-text", 1, 2),
        ("mimo", 1, 2),
        ("mimo-three", 3, 2),
        ("ernie4_5", 2, 3),
        ("ernie4_5-moe", 1, 3),
    ] {
        let model = Model::open(&models.head(name)).expect("opens");
        assert_eq!(model.spec.heads.len(), layers, "{name}");
        if let Some(base) = base(name) {
            assert_eq!(Model::open(&models.folder(base)).expect("opens").plan, model.plan, "{name}");
        }
        let weights = Weights::new(&model.checkpoint, model.family, &model.spec);
        let plans: Vec<_> = (0..layers).map(|h| emit_head(&model.spec, h, &|n| weights.has(n))).collect();
        for plan in &plans {
            for w in &plan.weights {
                let (rows, cols) = w.kind.shape();
                weights.check(&w.name, rows, cols).unwrap_or_else(|e| panic!("{name}: {e}"));
            }
            let of_model = plan.weights.iter().filter(|w| !w.name.starts_with("blk."));
            assert_eq!(of_model.count(), shared, "{name}");
            assert_eq!(plan.vocab, VOCAB as usize);
        }
        // Nothing of the head is forgotten.
        model.plan.weights.iter().for_each(|w| {
            let (rows, cols) = w.kind.shape();
            weights.check(&w.name, rows, cols).unwrap_or_else(|e| panic!("{name}: {e}"));
        });
        let all = plans.iter().flat_map(|plan| &plan.weights);
        let head: Vec<_> = all.filter_map(|w| weights.stored(&w.name)).flat_map(|s| s.parts).collect();
        let named =
            |n: &&String| n.contains("mtp") || n.contains(&format!("layers.{}.", model.spec.layers.len()));
        let left = model.checkpoint.tensors.keys().filter(named).find(|n| !head.contains(n));
        assert_eq!(left, None, "{name}");
    }
}

/// The family that a checkpoint is of without its layers, where that has a file.
fn base(name: &str) -> Option<&str> {
    match name {
        "mimo" | "mimo-three" => Some("qwen2"),
        "ernie4_5" | "ernie4_5-moe" => None,
        name => Some(name),
    }
}
