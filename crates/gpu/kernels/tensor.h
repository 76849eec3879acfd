// Products on tensor cores: for NVIDIA devices, every format of fragments.h, any number of rows.
//
// The law: pairs of blocks of 32 inputs are cut into 8 pieces by their number alone. A piece starts at 0 and adds block after
// block: `dot` is two mma of 16 inputs from 0, total = fma(scale, dot, total), and for formats with minimums total =
// fma(offset, sum of the inputs, total). Where each 16 inputs have a scale, each mma is a dot of its own; formats without
// scales let mma add to `total` itself. Pieces are added in order, and multiplied by the inverse of the row's factor.
// `few` gives the pieces to warps, `many` runs them in turn: the order is the same, and so are the bits. Rows are columns
// of mma, which do not see one another: one row is computed as if there were eight.
#pragma once
#include "product.h"
#include "fragments.h"
#include "halves.h"

// Rows from `first_row` on, at most `rows`: those that are there as 16-bit numbers.
struct TensorArgs { int first_row, rows; ProductArgs product; };
CONST int TENSOR_OUTPUTS = 16, TENSOR_ROWS = 8;

// Rows of halves.h, from the first of them on; an item is a row here.
struct HalfRows { DEV const u16* x; DEV const float* sums; DEV const float* undo; int rows, blocks; };
FN HalfRows rows_from(HalfRows in, int first) {
  HalfRows out = {in.x + (size_t)first * in.blocks * 32, in.sums + (size_t)first * in.blocks, in.undo + first, in.rows - first, in.blocks};
  return out;
}
template <class L> FN DEV const u8* panel_at(DEV const u8* w, ProductArgs a, size_t panel) {
  return w + panel * ((a.inputs + L::INPUTS - 1) / L::INPUTS) * L::BYTES * LANES;
}
template <class L> FN void mma(float (&d)[4], LOCAL const Fragment* f, int i, u32 b0, u32 b1) {
  if (L::BF16 != 0) mma_bf16(d, f[0].code[i], f[1].code[i], f[0].code[i + 1], f[1].code[i + 1], b0, b1);
  else mma_f16(d, f[0].code[i], f[1].code[i], f[0].code[i + 1], f[1].code[i + 1], b0, b1);
}
// A block of 32 inputs of 16 outputs and 8 rows. A lane's numbers: outputs g and g + 8, each for rows 2t and 2t + 1, whose
// sums of inputs `s` are.
template <class L> FN void tensor_block(LOCAL const Fragment* f, uint4 b, float s0, float s1, float (&total)[4]) {
  if (L::SCALES == 0) {
    mma<L>(total, f, 0, b.x, b.y);
    mma<L>(total, f, 2, b.z, b.w);
    return;
  }
  float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f}, second[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  mma<L>(dot, f, 0, b.x, b.y);
  if (L::SCALES == 2) mma<L>(second, f, 2, b.z, b.w);
  else mma<L>(dot, f, 2, b.z, b.w);
  UNROLL for (int i = 0; i < 4; ++i) {
    total[i] = fma(f[i / 2].scale[0], dot[i], total[i]);
    if (L::SCALES == 2) total[i] = fma(f[i / 2].scale[1], second[i], total[i]);
    if (L::OFFSET != 0) total[i] = fma(f[i / 2].offset, i % 2 ? s1 : s0, total[i]);
  }
}

// Up to 8 rows times 16 outputs: a warp has a piece.
template <class L> FN void tensor_few(DEV const u8* w, HalfRows in, DEV const float* bias, DEV float* y, ProductArgs a,
                                      int tile, int me, TG float* part) {
  int lane = me % 32, piece = me / 32, g = lane / 4, t = lane % 4, pairs = (in.blocks + 1) / 2;
  DEV const u8* panel = panel_at<L>(w, a, (size_t)(tile / 2));
  int o = tile % 2 * TENSOR_OUTPUTS + g, to = piece_start(pairs, piece + 1);
  float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int pair = piece_start(pairs, piece); pair < to; ++pair) {
    UNROLL for (int h = 0; h < 2; ++h) {
      int k = 2 * pair + h;
      if (L::INPUTS == 32 && k >= in.blocks) continue;
      Fragment f[2];
      L::fragment(panel, pair, h, o, t, f[0]);
      L::fragment(panel, pair, h, o + 8, t, f[1]);
      uint4 b = {0, 0, 0, 0};
      if (g < in.rows) b = load16((DEV const u8*)(in.x + ((size_t)g * in.blocks + k) * 32 + 8 * t));
      float s0 = 0.0f, s1 = 0.0f;
      if (L::OFFSET != 0 && 2 * t < in.rows) s0 = in.sums[(size_t)(2 * t) * in.blocks + k];
      if (L::OFFSET != 0 && 2 * t + 1 < in.rows) s1 = in.sums[(size_t)(2 * t + 1) * in.blocks + k];
      tensor_block<L>(f, b, s0, s1, total);
    }
  }
  UNROLL for (int i = 0; i < 4; ++i) part[(piece * TENSOR_ROWS + 2 * t + i % 2) * TENSOR_OUTPUTS + g + i / 2 * 8] = total[i];
  BARRIER();
  int row = me / TENSOR_OUTPUTS, output = tile * TENSOR_OUTPUTS + me % TENSOR_OUTPUTS;
  if (row >= TENSOR_ROWS || row >= in.rows || output >= a.outputs) return;
  float sum = 0.0f;
  for (int p = 0; p < PIECES; ++p) sum = sum + part[(p * TENSOR_ROWS + row) * TENSOR_OUTPUTS + me % TENSOR_OUTPUTS];
  write(y + (size_t)row * a.y_row, bias, a, output, sum * in.undo[row]);
}

