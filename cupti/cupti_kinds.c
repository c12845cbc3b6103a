// Enabling the kinds of activity records, and switching them while nobody reads.
#include "cupti_kinds.h"

#include <stdio.h>

#include "cupti_calls.h"
#include "cupti_status.h"

static const struct {
  uint32_t kind;
  const char* name;
} kKinds[] = {
    {CUPTI_KIND_CONTEXT, "CONTEXT"},   {CUPTI_KIND_STREAM, "STREAM"},
    {CUPTI_KIND_OVERHEAD, "OVERHEAD"}, {CUPTI_KIND_CONCURRENT_KERNEL, "CONCURRENT_KERNEL"},
    {CUPTI_KIND_MEMCPY, "MEMCPY"},     {CUPTI_KIND_MEMCPY_PEER, "MEMCPY2"},
    {CUPTI_KIND_MEMSET, "MEMSET"},     {CUPTI_KIND_SYNC, "SYNCHRONIZATION"},
    {CUPTI_KIND_GRAPH, "GRAPH_TRACE"}, {CUPTI_KIND_MEMORY, "MEMORY2"},
};

// `exists_already`: contexts and streams may, which are reported then.
static cupti_result enable(uint32_t kind, bool exists_already) {
  const bool can_exist = kind == CUPTI_KIND_CONTEXT || kind == CUPTI_KIND_STREAM;
  if (exists_already && can_exist && rls_cupti.functions.enable_and_dump != NULL)
    return rls_cupti.functions.enable_and_dump(kind);
  return rls_cupti.functions.enable(kind);
}

bool rls_cupti_enable_kinds(uint64_t unwanted) {
  for (size_t i = 0; i < sizeof(kKinds) / sizeof(*kKinds); ++i) {
    const uint32_t kind = kKinds[i].kind;
    if ((unwanted & (1ULL << kind)) != 0) continue;
    const cupti_result result = enable(kind, rls_cupti.is_late);
    if (result == CUPTI_OK) {
      rls_cupti.recorded |= 1ULL << kind;
      continue;
    }
    rls_cupti.refused |= 1ULL << kind;
    char call[64];
    snprintf(call, sizeof(call), "cuptiActivityEnable(%s)", kKinds[i].name);
    if (kind == CUPTI_KIND_CONCURRENT_KERNEL) {
      rls_cupti_failed(call, result);
      return false;
    }
    rls_cupti_failed_in_part(call, result);
  }
  rls_cupti_enable_calls();
  return true;
}

void rls_cupti_switch(bool on) {
  if (!on && rls_cupti.functions.disable == NULL) return;
  for (uint32_t kind = 0; kind < CUPTI_KIND_KNOWN; ++kind) {
    const bool is_call = kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER;
    if (is_call || (rls_cupti.recorded & (1ULL << kind)) == 0) continue;
    if (on) {
      enable(kind, true);
    } else {
      rls_cupti.functions.disable(kind);
    }
  }
  rls_cupti_switch_calls(on);
}
