#include "kineto_handler.h"

#include <algorithm>
#include <array>

namespace rls {
namespace {

// The parser calls itself once per level.
constexpr int kMaxDepth = 1000;
// What stands around the events is small; a file that is something else must not fill the memory.
constexpr std::size_t kMaxHeaderValues = 10'000;
constexpr std::size_t kMaxHeaderText = 4096;
constexpr std::size_t kMaxHeaderSteps = 3;

std::int64_t integer(std::string_view text) {
  const auto number = parse_decimal(text, 0);
  return number && !number->rounded ? number->value : kMissing;
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
    if (depth_ == events_depth_ + 2) in_args_ = field_ == Field::kArgs && is_object;
    field_ = Field::kNone;
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
    if (closed == events_depth_ + 1 && is_object) on_event_(event_);
    if (closed == events_depth_ + 2) in_args_ = false;
    return true;
  }
  events_depth_ = 0;
  path_.pop_back();
  if (!path_.empty()) ++path_.back().index;
  return true;
}

bool KinetoHandler::Key(const char* text, unsigned length, bool) {
  const std::string_view key(text, length);
  if (!in_events()) {
    path_.back().key = key;
  } else if (depth_ == events_depth_ + 1) {
    field_ = field_of(key);
  } else if (depth_ == events_depth_ + 2 && in_args_) {
    field_ = args_field_of(key);
  }
  return true;
}

bool KinetoHandler::scalar(std::string_view text) {
  if (!in_events()) {
    header_value(text);
  } else if (depth_ == events_depth_) {
    ++stray_count_;
  } else if (field_ != Field::kNone && (depth_ == events_depth_ + 1 || in_args_) &&
             depth_ <= events_depth_ + 2) {
    event_value(text);
    field_ = Field::kNone;
  }
  return true;
}

void KinetoHandler::header_value(std::string_view text) {
  if (path_.empty()) return;
  if (path_.size() <= kMaxHeaderSteps && header_.size() < kMaxHeaderValues) {
    std::string path;
    for (const Step& step : path_) {
      if (!path.empty()) path += '.';
      path += step.is_object ? step.key : std::to_string(step.index);
    }
    header_.emplace_back(std::move(path), text.substr(0, kMaxHeaderText));
  }
  ++path_.back().index;
}

void KinetoHandler::event_value(std::string_view text) {
  switch (field_) {
    case Field::kPhase:
      event_.phase = text;
      break;
    case Field::kCategory:
      event_.category = text;
      break;
    case Field::kName:
      event_.name = text;
      break;
    case Field::kPid:
      event_.pid = text;
      break;
    case Field::kTid:
      event_.tid = text;
      break;
    case Field::kTs:
      event_.ts_ns = parse_decimal(text, 3);
      break;
    case Field::kDuration:
      event_.duration_ns = parse_decimal(text, 3);
      break;
    case Field::kArgsName:
      event_.args_name = text;
      break;
    case Field::kCorrelation:
      event_.correlation = integer(text);
      break;
    case Field::kDevice:
      event_.device = integer(text);
      break;
    case Field::kInDevice:
      if (event_.device == kMissing) event_.device = integer(text);
      break;
    case Field::kContext:
      event_.context = integer(text);
      break;
    case Field::kInContext:
      if (event_.context == kMissing) event_.context = integer(text);
      break;
    case Field::kStream:
      event_.stream = integer(text);
      break;
    case Field::kBytes:
      event_.bytes = integer(text);
      break;
    case Field::kGraph:
      event_.graph = integer(text);
      break;
    case Field::kGraphNode:
      event_.graph_node = integer(text);
      break;
    case Field::kArgs:
    case Field::kNone:
      break;
  }
}

KinetoHandler::Field KinetoHandler::field_of(std::string_view key) {
  static constexpr std::array<std::pair<std::string_view, Field>, 8> kFields{{
      {"ph", Field::kPhase},
      {"cat", Field::kCategory},
      {"name", Field::kName},
      {"pid", Field::kPid},
      {"tid", Field::kTid},
      {"ts", Field::kTs},
      {"dur", Field::kDuration},
      {"args", Field::kArgs},
  }};
  for (const auto& [name, field] : kFields) {
    if (name == key) return field;
  }
  return Field::kNone;
}

KinetoHandler::Field KinetoHandler::args_field_of(std::string_view key) {
  static constexpr std::array<std::pair<std::string_view, Field>, 13> kFields{{
      {"name", Field::kArgsName},
      {"correlation", Field::kCorrelation},
      {"device", Field::kDevice},
      {"inDevice", Field::kInDevice},
      {"context", Field::kContext},
      {"inContext", Field::kInContext},
      {"stream", Field::kStream},
      {"bytes", Field::kBytes},
      // Kineto spells some of its keys in several ways.
      {"Bytes", Field::kBytes},
      {"graph id", Field::kGraph},
      {"graph_id", Field::kGraph},
      {"graph node id", Field::kGraphNode},
      {"graph_node_id", Field::kGraphNode},
  }};
  for (const auto& [name, field] : kFields) {
    if (name == key) return field;
  }
  return Field::kNone;
}

}  // namespace rls
