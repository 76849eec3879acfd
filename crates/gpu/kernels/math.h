// Functions of one number by explicit fma: the same bits on every device and in the emulator.
#pragma once
#include "dialect.h"

// e^x - 1 for |x| < 0.35, and the polynomial of `exp_` (Cephes).
FN float expm1_small(float r) {
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  return fma(p, r * r, r);
}
// e^x; 0 below -87, so that no result is subnormal.
FN float exp_(float x) {
  if (!(x >= -87.0f)) return x != x ? x : 0.0f;
  if (x > 88.722f) return infinity();
  float n = rint(x * 1.44269504f), r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
  return f32_of(bits_of(expm1_small(r) + 1.0f) + ((u32)(int)n << 23));
}
FN float expm1_(float x) { return abs_(x) < 0.34f ? expm1_small(x) : exp_(x) - 1.0f; }
// ln x for normal positive x (Cephes).
FN float log_(float x) {
  u32 bits = bits_of(x);
  int e = (int)(bits >> 23) - 126;
  float m = f32_of((bits & 0x007fffffu) | 0x3f000000u);
  if (m < 0.707106781f) { e = e - 1; m = m + m; }
  m = m - 1.0f;
  float z = m * m, p = 7.0376836292e-2f;
  p = fma(p, m, -1.1514610310e-1f);
  p = fma(p, m, 1.1676998740e-1f);
  p = fma(p, m, -1.2420140846e-1f);
  p = fma(p, m, 1.4249322787e-1f);
  p = fma(p, m, -1.6668057665e-1f);
  p = fma(p, m, 2.0000714765e-1f);
  p = fma(p, m, -2.4999993993e-1f);
  p = fma(p, m, 3.3333331174e-1f);
  float y = p * m * z, k = (float)e;
  y = fma(k, -2.12194440e-4f, y);
  y = fma(-0.5f, z, y);
  return fma(k, 0.693359375f, m + y);
}
// ln(1 + x) for x from 0 on; what 1 + x rounds away is given back by the factor.
FN float log1p_(float x) {
  float u = 1.0f + x;
  if (!(u < infinity())) return u;
  return u == 1.0f ? x : log_(u) * (x / (u - 1.0f));
}
FN float softplus_(float x) { return x > 20.0f ? x : log1p_(exp_(x)); }
FN float sigmoid_(float x) { return 1.0f / (1.0f + exp_(0.0f - x)); }
FN float silu_(float x) { return x * sigmoid_(x); }
FN float tanh_(float x) {
  float a = abs_(x);
  if (a < 0.625f) {
    float z = x * x, p = -5.70498872745e-3f;
    p = fma(p, z, 2.06390887954e-2f);
    p = fma(p, z, -5.37397155531e-2f);
    p = fma(p, z, 1.33314422036e-1f);
    p = fma(p, z, -3.33332819422e-1f);
    return fma(p * z, x, x);
  }
  float t = 1.0f - 2.0f / (exp_(a + a) + 1.0f);
  return x < 0.0f ? 0.0f - t : t;
}
// The error function (N. Juffa's polynomials, below one unit in the last place).
FN float erf_(float x) {
  float t = abs_(x), s = x * x;
  if (t > 0.927734375f) {
    float r = fma(-1.72853470e-5f, t, 3.83197126e-4f), u = fma(-3.88396438e-3f, t, 2.42546219e-2f);
    r = fma(r, s, u);
    r = fma(r, t, -1.06777877e-1f);
    r = fma(r, t, -6.34846687e-1f);
    r = fma(r, t, -1.28717512e-1f);
    r = 1.0f - exp_(fma(r, t, 0.0f - t));
    return x < 0.0f ? 0.0f - r : r;
  }
  float r = -5.96761703e-4f;
  r = fma(r, s, 4.99119423e-3f);
  r = fma(r, s, -2.67681349e-2f);
  r = fma(r, s, 1.12819925e-1f);
  r = fma(r, s, -3.76125336e-1f);
  r = fma(r, s, 1.28379166e-1f);
  return fma(r, x, x);
}

struct SinCos { float sin, cos; };
// Sine and cosine of an angle below 2^24, reduced to an eighth of a turn in whole numbers: 64 bits of 2/pi.
FN SinCos sincos_(float angle) {
  u32 bits = bits_of(angle) & 0x7fffffffu;
  int e = (int)(bits >> 23);
  u64 m = e == 0 ? 0 : ((bits & 0x007fffffu) | 0x00800000u);
  u64 high = m * (u64)0xa2f9836eu, low = m * (u64)0x4e441529u;
  high = high + (low >> 32);
  // angle = m 2^(e-150); quarters of a turn with 61 bits behind the point, whole turns wrap away.
  int n = 3 - (e - 150);
  u64 v = n < 32 ? (high << (32 - n)) + ((low & (u64)0xffffffffu) >> n) : n < 96 ? high >> (n - 32) : 0;
  u64 quarter = (v + ((u64)1 << 60)) >> 61;
  float r = (float)(i64)(v - (quarter << 61)) * 6.81224316e-19f, z = r * r;
  float s = fma(fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, r, r);
  float c = fma(fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f), z * z, fma(-0.5f, z, 1.0f));
  int q = (int)(quarter & 3);
  SinCos out;
  out.sin = q % 2 == 1 ? c : s;
  out.cos = q % 2 == 1 ? s : c;
  if (q >= 2) out.sin = 0.0f - out.sin;
  if (q == 1 || q == 2) out.cos = 0.0f - out.cos;
  if (bits_of(angle) >> 31) out.sin = 0.0f - out.sin;
  return out;
}
// The number of an 8-bit float (OCP e4m3fn).
FN float e4m3_to(u32 b) {
  u32 e = b >> 3 & 15u, m = b & 7u;
  float v = e == 0u ? (float)m * 0.001953125f : f32_of((e + 120u) << 23 | m << 20);
  if ((b & 127u) == 127u) v = f32_of(0x7fc00000u);
  return b & 128u ? 0.0f - v : v;
}
