// The dialect on a CPU: GPU threads as fibers of one CPU thread. Blocks run one after another, with barriers of a block,
// shuffles and matrix products of a warp.
//
// `order` < 0 runs blocks and threads backwards, and each warp as far as it gets before the next one: a missing barrier, or
// a block that depends on another one, then changes bits.
// All state is the thread's own, so that tests may run side by side.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>
#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define EMU_OWN_SWITCH 1
#else
#include <ucontext.h>   // two system calls a switch, but every system has it and sanitizers follow it
#endif

namespace emu {
struct D3 { unsigned x, y, z; };
struct Bar { unsigned arrived = 0, generation = 0; };
#ifdef EMU_OWN_SWITCH
typedef void* Context;
extern "C" void lamina_emu_switch(void** from, void* to);
inline void go(Context& from, Context& to) { lamina_emu_switch(&from, to); }
inline void start(Context& c, char* stack, size_t bytes, void (*f)()) {
  auto top = (void**)((uintptr_t)(stack + bytes) / 16 * 16) - 2;
  *top = (void*)f;
  std::memset(top - 6, 0, 6 * sizeof(void*));   // six saved registers below the return address
  c = top - 6;
}
#else
typedef ucontext_t Context;
inline void go(Context& from, Context& to) { swapcontext(&from, &to); }
inline void start(Context& c, char* stack, size_t bytes, void (*f)()) {
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = bytes;
  c.uc_link = nullptr;
  makecontext(&c, f, 0);
}
#endif
constexpr size_t STACK = 32 << 10;
struct Fiber {
  Context context;
  std::unique_ptr<char[]> stack;
  unsigned index;
  bool done;
};
// A and the columns of B of a warp's matrix product, as numbers.
struct Operands { float a[16][16], b[8][16]; };
// A copy that its thread has asked for and not waited for, of the group that the thread will have made next: `from` is null where
// zeros are asked for.
struct AsyncCopy {
  char* to;
  const char* from;
  unsigned bytes, group;
};
struct AsyncCopies {
  std::vector<AsyncCopy> asked;
  unsigned groups = 0;   // that were made
};
struct Body {
  void (*run)(void*);
  void* of;
};
// What runs on this CPU thread.
struct State {
  std::vector<Fiber> fibers;
  Context main;
  Fiber* current = nullptr;
  D3 block{};
  unsigned thread = 0, threads = 0, live = 0, moves = 0;
  int order = 1;
  unsigned mma_block = 0;               // products that a tensor core sums at once and truncates; 0: all, rounded once
  Bar block_bar;
  std::vector<Bar> warp_bars;
  std::vector<uint32_t> mail;           // two words a thread, used in turn
  std::vector<unsigned char> turn;
  std::vector<Operands> operands;       // two a warp, used in turn
  std::vector<AsyncCopies> copies;
  Body body{};
  bool plain = false, stuck = false, misaligned = false;
  bool since_80 = true;                 // the device has what compute capability 8.0 brought
  bool missing = false;                 // a kernel wants what the device has not
};
// Set before kernels run. A plain pointer is reached without a look whether it was set up, which kernels would feel.
inline constinit thread_local State* running = nullptr;

// Devices refuse wide accesses at other places; this CPU does not mind.
inline void aligned(const void* at, unsigned bytes) {
  if ((uintptr_t)at % bytes) [[unlikely]] running->misaligned = true;
}

inline void wait(Bar& b, unsigned n) {
  State& s = *running;
  if (s.plain) { s.stuck = true; return; }   // the list says that this kernel does not wait
  unsigned generation = b.generation;
  if (++b.arrived == n) {
    b.arrived = 0;
    ++b.generation;
    ++s.moves;
    return;
  }
  Fiber* own = s.current;
  while (b.generation == generation) go(own->context, s.main);
}
inline void block_wait() { wait(running->block_bar, running->threads); }
inline void warp_wait() { wait(running->warp_bars[running->thread / 32], 32); }
inline float shuffle(float v, unsigned lane) {
  // Nobody is two shuffles ahead of another lane: two boxes need one wait.
  State& s = *running;
  unsigned box = s.turn[s.thread] ^= 1;
  uint32_t* warp = &s.mail[(s.thread / 32 * 2 + box) * 32];
  std::memcpy(warp + s.thread % 32, &v, 4);
  warp_wait();
  float r;
  std::memcpy(&r, warp + lane, 4);
  return r;
}
inline void wants_80() {
  if (!running->since_80) [[unlikely]] running->missing = true;
}
// What is on its way may be there at any time, or not: until it is waited for, there is NaN, and then it comes.
inline void async_copy(void* to, const void* from, bool there, unsigned bytes) {
  State& s = *running;
  wants_80();
  aligned(to, bytes);
  if (there) aligned(from, bytes);
  std::memset(to, 0xff, bytes);
  AsyncCopies& own = s.copies[s.thread];
  own.asked.push_back({(char*)to, there ? (const char*)from : nullptr, bytes, own.groups});
}
inline void async_wait(unsigned most) {
  AsyncCopies& own = running->copies[running->thread];
  auto copy = own.asked.begin();
  for (; copy != own.asked.end() && copy->group + most < own.groups; ++copy) {
    if (copy->from) std::memcpy(copy->to, copy->from, copy->bytes);
    else std::memset(copy->to, 0, copy->bytes);
  }
  own.asked.erase(own.asked.begin(), copy);
}
// What a lane holds (PTX ISA, mma.m16n8k16 of 16-bit types): of A, row r and column k are in lane 4 (r % 8) + k % 8 / 2,
// register r / 8 + 2 (k / 8), half k % 2; of B, row k and column c in lane 4 c + k % 8 / 2, register k / 8, half k % 2; of D,
// row r and column c in lane 4 (r % 8) + c / 2, number 2 (r / 8) + c % 2. mma.m16n8k8 has the first 8 columns of A and rows of B, and
// registers. Products are exact. Their sum is rounded once, or as
// devices are reported to (Fasi, Higham, Mikaitis, Pranesh: "Numerical behavior of NVIDIA tensor cores", 2021): a few products
// at a time with what was summed before, each cut to 24 bits below the largest of them, and the sum cut to 24 bits.
inline double truncated(double x, int exponent) {
  if (exponent < -120) return x;   // near where float32 ends nothing is cut: kernels' numbers are far from it
  double unit = std::ldexp(1.0, exponent - 23);
  return std::trunc(x / unit) * unit;
}
inline double summed(const double* x, unsigned n, unsigned block) {
  double sum = x[0];   // what is added to
  for (unsigned first = 1; first < n; first += block) {
    unsigned end = std::min(n, first + block);
    double largest = std::fabs(sum);
    for (unsigned i = first; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    if (!(largest > 0) || std::isinf(largest)) {   // zeros, and what is no number
      for (unsigned i = first; i < end; ++i) sum += x[i];
      continue;
    }
    int exponent = std::ilogb(largest);
    double all = truncated(sum, exponent);
    for (unsigned i = first; i < end; ++i) all += truncated(x[i], exponent);
    sum = all == 0 || !std::isfinite(all) ? all : truncated(all, std::ilogb(all));
  }
  return sum;
}
template <unsigned inputs, class Number>
inline void mma(float (&d)[4], const uint32_t (&own)[inputs / 8 * 3], Number number) {
  State& s = *running;
  unsigned lane = s.thread % 32, box = s.turn[s.thread] ^= 1;
  Operands& warp = s.operands[s.thread / 32 * 2 + box];
  for (unsigned i = 0; i < inputs / 2; ++i) {
    uint16_t half = (uint16_t)(own[i / 2] >> 16 * (i % 2));
    warp.a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] = number(half);
  }
  for (unsigned i = 0; i < inputs / 4; ++i) {
    uint16_t half = (uint16_t)(own[inputs / 4 + i / 2] >> 16 * (i % 2));
    warp.b[lane / 4][lane % 4 * 2 + i / 2 * 8 + i % 2] = number(half);
  }
  warp_wait();
  for (unsigned i = 0; i < 4; ++i) {
    const float *row = warp.a[lane / 4 + i / 2 * 8], *col = warp.b[lane % 4 * 2 + i % 2];
    double all[inputs + 1] = {d[i]}, sum = d[i];
    for (unsigned k = 0; k < inputs; ++k) sum += all[1 + k] = (double)row[k] * col[k];
    d[i] = (float)(s.mma_block ? summed(all, inputs + 1, s.mma_block) : sum);
  }
}
}   // namespace emu

