// Latent attention (MLA, absorbed) on tensor cores: latents of 16 to 512 numbers in steps of 16, whose rotary keys bring their
// width to 576 at most, in pages of float16, bfloat16 or FP8.
//
// The law is that of attend_tensor.h, and so is all that is not here: units of 64 cells, each from 0, joined in order; query
// heads as rows of mma, cut into parts of 16 bits. Only a score is added up otherwise: the numbers of latent and rotary key are
// cut into 4 pieces by their number alone, a piece adds 16 after 16 others, and pieces are added as (0 + 2) + (1 + 3).
//
// A warp has a piece of all 64 cells, so that its queries stay in its registers for all units: beside the values that are
// joined, 32 kB for 16 rows, there is no room for them in shared memory. Latents are read straight from pages, first as keys,
// then as values.
#pragma once
#include "attend_tensor.h"

// Steps of 16 numbers of a piece, numbers of a value, and cells of an operand of mma.
CONST int LATENT_STEPS = 9, LATENT_VALUES = 512, MMA_CELLS = 8, UNIT_OPERANDS = UNIT / MMA_CELLS;
// Scores of two pieces lie beside one another.
CONST int SCORE_PIECES = 2, PIECE_SCORES = MMA * SCORE_ROW;

// How a lane keeps 8 numbers of its queries, four of row g and four of row g + 8, and gives a part of them as an A operand.
template <class L> struct LatentQuery {
  // Two float16: what the number is near to, then what that leaves.
  static FN void keep(const float (&v)[8], u32 (&to)[8]) {
    UNROLL for (int i = 0; i < 4; ++i) {
      float low = v[i % 2 * 4 + i / 2 * 2], high = v[i % 2 * 4 + i / 2 * 2 + 1];
      u16 a = f2h(low), b = f2h(high);
      to[i] = a | (u32)b << 16;
      to[4 + i] = f2h(low - h2f(a)) | (u32)f2h(high - h2f(b)) << 16;
    }
  }
  static FN uint4 part(const u32 (&q)[8], int p) {
    uint4 a = {q[4 * p], q[4 * p + 1], q[4 * p + 2], q[4 * p + 3]};
    return a;
  }
};
// Three bfloat16 take more registers than there are: float32 are kept, and cut each time. Each part is the upper half of what
// is left, which takes nothing away from the 24 bits of all three.
template <> struct LatentQuery<pages_bf16> {
  static FN void keep(const float (&v)[8], u32 (&to)[8]) {
    UNROLL for (int i = 0; i < 8; ++i) to[i] = bits_of(v[i]);
  }
  static FN u32 rest(u32 v, int p) {
    UNROLL for (int i = 0; i < p; ++i) v = bits_of(f32_of(v) - f32_of(v & 0xffff0000u));
    return v;
  }
  static FN u32 two(const u32 (&q)[8], int i, int p) { return pick_bytes(rest(q[i], p), rest(q[i + 1], p), 0x7632u); }
  static FN uint4 part(const u32 (&q)[8], int p) {
    uint4 a = {two(q, 0, p), two(q, 4, p), two(q, 2, p), two(q, 6, p)};
    return a;
  }
};

