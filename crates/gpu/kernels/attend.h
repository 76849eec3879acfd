// Paged attention for any width, mask and number type, whose bits depend neither on the batch nor on how a sequence was cut
// into steps.
//
// The law: cells are cut into units of 64 by their number. Inside a unit: a score is a chain of fma over the width; the
// largest and the sum of the weights by a fixed butterfly; values by a chain of fma in the order of cells. Units are joined in
// order. Cells that a row does not see are left out.
#pragma once
#include "cache.h"
CONST int UNIT = 64, HEADS = 4, TILE_ROW = 33;   // a block has 4 query heads of a key head; tiles of 64 cells x 32 numbers

// One part of the keys, or the values: where a cell's row begins inside a head of a page, and what it holds.
struct Stored { int at, row_bytes, type, width; };
// Queries of a part of the keys: batch row of the first row, distances in numbers, first number.
struct Queries { int from, row, head, at; };
enum MaskCode { MASK_CAUSAL, MASK_WINDOW, MASK_CHUNK, MASK_FULL };
struct AttendArgs {
  int first_row, group, heads, share, tiles;   // `share` query heads have a key head, in `tiles` of 4, or of 16
  int page_bytes, head_bytes;
  Stored key, rope, value;                     // rotary keys beside latents; width 0 for none
  Queries q, q_rope;
  int out_from, out_row, mask, span, has_sinks, slopes;   // `slopes`: place in the constants, -1 for none
  int units, stride, pass, last;               // units side by side: of a pass, blocks of a row, which pass, the last one
  float scale, softcap, slope_factor;
  int rows;                                    // of the launch, from `first_row` on
};
// What a row sees: cells `from` to `to`, of them those whose token lies in [low, high).
struct Sight { int from, to, low, high, index; DEV const int* map; DEV const int* table; };
FN Sight sight_of(DEV const int* step, AttendArgs a, int row) {
  DEV const int* seq = seq_of_row(step, row);
  Sight s;
  s.index = step_list(step, STEP_INDICES)[row];
  s.low = a.mask == MASK_WINDOW ? s.index + 1 - a.span : a.mask == MASK_CHUNK ? s.index / a.span * a.span : 0;
  if (s.low < 0) s.low = 0;
  s.high = a.mask == MASK_FULL ? seq[SEQ_LEN] : s.index + 1;
  // Rows of a picture that see one another both ways.
  int until = a.mask <= MASK_WINDOW ? step_list(step, STEP_SEES_UNTIL)[row] : 0;
  if (until > s.high) s.high = until;
  s.map = step + seq[SEQ_MAP];
  s.table = step + seq[SEQ_TABLES + a.group];
  bool mapped = seq[SEQ_MAP_LEN] >= 0;
  s.from = mapped ? 0 : s.low;
  s.to = mapped ? seq[SEQ_MAP_LEN] : s.high;
  if (!mapped) s.map = 0;
  return s;
}
// The token of a cell, or -1 where the row does not see it.
FN int token_of(Sight s, int cell) {
  if (cell < s.from || cell >= s.to) return -1;
  int token = s.map ? s.map[cell] : cell;
  return token >= s.low && token < s.high ? token : -1;
}
FN size_t place_of(Sight s, AttendArgs a, Stored part, int cell) {
  return (size_t)s.table[cell / PAGE] * a.page_bytes + part.at + (size_t)(cell % PAGE) * part.row_bytes;
}
// Numbers `c` to `c + 32` of the unit's rows; zeros for cells that are not seen.
FN void load_tile(DEV const u8* pages, Sight s, AttendArgs a, Stored part, int cell, bool seen, int c, int me, TG float* tile) {
  TG float* to = tile + me % UNIT * TILE_ROW + me / UNIT * 16;
  int first = c + me / UNIT * 16;
  if (seen && first < part.width) get_numbers(part.type, pages + place_of(s, a, part, cell), first, part.width, to);
  else for (int i = 0; i < 16; ++i) to[i] = 0.0f;
}
// Adds a part of the keys to the scores of two heads.
FN void add_scores(DEV const float* q, int q_head, DEV const u8* pages, Sight s, AttendArgs a, Stored part, int cell, bool seen,
                   int heads, int me, TG float* tile, LOCAL float* dot) {
  for (int c = 0; c < part.width; c += 32) {
    load_tile(pages, s, a, part, cell, seen, c, me, tile);
    BARRIER();
    int n = part.width - c < 32 ? part.width - c : 32;
    UNROLL for (int h = 0; h < 2; ++h) {
      int head = me / UNIT * 2 + h;
      if (head < heads) for (int i = 0; i < n; ++i) dot[h] = fma(q[head * q_head + c + i], tile[me % UNIT * TILE_ROW + i], dot[h]);
    }
    BARRIER();
  }
}
// Weights of a unit: `s` of a warp's head from scores to e^(score - largest); their largest and sum.
FN void unit_weights(TG float* scores, int lane, TG float* best, TG float* sum) {
  float u = scores[lane], v = scores[lane + 32], most = max_(u, v);
  for (int m = 1; m < 32; m *= 2) most = max_(most, lane_xor(most, m));
  float p = exp_(u - most), q = exp_(v - most), total = p + q;
  for (int m = 1; m < 32; m *= 2) total = total + lane_xor(total, m);
  scores[lane] = p;
  scores[lane + 32] = q;
  if (lane == 0) { best[0] = most; sum[0] = total; }
}
// The heads of a block: a row and up to 4 query heads of a key head.
struct HeadTile { int row, key_head, first, heads; };
FN HeadTile tile_of(AttendArgs a, int block, int row) {
  HeadTile t;
  int in_group = block % a.tiles * HEADS;
  t.row = row;
  t.key_head = block / a.tiles;
  t.first = t.key_head * a.share + in_group;
  t.heads = a.share - in_group < HEADS ? a.share - in_group : HEADS;
  return t;
}
#define ATTEND_IN BUF(0, const int, step), BUF(1, const float, q), BUF(2, const float, q_rope), BUF(3, const u8, pages), BUF(4, const float, constants)
#define ATTEND_SHARED SHARED float tile[UNIT * TILE_ROW]; SHARED float scores[HEADS * UNIT]; SHARED float best[HEADS]; SHARED float sum[HEADS]; SHARED int live[UNIT]
// Weights of unit `u`; false where the row sees none of its cells, which is the same for all threads.
FN bool weigh_unit(DEV const float* q, DEV const float* q_rope, DEV const u8* own, DEV const float* constants, Sight s, AttendArgs a,
                   HeadTile t, int u, int me, TG float* tile, TG float* scores, TG float* best, TG float* sum, TG int* live) {
  int cell = u * UNIT + me % UNIT, token = token_of(s, cell), warp = me / 32;
  float dot[2] = {0.0f, 0.0f};
  DEV const float* mine = q + (size_t)(t.row - a.q.from) * a.q.row + t.first * a.q.head + a.q.at;
  DEV const float* turned = q_rope + (size_t)(t.row - a.q_rope.from) * a.q_rope.row + t.first * a.q_rope.head + a.q_rope.at;
  add_scores(mine, a.q.head, own, s, a, a.key, cell, token >= 0, t.heads, me, tile, dot);
  add_scores(turned, a.q_rope.head, own, s, a, a.rope, cell, token >= 0, t.heads, me, tile, dot);
  UNROLL for (int h = 0; h < 2; ++h) {
    int head = me / UNIT * 2 + h;
    float score = dot[h] * a.scale;
    if (a.softcap > 0.0f) score = a.softcap * tanh_(score / a.softcap);
    if (a.slopes >= 0 && head < t.heads) {
      int far = s.index > token ? s.index - token : token - s.index;
      score = fma(0.0f - constants[a.slopes + t.first + head] * a.slope_factor, (float)far, score);
    }
    scores[head * UNIT + me % UNIT] = token >= 0 ? score : 0.0f - infinity();
  }
  if (me < UNIT) live[me] = token >= 0 ? 1 : 0;
  BARRIER();
  int any = s.map ? 0 : 1;   // cells in order: the units that are looked at hold some
  if (s.map) for (int i = 0; i < UNIT; ++i) any |= live[i];
  if (any) unit_weights(scores + warp * UNIT, me % 32, best + warp, sum + warp);
  BARRIER();
  return any != 0;
}
// Largest score and sum of weights so far. `before` and `now`: factors on what was joined, and on what is.
struct Joined { float most, sum, before, now; bool begun; };
FN Joined nothing_joined() {
  Joined j = {0.0f, 0.0f, 0.0f, 1.0f, false};
  return j;
}
FN Joined join_sums(Joined j, float most, float sum) {
  float top = j.begun ? max_(j.most, most) : most;
  j.before = j.begun ? exp_(j.most - top) : 0.0f;
  j.now = j.begun ? exp_(most - top) : 1.0f;
  j.sum = j.begun ? fma(j.sum, j.before, sum * j.now) : sum;
  j.most = top;
  return j;
}
FN float join_value(Joined j, float joined, float v) { return j.begun ? fma(joined, j.before, v * j.now) : v; }
// Values of a unit by its weights: a warp has a head, a lane a number. Joined to what is there, or put beside other units.
FN void mix_unit(DEV const u8* own, Sight s, AttendArgs a, HeadTile t, int u, int me, bool apart, Joined j,
                 TG float* tile, TG float* scores, TG int* live, DEV float* to) {
  int cell = u * UNIT + me % UNIT, warp = me / 32, lane = me % 32;
  // Cells in order are seen without gaps.
  int from = s.from > u * UNIT ? s.from - u * UNIT : 0, to_cell = s.to < (u + 1) * UNIT ? s.to - u * UNIT : UNIT;
  for (int c = 0; c < a.value.width; c += 32) {
    load_tile(own, s, a, a.value, cell, live[me % UNIT] != 0, c, me, tile);
    BARRIER();
    if (warp < t.heads && c + lane < a.value.width) {
      float v = 0.0f;
      if (s.map) {
        for (int i = 0; i < UNIT; ++i) if (live[i]) v = fma(scores[warp * UNIT + i], tile[i * TILE_ROW + lane], v);
      } else {
        for (int i = from; i < to_cell; ++i) v = fma(scores[warp * UNIT + i], tile[i * TILE_ROW + lane], v);
      }
      to[c + lane] = apart ? v : join_value(j, j.begun ? to[c + lane] : 0.0f, v);
    }
    BARRIER();
  }
}
// The share that a sink takes: one more logit without a value. Gives the factor on values.
FN float share_of(LOCAL Joined& j, DEV const float* sinks, AttendArgs a, int head) {
  if (!a.has_sinks) return 1.0f;
  float top = max_(j.most, sinks[head]), shrink = exp_(j.most - top);
  j.sum = fma(j.sum, shrink, exp_(sinks[head] - top));
  return shrink;
}

