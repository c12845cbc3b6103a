// Turns raw samples into records of the spool: knows the processes, their code and their names.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bpf/sample.h"
#include "samples/files.h"
#include "samples/names.h"
#include "samples/output.h"
#include "samples/process.h"
#include "samples/python_offsets.h"

namespace rls {

struct SampleCounts {
  std::uint64_t samples = 0;
  std::uint64_t unclassified = 0;           // without a layer
  std::uint64_t without_python_frames = 0;  // of threads that their interpreter knows
  std::uint64_t unnamed_frames = 0;         // Python functions whose name could not be read
  std::uint64_t cut_stacks = 0;
  std::uint64_t processes = 0;
};

struct SampledPython {
  const PythonLayout* layout;
  rls_python facts;
};

// Where the interpreter of a process is, also for the program in the OS kernel, by the map
// python_processes. Throws std::system_error.
SampledPython TellPython(int python_fd, pid_t pid, const PythonLayout& layout,
                         std::uint64_t runtime, std::uint16_t self_before);

class SampleBook {
 public:
  // `python_fd`: the map python_processes. Borrows it and the spool.
  SampleBook(int python_fd, SpoolWriter* spool, LayerRules rules)
      : python_fd_(python_fd), output_(spool), files_(std::move(rules)) {}

  void NotePython(pid_t pid, const SampledPython& python) { pythons_[pid] = python; }
  void Add(const rls_raw_sample& sample);
  // Writes what there is, and forgets what is long gone.
  void Flush(std::uint64_t now_ns);

  const SampleCounts& counts() const { return counts_; }
  const SampleOutput& output() const { return output_; }

 private:
  // A process from its exec on.
  struct Program {
    Program(pid_t pid, std::uint64_t born, std::uint32_t exec)
        : born_ns(born), exec_id(exec), process(pid) {}
    std::uint64_t born_ns;
    std::uint32_t exec_id;
    std::uint64_t last_sample_ns = 0;
    SampledProcess process;
    std::unique_ptr<PythonNames> names;
    std::weak_ptr<Program> parent;  // if this is a copy of it
  };
  std::shared_ptr<Program> ProgramOf(const rls_raw_sample& sample);
  const SampledPython* PythonOf(const rls_raw_sample& sample);
  std::uint32_t StackOf(const rls_raw_sample& sample, Program* program);
  const std::string* NameOf(std::uint64_t code, std::uint64_t now_ns, Program* program);
  void Forget(std::uint64_t now_ns);

  int python_fd_;
  SampleOutput output_;
  SampleFiles files_;
  SampleCounts counts_;
  std::uint64_t forgot_ns_ = 0;
  std::unordered_map<pid_t, std::shared_ptr<Program>> programs_;
  std::unordered_map<pid_t, SampledPython> pythons_;
  std::vector<const std::string*> names_;  // of the sample at hand
};

}  // namespace rls
