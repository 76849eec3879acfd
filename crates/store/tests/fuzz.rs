//! Mutated files: whatever the bytes, a reader returns a value or an error, soon, and without allocating more than the
//! file's size accounts for.
//!
//! `LAMINA_FUZZ_INPUTS` sets the number of inputs (20 000 when unset); a release build runs 100 000 in well under a
//! minute. A failure prints the number of its input; the same number gives the same input again.
//!
//! A binary of its own: what counts allocations is the allocator of the whole process.

#[allow(dead_code, reason = "other tests use more")]
#[path = "it/common.rs"]
mod common;

use common::{RawGguf, RawTensor, array, entry, files, safetensors, shared, string, u32_entry};
use lamina_base::Bytes;
use lamina_fixtures::Numbers;
use lamina_store::{
    Checkpoint, Config, FormatError, Value,
    gguf::{Array, Gguf, Strings, Writer},
    safetensors::Safetensors,
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::{Duration, Instant},
};

/// Counts what this thread has allocated, and the most it ever had.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // Threads that are being torn down free memory after their counters are gone.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches only plain thread-local numbers.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: what `System` promises of `alloc` holds, since its pointer is handed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller promises a layout of a size other than 0.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: what `System` promises of `dealloc` holds, since only its own pointers come back.
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller promises a pointer that `alloc`, and so `System`, gave for this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ODD_NUMBERS: &[u64] = &[
    0,
    1,
    2,
    7,
    9,
    31,
    63,
    255,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];

const ODD_TEXTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "9223372036854775807",
    "0.5",
    "NaN",
    "Infinity",
    "\\u0000",
    "true",
    "\"F64\"",
    "\"shape\"",
    "[0,0]",
    "{}",
    "[[[[[[",
    "\\ud800",
];

/// Changes `bytes` in one to four places.
fn mutate(bytes: &mut Vec<u8>, random: &mut Numbers, text: bool) {
    for _ in 0..1 + random.below(4) {
        let (at, len) = (random.below(bytes.len()), bytes.len());
        match random.below(if text { 8 } else { 7 }) {
            _ if len == 0 => bytes.push(random.word() as u8),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.word() as u8,
            2 => overwrite(bytes, at, &ODD_NUMBERS[random.below(ODD_NUMBERS.len())].to_le_bytes()[..8]),
            3 => overwrite(bytes, at, &ODD_NUMBERS[random.below(ODD_NUMBERS.len())].to_le_bytes()[..4]),
            4 => bytes.truncate(at),
            5 => drop(bytes.drain(at..(at + 1 + random.below(40)).min(len))),
            6 => {
                let part = bytes[at..(at + 1 + random.below(60)).min(len)].to_vec();
                let to = random.below(len);
                bytes.splice(to..to, part);
            }
            _ => {
                let part = ODD_TEXTS[random.below(ODD_TEXTS.len())].bytes();
                let end = if random.below(2) == 0 { at } else { (at + part.len()).min(len) };
                bytes.splice(at..end, part);
            }
        }
    }
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    let n = with.len().min(bytes.len() - at);
    bytes[at..at + n].copy_from_slice(&with[..n]);
}

/// What a reader makes of bytes, and everything an engine would ask of the result.
type Reader = fn(&Bytes) -> Result<(), FormatError>;

fn read_gguf(bytes: &Bytes) -> Result<(), FormatError> {
    let gguf = Gguf::from_bytes("fuzz.gguf", bytes)?;
    for tensor in gguf.tensors.values() {
        assert_eq!(tensor.bytes.len(), tensor.rows() * tensor.row_bytes());
    }
    for (key, value) in gguf.metadata.iter() {
        value.describe();
        if let Value::Array(Array::Str(strings)) = value {
            assert_eq!(strings.iter().count(), strings.len());
        }
        let _ = gguf.metadata.find::<Vec<usize>>(key);
    }
    let model = Checkpoint::from_gguf(gguf)?;
    use_config(&model.config)
}

fn read_safetensors(bytes: &Bytes) -> Result<(), FormatError> {
    for tensor in Safetensors::from_bytes("fuzz.safetensors", bytes)?.tensors.values() {
        assert_eq!(tensor.bytes.len(), tensor.rows() * tensor.row_bytes());
    }
    Ok(())
}

