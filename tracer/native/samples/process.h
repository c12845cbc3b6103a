// One program in one process, from its exec on: what code it has where. Kept after the process is
// gone, so that its last samples are still understood.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "inject/mapped_file.h"
#include "samples/files.h"

namespace rls {

struct CodeRange {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t offset;  // in the file
  std::shared_ptr<SampleFile> file;
};

class SampledProcess {
 public:
  explicit SampledProcess(pid_t pid) : pid_(pid) {}

  pid_t pid() const { return pid_; }
  // Takes over what its parent has, of which it is a copy.
  void Inherit(const SampledProcess& parent, std::uint64_t now_ns);
  // Reads the mappings again where that is due: now and then, or because `missed` one.
  void Refresh(SampleFiles* files, std::uint64_t now_ns, bool missed);

  // nullptr: no code that is known.
  const CodeRange* Find(std::uint64_t address) const;
  bool has_code() const { return !code_.empty(); }
  // Its memory, by process_vm_readv: whether all of it was read.
  bool Read(std::uint64_t address, void* to, std::size_t bytes) const;

  // The bytes [address - before, address + after), as far as they lie in the range: how many, and
  // at which index `address` is.
  std::size_t ReadCode(const CodeRange& range, std::uint64_t address, std::size_t before,
                       std::size_t after, std::uint8_t* to, std::size_t* at) const;

 private:
  pid_t pid_;
  ServedMemory served_;
  std::vector<CodeRange> code_;  // by address
  std::uint64_t first_read_ns_ = 0;
  std::uint64_t last_read_ns_ = 0;
};

}  // namespace rls
