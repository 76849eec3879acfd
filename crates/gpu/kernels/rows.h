// Operators over single rows: each number by itself, in place or into another slot.   grid: width / 256, rows; 256 threads
#pragma once
#include "step.h"
#include "math.h"
struct RowArgs { int kind, width; float factor; };
#define ROW_COLUMN \
  int row = (int)BLOCK.y, col = (int)(BLOCK.x * 256 + THREAD); \
  if (row >= step[a.kind] || col >= a.width) return; \
  size_t at = (size_t)row * a.width + col

// Columns `first` to `first + count` only.
struct AddArgs { int kind, width, first, count; float factor; };
KERNEL(256, 8) row_add(BUF(0, const int, step), BUF(1, const float, x), BUF(2, float, into), ARGS(3, AddArgs, a)) {
  ROW_COLUMN;
  if (col < a.first || col >= a.first + a.count) return;
  into[at] = fma(a.factor, x[at], into[at]);
}
// The same in rows whose sequence uses an adapter.
KERNEL(256, 8) row_add_adapted(BUF(0, const int, step), BUF(1, const float, x), BUF(2, float, into), ARGS(3, RowArgs, a)) {
  ROW_COLUMN;
  if (seq_of_row(step, batch_row(step, a.kind, row))[SEQ_ADAPTED]) into[at] = fma(a.factor, x[at], into[at]);
}
KERNEL(256, 8) row_copy(BUF(0, const int, step), BUF(1, const float, x), BUF(2, float, out), ARGS(3, RowArgs, a)) {
  ROW_COLUMN;
  out[at] = x[at];
}
// Numbers that the batch has beside each row.
KERNEL(256, 8) row_feature(BUF(0, const int, step), BUF(1, float, out), ARGS(2, RowArgs, a)) {
  ROW_COLUMN;
  out[at] = f32_of((u32)step_list(step, STEP_FEATURES)[at]);
}
// Rows of a slot of kind `from` that go into one of the kind of `a`.
struct PickArgs { int kind, width, from; };
KERNEL(256, 8) row_pick(BUF(0, const int, step), BUF(1, const float, x), BUF(2, float, out), ARGS(3, PickArgs, a)) {
  ROW_COLUMN;
  int picked = step_list(step, a.from == KIND_ALL ? STEP_ROW_OF_SELECTED : STEP_PICK_OF_LOGITS)[row];
  out[at] = x[(size_t)picked * a.width + col];
}
struct ConcatArgs { int kind, width, first; };
KERNEL(256, 8) row_concat(BUF(0, const int, step), BUF(1, const float, x), BUF(2, const float, y), BUF(3, float, out), ARGS(4, ConcatArgs, a)) {
  ROW_COLUMN;
  int second = a.width - a.first;
  out[at] = col < a.first ? x[(size_t)row * a.first + col] : y[(size_t)row * second + col - a.first];
}
// x *= sigmoid(gate); `share` numbers of x have one gate.
struct GateArgs { int kind, width, share; };
KERNEL(256, 8) row_gate(BUF(0, const int, step), BUF(1, const float, gate), BUF(2, float, x), ARGS(3, GateArgs, a)) {
  ROW_COLUMN;
  x[at] = x[at] * sigmoid_(gate[at / a.share]);
}
// A function of one number; codes as in crates/gpu/src/ops/rows.rs.
enum MapCode { MAP_SCALE, MAP_SOFTCAP, MAP_CLIP, MAP_TEMPERATURE };
struct MapArgs { int kind, width, code; float p0, p1, p2; };
KERNEL(256, 8) row_map(BUF(0, const int, step), BUF(1, float, x), ARGS(2, MapArgs, a)) {
  ROW_COLUMN;
  float v = x[at];
  if (a.code == MAP_SCALE) v = v * a.p0;
  if (a.code == MAP_SOFTCAP) v = a.p0 * tanh_(v / a.p0);
  if (a.code == MAP_CLIP && v == v) v = max_(a.p0, min_(v, a.p1));
  if (a.code == MAP_TEMPERATURE) {
    float position = (float)step_list(step, STEP_POSITIONS)[3 * batch_row(step, a.kind, row)];
    v = v * fma(a.p0, log1p_(floor((position + a.p2) / a.p1)), 1.0f);
  }
  x[at] = v;
}
// Columns `first` to `first + width` of rows of `stride` numbers, times the scale that the row's sequence uses adapter `lora` with.
struct AdaptArgs { int kind, width, first, stride, lora; };
KERNEL(256, 8) row_adapt(BUF(0, const int, step), BUF(1, float, x), ARGS(2, AdaptArgs, a)) {
  ROW_COLUMN;
  DEV const int* seq = seq_of_row(step, batch_row(step, a.kind, row));
  float scale = a.lora < seq[SEQ_LORA_LEN] ? f32_of((u32)step[seq[SEQ_LORA] + a.lora]) : 0.0f;
  at = (size_t)row * a.stride + a.first + col;
  // Not multiplied by 0: an adapter that is not used shall not matter even where it overflows.
  x[at] = scale == 0.0f ? 0.0f : x[at] * scale;
}

// Nonlinearities; codes as in crates/gpu/src/ops/rows.rs.
enum ActCode { ACT_SILU, ACT_GELU, ACT_GELU_TANH, ACT_GELU_QUICK, ACT_RELU, ACT_RELU_SQUARED, ACT_XIELU, ACT_SWIGLU_CLAMPED };
struct Activation { int code; float p0, p1, p2; };
FN float act_of(Activation f, float g, float u, bool gated) {
  if (f.code == ACT_SWIGLU_CLAMPED) {
    float x = g > f.p1 ? f.p1 : g, up = gated ? u : 0.0f;
    if (up == up) up = max_(0.0f - f.p1, min_(up, f.p1));
    return x * sigmoid_(f.p0 * x) * (up + 1.0f);
  }
  float v = g;
  if (f.code == ACT_SILU) v = silu_(g);
  if (f.code == ACT_GELU) v = 0.5f * g * (1.0f + erf_(g * 0.707106781f));
  if (f.code == ACT_GELU_TANH) v = 0.5f * g * (1.0f + tanh_(0.797884561f * fma(0.044715f * g * g, g, g)));
  if (f.code == ACT_GELU_QUICK) v = g * sigmoid_(1.702f * g);
  if (f.code == ACT_RELU || f.code == ACT_RELU_SQUARED) v = g < 0.0f ? 0.0f : g;
  if (f.code == ACT_RELU_SQUARED) v = v * v;
  if (f.code == ACT_XIELU) {
    float p = g < 0.0f ? 0.0f : g, n = g < 0.0f ? g : 0.0f;
    v = fma(f.p0 * p, p, fma(f.p1, expm1_(n) - n, f.p2 * g));
  }
  return gated ? v * u : v;
}
// out = act(gate) * up in columns `first` to `first + count`. Rows from `first_row` on, each of `width` numbers; experts have
// several such rows a row.
struct ActArgs { int kind, width, first_row, first, count, gated; Activation act; };
KERNEL(256, 8) row_activate(BUF(0, const int, step), BUF(1, const float, gate), BUF(2, const float, up), BUF(3, float, out), ARGS(4, ActArgs, a)) {
  int row = (int)BLOCK.y, col = (int)(BLOCK.x * 256 + THREAD);
  if (a.first_row + row >= step[a.kind] || col < a.first || col >= a.first + a.count) return;
  size_t at = (size_t)row * a.width + col;
  out[at] = act_of(a.act, gate[at], a.gated ? up[at] : 0.0f, a.gated != 0);
}
