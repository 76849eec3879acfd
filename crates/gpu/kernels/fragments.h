// Weights as fragments of tensor cores: how a lane gets its share of 32 inputs of an output, in every format.
//
// The A operand of mma wants of lane 4 g + t rows g and g + 8. Here a row is an output, whose 32 inputs four lanes share by
// the order of halves.h: inputs 4t .. 4t + 3 and 16 + 4t .. 16 + 4t + 3, which are neighbours in the words of a panel. Codes
// become exact float16: 1024 + c is the float16 that ends in the bits of c, and 1024 is subtracted again.
//
// A format says in `fragment` what lane t has of output `o` of a panel, in half `h` of a pair of blocks. F32 has none, nor has
// Q2_K, whose minimums want sums of 16 inputs: both stay with the products by fma.
#pragma once
#include "panel.h"
#include "formats/f16.h"
#include "formats/bf16.h"
#include "formats/f8_e4m3.h"
#include "formats/f8_e5m2.h"
#include "formats/q8_0.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/q3_k.h"
#include "formats/q4_k.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"

// weight = scale * code + offset, as in Block32; two codes a word, the first in its low half.
struct Fragment { u32 code[4]; float scale[2]; float offset; };

// Four bytes from 4t on of word `i` of 16 bytes of output `o`.
FN u32 quarter(DEV const u8* field, int i, int o, int t) { return load4(field + (i * LANES + o) * 16 + 4 * t); }
// Four bytes, each a code below 256, less `zero`.
FN void put_codes(u32 bytes, u32 zero, LOCAL u32* to) {
  u32 less = 0x64006400u + zero * 0x00010001u;
  to[0] = sub2(pick_bytes(bytes, 0x64646464u, 0x4140u), less);
  to[1] = sub2(pick_bytes(bytes, 0x64646464u, 0x4342u), less);
}
// Nibbles of 16 bytes: the low ones are the first 16 inputs.
FN void put_nibbles(u32 bytes, u32 zero, LOCAL u32* to) {
  put_codes(bytes & 0x0f0f0f0fu, zero, to);
  put_codes(bytes >> 4 & 0x0f0f0f0fu, zero, to + 2);
}
FN DEV const u8* block_at(DEV const u8* panel, int block, int bytes) { return panel + (size_t)block * bytes * LANES; }

struct lane_f16 : fmt_f16 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    UNROLL for (int i = 0; i < 2; ++i) {
      u64 four = load8(at + ((2 * i + t / 2) * LANES + o) * 16 + t % 2 * 8);
      f.code[2 * i] = (u32)four;
      f.code[2 * i + 1] = (u32)(four >> 32);
    }
  }
};
// The same bytes: only mma takes them for other numbers.
struct lane_bf16 : lane_f16 { enum { BF16 = 1 }; };

struct lane_f8_e5m2 : fmt_f8_e5m2 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 v = quarter(at, i, o, t);
      f.code[2 * i] = pick_bytes(v, 0u, 0x1404u);
      f.code[2 * i + 1] = pick_bytes(v, 0u, 0x3424u);
    }
  }
};
struct lane_f8_e4m3 : fmt_f8_e4m3 {
  enum { BF16 = 0 };
  // Two numbers from the upper bytes of two words of 16 bits: exponent and mantissa are those of a float16 that is 2^8 times
  // smaller. All seven bits are NaN, where the factor gives 480: one bit of its exponent is missing.
  static FN u32 numbers2(u32 bytes) {
    u32 small = (bytes & 0x7f007f00u) >> 1, nan = (small + 0x00800080u) >> 1 & 0x20002000u;
    return mul2((bytes & 0x80008000u) | small, 0x5c005c00u) | nan;
  }
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 v = quarter(at, i, o, t);
      f.code[2 * i] = numbers2(pick_bytes(v, 0u, 0x1404u));
      f.code[2 * i + 1] = numbers2(pick_bytes(v, 0u, 0x3424u));
    }
  }
};

