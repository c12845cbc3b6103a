// Looks for NVTX instances in the memory of this process.
//
// An instance holds pointers before anything runs, so it lies in the initialised data of its
// object: in a private, writable mapping of a file. Objects may be unloaded while we look, so
// nothing is read with a load: the kernel copies, and says so when there is nothing.
#include "inject_scan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inject_fill.h"
#include "inject_nvtx.h"

#define CHUNK_BYTES (1U << 20)
#define MAX_MAPS_BYTES (8U << 20)
#define MAX_PATH 4096

struct region {
  uint64_t start;
  uint64_t end;
  char path[MAX_PATH];
};

static size_t copy_memory(uint64_t address, void* buffer, size_t bytes) {
  struct iovec local = {buffer, bytes};
  struct iovec remote = {(void*)(uintptr_t)address, bytes};
  const ssize_t copied = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  return copied > 0 ? (size_t)copied : 0;
}

static void scan_region(const struct region* region, uint64_t* chunk,
                        struct rls_inject_status* status) {
  // Chunks overlap, so that each instance lies in one of them as a whole.
  for (uint64_t at = region->start; at + NVTX_BYTES <= region->end;
       at += CHUNK_BYTES - NVTX_BYTES) {
    const uint64_t rest = region->end - at;
    const size_t wanted = rest < CHUNK_BYTES ? (size_t)rest : CHUNK_BYTES;
    const size_t words = copy_memory(at, chunk, wanted) / 8;
    // The last instance that fits belongs to the next chunk, which begins with it.
    for (size_t i = 0; i + NVTX_WORDS <= words; ++i) {
      if (wanted == CHUNK_BYTES && i + NVTX_WORDS == words) break;
      if (chunk[i + 1] != 16 || chunk[i + 3] != 24) continue;
      if (rls_inject_is_nvtx(chunk + i, at + 8 * i)) {
        rls_inject_fill(at + 8 * i, region->path, status);
      }
    }
  }
}

// Parses a line of /proc/self/maps; false: not a private, writable mapping of a file.
static bool parse_line(char* line, struct region* region) {
  char* rest = line;
  region->start = strtoull(rest, &rest, 16);
  if (*rest++ != '-') return false;
  region->end = strtoull(rest, &rest, 16);
  if (strncmp(rest, " rw-p ", 6) != 0 && strncmp(rest, " rwxp ", 6) != 0) return false;
  const char* path = strchr(rest, '/');
  if (path == NULL || strlen(path) >= MAX_PATH) return false;
  strcpy(region->path, path);
  static const char kDeleted[] = " (deleted)";
  const size_t length = strlen(region->path);
  const size_t tail = sizeof(kDeleted) - 1;
  if (length > tail && strcmp(region->path + length - tail, kDeleted) == 0) {
    region->path[length - tail] = '\0';
  }
  return true;
}

// Reads /proc/self/maps as a whole: while it is read in parts, mappings may move between them.
static size_t read_maps(char* text, size_t bytes) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t length = 0;
  for (;;) {
    const ssize_t got = read(fd, text + length, bytes - 1 - length);
    if (got <= 0) break;
    length += (size_t)got;
  }
  close(fd);
  text[length] = '\0';
  return length;
}

static void scan_lines(char* text, uint64_t* chunk, struct rls_inject_status* status) {
  static struct region region;
  static struct region next;
  region.end = 0;
  char* cursor = NULL;
  for (char* line = strtok_r(text, "\n", &cursor); line != NULL;
       line = strtok_r(NULL, "\n", &cursor)) {
    if (!parse_line(line, &next)) continue;
    // One object's data may lie in several mappings side by side.
    if (next.start == region.end && strcmp(next.path, region.path) == 0) {
      region.end = next.end;
      continue;
    }
    if (region.end != 0) scan_region(&region, chunk, status);
    region = next;
  }
  if (region.end != 0) scan_region(&region, chunk, status);
}

bool rls_inject_scan(struct rls_inject_status* status) {
  status->filled = status->ours = status->foreign = status->denied = status->busy = 0;
  const size_t bytes = CHUNK_BYTES + MAX_MAPS_BYTES;
  // Not from the heap: what we need for a moment must not leave holes in it.
  char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  char* text = memory + CHUNK_BYTES;
  const bool is_read = read_maps(text, MAX_MAPS_BYTES) > 0;
  if (is_read) scan_lines(text, (uint64_t*)(void*)memory, status);
  munmap(memory, bytes);
  return is_read;
}
