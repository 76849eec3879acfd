// Q6_K: 6-bit codes less 32; each 16 of a super-block of 256 has a signed byte as scale, times a float16 of the block.
// Fields: low nibbles 8 x 16 bytes, upper two bits 4 x 16, scales 16, d 2. In each half of 128 weights, byte i of 64 has the
// nibbles of i and i + 64, byte i of 32 the upper bits of i, i + 32, i + 64 and i + 96.
#pragma once
#include "../panel.h"
struct fmt_q6_k {
  enum { INPUTS = 256, BYTES = 210, SCALES = 2, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    int part = part_of(k, INPUTS), half_ = part / 4, j = part % 4;
    uint4 scales = lane16(at + 192 * LANES, 0, lane);
    float d = h2f(lane2(at + 208 * LANES, 0, lane));
    UNROLL for (int h = 0; h < 2; ++h) {
      uint4 low = lane16(at, half_ * 4 + j % 2 * 2 + h, lane), high = lane16(at + 128 * LANES, half_ * 2 + h, lane);
      UNROLL for (int i = 0; i < 16; ++i) {
        u32 code = (byte_of(low, i) >> j / 2 * 4 & 15u) | (byte_of(high, i) >> 2 * j & 3u) << 4;
        b.code[16 * h + i] = (float)((int)code - 32);
      }
      u32 scale = word_of(scales, part / 2) >> 8 * (part % 2 * 2 + h) & 255u;
      b.scale[h] = d * (float)((int)(scale << 24) >> 24);
    }
  }
};