// Units in turn: for many rows.   grid: key heads * tiles, 1, rows
KERNEL(128, 4) attend(ATTEND_IN, BUF(5, const float, sinks), BUF(6, float, out), ARGS(7, AttendArgs, a)) {
  ATTEND_SHARED;
  int row = a.first_row + (int)BLOCK.z, me = (int)THREAD, warp = me / 32;
  if (row >= step[STEP_ROWS]) return;
  HeadTile t = tile_of(a, (int)BLOCK.x, row);
  Sight s = sight_of(step, a, row);
  DEV const u8* own = pages + (size_t)t.key_head * a.head_bytes;
  DEV float* to = out + (size_t)(row - a.out_from) * a.out_row + (t.first + warp) * a.value.width;
  Joined j = nothing_joined();
  for (int u = s.from / UNIT; u * UNIT < s.to; ++u) {
    if (!weigh_unit(q, q_rope, own, constants, s, a, t, u, me, tile, scores, best, sum, live)) continue;
    Joined next = join_sums(j, best[warp], sum[warp]);
    mix_unit(own, s, a, t, u, me, false, next, tile, scores, live, to);
    next.begun = true;
    j = next;
  }
  if (warp >= t.heads) return;
  float shrink = share_of(j, sinks, a, t.first + warp);
  for (int c = me % 32; c < a.value.width; c += 32) to[c] = to[c] * shrink / j.sum;
}
// A unit apart: [numbers of a value][largest score, sum of weights]; a sum below 0 says that nothing of it is seen.
FN DEV float* part_of_unit(DEV float* parts, AttendArgs a, int row, int head, int i) {
  return parts + (((size_t)(row - a.first_row) * a.heads + head) * a.units + i) * (a.value.width + 2);
}
// Units side by side: for few rows. A pass has the units that there is room for, from the first one that the row sees on;
// each of `stride` blocks takes every stride-th of them.   grid: key heads * tiles, stride, rows
KERNEL(128, 4) attend_units(ATTEND_IN, BUF(5, float, parts), ARGS(6, AttendArgs, a)) {
  ATTEND_SHARED;
  int row = a.first_row + (int)BLOCK.z, me = (int)THREAD, warp = me / 32;
  if (row >= step[STEP_ROWS]) return;
  HeadTile t = tile_of(a, (int)BLOCK.x, row);
  Sight s = sight_of(step, a, row);
  DEV const u8* own = pages + (size_t)t.key_head * a.head_bytes;
  int first = s.from / UNIT + a.pass * a.units;
  for (int i = (int)BLOCK.y; i < a.units && (first + i) * UNIT < s.to; i += a.stride) {
    bool seen = weigh_unit(q, q_rope, own, constants, s, a, t, first + i, me, tile, scores, best, sum, live);
    DEV float* to = part_of_unit(parts, a, row, warp < t.heads ? t.first + warp : t.first, i);
    if (seen) mix_unit(own, s, a, t, first + i, me, true, nothing_joined(), tile, scores, live, to);
    if (me % 32 == 0 && warp < t.heads) {
      to[a.value.width] = best[warp];
      to[a.value.width + 1] = seen ? sum[warp] : -1.0f;
    }
    BARRIER();
  }
}
// Joins the units of a pass in order. What was joined in passes before stands in `out`, with two numbers a head in `sums`.
// grid: heads, 1, rows
KERNEL(128, 8) attend_join(BUF(0, const int, step), BUF(1, const float, sinks), BUF(2, float, parts), BUF(3, float, sums), BUF(4, float, out), ARGS(5, AttendArgs, a)) {
  int row = a.first_row + (int)BLOCK.z, head = (int)BLOCK.x;
  if (row >= step[STEP_ROWS]) return;
  Sight s = sight_of(step, a, row);
  DEV float* kept = sums + ((size_t)(row - a.first_row) * a.heads + head) * 4 + a.pass % 2 * 2;
  DEV float* next = sums + ((size_t)(row - a.first_row) * a.heads + head) * 4 + (a.pass + 1) % 2 * 2;
  DEV float* to = out + (size_t)(row - a.out_from) * a.out_row + head * a.value.width;
  int first = s.from / UNIT + a.pass * a.units;
  for (int c = (int)THREAD; c < a.value.width; c += 128) {
    Joined j = nothing_joined();
    float v = 0.0f;
    if (a.pass > 0 && !(kept[1] < 0.0f)) { j.most = kept[0]; j.sum = kept[1]; j.begun = true; v = to[c]; }
    for (int i = 0; i < a.units && (first + i) * UNIT < s.to; ++i) {
      DEV float* p = part_of_unit(parts, a, row, head, i);
      if (p[a.value.width + 1] < 0.0f) continue;
      j = join_sums(j, p[a.value.width], p[a.value.width + 1]);
      v = join_value(j, v, p[c]);
      j.begun = true;
    }
    if (c == 0) { next[0] = j.most; next[1] = j.begun ? j.sum : -1.0f; }
    float shrink = a.last ? share_of(j, sinks, a, head) : 1.0f;
    to[c] = a.last ? v * shrink / j.sum : v;
  }
}
