// rlscope_trace._capture: what records: programs of the OS kernel, the drain, the collector of
// shims, probes, samples, the finder and late attach. Each is bound beside its code.
#include <pybind11/pybind11.h>

#include "system_errors.h"

namespace py = pybind11;

namespace rls {
void bind_capture(py::module_& module);
void bind_finder(py::module_& module);
void bind_inject(py::module_& module);
void bind_native(py::module_& module);
void bind_sampler(py::module_& module);
void bind_shim(py::module_& module);
}  // namespace rls

PYBIND11_MODULE(_capture, module) {
  module.doc() = "BPF capture, ring drain, probes and samples of rlscope-trace";
  rls::TranslateSystemErrors();
  rls::bind_capture(module);
  rls::bind_finder(module);
  rls::bind_inject(module);
  rls::bind_native(module);
  rls::bind_sampler(module);
  rls::bind_shim(module);
}
