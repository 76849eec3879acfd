// Q2_K: 2-bit codes; each 16 of a super-block of 256 has a 4-bit scale and minimum, times two float16 of the block.
// Fields: codes 4 x 16 bytes, scales and minimums 4 x 4, d and dmin 4. In each half of 128 weights, byte i of 32 has the codes
// of i, i + 32, i + 64 and i + 96; a byte of the second field has a scale below its minimum.
#pragma once
#include "../panel.h"
struct fmt_q2_k {
  enum { INPUTS = 256, BYTES = 84, SCALES = 2, OFFSET = 2 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    int part = part_of(k, INPUTS);
    u32 both = lane4(at + 64 * LANES, part / 2, lane) >> part % 2 * 16, dm = lane4(at + 80 * LANES, 0, lane);
    UNROLL for (int h = 0; h < 2; ++h) {
      codes16(lane16(at, part / 4 * 2 + h, lane), part % 4 * 2, 3u, 0, b.code + 16 * h);
      b.scale[h] = h2f((u16)dm) * (float)(both >> 8 * h & 15u);
      b.offset[h] = 0.0f - h2f((u16)(dm >> 16)) * (float)(both >> (8 * h + 4) & 15u);
    }
  }
};
