// Where the versions of CPython keep their thread states, frames and names: the table is made from
// their headers by scripts/python_offsets.
#pragma once

#include <cstdint>

#include "bpf/sample.h"

namespace rls {

// Offsets and sizes in bytes.
struct PythonLayout {
  int minor;        // of version 3
  rls_python walk;  // what the kernel half needs; runtime and start_stack are 0
  std::uint16_t code_filename;
  std::uint16_t code_name;  // the qualified name where there is one (3.11 and newer)
  std::uint16_t code_line;  // the line of its `def`
  std::uint16_t code_bytes;
  std::uint16_t text_length;         // of a str: its number of characters,
  std::uint16_t text_state;          // its kind,
  std::uint16_t text_ascii_bytes;    // the header before its characters if they are ASCII,
  std::uint16_t text_compact_bytes;  // and if they are not
};

// nullptr: a version that is not known.
const PythonLayout* FindPythonLayout(int major, int minor);

}  // namespace rls