fn read_config(bytes: &Bytes) -> Result<(), FormatError> {
    let Ok(serde_json::Value::Object(map)) = serde_json::from_slice(bytes) else { return Ok(()) };
    use_config(&Config::from_hf("config.json", map)?)
}

fn use_config(config: &Config) -> Result<(), FormatError> {
    config.unread();
    let layers = config.usize("num_hidden_layers")?.min(1000);
    let _ = config.per_layer("intermediate_size", layers);
    let _ = config.opt_str_at("layer_types", layers);
    for key in ["hidden_size", "vocab_size", "head_dim", "rope_parameters", "rope_parameters.rope_theta"] {
        let _ = (config.opt_usize(key), config.opt_f32(key), config.opt_str(key));
    }
    config.unread();
    Ok(())
}

struct Seed {
    name: String,
    bytes: Vec<u8>,
    reader: Reader,
    text: bool,
}

fn seed(name: &str, bytes: Vec<u8>, reader: Reader, text: bool) -> Seed {
    Seed { name: name.to_owned(), bytes, reader, text }
}

/// Files made here, which need no test data.
fn generated() -> Vec<Seed> {
    let mut many = RawGguf::valid();
    for (id, size) in
        [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (6, 4), (7, 1), (10, 8), (11, 8), (12, 8)]
    {
        many.entries.push(entry(&format!("k{id}"), id, &vec![1; size]));
        many.entries.push(entry(&format!("a{id}"), 9, &array(id, 1, &vec![1; size])));
    }
    let nested = array(9, 2, &[array(8, 1, &string(b"x")), array(9, 0, &[])].concat());
    many.entries.push(entry("nested", 9, &nested));
    let sizes = [
        ("embedding_length", 8),
        ("attention.head_count", 2),
        ("rope.dimension_count", 2),
        ("expert_gating_func", 2),
    ];
    many.entries.extend(sizes.map(|(key, n)| u32_entry(&format!("llama.{key}"), n)));
    let mut tensors = RawGguf::valid();
    tensors.tensors = (0..20).map(|i| RawTensor::new(&format!("blk.{i}.w"), &[4, 1, 2], 0, i * 32)).collect();
    tensors.data = vec![3; 640];
    let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}"#;
    let config = r#"{"architectures":["X"],"model_type":"gemma3","text_config":{"hidden_size":8,"num_hidden_layers":4,"sliding_window_pattern":2,"rope_theta":1.0,"rope_local_base_freq":2,"rope_scaling":{"type":"su","factor":2},"original_max_position_embeddings":4}}"#;
    vec![
        seed("valid.gguf", RawGguf::valid().encode(), read_gguf, false),
        seed("kinds.gguf", many.encode(), read_gguf, false),
        seed("tensors.gguf", tensors.encode(), read_gguf, false),
        seed("small.safetensors", safetensors(header, &[0; 10]), read_safetensors, true),
        seed("config.json", config.as_bytes().to_vec(), read_config, true),
    ]
}

/// The shared files, cut to headers of a few kilobytes so that a mutation hits something.
fn real(dir: &Path) -> Vec<Seed> {
    let mut seeds = Vec::new();
    let name = |p: &Path| p.display().to_string();
    for sub in ["vocab", "models/stories260k"] {
        for path in shared(sub).map_or_else(Vec::new, |f| files(&f, "gguf")) {
            seeds.push(seed(&name(&path), cut_gguf(&path, dir), read_gguf, false));
        }
    }
    for sub in ["models/lamina-tiny", "golden"] {
        let folder = shared(sub);
        for path in folder.iter().flat_map(|f| files(f, "safetensors")).step_by(6) {
            seeds.push(seed(&name(&path), cut_safetensors(&path), read_safetensors, true));
        }
        for path in
            folder.iter().flat_map(|f| files(f, "json")).filter(|p| p.ends_with("config.json")).step_by(3)
        {
            seeds.push(seed(&name(&path), std::fs::read(&path).expect("read"), read_config, true));
        }
    }
    seeds
}

