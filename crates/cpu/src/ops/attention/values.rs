//! Decode rows that read the values of few cells ([`lamina_plan::AttentionSparsity::values`]).
//!
//! The softmax weights of all cells are kept until the cells are picked. Their values are then copied, as they are stored,
//! into pages that hold nothing else, so that the kernels of whole pages mix them whatever their type: a copied row of
//! float16 costs less than to tell every kernel which positions to pass over.

use super::{super::softmax::Running, AttentionArgs, AttentionScratch, chunk_cells, chunks};
use crate::{
    machine::Machine,
    memory::{SharedPtr, out_of_memory},
    tasks::Unit,
};
use lamina_base::available_memory;
use lamina_kernels::{CHUNK, CHUNK_PAGES, LaneGroups, ValueMix, ValuePages};
use lamina_plan::{PAGE_LEN, ReadShare, backend::Result};
use std::ops::Range;

/// Rows of key heads that are at work at once, for each thread: as many as keep threads busy between two stages.
const ROWS_PER_THREAD: usize = 4;
/// Chunks of a task: queries are encoded once for them.
const TASK_CHUNKS: usize = 8;
/// Lanes of the widest vectors.
const MOST_LANES: usize = 16;
/// Low bits of a sort key that the first pass ignores.
const LOW_BITS: u32 = 20;

/// What is kept of a row and a key head until its cells are picked, in numbers: for each of its units and chunks the weights
/// `[group][head][lane]`, largest scores and sums; a sort key and a picked cell for each cell; pages of picked values.
#[derive(Clone, Copy)]
struct RowMemory {
    /// Units of a key head.
    units: usize,
    /// Query heads of a unit at most.
    heads: usize,
    chunks: usize,
    /// Of a page of values.
    page: usize,
}

impl RowMemory {
    fn new(s: &AttentionArgs<'_>, units: &[Unit]) -> RowMemory {
        let same = |u: &&Unit| (u.row, u.kv_head) == (units[0].row, units[0].kv_head);
        let page = s.layer.codec.values().page_bytes(s.layer.value_dim()).div_ceil(size_of::<f32>());
        RowMemory {
            units: units.iter().take_while(same).count(),
            heads: units[0].heads,
            chunks: units.iter().map(|&u| chunks(s, u).end).max().unwrap_or(0),
            page: page.next_multiple_of(MOST_LANES),
        }
    }

    /// Weights of a chunk.
    fn weights(self) -> usize {
        CHUNK * (self.heads | 1)
    }

    /// Weights, largest scores and sums of a chunk.
    fn chunk(self) -> usize {
        self.weights() + 2 * self.heads
    }

    fn unit(self) -> usize {
        self.chunks * self.chunk()
    }

    fn cells(self) -> usize {
        self.chunks * CHUNK
    }

    fn all(self) -> usize {
        (self.units * self.unit() + 2 * self.cells()).next_multiple_of(MOST_LANES) + CHUNK_PAGES * self.page
    }
}

impl Machine {
    /// Units of decode rows that read few values; those of a key head follow one another.
    pub(super) fn value_units(&self, s: &AttentionArgs<'_>, units: &[Unit]) -> Result<()> {
        if units.is_empty() {
            return Ok(());
        }
        let room = RowMemory::new(s, units);
        for units in units.chunks(ROWS_PER_THREAD * self.pool.threads() * room.units) {
            let len = units.len() / room.units * room.all();
            let Some(mut memory) = self.lists.partials.room(len) else {
                let bytes = (len * size_of::<f32>()) as u64;
                return Err(out_of_memory(
                    "weights of sparse attention",
                    bytes,
                    available_memory().unwrap_or(0),
                ));
            };
            let shared = SharedPtr(memory.as_mut_ptr());
            let tasks = room.chunks.div_ceil(TASK_CHUNKS);
            self.pool.run(units.len() * tasks, |task, worker| {
                let (i, first) = (task / tasks, task % tasks * TASK_CHUNKS);
                let at = i / room.units * room.all() + i % room.units * room.unit() + first * room.chunk();
                let len = TASK_CHUNKS.min(room.chunks - first) * room.chunk();
                // SAFETY: every chunk of every unit has a piece of its own, and belongs to one task.
                let pieces = unsafe { std::slice::from_raw_parts_mut(shared.at(at), len) };
                self.keep_weights(s, units[i], first, (room, pieces), worker);
            });
            self.pool.run(units.len() / room.units, |row, worker| {
                let (at, all) = (row * room.all(), room.all());
                // SAFETY: every row has a piece of its own, and the tasks that wrote to it have ended.
                let memory = unsafe { std::slice::from_raw_parts_mut(shared.at(at), all) };
                self.read_strongest(s, &units[row * room.units..][..room.units], (room, memory), worker);
            });
        }
        Ok(())
    }

