// The sampler: ticks of every CPU's clock, its program (bpf/sample.bpf.c), and the thread that
// classifies the samples and writes them into the spool while the target runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capture/bpf_object.h"
#include "capture/ring_reader.h"
#include "samples/book.h"

namespace rls {

struct SamplerCounts {
  SampleCounts samples;
  std::uint64_t lost = 0;             // samples that found the ring full, and those below
  std::uint64_t unread = 0;           // left in the ring by a thread that was held up
  std::uint64_t cpus = 0;             // that are or were sampled
  std::uint64_t late_cpus = 0;        // of these: came online after the start
  std::uint64_t refused_cpus = 0;     // came online and could not be sampled
  std::uint64_t stacks = 0;           // distinct ones
  std::uint64_t stacks_left_out = 0;  // samples without their stack: there were too many
  std::uint64_t period_ns = 0;        // mean, of all clocks of a CPU
};

class Sampler {
 public:
  // Loads the object. `threads_fd` and `loss_fd` are the maps of the sched programs, which stay the
  // caller's, like the spool. Throws std::system_error where this kernel cannot run it.
  Sampler(const std::string& object_path, int threads_fd, int loss_fd, std::uint32_t hz,
          SpoolWriter* spool, LayerRules rules);
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  ~Sampler();

  // Begins to sample. Throws std::system_error where clock events are refused.
  void Start();
  // Where the interpreter of a process is. Throws std::system_error.
  void NotePython(pid_t pid, const PythonLayout& layout, std::uint64_t runtime,
                  std::uint16_t self_before);
  // Stops the clocks until Resume; returns when the last one stood still. Nothing is lost: there
  // are fewer samples. A CPU that comes meanwhile is sampled from Resume on.
  std::uint64_t Suspend();
  // Returns when the first of them was about to go on.
  std::uint64_t Resume();
  // Ends the sampling and writes what is left. Safe to call twice. A thread that the target holds
  // up, whose memory and files may lie where they answer to nobody, is left behind.
  void Stop();
  bool is_left_behind() const { return is_left_behind_; }
  SamplerCounts Counts();

 private:
  void OpenClocks(int cpu);
  void CloseClocks(int cpu);
  void CloseAllClocks();
  void VaryRates(double since_ns);
  void FollowCpus();
  void Run();
  std::size_t Empty();  // how many bytes there were
  void TakeNoted();
  void Publish();
  bool HasEnded();  // waits; false: it is held up

  BpfObject object_;
  double period_ns_;
  std::mutex clocks_mutex_;
  std::mutex facts_mutex_;  // of what others ask for and bring: never held for long
  SamplerCounts published_;
  std::vector<std::pair<pid_t, SampledPython>> noted_;
  std::unique_ptr<RingReader> ring_;
  std::unique_ptr<SampleBook> book_;        // of the thread that samples
  std::map<int, std::vector<int>> clocks_;  // CPU -> perf events
  std::set<int> sampled_cpus_;              // now or before
  std::set<int> late_cpus_;
  std::set<int> refused_cpus_;
  std::minstd_rand random_{std::random_device{}()};
  int varied_cpu_ = -1;  // whose clock got another rate last, and which of its clocks
  std::size_t varied_clock_ = 0;
  bool suspended_ = false;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool has_ended_ = false;
  std::atomic<pid_t> tid_{0};
  std::atomic<bool> is_left_behind_{false};
};

}  // namespace rls
