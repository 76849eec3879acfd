// Q5_0: 5-bit codes less 16 with a float16 scale for 32; byte i has the low nibbles of weights i and i + 16, bit i of the
// high bits belongs to weight i. Fields: low nibbles 16 bytes, high bits 4, scale 2.
#pragma once
#include "../panel.h"
struct fmt_q5_0 {
  enum { INPUTS = 32, BYTES = 22, SCALES = 1, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    fives32(lane16(at, 0, lane), lane4(at + 16 * LANES, 0, lane), 16, b.code);
    b.scale[0] = h2f(lane2(at + 20 * LANES, 0, lane));
  }
};
