// Python's view of the injector.
#include <pybind11/pybind11.h>

#include "inject/inject.h"

namespace py = pybind11;

namespace rls {

void bind_inject(py::module_& module) {
  py::register_exception<InjectError>(module, "InjectError", PyExc_RuntimeError);
  py::class_<Injected>(module, "Injected")
      .def_readonly("tid", &Injected::tid)
      .def_readonly("stopped_ns", &Injected::stopped_ns)
      .def_readonly("attempts", &Injected::attempts);
  module.def(
      "inject",
      [](pid_t pid, std::string library, std::string entry, const py::bytes& data,
         std::int64_t timeout_ns) {
        const Injection injection = {std::move(library), std::move(entry), std::string(data),
                                     std::chrono::nanoseconds(timeout_ns)};
        const py::gil_scoped_release released;
        return Inject(pid, injection);
      },
      py::arg("pid"), py::arg("library"), py::arg("entry"), py::arg("data"), py::kw_only(),
      py::arg("timeout_ns"));
  module.def(
      "read_variable",
      [](pid_t pid, const std::string& library, const std::string& name, std::size_t bytes) {
        return py::bytes(ReadVariable(pid, library, name, bytes));
      },
      py::arg("pid"), py::arg("library"), py::arg("name"), py::arg("bytes"));
}

}  // namespace rls
