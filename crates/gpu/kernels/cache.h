// Keys and values as pages keep them: number types, and 32 numbers of a stored row in and out.
#pragma once
#include "dialect.h"
#include "math.h"
#include "step.h"
enum KvCode { KV_F32, KV_F16, KV_BF16, KV_Q8_0, KV_Q4_0, KV_Q4_1, KV_F8 };   // as in crates/gpu/src/kv.rs

FN u16 bf16_of(float v) {
  u32 b = bits_of(v);
  if (v != v) return (u16)(b >> 16 | 64u);
  return (u16)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}
// The nearest e4m3 number, ties to even, cut at 448; NaN stays NaN.
FN u8 e4m3_of(float v) {
  if (v != v) return 0x7f;
  float a = min_(abs_(v), 448.0f);
  int e = (int)(bits_of(a) >> 23) - 127;
  if (e < -6) e = -6;
  // Steps are 2^-9 below 2^-6 and an eighth of the power of two above; rounding up carries into the exponent by itself.
  u32 steps = (u32)rint(a / f32_of((u32)(e - 3 + 127) << 23));
  return (u8)((bits_of(v) >> 31 << 7) | (((u32)(e + 6) << 3) + steps));
}
FN u16 half_cut(float v) {
  if (v != v) return 0x7e00;
  return f2h(max_(-65504.0f, min_(v, 65504.0f)));
}
FN float half_away(float v) {
  float whole = (float)(int)v, rest = v - whole;
  return rest >= 0.5f ? whole + 1.0f : rest <= -0.5f ? whole - 1.0f : whole;
}
FN float inverse(float s) {
  float i = 1.0f / s;
  return abs_(i) < infinity() ? i : 0.0f;
}
FN void put2(DEV u8* to, u16 v) { to[0] = (u8)v; to[1] = (u8)(v >> 8); }
FN u16 get2(DEV const u8* p) { return (u16)(p[0] | p[1] << 8); }

// Blocks of 32 with float16 scales. A block that holds what is not finite has NaN as its scale.
FN void put_block(int type, LOCAL const float* x, DEV u8* to) {
  float most = 0.0f, extreme = x[0], low = x[0], high = x[0];
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    finite = finite && abs_(x[i]) < infinity();
    most = max_(most, abs_(x[i]));
    if (abs_(x[i]) > abs_(extreme)) extreme = x[i];
    low = min_(low, x[i]);
    high = max_(high, x[i]);
  }
  float d = type == KV_Q8_0 ? most / 127.0f : type == KV_Q4_0 ? extreme / -8.0f : (high - low) / 15.0f;
  float per_step = inverse(d);
  put2(to, finite ? half_cut(d) : (u16)0x7e00);
  if (type == KV_Q4_1) put2(to + 2, finite ? half_cut(low) : (u16)0x7e00);
  for (int i = 0; i < 16; ++i) {
    float a = finite ? x[i] : 0.0f, b = finite ? x[i + 16] : 0.0f;
    if (type == KV_Q8_0) {
      to[2 + i] = (u8)(int)half_away(a * per_step);
      to[18 + i] = (u8)(int)half_away(b * per_step);
    } else {
      float zero = type == KV_Q4_0 ? 8.5f : 0.5f, least = type == KV_Q4_0 || !finite ? 0.0f : low;
      int p = (int)fma(a - least, per_step, zero), q = (int)fma(b - least, per_step, zero);
      p = p < 0 ? 0 : p > 15 ? 15 : p;
      q = q < 0 ? 0 : q > 15 ? 15 : q;
      to[(type == KV_Q4_0 ? 2 : 4) + i] = (u8)(p | q << 4);
    }
  }
}
FN int block_bytes(int type) { return type == KV_Q8_0 ? 34 : type == KV_Q4_0 ? 18 : 20; }
// Numbers `first` to `first + 32` of a row of `n`, into their place of a stored row.
FN void put_numbers(int type, DEV const float* x, int first, int n, DEV u8* row) {
  int count = n - first < 32 ? n - first : 32;
  if (type == KV_Q8_0 || type == KV_Q4_0 || type == KV_Q4_1) {
    float v[32];
    for (int i = 0; i < 32; ++i) v[i] = i < count ? x[first + i] : 0.0f;
    put_block(type, v, row + first / 32 * block_bytes(type));
    return;
  }
  for (int i = 0; i < count; ++i) {
    float v = x[first + i];
    if (type == KV_F32) ((DEV float*)row)[first + i] = v;
    if (type == KV_F16) ((DEV u16*)row)[first + i] = half_cut(v);
    if (type == KV_BF16) ((DEV u16*)row)[first + i] = bf16_of(v);
    if (type == KV_F8) row[first + i] = e4m3_of(v);
  }
}
// Numbers `first` to `first + 16` of a stored row of `n`; zeros behind its end. `first` is a multiple of 16.
FN void get_numbers(int type, DEV const u8* row, int first, int n, TG float* to) {
  int count = n - first < 16 ? n - first : 16;
  if (type == KV_Q8_0 || type == KV_Q4_0 || type == KV_Q4_1) {
    DEV const u8* block = row + first / 32 * block_bytes(type);
    float d = h2f(get2(block)), min = type == KV_Q4_1 ? h2f(get2(block + 2)) : 0.0f;
    DEV const u8* codes = block + (type == KV_Q4_1 ? 4 : 2) + (type == KV_Q8_0 ? first % 32 : 0);
    for (int i = 0; i < 16; ++i) {
      int byte = codes[i], code = type == KV_Q8_0 ? (byte << 24) >> 24 : byte >> first % 32 / 16 * 4 & 15;
      float v = type == KV_Q4_0 ? d * (float)(code - 8) : type == KV_Q4_1 ? fma(d, (float)code, min) : d * (float)code;
      to[i] = i < count ? v : 0.0f;
    }
    return;
  }
  for (int i = 0; i < 16; ++i) {
    float v = 0.0f;
    if (i < count) {
      if (type == KV_F32) v = ((DEV const float*)row)[first + i];
      if (type == KV_F16) v = h2f(((DEV const u16*)row)[first + i]);
      if (type == KV_BF16) v = f32_of((u32)((DEV const u16*)row)[first + i] << 16);
      if (type == KV_F8) v = e4m3_to(row[first + i]);
    }
    to[i] = v;
  }
}

// Rows of a slot into their cells: `heads` pieces of `dim` numbers each. A thread stores 32 numbers.
// grid: heads * ceil(dim / 32) / 64, rows; 64 threads
CONST int PAGE = 32;
// Bytes: of a page of a layer, of a head inside it, of a stored row; `at`: first byte inside a head.
struct StoreArgs { int group, heads, dim, type, page_bytes, head_bytes, row_bytes, at; };
KERNEL(64, 8) store(BUF(0, const int, step), BUF(1, const float, x), BUF(2, u8, pages), ARGS(3, StoreArgs, a)) {
  int row = (int)BLOCK.y, i = (int)(BLOCK.x * 64 + THREAD), chunks = (a.dim + 31) / 32;
  if (row >= step[STEP_ROWS] || i >= a.heads * chunks) return;
  int head = i / chunks, cell = step_list(step, STEP_CELLS)[row];
  DEV const int* table = step + seq_of_row(step, row)[SEQ_TABLES + a.group];
  size_t page = (size_t)table[cell / PAGE] * a.page_bytes + (size_t)head * a.head_bytes;
  put_numbers(a.type, x + ((size_t)row * a.heads + head) * a.dim, i % chunks * 32, a.dim,
              pages + page + a.at + (size_t)(cell % PAGE) * a.row_bytes);
}