    /// Weights of the chunks of a unit from `first` on, with their maxima and sums behind those of each.
    fn keep_weights(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        first: usize,
        (room, pieces): (RowMemory, &mut [f32]),
        worker: usize,
    ) {
        // SAFETY: this worker runs this task alone, and what a task before it left is not used any more.
        let AttentionScratch { queries, query, .. } = unsafe { self.attention_scratch(s, worker) };
        self.load_queries(s, u, query, queries);
        let seen = chunks(s, u);
        let pieces = (first..).zip(pieces.chunks_exact_mut(room.chunk()));
        for (chunk, piece) in pieces.filter(|(chunk, _)| seen.contains(chunk)) {
            let (weights, tail) = piece.split_at_mut(room.weights());
            let mut part = Running::new(&mut [], 0, 0);
            self.chunk_weights(s, u, chunk_cells(s, u, chunk), (weights, queries), &mut part);
            let (tops, sums) = tail.split_at_mut(room.heads);
            tops[..u.heads].copy_from_slice(&part.top[..u.heads]);
            sums[..u.heads].copy_from_slice(&part.sum[..u.heads]);
        }
    }

    /// Picks the cells of a row and key head by their weights, and mixes their values.
    fn read_strongest(
        &self,
        s: &AttentionArgs<'_>,
        units: &[Unit],
        (room, memory): (RowMemory, &mut [f32]),
        worker: usize,
    ) {
        let (weights, rest) = memory.split_at_mut(room.units * room.unit());
        let (keys, rest) = rest.split_at_mut(room.cells());
        let (picks, rest) = rest.split_at_mut(room.cells());
        let (_, pages) = rest.split_at_mut(rest.len() - CHUNK_PAGES * room.page);
        for (&u, weights) in units.iter().zip(weights.chunks_exact_mut(room.unit())) {
            divide_by_sums(s, u, room, weights);
        }
        let cells = s.cells(units[0]);
        let newest = s.b.cells[units[0].row] as usize;
        let keys: &mut [u32] = bytemuck::cast_slice_mut(&mut keys[..cells.len()]);
        let others = sort_keys(s, units, (room, weights), newest, keys);
        let share = s.o.sparse_values(s.b, units[0].row);
        let count = share.map_or(others, |share: ReadShare| share.floor(others));
        let picks: &mut [u32] = bytemuck::cast_slice_mut(picks);
        let picks = pick(keys, count, newest - cells.start, picks);
        let picks = picks.iter().map(|&at| cells.start + at as usize);
        for (&u, weights) in units.iter().zip(weights.chunks_exact_mut(room.unit())) {
            self.mix_picked(s, u, (room, weights), picks.clone(), pages, worker);
        }
    }

