// The thread that empties the rings of all shims of the target into the spool.
//
// Processes announce themselves on an abstract unix socket, handing over their memfd; the kernel
// then keeps it for us, whatever becomes of them. Where that does not reach us (another network
// namespace, a process older than the recording) Find() looks for it in /proc/PID/fd.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shim/announcements.h"
#include "shim/limits.h"
#include "shim/live_phases.h"
#include "shim/memory.h"
#include "shim/watch.h"
#include "shim/writer.h"
#include "traced_processes.h"

namespace rls {

class ShimCollector {
 public:
  // Listens on the socket at once. traced: the processes that are read, nullptr: all; it has to
  // outlive this. has_segments: see Rotate(); has_sums: what is read is added up, too, which takes
  // segments. Throws std::system_error.
  ShimCollector(const std::string& directory, const std::string& session,
                TracedProcesses* traced = nullptr, bool has_segments = false,
                bool has_sums = false);
  ShimCollector(const ShimCollector&) = delete;
  ShimCollector& operator=(const ShimCollector&) = delete;
  ~ShimCollector();

  void Start();
  // Goes on in a new segment, whose number is above those before. False where there is no room for
  // it: then it goes on in the old one.
  bool Rotate(std::uint64_t number);
  // The sums so far of a target that is watched, with what is open at now_ns.
  std::vector<LivePhaseRow> Phases(std::uint64_t now_ns);
  std::vector<LiveGpuRow> Gpu();
  // Reads what is there a last time, tells which ranges are open, lets the processes go. Safe to
  // call twice.
  void Stop();

  // Looks for shims in a process of the target; returns how many new ones there were. It gives up
  // where that takes long: the rest is found another time.
  std::uint32_t Find(std::uint32_t pid);

  // Whether a process that is still there is among the sources.
  bool Knows(std::uint32_t pid);
  // Whether Find() saw that another recorder reads the process.
  bool IsTaken(std::uint32_t pid);
  // What a process that is still there said of its GPU activity: see ShimWatch.
  std::uint16_t GpuState(std::uint32_t pid);

  // What was not taken so far.
  ShimRefused refused() const;
  // Whether what was read last found no room on the disk.
  bool is_full() const { return is_full_; }
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
    std::vector<std::uint32_t> threads;  // as last reported, by slot: their own ids
    ShimWatch watch{0, false};
  };

  void Run();
  void ForgetWakeups();
  std::size_t Receive();  // how many announcements
  bool Add(int memfd, std::uint32_t pid);
  bool HasRoomFor(std::uint32_t pid);
  bool Open(int memfd, std::uint32_t pid, Source* source);
  bool AddCandidate(int folder, const char* name, std::uint32_t pid);
  void AddFound(int memfd, std::uint32_t pid, std::uint32_t* found);
  std::size_t DrainAll();  // the fullest ring
  std::size_t Drain(Source* source);
  bool WriteCells(Source* source, std::uint32_t slot, const ShimSpan& span);
  bool Write(ShimBlockKind kind, const Source& source, std::uint32_t slot, const void* data,
             std::size_t bytes, const void* more = nullptr, std::size_t more_bytes = 0);
  bool MayWrite(const Source& source);
  void NoteRefused(std::uint64_t ShimRefused::*what);
  void WriteRefused();
  void ForgetBudgets();
  void Trim(std::size_t bytes);
  void WriteLosses(Source* source, bool is_before_us = false);
  void WriteLossesBefore(Source* source);
  void TellOwners(Source* source, const std::vector<std::uint32_t>& slots);
  void TellTids(Source* source, std::uint32_t slot, const ShimSpan& span);
  void FetchGpu();
  void Finish(Source* source, bool has_ended);
  void NoteLeft(const Source& source);
  void FinishReplaced(std::uint32_t pid);
  void FinishEnded();

  // What a pid may still make us keep.
  struct Budgets {
    Budget bytes{kBytesOfProcess};
    Budget memories{kMemoriesOfProcess};
  };

  std::unique_ptr<LivePhases> phases_;  // nullptr: there are no segments
  ShimWriter writer_;
  std::string session_;
  TracedProcesses* traced_;
  ShimAnnouncements announcements_;
  int wake_ = -1;
  std::uint64_t shared_mount_ = UINT64_MAX;   // of all shared memory: see MountOf
  std::timed_mutex mutex_;                    // of the sources, and all that is written
  std::map<std::uint32_t, Budgets> budgets_;  // by pid
  Budget bytes_left_{kBytesOfAll};
  std::size_t untrimmed_ = 0;
  ShimRefused written_refused_ = {};
  std::uint64_t too_many_ = 0;  // as last counted
  std::vector<Source> open_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;  // device and inode of memfds
  mutable std::mutex facts_mutex_;                // of what others ask for: never held for long
  std::map<std::uint32_t, std::uint16_t> known_;  // pids of open_ and their state of the GPU
  std::set<std::uint32_t> taken_;                 // pids
  ShimRefused refused_ = {};
  std::atomic<bool> is_full_{false};
  std::atomic<std::uint64_t> source_count_{0};
  std::atomic<std::uint64_t> cell_count_{0};
  std::atomic<std::uint64_t> lost_count_{0};
  std::atomic<std::uint64_t> listing_count_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rls
