// A process that loads, unloads, forks, executes and crashes without end, and checks what comes of
// it: whoever probes its functions meanwhile must not change any of it.
//
//   native_churn LIBRARY
//
// Says "ready PID", goes on until its input ends, and tells as a JSON line how often it went round
// and what went wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long wrong;
static long rounds;
static volatile int stopping;

__attribute__((noinline, noclone)) long churn_step(long value) {
  __asm__ volatile("" ::: "memory", "rbx");
  return value ^ 0x55;
}

static long called_in(const char* library) {
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  long sum = 0;
  if (loaded == NULL) return -1;
  long (*leaf)(long) = (long (*)(long))dlsym(loaded, "native_leaf");
  for (long i = 0; i < 50; i++) sum += leaf(i);
  dlclose(loaded);
  return sum;
}

// What its own end was told to be: 0 after an exec, 9 of its own accord, a crash.
static int end_of(const char* library, int how) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    if (called_in(library) != 50 * 49 / 2 * 3 + 50) _exit(99);
    if (how == 0) execl("/bin/true", "true", NULL);
    if (how == 1) _exit(9);
    if (how == 2) abort();
    *(volatile int*)8 = 1;
    _exit(98);
  }
  waitpid(child, &status, 0);
  return status;
}

static int expected(int status, int how) {
  if (how == 0) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (how == 1) return WIFEXITED(status) && WEXITSTATUS(status) == 9;
  return WIFSIGNALED(status) && WTERMSIG(status) == (how == 2 ? SIGABRT : SIGSEGV);
}

static void* step(void* nothing) {
  long value = 1;
  while (!stopping) {
    for (int i = 0; i < 1000; i++) value = churn_step(value);
    if (value != 1) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
  }
  return nothing;
}

int main(int count, char** words) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  pthread_t stepper;
  if (count < 2) return 2;
  printf("ready %d\n", getpid());
  fflush(stdout);
  pthread_create(&stepper, NULL, step, NULL);
  while (poll(&input, 1, 0) == 0) {
    const int how = (int)(rounds++ % 4);
    if (called_in(words[1]) != 50 * 49 / 2 * 3 + 50) wrong++;
    if (!expected(end_of(words[1], how), how)) wrong++;
  }
  stopping = 1;
  pthread_join(stepper, NULL);
  printf("{\"rounds\": %ld, \"wrong\": %ld}\n", rounds, wrong);
  return 0;
}
