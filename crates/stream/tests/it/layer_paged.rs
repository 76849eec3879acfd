//! Layers of a cache that lie on disk give the bits of a cache in memory, and disks that are not as one would like them give
//! right bits or one clear error.

use crate::common::opened::Opened;
use lamina_arch::weights::Tensor;
use lamina_base::DType;
use lamina_cpu::Cpu;
use lamina_disk::{BlockFile, CacheFile};
use lamina_fixtures::{Models, names, tokens};
use lamina_oracle::conform::{self, Tolerance, scope};
use lamina_plan::{
    Backend, BackendWeight, Batch, Capabilities, KvLayout, KvTypes, Limits, Ops, Plan, Reports, Runner,
    Select, SeqPlace, Sizes, Step, WeightSpec, backend::Result,
};
use lamina_stream::{LayerPagedMachine, LayerRoom};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Most rows of a step.
const ROWS: usize = 64;
/// Bytes of a block.
const BLOCK: usize = 4096;

/// What a disk does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing.
    None,
    /// Every read and write takes its time.
    Late,
    /// The `n`th read fails.
    Read(usize),
    /// The `n`th write fails.
    Write(usize),
    /// The `n`th read gives another byte than was written.
    Flip(usize),
}

/// A disk in memory, with a fault.
struct OddDisk {
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    fault: Fault,
    reads: AtomicUsize,
    writes: AtomicUsize,
}

impl OddDisk {
    fn new(fault: Fault) -> Arc<OddDisk> {
        let [reads, writes] = Default::default();
        Arc::new(OddDisk { blocks: Mutex::default(), fault, reads, writes })
    }

    fn wait(&self, n: usize) {
        if self.fault == Fault::Late {
            thread::sleep(Duration::from_micros(n as u64 * 7919 % 700));
        }
    }
}

/// The same disk, shared with the test.
struct SharedDisk(Arc<OddDisk>);

impl BlockFile for SharedDisk {
    fn read_blocks(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let n = self.0.reads.fetch_add(1, Relaxed) + 1;
        self.0.wait(n);
        if self.0.fault == Fault::Read(n) {
            return Err(io::Error::other("broken disk"));
        }
        let blocks = self.0.blocks.lock().unwrap();
        for (i, block) in out.chunks_exact_mut(BLOCK).enumerate() {
            block.copy_from_slice(&blocks[&(offset / BLOCK as u64 + i as u64)]);
        }
        if self.0.fault == Fault::Flip(n) {
            out[out.len() / 2] ^= 8;
        }
        Ok(())
    }

    fn write_blocks(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let n = self.0.writes.fetch_add(1, Relaxed) + 1;
        self.0.wait(n);
        if self.0.fault == Fault::Write(n) {
            return Err(io::Error::other("disk full"));
        }
        let mut blocks = self.0.blocks.lock().unwrap();
        for (i, block) in bytes.chunks_exact(BLOCK).enumerate() {
            blocks.insert(offset / BLOCK as u64 + i as u64, block.to_vec());
        }
        Ok(())
    }
}

/// The plan with those paged layers on disk that `which` names.
fn on_disk(plan: &Plan, which: impl Fn(usize) -> bool) -> Plan {
    let paged = |layer: &usize| plan.kv.layers[*layer].group().is_some() && which(*layer);
    let bound = (0..plan.kv.layers.len()).filter(paged).collect();
    Plan { kv: KvLayout { bound, ..plan.kv.clone() }, ..plan.clone() }
}

fn cpu() -> Cpu {
    Cpu::new(2).unwrap()
}

/// The machine of a plan, with its layers on that disk.
fn paged(
    plan: &Plan,
    weights: Vec<BackendWeight>,
    limits: &Limits,
    disk: &Arc<OddDisk>,
) -> Result<Box<dyn Ops>> {
    let room = LayerRoom::of(&cpu(), &plan.kv, limits);
    let file = CacheFile::on(Box::new(SharedDisk(disk.clone())), room.arrays);
    let inner = Box::new(cpu()).machine(plan, weights, limits)?;
    Ok(Box::new(LayerPagedMachine::new(inner, plan, file)?))
}

/// A backend that puts all pages on disk when it sees a plan.
struct AllPaged;

impl Reports for AllPaged {
    fn name(&self) -> &'static str {
        "paged"
    }
}

impl Sizes for AllPaged {
    fn runs_as(&self, dtype: DType) -> DType {
        cpu().runs_as(dtype)
    }

