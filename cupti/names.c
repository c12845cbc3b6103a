#include "names.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "process.h"
#include "ring.h"
#include "shim.h"

// Which texts were reported: a cache that forgets, because telling twice does no harm. Entries hold
// the hash mixed with the seed, so that those of a parent or of an earlier reader do not count.
#define REPORTED_ENTRIES 4096
static uint64_t reported[REPORTED_ENTRIES];

// Both halves of the product: every bit of the word reaches every other one, so that a difference
// in the next word cannot take back one in this.
static uint64_t mix(uint64_t hash, uint64_t word) {
  const unsigned __int128 product =
      (unsigned __int128)(hash ^ word ^ 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// A text may end right before memory that is not there: never read past its end.
uint64_t rls_hash(const char* text, uint32_t* length) {
  const size_t bytes = strnlen(text, RLS_SHIM_MAX_TEXT + 1);
  uint64_t hash = 0x2545f4914f6cdd1dULL;
  size_t done = 0;
  for (; done + 8 <= bytes; done += 8) {
    uint64_t word;
    memcpy(&word, text + done, sizeof(word));
    hash = mix(hash, word);
  }
  uint64_t rest = 0;
  memcpy(&rest, text + done, bytes - done);
  hash = mix(mix(hash, rest), bytes);
  *length = (uint32_t)bytes;
  return hash != 0 ? hash : 1;  // 0 stands for no text
}

// Takes the right to report; false if it was reported before.
static bool must_tell(uint64_t hash, uint64_t** entry, uint64_t* value) {
  const uint64_t reader = rls_reader();
  *value = mix(hash, rls_process.seed ^ reader);
  *entry = &reported[*value % REPORTED_ENTRIES];
  return __atomic_load_n(*entry, __ATOMIC_RELAXED) != *value;
}

static void write_text(struct rls_shim_slot* slot, const struct rls_shim_string* first,
                       const char* text, uint32_t length) {
  uint64_t position = slot->head;
  memcpy(rls_cell(slot, position), first, sizeof(*first));
  for (uint32_t done = sizeof(first->text); done < length; done += RLS_SHIM_CELL_BYTES) {
    position += RLS_SHIM_CELL_BYTES;
    const uint32_t left = length - done;
    const uint32_t here = left < RLS_SHIM_CELL_BYTES ? left : RLS_SHIM_CELL_BYTES;
    char* cell = rls_cell(slot, position);
    memcpy(cell, text + done, here);
    memset(cell + here, 0, RLS_SHIM_CELL_BYTES - here);
  }
  rls_publish(slot, position + RLS_SHIM_CELL_BYTES - slot->head);
}

static uint64_t string_bytes(uint32_t length) {
  const uint32_t inside = sizeof(((struct rls_shim_string*)0)->text);
  if (length <= inside) return RLS_SHIM_CELL_BYTES;
  const uint64_t behind = (length - inside + RLS_SHIM_CELL_BYTES - 1) / RLS_SHIM_CELL_BYTES;
  return (1 + behind) * RLS_SHIM_CELL_BYTES;
}

void rls_tell_name(struct rls_shim_slot* slot, uint64_t hash, const char* text, uint32_t length) {
  uint64_t* entry;
  uint64_t value;
  if (RLS_LIKELY(!must_tell(hash, &entry, &value))) return;
  const uint32_t kept = length <= RLS_SHIM_MAX_TEXT ? length : RLS_SHIM_MAX_TEXT;
  if (!rls_has_room(slot, string_bytes(kept))) {
    rls_count(slot, &slot->dropped_names);  // reported with the next event that bears it
    return;
  }
  struct rls_shim_string first = {
      .kind = RLS_SHIM_STRING, .length = (uint16_t)kept, .cut = length > kept, .hash = hash};
  memcpy(first.text, text, kept < sizeof(first.text) ? kept : sizeof(first.text));
  write_text(slot, &first, text, kept);
  __atomic_store_n(entry, value, __ATOMIC_RELAXED);
}

struct category {
  struct category* next;
  uint64_t domain;
  uint32_t number;
  struct rls_text* name;
};
static struct category* categories;  // newest first, never freed

void rls_name_category(uint64_t domain, uint32_t number, const char* name) {
  struct category* category = malloc(sizeof(*category));
  struct rls_text* text = rls_keep_text(name);
  if (category == NULL || text == NULL) {
    free(category);
    return;
  }
  *category = (struct category){.domain = domain, .number = number, .name = text};
  category->next = __atomic_load_n(&categories, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&categories, &category->next, category, true,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
  }
}

void rls_tell_category(struct rls_shim_slot* slot, uint64_t domain, uint32_t number) {
  uint64_t* entry;
  uint64_t value;
  if (RLS_LIKELY(!must_tell(mix(domain, number), &entry, &value))) return;
  const struct category* found = __atomic_load_n(&categories, __ATOMIC_ACQUIRE);
  while (found != NULL && (found->domain != domain || found->number != number)) found = found->next;
  if (found == NULL) return;
  rls_tell_name(slot, found->name->hash, found->name->text, found->name->length);
  const struct rls_shim_category record = {
      .kind = RLS_SHIM_CATEGORY, .category = number, .domain = domain, .name = found->name->hash};
  if (!rls_has_room(slot, sizeof(record))) {
    rls_count(slot, &slot->dropped_names);
    return;
  }
  rls_append(slot, &record);
  __atomic_store_n(entry, value, __ATOMIC_RELAXED);
}

// A leak checker takes what nobody points to for a leak, and makes the program fail.
static struct rls_text* kept_texts;

struct rls_text* rls_keep_text(const char* text) {
  uint32_t length;
  const uint64_t hash = rls_hash(text, &length);
  struct rls_text* kept = malloc(sizeof(*kept) + length + 1);
  if (kept == NULL) return NULL;
  kept->hash = hash;
  kept->length = length;
  memcpy(kept->text, text, length);
  kept->text[length] = '\0';
  kept->next = __atomic_load_n(&kept_texts, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&kept_texts, &kept->next, kept, true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  return kept;
}

static uint32_t encode(uint32_t point, char* bytes) {
  if (point < 0x80) {
    bytes[0] = (char)point;
    return 1;
  }
  if (point < 0x800) {
    bytes[0] = (char)(0xc0 | (point >> 6));
    bytes[1] = (char)(0x80 | (point & 0x3f));
    return 2;
  }
  if (point < 0x10000) {
    bytes[0] = (char)(0xe0 | (point >> 12));
    bytes[1] = (char)(0x80 | ((point >> 6) & 0x3f));
    bytes[2] = (char)(0x80 | (point & 0x3f));
    return 3;
  }
  bytes[0] = (char)(0xf0 | ((point >> 18) & 0x07));
  bytes[1] = (char)(0x80 | ((point >> 12) & 0x3f));
  bytes[2] = (char)(0x80 | ((point >> 6) & 0x3f));
  bytes[3] = (char)(0x80 | (point & 0x3f));
  return 4;
}

void rls_narrow(const wchar_t* wide, char* text, uint32_t bytes) {
  uint32_t filled = 0;
  for (; *wide != L'\0' && filled + 4 < bytes; ++wide)
    filled += encode((uint32_t)*wide, text + filled);
  text[filled] = '\0';
}
