// The reader of /proc/self/maps in the shim is C, and private to its file.
#include "late_maps.h"

#include "cupti/inject_nvtx.c"
#include "cupti/inject_scan.c"

void rls_inject_fill(uint64_t address, const char* path, struct rls_inject_status* status) {
  (void)address;
  (void)path;
  (void)status;
}

int rls_fuzz_late_line(char* line) {
  static struct region region;
  return parse_line(line, &region) && strlen(region.path) < MAX_PATH;
}

int rls_fuzz_late_instance(const uint64_t* words, uint64_t address) {
  return rls_inject_is_nvtx(words, address);
}

size_t rls_fuzz_late_words(void) { return NVTX_WORDS; }
