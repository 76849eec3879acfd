// Paged attention on tensor cores: for NVIDIA devices, heads of 16 to 256 numbers in steps of 16, pages of all types but float32.
//
// The law is that of attend.h: units of 64 cells by number, each computed from 0, joined in order. Inside a unit, a score adds
// 16 numbers of the head after 16 others, the largest score and the sum of weights come by the same butterfly, and a value
// adds 16 cells after 16 others. Rows of mma are query heads of a key head, and rows of its sequence; they do not see one
// another, and those that are missing are zeros. So a row has the same bits alone as among thousands.
//
// Queries and weights are float32, mma takes 16 bits: they are cut into the nearest 16-bit number and the nearest of what is
// left. Two float16 hold 22 bits of numbers that lie close enough to one another: a query is multiplied by the power of two
// that halves.h gives rows, a weight, which is 1 at most, by 2^15, so that what is lost is 2^-23 of the number or 2^-39 of the
// largest one. Three bfloat16 hold all 24 bits of a query; weights have two, which lose 2^-17, where values are known to 2^-9.
// Of stored numbers in two parts, the product of both second parts is left out: 2^-22 of the first ones' at most. Sums of
// weights are those of the weights in float32.
//
// A value that is not finite times a weight of 0 is no number, and a row must not feel what it does not see: where rows of a
// block see different cells, and such a value is among them, one row after another is mixed, with the cells that it sees.
#pragma once
#include "attend.h"
#include "halves.h"
#include "stored_pairs.h"

CONST int MMA = 16, ATTEND_WARPS = 4, ATTEND_THREADS = 32 * ATTEND_WARPS;
// Numbers of a block's queries, and of what it joins, for each row of a tile.
CONST int ATTEND_NUMBERS = 256;
CONST float WEIGHT_FACTOR = 32768.0f;
// Words of a row of scores, which its weights take over as two parts; a few more, so that few rows share a bank.
CONST int WEIGHT_PARTS = 2, SCORE_ROW = UNIT + 8;

// A row of mma: the row of the batch (-1: none) and the query head that it belongs to, what they see, and what is joined.
struct AttendRow {
  int row, head, low, high, index;
  float undo;
  bool seen;       // something of the unit at hand
  Joined joined;   // with the unit at hand; `begun` tells whether there was one before
};
// Rows of mma of a block: query heads `first` to `first + heads` of a key head for each of `rows` rows from `row` on, `per` of
// them in 16 rows of mma. They see cells `from` to `to` altogether, and tokens in [low, high); all of them those in
// [all_low, all_high).
struct AttendBlock { int row, rows, per, key_head, first, heads, from, to, low, high, all_low, all_high; };
// A unit at hand: its number, where the pages of its halves begin, and whether all rows see the same of it.
struct AttendUnit { int number; DEV const u8* pages[2]; bool alike; };
// Shared memory of a block. `joined`: values of a lane of `mix_pair` side by side.
struct AttendShared { TG AttendRow* rows; TG u16* queries; TG float* scores; TG float* joined; TG int* wild; };

// Rows of a sequence are cut into blocks by their number among those of the launch; the block of another row than the first has
// nothing to do.
FN bool block_of_row(DEV const int* step, AttendArgs a, int x, int row, int tiles, LOCAL AttendBlock& b) {
  DEV const int* seq = seq_of_row(step, row);
  int begin = seq[SEQ_FIRST_ROW], end = begin + seq[SEQ_ROWS];
  if (begin < a.first_row) begin = a.first_row;
  if (end > a.first_row + a.rows) end = a.first_row + a.rows;
  int most = a.share < MMA ? a.share : MMA, in_share = x % a.tiles * MMA, number = row - begin;
  b.row = row;
  b.per = MMA / most;
  b.key_head = x / a.tiles;
  b.first = b.key_head * a.share + in_share;
  b.heads = a.share - in_share < most ? a.share - in_share : most;
  // Side by side, a row's units have scratch memory of their own, counted from the first one that the row sees.
  bool side = a.units > 0;
  b.rows = side ? 1 : b.per * tiles < end - row ? b.per * tiles : end - row;
  return side || number % (b.per * tiles) == 0;
}
// Row of the batch that row `i` of mma is for, or -1; its head is counted in `head`.
FN int row_of(AttendBlock b, AttendArgs a, int i, LOCAL int& head) {
  int most = a.share < MMA ? a.share : MMA, in = i % MMA / most, number = i / MMA * b.per + in;
  head = i % MMA % most;
  return in < b.per && number < b.rows && head < b.heads ? b.row + number : -1;
}
// Place of row i and column k of a 16x16 A operand among the numbers of a warp: lane t of four has columns 4t to 4t + 3, which
// are rows 4t to 4t + 3 of the B operand, so that a lane's share lies side by side in pages. (emu.h says what lanes hold.)
FN int place_in_a(int i, int k) { return ((i % 8 * 4 + k / 4) * 4 + i / 8 + k % 4 / 2 * 2) * 2 + k % 2; }

