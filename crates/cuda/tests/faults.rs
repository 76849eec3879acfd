//! Faults put into kernels and into what the host waits for: the conformance kit finds each of them, and so does the
//! comparison of long copies. A check that sees none of them would say nothing of a backend that it passes.
//!
//! A binary of its own: it runs itself again for each fault, with a driver that holds it.
#![cfg(target_os = "linux")]

mod alone;
mod build;

use alone::alone;
use build::build_driver;
use lamina_cuda::CudaDevice;
use lamina_fixtures::extent;
use lamina_gpu::{Gpu, GpuDevice, SOURCES};
use lamina_oracle::conform::{self, Tolerance, scope::FAULT_PARTS};
use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// A change of the kernels, which is in effect where `fault(n)` is true for its place in the list, counted from 1.
struct KernelFault {
    what: &'static str,
    file: &'static str,
    /// Stands in the file once.
    from: &'static str,
    /// With `FAULT` for the condition.
    to: &'static str,
    /// Cases of the kit that have to find it.
    part: &'static str,
}

const FAULTS: &[KernelFault] = &[
    KernelFault {
        what: "pieces of a product are added before all are there",
        file: "product.h",
        from: "part[(piece * FEW_ROWS + r) * 32 + lane] = total[r];\n  BARRIER();",
        to: "part[(piece * FEW_ROWS + r) * 32 + lane] = total[r];\n  if (!FAULT) BARRIER();",
        part: "linear 129x256 F32",
    },
    KernelFault {
        what: "a tile of a product is overwritten while others read it",
        file: "product.h",
        from: "tile_block<F>(weights, inputs, scales, sums, o, r, total);\n      BARRIER();",
        to: "tile_block<F>(weights, inputs, scales, sums, o, r, total);\n      if (!FAULT) BARRIER();",
        part: "linear 129x256 F32",
    },
    KernelFault {
        what: "pieces of a product of many rows are added in another order",
        file: "product.h",
        from: "for (int piece = 0; piece < PIECES; ++piece) {\n",
        to: "for (int turn = 0; turn < PIECES; ++turn) {\n    int piece = FAULT ? PIECES - 1 - turn : turn;\n",
        part: "linear 129x256 F32",
    },
    KernelFault {
        what: "fragments of a weight are swapped",
        file: "tensor.h",
        from: "else mma_f16(d, f[0].code[i], f[1].code[i], f[0].code[i + 1],",
        to: "else mma_f16(d, f[0].code[i], FAULT ? f[0].code[i + 1] : f[1].code[i], FAULT ? f[1].code[i] : f[0].code[i + 1],",
        part: "linear 129x256 Q4_0",
    },
    KernelFault {
        what: "pieces on tensor cores are added before all are there",
        file: "tensor.h",
        from: "TENSOR_OUTPUTS + g + i / 2 * 8] = total[i];\n  BARRIER();",
        to: "TENSOR_OUTPUTS + g + i / 2 * 8] = total[i];\n  if (!FAULT) BARRIER();",
        part: "linear 129x256 Q4_0",
    },
    KernelFault {
        what: "a stage of inputs is asked for where others still multiply",
        file: "tensor.h",
        from: "  BARRIER();\n  if (!SINCE_80) land_stage",
        to: "  if (!FAULT) BARRIER();\n  if (!SINCE_80) land_stage",
        part: "linear 129x256 Q4_0",
    },
    KernelFault {
        what: "a stage of inputs is multiplied before it is there",
        file: "tensor.h",
        from: "async_wait<STAGES - 2>();",
        to: "if (FAULT) async_wait<STAGES - 1>(); else async_wait<STAGES - 2>();",
        part: "linear 129x256 Q4_0",
    },
    KernelFault {
        what: "a stage of inputs takes the slot of the one that is multiplied",
        file: "tensor.h",
        from: "SINCE_80 ? STAGES : HELD_STAGES",
        to: "SINCE_80 ? FAULT ? STAGES - 1 : STAGES : HELD_STAGES",
        part: "linear 129x256 Q6_K",
    },
    KernelFault {
        what: "sums of a super-block are asked for before those of the last one are read",
        file: "tensor.h",
        from: "return first % 8 == 8 - STAGE_BLOCKS",
        to: "return first % 8 == (FAULT ? 0 : 8 - STAGE_BLOCKS)",
        part: "linear 40x512 Q4_K",
    },
    KernelFault {
        what: "minimums are those of other blocks",
        file: "super.h",
        from: "0x0100u + 0x0202u * (u32)t",
        to: "0x0100u + 0x0202u * (u32)(FAULT ? 3 - t : t)",
        part: "linear 129x256 Q4_K",
    },
    KernelFault {
        what: "what float16 loses of sums is taken for the sums",
        file: "halves.h",
        from: "parts[2] = f2h(sum * 0.03125f - h2f(parts[0]));",
        to: "parts[2] = f2h(FAULT ? sum * 0.03125f : sum * 0.03125f - h2f(parts[0]));",
        part: "linear 129x256 Q5_K",
    },
    KernelFault {
        what: "pieces of many rows on tensor cores are added in another order",
        file: "tensor.h",
        from: "for (int piece = 0; piece < PIECES; ++piece) {\n",
        to: "for (int turn = 0; turn < PIECES; ++turn) {\n    int piece = FAULT ? PIECES - 1 - turn : turn;\n",
        part: "linear 129x256 Q4_0",
    },
    KernelFault {
        what: "minimums are multiplied by the sums of other rows",
        file: "tensor.h",
        from: "f[i / 2].offset, i % 2 ? s1 : s0,",
        to: "f[i / 2].offset, i % 2 && !FAULT ? s1 : s0,",
        part: "linear 129x256 Q4_1",
    },
    KernelFault {
        what: "a tile takes a pair of the next expert",
        file: "groups.h",
        from: "to[2] = total - p < a.height ? total - p : a.height;",
        to: "to[2] = total - p < a.height ? total - p + (FAULT && place + total < pairs) : a.height;",
        part: "experts types",
    },
    KernelFault {
        what: "the last pair of an expert is lost",
        file: "groups.h",
        from: "for (int p = 0; p < total; p += a.height) {",
        to: "for (int p = 0; p < (FAULT ? total - 1 : total); p += a.height) {",
        part: "experts types",
    },
    KernelFault {
        what: "pairs are put where another warp puts some",
        file: "groups.h",
        from: "      place += n;",
        to: "      place += FAULT ? 0 : n;",
        part: "experts types",
    },
    KernelFault {
        what: "pairs are counted before all lanes have said their expert",
        file: "groups.h",
        from: "keys[me] = key;\n  BARRIER();",
        to: "keys[me] = key;\n  if (!FAULT) BARRIER();",
        part: "experts types",
    },
    KernelFault {
        what: "an expert multiplies the inputs of another row",
        file: "tensor.h",
        from: "return p.share > 1 ? pair / p.share : pair;",
        to: "return p.share > 1 ? (FAULT ? pair : pair / p.share) : pair;",
        part: "experts types",
    },
    KernelFault {
        what: "rows of a tile are read before all of them are known",
        file: "tensor.h",
        from: "    s.halves[me] = half_of(p, pair);\n  }\n  BARRIER();",
        to: "    s.halves[me] = half_of(p, pair);\n  }\n  if (!FAULT) BARRIER();",
        part: "experts types",
    },
    KernelFault {
        what: "rows of a weight are read with a wrong stride",
        file: "repack.h",
        from: "rows[(size_t)row * a.row_bytes + at + b]",
        to: "rows[(size_t)row * (FAULT ? a.row_bytes - 1 : a.row_bytes) + at + b]",
        part: "linear 129x256 Q4_K",
    },
    KernelFault {
        what: "cells are read with a wrong stride",
        file: "attend.h",
        from: "(size_t)(cell % PAGE) * part.row_bytes",
        to: "(size_t)(cell % PAGE) * (FAULT ? part.row_bytes - 2 : part.row_bytes)",
        part: "attend window 16",
    },
    KernelFault {
        what: "the block table is read one cell late",
        file: "attend.h",
        from: "s.table[cell / PAGE]",
        to: "s.table[(FAULT ? cell - 1 : cell) / PAGE]",
        part: "attend window 16",
    },
    KernelFault {
        what: "cells are stored one page late",
        file: "cache.h",
        from: "(size_t)table[cell / PAGE]",
        to: "(size_t)table[(FAULT ? cell + 1 : cell) / PAGE]",
        part: "attend window 16",
    },
    KernelFault {
        what: "a window begins one token late",
        file: "attend.h",
        from: "s.index + 1 - a.span",
        to: "s.index + (FAULT ? 2 : 1) - a.span",
        part: "attend window 16",
    },
    KernelFault {
        what: "a row sees the token behind it",
        file: "attend.h",
        from: "? seq[SEQ_LEN] : s.index + 1;",
        to: "? seq[SEQ_LEN] : s.index + (FAULT ? 2 : 1);",
        part: "attend window 16",
    },
    KernelFault {
        what: "a butterfly adds half of a warp twice",
        file: "attend.h",
        from: "total = total + lane_xor(total, m);",
        to: "total = total + lane_xor(total, FAULT && m == 16 ? 8 : m);",
        part: "attend window 16",
    },
    KernelFault {
        what: "cells are overwritten while others read them",
        file: "attend.h",
        from: "TILE_ROW + i], dot[h]);\n    }\n    BARRIER();",
        to: "TILE_ROW + i], dot[h]);\n    }\n    if (!FAULT) BARRIER();",
        part: "attend f32 128",
    },
    KernelFault {
        what: "units side by side add values in another order",
        file: "attend.h",
        from: "for (int i = from; i < to_cell; ++i) v =",
        to: "for (int k = from; k < to_cell; ++k) for (int i = FAULT && apart ? from + to_cell - 1 - k : k, n = 0; n < 1; ++n) v =",
        part: "attend window 16",
    },
    KernelFault {
        what: "fragments of queries are swapped",
        file: "attend_tensor.h",
        from: "((i % 8 * 4 + k / 4) * 4 + i / 8 + k % 4 / 2 * 2) * 2 + k % 2",
        to: "((i % 8 * 4 + k / 4) * 4 + (FAULT ? i / 8 * 2 + k % 4 / 2 : i / 8 + k % 4 / 2 * 2)) * 2 + k % 2",
        part: "attend f16 128",
    },
    KernelFault {
        what: "neighbouring cells of values are swapped",
        file: "attend_tensor.h",
        from: "u32 pick = n ? 0x7632u : 0x5410u;",
        to: "u32 pick = n ? 0x7632u : FAULT ? 0x1054u : 0x5410u;",
        part: "attend f16 128",
    },
    KernelFault {
        what: "units in turn are joined in another order than side by side",
        file: "attend_tensor.h",
        from: "unit_of(own, s, a, b, first + i)",
        to: "unit_of(own, s, a, b, FAULT && !side ? (b.to - 1) / UNIT - i : first + i)",
        part: "attend f16 128",
    },
    KernelFault {
        what: "rows on tensor cores see all cells that others beside them see",
        file: "attend_tensor.h",
        from: "token >= r.low && token < r.high ? token : -1;",
        to: "(FAULT || (token >= r.low && token < r.high)) ? token : -1;",
        part: "attend f16 128",
    },
    KernelFault {
        what: "values that are not finite are mixed with weights of 0",
        file: "attend_tensor.h",
        from: "bool wild = in.wild[0] == u.number;",
        to: "bool wild = !FAULT && in.wild[0] == u.number;",
        part: "wild rows F16",
    },
    KernelFault {
        what: "weights on tensor cores are overwritten while others multiply by them",
        file: "attend_tensor.h",
        from: "    // Scores of the next unit go where the weights of this one are.\n    BARRIER();",
        to: "    if (!FAULT) BARRIER();",
        part: "attend f16 128",
    },
    KernelFault {
        what: "fragments of queries of latents are swapped",
        file: "attend_latent.h",
        from: "float low = v[i % 2 * 4 + i / 2 * 2], high =",
        to: "float low = v[FAULT ? 2 * i : i % 2 * 4 + i / 2 * 2], high =",
        part: "latent f16",
    },
    KernelFault {
        what: "the largest number of a query is that of a piece",
        file: "attend_latent.h",
        from: "half_exponent(max_(max_(of[0],",
        to: "half_exponent(FAULT ? of[me / 32 * MMA] : max_(max_(of[0],",
        part: "latent f16",
    },
    KernelFault {
        what: "rotary keys are read where latents are",
        file: "attend_latent.h",
        from: "(turned ? a.rope.at : a.key.at)",
        to: "(turned && !FAULT ? a.rope.at : a.key.at)",
        part: "latent f16",
    },
    KernelFault {
        what: "pieces of scores are added before all are there",
        file: "attend_latent.h",
        from: "dot[i / 4][i % 4];\n  }\n  BARRIER();\n  if (first) return;",
        to: "dot[i / 4][i % 4];\n  }\n  if (!FAULT) BARRIER();\n  if (first) return;",
        part: "latent f16",
    },
    KernelFault {
        what: "a score is that of two of its four pieces",
        file: "attend_latent.h",
        from: "weigh_row<L, SCORE_PIECES>(constants, s, a, b, u, in.rows[r], me % 32, in.scores + r * SCORE_ROW);",
        to: "{ if (FAULT) weigh_row<L, 1>(constants, s, a, b, u, in.rows[r], me % 32, in.scores + r * SCORE_ROW); \
             else weigh_row<L, SCORE_PIECES>(constants, s, a, b, u, in.rows[r], me % 32, in.scores + r * SCORE_ROW); }",
        part: "latent f16",
    },
    KernelFault {
        what: "units of latents in turn are joined in another order than side by side",
        file: "attend_latent.h",
        from: "unit_of(pages, s, a, b, first + i)",
        to: "unit_of(pages, s, a, b, FAULT && !side ? (b.to - 1) / UNIT - i : first + i)",
        part: "latent f16",
    },
    KernelFault {
        what: "weights of latents are overwritten while others multiply by them",
        file: "attend_latent.h",
        from: "    // Scores of the next unit go where the weights of this one are.\n    BARRIER();",
        to: "    if (!FAULT) BARRIER();",
        part: "latent f16",
    },
    KernelFault {
        what: "sums of a row are overwritten while others read them",
        file: "norm.h",
        from: "sum = sum + warps[i];\n  BARRIER();",
        to: "sum = sum + warps[i];\n  if (!FAULT) BARRIER();",
        part: "normalize Layer",
    },
    KernelFault {
        what: "a convolution forgets its last inputs",
        file: "recurrent.h",
        from: "if (k < kept) state[k * a.channels + c] = past[k];",
        to: "if (k < kept && !FAULT) state[k * a.channels + c] = past[k];",
        part: "conv ",
    },
];

