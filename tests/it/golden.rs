//! The whole path - folder, family, plan, CPU backend, engine - against the logits of each model's own code, where they
//! are at hand. `families.rs` does the same on checkpoints that it makes, against logits of an earlier build.

use lamina::{GenerateOptions, KvType, LoadOptions, Model, Prompt};
use lamina_arch::{Family, Weights};
use lamina_base::DType;
use lamina_fixtures::shared;
use lamina_quant::to_f32;
use lamina_store::{Checkpoint, safetensors::Safetensors};
use std::path::{Path, PathBuf};

/// Gaps between the two best logits below this are ties, as the fixtures' README says.
const TIE: f32 = 0.02;

struct Golden {
    prompts: Vec<Vec<u32>>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<Vec<u32>>,
    margin: Vec<Vec<f32>>,
}

impl Golden {
    fn open(folder: &Path) -> Golden {
        let file = Safetensors::open(folder.join("golden.safetensors")).expect("opens");
        let rows = |name: &str| -> Vec<Vec<f32>> {
            let t = &file.tensors[name];
            to_f32(t).expect("decodes").chunks(t.elements() / t.shape[0]).map(<[f32]>::to_vec).collect()
        };
        let ids = |name: &str| rows(name).iter().map(|r| r.iter().map(|&v| v as u32).collect()).collect();
        Golden {
            prompts: ids("input_ids"),
            logits: rows("logits"),
            greedy: ids("greedy"),
            margin: rows("greedy_margin"),
        }
    }
}

/// `|a - b| / |b|`.
fn error(a: &[f32], b: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f(f64::from(a), f64::from(b))).sum()
    };
    (sum(&|a, b| (a - b) * (a - b)) / sum(&|_, b| b * b)).sqrt()
}

fn options(kv_type: KvType) -> LoadOptions {
    LoadOptions { kv_dtype: kv_type.into(), threads: Some(2), ..LoadOptions::default() }
}

fn check(folder: &Path, options: &LoadOptions, tolerance: f64) -> Result<(), String> {
    let golden = Golden::open(folder);
    let model = Model::load(Some(folder), options.clone()).map_err(|e| e.to_string())?;
    for (i, prompt) in golden.prompts.iter().enumerate() {
        let logits = model.logits(prompt).map_err(|e| e.to_string())?;
        let error = error(&logits, &golden.logits[i]);
        if error.is_nan() || error > tolerance {
            return Err(format!("logits are off by {error:.1e}"));
        }
        if tolerance > TIE.into() {
            continue;
        }
        let mut options =
            GenerateOptions { max_tokens: Some(16), ignore_eos: true, ..GenerateOptions::default() };
        options.sampling.set("temperature", 0.0).map_err(|e| e.to_string())?;
        let answer = model.generate(&Prompt::Tokens(prompt.clone()), &options).map_err(|e| e.to_string())?;
        let sure = golden.margin[i].iter().take_while(|m| **m >= TIE).count();
        if answer[0].tokens[..sure] != golden.greedy[i][..sure] {
            return Err(format!("greedy {:?}, but should be {:?}", answer[0].tokens, golden.greedy[i]));
        }
    }
    Ok(())
}

/// The folders in `parent` that have logits to compare with.
fn fixtures(parent: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = std::fs::read_dir(parent).expect("lists").flatten().map(|e| e.path()).collect();
    folders.retain(|f| f.join("golden.safetensors").exists());
    folders.sort();
    folders
}

fn check_all(folders: &[PathBuf], kv_type: KvType, tolerance: f64) {
    hold(folders, &options(kv_type), tolerance);
}

fn hold(folders: &[PathBuf], options: &LoadOptions, tolerance: f64) {
    let failed: Vec<_> = folders
        .iter()
        .filter_map(|f| check(f, options, tolerance).err().map(|e| format!("{}: {e}", f.display())))
        .collect();
    assert!(failed.is_empty(), "{} of {} fail:\n{}", failed.len(), folders.len(), failed.join("\n"));
}

