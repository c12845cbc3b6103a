// Says to which layer the code belongs that a tick found running.
#pragma once

#include <cstdint>

#include "bpf/sample.h"
#include "samples/process.h"

namespace rls {

struct Verdict {
  std::uint8_t layer = RLS_LAYER_NONE;
  bool by_stack = false;
};

// A loop that waits is `spin`, wherever it is. Else the file of the instruction decides; one that
// no rule names is `other`. Where it is a transparent library, the first return address on the
// stack that lies in any other file decides. So it does for code made at run time, except that such
// code is `other` if the interpreter called it.
Verdict Classify(const rls_raw_sample& sample, const SampledProcess& process);

}  // namespace rls
