// Vectors of C++ as numpy arrays, without a copy.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <utility>
#include <vector>

namespace rls {

template <typename T>
pybind11::array_t<T> to_numpy(std::vector<T>&& values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  std::vector<T>* const kept = owner.get();
  const pybind11::capsule capsule(
      owner.release(), [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  return pybind11::array_t<T>(kept->size(), kept->data(), capsule);
}

}  // namespace rls