// Number `at` of the query of a row of mma: of what goes with the latent, then of what goes with the rotary key.
FN float latent_query(DEV const float* q, DEV const float* q_rope, AttendArgs a, TG const AttendRow& r, int at) {
  int turned = at - a.key.width;
  if (turned < 0) return q[(size_t)(r.row - a.q.from) * a.q.row + r.head * a.q.head + a.q.at + at];
  return q_rope[(size_t)(r.row - a.q_rope.from) * a.q_rope.row + r.head * a.q_rope.head + a.q_rope.at + turned];
}
// Steps of a warp's piece: the first one, and how many.
struct LatentPiece { int first, count; };
FN LatentPiece piece_of(AttendArgs a, int warp) {
  int steps = (a.key.width + a.rope.width) / MMA;
  LatentPiece p = {steps * warp / ATTEND_WARPS, 0};
  p.count = steps * (warp + 1) / ATTEND_WARPS - p.first;
  return p;
}
// A lane's share of the queries, times the power of two that the largest number of a row asks for. `most`: shared memory, a
// number for each row of each warp.
template <class L> FN void take_queries(DEV const float* q, DEV const float* q_rope, AttendArgs a, LatentPiece piece, int me,
                                        TG AttendRow* rows, TG float* most, u32 (&query)[LATENT_STEPS][8]) {
  int lane = me % 32, g = lane / 4, t = lane % 4;
  float largest[2] = {0.0f, 0.0f}, factor[2];
  UNROLL for (int k = 0; k < LATENT_STEPS; ++k) {
    UNROLL for (int i = 0; i < 8; ++i) {
      TG const AttendRow& r = rows[g + i / 4 * 8];
      bool there = k < piece.count && r.row >= 0;
      float v = there ? latent_query(q, q_rope, a, r, (piece.first + k) * MMA + 4 * t + i % 4) : 0.0f;
      query[k][i] = bits_of(v);
      largest[i / 4] = max_(largest[i / 4], abs_(v));
    }
  }
  UNROLL for (int h = 0; h < 2; ++h) {
    for (int m = 1; m < 4; m *= 2) largest[h] = max_(largest[h], lane_xor(largest[h], m));
    if (t == 0) most[me / 32 * MMA + g + 8 * h] = largest[h];
  }
  BARRIER();
  UNROLL for (int h = 0; h < 2; ++h) {
    TG const float* of = most + g + 8 * h;
    int e = L::BF16 ? 0 : half_exponent(max_(max_(of[0], of[MMA]), max_(of[2 * MMA], of[3 * MMA])));
    factor[h] = f32_of((u32)(127 - e) << 23);
    if (me < 32 && t == 0) rows[g + 8 * h].undo = f32_of((u32)(127 + e) << 23);
  }
  UNROLL for (int k = 0; k < LATENT_STEPS; ++k) {
    float v[8];
    UNROLL for (int i = 0; i < 8; ++i) v[i] = f32_of(query[k][i]) * factor[i / 4];
    LatentQuery<L>::keep(v, query[k]);
  }
  // Scores go where the largest numbers are.
  BARRIER();
}

// A warp's piece of the scores of all cells. Nobody looks at those of cells that no row sees, whatever their pages hold.
template <class L> FN void score_piece(AttendUnit u, AttendArgs a, LatentPiece piece, const u32 (&query)[LATENT_STEPS][8], int lane,
                                       float (&dot)[UNIT_OPERANDS][4]) {
  int g = lane / 4, t = lane % 4, latents = a.key.width / MMA;
  UNROLL for (int i = 0; i < UNIT_OPERANDS * 4; ++i) dot[i / 4][i % 4] = 0.0f;
  UNROLL for (int k = 0; k < LATENT_STEPS; ++k) {
    if (k >= piece.count) break;
    // All that follows from it, over all steps, would take more registers than there are.
    int step = not_kept(piece.first + k);
    bool turned = step >= latents;
    int row_bytes = turned ? a.rope.row_bytes : a.key.row_bytes, at = (turned ? step - latents : step) * MMA + 4 * t;
    int begin = (turned ? a.rope.at : a.key.at) + g * row_bytes;
    u32 key[UNIT_OPERANDS][2][1];
    UNROLL for (int h = 0; h < 2; ++h) {
      DEV const u8* row = u.pages[h] + begin;
      UNROLL for (int n = 0; n < UNIT_OPERANDS / 2; ++n) {
        L::four(a.key.type, row, at, key[UNIT_OPERANDS / 2 * h + n]);
        row += MMA_CELLS * row_bytes;
      }
    }
    UNROLL for (int p = 0; p < L::PARTS; ++p) {
      uint4 part = LatentQuery<L>::part(query[k], p);
      UNROLL for (int n = 0; n < UNIT_OPERANDS; ++n) mma_pages<L>(dot[n], part, key[n][0][0], key[n][1][0]);
    }
  }
}
// Scores of the pieces, added in twos: (0 + 2) and (1 + 3).
FN void put_pieces(const float (&dot)[UNIT_OPERANDS][4], int me, TG float* scores) {
  int lane = me % 32, g = lane / 4, t = lane % 4;
  TG float* to = scores + me / 32 % SCORE_PIECES * PIECE_SCORES + g * SCORE_ROW + 2 * t;
  bool first = me / 32 >= SCORE_PIECES;
  if (first) {
    UNROLL for (int i = 0; i < UNIT_OPERANDS * 4; ++i) to[i % 4 / 2 * 8 * SCORE_ROW + i / 4 * MMA_CELLS + i % 2] = dot[i / 4][i % 4];
  }
  BARRIER();
  if (first) return;
  UNROLL for (int i = 0; i < UNIT_OPERANDS * 4; ++i) {
    TG float* one = to + i % 4 / 2 * 8 * SCORE_ROW + i / 4 * MMA_CELLS + i % 2;
    one[0] = dot[i / 4][i % 4] + one[0];
  }
}

