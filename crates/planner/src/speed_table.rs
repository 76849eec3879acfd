//! Measured speeds, kept between runs: they change with the machine, and not with the model.

use crate::{
    cpu_share::CpuClock,
    error::{PlannerError, Result},
    hardware::{Hardware, ProductSpeed},
    measure::measure,
};
use lamina_base::{DType, cpu_name, files::read_text};
use lamina_disk::{cache_folder, read_rate, replace_file};
use lamina_plan::{Backend, ReadSource};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Threads that read from disk.
pub const READERS: usize = 2;
/// How long measured speeds are believed.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Speeds are kept where the process got this share of the CPU while it measured.
const QUIET: f64 = 0.9;
/// How often speeds are measured until that was quiet; the best of all counts.
const ATTEMPTS: usize = 2;
/// How long the disk is read to know its speed: it is measured each time, since it drifts most.
const DISK_TIME: Duration = Duration::from_millis(400);
/// Bytes per second of a disk that cannot be read yet: an ordinary one.
const UNKNOWN_DISK: f64 = 1e9;

/// Seconds for which this process takes what it has measured, however busy the machine was: measuring takes seconds.
const FRESH: u64 = 600;

/// What this process has measured, by backend.
static MEASURED: Mutex<BTreeMap<String, MeasuredSpeeds>> = Mutex::new(BTreeMap::new());

/// Speeds that were found so far, each once.
#[derive(Default)]
pub struct SpeedTable {
    speeds: Option<MeasuredSpeeds>,
    disk: Option<DiskRate>,
    /// What was kept is not believed.
    renew: bool,
}

/// Speeds of a backend, and how they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSpeeds {
    /// The speeds.
    pub hardware: Hardware,
    /// When and how quietly.
    pub quality: SpeedQuality,
}

/// When speeds were measured, and how quiet the machine was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedQuality {
    /// Seconds since the epoch.
    pub at: u64,
    /// Share of the CPU that the process got; none where the system does not say.
    pub cpu_share: Option<f64>,
    /// What gave the speed of memory.
    pub read: ReadSource,
    /// They are believed by later runs: it was quiet, no number contradicts another, and it was memory that was read.
    pub kept: bool,
}

impl SpeedQuality {
    /// Seconds since they were measured.
    pub fn age(&self) -> u64 {
        now().saturating_sub(self.at)
    }
}

/// Bytes per second of a disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskRate {
    /// Bytes per second.
    pub bytes: f64,
    /// False where nothing could be read, and it is that of an ordinary disk.
    pub measured: bool,
}

impl SpeedTable {
    /// Nothing is known; with `renew` not even what was kept.
    pub fn new(renew: bool) -> SpeedTable {
        SpeedTable { renew, ..SpeedTable::default() }
    }

    /// Speeds of `backend` with products of `types`: as they were measured last, or measured now.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub fn speeds(&mut self, backend: &dyn Backend, types: &[DType]) -> Result<MeasuredSpeeds> {
        let knows = |s: &&MeasuredSpeeds| s.hardware.missing(types).is_empty();
        if let Some(known) = self.speeds.as_ref().filter(knows) {
            return Ok(known.clone());
        }
        let question = SpeedQuestion { path: cache_folder().join("speeds.json"), key: key(backend), types };
        let renew = std::mem::take(&mut self.renew);
        let mut of_process = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |s: &&MeasuredSpeeds| s.quality.age() < FRESH && knows(s);
        let found = match of_process.get(&question.key).filter(is_fresh).filter(|_| !renew) {
            Some(fresh) => fresh.clone(),
            None => question.answer(renew, &mut |missing| sample(backend, missing))?,
        };
        of_process.insert(question.key, found.clone());
        Ok(self.speeds.insert(found).clone())
    }

    /// Bytes per second that `file` is read with.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn disk(&mut self, file: Option<&Path>) -> Result<DiskRate> {
        if let Some(known) = self.disk {
            return Ok(known);
        }
        let failed = |e| PlannerError::Unmeasured(format!("the disk's speed cannot be measured: {e}"));
        let rate = file.map(|f| read_rate(f, READERS, DISK_TIME)).transpose().map_err(failed)?.flatten();
        let rate = DiskRate { bytes: rate.unwrap_or(UNKNOWN_DISK), measured: rate.is_some() };
        Ok(*self.disk.insert(rate))
    }
}

