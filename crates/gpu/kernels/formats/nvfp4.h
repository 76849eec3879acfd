// NVFP4: the 4-bit floats of MXFP4; each 16 of a block of 64 has an 8-bit float as scale (e4m3, its sign ignored).
// Fields: codes 2 x 16 bytes, scales 4. Byte i of 8 has weights i and i + 8 of a sub-block.
#pragma once
#include "../math.h"
#include "mxfp4.h"
struct fmt_nvfp4 {
  enum { INPUTS = 64, BYTES = 36, SCALES = 2, OFFSET = 0 };
  // Half of a scale, as codes are twice their value. 0x7f means zero; with the sign bit, what e4m3 calls NaN reads as 480.
  static FN float half_scale(u32 d) { return d == 0x7fu ? 0.0f : d == 0xffu ? 240.0f : 0.5f * e4m3_to(d & 127u); }
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    int part = part_of(k, INPUTS);
    uint4 v = lane16(at, part, lane);
    u32 scales = lane4(at + 32 * LANES, 0, lane) >> 16 * part;
    UNROLL for (int h = 0; h < 2; ++h) {
      UNROLL for (int i = 0; i < 8; ++i) {
        b.code[16 * h + i] = fmt_mxfp4::twice(byte_of(v, 8 * h + i) & 15u);
        b.code[16 * h + 8 + i] = fmt_mxfp4::twice(byte_of(v, 8 * h + i) >> 4);
      }
      b.scale[h] = half_scale(scales >> 8 * h & 255u);
    }
  }
};
