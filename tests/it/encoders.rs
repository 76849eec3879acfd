//! Encoders against a plain twin in double precision: rows, embeddings, scores of pairs; and the law of bits for them.

use lamina::{Error, GenerateOptions, KvType, LoadOptions, Model, Prompt, Rows};
use lamina_convert::{Draft, Types, WriteOptions};
use lamina_fixtures::Models;
use lamina_store::Checkpoint;
use std::{collections::BTreeMap, fs, path::Path, thread};

/// Float32 sums in another order, through three layers of width 96.
const TOLERANCE: f64 = 2e-4;

const HIDDEN: usize = 96;
const HEADS: usize = 6;
const DIM: usize = HIDDEN / HEADS;

/// How the families differ.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    prefix: &'static str,
    /// Rows of the position table before position 0; none without a table.
    reserved: Option<usize>,
    /// Names of the tensors of a layer: the folder's part before the layer's number.
    layer: &'static str,
    rope: Option<f64>,
    /// What attention is called where queries, keys and values are one tensor.
    fused: &'static str,
    gated: bool,
    alibi: bool,
    segments: usize,
}

const BERT: Kind = Kind {
    name: "bert",
    prefix: "bert.",
    reserved: Some(0),
    layer: "encoder.layer",
    rope: None,
    fused: "",
    gated: false,
    alibi: false,
    segments: 2,
};
const KINDS: [Kind; 5] = [
    BERT,
    Kind { name: "xlm-roberta", prefix: "roberta.", reserved: Some(2), segments: 1, ..BERT },
    Kind { name: "jina-bert-v2", prefix: "", reserved: None, alibi: true, ..BERT },
    Kind {
        name: "nomic-bert",
        prefix: "",
        reserved: None,
        layer: "encoder.layers",
        rope: Some(1000.0),
        fused: "attn",
        gated: true,
        ..BERT
    },
    Kind {
        name: "jina-v3",
        prefix: "roberta.",
        reserved: None,
        layer: "encoder.layers",
        rope: Some(1000.0),
        fused: "mixer",
        segments: 1,
        ..BERT
    },
];

/// The twin: one number after the other, as the papers say.
struct Twin {
    kind: Kind,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

impl Twin {
    fn open(kind: Kind, folder: &Path) -> Twin {
        let ck = Checkpoint::open(folder).unwrap();
        let one = |(name, t): (&String, &lamina_base::HostTensor)| {
            let values = lamina_quant::to_f32(t).unwrap().into_iter().map(f64::from).collect();
            (name.clone(), (t.shape.clone(), values))
        };
        Twin { kind, tensors: ck.tensors.iter().map(one).collect() }
    }

    fn find(&self, name: &str) -> Option<&(Vec<usize>, Vec<f64>)> {
        let own = format!("{}{name}", self.kind.prefix);
        let adapted = own.replace(".weight", ".parametrizations.weight.original");
        [own.as_str(), name, &adapted].into_iter().find_map(|name| self.tensors.get(name))
    }

    fn row(&self, name: &str, i: usize) -> Vec<f64> {
        let (shape, values) = self.find(name).unwrap_or_else(|| panic!("{name}"));
        values[i * shape[1]..(i + 1) * shape[1]].to_vec()
    }

    fn linear(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (shape, w) = self.find(&format!("{name}.weight")).unwrap_or_else(|| panic!("{name}"));
        let bias = self.find(&format!("{name}.bias"));
        let dot =
            |r: usize| w[r * shape[1]..(r + 1) * shape[1]].iter().zip(x).map(|(a, b)| a * b).sum::<f64>();
        (0..shape[0]).map(|r| dot(r) + bias.map_or(0.0, |(_, b)| b[r])).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let (_, w) = self.find(&format!("{name}.weight")).unwrap_or_else(|| panic!("{name}"));
        let (_, b) = self.find(&format!("{name}.bias")).unwrap();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let var = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / x.len() as f64;
        x.iter().zip(w).zip(b).map(|((v, w), b)| (v - mean) / (var + 1e-12).sqrt() * w + b).collect()
    }

