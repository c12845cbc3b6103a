// rlscope_trace._import: what is too slow in Python of importing the files of other profilers.
#include <pybind11/pybind11.h>

#include <cerrno>
#include <exception>
#include <system_error>

namespace py = pybind11;

namespace rls {
void bind_kineto(py::module_& module);
void bind_nesting(py::module_& module);
}  // namespace rls

PYBIND11_MODULE(_import, module) {
  module.doc() = "Parsers and range nesting for traces of other profilers";
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
      errno = error.code().value();
      py::set_error(PyExc_OSError, py::make_tuple(error.code().value(), error.what()));
    }
  });
  rls::bind_kineto(module);
  rls::bind_nesting(module);
}
