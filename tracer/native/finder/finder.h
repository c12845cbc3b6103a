// The finder: entry points of native code that a running CPython calls, found from outside.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "finder/elf.h"
#include "finder/objects.h"
#include "finder/process.h"
#include "finder/runtime.h"

namespace rls {

struct EntryPoint {
  std::string path;
  std::uint64_t file_offset;  // of the instruction to probe
  std::string symbol;
  EntryKind kind;
  std::uint64_t function_start;  // its file offset
  bool is_expensive;             // no instruction of it is cheap to probe: it has to be stepped
};

struct EntryPoints {
  std::vector<EntryPoint> points;                 // by path and file offset
  std::map<std::string, std::uint64_t> rejected;  // addresses by reason
  std::uint64_t scanned_bytes = 0;                // of one pass
  std::uint64_t unscanned_bytes = 0;              // see MemoryScan
};

class PythonFinder {
 public:
  explicit PythonFinder(pid_t pid) : process_(pid) {}

  // Of files, executable.
  std::vector<Mapping> Mappings() const;
  std::optional<PythonRuntime> Runtime() const;
  // The entry points that lie in these files, named as in the mappings.
  EntryPoints Find(const std::vector<std::string>& paths, std::uint64_t budget_bytes) const;
  // The place to probe of exported functions; those that have none are absent.
  std::map<std::string, std::uint64_t> Exported(const std::string& path,
                                                const std::vector<std::string>& names) const;
  // From any thread: ends the others with std::system_error, ECANCELED.
  void Cancel() { process_.Cancel(); }
  bool is_served() const { return process_.is_served(); }

 private:
  TargetProcess process_;
};

// Runs `work` on a thread that gives way to the programs of the machine, and waits for its end.
void RunAtLowPriority(const std::function<void()>& work);

}  // namespace rls
