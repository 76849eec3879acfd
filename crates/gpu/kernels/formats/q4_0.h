// Q4_0: nibbles less 8 with a float16 scale for 32; byte i has weights i and i + 16. Fields: codes 16 bytes, scale 2.
#pragma once
#include "../panel.h"
struct fmt_q4_0 {
  enum { INPUTS = 32, BYTES = 18, SCALES = 1, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    nibbles16(lane16(at, 0, lane), 8, b.code);
    b.scale[0] = h2f(lane2(at + 16 * LANES, 0, lane));
  }
};
