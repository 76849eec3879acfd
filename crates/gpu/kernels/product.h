// Products by chains of fma: for devices without tensor cores, and for float32 weights everywhere.
//
// The law: the blocks of 32 inputs are cut into 8 pieces by their number alone. A piece starts at 0 and adds block after
// block: `dot` is a chain of fma over the inputs from 0, total = fma(scale, dot, total), and for formats with minimums
// total = fma(offset, sum of the inputs, total). Formats with scales for 16 inputs do so for each half of a block, those with
// one minimum behind both halves. Formats without scales chain `total` itself. Pieces are added in order.
// `few` gives the pieces to warps, `many` runs them in turn: the order is the same, and so are the bits.
#pragma once
#include "step.h"
#include "panel.h"
CONST int PIECES = 8, FEW_ROWS = 8;

// y = x w^T + bias, or y += factor * (x w^T + bias). Outputs go to columns from `first` on of rows of `y_row` numbers.
struct ProductArgs { int kind, inputs, outputs, has_bias, adds, first, y_row; float factor; };

FN int piece_start(int blocks, int piece) { return (int)((i64)piece * blocks / PIECES); }

// One block of 32 inputs, of which `left` are there.
template <class F> FN float add_block(LOCAL const Block32& b, DEV const float* x, int left, float factor, float total) {
  float sum = 0.0f;
  UNROLL for (int h = 0; h < (F::SCALES == 2 ? 2 : 1); ++h) {
    float dot = F::SCALES != 0 ? 0.0f : total;
    if (F::OFFSET == 2) sum = 0.0f;
    UNROLL for (int i = h * 16; i < (F::SCALES == 2 ? h * 16 + 16 : 32); ++i) {
      float v = i < left ? x[i] * factor : 0.0f;
      dot = fma(b.code[i], v, dot);
      if (F::OFFSET != 0) sum = sum + v;
    }
    total = F::SCALES != 0 ? fma(b.scale[h], dot, total) : dot;
    if (F::OFFSET == 2) total = fma(b.offset[h], sum, total);
  }
  return F::OFFSET == 1 ? fma(b.offset[0], sum, total) : total;
}
FN void write(DEV float* row, DEV const float* bias, ProductArgs a, int o, float sum) {
  DEV float* y = row + a.first;
  if (a.has_bias) sum = sum + bias[a.first + o];
  y[o] = a.adds ? fma(a.factor, sum, y[o]) : sum;
}
// Up to FEW_ROWS rows times a panel: a warp has a piece, a lane an output. `x` and `y` are the first row.
template <class F> FN void few(DEV const u8* w, DEV const float* x, DEV const float* bias, DEV float* y, ProductArgs a,
                               int panel, int rows, float factor, int me, TG float* part) {
  int lane = me % 32, piece = me / 32, blocks = (a.inputs + 31) / 32, to = piece_start(blocks, piece + 1);
  int whole = (a.inputs + F::INPUTS - 1) / F::INPUTS;
  DEV const u8* own = w + (size_t)panel * whole * F::BYTES * LANES;
  float total[FEW_ROWS];
  UNROLL for (int r = 0; r < FEW_ROWS; ++r) total[r] = 0.0f;
  for (int k = piece_start(blocks, piece); k < to; ++k) {
    Block32 b;
    F::take(own, k, lane, b);
    UNROLL for (int r = 0; r < FEW_ROWS; ++r)
      if (r < rows) total[r] = add_block<F>(b, x + (size_t)r * a.inputs + k * 32, a.inputs - k * 32, factor, total[r]);
  }
  UNROLL for (int r = 0; r < FEW_ROWS; ++r) part[(piece * FEW_ROWS + r) * 32 + lane] = total[r];
  BARRIER();
  int row = me / 32, o = panel * 32 + lane;
  if (row >= rows || o >= a.outputs) return;
  float sum = 0.0f;
  for (int p = 0; p < PIECES; ++p) sum = sum + part[(p * FEW_ROWS + row) * 32 + lane];
  write(y + (size_t)row * a.y_row, bias, a, o, sum);
}

