// Recurrent layers, position by position. A thread owns a channel or a column of the state: nothing is summed across threads.
//
// The grid has a block row for each sequence that a step may have; those behind the last one do nothing.
#pragma once
#include "step.h"
#include "math.h"
CONST int MOST_TAPS = 8;
// Numbers of a state in this layer; the convolution's last inputs come first, `at` is where the matrix begins.
struct ConvArgs { int channels, taps, has_bias, state_len; };
// grid: channels / 64, sequences; 64 threads
KERNEL(64, 8) conv(BUF(0, const int, step), BUF(1, const float, weight), BUF(2, const float, bias), BUF(3, float, states), BUF(4, float, x), ARGS(5, ConvArgs, a)) {
  int c = (int)(BLOCK.x * 64 + THREAD), kept = a.taps - 1;
  if ((int)BLOCK.y >= step[STEP_SEQS] || c >= a.channels) return;
  DEV const int* seq = seq_at(step, (int)BLOCK.y);
  DEV float* state = states + (size_t)seq[SEQ_STATE] * a.state_len;   // [taps - 1][channels], oldest first
  float past[MOST_TAPS];
  UNROLL for (int k = 0; k < MOST_TAPS; ++k) past[k] = k < kept ? state[k * a.channels + c] : 0.0f;
  for (int row = seq[SEQ_FIRST_ROW]; row < seq[SEQ_FIRST_ROW] + seq[SEQ_ROWS]; ++row) {
    DEV float* v = x + (size_t)row * a.channels + c;
    float in = v[0], sum = a.has_bias ? bias[c] : 0.0f;
    UNROLL for (int k = 0; k < MOST_TAPS - 1; ++k) if (k < kept) sum = fma(past[k], weight[c * a.taps + k], sum);
    v[0] = silu_(fma(in, weight[c * a.taps + kept], sum));
    UNROLL for (int k = 0; k < MOST_TAPS - 1; ++k) if (k < kept) past[k] = k + 1 < kept ? past[k + 1] : in;
  }
  UNROLL for (int k = 0; k < MOST_TAPS - 1; ++k) if (k < kept) state[k * a.channels + c] = past[k];
}

struct DeltaArgs { int k_heads, v_heads, k_dim, v_dim, tiled, at, state_len; };
// One over the length of a vector; the small number keeps that of zeros from dividing.
FN float inverse_length(DEV const float* x, int n) {
  float squares = 0.0f;
  for (int i = 0; i < n; ++i) squares = fma(x[i], x[i], squares);
  return 1.0f / sqrt(squares + 1e-6f);
}
// State of a head: [k_dim][v_dim].   grid: v_dim / 64, value heads, sequences; 64 threads
KERNEL(64, 8) delta_rule(BUF(0, const int, step), BUF(1, const float, qkv), BUF(2, const float, betas), BUF(3, const float, alphas), BUF(4, const float, decays), BUF(5, const float, dt_bias), BUF(6, float, states), BUF(7, float, out), ARGS(8, DeltaArgs, a)) {
  int j = (int)(BLOCK.x * 64 + THREAD), h = (int)BLOCK.y;
  if ((int)BLOCK.z >= step[STEP_SEQS] || j >= a.v_dim) return;
  DEV const int* seq = seq_at(step, (int)BLOCK.z);
  int keys = a.k_heads * a.k_dim, width = 2 * keys + a.v_heads * a.v_dim, head = a.tiled ? h % a.k_heads : h / (a.v_heads / a.k_heads);
  DEV float* state = states + (size_t)seq[SEQ_STATE] * a.state_len + a.at + (size_t)h * a.k_dim * a.v_dim + j;
  for (int row = seq[SEQ_FIRST_ROW]; row < seq[SEQ_FIRST_ROW] + seq[SEQ_ROWS]; ++row) {
    DEV const float* q = qkv + (size_t)row * width + head * a.k_dim;
    DEV const float* k = q + keys;
    float q_unit = inverse_length(q, a.k_dim) / sqrt((float)a.k_dim), k_unit = inverse_length(k, a.k_dim);
    float beta = sigmoid_(betas[row * a.v_heads + h]);
    float decay = exp_(decays[h] * softplus_(alphas[row * a.v_heads + h] + dt_bias[h]));
    float held = 0.0f, sum = 0.0f;
    for (int i = 0; i < a.k_dim; ++i) {
      float kept = state[i * a.v_dim] * decay;
      state[i * a.v_dim] = kept;
      held = fma(k[i] * k_unit, kept, held);
    }
    float change = (qkv[(size_t)row * width + 2 * keys + h * a.v_dim + j] - held) * beta;
    for (int i = 0; i < a.k_dim; ++i) {
      float now = fma(k[i] * k_unit, change, state[i * a.v_dim]);
      state[i * a.v_dim] = now;
      sum = fma(q[i] * q_unit, now, sum);
    }
    out[((size_t)row * a.v_heads + h) * a.v_dim + j] = sum;
  }
}

struct ScanArgs { int heads, dim, groups, state, at, state_len; float dt_low, dt_high; };
// State of a head: [state][dim].   grid: dim / 64, heads, sequences; 64 threads
KERNEL(64, 8) scan(BUF(0, const int, step), BUF(1, const float, xbc), BUF(2, const float, steps), BUF(3, const float, decays), BUF(4, const float, skips), BUF(5, const float, dt_bias), BUF(6, float, states), BUF(7, float, out), ARGS(8, ScanArgs, a)) {
  int d = (int)(BLOCK.x * 64 + THREAD), h = (int)BLOCK.y;
  if ((int)BLOCK.z >= step[STEP_SEQS] || d >= a.dim) return;
  DEV const int* seq = seq_at(step, (int)BLOCK.z);
  int inner = a.heads * a.dim, width = inner + 2 * a.groups * a.state, group = h / (a.heads / a.groups);
  DEV float* state = states + (size_t)seq[SEQ_STATE] * a.state_len + a.at + (size_t)h * a.dim * a.state + d;
  for (int row = seq[SEQ_FIRST_ROW]; row < seq[SEQ_FIRST_ROW] + seq[SEQ_ROWS]; ++row) {
    DEV const float* x = xbc + (size_t)row * width;
    DEV const float* into = x + inner + group * a.state;
    DEV const float* from = into + a.groups * a.state;
    float dt = softplus_(steps[row * a.heads + h] + dt_bias[h]);
    dt = dt < a.dt_low ? a.dt_low : dt > a.dt_high ? a.dt_high : dt;
    float decay = exp_(decays[h] * dt), in = x[h * a.dim + d], sum = skips[h] * in;
    for (int n = 0; n < a.state; ++n) {
      float now = fma(state[n * a.dim], decay, dt * in * into[n]);
      state[n * a.dim] = now;
      sum = fma(now, from[n], sum);
    }
    out[((size_t)row * a.heads + h) * a.dim + d] = sum;
  }
}
