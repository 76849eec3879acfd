// Products on tensor cores: for NVIDIA devices, every format of fragments.h, any number of rows.
//
// The law: super-blocks, or pairs of blocks of 32 inputs, are cut into 8 pieces by their number alone. A piece starts at 0 and
// adds block after block: `dot` is two mma of 16 inputs from 0, total = fma(scale, dot, total), and for formats with minimums
// total = fma(offset, sum of the inputs, total). Where each 16 inputs have a scale, each mma is a dot of its own; formats
// without scales let mma add to `total` itself. Q4_K and Q5_K (super.h) add super-block after super-block: `dot` is sixteen
// mma from 0 of codes times scales, `less` one of the minimums, total = fma(dmin, less, fma(d, dot, total)). Pieces are added
// in order, and multiplied by the inverse of the row's factor. `few` gives the pieces to warps, `many` runs them in turn: the
// order is the same, and so are the bits. Rows are columns of mma, which do not see one another: one row is computed as if
// there were eight.
#pragma once
#include "types.h"
#include "product.h"
#include "super.h"
#include "halves.h"

// What is multiplied are pairs of a row and one of its items: heads, experts, or the row itself where there is one item. They are
// numbered from `first_row` on, item by item, and a tile has pairs of one matrix. Which ones a tile has decides no bit.
enum PairSource {
  PAIRS_OF_ITEM,   // the same item of neighbouring rows; its matrix has its number
  PAIRS_OF_ROW,    // the items of one row, each by the matrix that `lists` names
  PAIRS_OF_TILE    // those that groups.h has put together in `lists`
};
// Rows from `first_row` on, at most `rows`: those that are there as 16-bit numbers. `share` items of a row have the same ones.
// Results lie pair by pair, from number `first_pair` on.
struct TensorArgs { int first_row, rows, items, share, source, pairs_at, first_pair; ProductArgs product; };
CONST int TENSOR_OUTPUTS = 16, TENSOR_ROWS = 8;

// Rows of halves.h.
struct HalfRows { DEV const u16* x; DEV const float* sums; DEV const float* undo; int blocks; };
// Pairs of a tile: by a list, or each `next` numbers behind the one before.
struct TilePairs { DEV const int* listed; int first, next, count, matrix, share; };
FN int pair_of(TilePairs p, int i) { return p.listed ? p.listed[i] : p.first + i * p.next; }
// The number of a pair's row of halves.h.
FN int half_of(TilePairs p, int pair) { return p.share > 1 ? pair / p.share : pair; }
// Pairs of the tile `tile` of at most `height`; of none where `count` is not above 0.
FN TilePairs pairs_of_tile(DEV const int* step, DEV const int* lists, TensorArgs a, int tile, int item, int height) {
  TilePairs p = {nullptr, tile * height * a.items + item, a.items, 0, item, a.share};
  if (a.source == PAIRS_OF_TILE) {
    if (tile >= lists[0]) return p;
    DEV const int* own = lists + 1 + 3 * tile;
    p.matrix = own[0];
    p.listed = lists + a.pairs_at + own[1];
    p.count = own[2];
    return p;
  }
  if (a.source == PAIRS_OF_ROW) p.matrix = lists[item];
  int there = step[a.product.kind] - a.first_row, left = (there < a.rows ? there : a.rows) - tile * height;
  // An expert that is not computed has no number.
  p.count = p.matrix < 0 ? 0 : left < height ? left : height;
  return p;
}
template <class L> FN DEV const u8* panel_at(DEV const u8* w, ProductArgs a, size_t panel) {
  return w + panel * ((a.inputs + L::INPUTS - 1) / L::INPUTS) * L::BYTES * LANES;
}
template <class L> FN void mma(float (&d)[4], LOCAL const Fragment* f, int i, u32 b0, u32 b1) {
  if (L::BF16 != 0) mma_bf16(d, f[0].code[i], f[1].code[i], f[0].code[i + 1], f[1].code[i + 1], b0, b1);
  else mma_f16(d, f[0].code[i], f[1].code[i], f[0].code[i + 1], f[1].code[i + 1], b0, b1);
}
// A block of 32 inputs of 16 outputs and 8 rows. A lane's numbers: outputs g and g + 8, each for rows 2t and 2t + 1, whose
// sums of inputs `s` are.
template <class L> FN void tensor_block(LOCAL const Fragment* f, uint4 b, float s0, float s1, float (&total)[4]) {
  if (L::SCALES == 0) {
    mma<L>(total, f, 0, b.x, b.y);
    mma<L>(total, f, 2, b.z, b.w);
    return;
  }
  float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f}, second[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  mma<L>(dot, f, 0, b.x, b.y);
  if (L::SCALES == 2) mma<L>(second, f, 2, b.z, b.w);
  else mma<L>(dot, f, 2, b.z, b.w);
  UNROLL for (int i = 0; i < 4; ++i) {
    total[i] = fma(f[i / 2].scale[0], dot[i], total[i]);
    if (L::SCALES == 2) total[i] = fma(f[i / 2].scale[1], second[i], total[i]);
    if (L::OFFSET != 0) total[i] = fma(f[i / 2].offset, i % 2 ? s1 : s0, total[i]);
  }
}

