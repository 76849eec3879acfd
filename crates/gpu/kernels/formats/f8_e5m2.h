// 8-bit floats with 5 exponent bits, each the upper byte of a float16: 2 words of 16 bytes for 32 weights.
#pragma once
#include "../panel.h"
struct fmt_f8_e5m2 {
  enum { INPUTS = 32, BYTES = 32, SCALES = 0, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    UNROLL for (int i = 0; i < 2; ++i) {
      uint4 v = lane16(at, i, lane);
      UNROLL for (int j = 0; j < 16; ++j) b.code[16 * i + j] = h2f((u16)(byte_of(v, j) << 8));
    }
  }
};
