// Weights as products and look-ups read them: panels of 32 outputs, whose lanes lie beside one another.
//
// A panel is a row of blocks of `INPUTS` inputs. Each field of a block (codes, scales, ..) is cut into words of 1, 2, 4 or 16
// bytes; word i of lane l lies at (32 i + l) words behind the field's start, so that 32 lanes read neighbouring bytes. The
// fields of a format stand in crates/gpu/src/format.rs; a file of formats/ reads them.
#pragma once
#include "dialect.h"
CONST int LANES = 32;

// 32 inputs of an output: weight = scale * code + offset, with a scale and an offset for all of them or for each half. Formats
// without scales have the weights themselves as codes. `SCALES` and `OFFSET` of a format say how many of both a block has.
struct Block32 { float code[32]; float scale[2]; float offset[2]; };

FN uint4 lane16(DEV const u8* field, int i, int lane) { return load16(field + (i * LANES + lane) * 16); }
FN u32 lane4(DEV const u8* field, int i, int lane) { return load4(field + (i * LANES + lane) * 4); }
FN u16 lane2(DEV const u8* field, int i, int lane) { return load2(field + (i * LANES + lane) * 2); }
FN u32 lane1(DEV const u8* field, int i, int lane) { return field[i * LANES + lane]; }

FN u32 word_of(uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
FN u32 byte_of(uint4 v, int i) { return word_of(v, i / 4) >> 8 * (i % 4) & 255u; }

// Codes of `bits` bits from `shift` on of 16 bytes, less `zero`.
FN void codes16(uint4 v, int shift, u32 mask, int zero, LOCAL float* to) {
  UNROLL for (int i = 0; i < 16; ++i) to[i] = (float)((int)(byte_of(v, i) >> shift & mask) - zero);
}
// Two nibbles of 16 bytes: 32 codes, the low ones first.
FN void nibbles16(uint4 v, int zero, LOCAL float* to) {
  codes16(v, 0, 15u, zero, to);
  codes16(v, 4, 15u, zero, to + 16);
}
// 32 codes of 5 bits: nibbles of 16 bytes, and a fifth bit for each code in turn.
FN void fives32(uint4 low, u32 high, int zero, LOCAL float* to) {
  UNROLL for (int i = 0; i < 32; ++i) {
    u32 code = (byte_of(low, i % 16) >> i / 16 * 4 & 15u) | (high >> i & 1u) << 4;
    to[i] = (float)((int)code - zero);
  }
}
// The two halves of a format that has 32 inputs in one block, and 32 of the 256 inputs of a super-block.
FN int block_of(int k, int inputs) { return k / (inputs / 32); }
FN int part_of(int k, int inputs) { return k % (inputs / 32); }
