// The engines behind the reports and the exports, on the columns of a trace of somebody else: any
// number of any size may stand there.
#include <deque>
#include <stdexcept>

#include "perfetto_chrome.h"
#include "perfetto_pass.h"
#include "perfetto_proto.h"
#include "set_overlap.h"
#include "set_overlap_input.h"
#include "support.h"
#include "thread_sweep.h"

namespace rls::fuzz {
namespace {

// Near each other as a rule; seldom anything.
std::int64_t TakeTime(FuzzedDataProvider* input, std::int64_t near) {
  const auto step = input->ConsumeIntegral<std::uint8_t>();
  if (step > 250) return input->ConsumeIntegral<std::int64_t>();
  return near > INT64_MAX - 256 ? near : near + step % 32;
}

struct Columns {
  std::vector<std::int32_t> id, value;
  std::vector<std::int64_t> start_ns, end_ns;
  std::vector<std::uint8_t> byte;

  RowBatch batch(bool is_byte) const {
    const void* const values = is_byte ? static_cast<const void*>(byte.data()) : value.data();
    return {id.size(), id.data(), start_ns.data(), end_ns.data(), values};
  }
};

std::int32_t TakeId(FuzzedDataProvider* input, std::int32_t at) {
  return input->ConsumeIntegral<std::uint8_t>() > 252 ? input->ConsumeIntegral<std::int32_t>() : at;
}

Columns TakeColumns(FuzzedDataProvider* input, std::int32_t ids, std::uint8_t largest) {
  Columns columns;
  for (std::int32_t id = 0; id < ids; ++id) {
    std::int64_t now_ns = 0;
    for (int rows = input->ConsumeIntegralInRange(0, 6); rows > 0; --rows) {
      now_ns = TakeTime(input, now_ns);
      columns.id.push_back(TakeId(input, id));
      columns.start_ns.push_back(now_ns);
      columns.end_ns.push_back(TakeTime(input, now_ns));
      columns.value.push_back(TakeId(input, input->ConsumeIntegralInRange(0, 5)));
      columns.byte.push_back(input->ConsumeIntegralInRange<std::uint8_t>(0, largest));
    }
  }
  return columns;
}

void SweepThreads(FuzzedDataProvider* input) {
  const auto ids = input->ConsumeIntegralInRange<std::int32_t>(1, 4);
  std::vector<SweptThread> threads;
  for (std::int32_t id = 0; id < ids; ++id) {
    SweptThread thread;
    thread.thread_id = TakeId(input, id);
    thread.process_id = TakeId(input, id / 2);
    thread.start_ns = TakeTime(input, 0);
    thread.end_ns = TakeTime(input, thread.start_ns + 0);
    thread.state_is_measured = input->ConsumeBool();
    thread.gpu_from_ns = input->ConsumeBool() ? kAlways : TakeTime(input, 0);
    threads.push_back(thread);
  }
  static constexpr std::uint8_t kLargest[kTables] = {3, 0, 7, 9, 1, 9, 6};
  std::deque<Columns> columns;
  SweepSources sources;
  for (std::size_t table = 0; table < kTables; ++table) {
    const bool is_byte = table != kOperation;
    columns.push_back(TakeColumns(input, ids, kLargest[table]));
    sources[table] = make_memory_source(columns.back().batch(is_byte), is_byte ? 1 : 4, 3);
  }
  ProbedSince probed_ns = {};
  for (std::int64_t& since_ns : probed_ns) since_ns = TakeTime(input, 0);
  SweepProgress progress;
  const bool has_window = input->ConsumeBool();
  try {
    (void)sweep_threads(threads, has_window ? TakeTime(input, 0) : kAlways,
                        has_window ? TakeTime(input, 10) : kNever, probed_ns, sources, &progress,
                        nullptr);
  } catch (const OrderError&) {
  } catch (const ColumnError&) {
  }
}

void OverlapSets(FuzzedDataProvider* input) {
  const auto categories = input->ConsumeIntegralInRange<std::size_t>(1, 70);
  const Columns columns = TakeColumns(input, input->ConsumeIntegralInRange(0, 40), 0);
  Columns operations = TakeColumns(input, input->ConsumeIntegralInRange(0, 4), 0);
  // Codes of operations are our own: dense, or kUnannotated.
  for (std::int32_t& code : operations.value) code = code % 5 < 0 ? kUnannotated : code % 5;
  const OverlapOptions options = {1, input->ConsumeIntegralInRange(0U, 3U), input->ConsumeBool()};
  try {
    const auto groups = GroupByCode(
        columns.id.data(), {columns.start_ns.data(), columns.end_ns.data(), columns.id.size()},
        categories);
    std::vector<IntervalChunk> chunks;
    for (const IntervalColumns& group : groups) chunks.push_back(group.chunk());
    const OperationChunk chunk = {operations.value.data(), operations.start_ns.data(),
                                  operations.end_ns.data(), operations.id.size()};
    const auto result = OverlapArrays(chunks, chunk, options);
    std::vector<std::int32_t> codes;
    for (std::size_t at = 0; at < result->size(); ++at) result->AppendCodes(at, &codes);
    for (const std::int32_t code : codes)
      Claim(code >= 0 && static_cast<std::size_t>(code) < categories, "a set is of categories");
  } catch (const OverlapInputError&) {
  } catch (const std::overflow_error&) {
  }
}

// One batch of int64 columns as an Arrow stream; row 0 of each may be NULL.
class Batch {
 public:
  explicit Batch(std::vector<std::vector<std::int64_t>> columns, std::uint8_t nulls)
      : columns_(std::move(columns)), nulls_(nulls), arrays_(columns_.size()) {}

