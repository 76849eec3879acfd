// Pairs of a row and one of its experts, sorted by expert and cut into tiles: a product reads an expert's matrix once for all
// rows of a tile.
#pragma once
#include "step.h"

// Pairs are numbered from `first_row` on, item by item; `height` is the most that a tile has.
struct GroupArgs { int first_row, rows, items, experts, height, pairs_at; };
// Threads of the block, each with an expert at a time.
CONST int GROUP_THREADS = 256, GROUP_WARPS = 8;

FN int group_tiles(int pairs, int height) { return (pairs + height - 1) / height; }
// How many pairs of its warp with this key stand before a lane's own, those of earlier calls with them. `counts` of the warp then
// has the lane's, too. Threads without a key (below 0) take part and count nothing.
FN int count_pair(TG int* keys, TG int* counts, int key, int me) {
  keys[me] = key;
  BARRIER();
  int before = 0, same = 0;
  for (int other = 0; other < 32; ++other) {
    int alike = keys[me / 32 * 32 + other] == key;
    same += alike;
    if (other < me % 32) before += alike;
  }
  int place = key < 0 ? 0 : counts[key] + before;
  BARRIER();
  // The last lane of a key counts for all of them.
  if (key >= 0 && before + 1 == same) counts[key] = place + 1;
  return place;
}
// Two sums over the threads before this one; those over all threads stand in sums[255] and sums[511].
FN void sums_before(TG int* sums, int me, int first, int second) {
  sums[me] = first;
  sums[GROUP_THREADS + me] = second;
  BARRIER();
  for (int d = 1; d < GROUP_THREADS; d *= 2) {
    int a = me >= d ? sums[me - d] : 0, b = me >= d ? sums[GROUP_THREADS + me - d] : 0;
    BARRIER();
    sums[me] += a;
    sums[GROUP_THREADS + me] += b;
    BARRIER();
  }
}
// `lists`: how many tiles there are; then of each its expert, its first pair in the list of pairs, and how many it has; from
// `pairs_at` on the list: by expert, and in their own order inside of one. Pairs of experts that are not computed (-1) are in none.
//
// Warps have runs of pairs, which they count by expert, 32 at a time; sums over warps and experts then say where each has its
// places, and the same walk puts the pairs there. More experts than threads take several rounds.   grid: 1; 256 threads
KERNEL(256, 2) group_pairs(BUF(0, const int, step), BUF(1, const int, chosen), BUF(2, int, lists), ARGS(3, GroupArgs, a)) {
  SHARED int counts[GROUP_WARPS * GROUP_THREADS]; SHARED int sums[2 * GROUP_THREADS]; SHARED int keys[GROUP_THREADS];
  int me = (int)THREAD, there = step[STEP_ROWS] - a.first_row, rows = there < a.rows ? there : a.rows;
  int pairs = rows > 0 ? rows * a.items : 0, run = (pairs + GROUP_THREADS - 1) / GROUP_THREADS * 32, from = me / 32 * run + me % 32;
  DEV const int* pick = chosen + (size_t)a.first_row * a.items;
  TG int* own = counts + me / 32 * GROUP_THREADS;
  int placed = 0, tiles = 0;
  for (int base = 0; base < a.experts; base += GROUP_THREADS) {
    for (int w = 0; w < GROUP_WARPS; ++w) counts[w * GROUP_THREADS + me] = 0;
    BARRIER();
    for (int i = 0; i < run; i += 32) {
      int key = from + i < pairs ? pick[from + i] - base : -1;
      count_pair(keys, own, key < GROUP_THREADS ? key : -1, me);
    }
    BARRIER();
    int total = 0;
    for (int w = 0; w < GROUP_WARPS; ++w) total += counts[w * GROUP_THREADS + me];
    sums_before(sums, me, total, group_tiles(total, a.height));
    int place = placed + sums[me] - total, tile = tiles + sums[GROUP_THREADS + me] - group_tiles(total, a.height);
    for (int p = 0; p < total; p += a.height) {
      DEV int* to = lists + 1 + 3 * tile;
      to[0] = base + me;
      to[1] = place + p;
      to[2] = total - p < a.height ? total - p : a.height;
      tile += 1;
    }
    for (int w = 0; w < GROUP_WARPS; ++w) {
      int n = counts[w * GROUP_THREADS + me];
      counts[w * GROUP_THREADS + me] = place;
      place += n;
    }
    placed += sums[GROUP_THREADS - 1];
    tiles += sums[2 * GROUP_THREADS - 1];
    BARRIER();
    for (int i = 0; i < run; i += 32) {
      int key = from + i < pairs ? pick[from + i] - base : -1;
      key = key < GROUP_THREADS ? key : -1;
      int at = count_pair(keys, own, key, me);
      if (key >= 0) lists[a.pairs_at + at] = from + i;
    }
    BARRIER();
  }
  if (me == 0) lists[0] = tiles;
}