// The parts of a number, `apart` places behind one another.
template <class L> FN void put_parts(float v, int parts, TG u16* to, int apart) {
  UNROLL for (int p = 0; p < parts; ++p) {
    u16 part = L::BF16 ? bf16_of(v) : f2h(v);
    to[p * apart] = part;
    v = v - (L::BF16 ? f32_of((u32)part << 16) : h2f(part));
  }
}

// Queries of a row of mma as parts, by a warp.
template <class L> FN void put_query(DEV const float* q, AttendArgs a, TG AttendRow& r, int i, int lane, TG u16* queries) {
  int width = a.key.width;
  DEV const float* from = q + (size_t)(r.row - a.q.from) * a.q.row + r.head * a.q.head + a.q.at;
  float most = 0.0f;
  UNROLL_1 for (int k = lane; k < width; k += 32) most = max_(most, abs_(from[k]));
  for (int m = 1; m < 32; m *= 2) most = max_(most, lane_xor(most, m));
  int e = L::BF16 ? 0 : half_exponent(most);
  float factor = f32_of((u32)(127 - e) << 23);
  UNROLL_1 for (int k = lane; k < width; k += 32) {
    int fragment = (i / MMA * (width / MMA) + k / MMA) * L::PARTS;
    put_parts<L>(from[k] * factor, L::PARTS, queries + fragment * MMA * MMA + place_in_a(i % MMA, k % MMA), MMA * MMA);
  }
  if (lane == 0) r.undo = f32_of((u32)(127 + e) << 23);
}
// What each row of mma is for, and what it sees.
template <int TILES> FN Sight place_rows(DEV const int* step, AttendArgs a, AttendBlock b, int me, AttendShared in) {
  int head = 0, row = me < TILES * MMA ? row_of(b, a, me, head) : -1;
  // All rows are of one sequence: its cells and pages are the same for all threads.
  Sight s = sight_of(step, a, row < 0 ? b.row : row);
  AttendRow r = {row, b.first + head, s.low, s.high, s.index, 1.0f, false, nothing_joined()};
  if (me < TILES * MMA) in.rows[me] = r;
  if (me == 0) in.wild[0] = -1;
  BARRIER();
  return s;
}
// The same, and their queries.
template <class L, int TILES> FN Sight begin_rows(DEV const int* step, DEV const float* q, AttendArgs a, AttendBlock b, int me, AttendShared in) {
  uint4 none = {0, 0, 0, 0};
  UNROLL_1 for (int i = me; i < ATTEND_NUMBERS * MMA * L::PARTS / 8; i += ATTEND_THREADS) ((TG uint4*)in.queries)[i] = none;
  Sight s = place_rows<TILES>(step, a, b, me, in);
  UNROLL_1 for (int i = me / 32; i < TILES * MMA; i += ATTEND_WARPS) {
    if (in.rows[i].row >= 0) put_query<L>(q, a, in.rows[i], i, me % 32, in.queries);
  }
  BARRIER();
  return s;
}
// What the rows of a block see, altogether and all of them.
FN void sight_of_block(LOCAL AttendBlock& b, Sight s, TG const AttendRow* rows, int count) {
  b.low = b.all_low = rows[0].low;
  b.high = b.all_high = rows[0].high;
  UNROLL_1 for (int i = 1; i < count; ++i) {
    if (rows[i].row < 0) continue;
    if (rows[i].low < b.low) b.low = rows[i].low;
    if (rows[i].low > b.all_low) b.all_low = rows[i].low;
    if (rows[i].high > b.high) b.high = rows[i].high;
    if (rows[i].high < b.all_high) b.all_high = rows[i].high;
  }
  b.from = s.map ? 0 : b.low;
  b.to = s.map ? s.to : b.high;
}
// Pages that no row sees may not be there.
FN AttendUnit unit_of(DEV const u8* own, Sight s, AttendArgs a, AttendBlock b, int number) {
  AttendUnit u;
  u.number = number;
  UNROLL for (int h = 0; h < 2; ++h) {
    int page = number * (UNIT / PAGE) + h;
    bool there = page * PAGE < b.to && (page + 1) * PAGE > b.from;
    u.pages[h] = own + (there ? (size_t)s.table[page] * a.page_bytes : 0);
  }
  bool whole = !s.map && number * UNIT >= b.all_low && (number + 1) * UNIT <= b.all_high;
  u.alike = whole || (b.low == b.all_low && b.high == b.all_high);
  return u;
}
// True for a cell that is read: the token in it is one that some row may see.
FN bool reads_cell(AttendBlock b, Sight s, int cell) {
  if (cell < b.from || cell >= b.to) return false;
  int token = s.map ? s.map[cell] : cell;
  return token >= b.low && token < b.high;
}
// The token of a cell, or -1 where a row of mma does not see it.
FN int token_of_row(TG const AttendRow& r, AttendBlock b, Sight s, int cell) {
  if (cell < b.from || cell >= b.to) return -1;
  int token = s.map ? s.map[cell] : cell;
  return token >= r.low && token < r.high ? token : -1;
}

