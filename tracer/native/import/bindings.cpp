#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "decimal_time.h"
#include "kineto_parser.h"
#include "numpy_columns.h"
#include "utf8.h"

namespace py = pybind11;

namespace rls {
namespace {

// Counts how many texts were not UTF-8.
class TextReader {
 public:
  py::str operator()(std::string_view text) {
    bool changed = false;
    const std::string valid = to_valid_utf8(text, changed);
    lossy_count_ += changed ? 1 : 0;
    return py::str(valid);
  }
  std::int64_t lossy_count() const { return lossy_count_; }

 private:
  std::int64_t lossy_count_ = 0;
};

py::tuple pair_of(std::string_view text, TextReader& read) {
  const std::size_t middle = text.find('\0');
  return py::make_tuple(read(text.substr(0, middle)), read(text.substr(middle + 1)));
}

py::tuple triple_of(std::string_view text, TextReader& read) {
  const std::size_t first = text.find('\0');
  const std::size_t second = text.find('\0', first + 1);
  return py::make_tuple(read(text.substr(0, first)),
                        read(text.substr(first + 1, second - first - 1)),
                        read(text.substr(second + 1)));
}

py::object count_of(const Count& count) {
  return py::make_tuple(count.count, count.first_ns == kMissing ? py::none().cast<py::object>()
                                                                : py::int_(count.first_ns));
}

py::dict slices_of(SliceColumns& slices) {
  py::dict columns;
  columns["role"] = to_numpy(std::move(slices.role));
  columns["thread"] = to_numpy(std::move(slices.thread));
  columns["name"] = to_numpy(std::move(slices.name));
  columns["start_ns"] = to_numpy(std::move(slices.start_ns));
  columns["end_ns"] = to_numpy(std::move(slices.end_ns));
  return columns;
}

py::dict calls_of(CallColumns& calls) {
  py::dict columns = slices_of(calls);
  columns["correlation"] = to_numpy(std::move(calls.correlation));
  return columns;
}

py::dict activities_of(ActivityColumns& activities) {
  py::dict columns = calls_of(activities);
  columns["device"] = to_numpy(std::move(activities.device));
  columns["context"] = to_numpy(std::move(activities.context));
  columns["stream"] = to_numpy(std::move(activities.stream));
  columns["event_stream"] = to_numpy(std::move(activities.event_stream));
  columns["event_correlation"] = to_numpy(std::move(activities.event_correlation));
  columns["bytes"] = to_numpy(std::move(activities.bytes));
  columns["graph"] = to_numpy(std::move(activities.graph));
  columns["collective"] = to_numpy(std::move(activities.collective));
  columns["group_size"] = to_numpy(std::move(activities.group_size));
  columns["sequence"] = to_numpy(std::move(activities.sequence));
  return columns;
}

py::dict texts_of(const KinetoFile& file, TextReader& read) {
  py::dict result;
  py::list names, threads, collectives, process_names, thread_names, header;
  for (const std::string& name : file.columns.names.texts()) names.append(read(name));
  for (const std::string& thread : file.columns.threads.texts())
    threads.append(pair_of(thread, read));
  for (const std::string& collective : file.columns.collectives.texts())
    collectives.append(triple_of(collective, read));
  for (const auto& [pid, name] : file.columns.process_names) {
    process_names.append(py::make_tuple(read(pid), read(name)));
  }
  for (const auto& [thread, name] : file.columns.thread_names) {
    thread_names.append(py::make_tuple(pair_of(thread, read), read(name)));
  }
  for (const auto& [path, value] : file.header) {
    header.append(py::make_tuple(read(path), read(value)));
  }
  result["names"] = names;
  result["threads"] = threads;
  result["collectives"] = collectives;
  result["process_names"] = process_names;
  result["thread_names"] = thread_names;
  result["header"] = header;
  return result;
}

py::dict result_of(KinetoFile& file) {
  TextReader read;
  py::dict result = texts_of(file, read);
  py::list skipped;
  for (const auto& [key, count] : file.columns.skipped) {
    skipped.append(py::make_tuple(read(key.first), read(key.second), count_of(count)));
  }
  result["ranges"] = slices_of(file.columns.ranges);
  result["calls"] = calls_of(file.columns.calls);
  result["activities"] = activities_of(file.columns.activities);
  result["skipped"] = skipped;
  result["unreadable"] = count_of(file.columns.unreadable);
  result["rounded"] = count_of(file.columns.rounded);
  result["never_ended"] = count_of(file.columns.never_ended);
  result["never_begun"] = count_of(file.columns.never_begun);
  result["further_kinds"] = count_of(file.columns.further_kinds);
  result["further_collectives"] = count_of(file.columns.further_collectives);
  result["further_names"] = count_of(file.columns.further_names);
  result["further_threads"] = count_of(file.columns.further_threads);
  result["further_owner_names"] = file.columns.further_owner_names;
  result["cut_text_count"] = file.cut_text_count;
  result["event_count"] = file.columns.event_count;
  result["known_phase_count"] = file.columns.known_phase_count;
  result["stray_count"] = file.stray_count;
  result["is_json"] = file.is_json;
  result["has_events_array"] = file.has_events_array;
  result["is_gzip"] = file.is_gzip;
  result["lossy_text_count"] = read.lossy_count();
  result["damage"] = file.damage;
  result["damage_offset"] = file.damage_offset;
  return result;
}

py::dict read_file(const std::string& path, const py::function& progress) {
  KinetoFile file;
  {
    const py::gil_scoped_release released;
    read_kineto(
        path,
        [&](std::uint64_t position, std::uint64_t size) {
          const py::gil_scoped_acquire acquired;
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
          progress(position, size);
        },
        file);
  }
  return result_of(file);
}

py::object decimal(const std::string& text, int shift) {
  const auto number = parse_decimal(text, shift);
  if (!number) return py::none();
  return py::make_tuple(number->value, number->rounded);
}

}  // namespace

void bind_kineto(py::module_& module) {
  module.def("read_kineto", &read_file, py::arg("path"), py::arg("progress"));
  module.def("parse_decimal", &decimal, py::arg("text"), py::arg("shift"));
  module.attr("MISSING") = kMissing;
}

}  // namespace rls
