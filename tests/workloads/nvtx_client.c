// A C program that uses NVTX as its header intends. The modes print one JSON line: the truth.
//
//   kinds                  every kind of call once
//   storm THREADS COUNT    COUNT ranges on each of THREADS threads
//   steady COUNT           COUNT ranges, a thousand a millisecond
//   threads COUNT          COUNT threads one after the other, a range each
//   turns FIRST LATER      a thread with FIRST ranges, and another with ten and one that it keeps
//                          open while it is stopped and, once continued, marks LATER more; stops
//                          before both, too
//   forks COUNT RANGES     COUNT children at once, RANGES ranges each, then _exit
//   kills COUNT            COUNT children that mark ranges until they are killed at random
//   exec                   a range, then this program anew as `storm 1 10`
//   filter WHEN            a seccomp filter that kills for new files and sockets; a range before
//                          it (WHEN = after) or only after it (WHEN = before)
//   odd                    calls without attributes, and names that differ in a few places
//   left                   ranges left open, pops too many, pops out of order
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void pause_ns(long ns) {
  const struct timespec time = {0, ns};
  nanosleep(&time, NULL);
}

static void* mark_ranges(void* count) {
  for (long left = (long)count; left > 0; --left) {
    nvtxRangePushA("storm");
    nvtxRangePop();
  }
  return NULL;
}

static void* end_range(void* id) {
  nvtxRangeEnd(*(nvtxRangeId_t*)id);
  return NULL;
}

static void kinds(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("domain");
  nvtxDomainNameCategoryA(domain, 5, "category");
  nvtxNameCategoryA(6, "plain category");
  nvtxEventAttributes_t event = {0};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.category = 5;
  event.colorType = NVTX_COLOR_ARGB;
  event.color = 0xff112233;
  event.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  event.payload.dValue = 1.5;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  const uint64_t outer = now_ns();
  nvtxDomainRangePushEx(domain, &event);
  const uint64_t begun = now_ns();
  event.category = 6;
  event.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  event.payload.iValue = -7;
  event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  event.message.unicode = L"w\u00efde \U0001f680";
  nvtxRangePushEx(&event);
  pause_ns(2000000);
  nvtxRangePop();
  nvtxRangePushW(L"wide");
  nvtxRangePop();
  event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  event.payload.ullValue = UINT64_MAX;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "mark";
  nvtxDomainMarkEx(domain, &event);
  nvtxMarkA("plain mark");
  nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &event);
  nvtxRangeId_t plain = nvtxRangeStartA("crosses threads");
  pthread_t thread;
  pthread_create(&thread, NULL, end_range, &plain);
  pthread_join(thread, NULL);
  nvtxDomainRangeEnd(domain, id);
  const uint64_t ending = now_ns();
  nvtxDomainRangePop(domain);
  const uint64_t after = now_ns();
  nvtxDomainDestroy(domain);
  printf("{\"before_ns\": %lu, \"begun_ns\": %lu, \"ending_ns\": %lu, \"after_ns\": %lu}\n", outer,
         begun, ending, after);
}

static void odd(void) {
  static const char* const kAlike[] = {"stage__n_abqdefe", "stage__o_abndefz", "stage__c_abudefx",
                                       "stage__w_abidefd", "stage__z_abzdefw"};
  nvtxRangePushEx(NULL);
  nvtxMarkEx(NULL);
  nvtxRangeEnd(nvtxRangeStartEx(NULL));
  nvtxRangePop();
  for (size_t index = 0; index < sizeof(kAlike) / sizeof(*kAlike); ++index) {
    nvtxRangePushA(kAlike[index]);
    nvtxRangePop();
  }
}

static void storm(long threads, long count) {
  pthread_t ids[64];
  for (long index = 0; index < threads; ++index)
    pthread_create(&ids[index], NULL, mark_ranges, (void*)count);
  for (long index = 0; index < threads; ++index) pthread_join(ids[index], NULL);
  printf("{\"ranges\": %ld}\n", threads * count);
}

