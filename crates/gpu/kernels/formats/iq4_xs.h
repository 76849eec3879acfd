// IQ4_XS: the values of IQ4_NL; each 32 of a super-block of 256 has a 6-bit scale less 32, times a float16 of the block.
// Fields: codes 8 x 16 bytes, d and the upper bits of the scales 4, the lower bits of the scales 4.
#pragma once
#include "iq4_nl.h"
struct fmt_iq4_xs {
  enum { INPUTS = 256, BYTES = 136, SCALES = 1, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)block_of(k, INPUTS) * BYTES * LANES;
    int part = part_of(k, INPUTS);
    iq4_values32(lane16(at, part, lane), b.code);
    u32 dh = lane4(at + 128 * LANES, 0, lane), low = lane4(at + 132 * LANES, 0, lane) >> 4 * part & 15u;
    b.scale[0] = h2f((u16)dh) * (float)((int)(low | (dh >> (16 + 2 * part) & 3u) << 4) - 32);
  }
};
