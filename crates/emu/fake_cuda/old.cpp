// A libcuda.so as of many years ago: most of what is called today is not in it.
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) {
  *version = 8000;
  return 0;
}
}
