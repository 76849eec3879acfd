// float32: a weight a number, 32 bits of 8 words of 16 bytes.
#pragma once
#include "../panel.h"
struct fmt_f32 {
  enum { INPUTS = 32, BYTES = 128, SCALES = 0, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    UNROLL for (int i = 0; i < 8; ++i) {
      uint4 v = lane16(at, i, lane);
      UNROLL for (int j = 0; j < 4; ++j) b.code[4 * i + j] = f32_of(word_of(v, j));
    }
  }
};
