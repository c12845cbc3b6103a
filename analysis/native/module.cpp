// rlscope_analysis._sweep: the overlap engine. Each half is bound beside its code.
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace rls {
void bind_set_overlap(py::module_& module);
void bind_flatten(py::module_& module);
void bind_segment_stream(py::module_& module);
void bind_thread_sweep(py::module_& module);
}  // namespace rls

PYBIND11_MODULE(_sweep, module) {
  module.doc() = "Overlap engine of rlscope-trace: exact time of every set of active intervals";
  rls::bind_set_overlap(module);
  rls::bind_flatten(module);
  rls::bind_segment_stream(module);
  rls::bind_thread_sweep(module);
}