// Products of queries and keys: a warp has 16 cells of the unit.
template <class L, int TILES> FN void score_unit(AttendUnit u, Sight s, AttendArgs a, AttendBlock b, int tiles, int me, AttendShared in) {
  int lane = me % 32, g = lane / 4, t = lane % 4, first = me / 32 * MMA, steps = a.key.width / MMA;
  DEV const u8* row[2];
  bool there[2];
  float dot[TILES][2][4];
  UNROLL for (int n = 0; n < 2; ++n) {
    int cell = first + 8 * n + g;
    there[n] = reads_cell(b, s, u.number * UNIT + cell);
    row[n] = (me < 64 ? u.pages[0] : u.pages[1]) + a.key.at + cell % PAGE * a.key.row_bytes;
    UNROLL for (int i = 0; i < TILES * 4; ++i) dot[i / 4][n][i % 4] = 0.0f;
  }
  UNROLL_OF(L::AHEAD / 2) for (int k = 0; k < steps; ++k) {
    u32 key[2][2][L::WORDS];
    UNROLL for (int n = 0; n < 2; ++n) {
      UNROLL for (int i = 0; i < 2 * L::WORDS; ++i) key[n][i / L::WORDS][i % L::WORDS] = 0u;
      if (there[n]) L::four(a.key.type, row[n], k * MMA + 4 * t, key[n]);
    }
    UNROLL for (int tile = 0; tile < TILES; ++tile) {
      if (tile >= tiles) break;
      UNROLL for (int p = 0; p < L::PARTS; ++p) {
        uint4 part = ((TG const uint4*)in.queries)[((tile * steps + k) * L::PARTS + p) * 32 + lane];
        UNROLL for (int w = 0; w < L::WORDS && p * w == 0; ++w) {
          UNROLL for (int n = 0; n < 2; ++n) mma_pages<L>(dot[tile][n], part, key[n][0][w], key[n][1][w]);
        }
      }
    }
  }
  UNROLL for (int i = 0; i < TILES * 8; ++i) {
    int tile = i / 8, n = i / 4 % 2, j = i % 4;
    in.scores[(tile * MMA + g + j / 2 * 8) * SCORE_ROW + first + 8 * n + 2 * t + j % 2] = dot[tile][n][j];
  }
}
// Tells whether a value of the unit is not finite: its number is then in shared memory.
template <class L> FN void look_for_wild(AttendUnit u, Sight s, AttendArgs a, AttendBlock b, int me, TG int* wild) {
  int cell = me % UNIT;
  if (!reads_cell(b, s, u.number * UNIT + cell)) return;
  DEV const u8* row = (cell < PAGE ? u.pages[0] : u.pages[1]) + a.value.at + cell % PAGE * a.value.row_bytes;
  UNROLL_1 for (int at = me / UNIT * 2; at < a.value.width; at += 4) {
    u32 value[L::WORDS];
    L::two(a.value.type, row, at, value);
    if (wild_numbers<L>(value[0])) wild[0] = u.number;
  }
}
// Weights of a row of mma in a unit, by a warp, and what is joined with them. A score may stand in several pieces, a tile of
// rows behind one another, which are added in order.
template <class L, int SUMMANDS> FN void weigh_row(DEV const float* constants, Sight s, AttendArgs a, AttendBlock b, AttendUnit u,
                                                   TG AttendRow& r, int lane, TG float* scores) {
  float most = 0.0f - infinity(), total = 0.0f, live = 0.0f, weight[2];
  Joined joined = r.joined;
  joined.begun = (joined.begun || r.seen) && a.units == 0;
  // Rolled: caps of scores are long.
  UNROLL_1 for (int cell = lane; cell < UNIT; cell += 32) {
    int token = token_of_row(r, b, s, u.number * UNIT + cell);
    float score = scores[cell];
    UNROLL for (int p = 1; p < SUMMANDS; ++p) score = score + scores[p * (MMA * SCORE_ROW) + cell];
    score = score * r.undo * a.scale;
    if (a.softcap > 0.0f) score = a.softcap * tanh_(score / a.softcap);
    if (a.slopes >= 0) {
      int far = r.index > token ? r.index - token : token - r.index;
      score = fma(0.0f - constants[a.slopes + r.head] * a.slope_factor, (float)far, score);
    }
    if (token < 0) score = 0.0f - infinity();
    else live = 1.0f;
    scores[cell] = score;
    most = max_(most, score);
  }
  for (int m = 1; m < 32; m *= 2) {
    most = max_(most, lane_xor(most, m));
    live = max_(live, lane_xor(live, m));
  }
  UNROLL for (int h = 0; h < 2; ++h) {
    weight[h] = exp_(scores[lane + 32 * h] - most);
    total = total + weight[h];
  }
  for (int m = 1; m < 32; m *= 2) total = total + lane_xor(total, m);
  if (live == 0.0f) weight[0] = weight[1] = 0.0f;
  // Weights go where scores of other lanes are, and lane 0 changes what all have read of the row.
  WARP_SYNC();
  UNROLL for (int h = 0; h < 2; ++h) put_parts<L>(weight[h] * WEIGHT_FACTOR, WEIGHT_PARTS, (TG u16*)scores + lane + 32 * h, UNIT);
  if (lane != 0) return;
  r.seen = live > 0.0f;
  r.joined = r.seen ? join_sums(joined, most, total) : joined;
}
// Values `at` to `at + 16` of a unit by its weights, for all rows of mma. Column c of the first 8 is number 2c, of the others
// number 2c + 1. `there`: which of the lane's 16 cells are read.
template <class L, int TILES> FN void mix_pair(AttendUnit u, AttendArgs a, int tiles, int at, u32 there, int lane, AttendShared in,
                                               float (&sum)[TILES][2][4]) {
  int g = lane / 4, t = lane % 4;
  UNROLL for (int i = 0; i < TILES * 8; ++i) sum[i / 8][i / 4 % 2][i % 4] = 0.0f;
  UNROLL_OF(L::AHEAD) for (int k = 0; k < UNIT / MMA; ++k) {
    u32 value[4][L::WORDS];
    DEV const u8* row = (k < 2 ? u.pages[0] : u.pages[1]) + a.value.at + (k % 2 * MMA + 4 * t) * a.value.row_bytes;
    UNROLL for (int j = 0; j < 4; ++j) {
      UNROLL for (int w = 0; w < L::WORDS; ++w) value[j][w] = 0u;
      if (there >> (4 * k + j) & 1u) L::two(a.value.type, row + j * a.value.row_bytes, at + 2 * g, value[j]);
    }
    UNROLL for (int tile = 0; tile < TILES; ++tile) {
      if (tile >= tiles) break;
      UNROLL for (int p = 0; p < WEIGHT_PARTS; ++p) {
        TG const float* scores = in.scores + (tile * MMA + g) * SCORE_ROW + (p * UNIT + k * MMA + 4 * t) / 2;
        u64 upper = load8((TG const u8*)scores), lower = load8((TG const u8*)(scores + 8 * SCORE_ROW));
        uint4 part = {(u32)upper, (u32)lower, (u32)(upper >> 32), (u32)(lower >> 32)};
        UNROLL for (int w = 0; w < L::WORDS && p * w == 0; ++w) {
          UNROLL for (int n = 0; n < 2; ++n) {
            u32 pick = n ? 0x7632u : 0x5410u;
            mma_pages<L>(sum[tile][n], part, pick_bytes(value[0][w], value[1][w], pick), pick_bytes(value[2][w], value[3][w], pick));
          }
        }
      }
    }
  }
}
// Which cells of the unit are read, of those that lane t of four has in `mix_pair`: a bit each.
FN u32 cells_there(AttendBlock b, Sight s, int unit, int t) {
  if (!s.map && unit * UNIT >= b.from && (unit + 1) * UNIT <= b.to) return 0xffffu;
  u32 there = 0u;
  UNROLL_1 for (int i = 0; i < MMA; ++i) if (reads_cell(b, s, unit * UNIT + i / 4 * MMA + 4 * t + i % 4)) there |= 1u << i;
  return there;
}
// A lane's values of a pair: numbers 4t to 4t + 4 of rows g and g + 8 of each tile.
FN TG float* joined_of(TG float* joined, int tiles, int tile, int at, int lane) { return joined + ((at / MMA * tiles + tile) * 32 + lane) * 8; }

