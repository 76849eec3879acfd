// Q3_K: 3-bit codes less 4; each 16 of a super-block of 256 has a 6-bit scale less 32, times a float16 of the block.
// Fields: lower two bits 4 x 16 bytes, high bits 2 x 16, scales 3 x 4, d 2. In each half of 128 weights, byte i of 32 has the
// lower bits of i, i + 32, i + 64 and i + 96; bit j of byte i of the high bits belongs to weight 32 j + i.
#pragma once
#include "../panel.h"
struct fmt_q3_k {
  enum { INPUTS = 256, BYTES = 110, SCALES = 2, OFFSET = 0 };
  // Scale `j` of twelve bytes: its lower nibble in byte j % 8, that of the first eight below; its upper bits in the last four.
  static FN int scale_of(u32 a, u32 b, u32 c, int j) {
    u32 low = (j % 8 < 4 ? a : b) >> (8 * (j % 4) + 4 * (j / 8)) & 15u, high = c >> (8 * (j % 4) + 2 * (j / 4)) & 3u;
    return (int)(low | high << 4) - 32;
  }
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    DEV const u8* packed = at + 96 * LANES;
    int part = part_of(k, INPUTS);
    u32 first = lane4(packed, 0, lane), second = lane4(packed, 1, lane), upper = lane4(packed, 2, lane);
    float d = h2f(lane2(at + 108 * LANES, 0, lane));
    UNROLL for (int h = 0; h < 2; ++h) {
      uint4 low = lane16(at, part / 4 * 2 + h, lane), high = lane16(at + 64 * LANES, h, lane);
      UNROLL for (int i = 0; i < 16; ++i) {
        u32 code = (byte_of(low, i) >> part % 4 * 2 & 3u) | (byte_of(high, i) >> part & 1u) << 2;
        b.code[16 * h + i] = (float)((int)code - 4);
      }
      b.scale[h] = d * (float)scale_of(first, second, upper, 2 * part + h);
    }
  }
};
