// MXFP4: 4-bit floats (e2m1, here twice their value) with a power of two for 32. Fields: codes 16 bytes, exponent 1.
#pragma once
#include "../panel.h"
struct fmt_mxfp4 {
  enum { INPUTS = 32, BYTES = 17, SCALES = 1, OFFSET = 0 };
  // 0 1 2 3 4 6 8 12, and below zero for the upper eight codes.
  static FN float twice(u32 code) {
    int m = (int)(code & 7u), v = m < 5 ? m : m == 5 ? 6 : m == 6 ? 8 : 12;
    return (float)(code & 8u ? -v : v);
  }
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    uint4 v = lane16(at, 0, lane);
    UNROLL for (int i = 0; i < 16; ++i) {
      b.code[i] = twice(byte_of(v, i) & 15u);
      b.code[16 + i] = twice(byte_of(v, i) >> 4);
    }
    // 2^(e - 128): the two smallest are subnormal.
    u32 e = lane1(at + 16 * LANES, 0, lane);
    b.scale[0] = f32_of(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
  }
};
