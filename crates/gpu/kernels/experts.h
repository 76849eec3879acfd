// Who is chosen with which weight, and the sum of what the chosen compute.
#pragma once
#include "step.h"
#include "math.h"
enum ScoreCode { SCORE_SOFTMAX, SCORE_SOFTMAX_OF_CHOSEN, SCORE_SIGMOID };   // as in crates/gpu/src/ops/experts.rs
struct RouteArgs {
  int experts, top_k, score, renorm, groups, keep, best_two, has_bias;
  int least, first_rank, end_rank;   // experts of largest weight that are never dropped; ranks by weight that are computed
  float scale, threshold;            // the others are dropped below this share of the largest weight
};

FN void softmax(DEV float* x, int n) {
  float most = x[0], sum = 0.0f;
  for (int i = 1; i < n; ++i) most = max_(most, x[i]);
  for (int i = 0; i < n; ++i) { x[i] = exp_(x[i] - most); sum = sum + x[i]; }
  for (int i = 0; i < n; ++i) x[i] = x[i] / sum;
}
// What the order of experts goes by: the score with its bias; those outside the kept groups are out of reach.
FN float choice_of(DEV const float* score, DEV const float* bias, RouteArgs a, int e) {
  return a.has_bias ? score[e] + bias[e] : score[e];
}
// The best of [from, to) that is not marked; marks are -1 in `taken`. Equal ones: the lower number.
FN int best_of(DEV const float* score, DEV const float* bias, DEV const int* taken, RouteArgs a, int from, int to) {
  int best = -1;
  for (int e = from; e < to; ++e)
    if (!taken[e] && (best < 0 || choice_of(score, bias, a, e) > choice_of(score, bias, a, best))) best = e;
  return best;
}
// The score of a group: its best expert, or the sum of its two best.
FN float group_score(DEV const float* score, DEV const float* bias, DEV int* taken, RouteArgs a, int g) {
  int size = a.experts / a.groups, first = best_of(score, bias, taken, a, g * size, (g + 1) * size);
  float total = choice_of(score, bias, a, first);
  if (a.best_two && size > 1) {
    taken[first] = 1;
    total = total + choice_of(score, bias, a, best_of(score, bias, taken, a, g * size, (g + 1) * size));
    taken[first] = 0;
  }
  return total;
}
FN void keep_groups(DEV const float* score, DEV const float* bias, DEV int* taken, DEV float* by_group, RouteArgs a) {
  int size = a.experts / a.groups;
  for (int g = 0; g < a.groups; ++g) by_group[g] = group_score(score, bias, taken, a, g);
  for (int g = 0; g < a.groups; ++g) {
    int before = 0;
    for (int o = 0; o < a.groups; ++o) if (by_group[o] > by_group[g] || (by_group[o] == by_group[g] && o < g)) before += 1;
    if (before >= a.keep) for (int e = g * size; e < (g + 1) * size; ++e) taken[e] = 1;
  }
}
// How many of a row's experts stand before number `k`: those of larger weight, and equal ones that were chosen before.
FN int rank_of(DEV const float* weight, int top_k, int k) {
  int rank = 0;
  for (int o = 0; o < top_k; ++o) if (weight[o] > weight[k] || (weight[o] == weight[k] && o < k)) rank += 1;
  return rank;
}
// Marks experts that are not computed by -1 in `pick`, and gives the sum of the weights of those that are not dropped.
FN float leave_out(DEV int* pick, DEV const float* weight, RouteArgs a) {
  float sum = 1e-20f, largest = 0.0f;
  for (int k = 0; k < a.top_k; ++k) largest = max_(largest, weight[k]);
  for (int k = 0; k < a.top_k; ++k) {
    int rank = rank_of(weight, a.top_k, k), dropped = rank >= a.least && weight[k] < a.threshold * largest;
    if (!dropped) sum = sum + weight[k];
    if (dropped || rank < a.first_rank || rank >= a.end_rank) pick[k] = -1;
  }
  return sum;
}
// A thread has a row. `score` and `taken` are scratch of a number for each expert of each row, `by_group` too.
// grid: rows / 32; 32 threads
KERNEL(32, 8) route(BUF(0, const int, step), BUF(1, const float, logits), BUF(2, const float, bias), BUF(3, float, scores), BUF(4, int, marks), BUF(5, float, group_scores), BUF(6, int, chosen), BUF(7, float, weights), ARGS(8, RouteArgs, a)) {
  int row = (int)(BLOCK.x * 32 + THREAD);
  if (row >= step[STEP_ROWS]) return;
  DEV float* score = scores + (size_t)row * a.experts;
  DEV int* taken = marks + (size_t)row * a.experts;
  DEV int* pick = chosen + (size_t)row * a.top_k;
  DEV float* weight = weights + (size_t)row * a.top_k;
  for (int e = 0; e < a.experts; ++e) {
    float v = logits[(size_t)row * a.experts + e];
    score[e] = a.score == SCORE_SIGMOID ? sigmoid_(v) : v;
    taken[e] = 0;
  }
  if (a.score == SCORE_SOFTMAX) softmax(score, a.experts);
  if (a.groups > 1) keep_groups(score, bias, taken, group_scores + (size_t)row * a.groups, a);
  for (int k = 0; k < a.top_k; ++k) {
    int best = best_of(score, bias, taken, a, 0, a.experts);
    if (best < 0) best = 0;   // scores of NaN alone: any expert will do, the row is lost
    taken[best] = 1;
    pick[k] = best;
    weight[k] = score[best];
  }
  if (a.score == SCORE_SOFTMAX_OF_CHOSEN) softmax(weight, a.top_k);
  float sum = leave_out(pick, weight, a);
  for (int k = 0; k < a.top_k; ++k) weight[k] = (a.renorm ? weight[k] / sum : weight[k]) * a.scale;
}
// out = sum of weight * value over a row's experts, best first.   grid: width / 256, rows; 256 threads
struct CombineArgs { int first_row, width, top_k, weighted; };
KERNEL(256, 8) combine(BUF(0, const int, step), BUF(1, const float, values), BUF(2, const int, chosen), BUF(3, const float, weights), BUF(4, float, out), ARGS(5, CombineArgs, a)) {
  int row = a.first_row + (int)BLOCK.y, col = (int)(BLOCK.x * 256 + THREAD);
  if (row >= step[STEP_ROWS] || col >= a.width) return;
  float sum = 0.0f;
  for (int k = 0; k < a.top_k; ++k) {
    size_t at = (size_t)row * a.top_k + k;
    if (chosen[at] < 0) continue;   // nothing was computed there
    sum = fma(a.weighted ? weights[at] : 1.0f, values[((size_t)BLOCK.y * a.top_k + k) * a.width + col], sum);
  }
  out[(size_t)row * a.width + col] = sum;
}
