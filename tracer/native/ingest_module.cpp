// rlscope_trace._ingest: what reads spools and the files of other profilers. It needs no library
// that records, so that a trace can be made where nothing can be recorded.
#include <pybind11/pybind11.h>

#include "system_errors.h"

namespace py = pybind11;

namespace rls {
void bind_events(py::module_& module);
void bind_kineto(py::module_& module);
void bind_nesting(py::module_& module);
void bind_shim_gpu(py::module_& module);
void bind_shim_scan(py::module_& module);
void bind_spool(py::module_& module);
}  // namespace rls

PYBIND11_MODULE(_ingest, module) {
  module.doc() =
      "Decoder of spools, parsers of other profilers' files, and what nests their ranges";
  rls::TranslateSystemErrors();
  rls::bind_events(module);
  rls::bind_kineto(module);
  rls::bind_nesting(module);
  rls::bind_shim_gpu(module);
  rls::bind_shim_scan(module);
  rls::bind_spool(module);
}
