// System errors reach Python as OSError with their errno.
#ifndef RLSCOPE_TRACE_SYSTEM_ERRORS_H_
#define RLSCOPE_TRACE_SYSTEM_ERRORS_H_

#include <pybind11/pybind11.h>

#include <cerrno>
#include <exception>
#include <system_error>

namespace rls {

inline void TranslateSystemErrors() {
  pybind11::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const std::system_error& error) {
      errno = error.code().value();
      pybind11::set_error(PyExc_OSError, pybind11::make_tuple(error.code().value(), error.what()));
    }
  });
}

}  // namespace rls

#endif  // RLSCOPE_TRACE_SYSTEM_ERRORS_H_
