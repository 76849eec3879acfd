// Types of weights that have kernels, each with a file in formats/: those that tensor cores multiply where a device has them
// (fragments.h says how), and those that are multiplied by fma everywhere. Tensor cores before compute capability 8.0 have float16
// alone: F16_TYPES are what they multiply.
#pragma once
#define F16_TYPES(of) \
  of(f16) of(f8_e4m3) of(f8_e5m2) of(q8_0) of(q4_0) of(q4_1) of(q5_0) of(q5_1) \
  of(mxfp4) of(nvfp4) of(iq4_nl) of(iq4_xs) of(q3_k) of(q4_k) of(q5_k) of(q6_k)
#define TENSOR_TYPES(of) F16_TYPES(of) of(bf16)
#define FMA_TYPES(of) of(f32) of(q2_k)