// A piece is whole units: super-blocks, or two blocks.
template <class L> FN constexpr int unit_blocks() { return L::INPUTS == 256 ? 8 : 2; }
template <class L> FN int units_of(HalfRows in) { return (in.blocks + unit_blocks<L>() - 1) / unit_blocks<L>(); }
// A lane's inputs of pair g and sums of pairs 2t and 2t + 1, from a block on. Columns of pairs that are not there are multiplied
// by the first pair's numbers, and nobody reads them: that costs no comparison.
struct LaneRows { DEV const u8* x; DEV const float* sums[2]; DEV const u8* parts; };
FN int lane_half(TilePairs p, int i) { return half_of(p, pair_of(p, i < p.count ? i : 0)); }
FN LaneRows lane_rows(HalfRows in, TilePairs p, int k, int g, int t) {
  int row = lane_half(p, g), first = lane_half(p, 2 * t), second = lane_half(p, 2 * t + 1), stride = sums_row(in.blocks);
  LaneRows out = {(DEV const u8*)(in.x + ((size_t)row * in.blocks + k) * 32 + 8 * t),
                  {in.sums + (size_t)first * stride + k, in.sums + (size_t)second * stride + k},
                  (DEV const u8*)(in.sums + (size_t)row * stride + in.blocks + k + 2 * t)};
  return out;
}
FN LaneRows next_rows(LaneRows r, int blocks) {
  LaneRows out = {r.x + 64 * blocks, {r.sums[0] + blocks, r.sums[1] + blocks}, r.parts + 4 * blocks};
  return out;
}
// The first `blocks` blocks of a unit, of 16 outputs and 8 rows.
template <class L> FN void few_unit(DEV const u8* at, LaneRows rows, int blocks, int o, int t, float (&total)[4]) {
  UNROLL for (int k = 0; k < unit_blocks<L>(); ++k) {
    if (k >= blocks) continue;
    Fragment f[2];
    DEV const u8* block = at + k / (L::INPUTS / 32) * (L::BYTES * LANES);
    L::fragment(block, k % (L::INPUTS / 32), o, t, f[0]);
    L::fragment(block, k % (L::INPUTS / 32), o + 8, t, f[1]);
    float s0 = L::OFFSET != 0 ? rows.sums[0][k] : 0.0f, s1 = L::OFFSET != 0 ? rows.sums[1][k] : 0.0f;
    tensor_block<L>(f, inputs16(rows.x + 64 * k), s0, s1, total);
  }
}
// Units `unit` to `to`, which are a piece, block by block.
template <class L> FN void few_blocks(DEV const u8* panel, HalfRows in, LaneRows rows, int unit, int to, int o, int t,
                                      float (&total)[4]) {
  constexpr int blocks = unit_blocks<L>(), bytes = blocks * 32 / L::INPUTS * L::BYTES * LANES;
  DEV const u8* at = panel + (size_t)unit * bytes;
  // The last of all units may have one block of two.
  int whole = to * blocks <= in.blocks ? to : to - 1;
  for (; unit < whole; ++unit) {
    few_unit<L>(at, rows, blocks, o, t, total);
    at += bytes;
    rows = next_rows(rows, blocks);
  }
  if constexpr (L::INPUTS == 32) if (unit < to) few_unit<L>(at, rows, 1, o, t, total);
}
// By halves of super-blocks: a loop over both inside of one over super-blocks had too few registers.
template <class L> FN void few_halves(DEV const u8* panel, LaneRows rows, int first, int to, int o, int t, float (&total)[4]) {
  for (int half_ = first; half_ < to; ++half_) {
    typename L::Half words[2];
    L::take_half(block_at(panel, half_ / 2, L::BYTES), half_ % 2, o, t, words);
    UNROLL for (int j = 0; j < 4; ++j) {
      Fragment f[2];
      UNROLL for (int i = 0; i < 2; ++i) L::fragment(words[i], j, f[i]);
      tensor_block<L>(f, inputs16(rows.x + 64 * j), 0.0f, 0.0f, total);
    }
    rows = next_rows(rows, 4);
  }
}
// All words of a super-block are asked for before the first is used; those of the next one as well took more registers than
// three blocks of 8 warps have.
template <class L> FN void few_supers(DEV const u8* panel, LaneRows rows, int unit, int to, int o, int t, float (&total)[4]) {
  DEV const u8* at = block_at(panel, unit, L::BYTES);
  for (; unit < to; ++unit) {
    DEV const u8 *codes = at + (o * 16 + 4 * t), *marks = at + (L::SCALES_AT * LANES + o * 4);
    u32 low[4][2][2], fifth[2][2];
    UNROLL for (int q = 0; q < 4; ++q) load_quarter(codes, q, low[q]);
    load_fifths<L>(codes, fifth);
    SuperScales s[2] = {super_scales(marks), super_scales(marks + 32)};
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    UNROLL for (int q = 0; q < 4; ++q) {
      u32 code[2][8];
      put_quarter<L>(low[q], fifth, s, q, code);
      UNROLL for (int h = 0; h < 2; ++h) mma_quarter(sum, code, h, inputs16(rows.x + 64 * (2 * q + h)));
    }
    add_super(super_end(s, t), sum, load8(rows.parts), total);
    at += L::BYTES * LANES;
    rows = next_rows(rows, 8);
  }
}
template <class L> FN void few_piece(DEV const u8* panel, HalfRows in, TilePairs pairs, int unit, int to, int o, int g, int t,
                                     float (&total)[4]) {
  LaneRows rows = lane_rows(in, pairs, unit * unit_blocks<L>(), g, t);
  if constexpr (L::TAKEN == BY_SUPER) few_supers<L>(panel, rows, unit, to, o, t, total);
  else if constexpr (L::TAKEN == BY_HALF) few_halves<L>(panel, rows, 2 * unit, 2 * to, o, t, total);
  else few_blocks<L>(panel, in, rows, unit, to, o, t, total);
}
// Up to 8 pairs times 16 outputs: a warp has a piece. `w`, `bias` and `y` are those of the matrix and of pair 0.
template <class L> FN void tensor_few(DEV const u8* w, HalfRows in, TilePairs pairs, DEV const float* bias, DEV float* y,
                                      ProductArgs a, int tile, int me, TG float* part) {
  int lane = me % 32, piece = me / 32, g = lane / 4, t = lane % 4, units = units_of<L>(in);
  float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  few_piece<L>(panel_at<L>(w, a, (size_t)(tile / 2)), in, pairs, piece_start(units, piece), piece_start(units, piece + 1),
               tile % 2 * TENSOR_OUTPUTS + g, g, t, total);
  UNROLL for (int i = 0; i < 4; ++i) part[(piece * TENSOR_ROWS + 2 * t + i % 2) * TENSOR_OUTPUTS + g + i / 2 * 8] = total[i];
  BARRIER();
  int i = me / TENSOR_OUTPUTS, output = tile * TENSOR_OUTPUTS + me % TENSOR_OUTPUTS;
  if (i >= pairs.count || output >= a.outputs) return;
  float sum = 0.0f;
  for (int p = 0; p < PIECES; ++p) sum = sum + part[(p * TENSOR_ROWS + i) * TENSOR_OUTPUTS + me % TENSOR_OUTPUTS];
  int pair = pair_of(pairs, i);
  write(y + (size_t)pair * a.y_row, bias, a, output, sum * in.undo[half_of(pairs, pair)]);
}