/// The same keys and tensors, long arrays and extents cut to a few elements.
fn cut_gguf(path: &Path, dir: &Path) -> Vec<u8> {
    let whole = Gguf::open(path).expect("shared file");
    let out_path = dir.join("cut.gguf");
    let mut writer = Writer::new(&out_path, "llama");
    for (key, value) in whole.metadata.iter() {
        let value = match value {
            Value::Array(Array::Str(s)) => s.iter().take(40).collect::<Strings>().into(),
            Value::Array(Array::F32(v)) => v[..v.len().min(40)].to_vec().into(),
            Value::Array(Array::I32(v)) => v[..v.len().min(40)].to_vec().into(),
            Value::Str(s) => s.chars().take(100).collect::<String>().into(),
            other => other.clone(),
        };
        writer.set(key, value);
    }
    for t in whole.tensors.values() {
        writer.declare(&t.name, t.dtype, &vec![1; t.shape.len()]).expect("declare");
    }
    let mut out = writer.create().expect("create");
    whole
        .tensors
        .values()
        .for_each(|t| out.write(&t.name, &t.bytes.read("t").expect("read")[..4]).expect("write"));
    out.finish().expect("finish");
    std::fs::read(out_path).expect("read")
}

/// The names and types of a real file's first tensors, each cut to one element.
fn cut_safetensors(path: &Path) -> Vec<u8> {
    let whole = Safetensors::open(path).expect("shared file");
    let (mut entries, mut end) = (Vec::new(), 0);
    for t in whole.tensors.values().take(40) {
        let (from, shape) = (end, vec!["1"; t.shape.len()].join(","));
        end += t.dtype.block_bytes();
        let dtype = t.dtype;
        entries.push(format!(
            r#""{}":{{"dtype":"{dtype}","shape":[{shape}],"data_offsets":[{from},{end}]}}"#,
            t.name
        ));
    }
    safetensors(&format!("{{{}}}", entries.join(",")), &vec![0; end])
}

/// Runs one input under all the promises.
fn run(input: usize, seeds: &[Seed]) -> bool {
    // A block of its own for the generator: inputs do not depend on one another.
    let mut random = Numbers::seeded(input as u64);
    let seed = &seeds[random.below(seeds.len())];
    let mut bytes = seed.bytes.clone();
    mutate(&mut bytes, &mut random, seed.text);
    let (len, bytes) = (bytes.len(), Bytes::from(bytes));
    let (before, start) = (LIVE.get(), Instant::now());
    PEAK.set(before);
    let result = catch_unwind(AssertUnwindSafe(|| (seed.reader)(&bytes)));
    let (took, peak) = (start.elapsed(), PEAK.get() - before);
    let what = || format!("input {input}, made of {}", seed.name);
    let result = result.unwrap_or_else(|_| panic!("{} panicked", what()));
    // JSON values are some 30 times as large as `0,` in a file; a table of layers is limited by `MAX_LAYERS`.
    let most = 100 * len as isize + (1 << 19);
    assert!(peak <= most, "{} allocated {peak} bytes for a file of {len}", what());
    // Milliseconds are the rule; the bound leaves room for a machine that does other things.
    assert!(took < Duration::from_secs(2), "{} took {took:?}", what());
    if let Err(e) = &result {
        let message = e.to_string();
        assert!(message.contains("fuzz.") || message.contains("config.json"), "{}: {message}", what());
        assert!(message.len() < 2000, "{}: {message}", what());
    }
    result.is_ok()
}

#[test]
fn no_bytes_make_a_reader_panic_hang_or_swell() {
    let inputs = std::env::var("LAMINA_FUZZ_INPUTS").ok().and_then(|v| v.parse().ok()).unwrap_or(20_000);
    let dir = tempfile::tempdir().expect("temp dir");
    let mut seeds = generated();
    seeds.extend(real(dir.path()));
    for seed in &seeds {
        (seed.reader)(&Bytes::from(seed.bytes.clone()))
            .unwrap_or_else(|e| panic!("{} unchanged: {e}", seed.name));
    }
    let start = Instant::now();
    let sound = (0..inputs).filter(|&i| run(i, &seeds)).count();
    eprintln!(
        "{inputs} inputs from {} files in {:?}, {sound} of them still sound",
        seeds.len(),
        start.elapsed()
    );
    // Mutations that hit a weight or a name leave a file sound; if none did, or all did, nothing was tested.
    assert!((inputs / 50..inputs * 9 / 10).contains(&sound), "{sound} of {inputs}");
}
