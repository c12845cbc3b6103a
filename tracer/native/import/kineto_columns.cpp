#include "kineto_columns.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "utf8.h"

namespace rls {
namespace {

// Names of categories, those of early versions included.
Role role_of(std::string_view category, std::string_view name) {
  static const std::unordered_map<std::string_view, Role> kRoles{
      {"user_annotation", Role::kOperation},
      {"cpu_op", Role::kCpuOp},
      {"Operator", Role::kCpuOp},
      {"python_function", Role::kPythonFunction},
      {"cuda_runtime", Role::kCall},
      {"cuda_driver", Role::kCall},
      {"hip_runtime", Role::kCall},
      {"Runtime", Role::kCall},
      {"kernel", Role::kKernel},
      {"Kernel", Role::kKernel},
      {"gpu_memcpy", Role::kMemcpy},
      {"Memcpy", Role::kMemcpy},
      {"gpu_memset", Role::kMemset},
      {"Memset", Role::kMemset},
      {"cuda_sync", Role::kSync},
  };
  const auto found = kRoles.find(category);
  if (found == kRoles.end()) return Role::kNone;
  // Early versions know no category of its own for what a user names.
  const bool is_step = found->second == Role::kCpuOp && name.rfind("ProfilerStep#", 0) == 0;
  return is_step ? Role::kOperation : found->second;
}

bool is_readable(const std::optional<ExactInteger>& time_ns) {
  return time_ns && time_ns->value <= kMaxTimeNs && time_ns->value >= -kMaxTimeNs;
}

// Whether it is a length, and what begins at the start ends before the last time there is.
bool is_readable_length(const std::optional<ExactInteger>& length_ns, std::int64_t start_ns) {
  return length_ns && length_ns->value >= 0 && length_ns->value <= kMaxTimeNs - start_ns;
}

bool is_on_gpu(Role role) { return role >= Role::kKernel && role <= Role::kSync; }

// Stands for the names that there is no place for.
constexpr std::string_view kOtherName = "(other names)";

std::int64_t graph_of(const KinetoEvent& event) {
  if (event.graph != kMissing) return event.graph > 0 ? event.graph : kMissing;
  // CUPTI packs the id of the graph into the upper half of that of the node.
  if (event.graph_node >= std::int64_t{1} << 32) return event.graph_node >> 32;
  return kMissing;
}

// What CUPTI writes for "no stream", and for numbers that are none.
std::int64_t known(std::int64_t value) {
  constexpr std::int64_t kInvalid = 0xFFFFFFFF;
  return value < 0 || value == kInvalid ? kMissing : value;
}

}  // namespace

std::int32_t TextTable::id_of(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  if (texts_.size() >= max_count_ || bytes_ + text.size() > max_bytes_) return kFull;
  return extra_id_of(text);
}

std::int32_t TextTable::extra_id_of(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  bytes_ += text.size();
  const auto id = static_cast<std::int32_t>(texts_.size());
  ids_.emplace(texts_.emplace_back(text), id);
  return id;
}

void Count::add(std::int64_t ts_ns) {
  ++count;
  if (ts_ns != kMissing && (first_ns == kMissing || ts_ns < first_ns)) first_ns = ts_ns;
}

void KinetoColumns::add(const KinetoEvent& event) {
  ++event_count;
  const char phase = event.phase.size() == 1 ? event.phase[0] : '\0';
  if (!event.phase.empty()) ++known_phase_count;
  switch (phase) {
    case 'X':
      add_complete(event);
      return;
    case 'B':
    case 'E':
      add_half(event);
      return;
    case 'M':
      add_metadata(event);
      return;
    case '\0':
      unreadable.add(event.ts_ns ? event.ts_ns->value : kMissing);
      return;
    default:
      break;
  }
  // Arrows from calls to what they caused: the correlation says the same.
  const bool is_flow = phase == 's' || phase == 't' || phase == 'f';
  static const std::unordered_set<std::string_view> kCorrelation{"ac2g", "async_gpu",
                                                                 "async_cpu_to_gpu", "async"};
  if (is_flow && kCorrelation.count(event.category) > 0) return;
  skip(event.phase, event.category, event.ts_ns ? event.ts_ns->value : kMissing);
}

void KinetoColumns::skip(std::string_view phase, std::string_view category, std::int64_t ts_ns) {
  const std::pair<std::string, std::string> kind{start_of_text(phase, kMaxSkippedBytes),
                                                 start_of_text(category, kMaxSkippedBytes)};
  const auto found = skipped.find(kind);
  if (found != skipped.end()) {
    found->second.add(ts_ns);
  } else if (skipped.size() < kMaxSkippedKinds) {
    skipped[kind].add(ts_ns);
  } else {
    further_kinds.add(ts_ns);
  }
}

bool KinetoColumns::fill(const KinetoEvent& event, Slice& slice) {
  slice.role = role_of(event.category, event.name);
  // What a GPU did needs no pid: its process is that of its call.
  if (!is_readable(event.ts_ns) || (event.pid.empty() && !is_on_gpu(slice.role))) {
    unreadable.add(event.ts_ns ? event.ts_ns->value : kMissing);
    return false;
  }
  slice.start_ns = slice.end_ns = event.ts_ns->value;
  if (event.ts_ns->rounded) rounded.add(slice.start_ns);
  slice.thread = thread_of(event);
  if (slice.thread == TextTable::kFull) {
    further_threads.add(slice.start_ns);
    return false;
  }
  slice.name = slice.role == Role::kNone ? 0 : name_of(event);
  // Kineto writes 0 where there is none, other programs a negative number.
  slice.correlation = event.correlation <= 0 ? kMissing : event.correlation;
  slice.device = known(event.device);
  if (slice.device == kMissing && is_on_gpu(slice.role)) {
    const auto device = parse_decimal(event.pid, 0);
    if (device) slice.device = known(device->value);
  }
  slice.context = known(event.context);
  slice.stream = known(event.stream);
  if (event.stream == kMissing && is_on_gpu(slice.role)) {
    const auto stream = parse_decimal(event.tid, 0);
    if (stream) slice.stream = known(stream->value);
  }
  slice.event_stream = known(event.event_stream);
  slice.event_correlation = event.event_correlation <= 0 ? kMissing : event.event_correlation;
  slice.bytes = event.bytes;
  slice.graph = graph_of(event);
  slice.collective = collective_of(event, slice.role);
  slice.group_size = event.group_size;
  slice.sequence = event.sequence;
  return true;
}

std::int32_t KinetoColumns::collective_of(const KinetoEvent& event, Role role) {
  // Without a number it is not known which one it is, and one of a single rank waits for nobody.
  const bool is_known = event.sequence >= 0 && event.group_size > 1 && !event.collective.empty();
  if (role != Role::kKernel || !is_known) return TextTable::kFull;
  collective_key_.assign(event.collective).append(1, '\0').append(event.process_group);
  collective_key_.append(1, '\0').append(event.group_ranks);
  const std::int32_t collective = collectives.id_of(collective_key_);
  if (collective == TextTable::kFull) further_collectives.add(event.ts_ns->value);
  return collective;
}

std::int32_t KinetoColumns::name_of(const KinetoEvent& event) {
  const std::int32_t name = names.id_of(event.name);
  if (name != TextTable::kFull) return name;
  further_names.add(event.ts_ns->value);
  return names.extra_id_of(kOtherName);
}

std::int32_t KinetoColumns::thread_of(const KinetoEvent& event) {
  thread_key_.assign(event.pid).append(1, '\0').append(event.tid);
  if (last_thread_ < 0 || thread_key_ != last_thread_key_) {
    last_thread_ = threads.id_of(thread_key_);
    last_thread_key_ = thread_key_;
  }
  return last_thread_;
}

void KinetoColumns::add_complete(const KinetoEvent& event) {
  // Before anything is numbered: a category without a place leaves no trace but its count.
  if (role_of(event.category, event.name) == Role::kNone) {
    skip(event.phase, event.category, event.ts_ns ? event.ts_ns->value : kMissing);
    return;
  }
  Slice slice{};
  if (is_readable(event.ts_ns) && !is_readable_length(event.duration_ns, event.ts_ns->value)) {
    unreadable.add(event.ts_ns->value);
    return;
  }
  if (!fill(event, slice)) return;
  if (event.duration_ns->rounded && !event.ts_ns->rounded) rounded.add(slice.start_ns);
  slice.end_ns = slice.start_ns + event.duration_ns->value;
  store(slice, "X");
}

void KinetoColumns::add_half(const KinetoEvent& event) {
  HalfSlice half{event.phase == "B", {}};
  if (role_of(event.category, event.name) == Role::kNone) {
    half.slice.skipped_kind =
        half_categories_.id_of(start_of_text(event.category, kMaxSkippedBytes));
  }
  if (fill(event, half.slice)) halves_.push_back(std::move(half));
}

void KinetoColumns::add_metadata(const KinetoEvent& event) {
  const bool is_process = event.name == "process_name";
  if (!is_process && event.name != "thread_name") return;
  if (!has_room_for_owner_name(event)) {
    ++further_owner_names;
  } else if (is_process) {
    process_names.emplace_back(event.pid, event.args_name);
  } else {
    thread_names.emplace_back(event.pid + '\0' + event.tid, event.args_name);
  }
  // The others say where and how a viewer draws.
}

bool KinetoColumns::has_room_for_owner_name(const KinetoEvent& event) {
  owner_names_bytes_ += event.pid.size() + event.tid.size() + event.args_name.size();
  return process_names.size() + thread_names.size() < kMaxNames &&
         owner_names_bytes_ <= kMaxNamesBytes;
}

void KinetoColumns::finish() {
  const auto by_thread_and_time = [](const HalfSlice& left, const HalfSlice& right) {
    return std::tie(left.slice.thread, left.slice.start_ns) <
           std::tie(right.slice.thread, right.slice.start_ns);
  };
  std::stable_sort(halves_.begin(), halves_.end(), by_thread_and_time);
  std::vector<Slice*> open;
  const auto abandon = [&] {
    for (const Slice* slice : open) never_ended.add(slice->start_ns);
    open.clear();
  };
  std::int32_t thread = -1;
  for (HalfSlice& half : halves_) {
    if (half.slice.thread != thread) abandon();
    thread = half.slice.thread;
    if (half.is_begin) {
      open.push_back(&half.slice);
    } else if (open.empty()) {
      never_begun.add(half.slice.start_ns);
    } else {
      open.back()->end_ns = half.slice.start_ns;
      store(*open.back(), "B");
      open.pop_back();
    }
  }
  abandon();
  halves_.clear();
}

void KinetoColumns::store(const Slice& slice, const char* phase) {
  if (slice.role == Role::kNone) {
    if (slice.skipped_kind == TextTable::kFull) {
      further_kinds.add(slice.start_ns);
    } else {
      skip(phase, half_categories_.texts()[static_cast<std::size_t>(slice.skipped_kind)],
           slice.start_ns);
    }
    return;
  }
  SliceColumns& columns = is_on_gpu(slice.role)       ? static_cast<SliceColumns&>(activities)
                          : slice.role == Role::kCall ? static_cast<SliceColumns&>(calls)
                                                      : ranges;
  columns.role.push_back(static_cast<std::uint8_t>(slice.role));
  columns.thread.push_back(slice.thread);
  columns.name.push_back(slice.name);
  columns.start_ns.push_back(slice.start_ns);
  columns.end_ns.push_back(slice.end_ns);
  if (slice.role == Role::kCall) calls.correlation.push_back(slice.correlation);
  if (!is_on_gpu(slice.role)) return;
  activities.correlation.push_back(slice.correlation);
  activities.device.push_back(slice.device);
  activities.context.push_back(slice.context);
  activities.stream.push_back(slice.stream);
  activities.event_stream.push_back(slice.event_stream);
  activities.event_correlation.push_back(slice.event_correlation);
  activities.bytes.push_back(slice.bytes);
  activities.graph.push_back(slice.graph);
  activities.collective.push_back(slice.collective);
  activities.group_size.push_back(slice.group_size);
  activities.sequence.push_back(slice.sequence);
}

}  // namespace rls
