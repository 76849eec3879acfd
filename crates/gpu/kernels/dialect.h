// The kernel language: one source for NVRTC (CUDA), Apple's compiler (MSL) and g++ (the emulator).
//
// Every pointer says where it points (DEV device memory, TG memory of a block, LOCAL registers); ids are handed to helpers
// as arguments; SHARED stands in kernels only. a*b+c is written fma(a, b, c) and compiled without contraction (NVRTC
// --fmad=false, MSL by a pragma, g++ -ffp-contract=off), so that all compilers round alike. BARRIER orders the memory of a block,
// WARP_SYNC that of a warp; a shuffle (lane_xor) orders none. No double, no long long (u64 and
// i64 have no literals of their own), no includes, no words that MSL reserves: .ci/msl reads the sources for Metal.
#pragma once
#if defined(__METAL_VERSION__)
#include <metal_stdlib>
using namespace metal;
// Safe math, which the host asks for as well, still contracts inside of expressions; compilers that do not know a pragma warn.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef long i64;
#define FN inline
#define DEV device
#define TG threadgroup
#define LOCAL thread
// What reads the sources in Metal's place (.ci/msl.py) knows neither variables in threadgroup memory nor copies out of
// constant memory.
#ifndef SHARED
#define SHARED threadgroup
#define ARGS_OF(T) constant T&
#endif
#define CONST constant constexpr
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_4 _Pragma("clang loop unroll_count(4)")
#define UNROLL_1 _Pragma("clang loop unroll(disable)")
#define KERNEL(threads, blocks) [[max_total_threads_per_threadgroup(threads)]] kernel void
#define BUF(i, T, name) device T* name [[buffer(i)]]
#define ARGS(i, T, name) \
  ARGS_OF(T) name [[buffer(i)]], uint3 BLOCK [[threadgroup_position_in_grid]], uint THREAD [[thread_index_in_threadgroup]]
#define BARRIER() threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)
#define WARP_SYNC() simdgroup_barrier(mem_flags::mem_threadgroup)
FN float lane_xor(float v, int m) { return simd_shuffle_xor(v, (ushort)m); }
FN float h2f(u16 h) { return (float)as_type<half>(h); }
FN u16 f2h(float f) { return as_type<u16>((half)f); }
FN float f32_of(u32 b) { return as_type<float>(b); }
FN u32 bits_of(float f) { return as_type<u32>(f); }
FN uint4 load16(DEV const u8* p) { return *(DEV const uint4*)p; }
FN u32 load4(DEV const u8* p) { return *(DEV const u32*)p; }
FN u16 load2(DEV const u8* p) { return *(DEV const u16*)p; }
#else
#define DEV
#define TG
#define LOCAL
#define BUF(i, T, name) T* name
#define ARGS(i, T, name) T name
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define FN __device__ __forceinline__
#define SHARED __shared__ __align__(16)
#define CONST constexpr
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define UNROLL_1 _Pragma("unroll 1")
#define UNROLL_TEXT(text) _Pragma(#text)
#define UNROLL_OF(times) UNROLL_TEXT(unroll (times))
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define BLOCK blockIdx
#define THREAD threadIdx.x
#define BARRIER() __syncthreads()
#define WARP_SYNC() __syncwarp()
FN float lane_xor(float v, int m) { return __shfl_xor_sync(~0u, v, m); }
FN float h2f(u16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
FN u16 f2h(float f) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
FN float f32_of(u32 b) { return __uint_as_float(b); }
FN u32 bits_of(float f) { return __float_as_uint(f); }
FN float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FN float rint(float x) { return rintf(x); }
FN float floor(float x) { return floorf(x); }
FN float sqrt(float x) { return __fsqrt_rn(x); }
FN uint4 load16(const u8* p) { return *(const uint4*)p; }
FN u32 load4(const u8* p) { return *(const u32*)p; }
FN u16 load2(const u8* p) { return *(const u16*)p; }
FN u64 load8(const u8* p) { return *(const u64*)p; }
// SINCE_80: whether the device has what compute capability 8.0 brought, which is bfloat16 on tensor cores, 16 inputs of an mma, and
// copies that their thread does not wait for. A constant here; the emulator has a switch.
#if __CUDA_ARCH__ >= 800
#define SINCE_80 1
#else
#define SINCE_80 0
#define ONLY_F16_CORES
#endif
// D += A B on tensor cores (sm_75 and newer): A 16x16 and B 16x8 of float16 or bfloat16, D 16x8 of float32. emu.h says which
// of their numbers a lane holds. All lanes of a warp take part. Metal has neither these nor the functions below.
#if SINCE_80
#define MMA(name, type) \
  FN void name(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) { \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1)); \
  }