template <class L> FN void attend_latents(DEV const int* step, DEV const float* q, DEV const float* q_rope, DEV const u8* pages,
                                          DEV const float* constants, DEV const float* sinks, DEV float* parts, DEV float* out,
                                          AttendArgs a, AttendBlock b, int y, int me, AttendShared in) {
  LatentPiece piece = piece_of(a, me / 32);
  u32 query[LATENT_STEPS][8];
  Sight s = place_rows<1>(step, a, b, me, in);
  take_queries<L>(q, q_rope, a, piece, me, in.rows, in.scores, query);
  sight_of_block(b, s, in.rows, MMA);
  bool side = a.units > 0;
  int first = b.from / UNIT + a.pass * a.units, stride = side ? a.stride : 1;
  UNROLL_1 for (int i = side ? y : 0; (first + i) * UNIT < b.to && !(side && i >= a.units); i += stride) {
    AttendUnit u = unit_of(pages, s, a, b, first + i);
    float dot[UNIT_OPERANDS][4];
    int now = not_kept(me);
    score_piece<L>(u, a, piece, query, now % 32, dot);
    put_pieces(dot, now, in.scores);
    if (!u.alike) look_for_wild<L>(u, s, a, b, me, in.wild);
    BARRIER();
    bool wild = in.wild[0] == u.number;
    UNROLL_1 for (int r = me / 32; r < MMA; r += ATTEND_WARPS) {
      if (in.rows[r].row >= 0) weigh_row<L, SCORE_PIECES>(constants, s, a, b, u, in.rows[r], me % 32, in.scores + r * SCORE_ROW);
    }
    BARRIER();
    mix_rows<L, 1>(u, s, a, b, 1, i, wild, now, in, parts);
    if (side && me < MMA) put_unit_sums(a, in.rows[me], i, parts);
    // Scores of the next unit go where the weights of this one are.
    BARRIER();
  }
  if (!side) write_rows<1>(sinks, a, me, in, out);
}

// grid: heads / 16, 1 or blocks of a row's units, rows
#define ATTEND_LATENT(name, pages_of, blocks) \
KERNEL(128, blocks) name(BUF(0, const int, step), BUF(1, const float, q), BUF(2, const float, q_rope), BUF(3, const u8, pages), \
                    BUF(4, const float, constants), BUF(5, const float, sinks), BUF(6, float, parts), BUF(7, float, out), \
                    ARGS(8, AttendArgs, a)) { \
  SHARED float scores[SCORE_PIECES * PIECE_SCORES]; \
  SHARED float joined[LATENT_VALUES * MMA]; \
  SHARED AttendRow rows[MMA]; \
  SHARED int wild[1]; \
  int row = a.first_row + (int)BLOCK.z; \
  if (row >= step[STEP_ROWS]) return; \
  AttendBlock b; \
  if (!block_of_row(step, a, (int)BLOCK.x, row, 1, b)) return; \
  AttendShared in = {rows, 0, scores, joined, wild}; \
  attend_latents<pages_of>(step, q, q_rope, pages, constants, sinks, parts, out, a, b, (int)BLOCK.y, (int)THREAD, in); \
}
ATTEND_LATENT(attend_latent_f16, pages_f16, 3)
ATTEND_LATENT(attend_latent_f8, pages_f8, 3)
#ifndef ONLY_F16_CORES
ATTEND_LATENT(attend_latent_bf16, pages_bf16, 2)
#endif