// A tile of 64 outputs and 64 rows: 128 threads with 4 outputs and 8 rows each; weights and inputs of a block in shared
// memory as numbers.
CONST int TILE = 64;
struct TileArgs { int first_output, first_row, rows; };
// Loads block `k`: the first 64 threads take an output each, the others a row.
template <class F> FN void load_block(DEV const u8* w, DEV const float* x, ProductArgs a, TileArgs t, int k, int me,
                                      TG float* weights, TG float* inputs, TG float* scales, TG float* sums) {
  int i = me % TILE;
  if (me < TILE) {
    int o = t.first_output + i, whole = (a.inputs + F::INPUTS - 1) / F::INPUTS;
    Block32 b;
    if (o < a.outputs) F::take(w + (size_t)(o / 32) * whole * F::BYTES * LANES, k, o % 32, b);
    UNROLL for (int j = 0; j < 32; ++j) weights[j * TILE + i] = o < a.outputs ? b.code[j] : 0.0f;
    if (F::SCALES != 0) scales[i] = o < a.outputs ? b.scale[0] : 0.0f;
    if (F::SCALES == 2) scales[TILE + i] = o < a.outputs ? b.scale[1] : 0.0f;
    if (F::OFFSET != 0) scales[2 * TILE + i] = o < a.outputs ? b.offset[0] : 0.0f;
    if (F::OFFSET == 2) scales[3 * TILE + i] = o < a.outputs ? b.offset[1] : 0.0f;
  } else {
    float sum = 0.0f;
    bool there = t.first_row + i < t.rows;
    DEV const float* row = x + (size_t)(there ? t.first_row + i : 0) * a.inputs;
    for (int j = 0; j < 32; ++j) {
      float v = there && k * 32 + j < a.inputs ? row[k * 32 + j] : 0.0f;
      inputs[j * TILE + i] = v;
      if (F::OFFSET != 0) sum = sum + v;
      if (F::OFFSET == 2 && j % 16 == 15) {
        sums[j / 16 * TILE + i] = sum;
        sum = 0.0f;
      }
    }
    if (F::OFFSET == 1) sums[i] = sum;
  }
}
// A block of 32 inputs for 4 outputs and 8 rows of a thread.
template <class F> FN void tile_block(TG const float* weights, TG const float* inputs, TG const float* scales,
                                      TG const float* sums, int o, int r, LOCAL float* total) {
  UNROLL for (int h = 0; h < (F::SCALES == 2 ? 2 : 1); ++h) {
    float dot[32];
    UNROLL for (int i = 0; i < 32; ++i) dot[i] = F::SCALES != 0 ? 0.0f : total[i];
    UNROLL_4 for (int j = h * 16; j < (F::SCALES == 2 ? h * 16 + 16 : 32); ++j)   // all of them are four times the code
      UNROLL for (int i = 0; i < 32; ++i) dot[i] = fma(weights[j * TILE + o + i % 4], inputs[j * TILE + r + i / 4], dot[i]);
    UNROLL for (int i = 0; i < 32; ++i) total[i] = F::SCALES != 0 ? fma(scales[h * TILE + o + i % 4], dot[i], total[i]) : dot[i];
    if (F::OFFSET == 2)
      UNROLL for (int i = 0; i < 32; ++i) total[i] = fma(scales[(2 + h) * TILE + o + i % 4], sums[h * TILE + r + i / 4], total[i]);
  }
  if (F::OFFSET == 1)
    UNROLL for (int i = 0; i < 32; ++i) total[i] = fma(scales[2 * TILE + o + i % 4], sums[r + i / 4], total[i]);
}
template <class F> FN void many(DEV const u8* w, DEV const float* x, DEV const float* bias, DEV float* y, ProductArgs a,
                                TileArgs t, int me, TG float* weights, TG float* inputs, TG float* scales, TG float* sums) {
  int o = me % 16 * 4, r = me / 16 * 8, blocks = (a.inputs + 31) / 32;
  float sum[32], total[32];
  UNROLL for (int i = 0; i < 32; ++i) sum[i] = 0.0f;
  for (int piece = 0; piece < PIECES; ++piece) {
    UNROLL for (int i = 0; i < 32; ++i) total[i] = 0.0f;
    int to = piece_start(blocks, piece + 1);
    for (int k = piece_start(blocks, piece); k < to; ++k) {
      load_block<F>(w, x, a, t, k, me, weights, inputs, scales, sums);
      BARRIER();
      tile_block<F>(weights, inputs, scales, sums, o, r, total);
      BARRIER();
    }
    UNROLL for (int i = 0; i < 32; ++i) sum[i] = sum[i] + total[i];
  }
  // Through shared memory, half of the tile's rows in each array: neighbours are written together, by a loop that is a tenth of
  // the code that 32 writes from registers are.
  TG float* half_tile = r < TILE / 2 ? weights : inputs;
  UNROLL for (int i = 0; i < 32; ++i) half_tile[(r % 32 + i / 4) * TILE + o + i % 4] = sum[i];
  BARRIER();
  UNROLL_1 for (int i = me; i < TILE * TILE; i += 128) {
    int row = t.first_row + i / TILE, output = t.first_output + i % TILE;
    TG float* from = i < TILE * TILE / 2 ? weights : inputs;
    if (row < t.rows && output < a.outputs)
      write(y + (size_t)row * a.y_row, bias, a, output, from[i % (TILE * TILE / 2)]);
  }
}

// Each item of a row by a matrix of its own: heads by number, experts by choice.
struct EachArgs {
  int first_row, inputs, outputs, items;
  int x_from, y_from;                 // batch row of the first row of x and y
  int x_row, x_item, y_row, y_item;   // distances in numbers
  int has_bias, chosen, scaled;       // `chosen`: the matrix stands in `pick`; `scaled`: inputs are multiplied by `strength`
};
// grid: panels of a matrix, items, rows from `first_row` on.
template <class F> FN void each(DEV const u8* w, DEV const float* x, DEV const float* bias, DEV const int* pick,
                                DEV const float* strength, DEV float* y, EachArgs a, int panel, int item, int row, int me, TG float* part) {
  int at = row * a.items + item, matrix = a.chosen ? pick[at] : item;
  int panels = (a.outputs + 31) / 32, whole = (a.inputs + F::INPUTS - 1) / F::INPUTS;
  ProductArgs p = {0, a.inputs, a.outputs, a.has_bias, 0, 0, a.outputs, 1.0f};
  few<F>(w + (size_t)matrix * panels * whole * F::BYTES * LANES, x + (size_t)(row - a.x_from) * a.x_row + item * a.x_item,
         bias + (a.has_bias ? (size_t)matrix * a.outputs : 0), y + (size_t)(row - a.y_from) * a.y_row + item * a.y_item, p, panel, 1,
         a.scaled ? strength[at] : 1.0f, me, part);
}

