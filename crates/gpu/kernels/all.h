// All kernels.
//
// CUDA compiles them in two parts: those that a plan launches there, and, with ONLY_COMPARED, products by fma of types that tensor
// cores multiply, which run there for their golden bits alone. Where tensor cores have no bfloat16, plans launch its products by fma.
#pragma once
#include "types.h"
#include "product.h"
#include "formats/f32.h"
#include "formats/f16.h"
#include "formats/bf16.h"
#include "formats/f8_e4m3.h"
#include "formats/f8_e5m2.h"
#include "formats/q8_0.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/q5_0.h"
#include "formats/q5_1.h"
#include "formats/mxfp4.h"
#include "formats/nvfp4.h"
#include "formats/iq4_nl.h"
#include "formats/iq4_xs.h"
#include "formats/q2_k.h"
#include "formats/q3_k.h"
#include "formats/q4_k.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
#ifndef ONLY_LAUNCHED
TENSOR_TYPES(PRODUCTS)
#endif
#ifndef ONLY_COMPARED
#include "repack.h"
#include "rows.h"
#include "norm.h"
#include "rope.h"
#include "cache.h"
#include "attend.h"
#include "experts.h"
#include "groups.h"
#include "recurrent.h"
FMA_TYPES(PRODUCTS)
#if defined(ONLY_F16_CORES) && defined(ONLY_LAUNCHED)
PRODUCTS(bf16)
#endif
FMA_TYPES(LOOKUPS)
TENSOR_TYPES(LOOKUPS)
#ifndef __METAL_VERSION__
#include "tensor.h"
#include "attend_tensor.h"
#include "attend_latent.h"
#endif
#endif
