// Norms: sums by lanes that step through the numbers, then by a tree that depends on the width alone.
#pragma once
#include "step.h"
#include "math.h"
struct NormArgs { int kind, width, pieces, layer, has_weight, has_bias, own_weight, gate; float eps; };
enum GateOrder { GATE_NONE, GATE_FIRST, GATE_AFTER };

FN float warp_sum(float v) {
  for (int m = 1; m < 32; m *= 2) v = v + lane_xor(v, m);
  return v;
}
FN float normed(float v, float mean, float scale, DEV const float* weight, DEV const float* bias, NormArgs a, int i) {
  float unit = (v - mean) * scale;
  if (a.has_weight) unit = unit * weight[i];
  return a.has_bias ? unit + bias[i] : unit;
}
// Sum over 256 threads: warps in order.
FN float block_sum(float v, int me, TG float* warps) {
  v = warp_sum(v);
  if (me % 32 == 0) warps[me / 32] = v;
  BARRIER();
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum = sum + warps[i];
  BARRIER();
  return sum;
}
// A row by a block. grid: 1, rows
KERNEL(256, 4) norm_row(BUF(0, const int, step), BUF(1, const float, x), BUF(2, const float, weight), BUF(3, const float, bias), BUF(4, float, out), ARGS(5, NormArgs, a)) {
  SHARED float warps[8];
  int row = (int)BLOCK.y, me = (int)THREAD;
  if (row >= step[a.kind]) return;
  DEV const float* from = x + (size_t)row * a.width;
  float mean = 0.0f, squares = 0.0f;
  if (a.layer) {
    float sum = 0.0f;
    for (int i = me; i < a.width; i += 256) sum = sum + from[i];
    mean = block_sum(sum, me, warps) / (float)a.width;
  }
  for (int i = me; i < a.width; i += 256) squares = fma(from[i] - mean, from[i] - mean, squares);
  float scale = 1.0f / sqrt(block_sum(squares, me, warps) / (float)a.width + a.eps);
  DEV float* to = out + (size_t)row * a.width;
  for (int i = me; i < a.width; i += 256) to[i] = normed(from[i], mean, scale, weight, bias, a, i);
}
// Each of the pieces of a row by a warp, in place; with a SiLU gate before or after. grid: pieces / 4, rows
KERNEL(128, 8) norm_pieces(BUF(0, const int, step), BUF(1, const float, gate), BUF(2, const float, weight), BUF(3, const float, bias), BUF(4, float, x), ARGS(5, NormArgs, a)) {
  int row = (int)BLOCK.y, piece = (int)(BLOCK.x * 4 + THREAD / 32), lane = (int)THREAD % 32;
  if (row >= step[a.kind] || piece >= a.pieces) return;   // the same for all lanes of a warp
  size_t at = ((size_t)row * a.pieces + piece) * a.width;
  int w = a.own_weight ? piece * a.width : 0;
  float mean = 0.0f, squares = 0.0f;
  if (a.gate == GATE_FIRST) for (int i = lane; i < a.width; i += 32) x[at + i] = x[at + i] * silu_(gate[at + i]);
  if (a.layer) {
    float sum = 0.0f;
    for (int i = lane; i < a.width; i += 32) sum = sum + x[at + i];
    mean = warp_sum(sum) / (float)a.width;
  }
  for (int i = lane; i < a.width; i += 32) squares = fma(x[at + i] - mean, x[at + i] - mean, squares);
  float scale = 1.0f / sqrt(warp_sum(squares) / (float)a.width + a.eps);
  for (int i = lane; i < a.width; i += 32) {
    float v = normed(x[at + i], mean, scale, weight, bias, a, w + i);
    x[at + i] = a.gate == GATE_AFTER ? v * silu_(gate[at + i]) : v;
  }
}