/// Speeds of `backend` now, what gave them, and the share of the CPU that the process got meanwhile.
fn sample(backend: &dyn Backend, types: &[DType]) -> Result<SpeedSample> {
    let before = CpuClock::now();
    let unknown = || {
        let what = format!("predictions for {}: its speed cannot be measured", backend.name());
        PlannerError::Unsupported(what)
    };
    let (hardware, read) = measure(backend, types)?.ok_or_else(unknown)?;
    let computes = backend.capabilities().shares_memory;
    let cpu_share = before.zip(CpuClock::now()).map(|(before, now)| now.share_since(&before, computes));
    Ok(SpeedSample { hardware, read, cpu_share })
}

/// Speeds that were measured once.
struct SpeedSample {
    hardware: Hardware,
    read: ReadSource,
    /// Share of the CPU that the process got meanwhile; none where the system does not say.
    cpu_share: Option<f64>,
}

/// Which speeds are asked for, and where they are kept.
struct SpeedQuestion<'a> {
    path: PathBuf,
    key: String,
    types: &'a [DType],
}

impl SpeedQuestion<'_> {
    /// What is kept and what `measure` finds of the types that are missing. It is asked again where the machine was busy or
    /// where its numbers contradict one another, and the best of all is taken: others only make a machine slower. What was
    /// never quiet is not kept.
    fn answer(
        &self,
        renew: bool,
        measure: &mut dyn FnMut(&[DType]) -> Result<SpeedSample>,
    ) -> Result<MeasuredSpeeds> {
        let mut all = read(&self.path);
        let kept = all.get(&self.key).filter(|_| !renew).and_then(kept_speeds);
        let missing = kept.as_ref().map_or(self.types.to_vec(), |k| k.hardware.missing(self.types));
        if let Some(known) = kept.clone().filter(|_| missing.is_empty()) {
            return Ok(known);
        }
        let mut found: Option<MeasuredSpeeds> = None;
        for _ in 0..ATTEMPTS {
            let SpeedSample { hardware, read, cpu_share } = measure(&missing)?;
            let is_good = cpu_share.is_none_or(|share| share >= QUIET) && hardware.is_monotonic();
            let best = found.take().map_or(hardware.clone(), |before| before.hardware.best(hardware));
            let quality = SpeedQuality { at: now(), cpu_share, read, kept: is_good };
            found = Some(MeasuredSpeeds { hardware: best, quality });
            if is_good {
                break;
            }
        }
        let measured = found.expect("measured once at least");
        let mut speeds = measured.with(kept);
        speeds.quality.kept &= speeds.quality.read == ReadSource::Memory;
        if speeds.quality.kept {
            all.insert(self.key.clone(), value(&speeds));
            write(&self.path, &all);
        }
        speeds.hardware = speeds.hardware.monotonic();
        Ok(speeds)
    }
}

impl MeasuredSpeeds {
    /// With the types that were measured before: as old as the older, and as quiet as the less quiet of both.
    fn with(mut self, kept: Option<MeasuredSpeeds>) -> MeasuredSpeeds {
        let Some(kept) = kept else { return self };
        if self.quality.read != ReadSource::Memory {
            // Only memory's own speed is ever kept.
            self.hardware.ram = kept.hardware.ram;
            self.quality.read = kept.quality.read;
        }
        let types: Vec<DType> = kept.hardware.products.iter().map(|p| p.0).collect();
        let new = self.hardware.products.clone().into_iter().filter(|p| !types.contains(&p.0));
        let products = new.chain(kept.hardware.products.clone()).collect();
        self.hardware = Hardware { products, ..self.hardware.best(kept.hardware) };
        self.quality.at = self.quality.at.min(kept.quality.at);
        let shares = self.quality.cpu_share.into_iter().chain(kept.quality.cpu_share);
        self.quality.cpu_share = shares.min_by(f64::total_cmp);
        self
    }
}

