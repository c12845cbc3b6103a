// The instructions of the machine that this is compiled for. RLS_CODE_OF_AARCH64 takes those of
// aarch64 elsewhere: for tests.
#pragma once

#if defined(__aarch64__) || defined(RLS_CODE_OF_AARCH64)
#include "samples/instructions_aarch64.h"
#else
#include "samples/instructions_x86_64.h"
#endif
