// A file of the PyTorch profiler, plain or gzipped, and the nesting of what it holds.
#include <algorithm>
#include <numeric>

#include "kineto_parser.h"
#include "nesting/nesting.h"
#include "support.h"
#include "utf8.h"

namespace rls::fuzz {
namespace {

void Nest(const SliceColumns& slices) {
  const std::size_t count = slices.start_ns.size();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return std::make_tuple(slices.thread[left], slices.start_ns[left], -slices.end_ns[left]) <
           std::make_tuple(slices.thread[right], slices.start_ns[right], -slices.end_ns[right]);
  });
  std::vector<std::int32_t> thread;
  std::vector<std::int64_t> start_ns, end_ns, key;
  for (const std::size_t row : order) {
    thread.push_back(slices.thread[row]);
    start_ns.push_back(slices.start_ns[row]);
    end_ns.push_back(slices.end_ns[row]);
    key.push_back(slices.name[row]);
    Claim(start_ns.back() <= end_ns.back(), "a slice ends after it starts");
  }
  const Nesting nesting = nest({thread.data(), start_ns.data(), end_ns.data(), count});
  const PathTree tree =
      intern_paths(nesting.parent.data(), key.data(), count, PathLimits{30000, 1000});
  for (const std::int32_t path : tree.path_id)
    Claim(path >= 0 && static_cast<std::size_t>(path) <= tree.key.size(), "a range has a path");
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls;
  static fuzz::MemoryFile file;
  file.Set(data, size);
  KinetoFile kineto;
  read_kineto(
      file.path(), [](std::uint64_t, std::uint64_t) {}, kineto);
  bool changed = false;
  for (const std::string& name : kineto.columns.names.texts()) {
    const std::string valid = to_valid_utf8(name, changed);
    bool again = false;
    fuzz::Claim(to_valid_utf8(valid, again) == valid && !again, "valid text stays as it is");
  }
  fuzz::Nest(kineto.columns.ranges);
  fuzz::Nest(kineto.columns.calls);
  fuzz::Nest(kineto.columns.activities);
  return 0;
}