    fn stores_as(&self, layout: &KvLayout, group: usize, types: KvTypes) -> KvTypes {
        cpu().stores_as(layout, group, types)
    }

    fn page_bytes(&self, layout: &KvLayout, group: usize, types: KvTypes) -> usize {
        cpu().page_bytes(layout, group, types)
    }
}

impl Backend for AllPaged {
    fn capabilities(&self) -> Capabilities {
        cpu().capabilities()
    }

    fn upload(&self, spec: &WeightSpec, tensor: &Tensor) -> Result<BackendWeight> {
        cpu().upload(spec, tensor)
    }

    fn machine(
        self: Box<Self>,
        plan: &Plan,
        weights: Vec<BackendWeight>,
        limits: &Limits,
    ) -> Result<Box<dyn Ops>> {
        paged(&on_disk(plan, |_| true), weights, limits, &OddDisk::new(Fault::None))
    }
}

#[test]
fn the_kit_conforms_with_all_pages_on_disk() {
    let tolerance = Tolerance { quantized: 2.5e-2, ..Tolerance::default() };
    let report = conform::run_where(|| AllPaged, tolerance, scope::of_this_run());
    println!("{report}");
    report.assert();
    assert!(report.refused.is_empty(), "declined: {:?}", report.refused);
}

impl Opened {
    fn paged_runner(&self) -> Runner {
        Runner::new(cpu(), self.plan.clone(), self.uploaded(&cpu()), self.limits(ROWS)).unwrap()
    }

    /// The same with the layers of `plan` on that disk.
    fn paged(&self, plan: Plan, disk: &Arc<OddDisk>) -> Runner {
        let machine = paged(&plan, self.uploaded(&cpu()), &self.limits(ROWS), disk).unwrap();
        Runner::on(machine, plan, self.limits(ROWS))
    }

    /// Bits of logits of two sequences in steps of several sizes, one of them behind a step that fails if any does.
    fn paged_bits(&self, runner: &mut dyn Step, step: usize) -> Result<Vec<u32>> {
        let (text, groups) = (tokens(42), self.plan.kv.groups.len());
        let rows = [0..23, 23..38, 38..39, 39..40, 40..42][step].clone();
        let mut batch = Batch::default();
        for s in 0..2u32 {
            let pages = vec![vec![3 * s, 3 * s + 1]; groups];
            let place = SeqPlace { pages, state: s, prompt_len: 40, ..SeqPlace::default() };
            batch.push(&text[rows.clone()], rows.start, place, Select::Tail(3));
        }
        let (logits, mut row, mut all) = (batch.logits.len(), vec![], vec![]);
        let results = runner.run(&batch)?;
        for i in 0..logits {
            results.logits(i, &mut row)?;
            all.extend(row.iter().map(|v| v.to_bits()));
        }
        Ok(all)
    }

    fn all_bits(&self, runner: &mut dyn Step) -> Vec<Vec<u32>> {
        (0..5).map(|step| self.paged_bits(runner, step).unwrap()).collect()
    }
}

#[test]
fn every_family_has_the_same_bits_whichever_layers_are_on_disk() {
    let (models, mut many) = (Models::new(), 0);
    for name in names() {
        let model = Opened::new(&models.folder(&name), None);
        let want = model.all_bits(&mut model.paged_runner());
        for (which, fault) in [
            (&(|_| true) as &dyn Fn(usize) -> bool, Fault::None),
            (&|layer| layer % 2 == 1, Fault::None),
            (&|layer| layer == 0, Fault::Late),
            (&|_| true, Fault::Late),
        ] {
            let plan = on_disk(&model.plan, which);
            if plan.kv.bound.is_empty() {
                continue;
            }
            many += 1;
            let disk = OddDisk::new(fault);
            let got = model.all_bits(&mut model.paged(plan, &disk));
            assert!(got == want, "{name}, {fault:?}");
            assert!(disk.reads.load(Relaxed) > 0 && disk.writes.load(Relaxed) > 0);
        }
    }
    assert!(many > 100, "{many}");
}

