/* A libnvidia-ml.so.1 with a known series of readings, for the sampler of NVML.
 *
 * FAKE_NVML_DEVICES: how many GPUs (1). FAKE_NVML_MIG=1: the first is split in two instances.
 * FAKE_NVML_REFUSE: FUNCTION:CODE[:FIRST[:LAST]], with commas: these calls of a function return
 * CODE, counted from 1; without FIRST all do. FAKE_NVML_HANG: a function that never returns, :FIRST
 * too.
 *
 * Instants count the calls: the n-th reading of power is 70000 + n mW, of energy 1000 n mJ, of used
 * memory 4096 n bytes, each device by itself. Samples of utilization end every 20 ms of
 * CLOCK_REALTIME; the value of the one that ends at t us is (t / 20000) % 101. GPM tells 12.5 %. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  SUCCESS = 0,
  INVALID = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  MAX_DEVICES = 8,
  MAX_FUNCTIONS = 64,
  PERIOD_US = 20000,
  /* As many as real drivers keep. */
  BUFFERED = 120,
};

struct device {
  unsigned index;
  int instance; /* -1: a whole GPU */
  unsigned powers, energies, memories;
};

struct sample {
  unsigned long long time_us;
  unsigned long long value;
};

struct memory {
  unsigned long long total, free, used;
};

struct memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct gpm_metric {
  unsigned id;
  int result;
  double value;
  const char* texts[3];
};

struct gpm_request {
  unsigned version, count;
  void *before, *after;
  struct gpm_metric metrics[1];
};

static struct device gpus[MAX_DEVICES];
static struct device instances[2];
static struct {
  const char* name;
  unsigned calls;
} called[MAX_FUNCTIONS];

static unsigned setting(const char* name, unsigned otherwise) {
  const char* text = getenv(name);
  return text ? (unsigned)atoi(text) : otherwise;
}

static unsigned count_call(const char* name) {
  for (int i = 0; i < MAX_FUNCTIONS; ++i) {
    if (!called[i].name) called[i].name = name;
    if (!strcmp(called[i].name, name)) return ++called[i].calls;
  }
  return 0;
}

/* What an entry NAME[:NUMBER]... for this function says; its numbers, at most three. */
static int find_entry(const char* list, const char* name, unsigned numbers[3]) {
  size_t length = strlen(name);
  for (const char* at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    if (strncmp(at, name, length) || (at[length] && !strchr(":,", at[length]))) continue;
    int count = 0;
    for (at += length; *at == ':' && count < 3; ++count) {
      char* end;
      numbers[count] = (unsigned)strtoul(at + 1, &end, 10);
      at = end;
    }
    return count;
  }
  return -1;
}

/* Whether this call of a function is refused; it may never return. */
static int enter(const char* name) {
  unsigned call = count_call(name);
  unsigned hang[3] = {1, 0, 0};
  if (find_entry(getenv("FAKE_NVML_HANG"), name, hang) >= 0 && call >= hang[0]) {
    for (;;) pause();
  }
  unsigned refuse[3] = {0, 1, UINT32_MAX};
  if (find_entry(getenv("FAKE_NVML_REFUSE"), name, refuse) > 0 && call >= refuse[1] &&
      call <= refuse[2])
    return (int)refuse[0];
  return SUCCESS;
}

#define ENTER()                    \
  do {                             \
    int refused = enter(__func__); \
    if (refused) return refused;   \
  } while (0)

int nvmlInitWithFlags(unsigned flags);
int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  ENTER();
  for (unsigned i = 0; i < MAX_DEVICES; ++i) gpus[i] = (struct device){.index = i, .instance = -1};
  for (int i = 0; i < 2; ++i) instances[i] = (struct device){.index = 0, .instance = i};
  return SUCCESS;
}

int nvmlShutdown(void);
int nvmlShutdown(void) {
  ENTER();
  return SUCCESS;
}

const char* nvmlErrorString(int code);
const char* nvmlErrorString(int code) {
  static char text[32];
  snprintf(text, sizeof text, "fake error %d", code);
  return text;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length);
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  ENTER();
  snprintf(version, length, "580.1");
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetCount_v2(unsigned* count) {
  ENTER();
  *count = setting("FAKE_NVML_DEVICES", 1);
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device** device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device** device) {
  ENTER();
  if (index >= MAX_DEVICES) return INVALID;
  *device = &gpus[index];
  return SUCCESS;
}

int nvmlDeviceGetUUID(struct device* device, char* uuid, unsigned length);
int nvmlDeviceGetUUID(struct device* device, char* uuid, unsigned length) {
  ENTER();
  if (device->instance < 0)
    snprintf(uuid, length, "GPU-fake-%u", device->index);
  else
    snprintf(uuid, length, "MIG-fake-%u-%d", device->index, device->instance);
  return SUCCESS;
}

int nvmlDeviceGetName(struct device* device, char* name, unsigned length);
int nvmlDeviceGetName(struct device* device, char* name, unsigned length) {
  ENTER();
  snprintf(name, length, device->instance < 0 ? "Fake GPU" : "Fake GPU MIG 1g");
  return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device* device, unsigned* current, unsigned* pending);
