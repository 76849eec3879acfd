// Q4_K: nibbles; each 32 of a super-block of 256 has a 6-bit scale and minimum, times two float16 of the block.
// Fields: codes 8 x 16 bytes (a quarter is 32 bytes: 32 low nibbles, then 32 high ones), d and dmin 4, scales 3 x 4.
#pragma once
#include "../panel.h"
// Scale (low byte) and minimum (second byte) `j` of the twelve bytes of Q4_K and Q5_K.
FN u32 scale_and_min(u32 a, u32 b, u32 c, int j) {
  int at = 8 * (j % 4);
  u32 scale = a >> at & 255u, min = b >> at & 255u, both = c >> at & 255u;
  if (j < 4) return (scale & 63u) | (min & 63u) << 8;
  return (both & 15u) | scale >> 6 << 4 | (both >> 4 | min >> 6 << 4) << 8;
}
struct fmt_q4_k {
  enum { INPUTS = 256, BYTES = 144, SCALES = 1, OFFSET = 1 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    int part = part_of(k, INPUTS), first = part / 2 * 2;
    codes16(lane16(at, first, lane), part % 2 * 4, 15u, 0, b.code);
    codes16(lane16(at, first + 1, lane), part % 2 * 4, 15u, 0, b.code + 16);
    DEV const u8* packed = at + 132 * LANES;
    u32 dm = lane4(at + 128 * LANES, 0, lane);
    u32 sm = scale_and_min(lane4(packed, 0, lane), lane4(packed, 1, lane), lane4(packed, 2, lane), part);
    b.scale[0] = h2f((u16)dm) * (float)(sm & 255u);
    b.offset[0] = 0.0f - h2f((u16)(dm >> 16)) * (float)(sm >> 8);
  }
};
