//! Keys and values of every type, stored and attended to.

use super::{
    launch::{GoldenCase, GoldenLaunch},
    step::{GoldenStep, PAGES, ROWS},
};
use crate::{
    args::{AttendArgs, QueryPart, StoreArgs, StoredPart},
    kv::PagePlan,
    samples::stored,
};
use lamina_base::DType;
use lamina_plan::{KvType, KvTypes, LayerState, PAGE_LEN, backend::Result};

const KV_HEADS: usize = 2;
/// Three query heads have a key head.
const HEADS: usize = 6;
const DIM: usize = 64;
/// A number of the rotary part of keys beside latents.
const ROPE: usize = 32;
/// Units of 64 cells that the longest sequence sees.
const UNITS: usize = 3;

pub(super) fn launches(on: &GoldenStep) -> Result<Vec<GoldenLaunch>> {
    let mut launches = vec![];
    for (i, (_, kv_type)) in KvType::ALL.iter().enumerate() {
        let types = KvTypes::from(*kv_type);
        let paged = |dim| {
            let layer = LayerState::Paged { group: 0, kv_heads: KV_HEADS, dim };
            PagePlan::of(&layer, types).expect("a paged layer has pages")
        };
        launches.push(store(on, paged(40)));
        launches.extend(attend(on, paged(DIM), kv_type.dtype(), i)?);
    }
    let latent = LayerState::Latent { group: 0, rank: DIM, rope: ROPE };
    let latent = PagePlan::of(&latent, KvType::F16.into()).expect("a paged layer has pages");
    launches.extend(attend(on, latent, DType::F16, 0)?);
    launches.extend(joins(on));
    Ok(launches)
}

fn store(on: &GoldenStep, pages: PagePlan) -> GoldenLaunch {
    let part = pages.value;
    let args = StoreArgs {
        group: 0,
        heads: pages.heads as i32,
        dim: part.width,
        code: part.code,
        page_bytes: pages.page_bytes as i32,
        head_bytes: pages.head_bytes as i32,
        row_bytes: part.row_bytes,
        at: part.at,
    };
    let width = part.width as usize;
    let operands = on.kernel("store").between(ROWS * pages.heads * width, -3.0, 3.0);
    let chunks = pages.heads * width.div_ceil(32);
    operands.written(PAGES * pages.page_bytes / 4).over([chunks.div_ceil(64), ROWS + 2, 1], &args)
}

/// Pages whose every cell holds numbers.
fn filled(case: &mut GoldenCase, pages: PagePlan, dtype: DType) -> Result<Vec<u8>> {
    let mut bytes = vec![0; PAGES * pages.page_bytes];
    for head in 0..PAGES * pages.heads {
        let (page, head) = (head / pages.heads, head % pages.heads);
        for part in [pages.key, pages.rope, pages.value] {
            let at = page * pages.page_bytes + head * pages.head_bytes + part.at as usize;
            let numbers = case.numbers(PAGE_LEN * part.width as usize, -1.0, 1.0);
            let rows = stored(dtype, &numbers)?;
            bytes[at..at + rows.len()].copy_from_slice(&rows);
        }
    }
    Ok(bytes)
}

/// Units in turn and side by side. Masks, sinks, caps and slopes differ by `i`.
fn attend(on: &GoldenStep, pages: PagePlan, dtype: DType, i: usize) -> Result<[GoldenLaunch; 2]> {
    let share = HEADS / pages.heads;
    let tiles = share.div_ceil(4);
    let queries =
        |width: usize| QueryPart { from: 0, row: (HEADS * width) as i32, head: width as i32, at: 0 };
    let args = AttendArgs {
        heads: HEADS as i32,
        share: share as i32,
        tiles: tiles as i32,
        page_bytes: pages.page_bytes as i32,
        head_bytes: pages.head_bytes as i32,
        key: pages.key,
        rope: pages.rope,
        value: pages.value,
        q: queries(DIM),
        q_rope: queries(ROPE),
        mask: i as i32 % 4,
        span: 37,
        has_sinks: i32::from(i > 3),
        slopes: if i % 3 == 2 { 1 } else { -1 },
        softcap: if i % 2 == 1 { 2.0 } else { 0.0 },
        slope_factor: 1.0,
        ..joining()
    };
    let operands = |kernel| -> Result<GoldenCase> {
        let mut case = on.kernel(kernel);
        let cells = filled(&mut case, pages, dtype)?;
        let queries = case.floats(ROWS * HEADS * DIM).floats(ROWS * HEADS * ROPE);
        Ok(queries.bytes(cells).between(1 + HEADS, 0.0, 0.1))
    };
    let blocks = pages.heads * tiles;
    let turns = operands("attend")?.floats(HEADS).written(ROWS * HEADS * DIM);
    let units = operands("attend_units")?.written(ROWS * HEADS * UNITS * (DIM + 2));
    Ok([turns.over([blocks, 1, ROWS + 2], &args), units.over([blocks, 2, ROWS + 2], &args)])
}

/// What joining units needs of an attention.
fn joining() -> AttendArgs {
    AttendArgs {
        heads: HEADS as i32,
        value: StoredPart { width: DIM as i32, ..StoredPart::default() },
        out_row: (HEADS * DIM) as i32,
        units: UNITS as i32,
        stride: 2,
        last: 1,
        scale: 0.125,
        ..AttendArgs::default()
    }
}

/// One pass, and the first and the last of several.
fn joins(on: &GoldenStep) -> Vec<GoldenLaunch> {
    let join = |pass, last, has_sinks| {
        let args = AttendArgs { units: if pass == 0 { 2 } else { 1 }, pass, last, has_sinks, ..joining() };
        // Weights of a unit have a sum above 0.
        let parts = on.kernel("attend_join").floats(HEADS).between(ROWS * HEADS * 2 * (DIM + 2), 0.25, 1.0);
        let operands = parts.updated(ROWS * HEADS * 4, 0.25, 1.0).updated(ROWS * HEADS * DIM, -1.0, 1.0);
        operands.over([HEADS, 1, ROWS + 2], &args)
    };
    vec![join(0, 1, 1), join(0, 0, 0), join(1, 1, 0)]
}
