//! Encoders whose matrices cut their inputs and outputs, as the small ones of Gemma 4 do.

use super::{error, read};
use lamina_arch::vision::{VisionFamily, VisionSource};
use lamina_cpu::Cpu;
use lamina_fixtures::shared;
use lamina_load::vision::Eyes;
use lamina_plan::Backend;
use lamina_store::Checkpoint;
use serde_json::{Map, Value, json};
use std::{fs, path::Path};
use tempfile::TempDir;

const FOLDER: &str = "golden-vision/gemma4";

/// The folder of Gemma 4 with these bounds of each matrix of the encoder's blocks, by its number; a lower bound is minus an
/// upper one, but for outputs, where it is half of that.
fn clipped(most: impl Fn(usize) -> [f32; 2]) -> Option<TempDir> {
    let (source, dir) = (shared(FOLDER)?, tempfile::tempdir().expect("a folder"));
    for file in ["tokenizer.json", "tokenizer_config.json", "processor_config.json", "chat_template.jinja"] {
        _ = fs::copy(source.join(file), dir.path().join(file));
    }
    let mut config: Value = serde_json::from_slice(&fs::read(source.join("config.json")).unwrap()).unwrap();
    config["vision_config"]["use_clipped_linears"] = json!(true);
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    let stored = fs::read(source.join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(stored[..8].try_into().unwrap()) as usize;
    let mut tensors: Map<String, Value> = serde_json::from_slice(&stored[8..header]).unwrap();
    let mut data = stored[header..].to_vec();
    let inner = |name: &&String| name.contains("vision_tower") && name.ends_with(".linear.weight");
    let names: Vec<String> = tensors.keys().filter(inner).cloned().collect();
    assert!(names.len() >= 7, "{names:?}");
    for (i, name) in names.iter().enumerate() {
        let (base, [input, output]) = (name.strip_suffix(".linear.weight").unwrap(), most(i));
        let bounds = [
            ("input_min", -input),
            ("input_max", input),
            ("output_min", -output / 2.0),
            ("output_max", output),
        ];
        for (ending, bound) in bounds {
            let begin = data.len();
            data.extend(bound.to_le_bytes());
            let entry = json!({"dtype": "F32", "shape": [], "data_offsets": [begin, data.len()]});
            tensors.insert(format!("{base}.{ending}"), entry);
        }
    }
    let header = Value::Object(tensors).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    fs::write(dir.path().join("model.safetensors"), file).unwrap();
    Some(dir)
}

fn source(folder: &Path) -> VisionSource {
    VisionSource::of_folder(&Checkpoint::open(folder).unwrap()).unwrap().unwrap()
}

fn rows(source: &VisionSource, backend: &dyn Backend) -> Vec<f32> {
    let mut eyes = Eyes::open(source, backend).unwrap();
    eyes.encode(&[&read("wide.png")]).unwrap().remove(0).rows
}

#[test]
fn bounds_cut_and_wide_ones_cut_nothing() {
    let Some(wide) = clipped(|_| [f32::INFINITY; 2]) else { return };
    let plain = rows(&source(&shared(FOLDER).unwrap()), &Cpu::new(2).unwrap());
    assert!(rows(&source(wide.path()), &Cpu::new(2).unwrap()) == plain, "nothing is cut");
    let tight = clipped(|i| [0.7 + 0.01 * i as f32, 0.4 + 0.01 * i as f32]).unwrap();
    let tight = source(tight.path());
    let [one, three] = [1, 3].map(|threads| rows(&tight, &Cpu::new(threads).unwrap()));
    assert!(one == three && error(&one, &plain) > 1e-2, "{:.1e}", error(&one, &plain));
}

#[test]
fn bounds_that_are_missing_or_crossed_are_refused() {
    let Some(crossed) = clipped(|_| [-1.0, 1.0]) else { return };
    let source = source(crossed.path());
    let why = VisionFamily::of(&source).unwrap().spec(&source).unwrap_err().to_string();
    assert!(why.contains("of which the lower is below"), "{why}");
    let plain = shared(FOLDER).unwrap();
    fs::copy(plain.join("model.safetensors"), crossed.path().join("model.safetensors")).unwrap();
    let source = self::source(crossed.path());
    let why = VisionFamily::of(&source).unwrap().spec(&source).unwrap_err().to_string();
    assert!(why.contains("use_clipped_linears"), "{why}");
}
