// The decoder of what shims recorded, as Python sees it.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "shim/limits.h"
#include "shim/phase_merge.h"
#include "shim/ranges.h"
#include "shim/scan.h"

namespace py = pybind11;

namespace rls {
namespace {

template <typename Value>
py::array_t<Value> Copy(const std::vector<Value>& values) {
  return py::array_t<Value>(static_cast<py::ssize_t>(values.size()), values.data());
}

// None: the text was lost. Bytes that are no UTF-8 are replaced.
py::object TextOf(const ShimScan& scan, std::uint64_t hash) {
  const std::string* text = scan.Text(hash);
  if (text == nullptr) return py::none();
  return py::bytes(*text).attr("decode")("utf-8", "replace");
}

// (name, domain, category, color); "" where there is none.
py::list Names(const ShimScan& scan) {
  py::list names;
  for (std::size_t index = 0; index < scan.keys().size(); ++index) {
    const ShimKey& key = scan.keys()[index];
    py::object category = py::str("");
    if (key.category_name != 0) category = TextOf(scan, key.category_name);
    if (key.category_number != 0) category = py::str(std::to_string(key.category_number));
    names.append(py::make_tuple(key.name == 0 ? py::str("") : TextOf(scan, key.name),
                                key.domain == 0 ? py::str("") : TextOf(scan, key.domain), category,
                                scan.colors()[index]));
  }
  return names;
}

py::dict Losses(const ShimLosses& losses) {
  py::dict counts;
  counts["dropped_events"] = losses.dropped_events;
  counts["dropped_names"] = losses.dropped_names;
  counts["interrupted"] = losses.interrupted;
  counts["unbalanced_pops"] = losses.unbalanced_pops;
  counts["too_deep"] = losses.too_deep;
  counts["refused_children"] = losses.refused_children;
  counts["without_slot"] = losses.without_slot;
  counts["cross_thread_ends"] = losses.cross_thread_ends;
  counts["unmatched_ends"] = losses.unmatched_ends;
  counts["damaged"] = losses.damaged;
  counts["cut_names"] = losses.cut_names;
  counts["folded_names"] = losses.folded_names;
  counts["unnamed"] = losses.unnamed;
  counts["too_many"] = losses.too_many;
  counts["bytes_left"] = losses.bytes_left;
  counts["first_ns"] = losses.first_ns;
  counts["unread_rings"] = losses.refused.damaged;
  counts["limited"] = losses.refused.limited;
  counts["no_room"] = losses.refused.no_room;
  counts["refused_memories"] = losses.refused.memories;
  counts["refused_ns"] = losses.refused.first_ns;
  return counts;
}

// The next part as columns, or None.
py::object NextRanges(ShimRangeReader& reader, std::size_t count) {
  const ShimRanges ranges = reader.Next(count);
  if (ranges.is_empty()) return py::none();
  py::dict columns;
  columns["start_ns"] = Copy(ranges.start_ns);
  columns["end_ns"] = Copy(ranges.end_ns);
  columns["key"] = Copy(ranges.key);
  columns["payload"] = Copy(ranges.payload);
  columns["payload_type"] = Copy(ranges.payload_type);
  columns["is_open"] = Copy(ranges.is_open);
  columns["gap_start_ns"] = Copy(ranges.gap_start_ns);
  columns["gap_end_ns"] = Copy(ranges.gap_end_ns);
  return columns;
}

// Not when the module is loaded: see RegisterTypes in spool/bindings.cpp.
void RegisterTypes() {
  static const bool registered = [] {
    PYBIND11_NUMPY_DTYPE(ShimIncarnation, first_ns, last_ns, ranges, gaps, pid, tid);
    PYBIND11_NUMPY_DTYPE(ShimAsync, start_ns, end_ns, pid, key);
    PYBIND11_NUMPY_DTYPE(ShimMark, ts_ns, incarnation, key);
    return true;
  }();
  (void)registered;
}

std::unique_ptr<ShimScan> OpenShimScan(const std::string& path) {
  RegisterTypes();
  const py::gil_scoped_release released;
  return std::make_unique<ShimScan>(path);
}

std::unique_ptr<ShimRangeReader> OpenRanges(const ShimScan& scan,
                                            std::vector<std::size_t> incarnations) {
  for (const std::size_t incarnation : incarnations)
    if (incarnation >= scan.incarnations().size())
      throw py::value_error("no such incarnation: " + std::to_string(incarnation));
  return std::make_unique<ShimRangeReader>(scan, std::move(incarnations));
}

void BindScan(py::module_& module) {
  py::class_<ShimScan>(module, "ShimScan")
      .def(py::init(&OpenShimScan), py::arg("path"))
      .def("source_pids",
           [](const ShimScan& scan) {
             std::vector<std::uint32_t> pids;
             for (const ShimSource& source : scan.sources()) pids.push_back(source.pid);
             return pids;
           })
      .def("incarnations", [](const ShimScan& scan) { return Copy(scan.incarnations()); })
      .def("names", &Names)
      .def("async_ranges", [](const ShimScan& scan) { return Copy(scan.async()); })
      .def("marks", [](const ShimScan& scan) { return Copy(scan.marks()); })
      .def_property_readonly("records", &ShimScan::records)
      .def("losses", [](const ShimScan& scan) { return Losses(scan.losses()); });
  py::class_<ShimRangeReader>(module, "ShimRangeReader")
      .def(py::init([](const ShimScan& scan, std::size_t incarnation) {
             return OpenRanges(scan, {incarnation});
           }),
           py::arg("scan"), py::arg("incarnation"), py::keep_alive<1, 2>())
      .def(py::init(&OpenRanges), py::arg("scan"), py::arg("incarnation"), py::keep_alive<1, 2>())
      .def("next", &NextRanges, py::arg("count"));
}

PhaseInput InputOf(const py::array_t<std::int64_t>& start_ns,
                   const py::array_t<std::int64_t>& end_ns, const py::array_t<std::int32_t>& key,
                   const py::array_t<std::uint8_t>& is_auto) {
  if (end_ns.size() != start_ns.size() || key.size() != start_ns.size() ||
      is_auto.size() != start_ns.size())
    throw py::value_error("the columns differ in length");
  return {start_ns.data(), end_ns.data(), key.data(), is_auto.data(),
          static_cast<std::size_t>(start_ns.size())};
}

void BindPhases(py::module_& module) {
  py::class_<PhaseNames>(module, "PhaseNames")
      .def(py::init<>())
      .def(
          "add",
          [](PhaseNames& names, const py::array_t<std::int64_t>& start_ns,
             const py::array_t<std::int64_t>& end_ns, const py::array_t<std::int32_t>& key,
             const py::array_t<std::uint8_t>& is_auto) {
            names.Add(InputOf(start_ns, end_ns, key, is_auto));
          },
          py::arg("start_ns"), py::arg("end_ns"), py::arg("key"), py::arg("is_auto"));
  module.def(
      "merge_phases",
      [](const py::array_t<std::int64_t>& start_ns, const py::array_t<std::int64_t>& end_ns,
         const py::array_t<std::int32_t>& key, const py::array_t<std::uint8_t>& is_auto,
         const py::array_t<std::int64_t>& steps, const PhaseNames& names) {
        PhaseInput input = InputOf(start_ns, end_ns, key, is_auto);
        if (steps.size() != start_ns.size()) throw py::value_error("the columns differ in length");
        input.steps = steps.data();
        const MergedRanges merged = MergePhases(input, names);
        return py::make_tuple(Copy(merged.start_ns), Copy(merged.end_ns), Copy(merged.row),
                              Copy(merged.steps));
      },
      py::arg("start_ns"), py::arg("end_ns"), py::arg("key"), py::arg("is_auto"), py::arg("steps"),
      py::arg("names"));
}

}  // namespace

void bind_shim_scan(py::module_& module) {
  module.attr("SHIM_MIB_PER_S") = static_cast<int>(kBytesOfProcess.per_s / kMiB);
  module.attr("SHIM_RING_RECORDS") = RLS_SHIM_RING_BYTES / RLS_SHIM_CELL_BYTES;
  BindScan(module);
  BindPhases(module);
}

}  // namespace rls
