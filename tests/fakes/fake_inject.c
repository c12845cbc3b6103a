// The fake CUPTI: calls that fail because a test says so, and a log of all calls.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cupti.h"

// FAKECUPTI_LOG=FILE: "pid call argument result" for each call but those that are made often.
static void log_call(const char* call, uint64_t argument, int result) {
  const char* path = getenv("FAKECUPTI_LOG");
  if (path == NULL || path[0] == '\0') return;
  char line[160];
  const int length =
      snprintf(line, sizeof line, "%d %s %" PRIu64 " %d\n", (int)getpid(), call, argument, result);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  // One write with O_APPEND: lines of several threads do not mix.
  if (write(file, line, (size_t)length) != length) abort();
  close(file);
}

// One "call#argument:code@nth" of the list; nth: from which call on.
static int match(const char* entry, const char* call, uint64_t argument) {
  static int seen[64];
  const size_t length = strlen(call);
  if (strncmp(entry, call, length) != 0) return 0;
  const char* rest = entry + length;
  char* end = NULL;
  if (*rest == '#') {
    if (strtoull(rest + 1, &end, 10) != argument) return 0;
    rest = end;
  }
  if (*rest != ':') return 0;
  const int code = (int)strtol(rest + 1, &end, 10);
  if (*end != '@') return code;
  // Which entry it is, is told well enough by the length of what follows.
  int* count = &seen[strlen(entry) % 64];
  return __atomic_add_fetch(count, 1, __ATOMIC_RELAXED) >= strtol(end + 1, NULL, 10) ? code : 0;
}

int fake_injected_often(const char* call, uint64_t argument) {
  int code = 0;
  const char* entry = getenv("FAKECUPTI_FAIL");
  while (entry != NULL && entry[0] != '\0' && code == 0) {
    code = match(entry, call, argument);
    const char* comma = strchr(entry, ',');
    entry = comma == NULL ? NULL : comma + 1;
  }
  return code;
}

int fake_injected(const char* call, uint64_t argument) {
  const int code = fake_injected_often(call, argument);
  log_call(call, argument, code);
  return code;
}