struct lane_q8_0 : fmt_q8_0 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    UNROLL for (int i = 0; i < 2; ++i) put_codes(quarter(at, i, o, t) ^ 0x80808080u, 128u, f.code + 2 * i);
    f.scale[0] = h2f(lane2(at + 32 * LANES, 0, o));
  }
};
struct lane_q4_0 : fmt_q4_0 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    put_nibbles(quarter(at, 0, o, t), 8u, f.code);
    f.scale[0] = h2f(lane2(at + 16 * LANES, 0, o));
  }
};
struct lane_q4_1 : fmt_q4_1 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    put_nibbles(quarter(at, 0, o, t), 0u, f.code);
    u32 dm = lane4(at + 16 * LANES, 0, o);
    f.scale[0] = h2f((u16)dm);
    f.offset = h2f((u16)(dm >> 16));
  }
};
// Codes of 5 bits: nibbles, and the fifth bits of all 32.
FN void put_fives(u32 low, u32 high, int t, u32 zero, LOCAL u32* to) {
  UNROLL for (int i = 0; i < 2; ++i) {
    // Four neighbouring bits, each into a byte.
    u32 fifth = (high >> (4 * t + 16 * i) & 15u) * 0x00204081u & 0x01010101u;
    put_codes((low >> 4 * i & 0x0f0f0f0fu) | fifth << 4, zero, to + 2 * i);
  }
}
struct lane_q5_0 : fmt_q5_0 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    put_fives(quarter(at, 0, o, t), lane4(at + 16 * LANES, 0, o), t, 16u, f.code);
    f.scale[0] = h2f(lane2(at + 20 * LANES, 0, o));
  }
};
struct lane_q5_1 : fmt_q5_1 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    put_fives(quarter(at, 0, o, t), lane4(at + 20 * LANES, 0, o), t, 0u, f.code);
    u32 dm = lane4(at + 16 * LANES, 0, o);
    f.scale[0] = h2f((u16)dm);
    f.offset = h2f((u16)(dm >> 16));
  }
};

// Twice the value of two 4-bit floats: sign, exponent and mantissa bit are those of a float16 that is 2^15 times smaller.
FN u32 twice2(u32 bytes, u32 pick) {
  u32 codes = pick_bytes(bytes, 0u, pick);
  return mul2((codes & 0x00080008u) << 12 | (codes & 0x00070007u) << 9, 0x78007800u);
}
FN void put_floats4(u32 nibbles, LOCAL u32* to) {
  to[0] = twice2(nibbles & 0x0f0f0f0fu, 0x4140u);
  to[1] = twice2(nibbles & 0x0f0f0f0fu, 0x4342u);
}
struct lane_mxfp4 : fmt_mxfp4 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    u32 v = quarter(at, 0, o, t);
    put_floats4(v, f.code);
    put_floats4(v >> 4, f.code + 2);
    u32 e = lane1(at + 16 * LANES, 0, o);
    f.scale[0] = f32_of(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
  }
};
struct lane_nvfp4 : fmt_nvfp4 {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, pair, BYTES);
    u32 scales = lane4(at + 32 * LANES, 0, o) >> 16 * h;
    UNROLL for (int i = 0; i < 2; ++i) {
      // Eight bytes have 16 inputs: the low nibbles are the first eight.
      put_floats4(load4(at + (h * LANES + o) * 16 + 8 * i + 4 * (t % 2)) >> 4 * (t / 2), f.code + 2 * i);
      f.scale[i] = half_scale(scales >> 8 * i & 255u);
    }
  }
};