// 64 rows times 64 outputs: a warp has 16 outputs and all pieces; 4 blocks of inputs at a time lie in shared memory. Warps of
// 32 outputs, which read it half as often, took all 255 registers; two blocks of 8 warps need more than there are.
CONST int STAGE_ROWS = 64, STAGE_BLOCKS = 4, STAGE_THREADS = 128;
FN void stage_inputs(HalfRows in, int first, int end, int me, TG u16* inputs, TG float* sums) {
  uint4 none = {0, 0, 0, 0};
  UNROLL for (int n = 0; n < STAGE_BLOCKS * STAGE_ROWS * 4 / STAGE_THREADS; ++n) {
    int i = me + n * STAGE_THREADS, t = i % 4, row = i / 4 % STAGE_ROWS, k = first + i / 4 / STAGE_ROWS;
    bool there = row < in.rows && k < end;
    ((TG uint4*)inputs)[i] = there ? load16((DEV const u8*)(in.x + ((size_t)row * in.blocks + k) * 32 + 8 * t)) : none;
  }
  UNROLL for (int n = 0; n < STAGE_BLOCKS * STAGE_ROWS / STAGE_THREADS; ++n) {
    int i = me + n * STAGE_THREADS, row = i % STAGE_ROWS, k = first + i / STAGE_ROWS;
    sums[i] = row < in.rows && k < end ? in.sums[(size_t)row * in.blocks + k] : 0.0f;
  }
}
// A block of inputs that is number `b` in shared memory.
template <class L> FN void tensor_rows(LOCAL const Fragment* f, TG const u16* inputs, TG const float* sums, int b, int g, int t,
                                       float (&total)[8][4]) {
  UNROLL for (int n = 0; n < 8; ++n) {
    uint4 v = ((TG const uint4*)inputs)[(b * STAGE_ROWS + 8 * n + g) * 4 + t];
    TG const float* s = sums + b * STAGE_ROWS + 8 * n + 2 * t;
    tensor_block<L>(f, v, L::OFFSET != 0 ? s[0] : 0.0f, L::OFFSET != 0 ? s[1] : 0.0f, total[n]);
  }
}
// Pairs of blocks `from` to `to`, which are a piece.
template <class L> FN void tensor_piece(DEV const u8* panel, int o, HalfRows in, int from, int to, int me,
                                        TG u16* inputs, TG float* sums, float (&total)[8][4]) {
  int g = me % 32 / 4, t = me % 4, end = 2 * to < in.blocks ? 2 * to : in.blocks;
  for (int first = from; first < to; first += STAGE_BLOCKS / 2) {
    stage_inputs(in, 2 * first, end, me, inputs, sums);
    BARRIER();
    // Rolled: blocks of inputs side by side would take twice the registers for weights.
    UNROLL_1 for (int b = 0; b < STAGE_BLOCKS; ++b) {
      int k = 2 * first + b;
      if (k >= end) break;
      Fragment f[2];
      L::fragment(panel, k / 2, k % 2, o, t, f[0]);
      L::fragment(panel, k / 2, k % 2, o + 8, t, f[1]);
      tensor_rows<L>(f, inputs, sums, b, g, t, total);
    }
    BARRIER();
  }
}
// `in` and `y` begin at the first of the rows.
template <class L> FN void tensor_many(DEV const u8* w, HalfRows in, DEV const float* bias, DEV float* y, ProductArgs a,
                                       int tile, int me, TG u16* inputs, TG float* sums) {
  int g = me % 32 / 4, t = me % 4, pairs = (in.blocks + 1) / 2;
  // Warps beyond the last output help to fill shared memory, and write nothing.
  int panel = tile * TENSOR_OUTPUTS < a.outputs ? tile / 2 : 0;
  DEV const u8* own = panel_at<L>(w, a, (size_t)panel);
  float sum[8][4], total[8][4];
  UNROLL for (int n = 0; n < 32; ++n) sum[n / 4][n % 4] = 0.0f;
  for (int piece = 0; piece < PIECES; ++piece) {
    UNROLL for (int n = 0; n < 32; ++n) total[n / 4][n % 4] = 0.0f;
    int from = piece_start(pairs, piece), to = piece_start(pairs, piece + 1);
    tensor_piece<L>(own, tile % 2 * TENSOR_OUTPUTS + g, in, from, to, me, inputs, sums, total);
    UNROLL for (int n = 0; n < 32; ++n) sum[n / 4][n % 4] = sum[n / 4][n % 4] + total[n / 4][n % 4];
  }
  UNROLL for (int n = 0; n < 32; ++n) {
    int i = n % 4, row = n / 4 * 8 + 2 * t + i % 2, o = tile * TENSOR_OUTPUTS + g + i / 2 * 8;
    if (row < in.rows && o < a.outputs) write(y + (size_t)row * a.y_row, bias, a, o, sum[n / 4][i] * in.undo[row]);
  }
}

