// The fake CUPTI: hands out buffers that a real one filled (FAKECUPTI_REPLAY=FILE).
//
// The file holds, for each buffer, a header, the bytes, and for each record with a name
// {record's offset, length, text}: pointers mean nothing in another process. All times are moved so
// that the last is now, and the calls become those of this process's first thread.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cupti.h"

struct dumped {
  char magic[8];
  uint32_t api;
  uint32_t reserved;
  uint64_t valid_bytes;
  uint64_t names_bytes;
};

bool fake_replays(void) {
  const char* path = getenv("FAKECUPTI_REPLAY");
  return path != NULL && path[0] != '\0';
}

// Where the start stands in a record; the end is 8 bytes behind it, 0: it has no times.
static size_t time_offset(uint32_t kind) {
  switch (kind) {
    case FAKE_DRIVER_CALL:
    case FAKE_RUNTIME_CALL:
    case FAKE_SYNC:
    case FAKE_GRAPH:
      return 8;
    case 3:
    case FAKE_KERNEL:
    case FAKE_MEMCPY:
    case FAKE_MEMSET:
    case FAKE_PEER:
      return 16;
    case FAKE_OVERHEAD:
      return 24;
    default:
      return 0;
  }
}

static uint32_t kind_of(const uint8_t* record) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  return kind;
}

static uint64_t last_end(const uint8_t* bytes, size_t valid, uint32_t api) {
  uint64_t last = 0;
  for (size_t at = 0; at < valid; at += fake_record_size(api, kind_of(bytes + at))) {
    const size_t offset = time_offset(kind_of(bytes + at));
    uint64_t end = 0;
    if (offset != 0) memcpy(&end, bytes + at + offset + 8, sizeof end);
    if (end > last) last = end;
    if (fake_record_size(api, kind_of(bytes + at)) == 0) break;
  }
  return last;
}

static void move_record(uint8_t* record, uint64_t by) {
  const uint32_t kind = kind_of(record);
  const size_t offset = time_offset(kind);
  for (size_t at = offset; offset != 0 && at < offset + 16; at += 8) {
    uint64_t told;
    memcpy(&told, record + at, sizeof told);
    if (told != 0) told += by;
    memcpy(record + at, &told, sizeof told);
  }
  const uint32_t self = (uint32_t)getpid();
  if (kind != FAKE_DRIVER_CALL && kind != FAKE_RUNTIME_CALL) return;
  memcpy(record + 24, &self, sizeof self);
  memcpy(record + 28, &self, sizeof self);
}

// Names stay for the life of the process, as those of modules do.
static void patch_names(uint8_t* bytes, const uint8_t* names, size_t names_bytes) {
  for (size_t at = 0; at + 8 <= names_bytes;) {
    uint32_t where[2];
    memcpy(where, names + at, sizeof where);
    char* text = strndup((const char*)names + at + 8, where[1]);
    memcpy(bytes + where[0] + fake_name_offset(kind_of(bytes + where[0])), &text, sizeof text);
    at += 8 + where[1];
  }
}

static void hand_out(const struct dumped* header, uint8_t* content, uint64_t by,
                     fake_request request, fake_complete complete) {
  uint8_t* buffer = NULL;
  size_t bytes = 0;
  size_t max_records = 0;
  request(&buffer, &bytes, &max_records);
  if (buffer == NULL || bytes < header->valid_bytes) abort();
  memcpy(buffer, content, header->valid_bytes);
  patch_names(buffer, content + header->valid_bytes, header->names_bytes);
  for (size_t at = 0; at < header->valid_bytes;) {
    const size_t step = fake_record_size(header->api, kind_of(buffer + at));
    if (step == 0) break;  // a kind that this program knows nothing of
    move_record(buffer + at, by);
    at += step;
  }
  complete(NULL, 0, buffer, bytes, header->valid_bytes);
}

// Calls `use` of every buffer of the file, `by` being what was found before.
static uint64_t each(FILE* file, uint64_t by, fake_request request, fake_complete complete) {
  uint64_t last = 0;
  struct dumped header;
  rewind(file);
  while (fread(&header, sizeof header, 1, file) == 1) {
    if (memcmp(header.magic, "RSLCUPTI", 8) != 0) abort();
    const size_t size = header.valid_bytes + header.names_bytes;
    uint8_t* content = malloc(size);
    if (content == NULL || fread(content, 1, size, file) != size) abort();
    fake_cupti.api = header.api;
    const uint64_t end = last_end(content, header.valid_bytes, header.api);
    if (end > last) last = end;
    if (complete != NULL) hand_out(&header, content, by, request, complete);
    free(content);
  }
  return last;
}

void fake_replay(fake_request request, fake_complete complete) {
  static bool is_done;
  if (is_done || request == NULL) return;
  is_done = true;
  FILE* file = fopen(getenv("FAKECUPTI_REPLAY"), "rb");
  if (file == NULL) abort();
  const uint64_t last = each(file, 0, NULL, NULL);
  each(file, fake_now() - last, request, complete);
  fclose(file);
}