/// What the speeds depend on.
fn key(backend: &dyn Backend) -> String {
    let about = backend.about();
    let version = env!("CARGO_PKG_VERSION");
    let build = if cfg!(debug_assertions) { " debug" } else { "" };
    format!("{} {} {} threads {} {version}{build}", cpu_name(), about.device, about.threads, about.kernels)
}

fn read(path: &Path) -> Map<String, Value> {
    let text = read_text(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Without a cache folder, it is measured each time.
fn write(path: &Path, all: &Map<String, Value>) {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    let _ = made.and_then(|()| replace_file(path, json!(all).to_string().as_bytes()));
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}

fn value(MeasuredSpeeds { hardware: speeds, quality }: &MeasuredSpeeds) -> Value {
    let product = |(dtype, speed): &(DType, ProductSpeed)| json!([dtype.name(), speed.points]);
    json!({
        "at": quality.at,
        "cpu": quality.cpu_share,
        "ram": speeds.ram,
        "products": speeds.products.iter().map(product).collect::<Vec<_>>(),
        "attend": [speeds.attend_one, speeds.attend_many],
        "operator": speeds.operator,
        "threads": speeds.threads,
    })
}

/// Speeds as they were written; none where they are too old, not what this version writes, or contradict one another.
fn kept_speeds(value: &Value) -> Option<MeasuredSpeeds> {
    let at = value["at"].as_u64().filter(|at| now().abs_diff(*at) <= KEPT.as_secs())?;
    // Earlier versions kept what a busy machine gave.
    let cpu_share = value.get("cpu")?.as_f64();
    let point = |p: &Value| Some((usize::try_from(p[0].as_u64()?).ok()?, p[1].as_f64()?));
    let product = |p: &Value| {
        let points = p[1].as_array()?.iter().map(point).collect::<Option<Vec<_>>>()?;
        Some((p[0].as_str()?.parse().ok()?, ProductSpeed { points }))
    };
    let hardware = Hardware {
        ram: value["ram"].as_f64().filter(|r| *r > 0.0)?,
        products: value["products"].as_array()?.iter().map(product).collect::<Option<_>>()?,
        attend_one: value["attend"][0].as_f64()?,
        attend_many: value["attend"][1].as_f64()?,
        operator: value["operator"].as_f64()?,
        threads: usize::try_from(value["threads"].as_u64()?).ok()?,
    };
    let quality = SpeedQuality { at, cpu_share, read: ReadSource::Memory, kept: true };
    let is_good = cpu_share.is_none_or(|share| share >= QUIET) && hardware.is_monotonic();
    is_good.then_some(MeasuredSpeeds { hardware, quality })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose products of one row take so many seconds, and of four rows one second.
    fn hardware(dtype: DType, one: f64) -> Hardware {
        Hardware {
            ram: 2.5e10,
            products: vec![(dtype, ProductSpeed { points: vec![(1, one), (4, 1.0), (512, 90.0)] })],
            attend_one: 1e-11,
            attend_many: 2e-12,
            operator: 3e-6,
            threads: 4,
        }
    }

    fn one_row(speeds: &MeasuredSpeeds) -> f64 {
        speeds.hardware.products[0].1.seconds(1.0)
    }

    /// What is answered where measuring gives these seconds of one row with these shares of the CPU, in turn; and how often
    /// it was measured.
    fn answer(path: &Path, renew: bool, samples: &[(f64, Option<f64>)]) -> (MeasuredSpeeds, usize) {
        let question = SpeedQuestion { path: path.to_owned(), key: "a CPU".into(), types: &[DType::Q8_0] };
        let mut calls = 0;
        let mut measure = |types: &[DType]| {
            assert_eq!(types, [DType::Q8_0]);
            let (one, share) = samples[calls];
            calls += 1;
            Ok(SpeedSample {
                hardware: hardware(DType::Q8_0, one),
                read: ReadSource::Memory,
                cpu_share: share,
            })
        };
        let speeds = question.answer(renew, &mut measure).expect("measured");
        (speeds, calls)
    }

    #[test]
    fn speeds_of_a_busy_machine_are_not_kept_and_the_best_of_them_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("speeds.json");
        let (busy, calls) = answer(&path, false, &[(0.9, Some(0.4)), (0.7, Some(0.89))]);
        assert_eq!((one_row(&busy), calls, path.exists()), (0.7, 2, false));
        assert!(!busy.quality.kept && busy.quality.cpu_share == Some(0.89));
        let (quiet, calls) = answer(&path, false, &[(0.9, Some(0.4)), (0.8, Some(0.95))]);
        assert_eq!((one_row(&quiet), calls, quiet.quality.kept), (0.8, 2, true));
        // It is believed from now on, unless somebody asks for new ones.
        assert_eq!(answer(&path, false, &[]), (quiet, 0));
        let (renewed, calls) = answer(&path, true, &[(0.3, None)]);
        assert_eq!((one_row(&renewed), calls, renewed.quality.kept), (0.3, 1, true));
        assert_eq!(one_row(&answer(&path, false, &[]).0), 0.3);
    }

    #[test]
    fn one_row_that_is_slower_than_four_was_measured_wrongly() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("speeds.json");
        let (speeds, calls) = answer(&path, false, &[(9.0, Some(1.0)), (8.0, Some(1.0))]);
        assert_eq!((one_row(&speeds), calls, path.exists()), (1.0, 2, false));
        let (speeds, calls) = answer(&path, false, &[(9.0, Some(1.0)), (0.5, Some(1.0))]);
        assert_eq!((one_row(&speeds), calls, path.exists()), (0.5, 2, true));
    }

    #[test]
    fn a_speed_of_caches_is_not_kept_and_that_of_memory_stands_against_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("speeds.json");
        let ask = |dtype: DType, ram: f64, read: ReadSource| {
            let question = SpeedQuestion { path: path.clone(), key: "a CPU".into(), types: &[dtype] };
            let sample = |_: &[DType]| {
                let hardware = Hardware { ram, ..hardware(dtype, 0.5) };
                Ok(SpeedSample { hardware, read, cpu_share: Some(1.0) })
            };
            question.answer(false, &mut { sample }).expect("measured")
        };
        let cached = ask(DType::Q8_0, 9e10, ReadSource::Caches(1 << 20));
        assert_eq!((cached.hardware.ram, cached.quality.kept, path.exists()), (9e10, false, false));
        assert!(ask(DType::Q8_0, 2e10, ReadSource::Memory).quality.kept);
        let added = ask(DType::Q4_K, 9e10, ReadSource::Caches(1 << 20));
        assert_eq!(
            (added.hardware.ram, added.quality.read, added.quality.kept),
            (2e10, ReadSource::Memory, true)
        );
    }

    #[test]
    fn types_are_added_to_those_that_are_known() {
        let quality = SpeedQuality { at: 7, cpu_share: Some(0.92), read: ReadSource::Memory, kept: true };
        let kept = MeasuredSpeeds { hardware: hardware(DType::Q4_K, 0.5), quality };
        let new = SpeedQuality { at: 9, cpu_share: Some(0.97), ..quality };
        let both = MeasuredSpeeds { hardware: hardware(DType::Q8_0, 0.6), quality: new }.with(Some(kept));
        assert!(both.hardware.missing(&[DType::Q8_0, DType::Q4_K]).is_empty());
        assert_eq!((both.hardware.products.len(), both.quality), (2, quality));
    }

    #[test]
    fn speeds_are_read_as_they_were_written() {
        let quality = SpeedQuality { at: now(), cpu_share: Some(0.95), read: ReadSource::Memory, kept: true };
        let speeds = MeasuredSpeeds { hardware: hardware(DType::Q4_K, 0.5), quality };
        let written = value(&speeds);
        assert_eq!(kept_speeds(&written), Some(speeds));
        let changed = |key: &str, to: Value| {
            let mut other = written.clone();
            other[key] = to;
            kept_speeds(&other)
        };
        assert_eq!(changed("at", json!(1)), None);
        assert_eq!(changed("cpu", json!(0.5)), None);
        assert_eq!(changed("products", json!([["no type", []]])), None);
        assert_eq!(changed("products", json!([["Q8_0", [[1, 2.0], [4, 1.0]]]])), None);
        let mut before = written.clone();
        before.as_object_mut().expect("an object").remove("cpu");
        assert_eq!(kept_speeds(&before), None, "kept by a version that did not look");
    }
}