int nvmlDeviceGetMigMode(struct device* device, unsigned* current, unsigned* pending) {
  ENTER();
  *current = *pending = device->index == 0 && setting("FAKE_NVML_MIG", 0);
  return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device* device, unsigned* count);
int nvmlDeviceGetMaxMigDeviceCount(struct device* device, unsigned* count) {
  (void)device;
  ENTER();
  *count = 7;
  return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct device* gpu, unsigned place,
                                        struct device** instance);
int nvmlDeviceGetMigDeviceHandleByIndex(struct device* gpu, unsigned place,
                                        struct device** instance) {
  (void)gpu;
  ENTER();
  /* Places 0 and 2 are taken. */
  if (place != 0 && place != 2) return NOT_FOUND;
  *instance = &instances[place / 2];
  return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(struct device* device, unsigned* id);
int nvmlDeviceGetGpuInstanceId(struct device* device, unsigned* id) {
  ENTER();
  *id = (unsigned)device->instance;
  return SUCCESS;
}

/* Called twice for a list: first for its length. */
int nvmlDeviceGetSamples(struct device* device, int kind, unsigned long long seen_us, int* type,
                         unsigned* count, struct sample* samples);
int nvmlDeviceGetSamples(struct device* device, int kind, unsigned long long seen_us, int* type,
                         unsigned* count, struct sample* samples) {
  (void)device;
  ENTER();
  if (kind != 1) return NOT_SUPPORTED;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  unsigned long long now_us =
      (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
  unsigned long long last = now_us / PERIOD_US;
  unsigned long long first = last - BUFFERED + 1;
  if (seen_us / PERIOD_US + 1 > first) first = seen_us / PERIOD_US + 1;
  if (first > last) return NOT_FOUND;
  *type = 1;
  if (!samples) {
    *count = BUFFERED;
    return SUCCESS;
  }
  unsigned given = 0;
  for (unsigned long long k = first; k <= last && given < *count; ++k)
    samples[given++] = (struct sample){.time_us = k * PERIOD_US, .value = k % 101};
  *count = given;
  return SUCCESS;
}

int nvmlDeviceGetClockInfo(struct device* device, int kind, unsigned* mhz);
int nvmlDeviceGetClockInfo(struct device* device, int kind, unsigned* mhz) {
  ENTER();
  *mhz = kind == 1 ? 1410 + device->index : 0;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(struct device* device, unsigned* milliwatts);
int nvmlDeviceGetPowerUsage(struct device* device, unsigned* milliwatts) {
  ENTER();
  *milliwatts = 70000 + ++device->powers;
  return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(struct device* device, unsigned long long* millijoules);
int nvmlDeviceGetTotalEnergyConsumption(struct device* device, unsigned long long* millijoules) {
  ENTER();
  *millijoules = 1000ULL * ++device->energies;
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(struct device* device, struct memory_v2* memory);
int nvmlDeviceGetMemoryInfo_v2(struct device* device, struct memory_v2* memory) {
  ENTER();
  memory->used = 4096ULL * ++device->memories;
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(struct device* device, struct memory* memory);
int nvmlDeviceGetMemoryInfo(struct device* device, struct memory* memory) {
  ENTER();
  memory->used = 4096ULL * ++device->memories + 1;
  return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(struct device* device, unsigned long long* bits);
int nvmlDeviceGetCurrentClocksEventReasons(struct device* device, unsigned long long* bits) {
  (void)device;
  ENTER();
  *bits = 4;
  return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device* device, unsigned long long* bits);
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device* device, unsigned long long* bits) {
  (void)device;
  ENTER();
  *bits = 5;
  return SUCCESS;
}

int nvmlGpmQueryDeviceSupport(struct device* device, unsigned support[2]);
int nvmlGpmQueryDeviceSupport(struct device* device, unsigned support[2]) {
  (void)device;
  ENTER();
  support[1] = 1;
  return SUCCESS;
}

int nvmlGpmSampleAlloc(void** sample);
int nvmlGpmSampleAlloc(void** sample) {
  ENTER();
  *sample = calloc(1, 8);
  return SUCCESS;
}

int nvmlGpmSampleGet(struct device* device, unsigned* sample);
int nvmlGpmSampleGet(struct device* device, unsigned* sample) {
  ENTER();
  *sample = device->index + 1;
  return SUCCESS;
}

int nvmlGpmMigSampleGet(struct device* gpu, unsigned instance, unsigned* sample);
int nvmlGpmMigSampleGet(struct device* gpu, unsigned instance, unsigned* sample) {
  (void)gpu;
  ENTER();
  *sample = 100 + instance;
  return SUCCESS;
}

int nvmlGpmMetricsGet(struct gpm_request* request);
int nvmlGpmMetricsGet(struct gpm_request* request) {
  ENTER();
  unsigned *before = request->before, *after = request->after;
  if (request->version != 1 || request->count != 1 || request->metrics[0].id != 2) return INVALID;
  /* Samples of one device, taken before. */
  if (!*before || *before != *after) return INVALID;
  request->metrics[0].result = SUCCESS;
  request->metrics[0].value = *before >= 100 ? 25.0 + *before - 100 : 12.5;
  return SUCCESS;
}