/// A driver over kernels with all faults, none of which is in effect by itself.
fn faulty_driver(folder: &Path) {
    for (file, text) in SOURCES {
        let mut text = (*text).to_owned();
        for (i, fault) in FAULTS.iter().enumerate().filter(|(_, fault)| fault.file == *file) {
            assert_eq!(text.matches(fault.from).count(), 1, "{}: {}", fault.what, fault.from);
            text = text.replace(fault.from, &fault.to.replace("FAULT", &format!("fault({})", i + 1)));
        }
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let asked = "#include <cstdlib>\ninline bool fault(int n) {\n  static const char* asked = std::getenv(\"FAULT\");\n  \
                 static const int number = asked ? std::atoi(asked) : 0;\n  return n == number;\n}\n";
    let header = folder.join("fault.h");
    fs::write(&header, asked).expect("a file");
    build_driver(folder, folder, &["-O1", "-include", header.to_str().expect("a name")]);
}

/// Does `work` for `0..n` on a few threads.
fn for_each(n: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(4);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < n) {
                    work(i);
                }
            });
        }
    });
}

/// Each fault is tried once in so many days.
const DAYS: usize = 9;

/// Faults that are tried: those of this day, by night all.
fn tried() -> Vec<usize> {
    (0..FAULTS.len()).filter(|&i| extent::takes(i, DAYS)).collect()
}

