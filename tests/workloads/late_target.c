// Programs for tests of late attach, chosen by the first argument. Each prints "ready" when it may
// be attached to, and what came of it as its last line.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

static void wait_for_line(void) {
  char byte;
  while (read(0, &byte, 1) == 1 && byte != '\n') continue;
}

// --- nvtx: instances laid out as NVTX 3 lays them out ---

struct instance {
  uint32_t state;
  uint32_t padding;
  size_t callbacks_size;
  void* callbacks;
  size_t version_size;
  uint32_t version;
  uint32_t reserved;
  void* version_function;
  void* slots[64];
  void* tables[76];
};

static void first_call(void) {}

#define STUB (void*)first_call
#define STUBS8 STUB, STUB, STUB, STUB, STUB, STUB, STUB, STUB
#define AT(name, i) &(name).slots[i]
#define AT2(name, i) AT(name, i), AT(name, (i) + 1)
#define AT6(name, i) AT2(name, i), AT2(name, (i) + 2), AT2(name, (i) + 4)
#define AT14(name, i) AT6(name, i), AT6(name, (i) + 6), AT2(name, (i) + 12)
#define AT15(name, i) AT14(name, i), AT(name, (i) + 14)
#define INSTANCE(name, last)                                                             \
  static struct instance name = {                                                        \
      0,                                                                                 \
      0,                                                                                 \
      16,                                                                                \
      STUB,                                                                              \
      24,                                                                                \
      3,                                                                                 \
      0,                                                                                 \
      STUB,                                                                              \
      {STUBS8, STUBS8, STUBS8, STUBS8, STUBS8, STUBS8, STUBS8, STUBS8},                  \
      {NULL,          AT15(name, 0), NULL,           NULL, AT6(name, 15), AT2(name, 21), \
       NULL,          NULL,          AT14(name, 23), NULL, NULL,          AT6(name, 37), \
       NULL,          NULL,          AT15(name, 43), NULL, NULL,          AT2(name, 58), \
       AT2(name, 60), AT(name, 62),  last,           NULL}}

INSTANCE(used, AT(used, 63));
INSTANCE(unused, AT(unused, 63));
// Not an instance: one of its pointers points elsewhere.
INSTANCE(decoy, AT(decoy, 0));

static void start_without_tool(struct instance* instance) {
  memset(instance->slots, 0, sizeof(instance->slots));
  instance->state = 2;
}

static void range(struct instance* instance, const char* name) {
  if (__atomic_load_n(&instance->state, __ATOMIC_ACQUIRE) == 0) start_without_tool(instance);
  int (*push)(const char*) = (int (*)(const char*))__atomic_load_n(&instance->slots[8], 5);
  int (*pop)(void) = (int (*)(void))__atomic_load_n(&instance->slots[10], 5);
  if (push != NULL) push(name);
  if (pop != NULL) pop();
}

static int has_stubs(const struct instance* instance) {
  int stubs = 0;
  for (int i = 0; i < 64; ++i) stubs += instance->slots[i] == STUB;
  return stubs;
}

static void nvtx(void) {
  range(&used, "before");
  ready();
  wait_for_line();
  for (int i = 0; i < 100; ++i) range(&used, "used");
  for (int i = 0; i < 50; ++i) range(&unused, "unused");
  printf("stubs %d %d %d states %u %u %u\n", has_stubs(&used), has_stubs(&unused),
         has_stubs(&decoy), used.state, unused.state, decoy.state);
}

// --- busy: until a line comes; never waits, keeps wide registers in use, and knows its result ---

__attribute__((noipa)) static double chunk(void) {
  double lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = i + 1;
  for (int k = 0; k < 200000; ++k)
    for (int i = 0; i < 16; ++i) lanes[i] = lanes[i] * 1.0000001 + 0.5;
  double sum = 0;
  for (int i = 0; i < 16; ++i) sum += lanes[i];
  return sum;
}

static void busy(void) {
  const double first = chunk();
  struct pollfd input = {0, POLLIN, 0};
  int wrong = 0;
  ready();
  while (poll(&input, 1, 0) == 0) wrong += chunk() != first;
  printf("wrong %d\n", wrong);
}

// --- wait: one system call that takes this long ---

static int wait_in(const char* kind, double seconds) {
  const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(long)seconds) * 1e9)};
  int ends[2];
  if (pipe(ends) != 0) return -2;
  struct pollfd poll_end = {ends[0], POLLIN, 0};
  if (strcmp(kind, "nanosleep") == 0) return nanosleep(&time, NULL);
  if (strcmp(kind, "clock_nanosleep") == 0) return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
  if (strcmp(kind, "poll") == 0) return poll(&poll_end, 1, (int)(seconds * 1000));
  if (strcmp(kind, "ppoll") == 0) return ppoll(&poll_end, 1, &time, NULL);
  if (strcmp(kind, "select") == 0) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval limit = {time.tv_sec, time.tv_nsec / 1000};
    return select(ends[0] + 1, &set, NULL, NULL, &limit);
  }
  if (strcmp(kind, "epoll") == 0) {
    struct epoll_event event = {EPOLLIN, {0}};
    const int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    return epoll_wait(epoll, &event, 1, (int)(seconds * 1000));
  }
  sem_t semaphore;
  struct timespec until;
  sem_init(&semaphore, 0, 0);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += time.tv_sec + 1;
  until.tv_nsec = time.tv_nsec;
  return sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT ? 0 : -1;
}

static void wait(const char* kind, double seconds) {
  ready();
  errno = 0;
  const double begin = now();
  const int answer = wait_in(kind, seconds);
  printf("answer %d errno %d took %.6f\n", answer, errno, now() - begin);
}

// --- threads: the main thread waits for workers that compute ---

static void* work(void* wrong) {
  const double first = chunk();
  for (int i = 0; i < 400; ++i) *(int*)wrong += chunk() != first;
  return NULL;
}

static void threads(void) {
  pthread_t workers[4];
  int wrong[4] = {0};
  for (int i = 0; i < 4; ++i) pthread_create(&workers[i], NULL, work, &wrong[i]);
  ready();
  for (int i = 0; i < 4; ++i) pthread_join(workers[i], NULL);
  printf("wrong %d\n", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
}

// --- filtered: has put itself under a seccomp filter that allows everything ---

static void filtered(void) {
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &allow};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) exit(1);
  ready();
  wait_for_line();
  puts("ended");
}

static void idle(void) {
  ready();
  wait_for_line();
  puts("ended");
}

int main(int count, char** arguments) {
  const char* mode = count > 1 ? arguments[1] : "";
  if (strcmp(mode, "nvtx") == 0) nvtx();
  if (strcmp(mode, "busy") == 0) busy();
  if (strcmp(mode, "wait") == 0) wait(arguments[2], atof(arguments[3]));
  if (strcmp(mode, "threads") == 0) threads();
  if (strcmp(mode, "filtered") == 0) filtered();
  if (strcmp(mode, "idle") == 0) idle();
  return 0;
}
