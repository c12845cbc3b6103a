// Texts become 64-bit hashes; the text itself travels once.
#ifndef RLS_NAMES_H
#define RLS_NAMES_H

#include <stdint.h>
#include <wchar.h>

#include "records.h"

struct rls_text {
  struct rls_text* next;  // of all that were kept
  uint64_t hash;
  uint32_t length;
  char text[];
};

// A copy that lives as long as the process; NULL if there is no memory.
struct rls_text* rls_keep_text(const char* text);
uint64_t rls_hash(const char* text, uint32_t* length);
// UTF-8 of a wide string, cut to what fits.
void rls_narrow(const wchar_t* wide, char* text, uint32_t bytes);

// Makes sure that the collector knows the text behind a hash.
void rls_tell_name(struct rls_shim_slot* slot, uint64_t hash, const char* text, uint32_t length);

// Categories have numbers, which mean something within a domain (0: the default one).
void rls_name_category(uint64_t domain, uint32_t category, const char* name);
void rls_tell_category(struct rls_shim_slot* slot, uint64_t domain, uint32_t category);

#endif  // RLS_NAMES_H
