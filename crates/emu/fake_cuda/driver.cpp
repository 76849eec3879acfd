// A libcuda.so of our own: what crates/cuda calls of NVIDIA's driver, over the emulator. Tests put its folder in front of the
// libraries' path.
//
// Work is done as late as it may be: when its stream, or an event behind it, is waited for; with `early=1`, copies to the device
// are done as early as they may. FAKE_CUDA holds settings, `name=value` with commas between them: `version`, `devices`,
// `capability` and `memory` say what the devices are (`memory.1` that of the second one), `order=-1` runs blocks and threads backwards; the name of a function
// says which code it fails with, from its call number `@n` on (0 without), or with -1 that it does nothing and says that it
// did. After an error that loses a device every call fails with it, as the driver does. `tell_pinned=1` and `tell_shared=1` write to
// stderr what is pinned, and which kernels prefer shared memory.
#include "fake.h"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

extern "C" int lamina_emu_launch(const char* name, const unsigned* grid, int order, unsigned mma_block, unsigned capability, void** arguments, size_t count, size_t bytes);
extern "C" int lamina_emu_shape(const char* name, unsigned* threads, size_t* count, size_t* bytes);

namespace {
enum Code { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
            INVALID_CONTEXT = 201, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, LAUNCH_FAILED = 719,
            CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901 };

// The value of a setting, and what follows its `@`.
bool setting(const char* name, long long* value, long long* from) {
  const char* all = std::getenv("FAKE_CUDA");
  for (size_t n = std::strlen(name); all && *all; all = std::strchr(all, ',') ? std::strchr(all, ',') + 1 : nullptr) {
    if (std::strncmp(all, name, n) || all[n] != '=') continue;
    char* end;
    *value = std::strtoll(all + n + 1, &end, 10);
    *from = *end == '@' ? std::strtoll(end + 1, nullptr, 10) : 0;
    return true;
  }
  return false;
}
long long said(const char* name, long long otherwise) {
  long long value, from;
  return setting(name, &value, &from) ? value : otherwise;
}

// The same of a device, which may have a setting of its own.
long long said_of(const char* name, int device, long long otherwise) {
  return said((std::string(name) + "." + std::to_string(device)).c_str(), said(name, otherwise));
}

unsigned capability_of(int device) { return (unsigned)said_of("capability", device, 90); }

struct Kernel { std::string name; unsigned threads; size_t count, bytes; };
// An image with the option that it was compiled with, or a text in PTX; and the kernels that were asked for.
struct Module { std::string only, text; std::map<std::string, std::unique_ptr<Kernel>> kernels; };
// A launch with its arguments, one after the other: words of addresses, then the struct.
struct Launched { const Kernel* kernel; unsigned grid[3]; std::vector<uint64_t> words; };
struct Graph { std::vector<Launched> launches; };
// What a stream has to do, and the host's memory that it reads or writes.
struct Work { std::function<int()> run; const void* host; };
struct Stream { bool recording = false; Graph recorded; std::deque<Work> queue; uint64_t asked = 0, done = 0; };
struct Block { size_t bytes; int device; };
// An event with times has the moment at which its stream came to it, in milliseconds; below 0 until then.
struct Event { Stream* stream = nullptr; uint64_t behind = 0; std::shared_ptr<double> time; };

constexpr size_t GUARD = 64;
struct Driver {
  std::recursive_mutex lock;
  bool ready = false;
  int lost = OK;
  std::map<std::string, long long> calls;
  std::map<uint64_t, Block> memory;
  std::map<int, size_t> used;   // by device
  std::map<const void*, size_t> pinned, registered;   // of the driver's own, and of others
  std::set<Stream*> streams;
};
Driver& driver() { static Driver& all = *new Driver; return all; }   // outlives whoever frees at exit
thread_local int current = -1;   // the device whose context is that of the thread
thread_local int recordings = 0;   // of this thread: they are asked for as thread-local, so others may go on allocating

bool loses(int code) { return code == 214 || code == 226 || code == 721 || code >= 999 || (code >= 700 && code < 720 && code != 701); }

// The code that a call of this function is to fail with; below 0, it is to do nothing.
int failure(const char* name) {
  Driver& d = driver();
  long long code, from, call = d.calls[name]++;
  if (d.lost) return d.lost;
  if (!setting(name, &code, &from) || call < from) return OK;
  if (loses((int)code)) d.lost = (int)code;
  return (int)code;
}
#define BEGIN(name) \
  std::lock_guard<std::recursive_mutex> held(driver().lock); \
  if (int code = failure(#name)) return code < 0 ? (int)OK : code;
#define BEGIN_READY(name) BEGIN(name) if (!driver().ready) return NOT_INITIALIZED;
#define BEGIN_CURRENT(name) BEGIN_READY(name) if (current < 0) return INVALID_CONTEXT;

uint8_t* bytes_at(uint64_t address) { return (uint8_t*)(uintptr_t)address; }
// True where all these bytes are inside one allocation.
bool inside(uint64_t address, size_t bytes) {
  auto& memory = driver().memory;
  auto after = memory.upper_bound(address);
  if (after == memory.begin()) return false;
  auto at = std::prev(after);
  return address + bytes <= at->first + at->second.bytes;
}
bool whole(uint64_t address, size_t bytes) {
  for (size_t i = 1; i <= GUARD; ++i)
    if (*bytes_at(address - i) != 0xff || *bytes_at(address + bytes + i - 1) != 0xff) return false;
  return true;
}
// What a kernel is given lies in live memory, also when a recording runs again.
int run(Launched& l) {
  std::vector<void*> arguments;
  for (size_t i = 0; i + 1 < l.kernel->count; ++i) {
    if (inside(l.words[i], 0)) continue;
    std::fprintf(stderr, "fake cuda: %s is given memory that is not there\n", l.kernel->name.c_str());
    return driver().lost = ILLEGAL_ADDRESS;
  }
  for (size_t i = 0; i < l.kernel->count; ++i) arguments.push_back(&l.words[i]);
  int outcome = lamina_emu_launch(l.kernel->name.c_str(), l.grid, (int)said("order", 1), (unsigned)said("mma_block", 0), capability_of(std::max(current, 0)), arguments.data(), l.kernel->count, l.kernel->bytes);
  if (outcome) {
    std::fprintf(stderr, "fake cuda: %s ends with %d\n", l.kernel->name.c_str(), outcome);
    return driver().lost = LAUNCH_FAILED;
  }
  return OK;
}
// Ends the process where a copy is under way from or to memory that is to be given back.
void refuse_under_copy(const void* memory, size_t bytes) {
  auto uses = [=](const Work& w) { return w.host >= memory && (const char*)w.host < (const char*)memory + bytes; };
  for (const Stream* s : driver().streams) {
    if (std::none_of(s->queue.begin(), s->queue.end(), uses)) continue;
    std::fprintf(stderr, "fake cuda: pinned memory is given back under a copy\n");
    std::abort();
  }
}
// Notes work, or says why not. A copy of which nothing is ahead in its stream may be done at once.
int ask(void* stream, const void* host, std::function<int()> run, bool copy = false) {
  auto& s = *(Stream*)stream;
  if (s.recording) return CAPTURE_UNSUPPORTED;
  if (copy && s.queue.empty() && said("early", 0)) {
    ++s.asked;
    ++s.done;
    return run();
  }
  s.queue.push_back({std::move(run), host});
  ++s.asked;
  return OK;
}
// Does what a stream has to do, up to its work of this number.
int finish(Stream& s, uint64_t behind) {
  while (s.done < behind && !s.queue.empty()) {
    auto work = std::move(s.queue.front());
    s.queue.pop_front();
    ++s.done;
    if (int code = work.run()) return code;
  }
  return OK;
}
int finish_all() {
  for (Stream* s : driver().streams)
    if (int code = finish(*s, s->asked)) return code;
  return OK;
}
bool starts(const char* text, const char* with) { return !std::strncmp(text, with, std::strlen(with)); }
// Products by fma of types that tensor cores multiply.
bool is_compared(const std::string& name) {
  if (!starts(name.c_str(), "product_")) return false;
  unsigned threads;
  size_t count, bytes, kind = name.find('_') + 1, type = name.find('_', kind) + 1;
  return !lamina_emu_shape(("tensor_few_" + name.substr(type)).c_str(), &threads, &count, &bytes);
}
bool holds(const Module& m, const std::string& name) {
  if (!m.text.empty()) return m.text.find(".entry " + name + "(") != std::string::npos;
  if (m.only.empty()) return true;
  if (m.only == ONLY "COMPARED") return is_compared(name);
  // Tensor cores without bfloat16: its products by fma are there instead.
  bool bf16 = name.ends_with("_bf16") && !starts(name.c_str(), "lookup_");
  return bf16 && capability_of(std::max(current, 0)) < 80 ? is_compared(name) : !is_compared(name);
}
}   // namespace

extern "C" {
int cuDriverGetVersion(int* version) {
  BEGIN(cuDriverGetVersion)
  *version = (int)said("version", 12090);
  return OK;
}
int cuInit(unsigned) {
  BEGIN(cuInit)
  if (!said("devices", 1)) return NO_DEVICE;
  driver().ready = true;
  return OK;
}
int cuGetErrorName(int code, const char** text) {
  static thread_local char name[32];
  std::snprintf(name, sizeof name, "CUDA_ERROR_%d", code);
  *text = name;
  return OK;
}
int cuGetErrorString(int code, const char** text) {
  static thread_local char words[64];
  std::snprintf(words, sizeof words, "the fake driver says %d", code);
  *text = words;
  return OK;
}
int cuDeviceGetCount(int* count) {
  BEGIN_READY(cuDeviceGetCount)
  *count = (int)said("devices", 1);
  return OK;
}
int cuDeviceGet(int* device, int number) {
  BEGIN_READY(cuDeviceGet)
  if (number < 0 || number >= said("devices", 1)) return INVALID_DEVICE;
  *device = number;
  return OK;
}
int cuDeviceGetName(char* name, int room, int device) {
  BEGIN_READY(cuDeviceGetName)
  std::snprintf(name, (size_t)room, "Fake GPU %d", device);
  return OK;
}
int cuDeviceGetPCIBusId(char* bus, int room, int device) {
  BEGIN_READY(cuDeviceGetPCIBusId)
  std::snprintf(bus, (size_t)room, "0000:0%d:00.0", device);
  return OK;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  BEGIN_READY(cuDeviceGetAttribute)
  int capability = (int)capability_of(device);
  if (attribute != 75 && attribute != 76) return INVALID_VALUE;
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return OK;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  BEGIN_READY(cuDevicePrimaryCtxRetain)
  *context = (void*)(uintptr_t)(device + 1);
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  BEGIN_READY(cuDevicePrimaryCtxRelease_v2)
  return OK;
}
int cuCtxSetCurrent(void* context) {
  BEGIN_READY(cuCtxSetCurrent)
  current = (int)(uintptr_t)context - 1;
  return OK;
}
int cuStreamCreate(void** stream, unsigned) {
  BEGIN_CURRENT(cuStreamCreate)
  driver().streams.insert((Stream*)(*stream = new Stream));
  return OK;
}
int cuStreamDestroy_v2(void* stream) {
  BEGIN_CURRENT(cuStreamDestroy_v2)
  int code = finish(*(Stream*)stream, UINT64_MAX);
  driver().streams.erase((Stream*)stream);
  delete (Stream*)stream;
  return code;
}
int cuStreamSynchronize(void* stream) {
  BEGIN_CURRENT(cuStreamSynchronize)
  auto& s = *(Stream*)stream;
  return s.recording ? CAPTURE_UNSUPPORTED : finish(s, s.asked);
}
int cuEventCreate(void** event, unsigned flags) {
  BEGIN_CURRENT(cuEventCreate)
  auto* made = new Event;
  if (!(flags & 2)) made->time = std::make_shared<double>(-1);
  *event = made;
  return OK;
}
int cuEventRecord(void* event, void* stream) {
  BEGIN_CURRENT(cuEventRecord)
  auto& s = *(Stream*)stream;
  if (s.recording) return CAPTURE_UNSUPPORTED;
  auto& e = *(Event*)event;
  if (e.time) {
    e.time = std::make_shared<double>(-1);
    ask(stream, nullptr, [time = e.time] {
      auto now = std::chrono::steady_clock::now().time_since_epoch();
      *time = std::chrono::duration<double, std::milli>(now).count();
      return (int)OK;
    });
  }
  e.stream = &s;
  e.behind = s.asked;
  return OK;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  BEGIN_CURRENT(cuStreamWaitEvent)
  Event e = *(Event*)event;
  if (!e.stream) return OK;
  return ask(stream, nullptr, [e] { return driver().streams.count(e.stream) ? finish(*e.stream, e.behind) : (int)OK; });
}
int cuEventSynchronize(void* event) {
  BEGIN_CURRENT(cuEventSynchronize)
  auto& e = *(Event*)event;
  return e.stream ? finish(*e.stream, e.behind) : OK;
}
int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  BEGIN_CURRENT(cuEventElapsedTime)
  auto &from = *(Event*)start, &to = *(Event*)end;
  if (!from.time || !to.time) return INVALID_HANDLE;
  if (*from.time < 0 || *to.time < 0) return NOT_READY;
  *milliseconds = (float)(*to.time - *from.time);
  return OK;
}
int cuEventDestroy_v2(void* event) {
  BEGIN_CURRENT(cuEventDestroy_v2)
  delete (Event*)event;
  return OK;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  BEGIN_CURRENT(cuMemGetInfo_v2)
  *total = (size_t)said_of("memory", current, 512 << 20);
  *free = *total - driver().used[current];
  return OK;
}
// What nobody wrote is NaN in every type, as are the guards around it.
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  BEGIN_CURRENT(cuMemAlloc_v2)
  if (recordings) return CAPTURE_UNSUPPORTED;
  if (!bytes) return INVALID_VALUE;
  if (driver().used[current] + bytes > (size_t)said_of("memory", current, 512 << 20)) return OUT_OF_MEMORY;
  size_t room = (bytes + 2 * GUARD + 255) / 256 * 256;
  auto* memory = (uint8_t*)std::aligned_alloc(256, room);
  if (!memory) return OUT_OF_MEMORY;
  std::memset(memory, 0xff, room);
  *address = (uint64_t)(uintptr_t)(memory + GUARD);
  driver().memory[*address] = {bytes, current};
  driver().used[current] += bytes;
  return OK;
}
int cuMemFree_v2(uint64_t address) {
  std::lock_guard<std::recursive_mutex> held(driver().lock);
  if (recordings) return CAPTURE_UNSUPPORTED;   // and the memory is never given back
  if (!driver().lost) finish_all();   // as the driver: work may use it
  auto at = driver().memory.find(address);
  if (at == driver().memory.end()) return INVALID_VALUE;
  auto [bytes, device] = at->second;
  if (!whole(address, bytes)) {
    std::fprintf(stderr, "fake cuda: a kernel wrote outside a buffer of %zu bytes\n", bytes);
    std::abort();
  }
  driver().used[device] -= bytes;
  driver().memory.erase(at);
  std::free(bytes_at(address - GUARD));
  return failure("cuMemFree_v2");
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN_CURRENT(cuMemHostAlloc)
  *memory = std::malloc(bytes);
  if (!*memory) return OUT_OF_MEMORY;
  driver().pinned[*memory] = bytes;
  return OK;
}
int cuMemFreeHost(void* memory) {
  BEGIN_CURRENT(cuMemFreeHost)
  auto at = driver().pinned.find(memory);
  if (at == driver().pinned.end()) return INVALID_VALUE;
  refuse_under_copy(memory, at->second);
  driver().pinned.erase(at);
  std::free(memory);
  return OK;
}
// Refuses what shares a page with memory that is pinned already.
int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned) {
  BEGIN_CURRENT(cuMemHostRegister_v2)
  if (!memory || !bytes) return INVALID_VALUE;
  auto page = [](const void* at) { return (uintptr_t)at / 4096; };
  auto last = [&](const void* at, size_t length) { return page((const char*)at + length - 1); };
  for (auto [at, length] : driver().registered)
    if (page(memory) <= last(at, length) && page(at) <= last(memory, bytes)) return ALREADY_REGISTERED;
  driver().registered[memory] = bytes;
  if (said("tell_pinned", 0)) std::fprintf(stderr, "fake cuda: %zu bytes are pinned\n", bytes);
  return OK;
}
int cuMemHostUnregister(void* memory) {
  BEGIN_CURRENT(cuMemHostUnregister)
  auto at = driver().registered.find(memory);
  if (at == driver().registered.end()) return NOT_REGISTERED;
  refuse_under_copy(memory, at->second);
  driver().registered.erase(at);
  if (said("tell_pinned", 0) && driver().registered.empty()) std::fprintf(stderr, "fake cuda: nothing is pinned\n");
  return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  BEGIN_CURRENT(cuMemcpyHtoDAsync_v2)
  if (!inside(to, bytes)) return INVALID_VALUE;
  return ask(stream, from, [=] {
    std::memcpy(bytes_at(to), from, bytes);
    return (int)OK;
  }, true);
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  BEGIN_CURRENT(cuMemcpyDtoHAsync_v2)
  if (!inside(from, bytes)) return INVALID_VALUE;
  return ask(stream, to, [=] {
    std::memcpy(to, bytes_at(from), bytes);
    return (int)OK;
  });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  BEGIN_CURRENT(cuMemcpyDtoDAsync_v2)
  if (!inside(from, bytes) || !inside(to, bytes)) return INVALID_VALUE;
  return ask(stream, nullptr, [=] {
    std::memcpy(bytes_at(to), bytes_at(from), bytes);
    return (int)OK;
  });
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream) {
  BEGIN_CURRENT(cuMemsetD8Async)
  if (!bytes || !inside(to, bytes)) return INVALID_VALUE;
  return ask(stream, nullptr, [=] {
    std::memset(bytes_at(to), value, bytes);
    return (int)OK;
  });
}
int cuModuleLoadData(void** module, const void* image) {
  BEGIN_CURRENT(cuModuleLoadData)
  auto* text = (const char*)image;
  if (starts(text, FAKE_IMAGE)) {
    text += std::strlen(FAKE_IMAGE);
    *module = new Module{{text, std::strcspn(text, "\n")}, "", {}};
    return OK;
  }
  // Comments of the compiler stand before the version, which is that of NVRTC 12.9.
  if (!starts(text, "//") && !starts(text, ".version")) return INVALID_IMAGE;
  if (said("version", 12090) < 12090) return UNSUPPORTED_PTX_VERSION;
  *module = new Module{"", text, {}};
  return OK;
}
int cuModuleUnload(void* module) {
  BEGIN_CURRENT(cuModuleUnload)
  if (int code = finish_all()) return code;
  delete (Module*)module;
  return OK;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  BEGIN_CURRENT(cuModuleGetFunction)
  Kernel kernel{name, 0, 0, 0};
  if (!holds(*(Module*)module, name) || lamina_emu_shape(name, &kernel.threads, &kernel.count, &kernel.bytes)) return NOT_FOUND;
  auto& own = ((Module*)module)->kernels[name];
  if (!own) own = std::make_unique<Kernel>(kernel);
  *function = own.get();
  return OK;
}
// Kernels that multiply tiles, or attend, keep these in shared memory.
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  BEGIN_CURRENT(cuFuncGetAttribute)
  const char* name = ((const Kernel*)function)->name.c_str();
  if (attribute != 1) return INVALID_VALUE;
  *value = starts(name, "tensor_many_") || starts(name, "attend_one_") ? 42 << 10 : 0;
  return OK;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  BEGIN_CURRENT(cuFuncSetAttribute)
  if (attribute != 9) return INVALID_VALUE;
  if (said("tell_shared", 0)) std::fprintf(stderr, "fake cuda: %s prefers %d %% of shared memory\n", ((const Kernel*)function)->name.c_str(), value);
  return OK;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  BEGIN_CURRENT(cuLaunchKernel)
  auto* kernel = (const Kernel*)function;
  bool right = bx == kernel->threads && by == 1 && bz == 1 && !shared && !extra;
  if (!right || !gx || !gy || !gz || gy > 65535 || gz > 65535) return INVALID_VALUE;
  Launched l{kernel, {gx, gy, gz}, std::vector<uint64_t>(kernel->count - 1 + (kernel->bytes + 7) / 8)};
  for (size_t i = 0; i + 1 < kernel->count; ++i) std::memcpy(&l.words[i], parameters[i], 8);
  std::memcpy(&l.words[kernel->count - 1], parameters[kernel->count - 1], kernel->bytes);
  auto& s = *(Stream*)stream;
  if (!s.recording) return ask(stream, nullptr, [l]() mutable { return run(l); });
  s.recorded.launches.push_back(std::move(l));
  return OK;
}
int cuStreamBeginCapture_v2(void* stream, int) {
  BEGIN_CURRENT(cuStreamBeginCapture_v2)
  auto& s = *(Stream*)stream;
  if (s.recording) return CAPTURE_INVALIDATED;
  s.recording = true;
  ++recordings;
  s.recorded.launches.clear();
  return OK;
}
int cuStreamEndCapture(void* stream, void** graph) {
  BEGIN_CURRENT(cuStreamEndCapture)
  auto& s = *(Stream*)stream;
  if (!s.recording) return CAPTURE_INVALIDATED;
  s.recording = false;
  --recordings;
  *graph = new Graph(std::move(s.recorded));
  s.recorded = {};
  return OK;
}
int cuGraphInstantiateWithFlags(void** instance, void* graph, unsigned long long) {
  BEGIN_CURRENT(cuGraphInstantiateWithFlags)
  *instance = new Graph(*(Graph*)graph);
  return OK;
}
int cuGraphLaunch(void* instance, void* stream) {
  BEGIN_CURRENT(cuGraphLaunch)
  return ask(stream, nullptr, [graph = *(Graph*)instance]() mutable {
    for (Launched& l : graph.launches)
      if (int code = run(l)) return code;
    return (int)OK;
  });
}
int cuGraphDestroy(void* graph) {
  BEGIN_CURRENT(cuGraphDestroy)
  delete (Graph*)graph;
  return OK;
}
int cuGraphExecDestroy(void* instance) {
  BEGIN_CURRENT(cuGraphExecDestroy)
  delete (Graph*)instance;
  return OK;
}
}