    fn rows(&self, tokens: &[u32], second: usize) -> Vec<Vec<f64>> {
        let embed = |(i, &t): (usize, &u32)| {
            let mut x = self.row("embeddings.word_embeddings.weight", t as usize);
            if let Some(reserved) = self.kind.reserved {
                add(&mut x, &self.row("embeddings.position_embeddings.weight", i + reserved));
            }
            let segment = usize::from(i >= second && self.kind.segments > 1);
            add(&mut x, &self.row("embeddings.token_type_embeddings.weight", segment));
            let name = if self.kind.rope.is_some() { "emb_ln" } else { "embeddings.LayerNorm" };
            self.norm(name, &x)
        };
        let mut rows: Vec<_> = tokens.iter().enumerate().map(embed).collect();
        for layer in 0..3 {
            rows = self.layer(&format!("{}.{layer}", self.kind.layer), &rows);
        }
        rows
    }

    fn layer(&self, l: &str, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let fused = self.kind.fused;
        let qkv: Vec<[Vec<f64>; 3]> = rows.iter().enumerate().map(|(i, x)| self.qkv(l, i, x)).collect();
        let (out, norms) = match fused {
            "attn" | "mixer" => {
                (format!("{l}.{fused}.out_proj"), [format!("{l}.norm1"), format!("{l}.norm2")])
            }
            _ => {
                let second = if self.kind.alibi { "mlp.layernorm" } else { "output.LayerNorm" };
                let norms = [format!("{l}.attention.output.LayerNorm"), format!("{l}.{second}")];
                (format!("{l}.attention.output.dense"), norms)
            }
        };
        let one = |(i, x): (usize, &Vec<f64>)| {
            let mut y = self.linear(&out, &self.attend(i, &qkv));
            add(&mut y, x);
            let y = self.norm(&norms[0], &y);
            let mut z = self.feed(l, &y);
            add(&mut z, &y);
            self.norm(&norms[1], &z)
        };
        rows.iter().enumerate().map(one).collect()
    }

    fn qkv(&self, l: &str, i: usize, x: &[f64]) -> [Vec<f64>; 3] {
        let Some(theta) = self.kind.rope else {
            return ["query", "key", "value"].map(|n| self.linear(&format!("{l}.attention.self.{n}"), x));
        };
        let all = self.linear(&format!("{l}.{}.Wqkv", self.kind.fused), x);
        let turn = |x: &[f64]| {
            let mut out = x.to_vec();
            for head in out.chunks_exact_mut(DIM) {
                for p in 0..DIM / 2 {
                    let angle = i as f64 * theta.powf(-2.0 * p as f64 / DIM as f64);
                    let (a, b) = (head[p], head[p + DIM / 2]);
                    head[p] = a * angle.cos() - b * angle.sin();
                    head[p + DIM / 2] = b * angle.cos() + a * angle.sin();
                }
            }
            out
        };
        [turn(&all[..HIDDEN]), turn(&all[HIDDEN..2 * HIDDEN]), all[2 * HIDDEN..].to_vec()]
    }

    fn attend(&self, i: usize, qkv: &[[Vec<f64>; 3]]) -> Vec<f64> {
        let head = |h: usize| {
            let part = h * DIM..(h + 1) * DIM;
            let slope = if self.kind.alibi { slope(h) } else { 0.0 };
            let score = |(j, [_, k, _]): (usize, &[Vec<f64>; 3])| {
                let dot: f64 = qkv[i][0][part.clone()].iter().zip(&k[part.clone()]).map(|(a, b)| a * b).sum();
                dot / (DIM as f64).sqrt() - slope * i.abs_diff(j) as f64
            };
            let scores: Vec<f64> = qkv.iter().enumerate().map(score).collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mut out = vec![0.0; DIM];
            for (w, [_, _, v]) in weights.iter().zip(qkv) {
                out.iter_mut().zip(&v[part.clone()]).for_each(|(o, v)| *o += w / sum * v);
            }
            out
        };
        (0..HEADS).flat_map(head).collect()
    }

