// Calls a CUDA runtime as it is told to, line by line on stdin, and answers each line:
//   load PATH        maps a runtime library                           -> loaded
//   unload           unmaps the one that was loaded last              -> unloaded
//   work T N S US    T threads; each calls every runtime N times, and waits S times for US
//                    microseconds in each                             -> {"threads": ...}
//   end              ends
// With -DLINKED_IN the runtime is part of the program.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 8

typedef int (*Function)(void*);

// In the order in which they are called N times, then S times, then once.
static const char* const names[] = {
    "cudaLaunchKernel",   "cudaMemcpyAsync",       "cudaMemsetAsync",
    "cudaGetDeviceCount", "cudaStreamSynchronize", "cudaMalloc",
    "cudaFree",           "cudaGraphLaunch",       "cudaLaunchKernel_ptsz",
};
enum { OFTEN = 4, WAIT = 4, ALL = 9 };

struct runtime {
  void* handle;
  Function functions[ALL];
};

struct job {
  pthread_t thread;
  long calls, waits, wait_us;
  int tid;
  int64_t waited_ns;
};

static struct runtime runtimes[MOST];
static int loaded;
static int64_t (*waited_ns)(void);

#ifdef LINKED_IN
#define RUNTIME(name) int name(void*)
RUNTIME(cudaLaunchKernel);
RUNTIME(cudaMemcpyAsync);
RUNTIME(cudaMemsetAsync);
RUNTIME(cudaGetDeviceCount);
RUNTIME(cudaStreamSynchronize);
RUNTIME(cudaMalloc);
RUNTIME(cudaFree);
RUNTIME(cudaGraphLaunch);
RUNTIME(cudaLaunchKernel_ptsz);
int64_t fakeWaitedNs(void);

static void take_linked_in(void) {
  const Function functions[ALL] = {
      cudaLaunchKernel,   cudaMemcpyAsync,       cudaMemsetAsync,
      cudaGetDeviceCount, cudaStreamSynchronize, cudaMalloc,
      cudaFree,           cudaGraphLaunch,       cudaLaunchKernel_ptsz,
  };
  memcpy(runtimes[loaded++].functions, functions, sizeof(functions));
  waited_ns = fakeWaitedNs;
}
#else
static void take_linked_in(void) {}
#endif

static void load(const char* path) {
  struct runtime* runtime = &runtimes[loaded];
  runtime->handle = dlopen(path, RTLD_NOW);
  if (!runtime->handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  for (int i = 0; i < ALL; ++i) *(void**)&runtime->functions[i] = dlsym(runtime->handle, names[i]);
  if (!waited_ns) *(void**)&waited_ns = dlsym(runtime->handle, "fakeWaitedNs");
  ++loaded;
}

static void* run(void* argument) {
  struct job* job = argument;
  job->tid = (int)syscall(SYS_gettid);
  for (int r = 0; r < loaded; ++r) {
    for (long n = 0; n < job->calls; ++n)
      for (int f = 0; f < OFTEN; ++f) runtimes[r].functions[f]((void*)(intptr_t)n);
    for (long n = 0; n < job->waits; ++n)
      runtimes[r].functions[WAIT]((void*)(intptr_t)job->wait_us);
    for (int f = WAIT + 1; f < ALL; ++f) runtimes[r].functions[f](0);
  }
  job->waited_ns = waited_ns();
  return 0;
}

static void work(int threads, long calls, long waits, long wait_us) {
  struct job* jobs = calloc((size_t)threads, sizeof(*jobs));
  for (int i = 0; i < threads; ++i) {
    jobs[i] = (struct job){.calls = calls, .waits = waits, .wait_us = wait_us};
    pthread_create(&jobs[i].thread, 0, run, &jobs[i]);
  }
  for (int i = 0; i < threads; ++i) pthread_join(jobs[i].thread, 0);
  printf("{\"threads\": {");
  for (int i = 0; i < threads; ++i)
    printf("%s\"%d\": %lld", i ? ", " : "", jobs[i].tid, (long long)jobs[i].waited_ns);
  printf("}}\n");
  free(jobs);
}

int main(void) {
  char line[4096];
  setvbuf(stdout, 0, _IOLBF, 0);
  take_linked_in();
  printf("ready %d\n", getpid());
  while (fgets(line, sizeof(line), stdin)) {
    int threads;
    long calls, waits, wait_us;
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "load ", 5) == 0) {
      load(line + 5);
      printf("loaded\n");
    } else if (strcmp(line, "unload") == 0) {
      dlclose(runtimes[--loaded].handle);
      printf("unloaded\n");
    } else if (sscanf(line, "work %d %ld %ld %ld", &threads, &calls, &waits, &wait_us) == 4) {
      work(threads, calls, waits, wait_us);
    } else if (strcmp(line, "end") == 0) {
      return 0;
    }
  }
  return 0;
}
