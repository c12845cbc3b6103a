// Replays what threads did as a discrete-event simulation: bursts on CPUs, sleeps, wake-ups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rls {

enum class Item : uint8_t {
  kRun = 0,    // needs a CPU for its length
  kFire = 1,   // wakes who waits for its event; takes no time
  kWait = 2,   // sleeps until its event, then takes its latency
  kSleep = 3,  // sleeps for its length, then takes its latency
};

struct ReplayInput {
  std::size_t items;
  const uint8_t* kind;
  const double* length_ns;
  const double* latency_ns;
  const int32_t* event;             // of kFire and kWait
  const int32_t* queue;             // of kRun: the queue it stands in for a CPU
  std::vector<int64_t> first_item;  // of each thread, and the end of the last
  std::vector<int32_t> cpus;        // of each queue
  std::size_t events;
  std::size_t lead;    // ends the replay when it has done all of its items
  bool is_rendezvous;  // who fires an event stays there until its waiter has come to it
};

// How long the leading thread takes for its items; below 0: it never gets there.
double replay(const ReplayInput& input);

}  // namespace rls
