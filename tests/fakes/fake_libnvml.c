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

#include "fake_nvml.h"

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

int fake_nvml_enter(const char* name) {
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