static void steady(long count) {
  for (long done = 0; done < count; ++done) {
    nvtxRangePushA("steady");
    nvtxRangePop();
    if (done % 1000 == 999) pause_ns(1000000);
  }
  printf("{\"ranges\": %ld}\n", count);
}

static void run_thread(void* (*run)(void*), long count) {
  pthread_t thread;
  pthread_create(&thread, NULL, run, (void*)count);
  pthread_join(thread, NULL);
}

static void* mark_ranges_twice(void* later) {
  mark_ranges((void*)10);
  nvtxRangePushA("storm");
  raise(SIGSTOP);
  mark_ranges(later);
  nvtxRangePop();
  return NULL;
}

static void short_threads(long count) {
  for (long index = 0; index < count; ++index) run_thread(mark_ranges, 1);
  printf("{\"ranges\": %ld}\n", count);
}

static void forks(long count, long ranges) {
  nvtxRangePushA("parent");
  for (long index = 0; index < count; ++index) {
    if (fork() != 0) continue;
    nvtxRangePushA("child");
    mark_ranges((void*)ranges);
    nvtxRangePop();
    _exit(0);
  }
  while (wait(NULL) > 0) {
  }
  nvtxRangePop();
  printf("{\"children\": %ld, \"ranges\": %ld}\n", count, count * ranges);
}

// Each child counts what it has finished in memory that outlives it.
static void kills(long count) {
  volatile uint64_t* done =
      mmap(NULL, (size_t)count * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  srand48(1);
  printf("{\"children\": [");
  for (long index = 0; index < count; ++index) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        nvtxRangePushA("until killed");
        nvtxRangePop();
        ++done[index];
        pause_ns(20000);
      }
    }
    pause_ns((long)(drand48() * 8e6));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%s[%d, %lu]", index ? ", " : "", child, done[index]);
  }
  printf("]}\n");
}

static void install_filter(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ftruncate, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog filter = {sizeof(rules) / sizeof(*rules), rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    exit(99);
}

static void filtered(int is_first_before) {
  if (is_first_before) mark_ranges((void*)1);
  install_filter();
  mark_ranges((void*)10);
  const pid_t child = fork();
  if (child == 0) {
    mark_ranges((void*)10);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("{\"child_status\": %d}\n", status);
}

static void left(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("other");
  nvtxEventAttributes_t event = {0};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "other domain";
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangePushA("crossed");
  nvtxDomainRangePushEx(domain, &event);
  pause_ns(1000000);
  nvtxRangePop();
  pause_ns(1000000);
  nvtxDomainRangePop(domain);
  for (int depth = 0; depth < 70; ++depth) nvtxRangePushA("deep");
  for (int depth = 0; depth < 70; ++depth) nvtxRangePop();
  nvtxRangeStartA("never ended");
  nvtxRangeEnd(123456);
  nvtxRangePushA("left open");
  nvtxRangePushA("left open inside");
  printf("{}\n");
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const long first = argc > 2 ? atol(argv[2]) : 0;
  const long second = argc > 3 ? atol(argv[3]) : 0;
  if (strcmp(mode, "kinds") == 0) kinds();
  if (strcmp(mode, "odd") == 0) odd();
  if (strcmp(mode, "storm") == 0) storm(first, second);
  if (strcmp(mode, "steady") == 0) steady(first);
  if (strcmp(mode, "threads") == 0) short_threads(first);
  if (strcmp(mode, "turns") == 0) {
    mark_ranges((void*)1);
    raise(SIGSTOP);
    run_thread(mark_ranges, first);
    run_thread(mark_ranges_twice, second);
    printf("{\"ranges\": %ld}\n", 1 + first + 10 + second + 1);
  }
  if (strcmp(mode, "forks") == 0) forks(first, second);
  if (strcmp(mode, "kills") == 0) kills(first);
  if (strcmp(mode, "filter") == 0) filtered(strcmp(argv[2], "after") == 0);
  if (strcmp(mode, "left") == 0) left();
  if (strcmp(mode, "exec") == 0) {
    nvtxRangePushA("before exec");
    mark_ranges((void*)3);
    execl(argv[0], argv[0], "storm", "1", "10", NULL);
  }
  return 0;
}
