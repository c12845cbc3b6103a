#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace rls {

void bind_set_overlap(py::module_& module) { (void)module; }

}  // namespace rls
