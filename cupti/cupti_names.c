// Names of kernels. CUPTI gives every record of a kernel the same pointer, so a name is hashed
// once; the memory behind a pointer may become another name's when a module is unloaded, so it is
// compared each time, which is much cheaper than hashing.
#include "cupti_names.h"

#include <stdlib.h>
#include <string.h>

#include "names.h"

#define ENTRIES 4096

struct known_name {
  const char* pointer;
  char* copy;
  uint64_t hash;
  uint32_t length;
};

static struct known_name known[ENTRIES];

static struct known_name* entry_of(const char* name) {
  return &known[((uintptr_t)name * 0x9e3779b97f4a7c15ULL) >> 52];
}

static void learn(struct known_name* entry, const char* name) {
  free(entry->copy);
  entry->pointer = NULL;
  entry->hash = rls_hash(name, &entry->length);
  entry->copy = malloc(entry->length + 1U);
  if (entry->copy == NULL) return;
  memcpy(entry->copy, name, entry->length);
  entry->copy[entry->length] = '\0';
  entry->pointer = name;
}

uint64_t rls_cupti_kernel_name(struct rls_shim_slot* slot, const char* name) {
  if (name == NULL) return 0;
  struct known_name* entry = entry_of(name);
  if (entry->pointer != name || strncmp(entry->copy, name, RLS_SHIM_MAX_TEXT + 1) != 0)
    learn(entry, name);
  rls_tell_name(slot, entry->hash, name, entry->length);
  return entry->hash;
}
