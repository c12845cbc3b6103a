#include "perfetto_pass.h"

#include <utility>

namespace rls::timeline {

void Pass::add_track(const Key& key, Track track) {
  order_.emplace(key, tracks_.size());
  tracks_.push_back(std::move(track));
}

void Pass::add_source(Source source) {
  auto head = std::make_unique<Head>();
  head->source = std::move(source);
  heads_.push_back(std::move(head));
}

bool Pass::run(size_t bytes) {
  if (!started_) {
    started_ = true;
    for (auto& head : heads_) advance(*head);
  }
  while (sink_.output().size() < bytes) {
    Head* head = earliest();
    if (head == nullptr) {
      close_all();
      return false;
    }
    feed(*head);
    advance(*head);
  }
  return true;
}

// Moves to the next row that has a track.
void Pass::advance(Head& head) {
  while (next_row(head)) {
    if (place(head)) return;
    ++unplaced_;
  }
  head.done = true;
}

bool Pass::next_row(Head& head) {
  ColumnStream& stream = *head.source.stream;
  if (head.row < 0 || ++head.row == stream.rows()) {
    if (!stream.next_batch()) return false;
    head.row = 0;
  }
  ++rows_;
  head.start = stream.value(0, head.row);
  head.end = stream.value(1, head.row);
  return true;
}

bool Pass::place(Head& head) {
  const ColumnStream& stream = *head.source.stream;
  Key key;
  key.fill(kNull);
  for (int64_t i = 0; i < head.source.keys; ++i) {
    if (!stream.is_null(3 + i, head.row)) {
      key[static_cast<size_t>(i)] = stream.value(3 + i, head.row);
    }
  }
  if (head.track != nullptr && key == head.key) return true;
  const auto found = order_.find(key);
  if (found == order_.end()) return false;
  head.key = key;
  head.order = found->second;
  head.track = &tracks_[found->second];
  return true;
}

Pass::Head* Pass::earliest() {
  Head* first = nullptr;
  for (const auto& head : heads_) {
    if (head->done) continue;
    if (first == nullptr) {
      first = head.get();
    } else if (head->track->group != first->track->group) {
      if (head->order < first->order) first = head.get();
    } else if (head->start < first->start ||
               (head->start == first->start && head->end > first->end)) {
      first = head.get();
    }
  }
  return first;
}

void Pass::feed(Head& head) {
  Track& track = *head.track;
  if (active_.empty() || track.group != group_) {
    close_all();
    group_ = track.group;
  }
  if (!track.is_active) {
    track.is_active = true;
    active_.push_back(&track);
  }
  const auto closed = [&](size_t lane, int64_t end) { sink_.close(track, lane, end); };
  const size_t lane = track.lanes.open(head.start, head.end, closed);
  Source& source = head.source;
  const int64_t id =
      source.stream->is_null(2, head.row) ? kNull : source.stream->value(2, head.row);
  const auto found = source.names.find(id);
  Name& name = found == source.names.end() ? source.unknown : found->second;
  sink_.open({source, track, name, head.row, head.start, head.end, lane});
}

void Pass::close_all() {
  for (Track* track : active_) {
    track->lanes.close_all([&](size_t lane, int64_t end) { sink_.close(*track, lane, end); });
    track->is_active = false;
  }
  active_.clear();
}

}  // namespace rls::timeline