/// The short form of the kit is the cases that find faults, and no others.
#[test]
fn the_short_kit_has_the_cases_that_find_faults() {
    let finding: BTreeSet<_> =
        FAULTS.iter().map(|f| f.part).chain(FORGOTTEN_CALLS.map(|(_, part)| part)).collect();
    assert_eq!(finding, BTreeSet::from_iter(FAULT_PARTS.iter().copied()));
}

/// Calls of the driver that are left undone, and the cases that find it.
const FORGOTTEN_CALLS: [(&str, &str); 3] = [
    ("cuStreamSynchronize=-1", "linear 40x512 Q8_0"),
    ("cuMemcpyDtoDAsync_v2=-1", "memory"),
    ("cuMemsetD8Async=-1", "conv "),
];

#[test]
fn the_kit_finds_every_fault_of_the_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    faulty_driver(folder.path());
    let libraries = folder.path().to_str().expect("a name");
    let (tried, missed) = (tried(), Mutex::new(vec![]));
    for_each(tried.len(), |n| {
        let i = tried[n];
        if !ORDERS.iter().any(|order| fails(libraries, i + 1, order, FAULTS[i].part)) {
            missed.lock().expect("no panic").push(FAULTS[i].what);
        }
    });
    assert_eq!(missed.into_inner().expect("no panic"), [""; 0]);
    // Without a fault in effect, all that has to find one passes.
    let mut parts: Vec<_> = tried.iter().map(|&i| FAULTS[i].part).collect();
    parts.sort_unstable();
    parts.dedup();
    assert!(!ORDERS.iter().any(|order| fails(libraries, 0, order, &parts.join(";"))));
}

