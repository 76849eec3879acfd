// The emulator's end: kernels by name, with the arguments of a launch.
#include "all.h"
#include <type_traits>
#include <utility>

#ifdef EMU_OWN_SWITCH
asm(".text\n.globl lamina_emu_switch\nlamina_emu_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#endif

namespace emu {
enum Outcome { DONE, NO_KERNEL, WRONG_ARGUMENTS, DIVERGENT, MISALIGNED, MISSING };

// A fiber runs its thread of one block after the other.
static void fiber_main() {
  State& state = *running;
  for (;;) {
    state.thread = state.current->index;
    state.body.run(state.body.of);
    state.current->done = true;
    --state.live;
    ++state.moves;
    go(state.current->context, state.main);
  }
}
static void prepare(State& state, unsigned threads) {
  size_t had = state.fibers.size();
  if (had < threads) {
    state.fibers.resize(threads);
    for (size_t i = had; i < threads; ++i) {
      Fiber& f = state.fibers[i];
      f.index = (unsigned)i;
      f.done = true;
      f.stack.reset(new char[STACK]);
    }
    // A context of its own address may not be moved: all of them begin again.
    for (Fiber& f : state.fibers) start(f.context, f.stack.get(), STACK, fiber_main);
  }
  state.threads = threads;
  state.mail.assign(2 * threads, 0);
  state.operands.resize(2 * threads / 32);
  state.turn.assign(threads, 0);
}
// Each thread of a warp in turn, until it waits.
static void run_warp(State& state, unsigned warp) {
  for (unsigned i = 0; i < 32; ++i) {
    Fiber& f = state.fibers[warp * 32 + (state.order > 0 ? i : 31 - i)];
    if (f.done) continue;
    state.current = &f;
    state.thread = f.index;
    go(state.main, f.context);
  }
}
static bool run_block(State& state, unsigned threads) {
  state.block_bar = {};
  state.warp_bars.assign(threads / 32, {});
  state.live = threads;
  for (unsigned t = 0; t < threads; ++t) state.fibers[t].done = false;
  for (unsigned idle = 0; state.live;) {
    unsigned was = state.moves;
    for (unsigned i = 0; i < threads / 32; ++i) {
      unsigned before;
      // Backwards, a warp goes on as far as it can before the next one: what it overwrites too early is seen there.
      do {
        before = state.moves;
        run_warp(state, state.order > 0 ? i : threads / 32 - 1 - i);
      } while (state.order < 0 && state.moves != before);
    }
    if (state.moves != was) idle = 0;
    else if (++idle > 2) return false;   // threads wait for some that are done, or elsewhere
  }
  return true;
}
static bool run_plain(State& state, unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    state.thread = state.order > 0 ? i : threads - 1 - i;
    state.body.run(state.body.of);
  }
  return !state.stuck;
}
static Outcome launch(D3 grid, unsigned threads, bool waits, Body body) {
  State& state = *running;
  state.body = body;
  state.plain = !waits;
  state.stuck = state.misaligned = state.missing = false;
  if (waits) prepare(state, threads);
  unsigned n = grid.x * grid.y * grid.z;
  for (unsigned i = 0; i < n; ++i) {
    unsigned b = state.order > 0 ? i : n - 1 - i;
    state.block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    state.copies.assign(threads, {});
    bool done = waits ? run_block(state, threads) : run_plain(state, threads);
    if (!done) {
      state.fibers.clear();   // stuck ones are not to be gone on with
      return DIVERGENT;
    }
  }
  return state.missing ? MISSING : state.misaligned ? MISALIGNED : DONE;
}

template <class... P, size_t... I>
static Outcome call(void (*kernel)(P...), void** arguments, D3 grid, unsigned threads, bool waits, std::index_sequence<I...>) {
  auto body = [&] { kernel(*(std::remove_cv_t<P>*)arguments[I]...); };
  return launch(grid, threads, waits, {[](void* of) { (*(decltype(body)*)of)(); }, &body});
}
// Buffers first, the struct of numbers last.
template <class... P>
static Outcome checked(void (*kernel)(P...), void** arguments, size_t count, size_t bytes, D3 grid, unsigned threads, bool waits) {
  constexpr size_t n = sizeof...(P);
  constexpr size_t sizes[] = {sizeof(P)...};
  if (count != n || bytes != sizes[n - 1]) return WRONG_ARGUMENTS;
  return call(kernel, arguments, grid, threads, waits, std::index_sequence_for<P...>());
}
// What a kernel takes: addresses of buffers, then a struct of `bytes` bytes.
template <class... P>
static void shape(void (*)(P...), size_t* count, size_t* bytes) {
  constexpr size_t sizes[] = {sizeof(P)...};
  *count = sizeof...(P);
  *bytes = sizes[sizeof...(P) - 1];
}
}   // namespace emu

// Threads of a block, arguments, and bytes of the last one; not 0 where there is no such kernel.
extern "C" int lamina_emu_shape(const char* name, unsigned* threads, size_t* count, size_t* bytes) {
#define KERNEL_LINE(kernel, block, waits, registers) \
  if (!std::strcmp(name, #kernel)) { \
    *threads = block; \
    emu::shape(kernel, count, bytes); \
    return emu::DONE; \
  }
#include "list.h"
#include "tensor_list.h"
#undef KERNEL_LINE
  return emu::NO_KERNEL;
}

// Runs a kernel to its end on this thread. `arguments` are addresses of the buffers' addresses and, last, of the struct of
// `bytes` bytes; the device is of a compute capability such as 90.
extern "C" int lamina_emu_launch(const char* name, const unsigned* grid, int order, unsigned mma_block, unsigned capability, void** arguments,
                                 size_t count, size_t bytes) {
  static thread_local emu::State state;
  emu::running = &state;
  state.order = order;
  state.mma_block = mma_block;
  state.since_80 = capability >= 80;
  emu::D3 g{grid[0], grid[1], grid[2]};
#define KERNEL_LINE(kernel, threads, waits, registers) \
  if (!std::strcmp(name, #kernel)) return emu::checked(kernel, arguments, count, bytes, g, threads, waits);
#include "list.h"
#include "tensor_list.h"
  return emu::NO_KERNEL;
}
