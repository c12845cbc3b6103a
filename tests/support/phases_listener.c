// An NVTX tool for tests: writes each closed push/pop range into a file of the process, mapped, so
// that nothing is lost when the process ends without a word.
//
// RLSCOPE_TEST_RANGES: the folder. A file is named by its pid and holds records of 128 bytes:
// start, end (CLOCK_MONOTONIC, ns), tid, payload, name, the framework's own name. The first record
// is a header: how many there are, pops without a push, pushes on top of an open range (there
// should be none), ranges that are open.
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "nvtx_abi.h"

#define MAX_RECORDS (1 << 20)

struct header {
  uint64_t count, unmatched, nested, opened;
  char reserved[96];
};
struct record {
  uint64_t start_ns, end_ns;
  uint32_t tid;
  int32_t steps;  // the payload; negative: none
  char name[40];
  char label[64];
};

static struct header* file;
#define MAX_LABELS 1024
static const char* labels[MAX_LABELS];
static _Thread_local struct {
  const char* name;
  const char* label;
  uint64_t start_ns;
  int32_t steps;
} open_range;

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void open_file(void) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%d", getenv("RLSCOPE_TEST_RANGES"), (int)getpid());
  const size_t bytes = sizeof(struct record) * (size_t)MAX_RECORDS;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) abort();
  file = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (file == MAP_FAILED) abort();
  close(fd);
}

static void start_again(void) {
  open_range.name = NULL;
  open_file();
}

static int push(void* domain, const struct nvtx_attributes* attributes) {
  (void)domain;
  if (open_range.name != NULL) __atomic_add_fetch(&file->nested, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&file->opened, 1, __ATOMIC_RELAXED);
  open_range.name = attributes->message.registered;
  open_range.label =
      attributes->category < MAX_LABELS ? labels[attributes->category] : "(no such label)";
  open_range.steps =
      attributes->payload_type == NVTX_PAYLOAD_U64 ? (int32_t)attributes->payload.u64 : -1;
  open_range.start_ns = now_ns();
  return 0;
}

static int end_range(uint64_t end_ns) {
  if (open_range.name == NULL) {
    __atomic_add_fetch(&file->unmatched, 1, __ATOMIC_RELAXED);
    return 0;
  }
  const uint64_t index = __atomic_add_fetch(&file->count, 1, __ATOMIC_RELAXED);
  if (index >= MAX_RECORDS) abort();
  struct record* record = (struct record*)file + index;
  record->start_ns = open_range.start_ns;
  record->end_ns = end_ns;
  record->tid = (uint32_t)gettid();
  record->steps = open_range.steps;
  snprintf(record->name, sizeof(record->name), "%s", open_range.name);
  if (open_range.label != NULL)
    snprintf(record->label, sizeof(record->label), "%s", open_range.label);
  open_range.name = NULL;
  return 0;
}

static int pop(void* domain) {
  (void)domain;
  return end_range(now_ns());
}

// As librlscope_shim.so has them.
__attribute__((visibility("default"))) void rlscope_shim_pop_at(const void* domain,
                                                                uint64_t end_ns);
void rlscope_shim_pop_at(const void* domain, uint64_t end_ns) {
  (void)domain;
  end_range(end_ns > open_range.start_ns ? end_ns : open_range.start_ns);
}

__attribute__((visibility("default"))) void rlscope_shim_set_payload(const void* domain,
                                                                     uint64_t payload,
                                                                     int is_known);
void rlscope_shim_set_payload(const void* domain, uint64_t payload, int is_known) {
  (void)domain;
  if (open_range.name == NULL) abort();
  open_range.steps = is_known ? (int32_t)payload : -1;
}

static void name_category(void* domain, uint32_t category, const char* name) {
  (void)domain;
  if (category < MAX_LABELS) labels[category] = strdup(name);
}
static void* create_domain(const char* name) { return strdup(name); }
static void* register_string(void* domain, const char* name) {
  char* full = NULL;
  return asprintf(&full, "%s/%s", (const char*)domain, name) < 0 ? NULL : full;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_export_table table);
int InitializeInjectionNvtx2(nvtx_get_export_table get_export_table) {
  const struct nvtx_export_callbacks* callbacks = get_export_table(NVTX_EXPORT_CALLBACKS);
  nvtx_table core2;
  unsigned size = 0;
  if (!callbacks->get_function_table(NVTX_MODULE_CORE2, &core2, &size)) return 0;
  if (size != NVTX_CORE2_SIZE || core2[size] != NULL) return 0;
  open_file();
  pthread_atfork(NULL, NULL, start_again);
  *core2[NVTX_DOMAIN_RANGE_PUSH_EX] = (nvtx_function)push;
  *core2[NVTX_DOMAIN_RANGE_POP] = (nvtx_function)pop;
  *core2[NVTX_DOMAIN_NAME_CATEGORY_A] = (nvtx_function)name_category;
  *core2[NVTX_DOMAIN_CREATE_A] = (nvtx_function)create_domain;
  *core2[NVTX_DOMAIN_REGISTER_STRING_A] = (nvtx_function)register_string;
  return 1;
}
