// Weights as fragments of tensor cores: how a lane gets its share of 32 inputs of an output, in every format.
//
// The A operand of mma wants of lane 4 g + t rows g and g + 8. Here a row is an output, whose 32 inputs four lanes share by
// the order of halves.h: inputs 4t .. 4t + 3 and 16 + 4t .. 16 + 4t + 3, which are neighbours in the words of a panel; of four,
// the first and third go together, as codes of four bytes do after one mask. Codes become exact float16: 1024 + c is the
// float16 that ends in the bits of c, and 1024 is subtracted again.
//
// A format says in `fragment` what lane t has of output `o` of a panel, of the 32 inputs number `part` of a block. F32 has none, nor has
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
#include "formats/q6_k.h"

// weight = scale * code + offset, as in Block32; two codes a word, the first in its low half.
struct Fragment { u32 code[4]; float scale[2]; float offset; };
// How much of a row lanes take at once: a block of 32 inputs, half a super-block, or a super-block (super.h).
enum Taken { BY_BLOCK, BY_HALF, BY_SUPER };

// Four bytes from 4t on of word `i` of 16 bytes of output `o`.
FN u32 quarter(DEV const u8* field, int i, int o, int t) { return load4(field + (o * 16 + 4 * t) + i * (16 * LANES)); }
// Four bytes, each a code below 256, less `zero`.
FN void put_codes(u32 bytes, u32 zero, LOCAL u32* to) {
  u32 less = 0x64006400u + zero * 0x00010001u;
  to[0] = sub2(pick_bytes(bytes, 0x64646464u, 0x4240u), less);
  to[1] = sub2(pick_bytes(bytes, 0x64646464u, 0x4341u), less);
}
// Nibbles of 16 bytes: the low ones are the first 16 inputs. The high ones stand four bits further up, and are divided by 16.
FN void put_nibbles(u32 bytes, u32 zero, LOCAL u32* to) {
  u32 odd = bytes >> 8, less = 0x64006400u + zero * 0x00010001u, less16 = 0xd400d400u + zero * 0x00100010u;
  to[0] = sub2(mask_or(bytes, 0x000f000fu, 0x64006400u), less);
  to[1] = sub2(mask_or(odd, 0x000f000fu, 0x64006400u), less);
  to[2] = fma2(mask_or(bytes, 0x00f000f0u, 0x64006400u), 0x2c002c00u, less16);
  to[3] = fma2(mask_or(odd, 0x00f000f0u, 0x64006400u), 0x2c002c00u, less16);
}
FN DEV const u8* block_at(DEV const u8* panel, int block, int bytes) { return panel + (size_t)block * bytes * LANES; }

struct lane_f16 : fmt_f16 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    UNROLL for (int i = 0; i < 2; ++i) {
      u64 four = load8(at + (t / 2 * LANES + o) * 16 + t % 2 * 8 + i * (32 * LANES));
      f.code[2 * i] = pick_bytes((u32)four, (u32)(four >> 32), 0x5410u);
      f.code[2 * i + 1] = pick_bytes((u32)four, (u32)(four >> 32), 0x7632u);
    }
  }
};
// The same bytes: only mma takes them for other numbers.
struct lane_bf16 : lane_f16 { enum { BF16 = 1 }; };

struct lane_f8_e5m2 : fmt_f8_e5m2 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 v = quarter(at, i, o, t);
      f.code[2 * i] = pick_bytes(v, 0u, 0x2404u);
      f.code[2 * i + 1] = pick_bytes(v, 0u, 0x3414u);
    }
  }
};
struct lane_f8_e4m3 : fmt_f8_e4m3 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  // Two numbers from the upper bytes of two words of 16 bits: exponent and mantissa are those of a float16 that is 2^8 times
  // smaller. All seven bits are NaN, where the factor gives 480: one bit of its exponent is missing.
  static FN u32 numbers2(u32 bytes) {
    u32 small = (bytes & 0x7f007f00u) >> 1, nan = (small + 0x00800080u) >> 1 & 0x20002000u;
    return mul2((bytes & 0x80008000u) | small, 0x5c005c00u) | nan;
  }
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 v = quarter(at, i, o, t);
      f.code[2 * i] = numbers2(pick_bytes(v, 0u, 0x2404u));
      f.code[2 * i + 1] = numbers2(pick_bytes(v, 0u, 0x3414u));
    }
  }
};

