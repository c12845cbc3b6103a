// Python's view of the account that the OS kernel keeps of our programs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "probes/program_time.h"
#include "probes/run_time_stats.h"

namespace py = pybind11;

namespace rls {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

py::tuple Stop(ProgramClock& clock) {
  ProgramAccount account;
  {
    const py::gil_scoped_release released;
    account = clock.Stop();
  }
  py::dict programs;
  for (const ProgramTime& program : account.programs)
    programs[py::str(program.name)] = py::make_tuple(program.runs, program.time_ns);
  return py::make_tuple(account.start_ns, account.end_ns, programs);
}

}  // namespace

void bind_program_time(py::module_& module) {
  py::class_<ProgramClock>(module, "ProgramClock")
      .def(py::init<ProgramClock::Programs>(), py::arg("programs"))
      .def("start", &ProgramClock::Start, NoGil())
      .def("stop", &Stop);
  module.def("use_run_time_stats_server", &UseRunTimeStatsServer, py::arg("socket"));
  module.def("serve_run_time_stats", &ServeRunTimeStats, py::arg("socket"));
}

}  // namespace rls
