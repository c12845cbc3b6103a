// records.bin of a spool: every pass over it, and the law that the rows of a thread tile its life.
#include <map>

#include "spool/event_rows.h"
#include "spool/scan.h"
#include "spool/state_rows.h"
#include "support.h"

namespace rls::fuzz {
namespace {

constexpr std::size_t kBatchRows = 4;
constexpr std::uint64_t kStep = 512;

constexpr std::size_t kSizes[RLS_REC_KINDS] = {8,
                                               sizeof(rls_rec_thread),
                                               sizeof(rls_rec_cycle),
                                               sizeof(rls_rec_close),
                                               sizeof(rls_rec_exec),
                                               sizeof(rls_rec_name),
                                               sizeof(rls_rec_exit),
                                               sizeof(rls_rec_clock),
                                               sizeof(rls_rec_call),
                                               sizeof(rls_rec_gil_release),
                                               sizeof(rls_rec_sample),
                                               sizeof(rls_rec_stack) + 16,
                                               sizeof(rls_rec_other_run),
                                               sizeof(rls_rec_quota),
                                               sizeof(rls_rec_message),
                                               sizeof(rls_rec_title)};
static_assert(kSizes[RLS_REC_KINDS - 1] > 0, "every kind of record has its size");

// Records of the input in frames that are right, mostly of a handful of threads.
std::vector<char> Framed(FuzzedDataProvider* input) {
  std::vector<char> file;
  Append(&file, SpoolHeader{kSpoolMagic, RLS_WIRE_VERSION, sizeof(SpoolHeader)});
  while (input->remaining_bytes() > 2) {
    const auto kind = input->ConsumeIntegralInRange<std::uint16_t>(0, RLS_REC_KINDS - 1);
    const bool is_small = input->ConsumeIntegral<std::uint8_t>() < 250;
    std::vector<char> record = input->ConsumeBytes<char>(kSizes[kind]);
    record.resize((kSizes[kind] + 7) / 8 * 8);
    std::memcpy(record.data(), &kind, sizeof(kind));
    if (is_small) {
      const std::uint32_t thread = static_cast<unsigned char>(record[4]) & 3U;
      std::memcpy(record.data() + 4, &thread, sizeof(thread));
    }
    const std::uint32_t head[2] = {static_cast<std::uint32_t>(kSizes[kind]), 0};
    Append(&file, head);
    file.insert(file.end(), record.begin(), record.end());
  }
  return file;
}

struct Life {
  std::int64_t reported_ns = 0;
  std::int64_t last_end_ns = INT64_MIN;
};

void ReadStates(const SpoolScan& scan, std::size_t bucket_bytes) {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < scan.threads().size(); ++slot)
    if (scan.threads()[slot].has_state != 0) slots.push_back(slot);
  StateRows rows(scan, slots, "/tmp", kBatchRows, bucket_bytes);
  for (std::size_t position = 0; position < slots.size(); ++position)
    rows.SetGil(position, {{0, 64, 128}, {50, 1024, 2048}});
  while (rows.Prepare(kStep)) {
  }
  std::map<std::int32_t, Life> lives;
  for (std::size_t count = rows.NextBatch(); count > 0; count = rows.NextBatch()) {
    const StateColumns& columns = rows.columns();
    for (std::size_t row = 0; row < count; ++row) {
      Life& life = lives[columns.thread_id[row]];
      Claim(columns.start_ns[row] < columns.end_ns[row], "a state lasts");
      Claim(columns.start_ns[row] >= life.last_end_ns, "the states of a thread do not overlap");
      life.reported_ns += columns.end_ns[row] - columns.start_ns[row];
      life.last_end_ns = columns.end_ns[row];
    }
  }
  for (const ThreadOutcome& outcome : rows.outcomes()) {
    const Life& life = lives[static_cast<std::int32_t>(outcome.thread_id)];
    Claim(life.reported_ns + outcome.lost_ns == outcome.end_ns - outcome.start_ns,
          "states and what is lost add up to the life of a thread");
  }
}

void ReadEvents(const SpoolScan& scan) {
  EventRows rows(scan);
  EventBatch batch;
  while (rows.Next(kBatchRows, &batch)) {
    for (std::size_t row = 0; row < batch.calls.thread_id.size(); ++row)
      Claim(batch.calls.start_ns[row] <= batch.calls.end_ns[row], "a call ends after it starts");
    for (std::size_t row = 0; row < batch.other_runs.cpu.size(); ++row)
      Claim(batch.other_runs.start_ns[row] <= batch.other_runs.end_ns[row],
            "a program gives a CPU back after it had it");
  }
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls;
  static fuzz::NamedFile file("work-spool_records.bin");
  FuzzedDataProvider input(data, size);
  const bool is_framed = input.ConsumeBool();
  const bool is_scattered = input.ConsumeBool();
  const auto end_ns = input.ConsumeBool() ? 0 : input.ConsumeIntegral<std::int64_t>();
  const std::vector<char> bytes =
      is_framed ? fuzz::Framed(&input) : input.ConsumeRemainingBytes<char>();
  file.Set(bytes.data(), bytes.size());
  SpoolScan scan(file.path(), end_ns);
  while (scan.Advance(fuzz::kStep)) {
  }
  fuzz::ReadStates(scan, is_scattered ? 3 * sizeof(rls_rec_cycle) : kBucketBytes);
  fuzz::ReadEvents(scan);
  return 0;
}
