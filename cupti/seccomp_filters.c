#include "seccomp_filters.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The number behind a key of a status file, or -1.
static long read_number(const char* path, const char* key) {
  char text[4096];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return -1;
  text[length] = '\0';
  const char* found = strstr(text, key);
  if (found == NULL) return -1;
  found += strlen(key);
  while (*found == ' ' || *found == '\t') ++found;
  long number = 0;
  while (*found >= '0' && *found <= '9') number = number * 10 + (*found++ - '0');
  return number;
}

// As many as the program began with: what its parent has. A parent out of sight means that whatever
// there is came with the container.
static long filters_of_parent(long own) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/status", (int)getppid());
  const long parents = read_number(path, "\nSeccomp_filters:");
  return parents < 0 ? own : parents;
}

bool rls_has_own_seccomp_filter(void) {
  static long inherited = -1;
  const long own = read_number("/proc/self/status", "\nSeccomp_filters:");
  if (own < 0) return false;  // an OS kernel before 5.10, which does not count them
  if (inherited < 0) inherited = own > 0 ? filters_of_parent(own) : 0;
  return own > inherited;
}