// Four nibbles that name one of sixteen signed bytes each: eight of them by the lower three bits, twice.
FN void put_named(u32 nibbles, LOCAL u32* to) {
  u32 n = nibbles & 0x0f0f0f0fu, two = (n | n >> 4) & 0x00ff00ffu, pick = (two | two >> 8) & 0x7777u;
  u32 upper = (n >> 3 & 0x01010101u) * 255u;
  u32 low = pick_bytes(0xbfad9881u, 0xf6eaddcfu, pick), high = pick_bytes(0x26190d01u, 0x71594535u, pick);
  put_codes(((low & ~upper) | (high & upper)) ^ 0x80808080u, 128u, to);
}
struct lane_iq4_nl : fmt_iq4_nl {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, 2 * pair + h, BYTES);
    u32 v = quarter(at, 0, o, t);
    put_named(v, f.code);
    put_named(v >> 4, f.code + 2);
    f.scale[0] = h2f(lane2(at + 16 * LANES, 0, o));
  }
};
struct lane_iq4_xs : fmt_iq4_xs {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, pair / 4, BYTES);
    int part = pair % 4 * 2 + h;
    u32 v = quarter(at, part, o, t);
    put_named(v, f.code);
    put_named(v >> 4, f.code + 2);
    u32 dh = lane4(at + 128 * LANES, 0, o), low = lane4(at + 132 * LANES, 0, o) >> 4 * part & 15u;
    f.scale[0] = h2f((u16)dh) * (float)((int)(low | (dh >> (16 + 2 * part) & 3u) << 4) - 32);
  }
};
struct lane_q3_k : fmt_q3_k {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, pair / 4, BYTES);
    DEV const u8* packed = at + 96 * LANES;
    int part = pair % 4 * 2 + h;
    u32 first = lane4(packed, 0, o), second = lane4(packed, 1, o), upper = lane4(packed, 2, o);
    float d = h2f(lane2(at + 108 * LANES, 0, o));
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 low = quarter(at, part / 4 * 2 + i, o, t) >> part % 4 * 2 & 0x03030303u;
      u32 high = quarter(at + 64 * LANES, i, o, t) >> part & 0x01010101u;
      put_codes(low | high << 2, 4u, f.code + 2 * i);
      f.scale[i] = d * (float)scale_of(first, second, upper, 2 * part + i);
    }
  }
};

// Scale and minimum of one of eight parts of a super-block, from d and dmin and the twelve packed bytes behind them.
FN void put_k_scales(DEV const u8* dm_field, int part, int o, LOCAL Fragment& f) {
  DEV const u8* packed = dm_field + 4 * LANES;
  u32 dm = lane4(dm_field, 0, o);
  u32 sm = scale_and_min(lane4(packed, 0, o), lane4(packed, 1, o), lane4(packed, 2, o), part);
  f.scale[0] = h2f((u16)dm) * (float)(sm & 255u);
  f.offset = 0.0f - h2f((u16)(dm >> 16)) * (float)(sm >> 8);
}
struct lane_q4_k : fmt_q4_k {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, pair / 4, BYTES);
    int two = pair % 4 * 2;
    UNROLL for (int i = 0; i < 2; ++i) put_codes(quarter(at, two + i, o, t) >> 4 * h & 0x0f0f0f0fu, 0u, f.code + 2 * i);
    put_k_scales(at + 128 * LANES, two + h, o, f);
  }
};
struct lane_q5_k : fmt_q5_k {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, pair / 4, BYTES);
    int two = pair % 4 * 2;
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 low = quarter(at, two + i, o, t) >> 4 * h & 0x0f0f0f0fu;
      u32 high = quarter(at + 128 * LANES, i, o, t) >> (two + h) & 0x01010101u;
      put_codes(low | high << 4, 0u, f.code + 2 * i);
    }
    put_k_scales(at + 160 * LANES, two + h, o, f);
  }
};
struct lane_q6_k : fmt_q6_k {
  enum { BF16 = 0 };
  static FN void fragment(DEV const u8* panel, int pair, int h, int o, int t, LOCAL Fragment& f) {
    DEV const u8* at = block_at(panel, pair / 4, BYTES);
    // Part j of a half of 128 weights.
    int half_ = pair % 4 / 2, j = pair % 2 * 2 + h;
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 low = quarter(at, half_ * 4 + j % 2 * 2 + i, o, t) >> j / 2 * 4 & 0x0f0f0f0fu;
      u32 high = quarter(at + 128 * LANES, half_ * 2 + i, o, t) >> 2 * j & 0x03030303u;
      put_codes(low | high << 4, 32u, f.code + 2 * i);
    }
    u32 two = load2(at + 192 * LANES + o * 16 + (half_ * 4 + j) * 2);
    float d = h2f(lane2(at + 208 * LANES, 0, o));
    f.scale[0] = d * (float)((int)(two << 24) >> 24);
    f.scale[1] = d * (float)((int)(two << 16) >> 24);
  }
};
