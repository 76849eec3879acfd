// Rotary embedding in place, in pairs (i, i + half) of each head.   grid: heads * half / 128, rows; 128 threads
#pragma once
#include "step.h"
#include "math.h"
// `table`: place of the angles per position in the constants, of those for long sequences behind them, and of each pair's axis.
struct RopeArgs { int kind, width, heads, start, half_, table, original; float magnitude; };
KERNEL(128, 8) rotate(BUF(0, const int, step), BUF(1, const float, constants), BUF(2, float, x), ARGS(3, RopeArgs, a)) {
  int i = (int)BLOCK.y, at = (int)(BLOCK.x * 128 + THREAD);
  if (i >= step[a.kind] || at >= a.heads * a.half_) return;
  int row = batch_row(step, a.kind, i), head = at / a.half_, pair = at % a.half_;
  DEV const int* position = step_list(step, STEP_POSITIONS) + 3 * row;
  // A prompt beyond the original context turns by the long angles from its first token on.
  int prompt = seq_of_row(step, row)[SEQ_PROMPT], reach = prompt > position[0] + 1 ? prompt : position[0] + 1;
  float freq = constants[a.table + (reach > a.original ? a.half_ : 0) + pair];
  SinCos s = sincos_((float)position[(int)constants[a.table + 2 * a.half_ + pair]] * freq);
  float sin = s.sin * a.magnitude, cos = s.cos * a.magnitude;
  DEV float* first = x + (size_t)i * a.width + head * (a.width / a.heads) + a.start + pair;
  float u = first[0], v = first[a.half_];
  first[0] = fma(u, cos, 0.0f - v * sin);
  first[a.half_] = fma(v, cos, u * sin);
}
