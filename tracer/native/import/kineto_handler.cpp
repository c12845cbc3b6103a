#include "kineto_handler.h"

#include <algorithm>

#include "import_limits.h"
#include "utf8.h"

namespace rls {
namespace {

// The parser calls itself once per level.
constexpr int kMaxDepth = 1000;
// What stands around the events is small; a file that is something else must not fill the memory.
constexpr std::size_t kMaxHeaderValues = 10'000;
constexpr std::size_t kMaxHeaderText = 4096;
constexpr std::size_t kMaxHeaderKey = 256;
constexpr std::size_t kMaxHeaderBytes = 4 << 20;
constexpr std::size_t kMaxHeaderSteps = 3;

constexpr int kMicroToNano = 3;
constexpr std::string_view kArgs = "args";

std::int64_t integer(std::string_view text) {
  const auto number = parse_decimal(text, 0);
  return number && !number->rounded ? number->value : kMissing;
}

template <typename Field, std::size_t count>
const Field* find_field(const Field (&fields)[count], std::string_view key) {
  const auto has_key = [&](const Field& field) { return field.key == key; };
  const Field* const found = std::find_if(fields, fields + count, has_key);
  return found == fields + count ? nullptr : found;
}

}  // namespace

bool KinetoHandler::open(bool is_object) {
  if (++depth_ > kMaxDepth) {
    is_too_deep_ = true;
    return false;
  }
  has_root_ = true;
  if (in_events()) {
    if (depth_ == events_depth_ + 1) {
      event_.clear();
      in_args_ = false;
      if (!is_object) ++stray_count_;
    }
    if (depth_ == events_depth_ + 2)
      in_args_ = is_object && field_ != nullptr && field_->key == kArgs;
    field_ = nullptr;
    return true;
  }
  const bool is_root_array = depth_ == 1 && !is_object;
  const bool is_trace_events =
      depth_ == 2 && !is_object && path_.back().is_object && path_.back().key == "traceEvents";
  if (is_root_array || is_trace_events) {
    events_depth_ = depth_;
    has_events_array_ = true;
  }
  path_.push_back({is_object, {}, 0});
  return true;
}

bool KinetoHandler::close(bool is_object) {
  const int closed = depth_--;
  if (in_events() && closed > events_depth_) {
    if (closed == events_depth_ + 2) in_args_ = false;
    return closed != events_depth_ + 1 || !is_object || on_event_(event_);
  }
  events_depth_ = 0;
  path_.pop_back();
  if (!path_.empty()) ++path_.back().index;
  return true;
}

bool KinetoHandler::Key(const char* text, unsigned length, bool) {
  const std::string_view key(text, length);
  if (!in_events()) {
    path_.back().key = key.substr(0, kMaxHeaderKey);
  } else if (depth_ == events_depth_ + 1) {
    field_ = find_field(kEventFields, key);
  } else if (depth_ == events_depth_ + 2 && in_args_) {
    field_ = find_field(kArgsFields, key);
  }
  return true;
}

bool KinetoHandler::scalar(std::string_view text) {
  if (!in_events()) {
    header_value(text);
  } else if (depth_ == events_depth_) {
    ++stray_count_;
  } else if (field_ != nullptr && (depth_ == events_depth_ + 1 || in_args_) &&
             depth_ <= events_depth_ + 2) {
    event_value(text);
    field_ = nullptr;
  }
  return true;
}

void KinetoHandler::header_value(std::string_view text) {
  if (path_.empty()) return;
  if (path_.size() <= kMaxHeaderSteps && header_.size() < kMaxHeaderValues &&
      header_bytes_ < kMaxHeaderBytes) {
    std::string path;
    for (const Step& step : path_) {
      if (!path.empty()) path += '.';
      path += step.is_object ? step.key : std::to_string(step.index);
    }
    header_bytes_ += path.size() + std::min(text.size(), kMaxHeaderText);
    header_.emplace_back(std::move(path), text.substr(0, kMaxHeaderText));
  }
  ++path_.back().index;
}

void KinetoHandler::event_value(std::string_view text) {
  if (field_->text != nullptr) {
    event_.*field_->text = start_of_text(text, kMaxTextBytes);
    if (text.size() > kMaxTextBytes) ++cut_text_count_;
  } else if (field_->time != nullptr) {
    event_.*field_->time = parse_decimal(text, kMicroToNano);
  } else if (field_->number != nullptr) {
    event_.*field_->number = integer(text);
  }
}

const KinetoHandler::Field KinetoHandler::kEventFields[8] = {
    {"ph", &KinetoEvent::phase},
    {"cat", &KinetoEvent::category},
    {"name", &KinetoEvent::name},
    {"pid", &KinetoEvent::pid},
    {"tid", &KinetoEvent::tid},
    {"ts", nullptr, &KinetoEvent::ts_ns},
    {"dur", nullptr, &KinetoEvent::duration_ns},
    {kArgs},
};

// Copies between devices name the one that did it inDevice. Some keys have several spellings.
const KinetoHandler::Field KinetoHandler::kArgsFields[20] = {
    {"name", &KinetoEvent::args_name},
    {"correlation", nullptr, nullptr, &KinetoEvent::correlation},
    {"device", nullptr, nullptr, &KinetoEvent::device},
    {"inDevice", nullptr, nullptr, &KinetoEvent::device},
    {"context", nullptr, nullptr, &KinetoEvent::context},
    {"inContext", nullptr, nullptr, &KinetoEvent::context},
    {"stream", nullptr, nullptr, &KinetoEvent::stream},
    {"wait_on_stream", nullptr, nullptr, &KinetoEvent::event_stream},
    {"wait_on_cuda_event_record_corr_id", nullptr, nullptr, &KinetoEvent::event_correlation},
    {"bytes", nullptr, nullptr, &KinetoEvent::bytes},
    {"Bytes", nullptr, nullptr, &KinetoEvent::bytes},
    {"graph id", nullptr, nullptr, &KinetoEvent::graph},
    {"graph_id", nullptr, nullptr, &KinetoEvent::graph},
    {"graph node id", nullptr, nullptr, &KinetoEvent::graph_node},
    {"graph_node_id", nullptr, nullptr, &KinetoEvent::graph_node},
    {"Collective name", &KinetoEvent::collective},
    {"Process Group Name", &KinetoEvent::process_group},
    {"Process Group Ranks", &KinetoEvent::group_ranks},
    {"Group size", nullptr, nullptr, &KinetoEvent::group_size},
    {"Seq", nullptr, nullptr, &KinetoEvent::sequence},
};

}  // namespace rls
