// Reading shim.bin: bytes at a place, and records out of bytes.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

#include "regular_file.h"
#include "shim/spool.h"

namespace rls {

class ShimFile {
 public:
  explicit ShimFile(const std::string& path) : fd_(OpenRegularFile(path)) {}
  ShimFile(const ShimFile&) = delete;
  ShimFile& operator=(const ShimFile&) = delete;
  ~ShimFile() { close(fd_); }

  std::uint64_t size() const {
    struct stat status = {};
    return fstat(fd_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }

  // False at the end of the file.
  bool Read(std::uint64_t offset, void* data, std::size_t bytes) const {
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t got = pread(fd_, static_cast<char*>(data) + done, bytes - done,
                                static_cast<off_t>(offset + done));
      if (got == 0) return false;
      if (got > 0) {
        done += static_cast<std::size_t>(got);
      } else if (errno != EINTR) {
        throw std::system_error(errno, std::generic_category(), "reading the spool");
      }
    }
    return true;
  }

 private:
  int fd_;
};

template <typename Record>
Record As(const char* data) {
  Record record;
  std::memcpy(&record, data, sizeof(record));
  return record;
}

inline std::uint16_t KindOf(const char* cell) { return As<std::uint16_t>(cell); }

// Of anything in one recording: more than a program could lose in a year. It can write any number
// there; what nobody can have lost is damage.
constexpr std::uint64_t kMaxLost = std::uint64_t{1} << 48;

// Times are BIGINT in the database.
inline bool IsTime(std::uint64_t ts_ns) { return ts_ns <= INT64_MAX; }

inline std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

inline std::uint32_t CellsOf(std::uint32_t text_bytes) {
  constexpr std::uint32_t kInside = sizeof(rls_shim_string::text);
  if (text_bytes <= kInside) return 1;
  return 1 + (text_bytes - kInside + RLS_SHIM_CELL_BYTES - 1) / RLS_SHIM_CELL_BYTES;
}

// Whether the length of a STRING, of which `left` bytes are there, can be right: a text holds no 0,
// and behind it there is nothing else in its cells. A damaged one would take records for a text.
inline bool IsSoundString(const char* cell, std::size_t left) {
  const std::uint32_t length = As<rls_shim_string>(cell).length;
  const std::uint32_t bytes = CellsOf(length) * RLS_SHIM_CELL_BYTES;
  if (length > RLS_SHIM_MAX_TEXT || bytes > left) return false;
  const char* text = cell + offsetof(rls_shim_string, text);
  return std::memchr(text, 0, length) == nullptr &&
         std::all_of(text + length, cell + bytes, [](char letter) { return letter == 0; });
}

// How many cells a STRING takes: one where it is damaged, so that all passes go on at the same
// record.
inline std::uint32_t CellsOfString(const char* cell, std::size_t left) {
  return IsSoundString(cell, left) ? CellsOf(As<rls_shim_string>(cell).length) : 1;
}

inline bool IsRange(std::uint16_t kind) { return kind == RLS_SHIM_RANGE || kind == RLS_SHIM_OPEN; }

}  // namespace rls