    fn feed(&self, l: &str, x: &[f64]) -> Vec<f64> {
        if self.kind.gated {
            let (up, gate) =
                (self.linear(&format!("{l}.mlp.fc11"), x), self.linear(&format!("{l}.mlp.fc12"), x));
            let inner: Vec<f64> = up.iter().zip(gate).map(|(u, g)| u * g / (1.0 + (-g).exp())).collect();
            return self.linear(&format!("{l}.mlp.fc2"), &inner);
        }
        if self.kind.alibi {
            let both = self.linear(&format!("{l}.mlp.gated_layers"), x);
            let (gate, up) = both.split_at(both.len() / 2);
            let inner: Vec<f64> = gate.iter().zip(up).map(|(g, u)| gelu(*g) * u).collect();
            return self.linear(&format!("{l}.mlp.wo"), &inner);
        }
        let (up, down) = match self.kind.fused {
            "mixer" => ("mlp.fc1", "mlp.fc2"),
            _ => ("intermediate.dense", "output.dense"),
        };
        let inner: Vec<f64> = self.linear(&format!("{l}.{up}"), x).into_iter().map(gelu).collect();
        self.linear(&format!("{l}.{down}"), &inner)
    }

    fn score(&self, tokens: &[u32], second: usize) -> f64 {
        let first = self.rows(tokens, second).swap_remove(0);
        let (dense, out) = match self.kind.name {
            "bert" => ("pooler.dense", "classifier"),
            _ => ("classifier.dense", "classifier.out_proj"),
        };
        let pooled: Vec<f64> = self.linear(dense, &first).into_iter().map(f64::tanh).collect();
        self.linear(out, &pooled)[0]
    }
}

fn add(x: &mut [f64], y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// Slopes of six heads: those of four, and every other one of eight.
fn slope(h: usize) -> f64 {
    if h < 4 { 0.25f64.powi(h as i32 + 1) } else { 0.5f64.powi(2 * (h as i32 - 4) + 1) }
}

fn gelu(x: f64) -> f64 {
    x * 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

/// The error function by its series, which is exact enough up to 6; beyond, it is one.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn load(folder: &Path) -> Model {
    let options = LoadOptions { kv_dtype: KvType::F32.into(), threads: Some(2), ..LoadOptions::default() };
    Model::load(Some(folder), options).unwrap()
}

#[test]
fn rows_are_those_of_the_twin() {
    let models = Models::new();
    for kind in KINDS {
        let folder = models.encoder(kind.name);
        let (model, twin) = (load(&folder), Twin::open(kind, &folder));
        for n in [1, 2, 33, 80] {
            let tokens = lamina_fixtures::tokens(n);
            let want: Vec<f64> = twin.rows(&tokens, usize::MAX).concat();
            let got = model.hidden(&tokens, -1).unwrap();
            let error = got.iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            assert!(got.len() == want.len() && error < TOLERANCE, "{} of {n}: {error}", kind.name);
        }
    }
}

#[test]
fn pairs_are_scored_as_the_twin_does() {
    let models = Models::new();
    for kind in &KINDS[..2] {
        let folder = models.encoder(kind.name);
        lamina_fixtures::add_words(&folder);
        let (model, twin) = (load(&folder), Twin::open(*kind, &folder));
        let documents: Vec<String> = ["w7 w8", "w1 w2 w3 w4 w299", ""].map(String::from).into();
        let got = model.rerank("w5 w6 w5", &documents, &mut || true).unwrap();
        let bodies: [&[u32]; 3] = [&[12, 13], &[6, 7, 8, 9, 304], &[]];
        for (score, body) in got.iter().zip(bodies) {
            let tokens = [&[2, 10, 11, 10, 3], body, &[3]].concat();
            let want = twin.score(&tokens, 5);
            assert!((f64::from(*score) - want).abs() < TOLERANCE, "{}: {score}, not {want}", kind.name);
        }
    }
}

#[test]
fn a_text_has_the_same_bits_among_others_and_on_any_threads() {
    let models = Models::new();
    for kind in KINDS {
        let folder = models.encoder(kind.name);
        let texts: Vec<Vec<u32>> = [40, 3, 80, 17, 64, 1].map(lamina_fixtures::tokens).into();
        let bits = |rows: Vec<f32>| rows.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let alone: Vec<_> = texts.iter().map(|t| bits(load(&folder).hidden(t, -1).unwrap())).collect();
        for threads in [1, 3] {
            let kv_dtype = KvType::F32.into();
            let options = LoadOptions { kv_dtype, threads: Some(threads), ..LoadOptions::default() };
            let model = Model::load(Some(&folder), options).unwrap();
            let together: Vec<_> = thread::scope(|s| {
                let (model, bits) = (&model, &bits);
                let all: Vec<_> =
                    texts.iter().map(|t| s.spawn(move || bits(model.hidden(t, -1).unwrap()))).collect();
                all.into_iter().map(|t| t.join().unwrap()).collect()
            });
            assert_eq!(together, alone, "{}", kind.name);
        }
    }
}

#[test]
fn files_of_encoders_have_the_rows_of_their_folders() {
    let models = Models::new();
    for kind in KINDS {
        let folder = models.encoder(kind.name);
        lamina_fixtures::add_words(&folder);
        fs::create_dir(folder.join("1_Pooling")).unwrap();
        fs::write(folder.join("1_Pooling/config.json"), r#"{"pooling_mode_cls_token": true}"#).unwrap();
        let file = folder.join("converted.gguf");
        let report = Draft::open(&folder)
            .and_then(|d| d.write(&file, &WriteOptions::new("f32".parse::<Types>()?), &|_, _| true));
        let report = report.unwrap_or_else(|e| panic!("{}: {e}", kind.name));
        assert!(report.notes.iter().all(|n| !n.contains("no key")), "{}: {:?}", kind.name, report.notes);
        let (from_folder, from_file) = (load(&folder), load(&file));
        let tokens = lamina_fixtures::tokens(33);
        let rows = |model: &Model| model.hidden(&tokens, -1).unwrap();
        let error =
            rows(&from_folder).iter().zip(rows(&from_file)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        // Of rotary factors a file keeps the base only, which may cost them their last bit.
        assert!(error < 1e-5, "{}: {error}", kind.name);
        let embed = |model: &Model| model.embed(&Prompt::Tokens(tokens.clone()), &mut || true).unwrap();
        let error =
            embed(&from_folder).iter().zip(embed(&from_file)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 1e-5, "{}: the pooling is another: {error}", kind.name);
        let text = |model: &Model| model.tokenize("w7 w8 w299", lamina::Special::ADD_AND_PARSE).unwrap();
        assert_eq!(text(&from_folder), text(&from_file), "{}", kind.name);
    }
}

#[test]
fn an_encoder_says_what_it_cannot_do() {
    let models = Models::new();
    let folder = models.encoder("nomic-bert");
    let model = load(&folder);
    let answer = model.generate(&Prompt::Tokens(vec![5, 6]), &GenerateOptions::default());
    assert!(matches!(answer, Err(Error::Unsupported(e)) if e.contains("writes none")));
    assert!(matches!(model.rows(&[5, 6], Rows::Logits, &mut || true), Err(Error::Unsupported(_))));
    let long = model.hidden(&lamina_fixtures::tokens(81), -1).unwrap_err().to_string();
    assert!(long.contains("81") && long.contains("80"), "{long}");
    let pairs = model.rerank("a", &["b".into()], &mut || true).unwrap_err().to_string();
    assert!(pairs.contains("classifier"), "{pairs}");
}

#[test]
fn embeddings_follow_the_makers_pooling() {
    let models = Models::new();
    let folder = models.encoder("jina-bert-v2");
    let tokens = lamina_fixtures::tokens(20);
    let embed = || load(&folder).embed(&Prompt::Tokens(tokens.clone()), &mut || true).unwrap();
    let rows = load(&folder).hidden(&tokens, -1).unwrap();
    let unit = |row: Vec<f32>| {
        let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
        row.into_iter().map(|v| v / length).collect::<Vec<_>>()
    };
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    let mean = (0..HIDDEN).map(|c| rows.iter().skip(c).step_by(HIDDEN).sum()).collect();
    assert!(near(&embed(), &unit(mean)));
    fs::create_dir(folder.join("1_Pooling")).unwrap();
    fs::write(folder.join("1_Pooling/config.json"), r#"{"pooling_mode_cls_token": true}"#).unwrap();
    assert!(near(&embed(), &unit(rows[..HIDDEN].to_vec())));
}