// 64 pairs times 64 outputs: a warp has 16 outputs and all pieces. In shared memory lie stages of two blocks of inputs, beside the
// sums of the pieces before, for which registers are too few, and the numbers of the pairs. While a stage is multiplied, the next
// two are on their way, by copies that nobody waits for; a fourth would not fit. Pieces begin with a stage, so that what is on its
// way goes on from one piece to the next. Warps of 32 outputs, which read shared memory half as often, took all 255 registers; two
// blocks of 8 warps need more than there are.
//
// Before compute capability 8.0 a thread loads its share of a stage into registers one stage ahead, and puts it into shared memory
// when the stage before is done with, which wants two slots of the three. A multiprocessor has 64 kB there: with a quarter of the
// sums of pieces in registers, too, two blocks share it.
CONST int STAGE_ROWS = 64, STAGE_BLOCKS = 2, STAGES = 3, STAGE_THREADS = 128;
CONST int HELD_STAGES = 2, HELD_SUMS = 8, LANE_SUMS = 32;
// What the memory of a block has room for: the emulator has either.
#ifdef ONLY_F16_CORES
CONST int SLOTS = HELD_STAGES, DONE_SUMS = LANE_SUMS - HELD_SUMS;
#else
CONST int SLOTS = STAGES, DONE_SUMS = LANE_SUMS;
#endif
// 16-bit numbers of a stage, and its sums.
CONST int STAGE_NUMBERS = STAGE_BLOCKS * STAGE_ROWS * 32, STAGE_SUMS = STAGE_BLOCKS * STAGE_ROWS;
// Numbers of the pairs of a tile, and of their rows of halves.h.
struct StagePairs { TG int* pairs; TG int* halves; int count; };
FN void stage_pairs(TilePairs p, int me, StagePairs s) {
  if (me < STAGE_ROWS) {
    int pair = pair_of(p, me < p.count ? me : 0);
    s.pairs[me] = pair;
    s.halves[me] = half_of(p, pair);
  }
  BARRIER();
}
// What stages are of, what of it a thread copies (parts of two rows, and sums of one), and where to: the stage of block `first`
// and the next one is in slot `slot_of(first)`.
CONST int STAGE_COPIES = STAGE_ROWS * 4 / STAGE_THREADS;
// A thread's share of the next stage but one, where it is not copied.
struct HeldStage { uint4 inputs[STAGE_COPIES][STAGE_BLOCKS], sums; };
struct Stages {
  HalfRows in;
  StagePairs rows;
  int me;
  DEV const u16* own[STAGE_COPIES];
  DEV const float* own_sums;
  TG u16* inputs;
  TG float* sums;
  LOCAL HeldStage* held;
};
FN Stages stages_of(HalfRows in, StagePairs rows, int me, TG u16* inputs, TG float* sums, LOCAL HeldStage* held) {
  Stages s = {in, rows, me, {nullptr, nullptr}, in.sums + (size_t)rows.halves[me / 2] * sums_row(in.blocks), inputs, sums, held};
  UNROLL for (int n = 0; n < STAGE_COPIES; ++n)
    s.own[n] = in.x + (size_t)rows.halves[me / 4 + n * (STAGE_THREADS / 4)] * in.blocks * 32 + 8 * (me % 4);
  return s;
}
FN int slot_of(int first) { return (int)((u32)first / STAGE_BLOCKS % (SINCE_80 ? STAGES : HELD_STAGES)); }
// Asks for 16 or 4 bytes for shared memory, zeros where they are not there; where they are loaded, `land` puts them into it.
FN uint4 ask16(TG void* to, DEV const void* from, bool there) {
  uint4 none = {0, 0, 0, 0};
  if (!SINCE_80) return there ? fetch16((DEV const u8*)from) : none;
  async_copy16(to, from, there);
  return none;
}
FN u32 ask4(TG void* to, DEV const void* from, bool there) {
  if (!SINCE_80) return there ? fetch4((DEV const u8*)from) : 0u;
  async_copy4(to, from, there);
  return 0u;
}
// Where a thread's share of a stage goes: part `n` of block `b`, and its sums.
FN TG u16* inputs_at(Stages s, int first, int n, int b) {
  return s.inputs + slot_of(first) * STAGE_NUMBERS + 8 * s.me + b * (STAGE_ROWS * 32) + n * (8 * STAGE_THREADS);
}
template <class L> FN TG float* sums_at(Stages s, int first) {
  if constexpr (L::TAKEN == BY_SUPER) return s.sums + 4 * s.me;
  else return s.sums + slot_of(first) * STAGE_SUMS + s.me % STAGE_BLOCKS * STAGE_ROWS + s.me / 2;
}
// Sums of blocks are 4 bytes each, for rows of them may begin at any number: with their stage a thread copies one. Both halves of
// the sums of a super-block are 32 bytes of a row: with the last stage of it a thread copies 16. Nobody reads those of the
// super-block before any more when they are asked for, so that they need one place only. As loads they would be waited for, or
// take registers.
FN bool ends_super(int first) { return first % 8 == 8 - STAGE_BLOCKS; }
template <class L> FN void ask_sums(Stages s, int first) {
  int row = s.me / 2;
  bool there = row < s.rows.count && first < s.in.blocks;
  if constexpr (L::TAKEN == BY_SUPER) {
    if (ends_super(first))
      s.held->sums = ask16(sums_at<L>(s, first), s.own_sums + s.in.blocks + first / 8 * 8 + s.me % 2 * 4, there);
  } else if constexpr (L::OFFSET != 0) {
    int b = s.me % STAGE_BLOCKS;
    s.held->sums.x = ask4(sums_at<L>(s, first), s.own_sums + first + b, there && first + b < s.in.blocks);
  }
}
// Asks for the stage that begins with block `first`. Rows that are not there, and blocks behind the last one, are zeros.
template <class L> FN void ask_stage(Stages s, int first) {
  UNROLL for (int n = 0; n < STAGE_COPIES; ++n) {
    DEV const u16* from = s.own[n] + 32 * (size_t)first;
    bool there = s.me / 4 + n * (STAGE_THREADS / 4) < s.rows.count;
    UNROLL for (int b = 0; b < STAGE_BLOCKS; ++b)
      s.held->inputs[n][b] = ask16(inputs_at(s, first, n, b), from + 32 * b, there && first + b < s.in.blocks);
  }
  ask_sums<L>(s, first);
  async_commit();
}
// Puts what was loaded of a stage into its slot.
template <class L> FN void land_stage(Stages s, int first) {
  UNROLL for (int n = 0; n < STAGE_COPIES; ++n) {
    UNROLL for (int b = 0; b < STAGE_BLOCKS; ++b) *(TG uint4*)inputs_at(s, first, n, b) = s.held->inputs[n][b];
  }
  if constexpr (L::TAKEN == BY_SUPER) {
    if (ends_super(first)) *(TG uint4*)sums_at<L>(s, first) = s.held->sums;
  } else if constexpr (L::OFFSET != 0) {
    *sums_at<L>(s, first) = f32_of(s.held->sums.x);
  }
}
template <class L> FN void ask_first_stages(Stages s) {
  UNROLL for (int n = 0; n < STAGES - 1; ++n) {
    ask_stage<L>(s, n * STAGE_BLOCKS);
    if (!SINCE_80 && n == 0) land_stage<L>(s, 0);
  }
}
// The inputs of a stage, when all threads have what they asked for of it. Then all of them are done with the one before, and its
// slot takes the next one that is asked for, or lands.
template <class L> FN TG const u16* take_stage(Stages s, int first) {
  async_wait<STAGES - 2>();
  BARRIER();
  if (!SINCE_80) land_stage<L>(s, first + STAGE_BLOCKS);
  ask_stage<L>(s, first + (STAGES - 1) * STAGE_BLOCKS);
  return s.inputs + slot_of(first) * STAGE_NUMBERS;
}
// Where a thread's sum `n` of the pieces before is.
FN float* done_at(TG float* done, LOCAL float* kept, int n, int me) {
  int held = SINCE_80 ? 0 : HELD_SUMS;
  return n < held ? kept + n : done + (n - held) * STAGE_THREADS + me;
}
// Where a lane's inputs of block `b` of a stage begin: those of the next eight rows lie 32 further on.
FN TG const uint4* staged(TG const u16* inputs, int b, int g, int t) {
  return (TG const uint4*)inputs + b * (STAGE_ROWS * 4) + (g * 4 + t);
}
// A block of inputs that is number `b` of its stage.
template <class L> FN void tensor_rows(LOCAL const Fragment* f, TG const u16* inputs, TG const float* sums, int b, int g, int t,
                                       float (&total)[8][4]) {
  TG const uint4* x = staged(inputs, b, g, t);
  TG const float* s = sums + b * STAGE_ROWS + 2 * t;
  UNROLL for (int n = 0; n < 8; ++n)
    tensor_block<L>(f, x[32 * n], L::OFFSET != 0 ? s[8 * n] : 0.0f, L::OFFSET != 0 ? s[8 * n + 1] : 0.0f, total[n]);
}
// Blocks `from` to `to`, which are a piece.
template <class L> FN void tensor_piece(DEV const u8* panel, int o, Stages s, int from, int to, float (&total)[8][4]) {
  int g = s.me % 32 / 4, t = s.me % 4;
  for (int first = from; first < to; first += STAGE_BLOCKS) {
    TG const u16* inputs = take_stage<L>(s, first);
    TG const float* sums = s.sums + slot_of(first) * STAGE_SUMS;
    // Rolled: blocks of inputs side by side would take twice the registers for weights.
    UNROLL_1 for (int b = 0; b < STAGE_BLOCKS; ++b) {
      int k = first + b;
      if (k >= s.in.blocks) break;
      Fragment f[2];
      DEV const u8* block = block_at(panel, k / (L::INPUTS / 32), L::BYTES);
      L::fragment(block, k % (L::INPUTS / 32), o, t, f[0]);
      L::fragment(block, k % (L::INPUTS / 32), o + 8, t, f[1]);
      tensor_rows<L>(f, inputs, sums, b, g, t, total);
    }
  }
}
// The same by halves of super-blocks.
template <class L> FN void halves_piece(DEV const u8* panel, int o, Stages s, int from, int to, float (&total)[8][4]) {
  int g = s.me % 32 / 4, t = s.me % 4;
  for (int first = from; first < to; first += 4) {
    typename L::Half words[2];
    L::take_half(block_at(panel, first / 8, L::BYTES), first / 4 % 2, o, t, words);
    UNROLL_1 for (int k = first; k < first + 4; k += STAGE_BLOCKS) {
      TG const u16* inputs = take_stage<L>(s, k);
      UNROLL_1 for (int b = 0; b < STAGE_BLOCKS; ++b) {
        Fragment f[2];
        UNROLL for (int i = 0; i < 2; ++i) L::fragment(words[i], 0, f[i]);
        tensor_rows<L>(f, inputs, s.sums, b, g, t, total);
        UNROLL for (int i = 0; i < 2; ++i) L::next_of_half(words[i]);
      }
    }
  }
}
// The same in super-blocks, of which a stage is a quarter.
template <class L> FN void super_piece(DEV const u8* panel, int o, Stages s, int from, int to, float (&total)[8][4]) {
  int g = s.me % 32 / 4, t = s.me % 4;
  for (int first = from; first < to; first += 8) {
    DEV const u8* at = block_at(panel, first / 8, L::BYTES);
    DEV const u8 *codes = at + (o * 16 + 4 * t), *marks = at + (L::SCALES_AT * LANES + o * 4);
    SuperScales scales[2] = {super_scales(marks), super_scales(marks + 32)};
    SuperEnd e = super_end(scales, t);
    u32 fifth[2][2];
    load_fifths<L>(codes, fifth);
    float sum[8][4];
    UNROLL for (int n = 0; n < 32; ++n) sum[n / 4][n % 4] = 0.0f;
    UNROLL_1 for (int q = 0; q < 4; ++q) {
      u32 low[2][2], code[2][8];
      load_quarter(codes, q, low);
      TG const uint4* x = staged(take_stage<L>(s, first + STAGE_BLOCKS * q), 0, g, t);
      put_quarter<L>(low, fifth, scales, q, code);
      UNROLL for (int n = 0; n < 16; ++n) mma_quarter(sum[n % 8], code, n / 8, x[n / 8 * (STAGE_ROWS * 4) + n % 8 * 32]);
    }
    TG const u64* parts = (TG const u64*)s.sums + (g * 4 + t);
    UNROLL for (int n = 0; n < 8; ++n) add_super(e, sum[n], parts[32 * n], total[n]);
  }
}
template <class L> FN void tensor_many(DEV const u8* w, Stages s, DEV const float* bias, DEV float* y, ProductArgs a, int tile,
                                       TG float* done) {
  int me = s.me, g = me % 32 / 4, t = me % 4, units = units_of<L>(s.in);
  // Warps beyond the last output help to fill shared memory, and write nothing.
  int panel = tile * TENSOR_OUTPUTS < a.outputs ? tile / 2 : 0, first = tile % 2 * TENSOR_OUTPUTS + g;
  DEV const u8* own = panel_at<L>(w, a, (size_t)panel);
  ask_first_stages<L>(s);
  float kept[HELD_SUMS];
  UNROLL for (int n = 0; n < LANE_SUMS; ++n) *done_at(done, kept, n, me) = 0.0f;
  for (int piece = 0; piece < PIECES; ++piece) {
    float total[8][4];
    UNROLL for (int n = 0; n < 32; ++n) total[n / 4][n % 4] = 0.0f;
    int from = piece_start(units, piece) * unit_blocks<L>(), to = piece_start(units, piece + 1) * unit_blocks<L>();
    if constexpr (L::TAKEN == BY_SUPER) super_piece<L>(own, first, s, from, to, total);
    else if constexpr (L::TAKEN == BY_HALF) halves_piece<L>(own, first, s, from, to, total);
    else tensor_piece<L>(own, first, s, from, to, total);
    UNROLL for (int n = 0; n < LANE_SUMS; ++n) {
      float* sum = done_at(done, kept, n, me);
      *sum = *sum + total[n / 4][n % 4];
    }
  }
  // The last stages asked for are behind the inputs, all zeros: no block ends with copies on their way into its memory.
  async_wait<0>();
  UNROLL for (int n = 0; n < LANE_SUMS; ++n) {
    int i = n % 4, row = n / 4 * 8 + 2 * t + i % 2, o = tile * TENSOR_OUTPUTS + g + i / 2 * 8;
    if (row < s.rows.count && o < a.outputs)
      write(y + (size_t)s.rows.pairs[row] * a.y_row, bias, a, o, *done_at(done, kept, n, me) * s.in.undo[s.rows.halves[row]]);
  }
}