MMA(mma_f16, "f16")
MMA(mma_bf16, "bf16")
#else
// The first 8 inputs, then the others: their fragments are those of the 16.
FN void mma8_f16(float (&d)[4], u32 a0, u32 a1, u32 b0) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
}
FN void mma_f16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  mma8_f16(d, a0, a1, b0);
  mma8_f16(d, a2, a3, b1);
}
// For templates alone: bfloat16 is multiplied by fma there (types.h).
FN void mma_bf16(float (&)[4], u32, u32, u32, u32, u32, u32) { __trap(); }
#endif
// The number itself: a loop does not compute beforehand what follows from it.
FN int not_kept(int v) {
  asm volatile("" : "+r"(v));
  return v;
}
// Byte i of the result is byte number `pick >> 4 i & 7` of the eight of a, then b.
FN u32 pick_bytes(u32 a, u32 b, u32 pick) { return __byte_perm(a, b, pick); }
// (v & mask) | rest in one instruction, where the compiler makes two of it for two constants.
FN u32 mask_or(u32 v, u32 mask, u32 rest) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(v), "r"(mask), "r"(rest));
  return d;
}
// Weights that are read once: they leave the first cache to the inputs. Neither dropped nor moved behind a later mma, so that
// what is asked for together is on its way together. L2::evict_first is for reads of 32 bytes only.
FN u32 stream4(const u8* p) {
  u32 v;
  asm volatile("ld.global.nc.L1::no_allocate.b32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
// 16 bytes that nobody writes while the kernel runs, wherever the compiler lost sight of where they are.
FN uint4 inputs16(const u8* p) {
  uint4 v;
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
// Copies into memory of the block that their thread does not wait for (sm_80 and newer), of `bytes` bytes, which are zeros where
// the source is not there. async_commit makes a group of those that were asked for; async_wait waits until no more than the
// last `groups` ones are on their way. Others see what was copied behind the next barrier. Nobody may look at what is copied to,
// or write there, in the meantime.
#if SINCE_80
#define ASYNC_COPY(name, cache, bytes) \
  FN void name(void* to, const void* from, bool there) { \
    asm volatile("cp.async." cache ".shared.global [%0], [%1], " #bytes ", %2;" \
                 :: "r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? bytes : 0)); \
  }
// The first cache is passed by for 16 bytes, and cannot be for 4.
ASYNC_COPY(async_copy16, "cg", 16)
ASYNC_COPY(async_copy4, "ca", 4)
FN void async_commit() { asm volatile("cp.async.commit_group;"); }
template <int groups> FN void async_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory"); }
#else
// For branches alone that SINCE_80 leaves out.
FN void async_copy16(void*, const void*, bool) { __trap(); }
FN void async_copy4(void*, const void*, bool) { __trap(); }
FN void async_commit() {}
template <int groups> FN void async_wait() {}
#endif
// Bytes that are asked for here and not where they are used, behind the mma in between.
FN uint4 fetch16(const u8* p) {
  uint4 v;
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
FN u32 fetch4(const u8* p) {
  u32 v;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
// Two float16 at once.
FN u32 sub2(u32 a, u32 b) {
  u32 d;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
FN u32 mul2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
FN u32 fma2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
// fma2 with the low or the high half of b and c for both numbers: an operand of the instruction says so, no permute is spent.
#define FMA2_BY(name, half) \
  FN u32 name(u32 a, u32 b, u32 c) { \
    u32 d; \
    asm("{.reg .b16 l, h, m, n; .reg .b32 p, q; mov.b32 {l, h}, %2; mov.b32 {m, n}, %3; mov.b32 p, {" half "}; " \
        "fma.rn.f16x2 %0, %1, p, q;}" : "=r"(d) : "r"(a), "r"(b), "r"(c)); \
    return d; \
  }
FMA2_BY(fma2_low, "l, l}; mov.b32 q, {m, m")
FMA2_BY(fma2_high, "h, h}; mov.b32 q, {n, n")
#else
#include "emu.h"
#endif
#endif
FN float infinity() { return f32_of(0x7f800000u); }
// The larger of two numbers; NaN in one of them gives the other, as IEEE's maxNum.
FN float max_(float a, float b) { return a > b || b != b ? a : b; }
FN float min_(float a, float b) { return a < b || b != b ? a : b; }
FN float abs_(float x) { return f32_of(bits_of(x) & 0x7fffffffu); }
