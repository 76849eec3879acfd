// All kernels.
#pragma once
#include "repack.h"
#include "rows.h"
#include "norm.h"
#include "rope.h"
#include "cache.h"
#include "attend.h"
#include "experts.h"
#include "recurrent.h"
#include "product.h"
#include "formats/f32.h"
#include "formats/f16.h"
#include "formats/bf16.h"
#include "formats/q8_0.h"
#include "formats/q4_0.h"
#include "formats/q4_1.h"
#include "formats/mxfp4.h"
#include "formats/q4_k.h"
#include "formats/q5_k.h"
#include "formats/q6_k.h"
PRODUCTS(f32)
PRODUCTS(f16)
PRODUCTS(bf16)
PRODUCTS(q8_0)
PRODUCTS(q4_0)
PRODUCTS(q4_1)
PRODUCTS(mxfp4)
PRODUCTS(q4_k)
PRODUCTS(q5_k)
PRODUCTS(q6_k)
