// Calls CUDA a known number of times, through the driver or the runtime, from threads and streams.
//
// Exact: all that it prints. `calls` and `work` are the fake driver's own account, in which runtime
// calls hold driver calls; `right` tells whether what was copied to the device and back is the
// same.
//   --api=driver|runtime --threads=1 --streams=1 --launches=10 --copies=0 --sets=0 --syncs=1
//   --graphs=0 --nodes=4 --peers=0 --contexts=0 --fork --idle --names
//   --end=return|_exit|kill|fault|bad|open
// A thread does --launches launches, --copies copies there and back ... on each of its streams, and
// waits for them --syncs times. --init: CUDA is initialised before the wait. --contexts makes and
// destroys contexts, with a launch in each. --names names all by NVTX: cuda_names.h.
// --end: kill: by itself, with work under way; fault: a kernel breaks the context; bad: a launch is
// refused; open: a capture is not ended.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_functions.h"
#include "cuda_names.h"

#define COPY_BYTES 4096

static struct {
  const char* api;
  const char* end;
  int threads, streams, launches, copies, sets, syncs, graphs, nodes, peers, contexts;
  bool fork, idle, init, wait, hold, names;
} options = {.api = "driver",
             .end = "return",
             .threads = 1,
             .streams = 1,
             .launches = 10,
             .syncs = 1,
             .nodes = 4};

static const char* const kernels[] = {"gemm_20us", "relu_3us", "softmax_7us"};
static __thread void* functions[4];
static bool is_runtime;
static bool is_right = true;
static int device_count = 1;
static int first_error;

