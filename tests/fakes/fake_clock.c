// The fake CUPTI: in which clock it tells times.
#include "fake_cupti.h"

// Within which two clocks that are read one after the other are the same clock.
#define SAME_NS 2000

// How far a clock is from CLOCK_MONOTONIC, read when nothing came between.
static uint64_t offset_of(uint64_t (*read)(void)) {
  uint64_t offset = 0;
  uint64_t narrowest = UINT64_MAX;
  for (int attempt = 0; attempt < 1000 && narrowest > SAME_NS / 4; ++attempt) {
    const uint64_t before = fake_clock(CLOCK_MONOTONIC);
    const uint64_t told = read();
    const uint64_t width = fake_clock(CLOCK_MONOTONIC) - before;
    if (width < narrowest) offset = told - (before + width / 2);
    if (width < narrowest) narrowest = width;
  }
  return offset;
}

static uint64_t realtime(void) { return fake_clock(CLOCK_REALTIME); }

uint64_t fake_now(void) {
  uint64_t (*timestamp)(void) = __atomic_load_n(&fake_cupti.timestamp, __ATOMIC_ACQUIRE);
  return timestamp != NULL ? timestamp() : realtime();
}

void fake_set_timestamp(uint64_t (*timestamp)(void)) {
  const uint64_t offset = offset_of(timestamp);
  // CLOCK_MONOTONIC itself: times then are exactly what the driver counted.
  const bool is_same = offset + SAME_NS < 2 * SAME_NS;
  fake_cupti.timestamp_offset = is_same ? 0 : offset;
  __atomic_store_n(&fake_cupti.timestamp, timestamp, __ATOMIC_RELEASE);
}

// What the GPU did is dated by it; waits, overhead and memory are dated by the CPU.
static bool is_of_gpu(uint32_t kind) {
  return kind == FAKE_KERNEL || kind == FAKE_MEMCPY || kind == FAKE_MEMSET || kind == FAKE_PEER ||
         kind == FAKE_GRAPH;
}

uint64_t fake_clock_offset(uint32_t kind) {
  if (fake_cupti.timestamp != NULL && !(fake_cupti.ignores_timestamp && is_of_gpu(kind)))
    return fake_cupti.timestamp_offset;
  return offset_of(realtime);
}
