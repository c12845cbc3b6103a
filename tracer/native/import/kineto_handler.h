// Follows the JSON of a Chrome trace and hands out its events and what stands around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kineto_event.h"

namespace rls {

// A handler of RapidJSON's SAX parser: its member functions have the names that RapidJSON calls.
class KinetoHandler {
 public:
  // Returns whether to go on.
  using OnEvent = std::function<bool(const KinetoEvent&)>;

  explicit KinetoHandler(OnEvent on_event) : on_event_(std::move(on_event)) {}

  bool Null() { return scalar({}); }
  bool Bool(bool value) { return scalar(value ? "true" : "false"); }
  bool RawNumber(const char* text, unsigned length, bool) { return scalar({text, length}); }
  bool String(const char* text, unsigned length, bool) { return scalar({text, length}); }
  bool Key(const char* text, unsigned length, bool);
  bool StartObject() { return open(true); }
  bool EndObject(unsigned) { return close(true); }
  bool StartArray() { return open(false); }
  bool EndArray(unsigned) { return close(false); }
  // Not called: numbers come as text.
  bool Int(int) { return true; }
  bool Uint(unsigned) { return true; }
  bool Int64(std::int64_t) { return true; }
  bool Uint64(std::uint64_t) { return true; }
  bool Double(double) { return true; }

  // Values outside the events, by their path: "deviceProperties.0.name".
  const std::vector<std::pair<std::string, std::string>>& header() const { return header_; }
  bool has_root() const { return has_root_; }
  bool has_events_array() const { return has_events_array_; }
  bool is_too_deep() const { return is_too_deep_; }
  // Elements of the array of events that are no objects.
  std::int64_t stray_count() const { return stray_count_; }
  // Texts of events that were longer than kMaxTextBytes.
  std::int64_t cut_text_count() const { return cut_text_count_; }

 private:
  // Where the value of a key goes: one of the three, or none where the key opens the arguments.
  struct Field {
    std::string_view key;
    std::string KinetoEvent::*text = nullptr;
    std::optional<ExactInteger> KinetoEvent::*time = nullptr;
    std::int64_t KinetoEvent::*number = nullptr;
  };
  static const Field kEventFields[8];
  static const Field kArgsFields[20];

  bool open(bool is_object);
  bool close(bool is_object);
  bool scalar(std::string_view text);
  bool in_events() const { return events_depth_ > 0; }
  void header_value(std::string_view text);
  void event_value(std::string_view text);

  // A key, or the place in an array, of every container that is open outside the events.
  struct Step {
    bool is_object;
    std::string key;
    std::size_t index;
  };

  OnEvent on_event_;
  KinetoEvent event_;
  std::vector<Step> path_;
  std::vector<std::pair<std::string, std::string>> header_;
  std::size_t header_bytes_ = 0;
  int depth_ = 0;
  int events_depth_ = 0;          // of the array of events while it is open
  const Field* field_ = nullptr;  // of the value that comes next; none: nobody wants it
  bool in_args_ = false;
  bool has_root_ = false;
  bool has_events_array_ = false;
  bool is_too_deep_ = false;
  std::int64_t stray_count_ = 0;
  std::int64_t cut_text_count_ = 0;
};

}  // namespace rls
