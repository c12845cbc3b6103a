// Says to which layer the code belongs that a tick found running.
#pragma once

#include <cstdint>

#include "bpf/sample.h"
#include "sample_process.h"

namespace rls {

struct Verdict {
  std::uint8_t layer = RLS_LAYER_NONE;
  bool by_stack = false;
};

// A loop that waits is `spin`, wherever it is. Else the file of the instruction decides. Where that
// is a transparent library, the first return address on the stack that lies in a file with a layer
// does. Code that no rule names (an allocator, a BLAS library, code made at run time) works for the
// simulator, backend or CUDA library that called it; called from Python it is `other`.
Verdict Classify(const rls_raw_sample& sample, const SampledProcess& process);

}  // namespace rls
