// Keeps a CPU and its caches as busy as training programs do, until stdin ends: `busy_caches CPU`.
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { kLineBytes = 64, kCodeLines = 8192, kUsualBytes = 1 << 20, kRounds = 10 };

// Lines of code, one jump or more in each; it is entered so many lines before its end.
#if defined(__x86_64__)
#define LINE "test %edi,%edi\njz 2f\nlea 1(%rax),%rax\ntest $1,%al\njz 2f\nnop\n2:\n"
#else
#define LINE "b 2f\nnop\n2:\n"
#endif
__asm__(
    ".text\n.balign 64\n.type rls_lines, %function\nrls_lines:\n"
    ".rept 8192\n" LINE
    ".balign 64\n.endr\n"
    "ret\n"
    ".size rls_lines, .-rls_lines\n");
void rls_lines(int argument);

// A ring through all of its lines, in no order that a CPU could guess.
typedef struct {
  uint32_t next;
  char rest[kLineBytes - sizeof(uint32_t)];
} Line;

static Line* lines;
static uint32_t line_count;
static long code_lines;

// Half of the second-level cache is for data, a quarter for code.
static void choose_sizes(void) {
  const long known = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const long bytes = known > 0 ? known : kUsualBytes;
  line_count = (uint32_t)(bytes / 2 / kLineBytes);
  code_lines = bytes / 4 / kLineBytes;
  if (code_lines > kCodeLines) code_lines = kCodeLines;
}

// Joins the lines to one ring (Sattolo's shuffle); false: no memory.
static int make_ring(void) {
  choose_sizes();
  lines = aligned_alloc(kLineBytes, line_count * sizeof(Line));
  if (lines == NULL) return 0;
  for (uint32_t index = 0; index < line_count; ++index) lines[index].next = index;
  uint32_t seed = 1;
  for (uint32_t index = line_count - 1; index > 0; --index) {
    seed = seed * 1664525U + 1013904223U;
    const uint32_t other = (uint32_t)(((uint64_t)seed * index) >> 32);
    const uint32_t next = lines[index].next;
    lines[index].next = lines[other].next;
    lines[other].next = next;
  }
  return 1;
}

static void fill_caches(void) {
  if (lines == NULL && !make_ring()) return;
  uint32_t at = 0;
  for (uint32_t step = 0; step < line_count; ++step) at = lines[at].next;
  // A round ends where it began: zero, but the compiler does not know.
  ((void (*)(int))((char*)rls_lines + (kCodeLines - code_lines) * kLineBytes))((int)at + 1);
}

static int is_ended(int wait_ms) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  char byte = 0;
  return poll(&input, 1, wait_ms) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

// Says a line when it waits; begins at the first byte of stdin.
int main(int count, char** arguments) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (count != 2) return 2;
  CPU_SET(atoi(arguments[1]), &cpus);
  if (sched_setaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  if (write(STDOUT_FILENO, "\n", 1) != 1 || is_ended(-1)) return 0;
  // About a millisecond where the second-level cache has a megabyte.
  while (!is_ended(0)) {
    for (int round = 0; round < kRounds; ++round) fill_caches();
  }
  return 0;
}
