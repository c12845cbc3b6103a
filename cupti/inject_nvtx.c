// Tells the memory of an NVTX instance from anything else.
#include "inject_nvtx.h"

static bool has_table(const uint64_t* words, uint64_t address, unsigned* word, unsigned* slot,
                      unsigned slots) {
  if (words[(*word)++] != 0) return false;
  for (unsigned i = 0; i < slots; ++i) {
    if (words[(*word)++] != address + 8U * (*slot)++) return false;
  }
  return words[(*word)++] == 0;
}

bool rls_inject_is_nvtx(const uint64_t* words, uint64_t address) {
  static const unsigned kSlots[NVTX_MODULES] = {NVTX_SLOTS_CORE,   NVTX_SLOTS_CUDA,
                                                NVTX_SLOTS_OPENCL, NVTX_SLOTS_CUDART,
                                                NVTX_SLOTS_CORE2,  NVTX_SLOTS_SYNC};
  if (words[NVTX_WORD_CALLBACKS] != 16 || words[NVTX_WORD_VERSION_INFO] != 24) return false;
  if ((uint32_t)words[0] > NVTX_STATE_COMPLETE || (uint32_t)words[4] != 3) return false;
  if (words[2] == 0 || words[5] == 0) return false;
  unsigned word = NVTX_WORD_SLOTS + NVTX_SLOTS;
  unsigned slot = NVTX_WORD_SLOTS;
  for (unsigned module = 0; module < NVTX_MODULES; ++module) {
    if (!has_table(words, address, &word, &slot, kSlots[module])) return false;
  }
  return true;
}
