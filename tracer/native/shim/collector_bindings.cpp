// The collector of shims as Python sees it.
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "shim/collector.h"

namespace py = pybind11;

namespace rls {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

// None: the process has not said.
py::object GpuState(ShimCollector& collector, std::uint32_t pid) {
  std::uint16_t state = 0;
  {
    const py::gil_scoped_release released;
    state = collector.GpuState(pid);
  }
  switch (state) {
    case 0:
      return py::none();
    case RLS_SHIM_GPU_ON:
      return py::str("on");
    case RLS_SHIM_GPU_OFF:
      return py::str("off");
    default:
      return py::str("refused");
  }
}

// pid, tid, name, whether it is a phase that was found, and the sums.
py::list Phases(ShimCollector& collector, std::uint64_t now_ns) {
  std::vector<LivePhaseRow> rows;
  {
    const py::gil_scoped_release released;
    rows = collector.Phases(now_ns);
  }
  py::list phases;
  for (const LivePhaseRow& row : rows)
    phases.append(py::make_tuple(row.pid, row.tid, py::bytes(row.name), row.is_auto,
                                 row.sums.self_ns, row.sums.total_ns, row.sums.count, row.sums.runs,
                                 row.sums.run_start_ns, row.sums.steps, row.sums.last_start_ns));
  return phases;
}

// pid, ns, activities.
py::list Gpu(ShimCollector& collector) {
  py::list work;
  for (const LiveGpuRow& row : collector.Gpu())
    work.append(py::make_tuple(row.pid, row.busy_ns, row.count));
  return work;
}

py::dict Refused(const ShimCollector& collector) {
  const ShimRefused refused = collector.refused();
  py::dict counts;
  counts["damaged"] = refused.damaged;
  counts["limited"] = refused.limited;
  counts["no_room"] = refused.no_room;
  counts["memories"] = refused.memories;
  counts["strangers"] = refused.strangers;
  return counts;
}

}  // namespace

void bind_shim(py::module_& module) {
  py::class_<ShimCollector>(module, "ShimCollector")
      .def(py::init<const std::string&, const std::string&, TracedProcesses*, bool, bool>(),
           py::arg("directory"), py::arg("session"), py::arg("traced") = nullptr,
           py::arg("has_segments") = false, py::arg("has_sums") = false, py::keep_alive<1, 4>())
      .def("start", &ShimCollector::Start)
      .def("rotate", &ShimCollector::Rotate, py::arg("number"), NoGil())
      .def("phases", &Phases, py::arg("now_ns"))
      .def("gpu_work", &Gpu)
      .def("stop", &ShimCollector::Stop, NoGil())
      .def("find", &ShimCollector::Find, py::arg("pid"), NoGil())
      .def("knows", &ShimCollector::Knows, py::arg("pid"), NoGil())
      .def("is_taken", &ShimCollector::IsTaken, py::arg("pid"), NoGil())
      .def("gpu_state", &GpuState, py::arg("pid"))
      .def_property_readonly("sources", &ShimCollector::sources)
      .def_property_readonly("events", &ShimCollector::events)
      .def_property_readonly("lost", &ShimCollector::lost)
      .def("refused", &Refused)
      .def_property_readonly("is_full", &ShimCollector::is_full)
      .def_property_readonly("listings", &ShimCollector::listings);
}

}  // namespace rls
