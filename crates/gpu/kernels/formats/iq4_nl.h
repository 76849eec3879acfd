// IQ4_NL: nibbles that name one of sixteen values, with a float16 scale for 32; byte i has weights i and i + 16.
// Fields: codes 16 bytes, scale 2.
#pragma once
#include "../panel.h"
// -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113: a signed byte each. Words of constants are chosen among, where
// a table would lie in memory.
FN float iq4_value(u32 code) {
  u32 word = code < 4u ? 0xbfad9881u : code < 8u ? 0xf6eaddcfu : code < 12u ? 0x26190d01u : 0x71594535u;
  return (float)((int)(word >> 8u * (code & 3u) << 24) >> 24);
}
FN void iq4_values32(uint4 v, LOCAL float* to) {
  UNROLL for (int i = 0; i < 32; ++i) to[i] = iq4_value(byte_of(v, i % 16) >> i / 16 * 4 & 15u);
}
struct fmt_iq4_nl {
  enum { INPUTS = 32, BYTES = 18, SCALES = 1, OFFSET = 0 };
  static FN void take(DEV const u8* panel, int k, int lane, LOCAL Block32& b) {
    DEV const u8* at = panel + (size_t)k * BYTES * LANES;
    iq4_values32(lane16(at, 0, lane), b.code);
    b.scale[0] = h2f(lane2(at + 16 * LANES, 0, lane));
  }
};
