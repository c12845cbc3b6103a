// Fills the slots of an NVTX instance that was found in memory.
#include "inject_fill.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "filter.h"
#include "inject_nvtx.h"
#include "nvtx.h"

// Each table has an empty entry before it and one behind it, so the next one begins two words
// later.
enum {
  WORD_CORE_TABLE = NVTX_WORD_SLOTS + NVTX_SLOTS,
  WORD_CUDA_TABLE = WORD_CORE_TABLE + NVTX_SLOTS_CORE + 2,
  WORD_CUDART_TABLE = WORD_CUDA_TABLE + NVTX_SLOTS_CUDA + NVTX_SLOTS_OPENCL + 4,
  WORD_CORE2_TABLE = WORD_CUDART_TABLE + NVTX_SLOTS_CUDART + 2,
};
enum {
  WORD_CORE2_SLOTS =
      NVTX_WORD_SLOTS + NVTX_SLOTS_CORE + NVTX_SLOTS_CUDA + NVTX_SLOTS_OPENCL + NVTX_SLOTS_CUDART
};

// Keeps the object from being unloaded while its memory is written. NULL: it cannot be kept, for
// it lives in a namespace of its own or its file was replaced.
static void* keep_object(const char* path) {
  return dlopen(path, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
}

static bool is_still_there(uint64_t address, uint64_t* words) {
  struct iovec local = {words, NVTX_BYTES};
  struct iovec remote = {(void*)(uintptr_t)address, NVTX_BYTES};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == NVTX_BYTES &&
         rls_inject_is_nvtx(words, address);
}

static bool is_own_code(uint64_t function) {
  Dl_info found;
  Dl_info own;
  return dladdr((void*)(uintptr_t)function, &found) != 0 &&
         dladdr((void*)(uintptr_t)&rlscope_shim_inject_status, &own) != 0 &&
         found.dli_fbase == own.dli_fbase;
}

// The first handler in CORE or CORE2; 0: the process runs without a tool.
static uint64_t first_handler(const uint64_t* words) {
  for (unsigned i = 0; i < NVTX_SLOTS_CORE; ++i) {
    if (words[NVTX_WORD_SLOTS + i] != 0) return words[NVTX_WORD_SLOTS + i];
  }
  for (unsigned i = 0; i < NVTX_SLOTS_CORE2; ++i) {
    if (words[WORD_CORE2_SLOTS + i] != 0) return words[WORD_CORE2_SLOTS + i];
  }
  return 0;
}

static void store_handlers(uint64_t* instance) {
  static const struct {
    unsigned module;
    unsigned word;
    unsigned size;
  } kTables[] = {
      {NVTX_MODULE_CORE, WORD_CORE_TABLE, NVTX_CORE_SIZE},
      {NVTX_MODULE_CUDA, WORD_CUDA_TABLE, NVTX_CUDA_SIZE},
      {NVTX_MODULE_CUDART, WORD_CUDART_TABLE, NVTX_CUDART_SIZE},
      {NVTX_MODULE_CORE2, WORD_CORE2_TABLE, NVTX_CORE2_SIZE},
  };
  for (size_t i = 0; i < sizeof(kTables) / sizeof(*kTables); ++i)
    rls_nvtx_fill(kTables[i].module, (nvtx_table)(void*)(instance + kTables[i].word),
                  kTables[i].size);
}

// Nothing called this instance yet. It is taken the way its own first call would take it, so that
// a thread which makes that call now waits for us.
static bool fill_fresh(uint64_t* instance, const uint64_t* words) {
  uint32_t* state = (uint32_t*)(void*)instance;
  uint32_t fresh = NVTX_STATE_FRESH;
  if (!__atomic_compare_exchange_n(state, &fresh, NVTX_STATE_STARTED, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED)) {
    return false;
  }
  store_handlers(instance);
  for (unsigned i = NVTX_WORD_SLOTS; i < NVTX_WORD_SLOTS + NVTX_SLOTS; ++i) {
    // What still starts the initialisation would do so for ever.
    if (instance[i] == words[i]) __atomic_store_n(&instance[i], 0, __ATOMIC_RELAXED);
  }
  __atomic_store_n(state, NVTX_STATE_COMPLETE, __ATOMIC_RELEASE);
  return true;
}

static void fill(uint64_t* instance, const uint64_t* words, struct rls_inject_status* status) {
  if ((uint32_t)words[0] == NVTX_STATE_FRESH) {
    *(fill_fresh(instance, words) ? &status->filled : &status->busy) += 1;
    return;
  }
  if ((uint32_t)words[0] == NVTX_STATE_STARTED) {
    ++status->busy;
    return;
  }
  const uint64_t handler = first_handler(words);
  if (handler == 0) {
    store_handlers(instance);
    ++status->filled;
  } else {
    ++*(is_own_code(handler) ? &status->ours : &status->foreign);
  }
}

void rls_inject_fill(uint64_t address, const char* path, struct rls_inject_status* status) {
  if (!rls_nvtx_allows(path)) {
    ++status->denied;
    return;
  }
  uint64_t words[NVTX_WORDS];
  void* kept = keep_object(path);
  if (is_still_there(address, words)) {
    fill((uint64_t*)(uintptr_t)address, words, status);
  }
  if (kept != NULL) dlclose(kept);
}