static void check(int result) {
  int none = 0;
  if (result != 0)
    __atomic_compare_exchange_n(&first_error, &none, result, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

static void use_device(int device) {
  void* context = NULL;
  if (is_runtime) {
    check(cuda.cudaSetDevice(device));
  } else {
    check(cuda.cuDevicePrimaryCtxRetain(&context, device));
    check(cuda.cuCtxSetCurrent(context));
  }
  if (options.names) name_device(is_runtime, device, context);
}

static int launch(int kernel, unsigned grid, void* stream) {
  const char* name = kernel < 3 ? kernels[kernel] : "fault_1us";
  const struct dim3 blocks = {grid, 1, 1};
  const struct dim3 threads = {32, 1, 1};
  if (is_runtime) return cuda.cudaLaunchKernel(name, blocks, threads, NULL, 0, stream);
  if (functions[kernel] == NULL) check(cuda.cuModuleGetFunction(&functions[kernel], NULL, name));
  return cuda.cuLaunchKernel(functions[kernel], grid, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static int open_stream(void** stream) {
  return is_runtime ? cuda.cudaStreamCreate(stream) : cuda.cuStreamCreate(stream, 0);
}

static int synchronize(void* stream) {
  return is_runtime ? cuda.cudaStreamSynchronize(stream) : cuda.cuStreamSynchronize(stream);
}

static int begin_capture(void* stream) {
  return is_runtime ? cuda.cudaStreamBeginCapture(stream, 0)
                    : cuda.cuStreamBeginCapture_v2(stream, 0);
}

// There and back.
static void copy(void* stream) {
  unsigned char sent[COPY_BYTES], received[COPY_BYTES];
  void* device = NULL;
  for (int index = 0; index < COPY_BYTES; ++index) sent[index] = (unsigned char)(index * 7);
  check(is_runtime ? cuda.cudaMalloc(&device, COPY_BYTES)
                   : cuda.cuMemAlloc_v2(&device, COPY_BYTES));
  if (device == NULL) return;
  if (is_runtime) {
    check(cuda.cudaMemcpyAsync(device, sent, COPY_BYTES, 1, stream));
    check(cuda.cudaMemcpyAsync(received, device, COPY_BYTES, 2, stream));
  } else {
    check(cuda.cuMemcpyHtoDAsync_v2(device, sent, COPY_BYTES, stream));
    check(cuda.cuMemcpyDtoHAsync_v2(received, device, COPY_BYTES, stream));
  }
  if (memcmp(sent, received, COPY_BYTES) != 0) is_right = false;
  check(is_runtime ? cuda.cudaFree(device) : cuda.cuMemFree_v2(device));
}

static void set(void* stream) {
  static unsigned char memory[256];
  check(is_runtime ? cuda.cudaMemsetAsync(memory, 1, sizeof memory, stream)
                   : cuda.cuMemsetD8Async(memory, 1, sizeof memory, stream));
}

static void copy_to_peer(int device, void* stream) {
  static unsigned char here[512], there[512];
  void* contexts[2] = {NULL, NULL};
  check(cuda.cuDevicePrimaryCtxRetain(&contexts[0], device));
  check(cuda.cuDevicePrimaryCtxRetain(&contexts[1], (device + 1) % device_count));
  check(cuda.cuMemcpyPeerAsync(there, contexts[1], here, contexts[0], sizeof here, stream));
}

static void run_graphs(void* stream) {
  void* graph = NULL;
  void* executable = NULL;
  check(begin_capture(stream));
  for (int node = 0; node < options.nodes; ++node) check(launch(node % 3, 1, stream));
  check(is_runtime ? cuda.cudaStreamEndCapture(stream, &graph)
                   : cuda.cuStreamEndCapture(stream, &graph));
  check(is_runtime ? cuda.cudaGraphInstantiateWithFlags(&executable, graph, 0)
                   : cuda.cuGraphInstantiateWithFlags(&executable, graph, 0));
  for (int run = 0; run < options.graphs; ++run)
    check(is_runtime ? cuda.cudaGraphLaunch(executable, stream)
                     : cuda.cuGraphLaunch(executable, stream));
}

static void use_stream(int device) {
  void* stream = NULL;
  check(open_stream(&stream));
  if (options.names) name_stream(is_runtime, stream);
  const int rounds = options.syncs > 0 ? options.syncs : 1;
  for (int round = 0; round < rounds; ++round) {
    for (int index = round; index < options.launches; index += rounds)
      check(launch(index % 3, 1, stream));
    if (options.syncs > 0) check(synchronize(stream));
  }
  for (int index = 0; index < options.copies; ++index) copy(stream);
  for (int index = 0; index < options.sets; ++index) set(stream);
  for (int index = 0; index < options.peers; ++index) copy_to_peer(device, stream);
  if (options.graphs > 0) run_graphs(stream);
  if (options.syncs > 0) check(synchronize(stream));
}

static void* work(void* argument) {
  const int device = (int)(size_t)argument % device_count;
  use_device(device);
  for (int stream = 0; stream < options.streams; ++stream) use_stream(device);
  return NULL;
}

static void use_contexts(void) {
  for (int index = 0; index < options.contexts; ++index) {
    void* context = NULL;
    check(cuda.cuCtxCreate_v2(&context, 0, index % device_count));
    check(launch(0, 1, NULL));
    check(cuda.cuCtxDestroy_v2(context));
  }
  if (options.contexts > 0) use_device(0);
}

static void use_gpu(void) {
  pthread_t threads[64];
  for (int index = 1; index < options.threads; ++index)
    if (pthread_create(&threads[index], NULL, work, (void*)(size_t)index) != 0) abort();
  work(NULL);
  for (int index = 1; index < options.threads; ++index) pthread_join(threads[index], NULL);
  use_contexts();
}

// A child that inherits CUDA and cannot use it.
static void use_fork(void) {
  const pid_t child = fork();
  if (child == 0) {
    void* stream = NULL;
    _exit(open_stream(&stream) == 0 ? 1 : 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  if (status != 0) is_right = false;
}

static void tell(void) {
  printf("{\"pid\": %d, \"tid\": %d, \"right\": %s, \"error\": %d, \"truth\": %s}\n", (int)getpid(),
         (int)gettid(), is_right ? "true" : "false", first_error, cuda.fakecuda_truth());
  fflush(stdout);
  if (options.hold) getchar();
}

// How it ends. What is under way then takes 20 us, and 50 of them.
static int finish(void) {
  void* stream = NULL;
  const bool is_killed = strcmp(options.end, "kill") == 0;
  if (strcmp(options.end, "fault") == 0) {
    check(launch(3, 1, NULL));
    check(synchronize(NULL));
  }
  if (strcmp(options.end, "bad") == 0) check(launch(0, 0, NULL));
  if (strcmp(options.end, "open") == 0) {
    check(open_stream(&stream));
    check(begin_capture(stream));
    check(launch(0, 1, stream));
  }
  for (int index = 0; is_killed && index < 50; ++index) check(launch(0, 1, NULL));
  tell();
  if (is_killed) kill(getpid(), SIGKILL);
  if (strcmp(options.end, "_exit") == 0) _exit(0);
  return 0;
}

static void parse(int count, char** arguments) {
  const struct {
    const char* name;
    int* value;
  } numbers[] = {{"threads", &options.threads},   {"streams", &options.streams},
                 {"launches", &options.launches}, {"copies", &options.copies},
                 {"sets", &options.sets},         {"syncs", &options.syncs},
                 {"graphs", &options.graphs},     {"nodes", &options.nodes},
                 {"peers", &options.peers},       {"contexts", &options.contexts}};
  for (int index = 1; index < count; ++index) {
    const char* option = arguments[index] + 2;
    if (strncmp(option, "api=", 4) == 0) options.api = option + 4;
    if (strncmp(option, "end=", 4) == 0) options.end = option + 4;
    options.fork |= strcmp(option, "fork") == 0;
    options.idle |= strcmp(option, "idle") == 0;
    options.init |= strcmp(option, "init") == 0;
    options.wait |= strcmp(option, "wait") == 0;
    options.hold |= strcmp(option, "hold") == 0;
    options.names |= strcmp(option, "names") == 0;
    for (size_t which = 0; which < sizeof numbers / sizeof numbers[0]; ++which) {
      const size_t length = strlen(numbers[which].name);
      if (strncmp(option, numbers[which].name, length) == 0 && option[length] == '=')
        *numbers[which].value = atoi(option + length + 1);
    }
  }
}

int main(int count, char** arguments) {
  parse(count, arguments);
  is_runtime = strcmp(options.api, "runtime") == 0;
  load(is_runtime);
  if (options.init) check(cuda.cuInit(0));
  if (options.wait) {
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    getchar();
  }
  check(cuda.cuInit(0));
  check(cuda.cuDeviceGetCount(&device_count));
  if (!options.idle && first_error == 0) use_gpu();
  if (options.fork) use_fork();
  return finish();
}