    /// Weights of a unit times the values of picked cells, into its rows.
    fn mix_picked(
        &self,
        s: &AttentionArgs<'_>,
        u: Unit,
        (room, weights): (RowMemory, &[f32]),
        mut picks: impl ExactSizeIterator<Item = usize>,
        pages: &mut [f32],
        worker: usize,
    ) {
        // SAFETY: this worker runs this task alone, and what a task before it left is not used any more.
        let scratch = unsafe { self.attention_scratch(s, worker) };
        let AttentionScratch { scores, part, values, .. } = scratch;
        let (dim, lanes, mask) = (s.layer.value_dim(), s.layer.codec.keys().lanes(), s.cell_mask(u));
        let run = Running::new(values, u.heads, dim);
        let first = s.cells(u).start / PAGE_LEN * PAGE_LEN;
        while picks.len() > 0 {
            let positions = picks.len().min(CHUNK);
            let stride = u.score_rows() * lanes;
            scores[(positions - 1) / lanes * stride..][..stride].fill(0.0);
            for (i, cell) in picks.by_ref().take(positions).enumerate() {
                let page: &mut [u8] =
                    bytemuck::cast_slice_mut(&mut pages[i / PAGE_LEN * room.page..][..room.page]);
                // SAFETY: attention writes nothing to the cache.
                let from = unsafe { self.cache.value_rows(&s.layer, mask.page(cell / PAGE_LEN), u.kv_head) };
                s.layer.codec.values().copy(from, [cell % PAGE_LEN, i % PAGE_LEN], dim, page);
                let (chunk, place) = (cell / CHUNK, cell - (cell / CHUNK * CHUNK).max(first));
                let chunk = &weights[chunk * room.chunk()..][..room.chunk()];
                let of_cell = &chunk[place / lanes * stride + place % lanes..];
                let to = &mut scores[i / lanes * stride + i % lanes..];
                for (r, factor) in chunk[room.weights()..][..u.heads].iter().enumerate() {
                    to[r * lanes] = of_cell[r * lanes] * factor;
                }
            }
            let pages: &[u8] = bytemuck::cast_slice(pages);
            let bytes = room.page * size_of::<f32>();
            let list: [&[u8]; CHUNK_PAGES] = std::array::from_fn(|i| &pages[i * bytes..][..bytes]);
            let values = ValuePages { pages: list, next: list.map(<[u8]>::as_ptr), positions };
            let weights = LaneGroups { numbers: &mut *scores, stride, rows: u.heads, lanes };
            s.layer.codec.values().mix(&ValueMix::new(weights, values, dim, part));
            for (sum, v) in run.values[..u.heads * dim].iter_mut().zip(&*part) {
                *sum += v;
            }
        }
        for r in 0..u.heads {
            let (row, head) = u.place(r);
            let width = s.layer.dim;
            // SAFETY: these heads of the row of the output belong to this task alone.
            let to = unsafe { std::slice::from_raw_parts_mut(s.out.at(row).add(head * width), width) };
            to.copy_from_slice(&run.values[r * dim..][..width]);
        }
    }
}

/// Turns the largest scores of each chunk into factors that make softmax weights of its weights.
fn divide_by_sums(s: &AttentionArgs<'_>, u: Unit, room: RowMemory, weights: &mut [f32]) {
    let chunks = chunks(s, u);
    for r in 0..u.heads {
        let (top_at, sum_at) = (room.weights() + r, room.weights() + room.heads + r);
        let mut all = s.sinks.map_or((f32::NEG_INFINITY, 0.0), |sinks| (sinks[u.place(r).1], 1.0));
        for chunk in weights.chunks_exact(room.chunk()).take(chunks.end).skip(chunks.start) {
            let (top, sum) = (chunk[top_at], chunk[sum_at]);
            // A sum that is no number has to be seen in the end.
            if sum != 0.0 {
                let largest = all.0.max(top);
                all = (largest, all.1 * (all.0 - largest).exp() + sum * (top - largest).exp());
            }
        }
        for chunk in weights.chunks_exact_mut(room.chunk()).take(chunks.end).skip(chunks.start) {
            let seen = chunk[sum_at] != 0.0;
            chunk[top_at] = if seen { (chunk[top_at] - all.0).exp() / all.1 } else { 0.0 };
        }
    }
}

/// Adds the weights of a vector of cells times their factor. Lengths that are known let compilers take vectors for it.
fn add_weights(sums: &mut [f32; MOST_LANES], row: &[f32], factor: f32) {
    fn add<const N: usize>(sums: &mut [f32], row: &[f32], factor: f32) {
        if let (Some(sums), Some(row)) = (sums.first_chunk_mut::<N>(), row.first_chunk::<N>()) {
            (0..N).for_each(|i| sums[i] += row[i] * factor);
        }
    }
    match row.len() {
        16 => add::<16>(sums, row, factor),
        8 => add::<8>(sums, row, factor),
        4 => add::<4>(sums, row, factor),
        _ => sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += w * factor),
    }
}

