// rlscope_trace._import: what is too slow in Python of importing the files of other profilers.
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace rls {
void bind_nesting(py::module_& module);
}  // namespace rls

PYBIND11_MODULE(_import, module) {
  module.doc() = "Parsers and range nesting for traces of other profilers";
  rls::bind_nesting(module);
}
