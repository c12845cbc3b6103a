// The bytes of a file, plain or gzipped, as its first two bytes tell.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rls {

class ByteInput {
 public:
  // (position, size), in bytes of the file
  using Tick = std::function<void(std::uint64_t, std::uint64_t)>;

  // Throws std::system_error if the file cannot be read: ENOTSUP for a device or a socket,
  // ETIMEDOUT for a pipe that nobody opens to write to. tick: called ten times a second while
  // nothing comes; may throw.
  ByteInput(const std::string& path, Tick tick);
  ~ByteInput();
  ByteInput(const ByteInput&) = delete;
  ByteInput& operator=(const ByteInput&) = delete;

  // Fills the buffer with what comes next; returns how much, 0 at the end or at damage.
  std::size_t read(char* buffer, std::size_t capacity);

  bool is_gzip() const { return is_gzip_; }
  // Why a gzipped file ended early; empty: it did not.
  const std::string& damage() const { return damage_; }
  // In bytes of the file itself.
  std::uint64_t position() const { return position_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  std::size_t read_file(unsigned char* buffer, std::size_t capacity);
  std::size_t inflate_some(char* buffer, std::size_t capacity);
  // Fetches compressed bytes, at least two where there are as many; false at the end of the file.
  bool fetch();
  // Whether it is a pipe that nobody has opened yet to write to.
  bool awaits_writer() const;
  void wait();
  // Begins the next member after the end of one; false at the end of the last.
  bool next_member();

  std::string path_;
  Tick tick_;
  int descriptor_;
  bool is_pipe_ = false;
  std::uint64_t position_ = 0;
  std::uint64_t file_bytes_ = 0;
  // That came out of a gzipped file.
  std::uint64_t text_bytes_ = 0;
  bool is_gzip_ = false;
  bool between_members_ = false;
  bool done_ = false;
  std::string damage_;
  z_stream stream_{};
  // Of a plain file, the bytes read to find out; of a gzipped one, compressed bytes.
  std::vector<unsigned char> pending_;
  std::size_t pending_begin_ = 0;
  std::size_t pending_end_ = 0;
};

}  // namespace rls
