// shim.bin, as a process wrote it that may be hostile: first pass, ranges, GPU records, phases.
#include <algorithm>
#include <numeric>

#include "shim/gpu_reader.h"
#include "shim/phase_merge.h"
#include "shim/ranges.h"
#include "shim/scan.h"
#include "support.h"

namespace rls::fuzz {
namespace {

constexpr std::size_t kPart = 5;

// Blocks of the input with heads that are right, so that what lies in them is reached at once.
std::vector<char> Framed(FuzzedDataProvider* input) {
  std::vector<char> file;
  Append(&file, ShimSpoolHeader{kShimSpoolMagic, RLS_SHIM_VERSION, sizeof(ShimSpoolHeader)});
  std::uint64_t ts_ns = 0;
  while (input->remaining_bytes() > 4) {
    ShimBlock block = {};
    block.magic = kShimBlockMagic;
    block.kind = static_cast<ShimBlockKind>(input->ConsumeIntegralInRange<std::uint16_t>(0, 8));
    block.slot = input->ConsumeIntegralInRange<std::uint16_t>(0, 3);
    block.source = input->ConsumeIntegralInRange<std::uint32_t>(0, 2);
    block.ts_ns = ts_ns += input->ConsumeIntegral<std::uint8_t>();
    const std::size_t bytes = input->ConsumeIntegral<std::uint16_t>() % 2048;
    const std::vector<char> data = input->ConsumeBytes<char>(bytes);
    block.bytes = static_cast<std::uint32_t>(data.size());
    Append(&file, block);
    file.insert(file.end(), data.begin(), data.end());
  }
  return file;
}

// As the decoder does it: sorted by (start, -end), phases and ranges by their key.
void Merge(const ShimRanges& ranges, PhaseNames* names) {
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
    return std::make_pair(ranges.start_ns[left], -ranges.end_ns[left]) <
           std::make_pair(ranges.start_ns[right], -ranges.end_ns[right]);
  });
  std::vector<std::int64_t> start_ns, end_ns;
  std::vector<std::int32_t> key;
  std::vector<std::uint8_t> is_auto;
  for (const std::size_t row : order) {
    start_ns.push_back(ranges.start_ns[row]);
    end_ns.push_back(ranges.end_ns[row]);
    key.push_back(ranges.key[row]);
    is_auto.push_back(static_cast<std::uint8_t>(ranges.key[row] % 2));
  }
  const PhaseInput input = {start_ns.data(), end_ns.data(), key.data(), is_auto.data(),
                            start_ns.size()};
  names->Add(input);
  const MergedRanges merged = MergePhases(input, *names);
  for (std::size_t i = 0; i < merged.row.size(); ++i) {
    const auto row = static_cast<std::size_t>(merged.row[i]);
    Claim(row < input.count, "a merged range has a row of the input");
    Claim(merged.start_ns[i] >= start_ns[row] && merged.end_ns[i] <= end_ns[row],
          "a part of a phase lies in the phase");
  }
}

void ReadRanges(const ShimScan& scan) {
  for (std::size_t incarnation = 0; incarnation < scan.incarnations().size(); ++incarnation) {
    ShimRangeReader reader(scan, {incarnation});
    PhaseNames names;
    std::uint64_t read = 0;
    for (ShimRanges part = reader.Next(kPart); part.size() > 0; part = reader.Next(kPart)) {
      read += part.size();
      for (const std::int32_t key : part.key)
        Claim(key >= 0 && static_cast<std::size_t>(key) < scan.keys().size(), "a range has a key");
      Merge(part, &names);
    }
    const std::uint64_t counted = scan.incarnations()[incarnation].ranges;
    Claim(read <= counted, "no range is read that was not counted");
    // Of those that were open at the end some may be damaged, or told already.
    const bool had_open =
        scan.data(incarnation).open_ns != 0 || !scan.data(incarnation).open.empty();
    Claim(had_open || read == counted, "no range is lost that was counted");
  }
}

void ReadGpu(const ShimScan& scan, std::int64_t start_ns) {
  ShimGpuReader reader(scan, start_ns);
  while (reader.Next(kPart).size() > 0) {
  }
  (void)scan.gpu().named();
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls;
  static fuzz::NamedFile file("work-shim_spool.bin");
  FuzzedDataProvider input(data, size);
  const bool is_framed = input.ConsumeBool();
  const auto start_ns = input.ConsumeIntegral<std::uint8_t>();
  const std::vector<char> bytes =
      is_framed ? fuzz::Framed(&input) : input.ConsumeRemainingBytes<char>();
  file.Set(bytes.data(), bytes.size());
  const ShimScan scan(file.path());
  fuzz::Claim(scan.losses().bytes_left <= bytes.size(), "no more is left than there is");
  fuzz::ReadRanges(scan);
  fuzz::ReadGpu(scan, start_ns);
  return 0;
}
