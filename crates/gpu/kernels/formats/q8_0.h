// Q8_0: signed bytes with a float16 scale for 32. Fields: codes 2 x 16 bytes, scale 2.
#pragma once
#include "../panel.h"
struct fmt_q8_0 {
  enum { INPUTS = 32, BYTES = 34, SCALES = 1, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    UNROLL for (int i = 0; i < 2; ++i) {
      uint4 v = lane16(at, i, lane);
      UNROLL for (int j = 0; j < 16; ++j) b.code[16 * i + j] = (float)((int)(byte_of(v, j) << 24) >> 24);
    }
    b.scale[0] = h2f(lane2(at + 32 * LANES, 0, lane));
  }
};