// Values of a unit, joined or put beside those of other units: of all rows, or of row `only`. A warp has every fourth 16
// numbers.
template <class L, int TILES> FN void mix_unit(AttendUnit u, Sight s, AttendArgs a, AttendBlock b, int tiles, int i, int only, int me,
                                               AttendShared in, DEV float* parts) {
  int lane = me % 32, g = lane / 4, t = lane % 4;
  u32 there = cells_there(b, s, u.number, t);
  UNROLL_1 for (int at = me / 32 * MMA; at < a.value.width; at += ATTEND_WARPS * MMA) {
    float sum[TILES][2][4];
    mix_pair<L, TILES>(u, a, tiles, at, there, lane, in, sum);
    UNROLL for (int j = 0; j < TILES * 2; ++j) {
      TG const AttendRow& r = in.rows[j / 2 * MMA + g + j % 2 * 8];
      if (r.row < 0 || !r.seen || (only >= 0 && r.row != only)) continue;
      bool side = a.units > 0;
      DEV float* apart = side ? part_of_unit(parts, a, r.row, r.head, i) + at + 4 * t : parts;
      TG float* to = joined_of(in.joined, TILES, j / 2, at, lane) + j % 2 * 4;
      UNROLL for (int d = 0; d < 4; ++d) {
        float v = sum[j / 2][d % 2][j % 2 * 2 + d / 2] * (1.0f / WEIGHT_FACTOR);
        if (side) apart[d] = v;
        else to[d] = join_value(r.joined, to[d], v);
      }
    }
  }
}
// Where the rows see different cells and values are not finite, one after another.
template <class L, int TILES> FN void mix_rows(AttendUnit u, Sight s, AttendArgs a, AttendBlock b, int tiles, int i, bool wild, int me,
                                               AttendShared in, DEV float* parts) {
  UNROLL_1 for (int row = 0; row < (wild ? TILES * MMA : 1); ++row) {
    AttendBlock seen = b;
    if (wild) {
      if (in.rows[row].row < 0 || (row % MMA && in.rows[row].row == in.rows[row - 1].row)) continue;
      seen.low = in.rows[row].low;
      seen.high = in.rows[row].high;
      if (!s.map) {
        seen.from = seen.low;
        seen.to = seen.high;
      }
    }
    mix_unit<L, TILES>(u, s, a, seen, tiles, i, wild ? in.rows[row].row : -1, me, in, parts);
  }
}
// Largest scores and sums of a unit apart.
FN void put_unit_sums(AttendArgs a, TG const AttendRow& r, int i, DEV float* parts) {
  if (r.row < 0) return;
  DEV float* to = part_of_unit(parts, a, r.row, r.head, i) + a.value.width;
  to[0] = r.joined.most;
  to[1] = r.seen ? r.joined.sum : -1.0f;
}
// What is joined, divided by the sums of the rows.
template <int TILES> FN void write_rows(DEV const float* sinks, AttendArgs a, int me, AttendShared in, DEV float* out) {
  int lane = me % 32;
  UNROLL_1 for (int i = me / 32; i < TILES * MMA; i += ATTEND_WARPS) {
    AttendRow r = in.rows[i];
    if (r.row < 0) continue;
    float shrink = share_of(r.joined, sinks, a, r.head);
    DEV float* to = out + (size_t)(r.row - a.out_from) * a.out_row + r.head * a.value.width;
    UNROLL_1 for (int c = lane; c < a.value.width; c += 32) {
      TG const float* joined = joined_of(in.joined, TILES, i / MMA, c, i % 8 * 4 + c % MMA / 4);
      to[c] = joined[i % MMA / 8 * 4 + c % 4] * shrink / r.joined.sum;
    }
  }
}
template <class L, int TILES> FN void attend_block(DEV const int* step, DEV const float* q, DEV const u8* pages, DEV const float* constants,
                                                   DEV const float* sinks, DEV float* parts, DEV float* out, AttendArgs a, AttendBlock b,
                                                   int y, int me, AttendShared in) {
  Sight s = begin_rows<L, TILES>(step, q, a, b, me, in);
  sight_of_block(b, s, in.rows, TILES * MMA);
  DEV const u8* own = pages + (size_t)b.key_head * a.head_bytes;
  bool side = a.units > 0;
  int tiles = (b.rows + b.per - 1) / b.per, first = b.from / UNIT + a.pass * a.units, stride = side ? a.stride : 1;
  UNROLL_1 for (int i = side ? y : 0; (first + i) * UNIT < b.to && !(side && i >= a.units); i += stride) {
    AttendUnit u = unit_of(own, s, a, b, first + i);
    score_unit<L, TILES>(u, s, a, b, tiles, me, in);
    if (!u.alike) look_for_wild<L>(u, s, a, b, me, in.wild);
    BARRIER();
    bool wild = in.wild[0] == u.number;
    UNROLL_1 for (int r = me / 32; r < tiles * MMA; r += ATTEND_WARPS) {
      if (in.rows[r].row >= 0) weigh_row<L, 1>(constants, s, a, b, u, in.rows[r], me % 32, in.scores + r * SCORE_ROW);
    }
    BARRIER();
    mix_rows<L, TILES>(u, s, a, b, tiles, i, wild, me, in, parts);
    if (side && me < MMA) put_unit_sums(a, in.rows[me], i, parts);
    // Scores of the next unit go where the weights of this one are.
    BARRIER();
  }
  if (!side) write_rows<TILES>(sinks, a, me, in, out);
}

