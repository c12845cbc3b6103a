/* The fake NVML: its readings. The series they follow are told in fake_libnvml.c. */
#include <stdlib.h>
#include <time.h>

#include "fake_nvml.h"

enum {
  PERIOD_US = 20000,
  /* As many as real drivers keep. */
  BUFFERED = 120,
};

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

int nvmlDeviceGetMaxClockInfo(struct device* device, int kind, unsigned* mhz);
int nvmlDeviceGetMaxClockInfo(struct device* device, int kind, unsigned* mhz) {
  (void)device;
  ENTER();
  *mhz = kind == 1 ? 1880 : 0;
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
