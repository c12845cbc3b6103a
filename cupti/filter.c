// Which objects of a process are listened to. Every library that was compiled with NVTX asks for
// itself; NVIDIA's compute libraries mark their innards, at a rate that costs more than it tells.
//
// RLSCOPE_NVTX: "all", or a list of those below that are wanted as well: "cublas,cudnn".
#include "filter.h"

#include <stdlib.h>
#include <string.h>

// By the beginning of the file name behind "lib".
static const char* const kOnRequest[] = {
    "cublas",   "cudnn",    "cufft",   "cufile", "cupti",  "curand",
    "cusolver", "cusparse", "nvshmem", "npp",    "nvjpeg",
};

static bool contains_word(const char* list, const char* word, size_t length) {
  for (const char* found = list; (found = strstr(found, word)) != NULL; ++found) {
    const bool begins = found == list || found[-1] == ',';
    if (begins && (found[length] == ',' || found[length] == '\0')) return true;
  }
  return false;
}

bool rls_nvtx_allows(const char* object_path) {
  const char* wanted = getenv("RLSCOPE_NVTX");
  if (wanted != NULL && strcmp(wanted, "all") == 0) return true;
  const char* name = strrchr(object_path, '/');
  name = name != NULL ? name + 1 : object_path;
  if (strncmp(name, "lib", 3) == 0) name += 3;
  for (size_t index = 0; index < sizeof(kOnRequest) / sizeof(*kOnRequest); ++index) {
    const char* family = kOnRequest[index];
    const size_t length = strlen(family);
    if (strncmp(name, family, length) == 0)
      return wanted != NULL && contains_word(wanted, family, length);
  }
  return true;
}
