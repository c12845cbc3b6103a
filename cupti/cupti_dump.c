// RLSCOPE_CUPTI_DUMP=FOLDER: buffers as CUPTI gave them, for tests that play them back. Appends to
// FOLDER/buffers.PID, for each buffer:
//
//   u64 "RSLCUPTI", u32 api version, u32 0, u64 bytes of records, u64 bytes of names
//   the records
//   for each kernel: u32 offset of its record, u32 length, its name
#include "cupti_dump.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cupti_status.h"

#define MAX_NAME 65536

struct dump_header {
  uint64_t magic;
  uint32_t api;
  uint32_t reserved;
  uint64_t valid_bytes;
  uint64_t names_bytes;
};

static int file = -1;  // of the process that opened it

void rls_cupti_dump_prepare(const char* folder) {
  file = -1;
  if (folder == NULL) return;
  char path[RLS_CUPTI_PATH_BYTES];
  snprintf(path, sizeof(path), "%s/buffers.%d", folder, (int)getpid());
  file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void put(char* names, uint64_t* used, const void* data, size_t bytes) {
  if (names != NULL) memcpy(names + *used, data, bytes);
  *used += bytes;
}

// Returns how many bytes the names take; writes them where `names` is not NULL.
static uint64_t collect_names(const struct rls_buffer* buffer, char* names) {
  uint8_t* records = (uint8_t*)buffer->records;
  uint8_t* record = NULL;
  uint64_t used = 0;
  while (rls_cupti.functions.next_record(records, buffer->valid_bytes, &record) == CUPTI_OK) {
    const struct cupti_kernel* kernel = (const struct cupti_kernel*)record;
    if (kernel->kind != CUPTI_KIND_KERNEL && kernel->kind != CUPTI_KIND_CONCURRENT_KERNEL) continue;
    if (kernel->name == NULL) continue;
    const uint32_t offset = (uint32_t)(record - records);
    const uint32_t length = (uint32_t)strnlen(kernel->name, MAX_NAME);
    put(names, &used, &offset, sizeof(offset));
    put(names, &used, &length, sizeof(length));
    put(names, &used, kernel->name, length);
  }
  return used;
}

// Memory that a record owns is not there when it is played back, and must not be freed.
static void forget_memory(const struct rls_buffer* buffer, uint8_t* copy) {
  uint8_t* records = (uint8_t*)buffer->records;
  uint8_t* record = NULL;
  if (rls_cupti.version < CUPTI_API_OVERHEAD_DATA) return;
  while (rls_cupti.functions.next_record(records, buffer->valid_bytes, &record) == CUPTI_OK) {
    const uint64_t offset = (uint64_t)(record - records);
    struct cupti_overhead_data* overhead = (struct cupti_overhead_data*)(copy + offset);
    if (offset + sizeof(*overhead) > buffer->valid_bytes) return;
    if (overhead->overhead.kind == CUPTI_KIND_OVERHEAD) overhead->data = NULL;
  }
}

void rls_cupti_dump(const struct rls_buffer* buffer) {
  if (file < 0) return;
  const uint64_t names_bytes = collect_names(buffer, NULL);
  char* names = malloc(names_bytes + 1);
  uint8_t* copy = malloc(buffer->valid_bytes);
  if (names != NULL && copy != NULL) {
    struct dump_header header = {
        .api = rls_cupti.version, .valid_bytes = buffer->valid_bytes, .names_bytes = names_bytes};
    memcpy(&header.magic, "RSLCUPTI", sizeof(header.magic));
    memcpy(copy, buffer->records, buffer->valid_bytes);
    forget_memory(buffer, copy);
    collect_names(buffer, names);
    struct iovec parts[] = {
        {&header, sizeof(header)}, {copy, buffer->valid_bytes}, {names, names_bytes}};
    if (writev(file, parts, 3) < 0) file = -1;
  }
  free(copy);
  free(names);
}