#define FN inline
#define SHARED alignas(16) static thread_local
#define CONST constexpr
#define UNROLL
#define UNROLL_4
#define UNROLL_1
#define UNROLL_OF(times)
#define KERNEL(threads, blocks) inline void
#define BLOCK emu::running->block
#define THREAD emu::running->thread
#define BARRIER() emu::block_wait()
#define WARP_SYNC() emu::warp_wait()
#define SINCE_80 emu::running->since_80
using std::floor;
using std::fma;
using std::rint;
using std::sqrt;
struct uint4 { u32 x, y, z, w; };
FN float lane_xor(float v, int m) { return emu::shuffle(v, (emu::running->thread % 32) ^ (unsigned)m); }
FN float f32_of(u32 b) { return std::bit_cast<float>(b); }
FN u32 bits_of(float f) { return std::bit_cast<u32>(f); }
FN float h2f(u16 h) { return (float)std::bit_cast<_Float16>(h); }
FN u16 f2h(float f) { return std::bit_cast<u16>((_Float16)f); }
FN void mma_f16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  if (SINCE_80) return emu::mma<16>(d, {a0, a1, a2, a3, b0, b1}, h2f);
  emu::mma<8>(d, {a0, a1, b0}, h2f);
  emu::mma<8>(d, {a2, a3, b1}, h2f);
}
FN void mma_bf16(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  emu::wants_80();
  emu::mma<16>(d, {a0, a1, a2, a3, b0, b1}, [](u16 b) { return f32_of((u32)b << 16); });
}
FN int not_kept(int v) { return v; }
FN u32 pick_bytes(u32 a, u32 b, u32 pick) {
  u64 both = (u64)b << 32 | a;
  u32 picked = 0;
  for (int i = 0; i < 4; ++i) picked |= (u32)(both >> 8 * (pick >> 4 * i & 7) & 255) << 8 * i;
  return picked;
}
FN u32 sub2(u32 a, u32 b) {
  return f2h(h2f((u16)a) - h2f((u16)b)) | (u32)f2h(h2f((u16)(a >> 16)) - h2f((u16)(b >> 16))) << 16;
}
FN u32 mul2(u32 a, u32 b) {
  return f2h(h2f((u16)a) * h2f((u16)b)) | (u32)f2h(h2f((u16)(a >> 16)) * h2f((u16)(b >> 16))) << 16;
}
// Rounded twice where a sum has more bits than float32: the kernels' sums have at most eleven.
FN u32 fma2(u32 a, u32 b, u32 c) {
  return f2h(fma(h2f((u16)a), h2f((u16)b), h2f((u16)c))) |
         (u32)f2h(fma(h2f((u16)(a >> 16)), h2f((u16)(b >> 16)), h2f((u16)(c >> 16)))) << 16;
}
FN u32 fma2_low(u32 a, u32 b, u32 c) { return fma2(a, (b & 0xffffu) * 0x10001u, (c & 0xffffu) * 0x10001u); }
FN u32 fma2_high(u32 a, u32 b, u32 c) { return fma2(a, (b >> 16) * 0x10001u, (c >> 16) * 0x10001u); }
FN u64 load8(const u8* p) {
  emu::aligned(p, 8);
  u64 v;
  std::memcpy(&v, p, 8);
  return v;
}
FN uint4 load16(const u8* p) {
  emu::aligned(p, 16);
  uint4 v;
  std::memcpy(&v, p, 16);
  return v;
}
FN uint4 inputs16(const u8* p) { return load16(p); }
FN void async_copy16(void* to, const void* from, bool there) { emu::async_copy(to, from, there, 16); }
FN void async_copy4(void* to, const void* from, bool there) { emu::async_copy(to, from, there, 4); }
FN void async_commit() { ++emu::running->copies[emu::running->thread].groups; }
template <int groups> FN void async_wait() { emu::async_wait(groups); }
FN u32 load4(const u8* p) {
  u32 v;
  std::memcpy(&v, __builtin_assume_aligned(p, 4), 4);
  return v;
}
FN u32 stream4(const u8* p) { return load4(p); }
FN uint4 fetch16(const u8* p) { return load16(p); }
FN u32 fetch4(const u8* p) { return load4(p); }
FN u32 mask_or(u32 v, u32 mask, u32 rest) { return (v & mask) | rest; }
FN u16 load2(const u8* p) {
  u16 v;
  std::memcpy(&v, __builtin_assume_aligned(p, 2), 2);
  return v;
}
