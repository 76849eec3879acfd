// Super-blocks whose codes times their scales are exact float16 (Q4_K: 15 * 63, Q5_K: 31 * 63, at most 2^11): what lanes of
// tensor cores get of 256 inputs of an output.
//
// A code becomes a float16 by one operation for two of them: 1024 + c is the float16 that ends in the bits of c, and 1024 + 16 c
// where the bits stand four further up. The code times its scale is one fma, (1024 + c) * scale - 1024 * scale, rounded once
// and so exact. Thus mma adds up all 256 inputs by itself, and d is applied once. Leaving the 1024 to the offset would save
// that fma, but its sums would be a hundred times as large as the product, and lose as much of its last bits.
//
// Minimums are one mma for 256 inputs: -32 times the eight minimums, times the sums of halves.h, which are there as the
// 32nd of a sum and as what float16 loses of it.
#pragma once
#include "fragments.h"
#include "formats/q4_k.h"
#include "formats/q5_k.h"

// Scales (low byte first) and minimums of eight blocks, 6 bits each, from d, dmin and the twelve bytes behind them. Upper bits
// of the first minimums are those of others: whoever takes them cuts them off.
struct SuperScales { u32 scale[2], min[2], dm; };
FN SuperScales super_scales(DEV const u8* at) {
  u32 dm = stream4(at), a = stream4(at + 4 * LANES), b = stream4(at + 8 * LANES), c = stream4(at + 12 * LANES);
  SuperScales s = {{a & 0x3f3f3f3fu, mask_or(a >> 2, 0x30303030u, c & 0x0f0f0f0fu)},
                   {b, mask_or(b >> 2, 0x30303030u, c >> 4 & 0x0f0f0f0fu)}, dm};
  return s;
}
// Two scales as float16, the second a 16th, and what they make of the 1024 of codes.
struct ScalePair { u32 by, less; };
FN ScalePair scale_pair(SuperScales s, int quarter) {
  u32 two = pick_bytes((quarter < 2 ? s.scale[0] : s.scale[1]) >> quarter % 2 * 16, 0x64646464u, 0x4140u);
  ScalePair p = {fma2(two, 0x2c003c00u, 0xd400e400u), 0u};
  p.less = mul2(p.by, 0xe400e400u);
  return p;
}
// -32 times the minimums 2t and 2t + 1.
FN u32 two_minimums(SuperScales s, int t) {
  u32 two = pick_bytes(s.min[0], s.min[1], 0x0100u + 0x0202u * (u32)t);
  return fma2(mask_or(two, 0x003f003fu, 0x64006400u), 0xd000d000u, 0x78007800u);
}
// Four codes of one of two blocks of 32 that share bytes: the first and third, then the others, times the scale.
template <int HIGH> FN void put_scaled(u32 even, u32 odd, ScalePair p, LOCAL u32* to) {
  to[0] = HIGH ? fma2_high(even, p.by, p.less) : fma2_low(even, p.by, p.less);
  to[1] = HIGH ? fma2_high(odd, p.by, p.less) : fma2_low(odd, p.by, p.less);
}

