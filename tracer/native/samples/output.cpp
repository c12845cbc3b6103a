#include "samples/output.h"

#include <cstring>
#include <utility>

#include "spool/format.h"

namespace rls {
namespace {

// Texts of stacks kept, to write each only once.
constexpr std::size_t kStackTextBytes = std::size_t{64} << 20;
constexpr char kCutMark[] = "...\n";

std::string TextOf(const std::vector<const std::string*>& names, bool cut) {
  std::size_t room = RLS_STACK_BYTES - (sizeof(kCutMark) - 1);
  std::size_t kept = 0;
  while (kept < names.size() && names[kept]->size() + 1 <= room) {
    room -= names[kept]->size() + 1;
    ++kept;
  }
  std::string text = cut || kept < names.size() ? kCutMark : "";
  for (std::size_t i = kept; i > 0; --i) text += *names[i - 1] + '\n';
  return text;
}

}  // namespace

std::uint32_t SampleOutput::StackOf(const std::vector<const std::string*>& names, bool cut) {
  if (names.empty()) return 0;
  if (generation_ != spool_->generation()) {
    // What was reported before is not in the spool, or goes from it. Numbers go on: some may be on
    // their way.
    Flush();
    generation_ = spool_->generation();
    stacks_.clear();
    stack_bytes_ = 0;
  }
  std::string text = TextOf(names, cut);
  const auto found = stacks_.find(text);
  if (found != stacks_.end()) {
    used_.insert(found->second);
    return found->second;
  }
  if (stack_bytes_ + text.size() > kStackTextBytes) {
    ++left_out_;
    return 0;
  }
  stack_bytes_ += text.size();
  const auto stack_id = ++last_stack_id_;
  AddStack(stack_id, text);
  stacks_.emplace(std::move(text), stack_id);
  return stack_id;
}

void SampleOutput::AddStack(std::uint32_t stack_id, const std::string& text) {
  rls_rec_stack head = {};
  head.kind = RLS_REC_STACK;
  head.bytes = static_cast<rls_u16>(text.size());
  head.stack_id = stack_id;
  std::string record(reinterpret_cast<const char*>(&head), sizeof(head));
  record += text;
  AddFrame(record.data(), record.size(), RLS_REC_STACK);
}

void SampleOutput::Add(const rls_rec_sample& sample) {
  AddFrame(&sample, sizeof(sample), RLS_REC_SAMPLE);
}

void SampleOutput::AddFrame(const void* record, std::size_t bytes, std::uint16_t kind) {
  char header[kFrameHeaderBytes] = {};
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(header, &length, sizeof(length));
  frames_.append(header, sizeof(header));
  frames_.append(static_cast<const char*>(record), bytes);
  frames_.resize((frames_.size() + 7) & ~std::size_t{7});
  ++span_.records[kind];
}

void SampleOutput::Flush() {
  if (frames_.empty()) return;
  span_.data = frames_.data();
  span_.bytes = frames_.size();
  if (!spool_->AppendSpan(span_, generation_)) {
    // Stacks that were reported before are not in the spool.
    const std::string frames = std::move(frames_);
    frames_.clear();
    for (const auto& [text, stack_id] : stacks_)
      if (used_.count(stack_id) != 0) AddStack(stack_id, text);
    frames_ += frames;
    span_.data = frames_.data();
    span_.bytes = frames_.size();
    spool_->AppendSpan(span_);
  }
  frames_.clear();
  used_.clear();
  span_ = {};
}

}  // namespace rls
