// The GPU records of shims as Python sees them.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "shim/demangle.h"
#include "shim/gpu_reader.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename Value>
py::array_t<Value> Copy(const std::vector<Value>& values) {
  return py::array_t<Value>(static_cast<py::ssize_t>(values.size()), values.data());
}

// Bytes that are no UTF-8 are replaced.
py::object Decoded(const std::string& text) {
  return py::bytes(text).attr("decode")("utf-8", "replace");
}

// None: there is none, or it was lost.
py::object TextOf(const ShimScan& scan, std::uint64_t hash) {
  const std::string* text = hash == 0 ? nullptr : scan.Text(hash);
  if (text == nullptr) return py::none();
  return Decoded(*text);
}

// Texts by the index that records name them by. CUPTI gives the names of kernels as the linker sees
// them.
py::list Names(const ShimScan& scan) {
  std::vector<std::string> texts;
  for (const std::uint64_t hash : scan.gpu().names()) {
    const std::string* text = scan.Text(hash);
    texts.push_back(text == nullptr ? std::string() : *text);
  }
  const std::vector<std::string> readable = Demangled(texts);
  py::list names;
  for (std::size_t index = 0; index < readable.size(); ++index) {
    const bool is_reported = scan.Text(scan.gpu().names()[index]) != nullptr;
    names.append(is_reported ? Decoded(readable[index]) : py::object(py::none()));
  }
  return names;
}

std::uint64_t CutNames(const ShimScan& scan) {
  std::uint64_t count = 0;
  for (const std::uint64_t hash : scan.gpu().names()) count += scan.IsCut(hash) ? 1 : 0;
  return count;
}

py::list Statuses(const ShimScan& scan) {
  py::list rows;
  for (const auto& [source, record] : scan.gpu().statuses()) {
    py::dict row;
    row["source"] = source;
    row["state"] = record.state;
    row["code"] = record.code;
    row["ts_ns"] = scan.gpu().clock(source).Monotonic(record.ts_ns);
    row["api"] = record.api;
    row["driver"] = record.driver;
    row["why"] = record.why;
    row["subject"] = TextOf(scan, record.subject);
    row["library"] = TextOf(scan, record.library);
    row["recorded"] = record.recorded;
    row["refused"] = record.refused;
    row["is_late"] = record.is_late != 0;
    row["has_clock"] = record.has_clock != 0;
    rows.append(row);
  }
  return rows;
}

// As NVML and CUDA write it.
std::string UuidText(const rls_shim_gpu_device& record) {
  std::string text = record.is_mig != 0 ? "MIG" : "GPU";
  for (std::size_t index = 0; index < sizeof(record.uuid); ++index) {
    char digits[4];
    const bool is_group = index == 0 || index == 4 || index == 6 || index == 8 || index == 10;
    std::snprintf(digits, sizeof(digits), is_group ? "-%02x" : "%02x", record.uuid[index]);
    text += digits;
  }
  return text;
}

py::list Devices(const ShimScan& scan) {
  py::list rows;
  for (const auto& [source, record] : scan.gpu().devices()) {
    bool has_uuid = false;
    for (const std::uint8_t byte : record.uuid) has_uuid = has_uuid || byte != 0;
    py::dict row;
    row["source"] = source;
    row["device"] = record.device;
    row["name"] = TextOf(scan, record.name);
    row["uuid"] = has_uuid ? py::object(py::str(UuidText(record))) : py::none();
    row["memory_bytes"] = record.memory_bytes;
    row["multiprocessors"] = record.multiprocessors;
    row["clock_khz"] = record.clock_khz;
    row["memory_clock_khz"] = record.memory_clock_khz;
    row["memory_bus_bits"] = record.memory_bus_bits;
    row["major"] = record.major;
    row["minor"] = record.minor;
    rows.append(row);
  }
  return rows;
}

// (source, device, context: None, of a GPU; stream: None, of a context; name).
py::list Streams(const ShimScan& scan) {
  const auto number = [](bool is_there, std::uint32_t id) {
    return is_there ? py::object(py::int_(id)) : py::none();
  };
  py::list rows;
  for (const auto& [source, record] : scan.gpu().named())
    rows.append(py::make_tuple(
        source, record.device, number(record.context != kShimUnknownId, record.context),
        number(record.is_stream != 0, record.stream), TextOf(scan, record.name)));
  return rows;
}

// (source, what, activity kind, count, first_ns; 0: not known).
py::list Lost(const ShimScan& scan) {
  py::list rows;
  for (const auto& [key, reported] : scan.gpu().lost()) {
    const auto& [source, what, activity] = key;
    rows.append(py::make_tuple(source, what, activity, reported.first,
                               scan.gpu().clock(source).Monotonic(reported.second)));
  }
  return rows;
}

// source -> (is_known, error_ns, was_set).
py::dict Clocks(const ShimScan& scan) {
  py::dict clocks;
  for (std::uint32_t source = 0; source < scan.sources().size(); ++source) {
    const ShimGpuClock& clock = scan.gpu().clock(source);
    clocks[py::int_(source)] = py::make_tuple(clock.is_known(), clock.error_ns(), clock.was_set());
  }
  return clocks;
}

