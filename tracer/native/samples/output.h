// Writes classified samples into the spool, and each distinct stack of Python functions once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bpf/records.h"
#include "capture/spool_writer.h"

namespace rls {

class SampleOutput {
 public:
  explicit SampleOutput(SpoolWriter* spool) : spool_(spool) {}

  // The number of a stack: names from the innermost outwards, `cut` if there were more. 0: no name,
  // or there were too many stacks already.
  std::uint32_t StackOf(const std::vector<const std::string*>& names, bool cut);
  void Add(const rls_rec_sample& sample);
  // Hands everything to the spool, in one write.
  void Flush();

  std::uint64_t stacks() const { return stacks_.size(); }
  std::uint64_t stacks_left_out() const { return left_out_; }

 private:
  void AddFrame(const void* record, std::size_t bytes, std::uint16_t kind);
  void AddStack(std::uint32_t stack_id, const std::string& text);

  SpoolWriter* spool_;
  std::string frames_;  // of the spool, not handed over yet
  RingSpan span_;
  std::unordered_map<std::string, std::uint32_t> stacks_;
  std::size_t stack_bytes_ = 0;
  std::uint32_t last_stack_id_ = 0;
  std::uint64_t generation_ = 0;            // of the spool: see SpoolWriter
  std::unordered_set<std::uint32_t> used_;  // reported before, and in frames_
  std::uint64_t left_out_ = 0;
};

}  // namespace rls