#[test]
fn all_families_hold_with_float32_cache() {
    if let Some(golden) = shared("golden") {
        check_all(&fixtures(&golden), KvType::F32, 1e-4);
    }
}

#[test]
fn all_families_hold_with_the_default_cache() {
    if let Some(golden) = shared("golden") {
        check_all(&fixtures(&golden), KvType::F16, 3e-3);
    }
}

/// Models that see, with texts only, and the rows before a picture: the greedy text behind them holds too.
#[test]
fn the_text_of_models_that_see_holds() {
    let Some(golden) = shared("golden-vision") else { return };
    let mut failed = vec![];
    for folder in fixtures(&golden) {
        if let Err(e) = check_text(&folder) {
            failed.push(format!("{}: {e}", folder.display()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Row 0 of the first case, which stands before its picture, and all of case `text` where there is one.
fn check_text(folder: &Path) -> Result<(), String> {
    let file = Safetensors::open(folder.join("golden.safetensors")).expect("opens");
    let floats = |name: &str| file.tensors.get(name).map(|t| to_f32(t).expect("decodes"));
    let model = Model::load(Some(folder), options(KvType::F32)).map_err(|e| e.to_string())?;
    let first = file.tensors.keys().find(|k| k.ends_with("/inputs_embeds")).expect("a first case");
    let case = first.split('/').next().unwrap_or_default();
    let vocab = model.info().vocab;
    for (case, rows) in [(case, 1), ("text", usize::MAX)] {
        let Some(ids) = ids(&file, case) else { continue };
        let ids = &ids[..rows.min(ids.len())];
        let golden = floats(&format!("{case}/logits")).expect("logits");
        let logits = model.logits(ids).map_err(|e| e.to_string())?;
        let error = error(&logits, &golden[..ids.len() * vocab]);
        if error.is_nan() || error > 1e-4 {
            return Err(format!("logits of {case} are off by {error:.1e}"));
        }
    }
    Ok(())
}

fn ids(file: &Safetensors, case: &str) -> Option<Vec<u32>> {
    let t = file.tensors.get(&format!("{case}/input_ids"))?;
    let bytes = t.bytes.read(&t.label()).expect("reads");
    Some(bytes.chunks(4).map(|b| u32::from_le_bytes(b[..4].try_into().expect("four"))).collect())
}

/// Folders of the same layout elsewhere, such as `crates/arch/tests/make_fixtures.py` and `make_packed.py` write them:
/// `LAMINA_GOLDEN_EXTRA=folder:folder`.
#[test]
fn further_fixtures_hold_with_float32_cache() {
    let Some(parents) = std::env::var_os("LAMINA_GOLDEN_EXTRA") else {
        return eprintln!("SKIPPED: LAMINA_GOLDEN_EXTRA names no folders");
    };
    let folders: Vec<_> = std::env::split_paths(&parents).flat_map(|p| fixtures(&p)).collect();
    assert!(!folders.is_empty(), "no fixtures in {}", parents.display());
    let (packed, plain): (Vec<_>, Vec<_>) = folders.into_iter().partition(|f| is_packed(f));
    check_all(&plain, KvType::F32, 1e-4);
    let exact = LoadOptions { dtype: Some(DType::F32), ..options(KvType::F32) };
    hold(&packed, &exact, 1e-4);
    // Block types are multiplied with activations of 8 bits, which random weights hardly average out.
    hold(&packed, &options(KvType::F32), 0.15);
}

/// True for weights in several tensors: what they stand for is exact in float32 only.
fn is_packed(folder: &Path) -> bool {
    let packed = |ck: &Checkpoint| {
        let family = Family::of(ck).ok()?;
        let spec = family.spec(ck).ok()?;
        Weights::new(ck, family, &spec).packed()
    };
    // What cannot be opened is not packed; loading it will say why.
    Checkpoint::open(folder).is_ok_and(|ck| packed(&ck).is_some())
}
