// A libnvidia-ml.so.1 whose devices take a joule and a half between two questions. `FAKE_NVML` is a code to answer with.
#include <cstdlib>
#include <cstring>

static int failure() {
  const char* said = std::getenv("FAKE_NVML");
  return said ? std::atoi(said) : 0;
}
extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  static int known;
  if (std::strncmp(bus, "0000:0", 6) != 0) return 6;
  *device = &known;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long taken = 1000;
  if (!device) return 2;
  *millijoules = taken += 1500;
  return failure();
}
}
