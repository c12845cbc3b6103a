#include "byte_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "import_limits.h"

namespace rls {
namespace {

constexpr std::size_t kPendingBytes = 1 << 18;
constexpr unsigned char kGzipMagic[] = {0x1f, 0x8b};
constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr int kWaitMs = 100;
// For one that waits in open(2) already, and goes on as soon as we have opened it.
constexpr int kMaxWaitsForWriter = 5;
// Does not wait for a writer of a pipe, nor for who holds a lease on the file.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

}  // namespace

ByteInput::ByteInput(const std::string& path, Tick tick)
    : path_(path),
      tick_(std::move(tick)),
      descriptor_(open(path.c_str(), kOpenFlags)),
      pending_(kPendingBytes) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), path);
  struct stat status {};
  if (fstat(descriptor_, &status) == 0 && status.st_size > 0) {
    file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  is_pipe_ = S_ISFIFO(status.st_mode);
  try {
    if (!is_pipe_ && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
      throw std::system_error(ENOTSUP, std::generic_category(), path);
    }
    fetch();
    is_gzip_ = pending_end_ >= 2 && std::equal(kGzipMagic, kGzipMagic + 2, pending_.begin());
    if (is_gzip_ && inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

ByteInput::~ByteInput() {
  if (is_gzip_) inflateEnd(&stream_);
  close(descriptor_);
}

std::size_t ByteInput::read(char* buffer, std::size_t capacity) {
  if (is_gzip_) return inflate_some(buffer, capacity);
  if (pending_begin_ < pending_end_) {
    const std::size_t count = std::min(capacity, pending_end_ - pending_begin_);
    std::memcpy(buffer, &pending_[pending_begin_], count);
    pending_begin_ += count;
    return count;
  }
  return read_file(reinterpret_cast<unsigned char*>(buffer), capacity);
}

std::size_t ByteInput::read_file(unsigned char* buffer, std::size_t capacity) {
  for (int waits = 0;;) {
    const ssize_t count = ::read(descriptor_, buffer, capacity);
    if (count > 0 || (count == 0 && !awaits_writer())) {
      position_ += static_cast<std::uint64_t>(count);
      return static_cast<std::size_t>(count);
    }
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      throw std::system_error(errno, std::generic_category(), path_);
    }
    if (count == 0 && ++waits > kMaxWaitsForWriter) {
      throw std::system_error(ETIMEDOUT, std::generic_category(), path_);
    }
    wait();
  }
}

bool ByteInput::awaits_writer() const {
  pollfd state{descriptor_, POLLIN, 0};
  return is_pipe_ && position_ == 0 && poll(&state, 1, 0) == 0;
}

void ByteInput::wait() {
  pollfd state{descriptor_, POLLIN, 0};
  poll(&state, 1, kWaitMs);
  tick_(position_, file_bytes_);
}

bool ByteInput::fetch() {
  std::memmove(pending_.data(), &pending_[pending_begin_], pending_end_ - pending_begin_);
  pending_end_ -= pending_begin_;
  pending_begin_ = 0;
  // A pipe may hand out single bytes.
  do {
    const std::size_t count = read_file(&pending_[pending_end_], kPendingBytes - pending_end_);
    if (count == 0) return pending_end_ > 0;
    pending_end_ += count;
  } while (pending_end_ < 2);
  return true;
}

bool ByteInput::next_member() {
  if (pending_end_ - pending_begin_ < 2) fetch();
  const auto begin = pending_.begin() + static_cast<std::ptrdiff_t>(pending_begin_);
  const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(pending_end_);
  if (end - begin >= 2 && std::equal(kGzipMagic, kGzipMagic + 2, begin)) {
    inflateReset(&stream_);
    return true;
  }
  // Zeros are padding, of a tape for example.
  if (std::any_of(begin, end, [](unsigned char byte) { return byte != 0; })) {
    damage_ = "other data follows the compressed data";
  }
  return false;
}

std::size_t ByteInput::inflate_some(char* buffer, std::size_t capacity) {
  stream_.next_out = reinterpret_cast<Bytef*>(buffer);
  stream_.avail_out = static_cast<uInt>(capacity);
  while (!done_ && stream_.avail_out == capacity) {
    if (between_members_) {
      between_members_ = false;
      done_ = !next_member();
      continue;
    }
    if (pending_begin_ == pending_end_ && !fetch()) {
      damage_ = "the compressed data is cut off";
      done_ = true;
      break;
    }
    stream_.next_in = &pending_[pending_begin_];
    stream_.avail_in = static_cast<uInt>(pending_end_ - pending_begin_);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    pending_begin_ = pending_end_ - stream_.avail_in;
    between_members_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      damage_ = stream_.msg != nullptr ? stream_.msg : "the compressed data is damaged";
      done_ = true;
    }
  }
  const std::size_t count = capacity - stream_.avail_out;
  text_bytes_ += count;
  if (text_bytes_ > kFreeTextBytes + position_ * kMaxTextBytesPerByte) {
    damage_ = "it is longer than so few compressed bytes can be a trace of";
    done_ = true;
  }
  return count;
}

}  // namespace rls
