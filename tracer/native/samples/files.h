// The files whose code the samples hit: to which layer each belongs, and what its bytes say. All of
// it is cached, because a program runs the same code over and over.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bpf/records.h"
#include "inject/maps.h"

namespace rls {

// A library that works for whoever calls it (libc, libm, the loader): its caller decides.
constexpr std::uint8_t kTransparent = RLS_LAYER_NONE;
// Code that no rule names, in a file or made at run time.
constexpr std::uint8_t kUnnamed = RLS_LAYER_OTHER;

// Globs over the paths of mappings, in order of priority, each with its layer (or kTransparent).
using LayerRules = std::vector<std::pair<std::string, int>>;

struct SampleFile {
  SampleFile() = default;
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;
  ~SampleFile();

  std::uint8_t layer = kUnnamed;
  bool is_generated = false;  // no file at all: code made at run time
  bool is_openmp = false;     // a run-time library of OpenMP, whose threads wait by spinning
  bool waits_busily = false;  // one of LLVM or Intel: see kBusyLoopBytes
  int fd = -1;                // -1: anonymous, or not readable
  // By offset: what the bytes there said.
  std::unordered_map<std::uint64_t, bool> spins;
  std::unordered_map<std::uint64_t, bool> call_ends;
};

class SampleFiles {
 public:
  explicit SampleFiles(LayerRules rules) : rules_(std::move(rules)) {}

  // The file of a mapping of the process. Code without a file has one of its own each time.
  std::shared_ptr<SampleFile> Of(pid_t pid, const Mapping& mapping);
  std::uint8_t LayerOf(const std::string& path) const;

 private:
  LayerRules rules_;
  std::unordered_map<std::string, std::shared_ptr<SampleFile>> known_;
};

}  // namespace rls