struct lane_q8_0 : fmt_q8_0 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    UNROLL for (int i = 0; i < 2; ++i) put_codes(quarter(at, i, o, t) ^ 0x80808080u, 128u, f.code + 2 * i);
    f.scale[0] = h2f(lane2(at + 32 * LANES, 0, o));
  }
};
struct lane_q4_0 : fmt_q4_0 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    put_nibbles(quarter(at, 0, o, t), 8u, f.code);
    f.scale[0] = h2f(lane2(at + 16 * LANES, 0, o));
  }
};
struct lane_q4_1 : fmt_q4_1 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
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
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    put_fives(quarter(at, 0, o, t), lane4(at + 16 * LANES, 0, o), t, 16u, f.code);
    f.scale[0] = h2f(lane2(at + 20 * LANES, 0, o));
  }
};
struct lane_q5_1 : fmt_q5_1 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
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
  to[0] = twice2(nibbles & 0x0f0f0f0fu, 0x4240u);
  to[1] = twice2(nibbles & 0x0f0f0f0fu, 0x4341u);
}
struct lane_mxfp4 : fmt_mxfp4 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    u32 v = quarter(at, 0, o, t);
    put_floats4(v, f.code);
    put_floats4(v >> 4, f.code + 2);
    u32 e = lane1(at + 16 * LANES, 0, o);
    f.scale[0] = f32_of(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
  }
};
struct lane_nvfp4 : fmt_nvfp4 {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int part, int o, int t, LOCAL Fragment& f) {
    u32 scales = lane4(at + 32 * LANES, 0, o) >> 16 * part;
    UNROLL for (int i = 0; i < 2; ++i) {
      // Eight bytes have 16 inputs: the low nibbles are the first eight.
      put_floats4(load4(at + (o * 16 + 4 * (t % 2)) + part * (16 * LANES) + 8 * i) >> 4 * (t / 2), f.code + 2 * i);
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
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int, int o, int t, LOCAL Fragment& f) {
    u32 v = quarter(at, 0, o, t);
    put_named(v, f.code);
    put_named(v >> 4, f.code + 2);
    f.scale[0] = h2f(lane2(at + 16 * LANES, 0, o));
  }
};
struct lane_iq4_xs : fmt_iq4_xs {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int part, int o, int t, LOCAL Fragment& f) {
    u32 v = quarter(at, part, o, t);
    put_named(v, f.code);
    put_named(v >> 4, f.code + 2);
    u32 dh = lane4(at + 128 * LANES, 0, o), low = lane4(at + 132 * LANES, 0, o) >> 4 * part & 15u;
    f.scale[0] = h2f((u16)dh) * (float)((int)(low | (dh >> (16 + 2 * part) & 3u) << 4) - 32);
  }
};
struct lane_q3_k : fmt_q3_k {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_BLOCK;
  static FN void fragment(DEV const u8* at, int part, int o, int t, LOCAL Fragment& f) {
    DEV const u8* packed = at + 96 * LANES;
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

struct lane_q6_k : fmt_q6_k {
  enum { BF16 = 0 };
  static constexpr Taken TAKEN = BY_HALF;
  // Four codes of 4 bits from `low` on and the two bits of `high` that belong to them, each a byte.
  static FN void put_sixes(u32 low, u32 high, int j, LOCAL u32* to) {
    u32 even = j % 2 ? high << 2 : high << 4, low8 = low >> 8, odd = j % 2 ? high >> 6 : high >> 4;
    if (j < 2) {
      to[0] = sub2(mask_or(low, 0x000f000fu, mask_or(even, 0x00300030u, 0x64006400u)), 0x64206420u);
      to[1] = sub2(mask_or(low8, 0x000f000fu, mask_or(odd, 0x00300030u, 0x64006400u)), 0x64206420u);
    } else {
      to[0] = fma2(mask_or(low, 0x00f000f0u, mask_or(even, 0x03000300u, 0x64006400u)), 0x2c002c00u, 0xd600d600u);
      to[1] = fma2(mask_or(low8, 0x00f000f0u, mask_or(odd, 0x03000300u, 0x64006400u)), 0x2c002c00u, 0xd600d600u);
    }
  }
  // Words of half of a super-block; its d, and what is less there.
  struct Half { u32 low[4], high[2], scale[2]; float d, less; };
  // Outputs o and o + 8, by the same three addresses.
  static FN void take_half(DEV const u8* at, int half_, int o, int t, Half (&w)[2]) {
    DEV const u8 *codes = at + (o * 16 + 4 * t), *marks = at + (192 * LANES + o * 16), *factor = at + (208 * LANES + o * 2);
    UNROLL for (int n = 0; n < 2; ++n) {
      UNROLL for (int i = 0; i < 4; ++i) w[n].low[i] = stream4(codes + half_ * (64 * LANES) + (i * (16 * LANES) + 128 * n));
      UNROLL for (int i = 0; i < 2; ++i) w[n].high[i] = stream4(codes + half_ * (32 * LANES) + ((128 + 16 * i) * LANES + 128 * n));
      UNROLL for (int i = 0; i < 2; ++i) w[n].scale[i] = stream4(marks + half_ * 8 + (4 * i + 128 * n)) ^ 0x80808080u;
      // 2^23 + 256 (scale + 128) is the float32 that ends in the byte and a zero: fma multiplies it by the 256th of d, takes
      // the rest away, and rounds nothing.
      w[n].d = h2f(load2(factor + 16 * n)) * 0.00390625f;
      w[n].less = w[n].d * -8421376.0f;
    }
  }
  // Brings the next 32 inputs where the first ones are.
  static FN void next_of_half(LOCAL Half& w) {
    UNROLL for (int i = 0; i < 2; ++i) {
      u32 first = w.low[i];
      w.low[i] = w.low[2 + i];
      w.low[2 + i] = first >> 4;
      w.high[i] = w.high[i] >> 2;
    }
    w.scale[0] = w.scale[0] >> 16 | w.scale[1] << 16;
    w.scale[1] = w.scale[1] >> 16;
  }
  // The j-th 32 inputs of a half.
  static FN void fragment(LOCAL const Half& w, int j, LOCAL Fragment& f) {
    UNROLL for (int i = 0; i < 2; ++i) put_sixes(w.low[j % 2 * 2 + i], w.high[i], j, f.code + 2 * i);
    UNROLL for (int i = 0; i < 2; ++i)
      f.scale[i] = fma(f32_of(pick_bytes(w.scale[j / 2], 0x4b000000u, 0x7404u + 16u * (u32)(j % 2 * 2 + i))), w.d, w.less);
  }
};
