// float16: 4 words of 16 bytes for 32 weights.
#pragma once
#include "../panel.h"
struct fmt_f16 {
  enum { INPUTS = 32, BYTES = 64, SCALES = 0, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    UNROLL for (int i = 0; i < 4; ++i) {
      uint4 v = lane16(at, i, lane);
      UNROLL for (int j = 0; j < 8; ++j) b.code[8 * i + j] = h2f((u16)(word_of(v, j / 2) >> 16 * (j % 2)));
    }
  }
};
