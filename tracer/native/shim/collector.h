// The thread that empties the rings of all shims of the target into the spool.
//
// Processes announce themselves on an abstract unix socket, handing over their memfd; the kernel
// then keeps it for us, whatever becomes of them. Where that does not reach us (another network
// namespace, a process older than the recording) Find() looks for it in /proc/PID/fd.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shim/announcements.h"
#include "shim/memory.h"
#include "shim/watch.h"
#include "shim/writer.h"

namespace rls {

class ShimCollector {
 public:
  // Listens on the socket at once. Throws std::system_error.
  ShimCollector(const std::string& directory, const std::string& session);
  ShimCollector(const ShimCollector&) = delete;
  ShimCollector& operator=(const ShimCollector&) = delete;
  ~ShimCollector();

  void Start();
  // Reads what is there a last time, tells which ranges are open, lets the processes go. Safe to
  // call twice.
  void Stop();

  // Looks for shims in a process; returns how many new ones there were.
  std::uint32_t Find(std::uint32_t pid);

  // Whether a process that is still there is among the sources.
  bool Knows(std::uint32_t pid);
  // Whether Find() saw that another recorder reads the process.
  bool IsTaken(std::uint32_t pid);
  // What a process that is still there said of its GPU activity: see ShimWatch.
  std::uint16_t GpuState(std::uint32_t pid);

  std::uint64_t sources() const { return source_count_; }
  std::uint64_t events() const { return cell_count_; }
  std::uint64_t lost() const { return lost_count_; }
  // How often the threads of a process were listed.
  std::uint64_t listings() const { return listing_count_; }

 private:
  struct Source {
    std::uint32_t number;
    std::uint32_t pid;
    int pidfd;  // -1: it has ended, or none could be had
    std::unique_ptr<ShimMemory> memory;
    ShimLost lost = {};
    std::vector<ShimCounters> counters;  // as last written, by slot
    std::vector<std::uint32_t> threads;  // as last told, by slot: their own ids
    ShimWatch watch{0, false};
  };

  void Run();
  std::size_t Receive();  // how many announcements
  bool Add(int memfd, std::uint32_t pid);
  std::size_t DrainAll();  // the fullest ring
  std::size_t Drain(Source* source);
  void WriteLosses(Source* source);
  void TellOwners(Source* source, const std::vector<std::uint32_t>& slots);
  void TellTids(Source* source, std::uint32_t slot, const ShimStretch& stretch);
  void FetchGpu();
  void Finish(Source* source, bool has_ended);
  void FinishReplaced(std::uint32_t pid);
  void FinishEnded();

  ShimWriter writer_;
  std::string session_;
  ShimAnnouncements announcements_;
  int wake_ = -1;
  std::mutex mutex_;  // of the sources
  std::vector<Source> open_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;  // device and inode of memfds
  std::set<std::uint32_t> taken_;                           // pids
  std::atomic<std::uint64_t> source_count_{0};
  std::atomic<std::uint64_t> cell_count_{0};
  std::atomic<std::uint64_t> lost_count_{0};
  std::atomic<std::uint64_t> listing_count_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rls
