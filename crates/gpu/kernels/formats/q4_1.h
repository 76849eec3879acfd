// Q4_1: nibbles with a float16 scale and minimum for 32. Fields: codes 16 bytes, scale and minimum 4.
#pragma once
#include "../panel.h"
struct fmt_q4_1 {
  enum { INPUTS = 32, BYTES = 20, SCALES = 1, OFFSET = 1 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    nibbles16(lane16(at, 0, lane), 0, b.code);
    u32 dm = lane4(at + 16 * LANES, 0, lane);
    b.scale[0] = h2f((u16)dm);
    b.offset[0] = h2f((u16)(dm >> 16));
  }
};
