// Numbers of pages as the B operand of tensor cores: two neighbours of a stored row as a word of two 16-bit numbers.
//
// float16 and bfloat16 are taken as they are. Numbers of the other types are the sum of two float16: FP8 is one by itself; a
// code times its scale has 19 bits at most, all multiples of 2^-24, which the nearest float16 and the rest hold exactly up to
// 65504, where pages in float16 end too. Of Q4_1 float32's last bits may be lost. float32 itself stays with the portable
// kernel: its small numbers are no float16.
#pragma once
#include "fragments.h"
#include "cache.h"

// `PARTS`: how many 16-bit numbers a query or a weight is cut into, `WORDS`: a stored number; `AHEAD`: how many times 16
// cells are read side by side, and half as many times 16 numbers of keys.
struct pages_f16 {
  enum { BF16 = 0, PARTS = 2, WORDS = 1, AHEAD = 4 };
  // Numbers `at` and the next one.
  static FN void two(int, DEV const u8* row, int at, u32 (&to)[1]) { to[0] = load4(row + 2 * at); }
  // Numbers `at` to `at + 4`.
  static FN void four(int, DEV const u8* row, int at, u32 (&to)[2][1]) {
    u64 numbers = load8(row + 2 * at);
    to[0][0] = (u32)numbers;
    to[1][0] = (u32)(numbers >> 32);
  }
};
// The same bytes: only mma takes them for other numbers. Three parts of 8 bits are a float32.
struct pages_bf16 : pages_f16 { enum { BF16 = 1, PARTS = 3, WORDS = 1, AHEAD = 4 }; };

// FP8 by itself.
struct pages_f8 {
  enum { BF16 = 0, PARTS = 2, WORDS = 1, AHEAD = 4 };
  static FN u32 numbers(u32 bytes) { return lane_f8_e4m3::numbers2(pick_bytes(bytes, 0u, 0x1404u)); }
  static FN void two(int, DEV const u8* row, int at, u32 (&to)[1]) { to[0] = numbers(load2(row + at)); }
  static FN void four(int, DEV const u8* row, int at, u32 (&to)[2][1]) {
    u32 bytes = load4(row + at);
    to[0][0] = numbers(bytes);
    to[1][0] = numbers(bytes >> 16);
  }
};

// The nearest float16 of two numbers, and of what they leave.
FN void put_rests(float v, float w, u32 (&to)[2]) {
  u16 a = half_cut(v), b = half_cut(w);
  to[0] = a | (u32)b << 16;
  to[1] = half_cut(v - h2f(a)) | (u32)half_cut(w - h2f(b)) << 16;
}
struct pages_packed {
  enum { BF16 = 0, PARTS = 2, WORDS = 2, AHEAD = 2 };
  static FN void two(int type, DEV const u8* row, int at, u32 (&to)[2]) {
    to[1] = 0u;
    if (type == KV_F16) to[0] = load4(row + 2 * at);
    else if (type == KV_F8) to[0] = pages_f8::numbers(load2(row + at));
    else {
      bool bytes = type == KV_Q8_0, least = type == KV_Q4_1;
      DEV const u8* block = row + at / 32 * block_bytes(type);
      u32 codes = load2(block + (least ? 4 : 2) + (bytes ? at % 32 : at % 16));
      codes = bytes ? codes ^ 0x8080u : codes >> at % 32 / 16 * 4 & 0x0f0fu;
      u32 less = bytes ? 0x64806480u : least ? 0x64006400u : 0x64086408u;
      u32 code = sub2(pick_bytes(codes, 0x64646464u, 0x4140u), less);
      float scale = h2f(load2(block)), offset = least ? h2f(load2(block + 2)) : 0.0f;
      put_rests(fma(scale, h2f((u16)code), offset), fma(scale, h2f((u16)(code >> 16)), offset), to);
    }
  }
  static FN void four(int type, DEV const u8* row, int at, u32 (&to)[2][2]) {
    two(type, row, at, to[0]);
    two(type, row, at + 2, to[1]);
  }
};
// Ones in the upper bit of each 16-bit number that is not finite.
template <class L> FN u32 wild_numbers(u32 two) {
  return ((two & 0x7fff7fffu) + (L::BF16 ? 0x00800080u : 0x04000400u)) & 0x80008000u;
}
template <class L> FN void mma_pages(float (&d)[4], uint4 a, u32 b0, u32 b1) {
  if (L::BF16 != 0) mma_bf16(d, a.x, a.y, a.z, a.w, b0, b1);
  else mma_f16(d, a.x, a.y, a.z, a.w, b0, b1);
}