/// Blocks and threads forwards, and backwards.
const ORDERS: [&str; 2] = ["order=1", "order=-1"];

/// True where cases of the kit fail with a fault.
fn fails(libraries: &str, fault: usize, order: &str, part: &str) -> bool {
    let settings = [("FAULT", fault.to_string()), ("FAKE_CUDA", order.into()), ("PART", part.into())];
    let done =
        alone("inner_part", libraries, &settings.each_ref().map(|(name, value)| (*name, value.as_str())));
    let out = String::from_utf8_lossy(&done.stdout);
    // By their numbers: the device was opened.
    assert!(out.contains("examined"), "{fault}: {out}");
    !done.status.success()
}

#[test]
#[ignore = "needs a driver's folder in the libraries' path"]
fn inner_part() {
    let device = CudaDevice::open(0).expect("the fake device");
    println!("examined");
    let parts = env::var("PART").expect("cases of the kit");
    for part in parts.split(';') {
        let report = conform::run_matching(|| Gpu::new(device.clone()), Tolerance::default(), part);
        report.assert();
        assert!(report.cases > 0 && report.refused.is_empty(), "{part}: {report}");
    }
}

/// A driver that leaves a call undone and says that it did it stands for a host that forgot the call.
#[test]
fn a_forgotten_call_is_found() {
    for (function, part) in FORGOTTEN_CALLS {
        let settings = [("FAKE_CUDA", function), ("PART", part)];
        let done = alone("inner_part", lamina_emu::FAKE_CUDA, &settings);
        let out = String::from_utf8_lossy(&done.stdout);
        assert!(!done.status.success() && out.contains("examined"), "{function}: {out}");
    }
    for (settings, right) in [("", true), ("cuEventSynchronize=-1", false)] {
        let done = alone("inner_copies", lamina_emu::FAKE_CUDA, &[("FAKE_CUDA", settings)]);
        let out = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() == right && out.contains("examined"), "{settings}: {out}");
    }
}

#[test]
#[ignore = "needs a driver's folder in the libraries' path"]
fn inner_copies() {
    let device = CudaDevice::open(0).expect("the fake device");
    println!("examined");
    // Longer than all pinned pieces together.
    let bytes: Vec<u8> = (0..9_000_001u32).map(|i| (i % 251) as u8).collect();
    let buffer = device.alloc(bytes.len(), "a test").expect("memory");
    device.upload(&buffer, 0, &bytes).expect("copied");
    let mut back = vec![0; bytes.len()];
    device.download(&buffer, 0, &mut back).expect("copied");
    assert!(bytes == back, "other bytes came back");
}
