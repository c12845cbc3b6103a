#include "samples/python_offsets.h"

namespace rls {
namespace {

// clang-format off
constexpr PythonLayout kLayouts[] = {
    {9, {0, 0, 32, 0, 8, 0, 8, 16, 176, 24, 65535, 24, 32, 65535, 0, {}}, 104, 112, 40, 176, 16, 32, 48, 72},
    {10, {0, 0, 32, 0, 8, 0, 8, 16, 176, 24, 65535, 24, 32, 65535, 0, {}}, 104, 112, 40, 176, 16, 32, 48, 72},
    {11, {0, 0, 40, 0, 16, 0, 8, 16, 152, 56, 8, 48, 32, 69, 0, {}}, 112, 128, 72, 192, 16, 32, 48, 72},
    {12, {0, 0, 40, 0, 72, 0, 8, 16, 136, 56, 0, 8, 0, 70, 0, {}}, 112, 128, 68, 200, 16, 32, 40, 56},
    {13, {0, 0, 632, 7264, 7344, 0, 8, 16, 152, 72, 65535, 8, 0, 70, 0, {}}, 112, 128, 68, 208, 16, 32, 40, 56},
    {14, {0, 0, 808, 7272, 7344, 0, 8, 16, 152, 72, 65535, 8, 0, 74, 0, {}}, 112, 128, 68, 216, 16, 32, 40, 56},
    {15, {0, 0, 936, 7264, 7336, 0, 8, 16, 176, 72, 65535, 8, 0, 74, 0, {}}, 112, 128, 68, 216, 16, 32, 40, 56},
};
// clang-format on

}  // namespace

const PythonLayout* FindPythonLayout(int major, int minor) {
  if (major != 3) return nullptr;
  for (const PythonLayout& layout : kLayouts)
    if (layout.minor == minor) return &layout;
  return nullptr;
}

}  // namespace rls