  ArrowArrayStream stream() {
    ArrowArrayStream stream = {};
    stream.private_data = this;
    stream.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
      return static_cast<Batch*>(self->private_data)->Schema(out);
    };
    stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
      return static_cast<Batch*>(self->private_data)->Next(out);
    };
    stream.get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
    stream.release = [](ArrowArrayStream* self) { self->release = nullptr; };
    return stream;
  }

 private:
  int Schema(ArrowSchema* out) {
    *out = {};
    child_ = {};
    child_.format = "l";
    child_.name = "column";
    children_.assign(columns_.size(), &child_);
    out->format = "+s";
    out->n_children = static_cast<std::int64_t>(columns_.size());
    out->children = children_.data();
    out->release = [](ArrowSchema* self) { self->release = nullptr; };
    return 0;
  }

  int Next(ArrowArray* out) {
    *out = {};
    if (is_told_ || columns_.empty()) return 0;
    is_told_ = true;
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      buffers_.push_back(&nulls_);
      buffers_.push_back(columns_[at].data());
    }
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      arrays_[at] = {};
      arrays_[at].length = static_cast<std::int64_t>(columns_[at].size());
      arrays_[at].null_count = -1;
      arrays_[at].buffers = &buffers_[2 * at];
      array_children_.push_back(&arrays_[at]);
    }
    out->length = static_cast<std::int64_t>(columns_[0].size());
    out->n_children = static_cast<std::int64_t>(columns_.size());
    out->children = array_children_.data();
    out->release = [](ArrowArray* self) { self->release = nullptr; };
    return 0;
  }

  std::vector<std::vector<std::int64_t>> columns_;
  std::uint8_t nulls_;
  std::vector<ArrowArray> arrays_;
  std::vector<const void*> buffers_;
  std::vector<ArrowArray*> array_children_;
  ArrowSchema child_ = {};
  std::vector<ArrowSchema*> children_;
  bool is_told_ = false;
};

// start, end, name, one key, one argument that is the correlation; at most eight rows.
std::vector<std::vector<std::int64_t>> TakeSlices(FuzzedDataProvider* input) {
  std::vector<std::vector<std::int64_t>> columns(5);
  std::int64_t now_ns = 0;
  for (int rows = input->ConsumeIntegralInRange(1, 8); rows > 0; --rows) {
    now_ns = TakeTime(input, now_ns);
    columns[0].push_back(now_ns);
    columns[1].push_back(TakeTime(input, now_ns));
    columns[2].push_back(TakeId(input, 1));
    columns[3].push_back(input->ConsumeIntegralInRange(0, 2));
    columns[4].push_back(TakeTime(input, 7));
  }
  return columns;
}

void WriteTimeline(FuzzedDataProvider* input) {
  using namespace timeline;
  const bool is_chrome = input->ConsumeBool();
  std::unique_ptr<Sink> sink;
  if (is_chrome)
    sink = std::make_unique<ChromeSink>(100);
  else
    sink = std::make_unique<ProtoSink>(100, 100);
  const bool is_gpu = input->ConsumeBool();
  std::deque<Batch> batches;
  Pass pass(*sink);
  for (std::int64_t key = 0; key < 2; ++key) {
    Track track;
    track.name = input->ConsumeRandomLengthString(20);
    track.correlation_scope = input->ConsumeIntegral<std::uint64_t>();
    track.pid = key;
    pass.add_track({key, kNull, kNull, kNull}, std::move(track));
  }
  for (int sources = input->ConsumeIntegralInRange(1, 3); sources > 0; --sources) {
    batches.emplace_back(TakeSlices(input), input->ConsumeIntegral<std::uint8_t>());
    ArrowArrayStream stream = batches.back().stream();
    Source source;
    source.stream = std::make_unique<ColumnStream>(&stream, 5);
    source.shape = is_gpu ? Shape::kGpu : Shape::kSlice;
    source.names[1].text = input->ConsumeRandomLengthString(20);
    Argument argument;
    argument.label = "correlation";
    argument.is_coded = input->ConsumeBool();
    argument.words[7] = "seven";
    source.arguments.push_back(argument);
    source.correlation = 0;
    pass.add_source(std::move(source));
  }
  while (pass.run(64)) sink->output().clear();
  Claim(pass.rows() <= 24, "no row is read twice");
}

}  // namespace
}  // namespace rls::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rls::fuzz;
  FuzzedDataProvider input(data, size);
  switch (input.ConsumeIntegralInRange(0, 2)) {
    case 0:
      SweepThreads(&input);
      break;
    case 1:
      OverlapSets(&input);
      break;
    default:
      WriteTimeline(&input);
  }
  return 0;
}
