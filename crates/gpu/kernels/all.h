// All kernels.
#pragma once
#include "repack.h"
#include "rows.h"
#include "norm.h"
#include "rope.h"
#include "cache.h"
#include "attend.h"
#include "experts.h"
#include "groups.h"
#include "recurrent.h"
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
PRODUCTS(f32)
PRODUCTS(f16)
PRODUCTS(bf16)
PRODUCTS(f8_e4m3)
PRODUCTS(f8_e5m2)
PRODUCTS(q8_0)
PRODUCTS(q4_0)
PRODUCTS(q4_1)
PRODUCTS(q5_0)
PRODUCTS(q5_1)
PRODUCTS(mxfp4)
PRODUCTS(nvfp4)
PRODUCTS(iq4_nl)
PRODUCTS(iq4_xs)
PRODUCTS(q2_k)
PRODUCTS(q3_k)
PRODUCTS(q4_k)
PRODUCTS(q5_k)
PRODUCTS(q6_k)
#ifndef __METAL_VERSION__
#include "tensor.h"
#include "attend_tensor.h"
#endif