#define TENSOR_IN BUF(0, const int, step), BUF(1, const u8, w), BUF(2, const u16, x), BUF(3, const float, sums), BUF(4, const float, undo), BUF(5, const float, bias), BUF(6, const int, lists), BUF(7, float, y), ARGS(8, TensorArgs, a)
// What both kernels begin with: the pairs of the block, and its matrix.
#define TENSOR_TILE(lane, height) \
  HalfRows in = {x, sums, undo, (a.product.inputs + 31) / 32}; \
  TilePairs pairs = pairs_of_tile(step, lists, a, (int)BLOCK.y, (int)BLOCK.z, height); \
  if (pairs.count <= 0) return; \
  w = panel_at<lane>(w, a.product, (size_t)pairs.matrix * ((a.product.outputs + LANES - 1) / LANES)); \
  if (a.product.has_bias) bias += (size_t)pairs.matrix * a.product.outputs; \
  y += (size_t)a.first_pair * a.product.y_row
// few: grid outputs / 16, tiles of 8 pairs, items. many: grid outputs / 64, tiles of 64 pairs, items. Lists name tiles of all
// items: there is one item then, and the blocks behind the last tile have nothing to do.
#define TENSOR_PRODUCTS(name) \
KERNEL(256, 3) tensor_few_##name(TENSOR_IN) { \
  SHARED float part[PIECES * TENSOR_ROWS * TENSOR_OUTPUTS]; \
  TENSOR_TILE(lane_##name, TENSOR_ROWS); \
  tensor_few<lane_##name>(w, in, pairs, bias, y, a.product, (int)BLOCK.x, (int)THREAD, part); \
} \
KERNEL(128, 2) tensor_many_##name(TENSOR_IN) { \
  SHARED u16 inputs[SLOTS * STAGE_NUMBERS]; SHARED float staged[8 * STAGE_ROWS], done[DONE_SUMS * STAGE_THREADS]; \
  SHARED int numbers[2 * STAGE_ROWS]; \
  TENSOR_TILE(lane_##name, STAGE_ROWS); \
  StagePairs rows = {numbers, numbers + STAGE_ROWS, pairs.count}; \
  stage_pairs(pairs, (int)THREAD, rows); \
  HeldStage held; \
  Stages stages = stages_of(in, rows, (int)THREAD, inputs, staged, &held); \
  tensor_many<lane_##name>(w, stages, bias, y, a.product, (int)BLOCK.x * (STAGE_THREADS / 32) + stages.me / 32, done); \
}
F16_TYPES(TENSOR_PRODUCTS)
#ifndef ONLY_F16_CORES
TENSOR_PRODUCTS(bf16)
#endif
