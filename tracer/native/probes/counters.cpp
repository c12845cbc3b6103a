// What the native probes have counted, summed over the CPUs.
#include <bpf/bpf.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "capture/drain.h"
#include "probes/native_probes.h"

namespace rls {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

std::map<std::uint32_t, NativeCounts> NativeProbes::Counters() const {
  const std::size_t cpus = PossibleCpus();
  std::uint32_t count = std::max(site_ids_, 1U);
  std::vector<std::uint32_t> keys(count);
  std::vector<rls_native_counter> values(count * cpus);
  std::uint32_t next = 0;
  const int error = bpf_map_lookup_batch(object_->MapFd("counters"), nullptr, &next, keys.data(),
                                         values.data(), &count, nullptr);
  // ENOENT: there is nothing after these.
  if (error != 0 && errno != ENOENT) Fail("reading the counters of the sites");
  std::map<std::uint32_t, NativeCounts> counters;
  for (std::size_t row = 0; row < count; ++row) {
    NativeCounts sum;
    for (std::size_t cpu = 0; cpu < cpus; ++cpu) {
      sum.hits += values[row * cpus + cpu].hits;
      sum.time_ns += values[row * cpus + cpu].time_ns;
    }
    if (sum.hits != 0) counters.emplace(keys[row], sum);
  }
  return counters;
}

rls_native_losses NativeProbes::Losses() const {
  const std::uint32_t zero = 0;
  std::vector<rls_native_losses> of_cpus(PossibleCpus());
  if (bpf_map_lookup_elem(object_->MapFd("losses"), &zero, of_cpus.data()) != 0)
    Fail("reading the losses of the probes");
  rls_native_losses sum = {};
  for (const rls_native_losses& part : of_cpus) {
    sum.unmatched += part.unmatched;
    sum.too_deep += part.too_deep;
    sum.abandoned += part.abandoned;
    sum.declined += part.declined;
    sum.failed += part.failed;
  }
  return sum;
}

}  // namespace rls
