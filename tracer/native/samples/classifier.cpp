#include "samples/classifier.h"

#include <algorithm>
#include <array>

#include "machine.h"
#include "samples/code.h"

namespace rls {
namespace {

// A cache that grows beyond this is that of code which changes all the time: it starts again.
constexpr std::size_t kRememberedOffsets = 100000;

// Answers from `cache` by the offset in the file; anonymous code can change and is asked anew.
template <typename Ask>
bool Remember(const CodeRange& range, std::uint64_t address,
              std::unordered_map<std::uint64_t, bool>* cache, Ask ask) {
  if (range.file->fd < 0) return ask();
  const std::uint64_t offset = address - range.start + range.offset;
  const auto found = cache->find(offset);
  if (found != cache->end()) return found->second;
  if (cache->size() >= kRememberedOffsets) cache->clear();
  return cache->emplace(offset, ask()).first->second;
}

bool Spins(const SampledProcess& process, const CodeRange& range, std::uint64_t ip) {
  // The clock that the OS kernel maps into every process pauses in a loop that is nearly never run.
  if (range.file->fd < 0 && !range.file->is_generated) return false;
  return Remember(range, ip, &range.file->spins, [&] {
    std::array<std::uint8_t, 2 * kBusyLoopBytes> near;
    const std::size_t reach = range.file->waits_busily ? kBusyLoopBytes : kLoopBytes;
    std::size_t at = 0;
    const std::size_t bytes = process.ReadCode(range, ip, reach, reach, near.data(), &at);
    if (at >= bytes) return false;
    // Where the pause is a function of its own there is no loop at all.
    if (range.file->is_openmp && HasPause(near.data(), bytes, at)) return true;
    const auto waits = range.file->waits_busily ? IsInBusyLoop : IsInPauseLoop;
    return waits(near.data(), bytes, at, reach);
  });
}

bool IsReturnAddress(const SampledProcess& process, const CodeRange& range, std::uint64_t address) {
  return Remember(range, address, &range.file->call_ends, [&] {
    std::array<std::uint8_t, kCallBytes> before;
    std::size_t at = 0;
    const std::size_t bytes = process.ReadCode(range, address, kCallBytes, 0, before.data(), &at);
    return bytes == at && EndsInCall(before.data(), bytes);
  });
}

// Calls `use` with the range of each return address, of the stack and the link, innermost first,
// until it returns true.
template <typename Use>
void ForCallers(const rls_raw_sample& sample, const SampledProcess& process, Use use) {
  const auto is_last = [&](std::uint64_t word) {
    const std::uint64_t address = word & kCodeAddressBits;
    const CodeRange* range = process.Find(address);
    return range != nullptr && IsReturnAddress(process, *range, address) && use(*range);
  };
  if (is_last(sample.link)) return;
  const std::size_t words = std::min<std::size_t>(sample.stack_bytes, RLS_SAMPLE_STACK_BYTES) / 8;
  for (std::size_t i = 0; i < words; ++i)
    if (is_last(sample.stack[i])) return;
}

// OpenMP libraries that wait give the CPU to others now and then.
bool YieldsForOpenMp(const rls_raw_sample& sample, const SampledProcess& process,
                     const CodeRange& range) {
  if ((sample.flags & RLS_RAW_IN_OS_KERNEL) == 0) return false;
  std::array<std::uint8_t, kCallBytes> before;
  std::size_t at = 0;
  const std::size_t bytes = process.ReadCode(range, sample.ip, kCallBytes, 0, before.data(), &at);
  if (bytes != at || !EndsInYield(before.data(), bytes)) return false;
  if (range.file->is_openmp) return true;
  bool openmp = false;
  ForCallers(sample, process, [&](const CodeRange& caller) {
    openmp = caller.file->is_openmp;
    return true;
  });
  return openmp;
}

// The layer of whoever called a transparent library, or code made at run time (`generated`).
Verdict ByStack(const rls_raw_sample& sample, const SampledProcess& process, bool generated) {
  std::uint8_t layer = RLS_LAYER_NONE;
  ForCallers(sample, process, [&](const CodeRange& caller) {
    if (caller.file->layer == kTransparent) return false;
    generated = generated || caller.file->is_generated;
    if (caller.file->is_generated) return false;
    layer = caller.file->layer;
    return true;
  });
  // The interpreter does not compute what it calls generated code for.
  if (generated && (layer == RLS_LAYER_PYTHON || layer == RLS_LAYER_NONE)) layer = kUnnamed;
  return {layer, layer != RLS_LAYER_NONE};
}

}  // namespace

Verdict Classify(const rls_raw_sample& sample, const SampledProcess& process) {
  const CodeRange* range = process.Find(sample.ip);
  if (range == nullptr) return ByStack(sample, process, false);
  if (Spins(process, *range, sample.ip) || YieldsForOpenMp(sample, process, *range))
    return {RLS_LAYER_SPIN, false};
  if (range->file->is_generated) return ByStack(sample, process, true);
  if (range->file->layer == kTransparent) return ByStack(sample, process, false);
  return {range->file->layer, false};
}

}  // namespace rls