// One tile of 16 rows of mma: heads of up to 256 numbers, and units side by side. Two: heads of up to 128 numbers.
// grid: key heads * tiles, 1 or blocks of a row's units, rows
#define ATTEND_TENSOR(name, pages_of, tiles, blocks) \
KERNEL(128, blocks) name(BUF(0, const int, step), BUF(1, const float, q), BUF(2, const u8, pages), BUF(3, const float, constants), \
                    BUF(4, const float, sinks), BUF(5, float, parts), BUF(6, float, out), ARGS(7, AttendArgs, a)) { \
  SHARED u16 queries[ATTEND_NUMBERS * MMA * pages_of::PARTS]; \
  SHARED float scores[tiles * MMA * SCORE_ROW]; \
  SHARED float joined[ATTEND_NUMBERS * MMA]; \
  SHARED AttendRow rows[tiles * MMA]; \
  SHARED int wild[1]; \
  int row = a.first_row + (int)BLOCK.z; \
  if (row >= step[STEP_ROWS]) return; \
  AttendBlock b; \
  if (!block_of_row(step, a, (int)BLOCK.x, row, tiles, b)) return; \
  AttendShared in = {rows, queries, scores, joined, wild}; \
  attend_block<pages_of, tiles>(step, q, pages, constants, sinks, parts, out, a, b, (int)BLOCK.y, (int)THREAD, in); \
}
ATTEND_TENSOR(attend_one_f16, pages_f16, 1, 4)
ATTEND_TENSOR(attend_two_f16, pages_f16, 2, 4)
ATTEND_TENSOR(attend_one_packed, pages_packed, 1, 3)
#ifndef ONLY_F16_CORES
ATTEND_TENSOR(attend_one_bf16, pages_bf16, 1, 4)
#endif
