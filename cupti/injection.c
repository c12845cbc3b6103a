// The entry points that NVTX and the CUDA driver look for in the libraries that
// NVTX_INJECTION64_PATH and CUDA_INJECTION64_PATH name.
#include <dlfcn.h>

#include "cupti_start.h"
#include "events.h"
#include "filter.h"
#include "nvtx.h"
#include "process.h"

#define EXPORT __attribute__((visibility("default")))

static bool fill_module(const struct nvtx_export_callbacks* callbacks, uint32_t module) {
  nvtx_table table = NULL;
  unsigned size = 0;
  if (!callbacks->get_function_table(module, &table, &size) || table == NULL) return false;
  rls_nvtx_fill(module, table, size);
  return true;
}

// Called once by every object of the process that uses NVTX. 0 tells it to stay a no-op.
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table get_export_table) {
  Dl_info caller;
  // NVTX is compiled into the object that calls, so the return address names it.
  if (dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != NULL &&
      !rls_nvtx_allows(caller.dli_fname))
    return 0;
  const struct nvtx_export_callbacks* callbacks = get_export_table(NVTX_EXPORT_CALLBACKS);
  if (callbacks == NULL || callbacks->get_function_table == NULL) return 0;
  if (!rls_process_start()) return 0;
  const bool has_core = fill_module(callbacks, NVTX_MODULE_CORE);
  fill_module(callbacks, NVTX_MODULE_CUDA);
  fill_module(callbacks, NVTX_MODULE_CUDART);
  return fill_module(callbacks, NVTX_MODULE_CORE2) || has_core;
}

// NVTX takes a payload at the push alone. For a client of ours that knows it at the pop: the one of
// the range of the domain that the thread opened last; is_known 0: it has none.
EXPORT void rlscope_shim_set_payload(const void* domain, uint64_t payload, int is_known) {
  rls_set_payload(rls_domain_hash(domain), payload,
                  is_known != 0 ? RLS_SHIM_UNSIGNED : RLS_SHIM_NO_PAYLOAD);
}

// Of our own client too: a phase that ended with the last thing that it did.
EXPORT void rlscope_shim_pop_at(const void* domain, uint64_t end_ns);
EXPORT void rlscope_shim_pop_at(const void* domain, uint64_t end_ns) {
  rls_pop_at(rls_domain_hash(domain), end_ns);
}

static uint8_t domain_is_enabled(const void* domain) {
  (void)domain;
  return 1;
}

// Called by objects that use an extension. The functions that are not set stay no-ops.
EXPORT int InitializeInjectionNvtxExtension(struct nvtx_extension* extension) {
  if (extension->module != NVTX_EXTENSION_PAYLOAD) return 0;
  for (size_t index = 0; index < extension->segment_count; ++index) {
    const struct nvtx_extension_segment* segment = &extension->segments[index];
    if (segment->id == 0 && segment->slot_count > NVTX_EXTENSION_DOMAIN_IS_ENABLED)
      segment->slots[NVTX_EXTENSION_DOMAIN_IS_ENABLED] = (intptr_t)domain_is_enabled;
  }
  return 1;
}

// Called by the CUDA driver while it starts. What comes of it stands in a status record.
EXPORT int InitializeInjection(void) {
  rls_cupti_start();
  return 1;
}