/// A number for each cell that grows with its softmax weight, summed over the query heads of the key head; 0 for those that
/// the row does not see, and for its own. Returns how many it sees beside its own.
fn sort_keys(
    s: &AttentionArgs<'_>,
    units: &[Unit],
    (room, weights): (RowMemory, &[f32]),
    newest: usize,
    keys: &mut [u32],
) -> usize {
    let (lanes, all) = (s.layer.codec.keys().lanes(), s.cells(units[0]));
    for chunk in chunks(s, units[0]) {
        let cells = chunk_cells(s, units[0], chunk);
        for (group, first) in cells.clone().step_by(lanes).enumerate() {
            let mut sums = [0f32; MOST_LANES];
            for (u, weights) in units.iter().zip(weights.chunks_exact(room.unit())) {
                let chunk = &weights[chunk * room.chunk()..][..room.chunk()];
                let rows = chunk[group * u.score_rows() * lanes..].chunks_exact(lanes);
                for (row, factor) in rows.take(u.heads).zip(&chunk[room.weights()..]) {
                    add_weights(&mut sums, row, *factor);
                }
            }
            let end = cells.end.min(first + lanes);
            let begin = all.start.clamp(first, end);
            let keys = keys[begin.saturating_sub(all.start)..].iter_mut();
            for (key, sum) in keys.zip(&sums[begin - first..end - first]) {
                // Weights are at least 0, where the order of numbers is that of their bits.
                *key = (sum.to_bits() & i32::MAX as u32) + 1;
            }
        }
    }
    keys[newest - all.start] = 0;
    hide_unseen(s, units[0], &all, keys)
}

/// Clears what the row does not see; returns how many keys are left.
fn hide_unseen(s: &AttentionArgs<'_>, u: Unit, cells: &Range<usize>, keys: &mut [u32]) -> usize {
    let mask = s.cell_mask(u);
    if mask.map.is_none() {
        return keys.len() - 1;
    }
    let index = s.b.index(u.row);
    keys.iter_mut().zip(cells.clone()).filter(|(_, cell)| !mask.sees(index, *cell)).for_each(|(k, _)| *k = 0);
    keys.iter().filter(|key| **key > 0).count()
}

/// Places of the `count` largest keys and of `newest`, in order, at the beginning of `room`; of equal ones the lower.
fn pick<'a>(keys: &[u32], count: usize, newest: usize, room: &'a mut [u32]) -> &'a [u32] {
    let (least, mut equal) = smallest_picked(keys, count, room);
    let mut picked = 0;
    for (place, &key) in keys.iter().enumerate() {
        let tie = key == least && equal > 0;
        equal -= usize::from(tie);
        if key > least || tie || place == newest {
            room[picked] = place as u32;
            picked += 1;
        }
    }
    &room[..picked]
}

/// The smallest of the `count` largest keys, and how many that are equal to it are among these. `room` is overwritten.
fn smallest_picked(keys: &[u32], count: usize, room: &mut [u32]) -> (u32, usize) {
    if count == 0 {
        return (u32::MAX, 0);
    }
    // Keys are at most 2^31: exponents and three bits more leave few of a row's to be sorted.
    let mut bins = [0u32; (1 << (31 - LOW_BITS)) + 1];
    keys.iter().for_each(|key| bins[(key >> LOW_BITS) as usize] += 1);
    let (mut left, mut bin) = (count, bins.len() - 1);
    while (bins[bin] as usize) < left {
        left -= bins[bin] as usize;
        bin -= 1;
    }
    let mut len = 0;
    for &key in keys.iter().filter(|key| (**key >> LOW_BITS) as usize == bin) {
        room[len] = key;
        len += 1;
    }
    let (larger, &mut least, _) = room[..len].select_nth_unstable_by(left - 1, |a, b| b.cmp(a));
    (least, left - larger.iter().filter(|key| **key > least).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By sorting all.
    fn slow(keys: &[u32], count: usize, newest: usize) -> Vec<u32> {
        let mut places: Vec<usize> = (0..keys.len()).collect();
        places.sort_by_key(|&place| std::cmp::Reverse(keys[place]));
        let mut picked: Vec<u32> =
            places[..count].iter().chain([&newest]).map(|&place| place as u32).collect();
        picked.sort_unstable();
        picked
    }

    #[test]
    fn the_largest_keys_are_those_of_a_full_sort() {
        let mut seed = 7u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 4) % n
        };
        for round in 0..400 {
            let len = 1 + below(300) as usize;
            // Few values, so that many are equal; weights of all sizes; and NaN.
            let mut keys: Vec<u32> = (0..len)
                .map(|_| match round % 3 {
                    0 => 1 + below(5),
                    1 => 1 + (below(1000) as f32 / 1000.0).powi(9).to_bits(),
                    _ => 1 << 31 >> below(31),
                })
                .collect();
            let newest = below(len as u32) as usize;
            keys[newest] = 0;
            let count = below(len as u32) as usize;
            let mut room = vec![9; len];
            assert_eq!(pick(&keys, count, newest, &mut room), slow(&keys, count, newest), "{keys:?} {count}");
        }
    }
}
