// Brings the cycles of a spool, where threads interleave, into the order of their threads.
//
// A stable sort by thread in bounded memory. The threads, in the order wanted, are cut into buckets
// of at most kBucketBytes of cycles. One bucket is sorted straight from records.bin; with several,
// a first sweep scatters the cycles into a scratch file, bucket behind bucket, and each is sorted
// as it is read back. A thread larger than a bucket has one to itself and is streamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spool/scan.h"

namespace rls {

constexpr std::size_t kBucketBytes = 32U << 20;

class CycleSorter {
 public:
  // slots: indices into scan.threads(); the cycles of all other threads are left out. The scan must
  // be complete and outlive the sorter.
  CycleSorter(const SpoolScan& scan, std::vector<std::uint32_t> slots,
              std::string scratch_directory, std::size_t bucket_bytes);
  ~CycleSorter();
  CycleSorter(const CycleSorter&) = delete;
  CycleSorter& operator=(const CycleSorter&) = delete;

  // Scatters for about so many bytes of the spool; false once there is nothing left to scatter.
  bool Scatter(std::uint64_t bytes);

  // The next cycle, in the order of slots and, within a thread, of the spool.
  const rls_rec_cycle& Next();

 private:
  struct Bucket {
    std::size_t first;  // in slots_
    std::size_t last;
    std::uint64_t cycles;
    std::uint64_t file_offset;
    std::vector<rls_rec_cycle> pending;  // waits for its turn to be written
    std::uint64_t written;
  };

  void CutBuckets(std::size_t bucket_bytes);
  void OpenScratch(const std::string& directory);
  void Flush(Bucket* bucket);
  void LoadNext();
  void Place(const rls_rec_cycle& cycle);
  void LoadFromSpool();
  void LoadFromScratch(const Bucket& bucket);
  void ReadScratch(std::uint64_t offset, rls_rec_cycle* cycles, std::size_t count);
  std::uint64_t CyclesOf(std::size_t position) const;

  const SpoolScan& scan_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> bucket_of_;   // by slot
  std::vector<std::uint64_t> next_place_;  // by slot, in loaded_
  std::vector<Bucket> buckets_;
  std::unique_ptr<FrameReader> scatter_reader_;
  std::size_t pending_cycles_ = 0;
  int scratch_fd_ = -1;  // owned
  std::size_t next_bucket_ = 0;
  std::uint64_t streamed_ = 0;
  std::vector<rls_rec_cycle> loaded_;
  std::size_t position_ = 0;
};

}  // namespace rls
