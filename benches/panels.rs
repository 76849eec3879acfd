//! What it costs to compare panels with their checksums, beside the read: seconds of the processor and of the clock for
//! each gigabyte, with every panel checked at every read and at the first one alone.
//!
//! `cargo bench -p lamina-disk --bench panels -- [--folder FOLDER] [--mb 512] [--panel 65536] [--smoke]`. The file is made in
//! FOLDER, by default that of temporary files, and read past the page cache where the folder can be.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use lamina_disk::{MatrixName, PageBuffer, PanelAccess, PanelCheck, PanelError, PanelFolder, PanelRange};
use lamina_fixtures::CommandLine;

/// Bytes that a reader asks for at once, as streaming does on a large model.
const PIECE: usize = 8 << 20;
/// Each way is read so often, in turn, and the quickest counts.
const ROUNDS: usize = 5;

/// What reading all pieces took.
#[derive(Clone, Copy)]
struct Spent {
    clock: Duration,
    processor: Duration,
}

fn main() {
    let args = CommandLine::of_process();
    let smoke = args.has("--smoke");
    let bytes = args.number("--mb").unwrap_or(if smoke { 8 } else { 512 }) << 20;
    let panel: usize = args.number("--panel").unwrap_or(64 << 10);
    let root = args.value("--folder").map_or_else(std::env::temp_dir, PathBuf::from);
    let root = tempfile::tempdir_in(root).expect("a folder that can be written");
    write(root.path(), bytes / panel, panel).expect("room for the file");
    let ways =
        [PanelCheck::First, PanelCheck::Always].map(|check| (check, Reading::open(root.path(), check)));
    // Their first read is checked in both.
    ways.iter().for_each(|(_, reading)| _ = reading.run());
    let mut best: [Option<Spent>; 2] = [None; 2];
    for _ in 0..ROUNDS {
        for ((_, reading), best) in ways.iter().zip(&mut best) {
            let spent = reading.run();
            let least = best.unwrap_or(spent);
            *best = Some(Spent {
                clock: spent.clock.min(least.clock),
                processor: spent.processor.min(least.processor),
            });
        }
    }
    let direct = if ways[0].1.is_direct { "past the page cache" } else { "through the page cache" };
    println!("{} MB in panels of {panel} bytes, {direct}", bytes >> 20);
    for ((check, _), best) in ways.iter().zip(best) {
        let Some(best) = best else { continue };
        let of = |time: Duration| time.as_secs_f64() * 1e9 / bytes as f64;
        let name = format!("{check:?}").to_lowercase();
        println!(
            "{name:<8} {:>7.3} s of the clock per GB, {:>7.3} of the processor",
            of(best.clock),
            of(best.processor)
        );
    }
}

/// Time that this thread had of the processor; zero where the system does not tell.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

fn write(root: &std::path::Path, panels: usize, bytes: usize) -> Result<(), PanelError> {
    let mut folder = PanelFolder::open(root, "bench", PanelAccess::default())?;
    let fill = &mut |_: usize, panels: std::ops::Range<usize>, out: &mut [u8]| {
        for (panel, out) in panels.zip(out.chunks_exact_mut(bytes)) {
            out.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 + panel) as u8);
        }
        Ok(())
    };
    folder.add::<PanelError>(&[(name(), panels, bytes)], fill)
}

fn name() -> MatrixName {
    MatrixName { name: "w".into(), layout: String::new() }
}

/// All pieces of the file, read one after the other.
struct Reading {
    folder: PanelFolder,
    pieces: Vec<PanelRange>,
    is_direct: bool,
}

impl Reading {
    fn open(root: &std::path::Path, check: PanelCheck) -> Reading {
        let folder =
            PanelFolder::open(root, "bench", PanelAccess { buffered: false, check }).expect("was written");
        let (file, place) = folder.find(&name()).expect("was written");
        let entry = &file.matrices()[place];
        let (panels, each) = (entry.sums.len(), (PIECE / entry.panel_bytes).max(1));
        let pieces =
            (0..panels).step_by(each).map(|at| PanelRange::new(file, place, at..panels.min(at + each)));
        let (pieces, is_direct) = (pieces.collect(), file.is_direct());
        Reading { folder, pieces, is_direct }
    }

    fn run(&self) -> Spent {
        let (file, _) = self.folder.find(&name()).expect("was written");
        let mut buffer = PageBuffer::new(self.pieces.iter().map(PanelRange::room).max().unwrap_or(0));
        let (clock, processor) = (Instant::now(), processor_time());
        for piece in &self.pieces {
            piece.read(file, buffer.bytes_mut()).expect("reads");
        }
        Spent { clock: clock.elapsed(), processor: processor_time() - processor }
    }
}
