// Python's view of the native probes.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <tuple>

#include "probes/native_probes.h"

namespace py = pybind11;

namespace rls {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;
using Point = std::tuple<std::uint64_t, std::uint32_t, std::uint8_t>;

void Attach(NativeProbes& probes, const std::string& path, const std::vector<Point>& points) {
  std::vector<ProbePoint> made;
  made.reserve(points.size());
  for (const auto& [file_offset, site_id, layer] : points)
    made.push_back({file_offset, site_id, layer});
  probes.Attach(path, made);
}

py::dict Counters(const NativeProbes& probes) {
  py::dict counters;
  for (const auto& [site_id, counts] : probes.Counters())
    counters[py::int_(site_id)] = py::make_tuple(counts.hits, counts.time_ns);
  return counters;
}

}  // namespace

void bind_native(py::module_& module) {
  py::class_<NativeProbes>(module, "NativeProbes")
      .def(py::init([](const std::string& object_path, int threads_fd, int ring_fd, int loss_fd,
                       std::uint32_t sites, const std::string& mode) {
             return std::make_unique<NativeProbes>(
                 object_path, NativeProbes::SharedMaps{threads_fd, ring_fd, loss_fd}, sites, mode);
           }),
           py::arg("object_path"), py::kw_only(), py::arg("threads_fd"), py::arg("ring_fd"),
           py::arg("loss_fd"), py::arg("sites"), py::arg("mode") = "auto")
      .def("attach", &Attach, py::arg("path"), py::arg("points"), NoGil())
      .def("drop", &NativeProbes::Drop, py::arg("site_ids"), NoGil())
      .def("attach_gil", &NativeProbes::AttachGil, py::arg("path"), py::arg("save_offsets"),
           py::arg("restore_offsets"), NoGil())
      .def("detach", &NativeProbes::Detach, NoGil())
      .def("close_open", &NativeProbes::CloseOpen, NoGil())
      .def("counters", &Counters)
      .def("missed", &NativeProbes::MissedRuns)
      .def_property_readonly("unmatched",
                             [](const NativeProbes& p) { return p.Losses().unmatched; })
      .def_property_readonly("too_deep", [](const NativeProbes& p) { return p.Losses().too_deep; })
      .def_property_readonly("abandoned",
                             [](const NativeProbes& p) { return p.Losses().abandoned; })
      .def_property_readonly("declined", [](const NativeProbes& p) { return p.Losses().declined; })
      .def_property_readonly("failed", [](const NativeProbes& p) { return p.Losses().failed; })
      .def_property_readonly("mode", &NativeProbes::mode)
      .def_property_readonly("attempts", &NativeProbes::attempts)
      .def_property_readonly("limit",
                             [](const NativeProbes& probes) -> std::optional<std::uint32_t> {
                               if (probes.limit() == 0) return std::nullopt;
                               return probes.limit();
                             });
}

}  // namespace rls
