// A libnvrtc.so of our own: an image is the source behind a mark and the part of it that is asked for. FAKE_NVRTC=1 lets every
// compilation fail.
#include "fake.h"
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
struct Program { std::string source, image; const char* log = ""; };
enum NvrtcCode { FINE = 0, WRONG_INPUT = 3, FAILED = 6 };
}   // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 9;
  return FINE;
}
const char* nvrtcGetErrorString(int) { return "the fake compiler failed"; }
int nvrtcCreateProgram(void** program, const char* source, const char*, int headers, const char* const*, const char* const*) {
  if (headers) return WRONG_INPUT;
  *program = new Program{source, ""};
  return FINE;
}
int nvrtcDestroyProgram(void** program) {
  delete (Program*)*program;
  *program = nullptr;
  return FINE;
}
// Every include has to be in the text by now, that of the emulator apart, which no GPU compiler comes to.
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  auto& p = *(Program*)program;
  const char* asked = std::getenv("FAKE_NVRTC");
  size_t included = 0;
  for (size_t at = 0; (at = p.source.find("#include \"", at)) != std::string::npos; ++at)
    included += p.source.compare(at, 16, "#include \"emu.h\"") != 0;
  if (included || (asked && *asked)) {
    p.log = "kernels.cu(41): error: the fake compiler was told to fail";
    return FAILED;
  }
  p.image = FAKE_IMAGE;
  for (int i = 0; i < count; ++i)
    if (!std::strncmp(options[i], ONLY, std::strlen(ONLY))) p.image += options[i];
  p.image += "\n" + p.source;
  return FINE;
}
int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = std::strlen(((Program*)program)->log) + 1;
  return FINE;
}
int nvrtcGetProgramLog(void* program, char* text) {
  std::strcpy(text, ((Program*)program)->log);
  return FINE;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = ((Program*)program)->image.size();
  return FINE;
}
int nvrtcGetCUBIN(void* program, char* image) {
  auto& p = *(Program*)program;
  std::memcpy(image, p.image.data(), p.image.size());
  return FINE;
}
}