// Rows of a table. grid: blocks of 32 numbers / 64, rows; 64 threads, each with one block.
struct LookupArgs { int kind, width, adds, by, offset; float scale; };   // by: 0 token, 1 position, 2 segment
template <class F> FN void lookup(DEV const int* step, DEV const u8* table, DEV float* out, LookupArgs a, int k, int i) {
  if (i >= step[a.kind] || k * 32 >= a.width) return;
  int row = batch_row(step, a.kind, i), number = a.by == 0 ? step_list(step, STEP_NUMBER_OF)[row] : 0;
  DEV float* to = out + (size_t)i * a.width + k * 32;
  int n = a.width - k * 32 < 32 ? a.width - k * 32 : 32;
  if (number > 0) {
    DEV const int* from = step_list(step, STEP_NUMBERS) + (size_t)(number - 1) * a.width + k * 32;
    for (int j = 0; j < n; ++j) to[j] = f32_of((u32)from[j]);
    return;
  }
  int index = a.by == 0 ? step_list(step, STEP_TOKENS)[row] : a.by == 1 ? step_list(step, STEP_POSITIONS)[3 * row] + a.offset
                                                                        : step_list(step, STEP_SEGMENTS)[row];
  int whole = (a.width + F::INPUTS - 1) / F::INPUTS;
  Block32 b;
  F::take(table + (size_t)(index / 32) * whole * F::BYTES * LANES, k, index % 32, b);
  UNROLL for (int j = 0; j < 32; ++j) {   // unrolled: codes are registers, which cannot be indexed
    if (j >= n) continue;
    float v = b.code[j];
    if (F::SCALES != 0) v = b.scale[F::SCALES == 2 ? j / 16 : 0] * v;
    if (F::OFFSET != 0) v = v + b.offset[F::OFFSET == 2 ? j / 16 : 0];
    to[j] = a.adds ? to[j] + v : v * a.scale;
  }
}

#define PRODUCT_IN BUF(0, const int, step), BUF(1, const u8, w), BUF(2, const float, x), BUF(3, const float, bias), BUF(4, float, y), ARGS(5, ProductArgs, a)
#define EACH_IN BUF(0, const int, step), BUF(1, const u8, w), BUF(2, const float, x), BUF(3, const float, bias), BUF(4, const int, pick), BUF(5, const float, strength), BUF(6, float, y), ARGS(7, EachArgs, a)
// few: grid panels, rows / 8. many: grid outputs / 64, rows / 64.
#define PRODUCTS(name) \
KERNEL(256, 2) product_few_##name(PRODUCT_IN) { \
  SHARED float part[PIECES * FEW_ROWS * 32]; \
  int first = (int)BLOCK.y * FEW_ROWS, rows = step[a.kind] - first; \
  if (rows <= 0) return; \
  few<fmt_##name>(w, x + (size_t)first * a.inputs, bias, y + (size_t)first * a.y_row, a, (int)BLOCK.x, rows < FEW_ROWS ? rows : FEW_ROWS, 1.0f, (int)THREAD, part); \
} \
KERNEL(128, 2) product_many_##name(PRODUCT_IN) { \
  SHARED float weights[32 * TILE]; SHARED float inputs[32 * TILE]; SHARED float scales[4 * TILE]; SHARED float sums[2 * TILE]; \
  TileArgs t = {(int)BLOCK.x * TILE, (int)BLOCK.y * TILE, step[a.kind]}; \
  if (t.first_row >= t.rows) return; \
  many<fmt_##name>(w, x, bias, y, a, t, (int)THREAD, weights, inputs, scales, sums); \
} \
KERNEL(256, 2) product_each_##name(EACH_IN) { \
  SHARED float part[PIECES * FEW_ROWS * 32]; \
  int row = a.first_row + (int)BLOCK.z; \
  if (row >= step[KIND_ALL]) return; \
  if (a.chosen && pick[row * a.items + (int)BLOCK.y] < 0) return; \
  each<fmt_##name>(w, x, bias, pick, strength, y, a, (int)BLOCK.x, (int)BLOCK.y, row, (int)THREAD, part); \
}
#define LOOKUPS(name) \
KERNEL(64, 8) lookup_##name(BUF(0, const int, step), BUF(1, const u8, w), BUF(2, float, y), ARGS(3, LookupArgs, a)) { \
  lookup<fmt_##name>(step, w, y, a, (int)(BLOCK.x * 64 + THREAD), (int)BLOCK.y); \
}
