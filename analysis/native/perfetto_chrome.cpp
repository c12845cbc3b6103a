#include "perfetto_chrome.h"

#include <algorithm>
#include <charconv>

namespace rls::timeline {

namespace {

void put_integer(std::string& out, int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end);
}

// The time between two instants as microseconds with three decimals: exact, where a double would
// round, and however far apart they are.
void put_microseconds(std::string& out, int64_t from_ns, int64_t to_ns) {
  const bool is_negative = to_ns < from_ns;
  const auto [first_ns, last_ns] = std::minmax(from_ns, to_ns);
  const uint64_t size = static_cast<uint64_t>(last_ns) - static_cast<uint64_t>(first_ns);
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, size / 1000);
  if (is_negative) out.push_back('-');
  out.append(digits, end);
  const auto rest = static_cast<unsigned>(size % 1000);
  const char fraction[] = {'.', static_cast<char>('0' + rest / 100),
                           static_cast<char>('0' + rest / 10 % 10),
                           static_cast<char>('0' + rest % 10)};
  out.append(fraction, sizeof fraction);
}

void put_string(std::string& out, std::string_view text) {
  out.push_back('"');
  put_json_text(out, text);
  out.push_back('"');
}

void put_control(std::string& out, unsigned char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  out.append("\\u00");
  out.push_back(kHex[byte >> 4]);
  out.push_back(kHex[byte & 15]);
}

// Viewers take whole numbers only, and those of JSON are exact up to 2^53. CUPTI counts in 32 bits;
// of larger numbers, from elsewhere, a hash is written.
uint64_t flow_id(uint64_t scope, int64_t correlation) {
  constexpr int kCorrelationBits = 32, kScopeBits = 20, kSafeBits = 53;
  const auto id = static_cast<uint64_t>(correlation);
  if (id >> kCorrelationBits == 0 && scope >> kScopeBits == 0)
    return scope << kCorrelationBits | id;
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  const uint64_t mixed = (id + scope * kFactor) * kFactor;
  return (mixed ^ mixed >> 32) * kFactor >> (64 - kSafeBits);
}

}  // namespace

void put_json_text(std::string& out, std::string_view text) {
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') {
      out.push_back('\\');
      out.push_back(byte);
    } else if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) {
      put_control(out, static_cast<unsigned char>(byte));
    } else {
      out.push_back(byte);
    }
  }
}

void ChromeSink::open(const Slice& slice) {
  if (!slice.name.prepared) prepare_name(slice.name);
  const int64_t tid = lane_tid(slice.track, slice.lane);
  output_.append(slice.name.encoded);
  output_.append("\"ph\":\"X\",");
  put_place(slice, tid);
  output_.append(",\"dur\":");
  put_microseconds(output_, slice.start, slice.end);
  output_.append(",\"args\":{");
  put_arguments(slice);
  output_.append("}},\n");
  put_flow(slice, tid);
}

// Leaves `{"name":...,"cat":...,` in `encoded`, and the constant arguments in the last of its
// arguments.
void ChromeSink::prepare_name(Name& name) {
  name.prepared = true;
  name.encoded = "{\"name\":";
  put_string(name.encoded, name.text);
  name.encoded.append(",\"cat\":");
  put_string(name.encoded, name.category);
  name.encoded.push_back(',');
  std::string constant;
  for (const auto& [label, word] : name.arguments) {
    put_string(constant, label);
    constant.push_back(':');
    put_string(constant, word);
    constant.push_back(',');
  }
  name.arguments = {{"", constant}};
}

int64_t ChromeSink::lane_tid(Track& track, size_t lane) {
  if (lane < track.lane_ids.size()) return static_cast<int64_t>(track.lane_ids[lane]);
  const int64_t tid = lane == 0 ? track.tid : next_tid_++;
  track.lane_ids.push_back(static_cast<uint64_t>(tid));
  if (lane == 0) return tid;
  const auto put_metadata = [&](std::string_view name, std::string_view argument) {
    output_.append("{\"name\":\"").append(name).append("\",\"ph\":\"M\",\"pid\":");
    put_integer(output_, track.pid);
    output_.append(",\"tid\":");
    put_integer(output_, tid);
    output_.append(",\"args\":{").append(argument).append("}},\n");
  };
  std::string name = "\"name\":";
  put_string(name, track.name + " (overlap " + std::to_string(lane) + ")");
  put_metadata("thread_name", name);
  put_metadata("thread_sort_index", "\"sort_index\":" + std::to_string(track.rank));
  return tid;
}

void ChromeSink::put_place(const Slice& slice, int64_t tid) {
  output_.append("\"pid\":");
  put_integer(output_, slice.track.pid);
  output_.append(",\"tid\":");
  put_integer(output_, tid);
  output_.append(",\"ts\":");
  put_microseconds(output_, 0, slice.start);
}

void ChromeSink::put_arguments(const Slice& slice) {
  const size_t begin = output_.size();
  output_.append(slice.track.constant);
  output_.append(slice.name.arguments[0].second);
  for (size_t i = 0; i < slice.source.arguments.size(); ++i) {
    if (!slice.has(i)) continue;
    const Argument& argument = slice.source.arguments[i];
    const int64_t value = slice.value(i);
    const auto word = argument.is_coded ? argument.words.find(value) : argument.words.end();
    if (argument.is_coded && word == argument.words.end()) continue;
    output_.append("\"").append(argument.label).append("\":");
    if (argument.is_coded) {
      put_string(output_, word->second);
    } else {
      put_integer(output_, value);
    }
    output_.push_back(',');
  }
  if (output_.size() > begin) output_.pop_back();
}

// An arrow from the call to what it caused.
void ChromeSink::put_flow(const Slice& slice, int64_t tid) {
  const int64_t column = slice.source.correlation;
  if (column < 0 || !slice.has(static_cast<size_t>(column))) return;
  const bool is_effect = slice.source.shape == Shape::kGpu;
  output_.append(is_effect ? "{\"ph\":\"f\",\"bp\":\"e\"," : "{\"ph\":\"s\",");
  output_.append("\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":");
  const int64_t correlation = slice.value(static_cast<size_t>(column));
  put_integer(output_, static_cast<int64_t>(flow_id(slice.track.correlation_scope, correlation)));
  output_.push_back(',');
  put_place(slice, tid);
  output_.append("},\n");
}

}  // namespace rls::timeline
