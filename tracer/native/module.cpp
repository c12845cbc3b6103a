// rlscope_trace._capture: the native core. Capture (load, attach, drain) and spool (scan, decode)
// are bound beside their code; system errors reach Python as OSError with their errno.
#include <pybind11/pybind11.h>

#include <exception>
#include <system_error>

namespace py = pybind11;

namespace rls {
void bind_capture(py::module_& module);
void bind_events(py::module_& module);
void bind_finder(py::module_& module);
void bind_inject(py::module_& module);
void bind_native(py::module_& module);
void bind_program_time(py::module_& module);
void bind_sampler(py::module_& module);
void bind_shim(py::module_& module);
void bind_shim_gpu(py::module_& module);
void bind_spool(py::module_& module);
}  // namespace rls

PYBIND11_MODULE(_capture, module) {
  module.doc() = "BPF capture, ring drain and spool decoder of rlscope-trace";
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
      errno = error.code().value();
      py::set_error(PyExc_OSError, py::make_tuple(error.code().value(), error.what()));
    }
  });
  rls::bind_capture(module);
  rls::bind_events(module);
  rls::bind_finder(module);
  rls::bind_inject(module);
  rls::bind_native(module);
  rls::bind_program_time(module);
  rls::bind_sampler(module);
  rls::bind_shim(module);
  rls::bind_shim_gpu(module);
  rls::bind_spool(module);
}
