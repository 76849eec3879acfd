// Q5_K: as Q4_K with a fifth bit; bit j of byte i of the high bits belongs to weight 32 j + i.
// Fields: low codes 8 x 16 bytes, high bits 2 x 16, d and dmin 4, scales 3 x 4.
#pragma once
#include "q4_k.h"
struct fmt_q5_k {
  enum { INPUTS = 256, BYTES = 176, SCALES = 1, OFFSET = 1 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    int part = part_of(k, INPUTS), first = part / 2 * 2;
    UNROLL for (int h = 0; h < 2; ++h) {
      uint4 low = lane16(at, first + h, lane), high = lane16(at + 128 * LANES, h, lane);
      UNROLL for (int i = 0; i < 16; ++i)
        b.code[16 * h + i] = (float)((byte_of(low, i) >> part % 2 * 4 & 15u) | (byte_of(high, i) >> part & 1u) << 4);
    }
    DEV const u8* packed = at + 164 * LANES;
    u32 dm = lane4(at + 160 * LANES, 0, lane);
    u32 sm = scale_and_min(lane4(packed, 0, lane), lane4(packed, 1, lane), lane4(packed, 2, lane), part);
    b.scale[0] = h2f((u16)dm) * (float)(sm & 255u);
    b.offset[0] = 0.0f - h2f((u16)(dm >> 16)) * (float)(sm >> 8);
  }
};
