// What one file may ask for: beyond it texts are cut and names merged, and that is counted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rls {

// Of one text that is kept, decoded. Names of templates reach some thousand.
constexpr std::size_t kMaxTextBytes = 1 << 16;
// Of one text as JSON writes it: six bytes make at least one, so what is longer is too long
// decoded.
constexpr std::size_t kMaxRawTextBytes = 8 * kMaxTextBytes;
constexpr std::size_t kMaxNumberBytes = 1024;
// Distinct names, and the bytes of all of them. The names of processes and threads count by
// themselves, with the same limits.
constexpr std::size_t kMaxNames = 100'000;
constexpr std::size_t kMaxNamesBytes = 32 << 20;
// Distinct collectives: their names, each with its process group and its ranks.
constexpr std::size_t kMaxCollectives = 10'000;
constexpr std::size_t kMaxCollectivesBytes = 4 << 20;
// Distinct pairs of pid and tid.
constexpr std::size_t kMaxThreads = 20'000;
constexpr std::size_t kMaxThreadsBytes = 4 << 20;
// Distinct kinds of events that have no place in a trace: each is a line for the reader.
constexpr std::size_t kMaxSkippedKinds = 50;
constexpr std::size_t kMaxSkippedBytes = 64;
// A compressed file may hold so many events, and one more per so many of its bytes: traces of
// PyTorch have one per 20 to 100.
constexpr std::uint64_t kFreeEvents = 1'000'000;
constexpr std::uint64_t kMinBytesPerEvent = 8;
// The same of its text: that of PyTorch is 10 to 40 times as long as the file.
constexpr std::uint64_t kFreeTextBytes = 256 << 20;
constexpr std::uint64_t kMaxTextBytesPerByte = 100;

}  // namespace rls
