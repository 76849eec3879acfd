// Activations as tensor cores take them: 16-bit numbers, in the order of fragments, and sums of 32.
//
// float16 keeps 11 bits of numbers that lie close enough to one another: a row is multiplied by the power of two that brings
// its largest number to 2^14 .. 2^15, so that only numbers 2^28 times smaller lose bits; the product is multiplied by the
// inverse. bfloat16 has float32's range and needs no factor. All of it depends on the row alone.
#pragma once
#include "step.h"
#include "panel.h"
#include "cache.h"

// Items of a row have inputs of their own (heads), or share them (experts); products of whole matrices have one item.
struct HalfArgs { int kind, first_row, inputs, items, x_from, x_row, x_item, scaled, bf16; };

// Where input `i` of a block of 32 stands: lane t of four has inputs 4t .. 4t + 3, then 16 + 4t .. 16 + 4t + 3, so that the
// first mma of a block takes its first 16 inputs, and a lane's share lies in one word of every format (fragments.h). The
// second and third of four change places.
FN int half_place(int i) { return i % 16 / 4 * 8 + i / 16 * 4 + i % 2 * 2 + i % 4 / 2; }

// A row's sums of blocks: as float32, then as pairs of float16 that together hold the 32nd of a sum: of each two blocks what
// float16 keeps of both, then what it loses. A sum stays below 2^20.
FN int sums_row(int blocks) { return blocks + (blocks + 1) / 2 * 2; }
FN void put_sum(DEV float* row, int blocks, int k, float sum) {
  row[k] = sum;
  DEV u16* parts = (DEV u16*)(row + blocks) + k / 2 * 4 + k % 2;
  parts[0] = f2h(sum * 0.03125f);
  parts[2] = f2h(sum * 0.03125f - h2f(parts[0]));
}

// Exponent of the row's factor, which lies between 2^-114 and 2^126; a row without a finite number but 0 gets some factor.
FN int half_exponent(float most) {
  int e = (int)(bits_of(most) >> 23) - 127 - 14;
  return e < -126 ? -126 : e;
}
// grid: items, rows; 128 threads. The rows, their sums and inverse factors are numbered from `first_row` on, item by item.
KERNEL(128, 8) half_rows(BUF(0, const int, step), BUF(1, const float, x), BUF(2, const float, strength), BUF(3, u16, halves), BUF(4, float, sums), BUF(5, float, undo), ARGS(6, HalfArgs, a)) {
  SHARED float warps[4];
  int row = a.first_row + (int)BLOCK.y, item = (int)BLOCK.x, me = (int)THREAD, lane = me % 32;
  if (row >= step[a.kind]) return;
  DEV const float* from = x + (size_t)(row - a.x_from) * a.x_row + (size_t)item * a.x_item;
  float by = a.scaled ? strength[(size_t)row * a.items + item] : 1.0f, most = 0.0f;
  for (int k = me; k < a.inputs; k += 128) most = max_(most, abs_(from[k] * by));
  for (int m = 1; m < 32; m *= 2) most = max_(most, lane_xor(most, m));
  if (lane == 0) warps[me / 32] = most;
  BARRIER();
  int e = a.bf16 ? 0 : half_exponent(max_(max_(warps[0], warps[1]), max_(warps[2], warps[3])));
  float factor = f32_of((u32)(127 - e) << 23);
  size_t number = (size_t)BLOCK.y * a.items + item;
  int blocks = (a.inputs + 31) / 32;
  for (int k = me / 32; k < blocks; k += 4) {
    float v = k * 32 + lane < a.inputs ? from[k * 32 + lane] * by * factor : 0.0f;
    u16 h = a.bf16 ? bf16_of(v) : f2h(v);
    float sum = a.bf16 ? f32_of((u32)h << 16) : h2f(h);
    for (int m = 1; m < 32; m *= 2) sum = sum + lane_xor(sum, m);
    halves[(number * blocks + k) * 32 + half_place(lane)] = h;
    if (lane == 0) put_sum(sums + number * sums_row(blocks), blocks, k, sum);
  }
  if (me == 0) undo[number] = f32_of((u32)(127 + e) << 23);
}