// An item of a row by a matrix of its own.
template <class L> FN void tensor_each(DEV const u8* w, HalfRows in, DEV const float* bias, DEV const int* pick, DEV float* y,
                                       EachArgs a, int tile, int item, int row, int me, TG float* part) {
  int matrix = a.chosen ? pick[row * a.items + item] : item, panels = (a.outputs + LANES - 1) / LANES;
  ProductArgs p = {0, a.inputs, a.outputs, a.has_bias, 0, 0, a.outputs, 1.0f};
  tensor_few<L>(panel_at<L>(w, p, (size_t)matrix * panels), in, bias + (a.has_bias ? (size_t)matrix * a.outputs : 0),
                y + (size_t)(row - a.y_from) * a.y_row + (size_t)item * a.y_item, p, tile, me, part);
}

#define HALVES_IN BUF(0, const int, step), BUF(1, const u8, w), BUF(2, const u16, x), BUF(3, const float, sums), BUF(4, const float, undo), BUF(5, const float, bias)
#define HALF_ROWS(count, inputs) HalfRows in = {x, sums, undo, count, (inputs + 31) / 32}
#define TENSOR_ROWS_OF(first) \
  HALF_ROWS(step[a.product.kind] - a.first_row < a.rows ? step[a.product.kind] - a.first_row : a.rows, a.product.inputs); \
  if ((first) >= in.rows) return; \
  DEV float* to = y + (size_t)(a.first_row + (first)) * a.product.y_row
// few: grid outputs / 16, rows / 8. many: grid outputs / 64, rows / 64. each: grid outputs / 16, items, rows.
#define TENSOR_PRODUCTS(name) \
KERNEL(256, 3) tensor_few_##name(HALVES_IN, BUF(6, float, y), ARGS(7, TensorArgs, a)) { \
  SHARED float part[PIECES * TENSOR_ROWS * TENSOR_OUTPUTS]; \
  int first = (int)BLOCK.y * TENSOR_ROWS; \
  TENSOR_ROWS_OF(first); \
  tensor_few<lane_##name>(w, rows_from(in, first), bias, to, a.product, (int)BLOCK.x, (int)THREAD, part); \
} \
KERNEL(128, 2) tensor_many_##name(HALVES_IN, BUF(6, float, y), ARGS(7, TensorArgs, a)) { \
  SHARED u16 inputs[STAGE_BLOCKS * STAGE_ROWS * 32]; SHARED float staged[STAGE_BLOCKS * STAGE_ROWS]; \
  int first = (int)BLOCK.y * STAGE_ROWS; \
  TENSOR_ROWS_OF(first); \
  tensor_many<lane_##name>(w, rows_from(in, first), bias, to, a.product, (int)BLOCK.x * (STAGE_THREADS / 32) + (int)THREAD / 32, (int)THREAD, inputs, staged); \
} \
KERNEL(256, 3) tensor_each_##name(HALVES_IN, BUF(6, const int, pick), BUF(7, float, y), ARGS(8, EachArgs, a)) { \
  SHARED float part[PIECES * TENSOR_ROWS * TENSOR_OUTPUTS]; \
  int row = a.first_row + (int)BLOCK.z, item = (int)BLOCK.y; \
  if (row >= step[KIND_ALL]) return; \
  HALF_ROWS(((int)BLOCK.z + 1) * a.items, a.inputs); \
  in = rows_from(in, (int)BLOCK.z * a.items + item); \
  in.rows = 1; \
  tensor_each<lane_##name>(w, in, bias, pick, y, a, (int)BLOCK.x, item, row, (int)THREAD, part); \
}
TENSOR_PRODUCTS(f16)
TENSOR_PRODUCTS(bf16)
TENSOR_PRODUCTS(f8_e4m3)
TENSOR_PRODUCTS(f8_e5m2)
TENSOR_PRODUCTS(q8_0)
TENSOR_PRODUCTS(q4_0)
TENSOR_PRODUCTS(q4_1)
TENSOR_PRODUCTS(q5_0)
TENSOR_PRODUCTS(q5_1)
TENSOR_PRODUCTS(mxfp4)
TENSOR_PRODUCTS(nvfp4)
TENSOR_PRODUCTS(iq4_nl)
TENSOR_PRODUCTS(iq4_xs)
TENSOR_PRODUCTS(q3_k)
TENSOR_PRODUCTS(q4_k)
TENSOR_PRODUCTS(q5_k)
TENSOR_PRODUCTS(q6_k)
