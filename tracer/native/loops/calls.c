// Functions to be probed, and the loops that call them.
#include "loops.h"

enum { kSites = 16, kBytesEach = 64, kNone = -1 };

// The first eight are cheap to probe, as FindCheapSite() of the finder has it: the OS kernel
// emulates a push, on aarch64 an adr. The next eight are not: it has to step a move between
// registers. Both do nothing.
#if defined(__aarch64__)
#define CHEAP "adr x9, .\nret\n"
#define EXPENSIVE "mov x9, x0\nret\n"
#elif defined(__x86_64__)
#define CHEAP "push %rbp\npop %rbp\nret\n"
#define EXPENSIVE "mov %rdi,%rax\nret\n"
#else
#define CHEAP "nop\nret\n"
#define EXPENSIVE "nop\nret\n"
#endif
__asm__(
    ".text\n.balign 64\n.type rls_sites, %function\nrls_sites:\n"
    ".rept 8\n" CHEAP
    ".balign 64\n.endr\n"
    ".rept 8\n" EXPENSIVE
    ".balign 64\n.endr\n"
    ".size rls_sites, .-rls_sites\n");
void rls_sites(void);

typedef void (*site_function)(void);

static site_function site(int index) {
  return (site_function)((char*)rls_sites + index * kBytesEach);
}

// Address of a site; NULL where there is none. 0 to 7 are cheap, 8 to 15 expensive.
RLS_EXPORT void* rls_site(int index) {
  return index >= 0 && index < kSites ? (void*)site(index) : NULL;
}

// Calls one site, or two in turn (kNone: no second): the time of one turn.
RLS_EXPORT double rls_time_calls(int first, int second, long turns) {
  if (rls_site(first) == NULL || turns <= 0) return -1;
  const site_function one = site(first);
  const double start_ns = rls_cpu_ns();
  if (second == kNone) {
    for (long turn = 0; turn < turns; ++turn) one();
  } else {
    const site_function two = site(second);
    for (long turn = 0; turn < turns; ++turn) {
      one();
      two();
    }
  }
  return (rls_cpu_ns() - start_ns) / (double)turns;
}
