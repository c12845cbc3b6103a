// Reads a file of the PyTorch profiler (Kineto): Chrome trace JSON, plain or gzipped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kineto_columns.h"

namespace rls {

struct KinetoFile {
  KinetoColumns columns;
  std::vector<std::pair<std::string, std::string>> header;  // see KinetoHandler::header
  bool is_json = true;
  bool has_events_array = false;
  bool is_gzip = false;
  std::int64_t stray_count = 0;
  std::int64_t cut_text_count = 0;
  // Why and where reading ended early; empty: it did not. The offset is of the uncompressed text.
  std::string damage;
  std::uint64_t damage_offset = 0;
};

// tick(position, size): called every quarter of a mebibyte, in bytes of the file; may throw.
// Damage is reported in the result, which holds every event before it. Throws std::system_error if
// the file cannot be read.
void read_kineto(const std::string& path,
                 const std::function<void(std::uint64_t, std::uint64_t)>& tick, KinetoFile& file);

}  // namespace rls