py::dict Calls(const ShimGpuCalls& calls) {
  py::dict columns;
  columns["source"] = Copy(calls.source);
  columns["tid"] = Copy(calls.tid);
  columns["start_ns"] = Copy(calls.start_ns);
  columns["end_ns"] = Copy(calls.end_ns);
  columns["name"] = Copy(calls.name);
  columns["api"] = Copy(calls.api);
  columns["function"] = Copy(calls.function);
  columns["correlation"] = Copy(calls.correlation);
  columns["result"] = Copy(calls.result);
  return columns;
}

py::dict Activities(const ShimGpuActivities& activities) {
  py::dict columns;
  columns["source"] = Copy(activities.source);
  columns["device"] = Copy(activities.device);
  columns["context"] = Copy(activities.context);
  columns["stream"] = Copy(activities.stream);
  columns["start_ns"] = Copy(activities.start_ns);
  columns["end_ns"] = Copy(activities.end_ns);
  columns["work"] = Copy(activities.work);
  columns["detail"] = Copy(activities.detail);
  columns["name"] = Copy(activities.name);
  columns["correlation"] = Copy(activities.correlation);
  columns["graph"] = Copy(activities.graph);
  columns["bytes"] = Copy(activities.bytes);
  columns["peer_device"] = Copy(activities.peer_device);
  return columns;
}

py::dict Overheads(const ShimGpuOverheads& overheads) {
  py::dict columns;
  columns["source"] = Copy(overheads.source);
  columns["tid"] = Copy(overheads.tid);
  columns["start_ns"] = Copy(overheads.start_ns);
  columns["end_ns"] = Copy(overheads.end_ns);
  columns["what"] = Copy(overheads.what);
  return columns;
}

py::dict Memories(const ShimGpuMemories& memories) {
  py::dict columns;
  columns["source"] = Copy(memories.source);
  columns["device"] = Copy(memories.device);
  columns["context"] = Copy(memories.context);
  columns["ts_ns"] = Copy(memories.ts_ns);
  columns["is_release"] = Copy(memories.is_release);
  columns["memory_kind"] = Copy(memories.memory_kind);
  columns["bytes"] = Copy(memories.bytes);
  columns["address"] = Copy(memories.address);
  columns["correlation"] = Copy(memories.correlation);
  return columns;
}

// The next part: calls, activities, overheads, memories; or None.
py::object NextPart(ShimGpuReader& reader, std::size_t count) {
  const ShimGpuPart part = reader.Next(count);
  if (part.size() == 0) return py::none();
  return py::make_tuple(Calls(part.calls), Activities(part.activities), Overheads(part.overheads),
                        Memories(part.memories));
}

py::dict LeftOut(const ShimGpuReader& reader) {
  py::dict counts;
  counts["untimed"] = reader.left_out().untimed;
  counts["backwards"] = reader.left_out().backwards;
  counts["unconverted"] = reader.left_out().unconverted;
  return counts;
}

// source -> (count, first_ns).
py::dict Unmatched(const std::map<std::uint32_t, ShimGpuUnmatched>& found) {
  py::dict rows;
  for (const auto& [source, unmatched] : found)
    rows[py::int_(source)] = py::make_tuple(unmatched.count, unmatched.first_ns);
  return rows;
}

py::dict Converted(const ShimGpuReader& reader) {
  py::dict rows;
  for (const auto& [source, count] : reader.converted()) rows[py::int_(source)] = count;
  return rows;
}

}  // namespace

void bind_shim_gpu(py::module_& module) {
  py::class_<ShimGpuReader>(module, "ShimGpuReader")
      .def(py::init<const ShimScan&, std::int64_t>(), py::arg("scan"), py::arg("start_ns") = 0,
           py::keep_alive<1, 2>())
      .def("next", &NextPart, py::arg("count"))
      .def("left_out", &LeftOut)
      .def("unmatched", [](const ShimGpuReader& reader) { return Unmatched(reader.unmatched()); })
      .def("unmatched_calls",
           [](const ShimGpuReader& reader) { return Unmatched(reader.unmatched_calls()); })
      .def("converted", &Converted);
  module.def("shim_gpu_names", &Names, py::arg("scan"));
  module.def("shim_gpu_cut_names", &CutNames, py::arg("scan"));
  module.def("shim_gpu_statuses", &Statuses, py::arg("scan"));
  module.def("shim_gpu_devices", &Devices, py::arg("scan"));
  module.def("shim_gpu_streams", &Streams, py::arg("scan"));
  module.def("shim_gpu_lost", &Lost, py::arg("scan"));
  module.def("shim_gpu_clocks", &Clocks, py::arg("scan"));
  module.def(
      "shim_gpu_repeated", [](const ShimScan& scan) { return scan.gpu().repeated(); },
      py::arg("scan"));
  module.def(
      "shim_gpu_has_calls",
      [](const ShimScan& scan, std::uint32_t source) { return scan.gpu().HasCalls(source); },
      py::arg("scan"), py::arg("source"));
}

}  // namespace rls