/// A step that needs a page which cannot be had fails with words, and a sequence that begins anew is right.
#[test]
fn what_a_disk_does_wrong_is_an_error_of_one_step_and_never_a_wrong_bit() {
    let models = Models::new();
    for name in ["llama", "gemma2", "deepseek-v2"] {
        let model = Opened::new(&models.folder(name), None);
        let want = model.all_bits(&mut model.paged_runner());
        let mut failed = 0;
        for n in 1..12 {
            for fault in [Fault::Read(n), Fault::Write(n), Fault::Flip(n)] {
                let plan = on_disk(&model.plan, |_| true);
                let mut runner = model.paged(plan, &OddDisk::new(fault));
                let mut step = 0;
                while step < 5 {
                    match model.paged_bits(&mut runner, step) {
                        Ok(got) => assert!(got == want[step], "{name}, {fault:?}, step {step}"),
                        Err(e) => {
                            let told = e.to_string();
                            let words = match fault {
                                Fault::Read(_) => "broken disk",
                                Fault::Write(_) => "could not be written to disk before",
                                _ => "wrong checksum",
                            };
                            assert!(told.contains(words) && told.contains("layer"), "{fault:?}: {told}");
                            failed += 1;
                            break;
                        }
                    }
                    step += 1;
                }
                // The same sequences from their beginning.
                assert!(model.all_bits(&mut runner) == want, "{name} behind {fault:?}");
            }
        }
        assert!(failed > 10, "{name}: {failed}");
    }
}

/// Pages that a step copies, or that are exported and imported, are the same wherever they lie.
#[test]
fn copies_and_exports_are_made_in_the_file() {
    let models = Models::new();
    for name in ["llama", "gemma2", "deepseek-v2"] {
        let model = Opened::new(&models.folder(name), None);
        let want = model.all_bits(&mut model.paged_runner());
        let plan = on_disk(&model.plan, |layer| layer != 1);
        let mut runner = model.paged(plan, &OddDisk::new(Fault::Late));
        (0..3).for_each(|step| assert!(model.paged_bits(&mut runner, step).unwrap() == want[step]));
        // Pages 0 and 1 go away and come back; page 3 passes through page 7, and 4 through 6.
        let groups = 0..model.plan.kv.groups.len();
        for group in groups.clone() {
            let kept: Vec<_> = [0, 1].map(|page| runner.export_page(group, page).unwrap()).into();
            [0, 1]
                .iter()
                .for_each(|&page| runner.import_page(group, page, &kept[1 - page as usize]).unwrap());
            [0, 1].iter().for_each(|&page| runner.import_page(group, page, &kept[page as usize]).unwrap());
            let short = &kept[0][..kept[0].len() - 1];
            assert!(runner.import_page(group, 5, short).is_err());
        }
        let page = |group: usize, from, to| lamina_plan::batch::Copy::Page { group: group as u32, from, to };
        let away = groups.clone().flat_map(|g| [page(g, 3, 7), page(g, 4, 6), page(g, 0, 3), page(g, 1, 4)]);
        let back = groups.flat_map(|g| [page(g, 7, 3), page(g, 6, 4)]);
        for copies in [away.collect(), back.collect()] {
            runner.run(&Batch { copies, ..Batch::default() }).unwrap();
        }
        (3..5).for_each(|step| assert!(model.paged_bits(&mut runner, step).unwrap() == want[step], "{name}"));
    }
}

/// Bytes that are read are those of pages with cells of earlier steps, and bytes that are written those of the step's rows.
#[test]
fn a_step_moves_the_pages_that_it_needs() {
    let models = Models::new();
    let model = Opened::new(&models.folder("llama"), None);
    let plan = on_disk(&model.plan, |_| true);
    let room = LayerRoom::of(&cpu(), &plan.kv, &model.limits(ROWS));
    let strides: u64 = room.arrays.iter().map(|a| a.stride as u64).sum();
    assert_eq!(room.file_bytes(), 8 * strides);
    assert_eq!(room.buffer_bytes(), room.buffers() as u64 * 8 * room.arrays[0].stride as u64);
    let mut runner = model.paged(plan, &OddDisk::new(Fault::None));
    // Two sequences of 23, 15, 1, 1 and 2 rows: pages with earlier cells, and pages that rows are stored in.
    let (reads, writes) = ([0, 2, 4, 4, 4], [2, 4, 2, 2, 2]);
    let (mut read, mut written) = (0, 0);
    for step in 0..5 {
        model.paged_bits(&mut runner, step).unwrap();
        // An export waits for what is being written.
        runner.export_page(0, 0).unwrap();
        (read, written) = (read + reads[step] * strides, written + writes[step] * strides);
        let counts = runner.streamed();
        assert_eq!((counts.cache.read, counts.cache.written), (read, written), "step {step}");
        assert_eq!(counts.bytes, read);
    }
}