// Four bytes have four codes of block 2 q, and four of the next one in their upper halves: code[0 .. 1] and code[4 .. 5].
struct lane_q4_k : fmt_q4_k {
  enum { BF16 = 0, FIFTHS = 0, SCALES_AT = 128 };
  static constexpr Taken TAKEN = BY_SUPER;
  static FN void codes(u32 v, u32, int, ScalePair p, LOCAL u32* code) {
    u32 w = v >> 8;
    put_scaled<0>(mask_or(v, 0x000f000fu, 0x64006400u), mask_or(w, 0x000f000fu, 0x64006400u), p, code);
    put_scaled<1>(mask_or(v, 0x00f000f0u, 0x64006400u), mask_or(w, 0x00f000f0u, 0x64006400u), p, code + 4);
  }
};
struct lane_q5_k : fmt_q5_k {
  enum { BF16 = 0, FIFTHS = 1, SCALES_AT = 160 };
  static constexpr Taken TAKEN = BY_SUPER;
  // Bits 2 q and 2 q + 1 of a byte of `fifth` go to bits 4 and 8.
  static FN void codes(u32 v, u32 fifth, int q, ScalePair p, LOCAL u32* code) {
    u32 w = v >> 8, even = q < 3 ? fifth << (4 - 2 * q) : fifth >> 2, odd = fifth >> (4 + 2 * q);
    put_scaled<0>(mask_or(v, 0x000f000fu, mask_or(even, 0x00100010u, 0x64006400u)),
                  mask_or(w, 0x000f000fu, mask_or(odd, 0x00100010u, 0x64006400u)), p, code);
    put_scaled<1>(mask_or(v, 0x00f000f0u, mask_or(even << 3, 0x01000100u, 0x64006400u)),
                  mask_or(w, 0x00f000f0u, mask_or(odd << 3, 0x01000100u, 0x64006400u)), p, code + 4);
  }
};

// What is left of a super-block of outputs g and g + 8 when codes are done: -32 times two minimums, and d below dmin.
struct SuperEnd { u32 min[2], dm[2]; };
FN SuperEnd super_end(const SuperScales (&s)[2], int t) {
  SuperEnd e = {{two_minimums(s[0], t), two_minimums(s[1], t)}, {s[0].dm, s[1].dm}};
  return e;
}
// Adds a super-block to 8 rows: `sum` is that of codes and scales, `parts` are two words of sums of the lane's row.
FN void add_super(SuperEnd e, LOCAL const float* sum, u64 parts, float (&total)[4]) {
  float less[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  mma_f16(less, e.min[0], e.min[1], e.min[0], e.min[1], (u32)parts, (u32)(parts >> 32));
  UNROLL for (int i = 0; i < 4; ++i)
    total[i] = fma(h2f((u16)(e.dm[i / 2] >> 16)), less[i], fma(h2f((u16)e.dm[i / 2]), sum[i], total[i]));
}
// A lane's words of a super-block of outputs g and g + 8: `codes` is where those of output g begin.
template <class L> FN void load_fifths(DEV const u8* codes, u32 (&fifth)[2][2]) {
  UNROLL for (int i = 0; i < 4; ++i)
    fifth[i / 2][i % 2] = L::FIFTHS != 0 ? stream4(codes + i / 2 * 128 + (128 + i % 2 * 16) * LANES) : 0u;
}
FN void load_quarter(DEV const u8* codes, int q, u32 (&low)[2][2]) {
  UNROLL for (int i = 0; i < 4; ++i)
    low[i / 2][i % 2] = stream4(codes + i / 2 * 128 + (2 * q + i % 2) * 16 * LANES);
}
// Blocks 2 q and 2 q + 1 as fragments: code[0 .. 3] of the first, code[4 .. 7] of the second.
template <class L> FN void put_quarter(const u32 (&low)[2][2], const u32 (&fifth)[2][2], const SuperScales (&s)[2], int q,
                                       u32 (&code)[2][8]) {
  UNROLL for (int n = 0; n < 2; ++n) {
    ScalePair p = scale_pair(s[n], q);
    UNROLL for (int i = 0; i < 2; ++i) L::codes(low[n][i], fifth[n][i], q, p, code[n] + 2 * i);
  }
}
FN void mma_quarter(float (&sum)[4], const u32 (&code)[2][8], int h, uint4 b) {
  mma_f16(sum, code[0][4 * h], code[1][4 * h], code[0][4 * h + 1], code[1][4 * h + 1], b.x, b.y);
  mma_f16(sum, code[0][4 * h + 2], code[1][4 * h + 2], code[0][4 * h + 3], code[1][4 * h + 3], b.z, b.w);
}
